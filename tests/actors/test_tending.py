"""What payments wait for: each is looked after at its time, and what goes wrong with one harms no other."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from payd.actors.payments import PaymentActor
from payd.actors.tending import CRASHES_MAX, LOOK_DEADLINE_S, LOOKS_AT_ONCE_MAX, UNREAD_RETRY_MS
from payd.actors.turns import INBOX_MAX
from payd.chains.base import Found
from payd.chains.simulated import SimulatedChain
from payd.core.errors import ChainUnavailable, InvalidState, StoreUnavailable
from payd.core.payment import (
    FundsCommitted,
    Payment,
    PaymentFailed,
    TransferConfirmed,
    Trigger,
    WindowClosed,
)
from payd.core.status import Status
from payd.store.db import Tx
from payd.store.transfers import Follow
from tests.actors.windows import ASSET, CHAIN, processing_of, sighting, watched
from tests.shop import BUYER, SIGNATURE, Shop, open_shop


def events_of(tx: Tx, payment_id: str) -> list[tuple[int, str]]:
    return tx.execute(
        "SELECT version, type FROM events WHERE payment_id = ? ORDER BY seq", (payment_id,)
    ).fetchall()


async def test_an_unpaid_payment_expires_when_its_window_closes_and_not_before(shop: Shop) -> None:
    payment = await shop.pay()
    await trio.sleep(899)
    assert await shop.status(payment) == "requires_action"

    await trio.sleep(2)

    assert await shop.status(payment) == "expired"
    assert shop.realm.db.point(events_of, payment) == [(0, "payment.created"), (1, "payment.expired")]


async def test_a_thousand_payments_expire_each_at_its_time(shop: Shop) -> None:
    now_s = shop.realm.clock.now_ms() // 1000
    payments = [await shop.pay(expiresAt=now_s + 2 + number) for number in range(1000)]
    await trio.sleep(501.5)

    statuses = [shop.realm.payments.find(payment).status for payment in payments]
    assert statuses.count(Status.EXPIRED) in (499, 500, 501)
    assert statuses == sorted(statuses, key=lambda status: status is not Status.EXPIRED)


async def test_what_expired_while_the_server_was_down_expires_at_its_start(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data") as shop:
        payment = await shop.pay()
    await trio.sleep(3600)

    # The folder's clock goes on: the second house starts an hour later.
    async with open_shop(tmp_path / "data", start_ms=1_780_000_000_000 + 3_600_000) as later:
        await trio.sleep(0.1)

        assert later.realm.payments.find(payment).status is Status.EXPIRED


async def test_a_processing_payment_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data") as shop:
        payment = await shop.pay()
        option = (await shop.options(payment, [BUYER]))[0]
        await shop.confirm(payment, option["id"], SIGNATURE)

    async with open_shop(tmp_path / "data") as later:
        await trio.sleep(3)

        assert [event for _, event in later.realm.db.point(events_of, payment)] == [
            "payment.created",
            "payment.processing",
            "payment.succeeded",
            "payment.settled",
        ]


async def test_a_payment_that_cannot_be_tended_is_parked_and_the_others_go_on(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisoned, healthy = await shop.pay(), await shop.pay()
    payments = shop.realm.payments
    real_due = payments.due_at_ms
    looked = 0

    def stumble(payment: Payment) -> int | None:
        nonlocal looked
        if payment.id == poisoned:
            looked += 1
            raise ZeroDivisionError
        return real_due(payment)

    monkeypatch.setattr(payments, "due_at_ms", stumble)
    await trio.sleep(2000)

    assert looked == 1 + CRASHES_MAX  # once beside the other, then alone
    assert payments.parked == 1
    assert await shop.status(healthy) == "expired"
    monkeypatch.undo()
    await trio.sleep(3600)
    assert await shop.status(poisoned) == "requires_action"


async def test_a_payment_that_failed_once_to_be_tended_is_tended_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment = await shop.pay()
    payments = shop.realm.payments
    real_due = payments.due_at_ms
    stumbles = iter([True, True])

    def stumble(one: Payment) -> int | None:
        if next(stumbles, False):
            raise ZeroDivisionError
        return real_due(one)

    monkeypatch.setattr(payments, "due_at_ms", stumble)
    await trio.sleep(910)

    assert await shop.status(payment) == "expired"
    assert payments.parked == 0


async def test_expiry_refuses_nothing_that_is_already_final(shop: Shop) -> None:
    payment = await shop.pay()
    await shop.call("POST", f"/v1/payments/{payment}/cancel", {})
    with pytest.raises(InvalidState):
        await shop.realm.payments.ask(payment, lambda actor: actor.move(WindowClosed()))


async def committed(shop: Shop) -> str:
    """A payment that is processing."""
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    await shop.confirm(payment, option["id"], SIGNATURE)
    return payment


async def test_a_store_that_is_behind_parks_nothing(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    payment = await shop.pay()
    payments = shop.realm.payments
    real_write = payments.db.write
    refusals = iter(range(CRASHES_MAX))

    async def behind(*args: object) -> None:
        if next(refusals, None) is not None:
            raise StoreUnavailable("The store is behind.")
        await real_write(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(payments.db, "write", behind)
    await trio.sleep(900 + 300)

    assert next(refusals, None) is None
    assert payments.parked == 0
    assert await shop.status(payment) == "expired"


async def park(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> str:
    """A payment that is processing, and parked for a chain that stumbles."""
    payment = await committed(shop)

    async def stumble(*args: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        broken.setattr(shop.realm.payments.chains[0], "look", stumble)
        await trio.sleep(200)
    assert shop.realm.payments.parked == 1
    return payment


async def test_a_parked_payment_that_a_person_moves_is_looked_after_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment = await park(shop, monkeypatch)
    moved = await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": "succeeded"})
    assert moved.status == 200
    await trio.sleep(100)

    assert shop.realm.payments.parked == 0
    assert [event for _, event in shop.realm.db.point(events_of, payment)][-1] == "payment.settled"


async def test_a_restart_counts_the_parked_and_gives_each_another_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_shop(tmp_path / "data") as shop:
        payment = await park(shop, monkeypatch)

    async with open_shop(tmp_path / "data", start_ms=1_780_000_000_000 + 3_600_000) as later:
        await trio.sleep(10)

        assert later.realm.payments.parked == 0
        assert later.realm.payments.find(payment).status is Status.SUCCEEDED


async def test_a_window_closes_however_full_the_inbox_is(shop: Shop) -> None:
    payment = await shop.pay()
    payments = shop.realm.payments

    await trio.sleep(899)
    async with trio.open_nursery() as nursery:
        actor = payments.turns.wake(payment)
        actor.reserved = True
        for _ in range(INBOX_MAX):
            nursery.start_soon(payments.ask, payment, wait_for_nothing)
        await trio.sleep(5)
        payments.turns.release(actor)

    await trio.sleep(0.1)
    assert await shop.status(payment) == "expired"


async def test_what_waits_for_a_chain_that_is_gone_hides_nothing_and_goes_on_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("payd.actors.deadlines.LOADED_MAX", 5)
    async with open_shop(tmp_path / "data") as shop:
        waiting = [await committed(shop) for _ in range(6)]
        payments = shop.realm.payments
        monkeypatch.setattr(payments.chains[0], "serves", lambda chain: False)
        await trio.sleep(65)
        other = await shop.pay(expiresAt=shop.realm.clock.now_ms() // 1000 + 70)
        await trio.sleep(75)

        assert await shop.status(other) == "expired"
        assert payments.parked == len(waiting)
        assert payments.next_due_ms() is None
        monkeypatch.undo()

    async with open_shop(tmp_path / "data", start_ms=1_780_000_000_000 + 3_600_000) as later:
        await trio.sleep(10)

        assert {later.realm.payments.find(payment).status for payment in waiting} == {Status.SUCCEEDED}


async def test_what_a_look_found_is_stored_however_full_the_inbox_is(shop: Shop) -> None:
    payment = await committed(shop)
    payments = shop.realm.payments

    async with trio.open_nursery() as nursery:
        actor = payments.turns.wake(payment)
        actor.reserved = True
        for _ in range(INBOX_MAX):
            nursery.start_soon(payments.ask, payment, wait_for_nothing)
        await trio.sleep(1.5)
        payments.turns.release(actor)

    await trio.sleep(0.1)
    assert await shop.status(payment) == "succeeded"


async def test_looks_that_hang_end_park_nothing_and_keep_no_window_open(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = [await committed(shop) for _ in range(LOOKS_AT_ONCE_MAX + 5)]
    other = await shop.pay()
    payments = shop.realm.payments
    looks = 0

    async def hang(*args: object) -> None:
        nonlocal looks
        looks += 1
        await trio.sleep_forever()

    monkeypatch.setattr(payments.chains[0], "has_nodes", True)
    monkeypatch.setattr(payments.chains[0], "look", hang)
    await trio.sleep(901)
    assert await shop.status(other) == "expired"
    assert looks > 5 * len(waiting)

    monkeypatch.undo()
    await trio.sleep(60 + 2 * LOOK_DEADLINE_S)
    assert {await shop.status(payment) for payment in waiting} == {"succeeded"}
    assert payments.parked == 0


async def wait_for_nothing(actor: PaymentActor) -> None:
    pass


async def test_a_window_stays_open_while_a_transfer_that_pays_is_looked_at(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stored with the block that closes the window, and the nodes take their time."""
    payment_id = await watched(shop)
    processing = processing_of(shop, payment_id)

    async def look(payment: Payment, now_ms: int) -> Found | None:
        await trio.sleep(2 * UNREAD_RETRY_MS / 1000)
        return Found(FundsCommitted(processing)) if payment.status is Status.REQUIRES_ACTION else None

    monkeypatch.setattr(shop.realm.payments.chains[0], "look", look)
    await trio.sleep(899)
    await shop.realm.db.write(sighting(payment_id, "0xaa"))
    await trio.sleep(0.5)
    await shop.realm.payments.tending.news(payment_id, CHAIN)

    assert await shop.status(payment_id) == "processing"


async def test_a_window_closes_once_the_transfer_in_it_is_taken_back(shop: Shop) -> None:
    payment_id = await watched(shop)
    await shop.realm.db.write(sighting(payment_id, "0xaa"))
    await trio.sleep(3600)
    assert await shop.status(payment_id) == "requires_action"

    await shop.realm.db.write(lambda tx: tx.execute("UPDATE transfers SET block_hash = NULL"))
    await trio.sleep(UNREAD_RETRY_MS / 1000)
    assert await shop.status(payment_id) == "expired"


def awaits(tx: Tx, payment: str) -> tuple[str | None, int | None]:
    row = tx.execute("SELECT awaits, look_at FROM transfers WHERE payment_id = ?", (payment,)).fetchone()
    return row[0], row[1]


async def test_news_is_followed_as_far_as_it_moves_the_payment(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment_id = await shop.pay()
    payments = shop.realm.payments
    await shop.realm.db.write(sighting(payment_id, "0xaa"))
    simulated = payments.chains[0]
    assert isinstance(simulated, SimulatedChain)
    processing = simulated.simulated_processing(
        payments.find(payment_id), ASSET, f"{CHAIN}:0x{'5e' * 20}", payments.clock.now_ms()
    )
    finds = iter(
        [
            Found(FundsCommitted(processing), follow=Follow(CHAIN, "0x1", "0xaa", "depth", 7)),
            Found(TransferConfirmed("0x1"), follow=Follow(CHAIN, "0x1", "0xaa", "final")),
            None,
        ]
    )

    async def look(payment: Payment, now_ms: int) -> Found | None:
        return next(finds)

    monkeypatch.setattr(simulated, "look", look)
    await payments.tending.news(payment_id, CHAIN)

    assert await shop.status(payment_id) == "succeeded"
    assert shop.realm.db.point(awaits, payment_id) == ("final", None)
    assert next(finds, "nothing left") == "nothing left"


async def test_a_look_that_moves_nothing_stores_when_to_look_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment_id = await shop.pay()
    await shop.realm.db.write(sighting(payment_id, "0xaa"))

    async def look(payment: Payment, now_ms: int) -> Found:
        return Found(None, follow=Follow(CHAIN, "0x1", "0xaa", "depth", 9))

    monkeypatch.setattr(shop.realm.payments.chains[0], "look", look)
    await shop.realm.payments.tending.news(payment_id, CHAIN)

    assert shop.realm.db.point(awaits, payment_id) == ("depth", 9)
    assert await shop.status(payment_id) == "requires_action"


@pytest.mark.parametrize("now_in", [None, "0xbb"])
async def test_a_reorg_that_is_faster_than_the_look_takes_the_whole_step_back(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, now_in: str | None
) -> None:
    payment_id = await committed(shop)
    await shop.realm.db.write(sighting(payment_id, now_in))

    async def look(payment: Payment, now_ms: int) -> Found:
        return Found(TransferConfirmed("0x1"), follow=Follow(CHAIN, "0x1", "0xaa", "final"))

    monkeypatch.setattr(shop.realm.payments.chains[0], "look", look)
    await shop.realm.payments.tending.news(payment_id, CHAIN)

    assert await shop.status(payment_id) == "processing"
    assert shop.realm.db.point(awaits, payment_id) == ("depth", 5)


async def test_nodes_that_are_down_park_nothing_and_are_no_crash(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment_id = await committed(shop)

    async def look(payment: Payment, now_ms: int) -> Found:
        raise ChainUnavailable("No node answers.")

    with monkeypatch.context() as broken:
        broken.setattr(shop.realm.payments.chains[0], "look", look)
        await trio.sleep(1000)
        assert await shop.status(payment_id) == "processing"
        assert shop.realm.payments.parked == 0
    await trio.sleep(61)

    assert await shop.status(payment_id) == "succeeded"


async def test_no_window_closes_over_a_transfer_that_is_stored_meanwhile(shop: Shop) -> None:
    payment_id = await watched(shop)

    async def take_long(actor: PaymentActor) -> None:
        await trio.sleep(2)
        await shop.realm.db.write(sighting(payment_id, "0xaa"))

    await trio.sleep(899)
    await shop.realm.payments.ask(payment_id, take_long)
    await trio.sleep(120)

    assert await shop.status(payment_id) == "requires_action"


@pytest.mark.parametrize("end", [WindowClosed(), PaymentFailed("Another took its place.")])
async def test_no_look_ends_a_payment_that_a_transfer_pays_meanwhile(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, end: Trigger
) -> None:
    payment_id = await committed(shop)

    async def look(payment: Payment, now_ms: int) -> Found:
        await shop.realm.db.write(sighting(payment_id, "0xaa"))
        return Found(end)

    monkeypatch.setattr(shop.realm.payments.chains[0], "look", look)
    await shop.realm.payments.tending.news(payment_id, CHAIN)

    assert await shop.status(payment_id) == "processing"
