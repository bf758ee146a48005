"""Forks and windows on Solana: what vanished is noticed once, and nothing closes before it is read."""

from __future__ import annotations

import pytest
import trio
from structlog.testing import capture_logs

from payd.actors import account_walk
from payd.actors.account_walk import INDEX_S, INDEX_SLOTS, SECOND_S
from tests.actors.solana_watching import DOWN, FINALIZED, PRICE, WINDOW_S, SolanaWatching
from tests.live.solana import BUYER, MERCHANT, STRANGER, USDC_MINT, pay_token, pubkey


async def test_a_transfer_that_lands_again_in_another_slot_is_shown_there(solana: SolanaWatching) -> None:
    payment = await solana.sell()
    paid = await solana.pay(payment)
    await solana.watcher.run_once()
    [before] = solana.shown(paid)
    raw = solana.ledger.landed[paid].raw
    assert solana.ledger.fork(2) == [paid]
    await solana.local.slots(2)
    await solana.local.send_raw(raw)
    await solana.local.confirm()
    solana.told.clear()
    await solana.watcher.run_once()
    [after] = solana.shown(paid)
    assert after.block_number == solana.ledger.landed[paid].block.slot > before.block_number
    assert (after.kind, solana.told) == ("matched", [payment])
    await solana.later()
    await solana.watcher.run_once()
    assert solana.watcher.stats().reorgs == 0


async def test_what_landed_in_another_slot_is_shown_there_though_nobody_lists_it(
    solana: SolanaWatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    await solana.sell()
    paid = await solana.pay("pay_l1")
    await solana.watcher.run_once()
    [node], landed = solana.nodes, solana.ledger.landed[paid]
    ask = node.ask

    def unlisted(method: str, *params: object) -> object:
        return [] if method == "getSignaturesForAddress" else ask(method, *params)

    monkeypatch.setattr(node, "ask", unlisted)
    await solana.local.slots(1)
    landed.block = solana.ledger.tip
    await solana.later()
    await solana.watcher.run_once()
    assert [(one.kind, one.block_number) for one in solana.shown(paid)] == [("matched", landed.block.slot)]


async def vanish(solana: SolanaWatching, *paid: str) -> None:
    """A fork takes transactions that were confirmed and read, for good."""
    assert set(solana.ledger.fork(1 + len(paid))) >= set(paid)
    await solana.later(SECOND_S + 1)
    assert await solana.watcher.run_once()


async def test_what_vanished_counts_once_its_slot_is_final_and_once_only(solana: SolanaWatching) -> None:
    payment = await solana.sell()
    paid = await solana.pay(payment)
    await solana.watcher.run_once()
    with capture_logs() as logs:
        await vanish(solana, paid)
    assert "chain.reorg" in [one["event"] for one in logs]
    stats = solana.watcher.stats()
    assert (stats.reorgs, stats.lost) == (1, 0)
    assert stats.deepest_reorg > 0
    # Its own proof denies it: it is told of until that has happened.
    assert [one.block_hash is not None for one in solana.shown(paid)] == [True]
    solana.told.clear()
    await solana.later()
    await solana.watcher.run_once()
    assert (solana.told, solana.watcher.stats().reorgs) == ([payment], 1)


async def test_a_payment_that_had_succeeded_by_it_is_an_alarm(solana: SolanaWatching) -> None:
    payment = await solana.sell()
    paid = await solana.pay(payment)
    await solana.watcher.run_once()
    await solana.succeed(payment, paid)
    with capture_logs() as logs:
        await vanish(solana, paid)
    alarms = [one["payment_id"] for one in logs if one["event"] == "chain.reorg_after_success"]
    assert (alarms, solana.watcher.stats().lost) == ([payment], 1)


async def test_what_vanished_and_nobody_looks_after_is_taken_back(two_solanas: SolanaWatching) -> None:
    solana = two_solanas
    payment = await solana.sell()
    plain = await solana.send([pay_token(pubkey(BUYER), pubkey(MERCHANT), USDC_MINT, PRICE)])
    await solana.watcher.run_once()
    assert payment
    await vanish(solana, plain)
    assert [one.block_hash for one in solana.shown(plain)] == [None]


async def test_what_one_node_does_not_list_and_another_knows_has_not_vanished(
    two_solanas: SolanaWatching,
) -> None:
    solana = two_solanas
    payment = await solana.sell()
    paid = await solana.pay(payment)
    await solana.watcher.run_once()
    solana.nodes[1].hides.add(paid)
    solana.nodes[1].unknown.add(paid)
    await solana.later()
    assert await solana.watcher.run_once()
    assert solana.watcher.stats().second_trouble == ""
    assert (solana.watcher.stats().reorgs, solana.kinds(paid)) == (0, ["matched"])


# Windows.


async def test_a_window_is_read_to_its_end_by_the_second_reading_alone(two_solanas: SolanaWatching) -> None:
    solana = two_solanas
    await solana.sell()
    await solana.watcher.run_once()
    solana.nodes[1].does = DOWN
    await solana.later(WINDOW_S + 60)
    await solana.watcher.run_once()
    assert solana.walk.read_until_s() * 1000 < solana.now_ms - WINDOW_S * 1000
    solana.nodes[1].does = None
    await trio.sleep(60)
    await solana.watcher.run_once()
    assert solana.walk.read_until_s() == solana.ledger.at("finalized").time_s - INDEX_S


async def test_windows_close_though_the_other_node_is_behind_at_any_time(two_solanas: SolanaWatching) -> None:
    solana = two_solanas
    other = await solana.local.give(pubkey(MERCHANT), USDC_MINT, 0, at=pubkey(99))
    first, second = await solana.sell("1"), await solana.sell("2")
    await solana.watcher.run_once()
    hidden = await solana.pay(first)
    solana.nodes[0].hides = {hidden}
    paid = await solana.pay(second, target=other)
    solana.nodes[1].lag = 3
    await solana.later(WINDOW_S + 60)
    await solana.later()
    await solana.watcher.run_once()
    assert [solana.kinds(one) for one in (hidden, paid)] == [["matched"]] * 2
    assert solana.walk.read_until_s() * 1000 > solana.payment(second).expires_at_ms
    assert solana.watcher.stats().second_trouble == ""


@pytest.mark.parametrize("lag", [0, INDEX_SLOTS // 2, INDEX_SLOTS - 1])
async def test_no_window_closes_before_every_index_shows_what_was_paid_in_it(
    two_solanas: SolanaWatching, lag: int
) -> None:
    solana = two_solanas
    payment = await solana.sell()
    for node in solana.nodes:
        node.index_lag = FINALIZED + lag
    await solana.watcher.run_once()
    solana.ledger.ahead_s += WINDOW_S - 3
    await solana.local.slots(1)
    paid = await solana.pay(payment)
    expires_at_ms = solana.payment(payment).expires_at_ms
    assert solana.ledger.landed[paid].block.time_s * 1000 < expires_at_ms
    while not solana.kinds(paid):
        assert solana.walk.read_until_s() * 1000 < expires_at_ms
        solana.ledger.ahead_s += 2
        await solana.local.slots(5)
        await solana.watcher.run_once()
    assert solana.kinds(paid) == ["matched"]
    await solana.later(INDEX_S + 10)
    await solana.watcher.run_once()
    assert solana.walk.read_until_s() * 1000 > expires_at_ms


async def test_a_transfer_to_another_token_account_is_found_by_its_reference_before_the_window_closes(
    solana: SolanaWatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account_walk, "CLOSING_MAX", 2)
    other = await solana.local.give(pubkey(MERCHANT), USDC_MINT, 0, at=pubkey(99))
    payments = [await solana.sell(str(number)) for number in range(5)]
    paid = [await solana.pay(payment, target=other) for payment in payments]
    await solana.later()
    await solana.watcher.run_once()
    assert [solana.shown(one) for one in paid] == [[]] * 5
    await solana.later(WINDOW_S + 60)
    await solana.watcher.run_once()
    assert [solana.kinds(one) for one in paid] == [["matched"]] * 5
    assert sorted(solana.told) == payments
    assert solana.walk.read_until_s() * 1000 > solana.payment(payments[0]).expires_at_ms


async def test_references_that_many_name_are_read_to_their_end_before_the_window_closes(
    solana: SolanaWatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has a link can name its payment in as many transactions as he likes to pay for."""
    monkeypatch.setattr(account_walk, "READ_MAX", 3)
    monkeypatch.setattr(account_walk, "READ_KEPT_MAX", 6)
    other = await solana.local.give(pubkey(MERCHANT), USDC_MINT, 0, at=pubkey(99))
    strange = await solana.local.give(pubkey(STRANGER), USDC_MINT, 0, at=pubkey(98))
    payments = [await solana.sell(str(number)) for number in range(5)]
    for _ in range(4):
        for payment in payments:
            await solana.pay(payment, target=strange)
    paid = [await solana.pay(payment, target=other) for payment in payments]
    await solana.later()
    await solana.watcher.run_once()
    await solana.later(WINDOW_S + 60)
    await solana.watcher.run_once()
    assert [solana.kinds(one) for one in paid] == [["matched"]] * 5
    assert solana.walk.read_until_s() * 1000 > solana.payment(payments[0]).expires_at_ms


async def test_references_are_looked_up_once(solana: SolanaWatching) -> None:
    await solana.sell()
    await solana.later(WINDOW_S + 60)
    await solana.watcher.run_once()
    calls = solana.rpc.calls["getSignaturesForAddress"]
    await solana.later()
    await solana.watcher.run_once()
    # Two readings of the one account that is quiet now: no turn of it has come.
    assert solana.rpc.calls["getSignaturesForAddress"] - calls <= 2
