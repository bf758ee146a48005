"""A payment's actor: stored before it is told, recovered from its row, and never another's trouble."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from payd.actors.feed import Bell
from payd.actors.payments import (
    CRASHES_MAX,
    LOOK_DEADLINE_S,
    LOOKS_AT_ONCE_MAX,
    PaymentActor,
    TransferUsedTwice,
)
from payd.actors.turns import INBOX_MAX
from payd.chains.base import SeenTransfer
from payd.core.errors import InvalidState, OutcomeUnknown, PaymentNotFound, StoreUnavailable
from payd.core.payment import Payment, PaymentCancelled, PaymentFailed, WindowClosed
from payd.core.status import Status
from payd.store.db import Tx
from payd.store.transfers import Transfer, insert_transfer, transfers_of_payment
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


async def test_nothing_is_told_before_it_is_stored(shop: Shop) -> None:
    payment = await shop.pay()
    stored_when_told: list[str] = []

    class Page(Bell):
        def push(self, update: object) -> None:
            row = shop.realm.db.point(
                lambda tx: tx.execute("SELECT status FROM payments WHERE id = ?", (payment,)).fetchone()
            )
            stored_when_told.append(row[0])

    shop.realm.payment_feed.subscribe(payment, Page())
    await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": "succeeded"})

    assert stored_when_told == ["processing", "succeeded"]


async def test_a_step_that_fails_its_own_check_leaves_row_event_and_memory_as_they_were(shop: Shop) -> None:
    payment = await shop.pay()

    def refuse(tx: Tx) -> None:
        raise InvalidState("not today")

    async def turn(actor: PaymentActor) -> Payment:
        return await actor.move(PaymentCancelled("x"), also=refuse)

    with pytest.raises(InvalidState):
        await shop.realm.payments.ask(payment, turn)

    assert shop.realm.payments.find(payment).status is Status.REQUIRES_ACTION
    assert shop.realm.db.point(events_of, payment) == [(0, "payment.created")]


async def test_two_writers_of_one_payment_are_noticed(shop: Shop) -> None:
    payment = await shop.pay()
    stale = shop.realm.payments.find(payment)
    await shop.call("POST", f"/v1/payments/{payment}/cancel", {})

    async def turn(actor: PaymentActor) -> Payment:
        actor.payment = stale
        return await actor.move(PaymentFailed("x"))

    with pytest.raises(Exception, match="broke on our side"):
        await shop.realm.payments.ask(payment, turn)

    assert shop.realm.payments.find(payment).status is Status.CANCELLED
    assert len(shop.realm.db.point(events_of, payment)) == 2


async def test_after_a_commit_with_an_unknown_outcome_memory_is_the_row_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment = await shop.pay()
    payments = shop.realm.payments
    real_write = payments.db.write

    async def stored_but_unknown(*args: object, **kwargs: object) -> None:
        await real_write(*args, **kwargs)  # type: ignore[arg-type]
        raise OutcomeUnknown("the disk did not answer")

    monkeypatch.setattr(payments.db, "write", stored_but_unknown)
    with pytest.raises(OutcomeUnknown):
        await payments.ask(payment, lambda actor: actor.move(PaymentCancelled("x")))
    monkeypatch.undo()

    assert payments.find(payment).status is Status.CANCELLED
    assert payments.find(payment).version == 1


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

    assert looked == CRASHES_MAX
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


async def test_unknown_and_malformed_ids_read_the_same(shop: Shop) -> None:
    known = await shop.pay()
    answers = []
    for wrong in (
        known[:-1] + ("0" if known[-1] != "0" else "1"),
        "pay_",
        "x",
        known + "0",
        "pay_l" + known[5:],
    ):
        with pytest.raises(PaymentNotFound) as caught:
            shop.realm.payments.find(wrong)
        answers.append(caught.value.message)

    assert len(set(answers)) == 1


async def test_an_awake_payment_costs_little_and_a_sleeping_one_nothing(shop: Shop) -> None:
    payments = [await shop.pay() for _ in range(20)]
    await wait_all_tasks_blocked()

    for payment in payments:
        actor = shop.realm.payments.turns.peek(payment)
        assert actor is not None
        assert not actor.busy
        assert actor.inbox is None


async def test_a_request_that_repeats_after_the_move_gets_the_stored_answer(shop: Shop) -> None:
    payment = await shop.pay()
    first = await shop.call("POST", f"/v1/payments/{payment}/cancel", {}, idempotency_key="once")
    again = await shop.call("POST", f"/v1/payments/{payment}/cancel", {}, idempotency_key="once")

    assert (first.status, again.status) == (200, 200)
    assert first.raw == again.raw
    assert again.headers["idempotent-replayed"] == "true"
    assert len(shop.realm.db.point(events_of, payment)) == 2


async def test_expiry_refuses_nothing_that_is_already_final(shop: Shop) -> None:
    payment = await shop.pay()
    await shop.call("POST", f"/v1/payments/{payment}/cancel", {})
    with pytest.raises(InvalidState):
        await shop.realm.payments.ask(payment, lambda actor: actor.move(WindowClosed()))


async def test_stored_payments_read_back_as_they_were(shop: Shop) -> None:
    from payd.store.payments import find_payment

    payment = await shop.pay(
        reference="Ärger № 1",
        unit="iso4217/JPY",
        checkout={"successUrl": "https://a.example/x?y=1", "errorUrl": "https://a.example"},
    )
    await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": "succeeded"})

    in_memory = shop.realm.payments.find(payment)
    assert shop.realm.db.point(find_payment, payment) == in_memory
    assert msgspec.structs.asdict(in_memory)["reference_id"] == "Ärger № 1"


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


async def wait_for_nothing(actor: PaymentActor) -> None:
    pass


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

    monkeypatch.setattr(payments.chains[0], "look", hang)
    await trio.sleep(901)
    assert await shop.status(other) == "expired"
    assert looks > 5 * len(waiting)

    monkeypatch.undo()
    await trio.sleep(60 + 2 * LOOK_DEADLINE_S)
    assert {await shop.status(payment) for payment in waiting} == {"succeeded"}
    assert payments.parked == 0


async def test_a_transfer_seen_before_its_payment_still_pays_it_and_never_a_second_one(shop: Shop) -> None:
    payments = shop.realm.payments
    first, second = await committed(shop), await committed(shop)
    seen = SeenTransfer("eip155:8453", "0x1", 0, "eip155:8453/slip44:60", 7, "a", "b")
    stored = Transfer(
        None, None, seen.chain, seen.tx_id, 0, seen.asset, "7", "a", "b", "unmatched", seen_at_ms=1
    )
    await payments.db.write(insert_transfer, stored)

    async def credit(payment_id: str) -> None:
        def keep(tx: Tx) -> None:
            payments.keep_transfers(tx, payments.find(payment_id), [seen])

        await payments.db.write(keep)

    await credit(first)
    assert [one.kind for one in payments.db.point(transfers_of_payment, first)] == ["matched"]
    with pytest.raises(TransferUsedTwice):
        await credit(second)
    assert payments.db.point(transfers_of_payment, second) == []
