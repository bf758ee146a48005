"""Nothing ends unpaid over a transfer that pays, nor before the chains of its window were read to the end."""

from __future__ import annotations

import pytest
import trio

from payd.actors.tending import UNREAD_RETRY_MS
from payd.chains.base import Found
from payd.core.payment import FundsCommitted, Payment, PaymentFailed, TransferConfirmed, Trigger, WindowClosed
from payd.core.relay import RelayJob
from payd.store.relays import insert_job
from payd.store.sightings import matched_of
from tests.actors.windows import ASSET, CHAIN, processing_of, sighting, too_much, watched
from tests.shop import BUYER, SIGNATURE, Shop


async def test_a_window_stays_open_until_its_chain_was_read_up_to_its_end(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment_id = await watched(shop)
    expires_at_ms = shop.realm.payments.find(payment_id).expires_at_ms
    read = {CHAIN: expires_at_ms}
    monkeypatch.setattr(shop.realm.payments.chains[0], "read_until_ms", read.get)
    await trio.sleep(3600)
    assert await shop.status(payment_id) == "requires_action"

    read[CHAIN] = expires_at_ms + 1
    await trio.sleep(UNREAD_RETRY_MS / 1000 + 0.1)

    assert await shop.status(payment_id) == "expired"


async def test_a_window_stays_open_when_a_chain_of_it_is_served_no_more(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment_id, other = await watched(shop), await shop.pay()
    monkeypatch.setattr(shop.realm.payments.chains[0], "serves", lambda chain: False)
    await trio.sleep(3600)

    assert await shop.status(payment_id) == "requires_action"
    assert shop.realm.payments.parked == 1
    assert await shop.status(other) == "expired"


@pytest.mark.parametrize("end", [WindowClosed(), PaymentFailed("Another took its place.")])
@pytest.mark.parametrize("committed", ["seen", "told", "brought"])
async def test_what_another_may_pay_ends_once_its_window_was_read_to_the_end(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, end: Trigger, committed: str
) -> None:
    payment_id = await watched(shop)
    payment, processing = shop.realm.payments.find(payment_id), processing_of(shop, payment_id)
    simulated = shop.realm.payments.chains[0]
    read = {CHAIN: payment.expires_at_ms}
    monkeypatch.setattr(simulated, "read_until_ms", read.get)
    looks = 0

    async def look(payment: Payment, now_ms: int) -> Found:
        nonlocal looks
        looks += 1
        return Found(end)

    monkeypatch.setattr(simulated, "look", look)
    results_hash = None if committed == "seen" else b"results"
    await shop.realm.payments.ask(
        payment_id, lambda actor: actor.move(FundsCommitted(processing, results_hash))
    )
    if committed == "brought":
        job = RelayJob(CHAIN, BUYER, ASSET, b"call", payment.expires_at_ms // 1000)
        await shop.realm.db.write(insert_job, payment_id, job, 0)
    await shop.realm.payments.tending.news(payment_id, CHAIN)
    waits = await shop.status(payment_id) == "processing"
    assert waits is (committed != "brought")
    if not waits:
        return
    await trio.sleep(3600)
    assert await shop.status(payment_id) == "processing"
    assert looks == 1, "no node is asked for what cannot be"

    read[CHAIN] = payment.expires_at_ms + 1
    await trio.sleep(UNREAD_RETRY_MS / 1000 + 0.1)

    assert await shop.status(payment_id) in ("failed", "expired")


async def paid_beside(shop: Shop, monkeypatch: pytest.MonkeyPatch, found: Trigger) -> str:
    """A payment that payd brings, of which each look finds this, and that was paid otherwise as well."""
    payment_id = await watched(shop)
    payment, processing = shop.realm.payments.find(payment_id), processing_of(shop, payment_id)

    async def look(payment: Payment, now_ms: int) -> Found:
        return Found(found)

    monkeypatch.setattr(shop.realm.payments.chains[0], "look", look)
    await shop.realm.payments.ask(
        payment_id, lambda actor: actor.move(FundsCommitted(processing, b"results"))
    )
    job = RelayJob(CHAIN, BUYER, ASSET, b"call", payment.expires_at_ms // 1000)
    await shop.realm.db.write(insert_job, payment_id, job, 0)
    await too_much(shop, payment_id)
    return payment_id


@pytest.mark.parametrize("end", [WindowClosed(), PaymentFailed("It could not be brought.")])
async def test_what_could_not_be_brought_does_not_end_a_payment_that_was_paid_otherwise(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, end: Trigger
) -> None:
    payment_id = await paid_beside(shop, monkeypatch, end)

    for _ in range(2):
        await shop.realm.payments.tending.news(payment_id, CHAIN)
        assert await shop.status(payment_id) == "processing"

    [paying] = shop.realm.db.point(matched_of, payment_id)
    assert (paying.tx_id, paying.awaits) == ("0x1", "depth")


async def test_what_was_paid_beside_it_is_no_matter_where_what_payd_brought_has_landed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment_id = await paid_beside(shop, monkeypatch, TransferConfirmed("0x2"))
    await shop.realm.payments.tending.news(payment_id, CHAIN)

    assert await shop.status(payment_id) == "succeeded"
    assert shop.realm.db.point(matched_of, payment_id) == []


async def test_a_transfer_that_its_chain_denies_keeps_no_window_open(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment_id = await watched(shop)
    await shop.realm.db.write(sighting(payment_id, "0xaa"))
    [row] = shop.realm.db.point(matched_of, payment_id)

    async def look(payment: Payment, now_ms: int) -> Found:
        return Found(None, denied=row)

    monkeypatch.setattr(shop.realm.payments.chains[0], "look", look)
    await shop.realm.payments.tending.news(payment_id, CHAIN)

    assert shop.realm.db.point(matched_of, payment_id) == []
    await trio.sleep(901)
    assert await shop.status(payment_id) == "expired"


async def test_results_of_another_length_fail_no_payment_that_a_transfer_pays(shop: Shop) -> None:
    payment = await watched(shop)
    option = (await shop.options(payment, [BUYER]))[0]
    await shop.realm.db.write(sighting(payment, "0xaa"))

    refused = await shop.confirm(payment, option["id"], SIGNATURE, SIGNATURE)

    assert (refused.status, refused.code) == (400, "invalid_state")
    assert await shop.status(payment) == "requires_action"
