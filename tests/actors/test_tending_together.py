"""Payments that are due at the same moment: one turn for many, and each with all that is its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from payd.actors.deadlines import TOGETHER_MAX
from payd.actors.payments import PaymentActor
from payd.actors.turns import Turns
from payd.core.errors import StoreUnavailable
from payd.core.status import Status
from payd.store.db import Tx
from payd.store.outbox import NewEvent, put_out
from payd.store.payments import Move
from payd.store.transfers import transfers_of_payment
from tests.shop import BUYER, SIGNATURE, START_MS, Shop, open_shop

MANY = 2 * TOGETHER_MAX + 50


@pytest.fixture
async def hooked(shop: Shop) -> Shop:
    """A shop whose endpoint is owed everything, and is sent nothing."""
    await shop.call("PUT", "/v1/webhooks/endpoint", {"url": "https://shop.example/hook"})
    await shop.call("POST", "/v1/webhooks/endpoint/pause")
    return shop


async def fall_due(shop: Shop, count: int) -> list[str]:
    """Payments whose windows all close in two seconds."""
    ends_s = shop.realm.clock.now_ms() // 1000 + 2
    return [await shop.pay(expiresAt=ends_s) for _ in range(count)]


def histories(tx: Tx) -> dict[str, list[tuple[int, str, int]]]:
    """Of each payment: version, type and number of deliveries of each event."""
    found: dict[str, list[tuple[int, str, int]]] = {}
    for payment_id, version, kind, owed in tx.execute(
        "SELECT e.payment_id, e.version, e.type, count(d.id) FROM events e"
        " LEFT JOIN deliveries d ON d.event_seq = e.seq GROUP BY e.seq ORDER BY e.seq"
    ):
        found.setdefault(payment_id, []).append((version, kind, owed))
    return found


def show_paying(tx: Tx, payment_id: str) -> None:
    """A chain shows a transfer that pays this payment, and that waits for its proof."""
    tx.execute(
        "INSERT INTO transfers (payment_id, chain, tx_id, log_index, asset, value, sender, recipient,"
        " kind, seen_at_ms, block_number, block_hash)"
        " VALUES (?, 'eip155:1', '0x1', 0, 'a', '7', 'b', 'c', 'matched', 1, 5, '0xaa')",
        (payment_id,),
    )


EXPIRED = [(0, "payment.created", 1), (1, "payment.expired", 1)]


async def test_many_expire_in_few_steps_each_with_its_event_its_delivery_and_its_news(
    hooked: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payments = await fall_due(hooked, MANY)
    realm, heard = hooked.realm, list[tuple[str, int, str | None]]()
    tell = realm.payments.tell_all

    def hear(move: Move, endpoint_id: str | None) -> None:
        heard.append((move.payment.id, move.payment.version, endpoint_id))
        tell(move, endpoint_id)

    monkeypatch.setattr(realm.payments, "tell_all", hear)
    steps = realm.db.stats().steps
    await trio.sleep(2.5)

    assert realm.db.point(histories) == dict.fromkeys(payments, EXPIRED)
    assert {realm.payments.find(payment).status for payment in payments} == {Status.EXPIRED}
    assert sorted(payment for payment, *_ in heard) == sorted(payments)
    assert {(version, endpoint is not None) for _, version, endpoint in heard} == {(1, True)}
    assert realm.db.stats().steps - steps < MANY / 10


async def test_after_a_downtime_what_is_confirmed_and_what_expires_needs_no_turn_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_shop(tmp_path / "data") as shop:
        paid, left = await shop.pay(), await shop.pay()
        await shop.confirm(paid, (await shop.options(paid, [BUYER]))[0]["id"], SIGNATURE)

    monkeypatch.setattr(Turns, "ask", None)
    async with open_shop(tmp_path / "data", start_ms=START_MS + 3_600_000) as later:
        await trio.sleep(0.1)

        realm = later.realm
        found = [realm.payments.find(payment).status for payment in (paid, left)]
        assert found == [Status.SUCCEEDED, Status.EXPIRED]
        shown = [
            [one.kind for one in realm.db.point(transfers_of_payment, payment)] for payment in (paid, left)
        ]
        assert shown == [["matched"], []]


async def test_nobody_moves_before_the_time_has_come(shop: Shop) -> None:
    """Who is told of a payment may be told too early: a clock was set back."""
    paid, left = await shop.pay(), await shop.pay()
    await shop.confirm(paid, (await shop.options(paid, [BUYER]))[0]["id"], SIGNATURE)

    tending = shop.realm.payments.tending
    assert list(await tending._tend_together([paid, left])) == [paid, left]
    assert await shop.status(paid) == "processing"
    assert await shop.status(left) == "requires_action"


async def test_one_with_a_turn_of_its_own_keeps_none_of_the_others_waiting(hooked: Shop) -> None:
    slow, *others = await fall_due(hooked, 20)

    async def take_long(_: PaymentActor) -> None:
        await trio.sleep(10)

    async with trio.open_nursery() as nursery:
        await trio.sleep(1)
        nursery.start_soon(hooked.realm.payments.ask, slow, take_long)
        await trio.sleep(2)
        assert {await hooked.status(payment) for payment in others} == {"expired"}
        assert await hooked.status(slow) == "requires_action"

    await trio.sleep(0.1)
    assert hooked.realm.db.point(histories)[slow] == EXPIRED


async def test_a_reservation_is_waited_for(hooked: Shop) -> None:
    reserved, *others = await fall_due(hooked, 5)
    turns = hooked.realm.payments.turns
    turns.wake(reserved).reserved = True
    await trio.sleep(60)
    assert {await hooked.status(payment) for payment in others} == {"expired"}
    assert await hooked.status(reserved) == "requires_action"

    turns.release(turns.wake(reserved))
    await trio.sleep(0.1)
    assert await hooked.status(reserved) == "expired"


async def test_a_store_that_fails_in_the_middle_stores_nothing_of_them_and_all_of_them_later(
    hooked: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payments = await fall_due(hooked, MANY)
    realm = hooked.realm
    left = iter([True])

    def fail(tx: Tx, new: Sequence[NewEvent]) -> list[str | None]:
        if next(left, None) is None:
            raise StoreUnavailable("The disk is full.")
        return put_out(tx, new)

    with monkeypatch.context() as broken:
        broken.setattr("payd.store.payments.put_out", fail)
        await trio.sleep(2.5)
    done = [payment for payment, told in realm.db.point(histories).items() if len(told) > 1]
    assert 0 < len(done) < MANY
    assert {realm.payments.find(payment).status for payment in done} == {Status.EXPIRED}
    await trio.sleep(15)

    assert realm.db.point(histories) == dict.fromkeys(payments, EXPIRED)
    assert realm.payments.parked == 0


async def test_one_that_was_paid_while_they_were_made_ready_stays_open_and_the_others_expire(
    hooked: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transfer is stored after it was asked for, and before their step."""
    paid, *others = await fall_due(hooked, 5)
    realm = hooked.realm
    write, late = realm.db.write, iter([True])

    async def store_before(step: Any, *args: Any, **kwargs: Any) -> Any:
        if next(late, False):
            await write(show_paying, paid)
        return await write(step, *args, **kwargs)

    await trio.sleep(1)
    monkeypatch.setattr(realm.db, "write", store_before)
    await trio.sleep(2)

    assert {await hooked.status(payment) for payment in others} == {"expired"}
    assert await hooked.status(paid) == "requires_action"


async def test_one_that_waits_for_its_proof_keeps_none_of_the_others_from_one_step(hooked: Shop) -> None:
    paid, *others = await fall_due(hooked, 5)
    realm = hooked.realm
    await realm.db.write(show_paying, paid)
    steps = realm.db.stats().steps
    await trio.sleep(3)

    assert realm.db.stats().steps - steps == 1
    assert {await hooked.status(payment) for payment in others} == {"expired"}
    assert await hooked.status(paid) == "requires_action"
