"""Nodes of Solana that fail, for moments or for long: what landed meanwhile is read, and no window closes.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.solana import POOR, SOL, USDC, LocalSolana
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

pytestmark = pytest.mark.real_time


async def test_what_lands_while_the_nodes_fail_is_read_afterwards(pair: SolanaBehind) -> None:
    payments = [await pair.street.payment() for _ in range(2)]
    links = [await link_of(pair, one, asset) for one, asset in zip(payments, (USDC, SOL), strict=True)]
    signed = await pair.street.payment()
    option = await pair.street.option(signed, USDC, POOR)
    result = await pair.street.execute(option, POOR)
    pair.fail()
    await pair.unread(1)
    for link in links:
        await follow(pair, link)
    await pair.chain.slots(LONG)
    await pair.unread(1)
    assert {await pair.street.status(one) for one in payments} == {"requires_action"}

    pair.recover()

    await assert_settled(pair, *payments)
    await pair.street.confirm(signed, option, *result)
    await assert_settled(pair, signed)


async def test_payments_that_land_while_the_nodes_answer_503_for_long_are_found(
    tmp_path: Path, solana: LocalSolana
) -> None:
    """Longer than the first steps of the back-off from a node that fails; a blockhash lives longer still."""
    async with open_solana_behind(tmp_path / "house", solana, slot_s=0.2) as pair:
        signed, sent = await sign(pair), await pair.street.payment()
        link = await link_of(pair, sent)
        pair.fail()
        await follow(pair, link)
        await pair.true(lambda: all(node.failures >= 5 for node in pair.room.rpc.nodes))
        pair.recover()

        await assert_settled(pair, signed, sent)


async def test_nodes_that_ask_for_patience_are_let_alone_and_payments_go_on_after_it(
    pair: SolanaBehind,
) -> None:
    payment_id, _ = await send(pair)
    for proxy in pair.nodes:
        proxy.status, proxy.retry_after = 429, "3"
    await pair.true(lambda: not any(node.is_usable for node in pair.room.rpc.nodes))
    posts = [proxy.posts for proxy in pair.nodes]
    await pair.unread(2)
    assert [proxy.posts for proxy in pair.nodes] == posts

    pair.recover()

    await assert_settled(pair, payment_id)


@pytest.mark.parametrize("status", [503, 429])
async def test_with_one_node_that_fails_nothing_succeeds_and_nothing_is_lost(
    pair: SolanaBehind, status: int
) -> None:
    pair.nodes[0].status, pair.nodes[0].retry_after = status, "1"
    payment_id, _ = await send(pair)
    await pair.street.until(payment_id, "processing")
    await pair.read()
    assert await pair.street.status(payment_id) == "processing"

    pair.recover()

    await assert_settled(pair, payment_id)


async def test_a_payment_that_was_paid_in_time_succeeds_though_no_node_told_of_it_until_its_window_was_over(
    pair: SolanaBehind,
) -> None:
    ends_s = pair.ledger.tip.time_s + 4
    paid, unpaid = [await pair.street.payment(expiresAt=ends_s) for _ in range(2)]
    option = await pair.street.option(unpaid)
    late = await pair.street.execute(option)
    link = await link_of(pair, paid)
    pair.fail()
    await pair.unread(1)
    tx_id = await follow(pair, link)
    assert pair.ledger.landed[tx_id].block.time_s < ends_s

    async def is_over() -> bool:
        return (await pair.street.confirm(unpaid, option, *late)).status_code == 410

    await pair.street.wait_for(is_over)
    await pair.true(lambda: pair.ledger.tip.time_s > ends_s + 1)
    assert {await pair.street.status(one) for one in (paid, unpaid)} == {"requires_action"}

    pair.recover()

    await assert_settled(pair, paid)
    await pair.street.until(unpaid, "expired")
    assert await pair.street.events(unpaid) == ["payment.created", "payment.expired"]


async def test_a_signature_that_was_accepted_before_the_nodes_failed_lands_after_its_window(
    pair: SolanaBehind,
) -> None:
    ends_s = pair.ledger.tip.time_s + 3
    payment_id = await pair.street.payment(expiresAt=ends_s)
    pair.swallow()
    told = await pair.street.pay(payment_id, USDC, POOR)
    assert told.json()["status"] == "processing"
    pair.fail()
    await pair.true(lambda: pair.ledger.tip.time_s > ends_s)

    pair.recover()

    await assert_settled(pair, payment_id)
