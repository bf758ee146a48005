"""A payment's actor: stored before it is told, recovered from its row, and never another's trouble."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from payd.actors.feed import Bell
from payd.actors.payments import (
    PaymentActor,
    TransferUsedTwice,
)
from payd.chains.base import SeenTransfer
from payd.core.errors import InvalidState, OutcomeUnknown, PaymentNotFound, StoreUnavailable
from payd.core.payment import Payment, PaymentCancelled, PaymentFailed
from payd.core.status import Status
from payd.store.batch import Failure, Step, run_batch
from payd.store.db import Tx
from payd.store.payments import find_payment
from payd.store.transfers import Transfer, transfers_of_payment
from tests.inserts import insert_transfer
from tests.shop import BUYER, SIGNATURE, Shop


def events_of(tx: Tx, payment_id: str) -> list[tuple[int, str]]:
    return tx.execute(
        "SELECT version, type FROM events WHERE payment_id = ? ORDER BY seq", (payment_id,)
    ).fetchall()


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


async def test_who_saw_a_move_in_a_list_finds_the_payment_moved(shop: Shop) -> None:
    behind: list[str] = []

    async def look(payment: str) -> None:
        while True:
            listed = shop.realm.db.point(find_payment, payment)
            assert listed is not None
            if shop.realm.payments.find(payment).version < listed.version:
                behind.append(payment)
            await trio.lowlevel.checkpoint()

    # From a commit to what follows from it in memory others have a turn, or have none: in no order.
    for _ in range(10):
        payment = await shop.pay()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(look, payment)
            await shop.call("POST", f"/v1/payments/{payment}/cancel", {})
            nursery.cancel_scope.cancel()

    assert behind == []


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


@pytest.mark.parametrize("path", ["/v1/payments/{}/cancel", "/v1/test/payments/{}/simulate"])
async def test_who_asked_hears_what_was_done_though_nothing_can_be_read_after_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    payment = await shop.pay()
    db = shop.realm.db
    write, point = db.write, db.point

    def unread(*_args: object) -> None:
        raise StoreUnavailable("The store cannot be read at the moment.")

    async def store_and_break(*args: Any, **kwargs: Any) -> Any:
        result = await write(*args, **kwargs)
        monkeypatch.setattr(db, "point", unread)
        return result

    monkeypatch.setattr(db, "write", store_and_break)
    answer = await shop.call("POST", path.format(payment), {"to": "cancelled"})
    monkeypatch.setattr(db, "point", point)

    assert answer.status == 200
    assert await shop.status(payment) == "cancelled"


async def test_stored_payments_read_back_as_they_were(shop: Shop) -> None:
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
            payments.keep_transfers(tx, [(payments.find(payment_id), [seen])])

        await payments.db.write(keep)

    await credit(first)
    assert [one.kind for one in payments.db.point(transfers_of_payment, first)] == ["matched"]
    with pytest.raises(TransferUsedTwice):
        await credit(second)
    assert payments.db.point(transfers_of_payment, second) == []


async def test_what_a_commit_owes_of_which_nobody_knew_is_sent_at_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stores_and_breaks(tx: Tx, batch: Sequence[Step]) -> Failure | None:
        return run_batch(tx, batch) or Failure("unknown", "the disk answers with errors")

    await shop.call("PUT", "/v1/webhooks/endpoint", {"url": "https://a.test/"})
    payment = await shop.pay()
    await trio.sleep(1)
    monkeypatch.setattr("payd.store.writer.run_batch", stores_and_breaks)
    answer = await shop.call("POST", f"/v1/payments/{payment}/cancel", {})
    monkeypatch.undo()
    assert answer.status == 500
    await trio.sleep(2)  # and not with the next look around

    tried = "SELECT d.event_type FROM attempts a JOIN deliveries d ON d.id = a.delivery_id ORDER BY a.seq"
    made = shop.realm.db.point(lambda tx: tx.execute(tried).fetchall())
    # Virtual time does not wait for a name that a thread looks up.
    assert ("payment.cancelled",) in made or shop.realm.deliveries.in_flight
