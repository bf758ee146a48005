"""Nodes of Solana that fail, lag or lie: nothing is credited that did not happen, nothing that did is lost.

The nodes are of a chain with the real token programs, and say what a test has them say.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.live.conformance import ALL_EVENTS
from tests.live.proxy import Request, Rewrite
from tests.live.solana import (
    MERCHANT,
    STRANGER,
    USDC_MINT,
    LocalSolana,
    address,
    pubkey,
)
from tests.live.solana_behind import (
    LONG,
    SolanaBehind,
    assert_settled,
    follow,
    link_of,
    open_solana_behind,
    send,
    sign,
)
from tests.live.solana_proxy import with_err, with_more, with_owner
from tests.live.svm_answers import transaction_json
from tests.live.svm_ledger import HASH_LIFE

pytestmark = pytest.mark.real_time

AMOUNT = 25_000_000
# So many blocks take a node out of the first row, for longer than a test looks.
BEHIND = 400
FINAL_AFTER = 6
EXPIRED = ["payment.created", "payment.processing", "payment.expired"]


async def assert_nothing_is_credited(shop: SolanaBehind, payment_id: str) -> None:
    """Neither now nor many slots later."""
    await shop.read()
    await shop.street.later(5)
    await shop.read()
    assert not {"payment.succeeded", "payment.settled"} & set(await shop.street.events(payment_id))


async def pays(shop: SolanaBehind, payment_id: str) -> list[str]:
    """The transactions that the chain has and that pay it."""
    transfers = (await shop.street.detail(payment_id))["transfers"]
    return [one["txId"] for one in transfers if one["onChain"] and one["kind"] == "matched"]


# Nodes that lag.


@pytest.mark.parametrize(("laggard", "way"), [(0, "signed"), (1, "signed"), (0, "sent"), (1, "sent")])
async def test_a_payment_goes_on_with_the_node_that_is_there_and_succeeds_with_both(
    pair: SolanaBehind, laggard: int, way: str
) -> None:
    await pair.chain.slots(2 * BEHIND)
    pair.nodes[laggard].node.lag = BEHIND
    # As the second reading tells sooner or later.
    await pair.room.rpc.heads()
    payment_id = await sign(pair) if way == "signed" else (await send(pair))[0]
    await pair.street.until(payment_id, "processing")
    await pair.read()
    assert await pair.street.status(payment_id) == "processing"

    pair.recover()

    await assert_settled(pair, payment_id)
    assert pair.stats.reorgs == 0


async def test_a_preferred_node_that_stands_still_is_read_after_the_other_one(still: SolanaBehind) -> None:
    """It answers everything, and always the same; nothing that it says is wrong."""
    payment_id, _ = await send(still)
    still.nodes[0].node.lag = BEHIND
    await still.chain.slots(BEHIND)
    await still.asked("getSlot", 1, node=1)

    await still.street.until(payment_id, "processing")
    still.recover()

    await still.street.until(payment_id, "settled", mining=True)
    assert await still.street.events(payment_id) == ALL_EVENTS


async def test_nodes_that_all_fall_behind_what_was_read_are_no_fork(pair: SolanaBehind) -> None:
    await pair.chain.slots(2 * BEHIND)
    payment_id, _ = await send(pair)
    await pair.street.until(payment_id, "processing", "succeeded", "settled")
    for proxy in pair.nodes:
        proxy.node.lag = 2 * BEHIND
    other, _ = await send(pair)
    await pair.ticks(6)
    assert await pair.street.status(other) == "requires_action"

    pair.recover()

    await assert_settled(pair, payment_id, other)
    assert pair.stats.reorgs == 0


async def test_a_payment_succeeds_later_where_the_nodes_are_a_few_slots_behind(pair: SolanaBehind) -> None:
    for proxy, lag in zip(pair.nodes, (3, 5), strict=True):
        proxy.node.lag = lag

    await assert_settled(pair, (await send(pair))[0], await sign(pair))


# Nodes that lie.


def with_slot(more: int) -> Rewrite:
    """Rewrites transactions: each landed so many slots later."""

    def rewrite(request: Request, result: Any) -> Any:
        if request["method"] == "getTransaction" and result is not None:
            return {**result, "slot": result["slot"] + more}
        return result

    return rewrite


LIES = {
    "another amount": with_more(1),
    "a failure": with_err({"InstructionError": [0, {"Custom": 1}]}),
    "another owner": with_owner(address(STRANGER)),
    "another slot": with_slot(1),
}


@pytest.mark.parametrize("way", ["signed", "sent"])
@pytest.mark.parametrize("liar", [0, 1])
@pytest.mark.parametrize("lie", LIES)
async def test_a_payment_succeeds_only_when_both_nodes_show_it(
    pair: SolanaBehind, liar: int, lie: str, way: str
) -> None:
    pair.nodes[liar].rewrite = LIES[lie]
    payment_id = await sign(pair) if way == "signed" else (await send(pair))[0]
    await assert_nothing_is_credited(pair, payment_id)

    pair.recover()

    await assert_settled(pair, payment_id)
    detail = await pair.street.detail(payment_id)
    assert [one["amount"]["value"] for one in detail["transfers"] if one["kind"] == "matched"] == [
        str(AMOUNT)
    ]


async def test_nodes_that_do_not_agree_are_counted(pair: SolanaBehind) -> None:
    pair.nodes[1].rewrite = with_more(1)
    payment_id, _ = await send(pair)
    await pair.true(lambda: pair.room.chain.evidence.disagreements)
    assert await pair.street.status(payment_id) == "requires_action"

    pair.recover()

    await assert_settled(pair, payment_id)


def hiding(tx_id: str) -> Rewrite:
    """Has a transaction in no listing."""

    def rewrite(request: Request, result: Any) -> Any:
        if request["method"] == "getSignaturesForAddress":
            return [one for one in result if one["signature"] != tx_id]
        return result

    return rewrite


async def test_what_the_first_node_lists_nowhere_the_other_one_shows(still: SolanaBehind) -> None:
    payment_id, tx_id = await send(still)
    still.nodes[0].rewrite = hiding(tx_id)
    await still.slots(LONG)
    assert await still.street.events(payment_id) == ["payment.created"]
    await still.street.later(5)
    await still.slots(LONG)

    await assert_settled(still, payment_id)


@pytest.mark.parametrize("hider", [0, 1])
async def test_of_three_nodes_one_may_know_nothing_of_a_payment(
    tmp_path: Path, solana: LocalSolana, hider: int
) -> None:
    async with open_solana_behind(tmp_path / "house", solana, nodes=3) as shop:
        payment_id, tx_id = await send(shop)
        shop.nodes[hider].node.forgotten.add(tx_id)

        await assert_settled(shop, payment_id)


async def invent(shop: SolanaBehind, payment_id: str) -> Rewrite:
    """Has a payment been paid, by a transaction that is on no chain."""
    tx_id = await shop.street.pay_by_link(payment_id)
    landing = shop.ledger.landed[tx_id]
    named = {str(key) for key in landing.keys}
    shown = {**transaction_json(landing), "version": "legacy"}
    entry: dict[str, Any] = {"signature": tx_id, "slot": landing.block.slot, "err": None, "memo": None}
    entry |= {"blockTime": landing.block.time_s, "confirmationStatus": "finalized"}
    status: dict[str, Any] = {
        "slot": landing.block.slot,
        "confirmations": None,
        "err": None,
        "status": {"Ok": None},
    }
    status |= {"confirmationStatus": "finalized"}
    # Nothing else runs between its landing and this.
    assert await shop.chain.rpc("payd_fork", 1) == [tx_id]

    def rewrite(request: Request, result: Any) -> Any:
        first, *options = request["params"] or [None]
        match request["method"]:
            case "getTransaction" if first == tx_id:
                return shown
            case "getSignatureStatuses" if tx_id in first:
                value = [
                    status if one == tx_id else told for one, told in zip(first, result["value"], strict=True)
                ]
                return {**result, "value": value}
            case "getSignaturesForAddress" if first in named and options[0].get("until") != tx_id:
                return sorted([entry, *result], key=lambda one: int(one["slot"]), reverse=True)
        return result

    return rewrite


@pytest.mark.parametrize("liar", [0, 1])
async def test_a_buyer_who_pays_after_a_node_invented_a_transaction_is_credited(
    pair: SolanaBehind, liar: int
) -> None:
    payment_id = await pair.street.payment()
    link = await link_of(pair, payment_id)
    pair.nodes[liar].rewrite = await invent(pair, payment_id)
    await assert_nothing_is_credited(pair, payment_id)
    assert await pair.chain.tokens(pubkey(MERCHANT), USDC_MINT) == 0
    pair.recover()

    tx_id = await follow(pair, link)

    await assert_settled(pair, payment_id)
    assert await pays(pair, payment_id) == [tx_id]


async def test_a_payment_that_is_made_while_a_node_invents_another_is_credited_once_it_does_not(
    pair: SolanaBehind,
) -> None:
    payment_id = await pair.street.payment()
    link = await link_of(pair, payment_id)
    pair.nodes[0].rewrite = await invent(pair, payment_id)
    await pair.true(lambda: pair.room.chain.evidence.disagreements)
    tx_id = await follow(pair, link)
    await assert_nothing_is_credited(pair, payment_id)

    pair.recover()

    await assert_settled(pair, payment_id)
    assert await pays(pair, payment_id) == [tx_id]


async def test_a_status_that_one_node_invents_ends_nothing_and_is_no_success(still: SolanaBehind) -> None:
    """It says that the transaction is confirmed, which nobody brought to the chain."""

    def rewrite(request: Request, result: Any) -> Any:
        if request["method"] != "getSignatureStatuses":
            return result
        slot = result["context"]["slot"]
        told = {"slot": slot, "confirmations": 1, "err": None, "status": {"Ok": None}}
        return {**result, "value": [{**told, "confirmationStatus": "confirmed"} for _ in result["value"]]}

    still.swallow()
    still.nodes[0].rewrite = rewrite
    payment_id = await sign(still)
    await still.slots(LONG)
    await still.street.later(5)
    await still.slots(LONG)
    assert await still.street.status(payment_id) == "processing"

    still.recover()

    await still.street.until(payment_id, "settled", mining=True)
    assert await still.street.events(payment_id) == ALL_EVENTS


# Nodes that say confirmed and then forget.


async def test_what_one_node_said_was_confirmed_and_forgot_pays_nothing_and_expires(
    still: SolanaBehind,
) -> None:
    ends_s = still.ledger.tip.time_s + 60
    payment_id = await still.street.payment(expiresAt=ends_s)
    tx_id = await still.street.pay_by_link(payment_id)
    still.nodes[1].node.lag = 3
    await still.slots()
    await still.street.until(payment_id, "processing")
    assert await still.chain.rpc("payd_fork", 2) == [tx_id]
    still.recover()
    await still.slots(LONG)
    assert await still.street.status(payment_id) == "processing", "it may land again"

    await still.slots(HASH_LIFE)

    async def is_over() -> bool:
        # Ends that are not proven yet are looked at again so often.
        await still.street.later(61)
        return await still.street.status(payment_id) != "processing"

    await still.street.wait_for(is_over)

    assert await still.street.events(payment_id) == EXPIRED
    assert await pays(still, payment_id) == []


async def test_a_link_that_vanishes_after_the_success_is_an_alarm_and_settles_when_it_lands_again(
    still: SolanaBehind,
) -> None:
    payment_id, tx_id = await send(still)
    raw = still.ledger.landed[tx_id].raw
    await still.slots()
    await still.street.until(payment_id, "succeeded")
    assert await still.chain.rpc("payd_fork", 2) == [tx_id]
    await still.slots(FINAL_AFTER)
    await still.street.later(5)
    await still.slots(FINAL_AFTER)
    await still.true(lambda: still.stats.lost == 1)
    assert await still.street.events(payment_id) == ALL_EVENTS[:3]

    await still.chain.send_raw(raw)

    await still.street.until(payment_id, "settled", mining=True)
    assert await still.street.events(payment_id) == ALL_EVENTS
