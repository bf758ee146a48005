"""How Solana is followed: what that costs, with few payments and with many, and without a websocket.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import pytest
import trio

from payd.store.db import Tx
from tests.live.cable import open_cable
from tests.live.conformance import ALL_EVENTS
from tests.live.solana import MERCHANT, POOR, USDC, USDC_MINT, LocalSolana, pubkey
from tests.live.solana_behind import SolanaBehind, open_solana_behind
from tests.live.solana_street import FEE_PAYER
from tests.live.svm_node import ServedNode
from tests.live.test_pace import copy_rows

pytestmark = pytest.mark.real_time

AMOUNT = 25_000_000
# At this pace alone, a payment would take longer than any test waits.
RARELY: Final = "60000"
# A tick is asked for with each block, and long before the next one comes.
MANY = 1000
FEW = 10
TICKS = 8
IN_FLIGHT = 60
# The submitter looks after its purse once a minute, and nodes are compared.
BESIDES = 3


# What it costs.


async def test_a_thousand_open_payments_cost_no_more_questions_than_ten(
    tmp_path: Path, solana: LocalSolana
) -> None:
    async with open_solana_behind(tmp_path / "house", solana, slot_s=None, poll_ms=RARELY) as shop:
        payment_id = await shop.street.payment()
        assert USDC in await shop.street.links(payment_id)
        await open_more(shop, payment_id, FEW)
        few, few_posts = await cost_of_ticks(shop)
        await open_more(shop, payment_id, MANY)
        many, many_posts = await cost_of_ticks(shop)

    assert few == many
    assert few["getSignaturesForAddress"] >= TICKS
    assert many_posts <= few_posts + BESIDES


async def open_more(shop: SolanaBehind, payment_id: str, count: int) -> None:
    """So many payments like this one, whose links are out."""

    def copy(tx: Tx) -> int:
        for table, key in (("payments", "id"), ("watches", "payment_id")):
            copy_rows(tx, table, key, payment_id, count)
        return int(tx.execute("SELECT count(*) FROM watches WHERE chain LIKE 'solana:%'").fetchone()[0])

    assert await shop.street.house.realms["live"].db.write(copy) >= count


async def cost_of_ticks(shop: SolanaBehind) -> tuple[Counter[str], int]:
    """The calls for what is confirmed, by method, and all POSTs, for a few slots that are read one by one."""
    await shop.slots()
    asked, posts = [len(proxy.requests) for proxy in shop.nodes], shop.room.rpc.posts
    for _ in range(TICKS):
        await shop.slots()
    requests = [one for proxy, was in zip(shop.nodes, asked, strict=True) for one in proxy.requests[was:]]
    listed = [one for one in requests if one["method"] == "getSignaturesForAddress"]
    calls = Counter(one["method"] for one in listed if one["params"][1]["commitment"] == "confirmed")
    return calls, shop.room.rpc.posts - posts


async def test_where_nothing_is_open_hundreds_of_slots_pass_between_two_questions(
    tmp_path: Path, solana: LocalSolana
) -> None:
    """That is 15 seconds. A minute has four readings, one more of the balance, and each is a POST or two."""
    async with open_solana_behind(tmp_path / "house", solana, nodes=1) as shop:
        await shop.ticks(1)
        calls, posts, slot = Counter(shop.room.rpc.calls), shop.room.rpc.posts, shop.ledger.tip.slot
        await shop.ticks(1)

        slots = shop.ledger.tip.slot - slot
        assert slots >= 100
        assert shop.room.rpc.posts - posts <= slots / 15
        assert sum((shop.room.rpc.calls - calls).values()) <= slots / 5


async def test_many_payments_in_flight_are_followed_together_and_one_account_pays_for_all(
    tmp_path: Path, solana: LocalSolana
) -> None:
    async with open_solana_behind(tmp_path / "house", solana, nodes=1) as shop:
        payments = [await shop.street.payment() for _ in range(IN_FLIGHT)]
        shop.swallow()

        async def pay(payment_id: str) -> None:
            told = await shop.street.pay(payment_id, USDC, POOR)
            assert told.status_code == 200, told.text

        async with trio.open_nursery() as nursery:
            for payment_id in payments:
                nursery.start_soon(pay, payment_id)
        await shop.true(lambda: shop.brought.in_flight + shop.brought.queued >= IN_FLIGHT)
        before = shop.nodes[0].calls["getSignatureStatuses"]
        await shop.asked("getSlot", 4)
        asked = shop.nodes[0].calls["getSignatureStatuses"] - before
        assert asked <= 8, "one question for all of them"
        had = await solana.lamports(FEE_PAYER)
        shop.recover()

        for payment_id in payments:
            await shop.street.until(payment_id, "settled")
            assert await shop.street.events(payment_id) == ALL_EVENTS
        tx_ids = {shop.submission(payment_id).tx_id for payment_id in payments}
        assert len(tx_ids) == IN_FLIGHT
        paid = await solana.rpc("getSignaturesForAddress", str(FEE_PAYER), {"commitment": "confirmed"})
        assert {one["signature"] for one in paid} == tx_ids
        assert await solana.tokens(pubkey(MERCHANT), USDC_MINT) == IN_FLIGHT * AMOUNT
        spent = had - await solana.lamports(FEE_PAYER)
        assert 0 < spent <= shop.brought.spent_today


# Websockets.


async def test_with_a_websocket_payments_succeed_though_nobody_is_asked_for_a_minute(
    tmp_path: Path, solana: LocalSolana
) -> None:
    assert isinstance(solana.node, ServedNode)
    lines = f'ws = "{solana.node.ws_url}"'
    async with open_solana_behind(tmp_path / "house", solana, lines=lines, poll_ms=RARELY) as shop:
        for way in ("signed", "sent"):
            payment_id = await shop.street.payment()
            if way == "signed":
                await shop.street.pay(payment_id, USDC, POOR)
            else:
                await shop.street.pay_by_link(payment_id)
            await shop.street.until(payment_id, "succeeded", "settled")


async def test_without_its_websocket_payments_go_on_by_asking(tmp_path: Path, solana: LocalSolana) -> None:
    assert isinstance(solana.node, ServedNode)
    async with open_cable(int(solana.node.ws_url.rpartition(":")[2])) as cable:
        lines = f'ws = "{cable.url}"'
        async with open_solana_behind(tmp_path / "house", solana, lines=lines) as shop:
            first = await shop.street.payment()
            await shop.street.pay_by_link(first)
            await shop.street.until(first, "settled")
            assert cable.connections == 1
            cable.is_broken = True
            cable.cut()
            second, third = await shop.street.payment(), await shop.street.payment()
            await shop.street.pay_by_link(second)
            await shop.street.pay(third, USDC, POOR)
            for payment_id in (second, third):
                await shop.street.until(payment_id, "settled")
                assert await shop.street.events(payment_id) == ALL_EVENTS
            await shop.true(lambda: cable.connections >= 2)


async def test_a_websocket_that_is_cut_is_opened_again(tmp_path: Path, solana: LocalSolana) -> None:
    assert isinstance(solana.node, ServedNode)
    async with open_cable(int(solana.node.ws_url.rpartition(":")[2])) as cable:
        lines = f'ws = "{cable.url}"'
        async with open_solana_behind(tmp_path / "house", solana, lines=lines, poll_ms=RARELY) as shop:
            first = await shop.street.payment()
            await shop.street.pay_by_link(first)
            await shop.street.until(first, "succeeded", "settled")
            cable.cut()
            await shop.true(lambda: cable.connections == 2)
            second = await shop.street.payment()
            await shop.street.pay_by_link(second)
            await shop.street.until(second, "succeeded", "settled")
