"""The simulation's moves: only those of the table, each a version and an event of its own."""

from __future__ import annotations

import pytest
import trio

from payd.actors.simulation import ALLOWED, TARGETS, Target, allowed_targets, simulate
from payd.core.errors import InvalidState
from payd.core.payment import TRANSITIONS, PaymentCancelled, PaymentFailed, WindowClosed
from payd.core.status import Status
from tests.shop import Shop

PATHS: dict[Status, tuple[Target, ...]] = {
    Status.REQUIRES_ACTION: (),
    Status.PROCESSING: ("processing",),
    Status.SUCCEEDED: ("succeeded",),
    Status.FAILED: ("failed",),
    Status.EXPIRED: ("expired",),
    Status.CANCELLED: ("cancelled",),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("status", list(Status))
async def test_a_payment_moves_where_the_table_allows_and_nowhere_else(
    shop: Shop, status: Status, target: Target
) -> None:
    payment = await shop.pay()
    for step in PATHS[status]:
        await simulate(shop.realm.payments, payment, step, None)
    before = shop.realm.payments.find(payment)
    assert before.status is status

    if target in ALLOWED.get(status, ()):
        after = await simulate(shop.realm.payments, payment, target, None)
        assert after.version > before.version
        assert after.status.value == ("succeeded" if target == "settled" else target)
    else:
        with pytest.raises(InvalidState) as caught:
            await simulate(shop.realm.payments, payment, target, None)
        assert caught.value.details["allowed"] == list(allowed_targets(before))
        assert shop.realm.payments.find(payment) == before


def test_what_a_person_may_choose_is_what_the_state_machine_knows() -> None:
    plain = {"failed": PaymentFailed, "expired": WindowClosed, "cancelled": PaymentCancelled}
    for status, targets in ALLOWED.items():
        for target, trigger in plain.items():
            assert (target in targets) == ((status, trigger) in TRANSITIONS)


async def test_success_from_the_start_walks_through_processing_and_settles_by_itself(shop: Shop) -> None:
    payment = await shop.pay()
    await simulate(shop.realm.payments, payment, "succeeded", None)
    await trio.sleep(1.5)

    events = await shop.call("GET", f"/v1/events?paymentId={payment}")
    versions = [event["envelope"]["data"]["payment_state_version"] for event in events.body["data"]]
    assert [event["type"].removeprefix("payment.") for event in reversed(events.body["data"])] == [
        "created",
        "processing",
        "succeeded",
        "settled",
    ]
    assert versions == [3, 2, 1, 0]


async def test_a_payment_that_a_person_made_processing_waits_for_a_person(shop: Shop) -> None:
    payment = await shop.pay()
    await simulate(shop.realm.payments, payment, "processing", None)
    await trio.sleep(1700)
    assert await shop.status(payment) == "processing"

    await trio.sleep(200)
    assert await shop.status(payment) == "expired"


async def test_the_reason_is_told(shop: Shop) -> None:
    payment = await shop.pay()
    failed = await simulate(shop.realm.payments, payment, "failed", "card declined")

    assert failed.failed is not None
    assert failed.failed.reason == "card declined"


async def test_settled_twice_is_refused(shop: Shop) -> None:
    payment = await shop.pay()
    await simulate(shop.realm.payments, payment, "succeeded", None)
    await simulate(shop.realm.payments, payment, "settled", None)
    with pytest.raises(InvalidState):
        await simulate(shop.realm.payments, payment, "settled", None)


async def test_a_repeated_request_with_a_key_moves_the_payment_once(shop: Shop) -> None:
    payment = await shop.pay()
    path = f"/v1/test/payments/{payment}/simulate"
    first = await shop.call("POST", path, {"to": "succeeded"}, idempotency_key="k")
    again = await shop.call("POST", path, {"to": "succeeded"}, idempotency_key="k")
    other = await shop.call("POST", path, {"to": "failed"}, idempotency_key="k")

    assert (first.status, first.raw) == (again.status, again.raw)
    assert again.headers["idempotent-replayed"] == "true"
    assert first.body["transfers"][0]["matched"] is True
    assert (other.status, other.code) == (409, "idempotency_conflict")
