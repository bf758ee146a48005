"""The walk along accounts: whatever comes to a destination is found, once, and nothing else is asked for."""

from __future__ import annotations

from tests.actors.solana_watching import MERCHANT, PRICE, SOL, SolanaWatching


async def test_a_transfer_with_reference_and_memo_is_stored_and_its_payment_told(
    solana: SolanaWatching,
) -> None:
    payment = await solana.sell()
    paid = await solana.pay(payment)
    assert await solana.watcher.run_once()
    [sighting] = solana.shown(paid)
    landing = solana.ledger.landed[paid]
    assert (sighting.kind, sighting.payment_id, sighting.value) == ("matched", payment, PRICE)
    assert (sighting.block_number, sighting.block_hash) == (landing.block.slot, f"slot:{landing.block.slot}")
    assert sighting.block_time_s == landing.block.time_s
    assert solana.told == [payment]
    assert MERCHANT


async def test_sol_is_found_in_the_wallet_itself(solana: SolanaWatching) -> None:
    payment = await solana.sell(asset=SOL)
    paid = await solana.pay_in_sol(payment)
    await solana.watcher.run_once()
    assert [(one.kind, one.payment_id, one.asset) for one in solana.shown(paid)] == [
        ("matched", payment, SOL)
    ]
