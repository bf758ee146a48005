"""The simulation API and the test clock over REST: every pair, every duration, and test keys only."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from payd.actors.simulation import ALLOWED, TARGETS
from payd.core.errors import ParamsValidation
from payd.core.status import Status
from payd.entropy import new_id
from payd.store.clock import get_clock, move_clock, start_clock_job
from payd.web.query import parse_instant_ms
from payd.web.simulation import ADVANCE_MAX_S, parse_duration_s
from tests.shop import Got, Shop, open_shop

CLOCK = "/v1/test/clock"
WAYS = {
    Status.REQUIRES_ACTION: (),
    Status.PROCESSING: ("processing",),
    Status.SUCCEEDED: ("succeeded",),
    Status.FAILED: ("failed",),
    Status.EXPIRED: ("expired",),
    Status.CANCELLED: ("cancelled",),
}


async def simulate(shop: Shop, payment: str, to: str, reason: str | None = None) -> Got:
    body = {"to": to} if reason is None else {"to": to, "reason": reason}
    return await shop.call("POST", f"/v1/test/payments/{payment}/simulate", body)


async def in_state(shop: Shop, status: Status) -> str:
    payment = await shop.pay()
    for to in WAYS[status]:
        assert (await simulate(shop, payment, to)).status == 200
    return payment


async def done(shop: Shop) -> Got:
    """The clock once its job is done."""
    for _ in range(10_000):
        found = await shop.call("GET", CLOCK)
        if found.body["job"]["state"] == "done":
            return found
        await trio.sleep(0.01)
    raise AssertionError("the job does not end")


@pytest.mark.parametrize("status", list(Status))
async def test_every_pair_of_status_and_target(shop: Shop, status: Status) -> None:
    for target in TARGETS:
        payment = await in_state(shop, status)
        before = await shop.call("GET", f"/v1/events?paymentId={payment}")
        found = await simulate(shop, payment, target)
        if target in ALLOWED.get(status, ()):
            assert found.status == 200
            assert found.body["paymentId"] == payment
            assert found.body["status"] == ("succeeded" if target == "settled" else target)
            assert (found.body["settlement"] or {}).get("settled", False) == (target == "settled")
        else:
            assert (found.status, found.code) == (400, "invalid_state"), target
            assert found.body["details"]["allowed"] == list(ALLOWED.get(status, ()))
            assert (await shop.call("GET", f"/v1/events?paymentId={payment}")).body == before.body


async def test_the_answer_is_the_payment_as_its_detail_shows_it(shop: Shop) -> None:
    payment = await shop.pay()
    found = await simulate(shop, payment, "succeeded")
    # What buyers answered is for who may read payments, and is in the detail alone, as is a refund.
    detail = (await shop.call("GET", f"/v1/payments/{payment}")).body
    assert {**found.body, "collectedData": None, "refund": None} == detail
    assert found.body["info"]["txId"] == f"test:{payment}"
    assert len(found.body["transfers"]) == 1


async def test_every_step_emits_its_event_with_versions_without_a_gap(shop: Shop) -> None:
    payment = await shop.pay()
    await simulate(shop, payment, "succeeded")
    await simulate(shop, payment, "settled")
    events = (await shop.call("GET", f"/v1/events?paymentId={payment}")).body["data"][::-1]
    assert [event["type"] for event in events] == [
        "payment.created",
        "payment.processing",
        "payment.succeeded",
        "payment.settled",
    ]
    assert [event["envelope"]["data"]["payment_state_version"] for event in events] == [0, 1, 2, 3]
    assert {event["envelope"]["data"]["live"] for event in events} == {False}


async def test_a_succeeded_payment_settles_by_itself(shop: Shop) -> None:
    payment = await shop.pay()
    await simulate(shop, payment, "succeeded")
    await trio.sleep(1.5)
    detail = await shop.call("GET", f"/v1/payments/{payment}")
    assert detail.body["settlement"]["settled"] is True


async def test_the_reason_is_told_where_there_is_one(shop: Shop) -> None:
    for to, block, field in (
        ("failed", "failed", "failure_reason"),
        ("cancelled", "cancelled", "cancellation_reason"),
    ):
        payment = await shop.pay()
        await simulate(shop, payment, to, "The till is closed")
        event = (await shop.call("GET", f"/v1/events?paymentId={payment}")).body["data"][0]
        assert event["envelope"]["data"][block][field] == "The till is closed"


async def test_a_wrong_body_is_refused_by_field(shop: Shop) -> None:
    payment = await shop.pay()
    path = f"/v1/test/payments/{payment}/simulate"
    for body, field in (
        ({}, "to"),
        ({"to": "requires_action"}, "to"),
        ({"to": "Succeeded"}, "to"),
        ({"to": 1}, "to"),
        ({"to": "failed", "reason": ""}, "reason"),
        ({"to": "failed", "reason": "x" * 501}, "reason"),
        ({"to": "failed", "reason": "a\nb"}, "reason"),
        ({"to": "failed", "reason": 1}, "reason"),
    ):
        found = await shop.call("POST", path, body)
        assert (found.status, found.code) == (400, "params_validation"), body
        assert found.body["issues"][0]["field"] == field
    issue = (await shop.call("POST", path, {"to": "paid"})).body["issues"][0]
    assert issue["message"] == "One of processing, succeeded, failed, expired, cancelled, settled."
    assert await shop.status(payment) == "requires_action"


async def test_another_account_cannot_simulate_it(shop: Shop) -> None:
    payment = await shop.pay()
    found = await shop.call(
        "POST", f"/v1/test/payments/{payment}/simulate", {"to": "failed"}, key=shop.other_key
    )
    assert (found.status, found.code) == (404, "payment_not_found")


async def test_a_payment_whose_merchant_takes_nothing_any_more_cannot_be_processed(shop: Shop) -> None:
    payment = await shop.pay()
    settlement = (await shop.call("GET", f"/v1/merchants/{shop.merchant_id}/settlements")).body["crypto"][0][
        "id"
    ]
    await shop.call("DELETE", f"/v1/merchants/{shop.merchant_id}/settlements/crypto/{settlement}")
    found = await simulate(shop, payment, "processing")
    assert (found.status, found.code) == (400, "invalid_state")
    assert (await simulate(shop, payment, "failed")).status == 200


async def test_a_live_key_simulates_nothing(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", live=True) as shop:
        payment = await shop.pay()
        key = shop.keys["live.one"]
        for method, path, body in (
            ("POST", f"/v1/test/payments/{payment}/simulate", {"to": "succeeded"}),
            ("POST", f"/v1/test/payments/{new_id('pay_l', 0)}/simulate", {"to": "succeeded"}),
            ("GET", CLOCK, None),
            ("POST", CLOCK, {"advance": "1d"}),
        ):
            found = await shop.call(method, path, body, key=key)
            assert (found.status, found.code) == (403, "not_sandbox_api_key")
        assert shop.house.realms["live"].clock.offset_ms == 0
        assert await shop.status(payment) == "requires_action"


# The clock


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1),
        ("300s", 300),
        ("15m", 900),
        ("28h", 100_800),
        ("5d", 432_000),
        ("400d", ADVANCE_MAX_S),
        ("007m", 420),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "1", "s", "0s", "-1s", "1.5h", "1 h", "1H", "1w", "401d", "1h30m", "9999999999s", "١h", "1s\n"],
)
def test_another_duration_is_refused(text: str) -> None:
    with pytest.raises(ParamsValidation) as found:
        parse_duration_s(text)
    assert found.value.issues[0].field == "advance"


async def test_a_clock_that_never_moved_says_so(shop: Shop) -> None:
    found = await shop.call("GET", CLOCK)
    assert found.status == 200
    assert parse_instant_ms(found.body["now"], "now") == shop.realm.clock.now_ms()
    assert (found.body["offsetS"], found.body["job"]) == (0, None)


@pytest.mark.parametrize(("advance", "seconds"), [("300s", 300), ("28h", 100_800), ("5d", 432_000)])
async def test_an_advance_is_a_job_that_ends(shop: Shop, advance: str, seconds: int) -> None:
    before_ms = shop.realm.clock.now_ms()
    started = await shop.call("POST", CLOCK, {"advance": advance})
    assert started.status == 202
    job = started.body["job"]
    assert job["id"].startswith("job_")
    assert job["state"] == "running"
    found = await done(shop)
    assert found.body["job"] == {"id": job["id"], "state": "done", "events": 0}
    assert found.body["offsetS"] == seconds
    assert shop.realm.clock.now_ms() - before_ms == pytest.approx(seconds * 1000, abs=1000)


async def test_what_falls_due_happens_in_the_order_of_time_and_at_its_own_time(shop: Shop) -> None:
    now_s = shop.realm.clock.now_ms() // 1000
    windows = [300, 60, 3000, 900, 61]
    made = {await shop.pay(expiresAt=now_s + seconds): now_s + seconds for seconds in windows}
    await shop.call("POST", CLOCK, {"advance": "1h"})
    found = await done(shop)
    assert found.body["job"]["events"] == 5
    events = (await shop.call("GET", "/v1/events?type=payment.expired")).body["data"][::-1]
    assert [event["paymentId"] for event in events] == sorted(made, key=lambda payment: made[payment])
    for event in events:
        due_ms = made[event["paymentId"]] * 1000
        assert due_ms <= parse_instant_ms(event["createdAt"], "at") < due_ms + 1000


async def test_a_payment_on_its_way_confirms_and_settles_within_one_advance(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment))[0]
    await shop.confirm(payment, option["id"], "0x" + "11" * 65)
    await shop.call("POST", CLOCK, {"advance": "1m"})
    found = await done(shop)
    assert found.body["job"]["events"] == 2
    detail = await shop.call("GET", f"/v1/payments/{payment}")
    assert detail.body["settlement"]["settled"] is True


async def test_the_clock_only_goes_forward_and_a_wrong_body_moves_nothing(shop: Shop) -> None:
    for body in (
        {},
        {"advance": 300},
        {"advance": "-1h"},
        {"advance": None},
        {"now": "2030-01-01T00:00:00Z"},
    ):
        found = await shop.call("POST", CLOCK, body)
        assert (found.status, found.code) == (400, "params_validation"), body
        assert found.body["issues"][0]["field"] == "advance"
    assert shop.realm.clock.offset_ms == 0


async def test_a_second_advance_lengthens_the_job_that_runs(shop: Shop) -> None:
    jobs: list[str] = []

    async def advance() -> None:
        jobs.append((await shop.call("POST", CLOCK, {"advance": "1h"})).body["job"]["id"])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(advance)
        nursery.start_soon(advance)
    assert len(set(jobs)) == 1
    assert (await done(shop)).body["offsetS"] == 7200
    await advance()
    assert jobs[2] != jobs[0]


async def test_a_restart_in_the_middle_of_a_job_goes_on_with_it(tmp_path: Path) -> None:
    job_id = new_id("job_", 0)
    async with open_shop(tmp_path / "data") as shop:
        payment = await shop.pay()
        key = shop.key
        # As a kill leaves it: aimed, moved a part of the way, and nobody there to go on.
        with trio.CancelScope(shield=True):
            await shop.realm.db.write(start_clock_job, job_id, 3_600_000)
            await shop.realm.db.write(move_clock, 60_000)
    async with open_shop(tmp_path / "data") as shop:
        assert shop.realm.clock.offset_ms >= 60_000
        shop.key = key
        found = await done(shop)
        assert found.body["job"]["id"] == job_id
        assert found.body["offsetS"] == 3600
        assert (await shop.call("GET", f"/v1/payments/{payment}")).body["status"] == "expired"
        assert shop.realm.db.point(get_clock).running is False


async def test_the_live_realms_clock_stays_where_it_is(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", live=True) as shop:
        await shop.call("POST", CLOCK, {"advance": "5d"})
        await done(shop)
        assert shop.house.realms["live"].clock.offset_ms == 0
        assert shop.house.realms["live"].advance is None
