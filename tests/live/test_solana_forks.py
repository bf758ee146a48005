"""Forks of Solana, and transactions that no block takes: nothing is paid twice, lost, or given up too early.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.live.conformance import ALL_EVENTS
from tests.live.solana import BUYER, MERCHANT, POOR, SOL, USDC, USDC_MINT, LocalSolana, pubkey
from tests.live.solana_behind import LONG, SolanaBehind, open_solana_behind
from tests.live.solana_street import open_furnished
from tests.live.svm_ledger import HASH_LIFE

pytestmark = pytest.mark.real_time

AMOUNT = 25_000_000
FINAL = 4
EXPIRED = ["payment.created", "payment.processing", "payment.expired"]


@pytest.fixture
async def solana() -> AsyncIterator[LocalSolana]:
    async with open_furnished(finalized=FINAL) as local:
        yield local


async def sign(shop: SolanaBehind, asset: str = USDC, place: int = POOR) -> tuple[str, str]:
    """A payment whose signed transaction was accepted, and that one's id."""
    payment_id = await shop.street.payment()
    told = await shop.street.pay(payment_id, asset, place)
    assert (told.status_code, told.json()["status"]) == (200, "processing")
    return payment_id, shop.submission(payment_id).tx_id


async def settled_once(shop: SolanaBehind, payment_id: str, tx_id: str) -> None:
    """It ends well, by one transfer, and was told of everything once."""
    await shop.street.until(payment_id, "settled", mining=True)
    assert await shop.street.events(payment_id) == ALL_EVENTS
    [transfer] = (await shop.street.detail(payment_id))["transfers"]
    assert (transfer["kind"], transfer["txId"]) == ("matched", tx_id)
    assert await shop.chain.tokens(pubkey(MERCHANT), USDC_MINT) == AMOUNT


# Taken away, and landed again.


async def test_what_a_fork_took_before_any_vote_is_sent_again_and_lands(still: SolanaBehind) -> None:
    payment_id, tx_id = await sign(still)
    await still.true(lambda: still.landed(tx_id))

    assert await still.chain.rpc("payd_fork", 1) == [tx_id]

    await still.slots()
    await still.true(lambda: still.landed(tx_id))
    await settled_once(still, payment_id, tx_id)
    assert still.brought.bumps > 0


async def test_a_fork_after_the_success_is_told_to_the_operator_until_the_transaction_has_landed_again(
    still: SolanaBehind,
) -> None:
    payment_id, tx_id = await sign(still)
    await still.true(lambda: still.landed(tx_id))
    await still.slots()
    await still.street.until(payment_id, "succeeded")
    still.swallow()

    assert await still.chain.rpc("payd_fork", 2) == [tx_id]
    await still.slots(2)
    await still.true(lambda: "lost" in still.brought.alarms)
    still.recover()

    await still.true(lambda: still.landed(tx_id))
    await settled_once(still, payment_id, tx_id)
    await still.true(lambda: not still.brought.alarms)


async def test_a_link_that_a_fork_took_before_any_vote_has_paid_nothing(still: SolanaBehind) -> None:
    payment_id = await still.street.payment()
    tx_id = await still.street.pay_by_link(payment_id)

    assert await still.chain.rpc("payd_fork", 1) == [tx_id]

    await still.slots(LONG)
    assert await still.street.events(payment_id) == ["payment.created"]
    again = await still.street.pay_by_link(payment_id)
    await settled_once(still, payment_id, again)


async def test_a_transfer_that_lands_in_another_slot_after_a_fork_pays_once(still: SolanaBehind) -> None:
    """The wallet sends it again, and the server had it in a slot that lost."""
    payment_id = await still.street.payment()
    tx_id = await still.street.pay_by_link(payment_id)
    raw = still.ledger.landed[tx_id].raw
    still.nodes[1].node.lag = 3
    await still.slots()
    await still.street.until(payment_id, "processing")
    before = still.ledger.landed[tx_id].block.slot
    assert await still.chain.rpc("payd_fork", 2) == [tx_id]
    still.recover()
    await still.slots(2)
    await still.chain.send_raw(raw)
    assert still.ledger.landed[tx_id].block.slot > before
    await still.street.later(5)

    await settled_once(still, payment_id, tx_id)


# Taken away for good.


async def test_what_never_lands_expires_once_both_nodes_have_its_last_height_as_final(
    still: SolanaBehind,
) -> None:
    still.swallow()
    payment_id, tx_id = await sign(still)
    last = still.submission(payment_id).valid_until_height
    await still.street.later(121)
    await still.slots(last - still.ledger.tip.height + FINAL)
    assert still.ledger.at("finalized").height == last
    await still.asked("getSignatureStatuses")
    assert await still.street.status(payment_id) == "processing", "the last block may have it"

    still.nodes[1].node.lag = 3
    await still.slots(3)
    await still.asked("getSignatureStatuses")
    await still.asked("getSignatureStatuses", node=1)
    assert await still.street.status(payment_id) == "processing", "the other node is not there yet"

    still.nodes[1].node.lag = 0
    await still.street.until(payment_id, "expired", mining=True)
    assert await still.street.events(payment_id) == EXPIRED
    assert still.submission(payment_id).state == "dead"
    assert not still.landed(tx_id)


async def test_what_a_fork_took_for_good_after_the_success_stays_an_alarm_of_the_operator(
    still: SolanaBehind,
) -> None:
    """A webhook was sent, so the payment stays what it was; the money is not there, and the log says so."""
    payment_id, tx_id = await sign(still)
    await still.true(lambda: still.landed(tx_id))
    await still.slots()
    await still.street.until(payment_id, "succeeded")
    still.swallow()
    await still.chain.rpc("payd_fork", 2)
    await still.slots(2)
    await still.true(lambda: "lost" in still.brought.alarms)
    await still.slots(HASH_LIFE + FINAL)
    await still.true(lambda: still.submission(payment_id).state == "dead")
    await still.street.later(5)
    await still.slots(LONG)
    await still.true(lambda: still.stats.lost == 1)

    assert await still.street.events(payment_id) == ALL_EVENTS[:3]
    assert not (await still.street.detail(payment_id))["settlement"]["settled"]


async def test_what_lands_in_the_last_block_that_takes_it_settles(still: SolanaBehind) -> None:
    still.swallow()
    payment_id, tx_id = await sign(still)
    last = still.submission(payment_id).valid_until_height
    await still.slots(last - still.ledger.tip.height)
    still.street.wake()
    await still.asked("sendTransaction", 1)
    assert not still.landed(tx_id)

    still.recover()

    await still.true(lambda: still.landed(tx_id))
    assert still.ledger.landed[tx_id].block.height == last
    await settled_once(still, payment_id, tx_id)


@pytest.mark.parametrize("asset", [USDC, SOL], ids=["USDC", "SOL"])
async def test_a_signature_that_comes_too_late_is_refused_and_what_is_fetched_again_is_paid(
    still: SolanaBehind, asset: str
) -> None:
    payment_id = await still.street.payment()
    option = await still.street.option(payment_id, asset, BUYER)
    late = await still.street.execute(option, BUYER)
    await still.slots(HASH_LIFE + 1)

    told = await still.street.confirm(payment_id, option, *late)
    assert told.status_code in (400, 409, 410), told.text
    assert "again" in told.text
    assert await still.street.events(payment_id) == ["payment.created"]

    again = await still.street.option(payment_id, asset, BUYER)
    told = await still.street.confirm(payment_id, again, *await still.street.execute(again, BUYER))
    assert told.status_code == 200, told.text
    await still.street.until(payment_id, "settled", mining=True)
    assert await still.street.events(payment_id) == ALL_EVENTS


# Listings that lag.


async def test_what_the_index_of_both_nodes_shows_slots_later_is_found_and_so_is_the_next_one(
    tmp_path: Path,
) -> None:
    async with (
        open_furnished(finalized=12) as solana,
        open_solana_behind(tmp_path / "house", solana) as shop,
    ):
        for proxy in shop.nodes:
            proxy.node.index_lag = 8
        payments = []
        for _ in range(4):
            payment_id = await shop.street.payment()
            await shop.street.pay_by_link(payment_id)
            payments.append(payment_id)
            await shop.read(3)
        for payment_id in payments:
            await shop.street.until(payment_id, "settled")
            assert await shop.street.events(payment_id) == ALL_EVENTS


async def test_a_link_that_is_paid_in_the_windows_last_second_counts_though_the_index_lags(
    tmp_path: Path,
) -> None:
    async with (
        open_furnished(finalized=12) as solana,
        open_solana_behind(tmp_path / "house", solana) as shop,
    ):
        for proxy in shop.nodes:
            proxy.node.index_lag = 8
        ends_s = shop.ledger.tip.time_s + 4
        paid, unpaid = [await shop.street.payment(expiresAt=ends_s) for _ in range(2)]
        link = (await shop.street.links(paid))[USDC]
        assert (await shop.street.links(unpaid))[USDC] != link
        await shop.true(lambda: shop.ledger.tip.time_s >= ends_s - 1)
        await shop.street.pay_by_link(paid)

        await shop.street.until(paid, "settled")
        await shop.street.until(unpaid, "expired")
        assert await shop.street.events(paid) == ALL_EVENTS
