"""Repair by hand on Solana: a pasted transaction id is proven by nodes before anything is recorded."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from payd.core.errors import ChainUnavailable, InvalidParams
from payd.core.payment import PaymentCancelled
from payd.store.db import Database
from tests.actors.solana_watching import DOWN, PRICE, SOL, SolanaWatching, open_solana
from tests.live.solana import BUYER, MERCHANT, STRANGER, USDC_MINT, keypair, pay_token, pubkey, tx_id_of


async def missed(solana: SolanaWatching) -> tuple[str, str]:
    """A payment, and the transaction that pays it, in a place that is not listed."""
    payment = await solana.sell()
    other = await solana.local.give(pubkey(MERCHANT), USDC_MINT, 0, at=pubkey(99))
    paid = await solana.pay(payment, target=other)
    await solana.watcher.run_once()
    assert solana.shown(paid) == []
    return payment, paid


async def test_a_transaction_that_was_missed_is_matched_and_its_payment_told(
    two_solanas: SolanaWatching,
) -> None:
    solana = two_solanas
    payment, tx_id = await missed(solana)
    result = await solana.watcher.match(f" {tx_id}\n")
    assert (result.outcome, [one.kind for one in result.sightings]) == ("recorded", ["matched"])
    assert result.sightings == tuple(solana.shown(tx_id))
    assert solana.told == [payment]
    assert (await solana.watcher.match(tx_id)).sightings == result.sightings
    assert solana.count("transfers") == 1


async def test_what_is_stored_as_what_pays_is_nothing_else_by_one_nodes_word(solana: SolanaWatching) -> None:
    payment = await solana.sell()
    paid = await solana.pay(payment)
    await solana.watcher.run_once()
    before = solana.shown(paid)
    assert [one.kind for one in before] == ["matched"]

    def more(shown: dict[str, Any]) -> None:
        for one in shown["meta"]["postTokenBalances"]:
            amount = one["uiTokenAmount"]
            amount["amount"] = str(int(amount["amount"]) + 1)

    solana.nodes[0].lies = more
    await solana.watcher.found(paid)
    assert solana.shown(paid) == before


async def test_what_pays_nothing_is_recorded_and_nobody_told(solana: SolanaWatching) -> None:
    payment, tx_id = await missed(solana)
    await solana.move(payment, PaymentCancelled("cancelled_by_user"))
    result = await solana.watcher.match(tx_id)
    assert [one.kind for one in result.sightings] == ["late"]
    assert "late" in result.words
    assert solana.told == []


async def test_sol_is_found_a_month_after_it_was_offered(solana: SolanaWatching) -> None:
    payment = await solana.sell(asset=SOL)
    await trio.sleep(20 * 24 * 3600)
    paid = await solana.pay_in_sol(payment)
    solana.nodes[0].hides.add(paid)
    await solana.watcher.run_once()
    solana.nodes[0].hides.clear()
    result = await solana.watcher.match(paid)
    assert [(one.kind, one.payment_id) for one in result.sightings] == [("matched", payment)]


async def test_a_transaction_that_cannot_be_recorded_is_explained(solana: SolanaWatching) -> None:
    payment = await solana.sell()
    failed = await solana.pay(payment, 10**15)
    await solana.local.give(pubkey(STRANGER), USDC_MINT, 0)
    foreign = await solana.send([pay_token(pubkey(BUYER), pubkey(STRANGER), USDC_MINT, PRICE)])
    unsent = tx_id_of(await solana.local.signed([], keypair(BUYER)))
    await solana.watcher.run_once()
    paid = await solana.pay(payment)
    raw = await solana.local.signed(
        [pay_token(pubkey(BUYER), pubkey(MERCHANT), USDC_MINT, 1)], keypair(BUYER)
    )
    await solana.local.send_raw(raw)
    found = [
        (await solana.watcher.match(tx_id)).outcome
        for tx_id in (unsent, failed, foreign, paid, tx_id_of(raw))
    ]
    assert found == ["unknown", "reverted", "not_ours", "not_read_yet", "not_mined"]
    assert (solana.count("transfers"), solana.told) == (0, [])


@pytest.mark.parametrize("text", ["", "0x" + "00" * 32, "pay_l1", "1" * 64 + "0", "5" * 200, "1" * 63])
async def test_what_is_no_transaction_id_is_refused(solana: SolanaWatching, text: str) -> None:
    with pytest.raises(InvalidParams, match="64 bytes in base58"):
        await solana.watcher.match(text)


async def test_one_node_that_lies_records_nothing(two_solanas: SolanaWatching) -> None:
    solana = two_solanas
    _, tx_id = await missed(solana)
    honest = solana.nodes[0].ask

    def lying(change: Any) -> Any:
        def ask(method: str, *params: Any) -> Any:
            said = honest(method, *params)
            return change(said) if method == "getTransaction" and said is not None else said

        return ask

    def larger(said: Any) -> Any:
        tokens = [
            {**one, "uiTokenAmount": {**one["uiTokenAmount"], "amount": "999"}}
            for one in said["meta"]["postTokenBalances"]
        ]
        return {**said, "meta": {**said["meta"], "postTokenBalances": tokens}}

    lies = (
        larger,
        lambda said: None,
        lambda said: {**said, "slot": said["slot"] - 1},
        lambda said: {**said, "meta": {**said["meta"], "err": "AccountInUse"}},
    )
    for place in (0, 1):
        for lie in lies:
            solana.nodes[place].ask = lying(lie)  # type: ignore[method-assign]
            assert (await solana.watcher.match(tx_id)).outcome == "disagreement"
        solana.nodes[place].ask = honest  # type: ignore[method-assign]
    assert solana.count("transfers") == 0


async def test_of_three_nodes_one_that_has_forgotten_it_hides_nothing(realm_db: Database) -> None:
    async with open_solana(realm_db, 3) as solana:
        payment, tx_id = await missed(solana)
        solana.nodes[0].unknown.add(tx_id)
        solana.nodes[0].hides.add(tx_id)
        assert (await solana.watcher.match(tx_id)).outcome == "recorded"
        assert solana.told == [payment]
        solana.nodes[1].hides.add(tx_id)
        assert (await solana.watcher.match(tx_id)).outcome == "disagreement"


async def test_a_node_that_does_not_know_the_time_agrees_all_the_same(two_solanas: SolanaWatching) -> None:
    solana = two_solanas
    _, tx_id = await missed(solana)
    honest = solana.nodes[0].ask

    def ask(method: str, *params: Any) -> Any:
        said = honest(method, *params)
        return {**said, "blockTime": None} if method == "getTransaction" else said

    solana.nodes[0].ask = ask  # type: ignore[method-assign]
    assert (await solana.watcher.match(tx_id)).outcome == "recorded"
    [shown] = solana.shown(tx_id)
    assert abs(shown.block_time_s - solana.ledger.landed[tx_id].block.time_s) <= 1


async def test_one_of_two_nodes_is_enough_where_the_other_is_away(two_solanas: SolanaWatching) -> None:
    payment, tx_id = await missed(two_solanas)
    two_solanas.nodes[0].does = DOWN
    assert (await two_solanas.watcher.match(tx_id)).outcome == "recorded"
    assert two_solanas.told == [payment]


async def test_without_a_node_nothing_is_known(solana: SolanaWatching) -> None:
    _, tx_id = await missed(solana)
    solana.nodes[0].does = DOWN
    with pytest.raises(ChainUnavailable) as found:
        await solana.watcher.match(tx_id)
    assert not any(node.name in str(found.value) for node in solana.rpc.nodes), "merchants read this"


async def test_what_one_node_has_seen_is_on_its_way(two_solanas: SolanaWatching) -> None:
    solana = two_solanas
    raw = await solana.local.signed(
        [pay_token(pubkey(BUYER), pubkey(MERCHANT), USDC_MINT, 1)], keypair(BUYER)
    )
    await solana.local.send_raw(raw)
    solana.nodes[0].unknown.add(tx_id_of(raw))
    assert (await solana.watcher.match(tx_id_of(raw))).outcome == "not_mined"
