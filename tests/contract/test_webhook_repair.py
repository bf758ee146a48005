"""Deliveries that fail: retries, the log of attempts, resending, and an endpoint given up.

Source: SPEC.md, "Delivery rules"
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from tests.contract.outside import (
    ID_REST,
    ISO_MS,
    Door,
    Receiver,
    Shop,
    assert_misses_schema,
    assert_refused,
    ok,
    until,
)

ENDPOINT = "/v1/webhooks/endpoint"
DELIVERY = {
    "id",
    "eventId",
    "eventType",
    "paymentId",
    "state",
    "attempts",
    "lastStatus",
    "nextAttemptAt",
    "createdAt",
}
ATTEMPT = {"n", "trigger", "at", "status", "errorClass", "durationMs", "remoteIp", "body"}
JOB = {"id", "kind", "since", "state", "matched", "queued", "done", "failed"}
# Seconds after the previous attempt, from the second attempt on.
SCHEDULE_S = [5, 300, 1800, 7200, 18_000, 36_000, 36_000]
# Jitter is one-sided: an attempt is never early and at most this much late.
LATE_S = 61


@pytest.fixture(scope="module")
def owner(shops: dict[str, Shop]) -> Shop:
    return shops["repair"]


@pytest.fixture(scope="module")
def till(owner: Shop) -> str:
    return owner.merchant()


@pytest.fixture
def door(owner: Shop, receiver: Receiver) -> Iterator[Door]:
    """A door that is the account's endpoint for one test."""
    door = receiver.door()
    ok(owner.api.put(ENDPOINT, {"url": door.url}))
    yield door
    ok(owner.api.delete(ENDPOINT))


def created(shop: Shop, merchant_id: str, door: Door) -> tuple[str, Any]:
    """Create a payment whose only event was attempted once; return it and its delivery."""
    payment_id = shop.payment(merchant_id, expiresAt=int(shop.now_s()) + 86_000)
    door.wait_for(payment_id, "payment.created")
    return payment_id, until(lambda: delivery_of(shop, payment_id, attempts=1))


def delivery_of(shop: Shop, payment_id: str, attempts: int = 0) -> Any:
    """Return the newest delivery about a payment once it has this many attempts, else None."""
    for item in ok(shop.api.get("/v1/webhooks/deliveries"))["data"]:
        if item["paymentId"] == payment_id:
            return item if item["attempts"] >= attempts else None
    return None


def one(shop: Shop, delivery_id: str) -> Any:
    return ok(shop.api.get(f"/v1/webhooks/deliveries/{delivery_id}"))


def seconds(instant: str) -> float:
    return datetime.fromisoformat(instant).timestamp()


def since(shop: Shop, ago_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(shop.now_s() - ago_s))


def finished(shop: Shop, path: str, body: Any) -> Any:
    """Start a job, wait for its end, and return it."""
    job = ok(shop.api.post(path, body), 202)
    assert set(job) >= JOB
    return until(lambda: ended(shop, job["id"]))


def ended(shop: Shop, job_id: str) -> Any:
    job = ok(shop.api.get(f"/v1/webhooks/jobs/{job_id}"))
    assert set(job) >= JOB
    return job if job["done"] + job["failed"] >= job["matched"] and job["state"] != "running" else None


def test_a_delivery_that_succeeded_is_logged(owner: Shop, till: str, door: Door) -> None:
    payment_id, item = created(owner, till, door)
    assert set(item) >= DELIVERY
    assert re.fullmatch(f"dlv_{ID_REST}", item["id"])
    assert item["eventId"] == door.of(payment_id)[0].event["id"]
    assert (item["eventType"], item["state"]) == ("payment.created", "succeeded")
    assert (item["attempts"], item["lastStatus"], item["nextAttemptAt"]) == (1, 200, None)
    assert ISO_MS.fullmatch(item["createdAt"])
    shown = one(owner, item["id"])
    assert {name: shown[name] for name in DELIVERY} == {name: item[name] for name in DELIVERY}
    [attempt] = shown["attemptLog"]
    assert set(attempt) >= ATTEMPT
    assert (attempt["n"], attempt["status"], attempt["errorClass"]) == (1, 200, None)
    assert (attempt["remoteIp"], attempt["body"]) == ("127.0.0.1", "seen")
    assert type(attempt["durationMs"]) is int
    assert isinstance(attempt["trigger"], str)
    assert ISO_MS.fullmatch(attempt["at"])


def test_a_failed_attempt_is_made_again_after_5_seconds_with_the_same_bytes(
    owner: Shop, till: str, door: Door
) -> None:
    door.answers.append(500)
    payment_id, item = created(owner, till, door)
    assert (item["state"], item["attempts"], item["lastStatus"]) == ("pending", 1, 500)
    attempted = seconds(one(owner, item["id"])["attemptLog"][0]["at"])
    assert 5 <= seconds(item["nextAttemptAt"]) - attempted < 5 + LATE_S
    owner.advance(f"{5 + LATE_S}s")
    second = until(lambda: door.of(payment_id)[1:])[0]
    first = door.of(payment_id)[0]
    assert second.raw == first.raw
    assert second.headers["webhook-id"] == first.headers["webhook-id"]
    item = until(lambda: delivery_of(owner, payment_id, attempts=2))
    assert (item["state"], item["lastStatus"], item["nextAttemptAt"]) == ("succeeded", 200, None)
    assert [a["status"] for a in one(owner, item["id"])["attemptLog"]] == [500, 200]


@pytest.mark.parametrize("status", [300, 301, 302, 400, 404, 410, 503])
def test_whatever_is_not_2xx_is_a_failure_and_no_redirect_is_followed(
    owner: Shop, till: str, door: Door, status: int
) -> None:
    door.answers.append(status)
    payment_id, item = created(owner, till, door)
    assert (item["state"], item["lastStatus"]) == ("pending", status)
    assert len(door.of(payment_id)) == 1


@pytest.mark.parametrize(("told", "least_s"), [("120", 120), ("86400", 600)])
def test_retry_after_lengthens_a_step_by_at_most_10_minutes(
    owner: Shop, till: str, door: Door, told: str, least_s: int
) -> None:
    door.retry_after = told
    door.answers.append(503)
    _, item = created(owner, till, door)
    attempted = seconds(one(owner, item["id"])["attemptLog"][0]["at"])
    wait_s = seconds(item["nextAttemptAt"]) - attempted
    assert least_s <= wait_s <= 5 + 600 + LATE_S


@pytest.mark.parametrize("status", [201, 202, 204, 299])
def test_any_2xx_is_a_success(owner: Shop, till: str, door: Door, status: int) -> None:
    door.answers.append(status)
    _, item = created(owner, till, door)
    assert (item["state"], item["lastStatus"]) == ("succeeded", status)


def test_eight_attempts_follow_the_schedule_and_then_the_delivery_has_failed(
    owner: Shop, till: str, door: Door
) -> None:
    ok(owner.api.put(ENDPOINT, {"url": door.url, "events": ["payment.created"]}))
    door.otherwise = 500
    payment_id, item = created(owner, till, door)
    owner.advance("30h")
    until(lambda: one(owner, item["id"])["attempts"] == 8)
    owner.advance("2d")
    shown = one(owner, item["id"])
    assert (shown["state"], shown["attempts"], shown["nextAttemptAt"]) == ("failed", 8, None)
    log = shown["attemptLog"]
    assert [attempt["n"] for attempt in log] == list(range(1, 9))
    gaps = [seconds(b["at"]) - seconds(a["at"]) for a, b in itertools.pairwise(log)]
    for gap, planned in zip(gaps, SCHEDULE_S, strict=True):
        assert planned <= gap < planned + LATE_S
    mine = door.of(payment_id)
    assert len(mine) == 8
    assert len({d.headers["webhook-id"] for d in mine}) == 1
    assert len({d.raw for d in mine}) == 1


def test_one_delivery_can_be_sent_again(owner: Shop, till: str, door: Door) -> None:
    payment_id, item = created(owner, till, door)
    ok(owner.api.post(f"/v1/webhooks/deliveries/{item['id']}/resend"))
    again = until(lambda: door.of(payment_id)[1:])[0]
    first = door.of(payment_id)[0]
    assert again.raw == first.raw
    assert again.headers["webhook-id"] == first.headers["webhook-id"]
    assert_refused(owner.api.post(f"/v1/webhooks/deliveries/dlv_{'0' * 36}/resend"), 404, "not_found")
    assert_refused(owner.api.get(f"/v1/webhooks/deliveries/dlv_{'0' * 36}"), 404, "not_found")


def test_recover_sends_what_failed_for_good(owner: Shop, till: str, door: Door) -> None:
    door.otherwise = 500
    payment_id, item = created(owner, till, door)
    start = since(owner, 60)
    owner.advance("30h")
    until(lambda: one(owner, item["id"])["state"] == "failed")
    door.otherwise = 200
    before = len(door.of(payment_id))
    job = finished(owner, "/v1/webhooks/recover", {"since": start})
    assert job["kind"] == "recover"
    assert seconds(job["since"]) == seconds(start)
    assert job["matched"] >= 1
    assert job["failed"] == 0
    until(lambda: len(door.of(payment_id)) > before)
    until(lambda: one(owner, item["id"])["state"] == "succeeded")


def test_replay_missing_sends_what_the_endpoint_never_received(
    owner: Shop, till: str, receiver: Receiver
) -> None:
    start = since(owner, 0)
    owner.advance("1s")
    unheard = owner.payment(till)
    late = receiver.door()
    ok(owner.api.put(ENDPOINT, {"url": late.url}))
    heard = owner.payment(till)
    late.wait_for(heard, "payment.created")
    assert late.of(unheard) == []
    job = finished(owner, "/v1/webhooks/replay-missing", {"since": start})
    late.wait_for(unheard, "payment.created")
    assert job["matched"] >= 1
    assert len(late.of(heard)) == 1
    ok(owner.api.delete(ENDPOINT))


@pytest.mark.parametrize("path", ["/v1/webhooks/recover", "/v1/webhooks/replay-missing"])
def test_a_replay_reaches_back_14_days_at_most(owner: Shop, door: Door, path: str) -> None:
    ok(owner.api.post(path, {"since": since(owner, 13 * 86_400)}), 202)
    assert_refused(owner.api.post(path, {"since": since(owner, 14 * 86_400 + 600)}), 400, "invalid_params")
    assert_misses_schema(owner.api.post(path, {}), "since")
    for wrong in ("yesterday", 7):
        assert owner.api.post(path, {"since": wrong}).status_code == 400


def test_unknown_jobs_are_not_found(owner: Shop) -> None:
    assert_refused(owner.api.get("/v1/webhooks/jobs/job_" + "0" * 36), 404, "not_found")


def test_deliveries_come_in_pages(owner: Shop, till: str, door: Door) -> None:
    for _ in range(3):
        created(owner, till, door)
    first = ok(owner.api.get("/v1/webhooks/deliveries", limit=2))
    assert set(first) == {"data", "nextCursor"}
    assert len(first["data"]) == 2
    second = ok(owner.api.get("/v1/webhooks/deliveries", limit=2, cursor=first["nextCursor"]))
    assert not {d["id"] for d in first["data"]} & {d["id"] for d in second["data"]}
    assert_refused(owner.api.get("/v1/webhooks/deliveries", cursor="nonsense"), 400, "invalid_params")


def test_deliveries_of_another_account_do_not_exist(owner: Shop, other: Shop, till: str, door: Door) -> None:
    payment_id, item = created(owner, till, door)
    assert_refused(other.api.get(f"/v1/webhooks/deliveries/{item['id']}"), 404, "not_found")
    assert_refused(other.api.post(f"/v1/webhooks/deliveries/{item['id']}/resend"), 404, "not_found")
    assert_refused(other.api.get(f"/v1/events/{item['eventId']}"), 404, "not_found")
    assert delivery_of(other, payment_id) is None


def test_an_endpoint_that_fails_for_5_days_is_disabled(owner: Shop, till: str, door: Door) -> None:
    ok(owner.api.put(ENDPOINT, {"url": door.url, "events": ["payment.created"]}))
    door.otherwise = 500
    enabled = ok(owner.api.get(ENDPOINT))["state"]
    created(owner, till, door)
    failing = until(lambda: ok(owner.api.get(ENDPOINT))["failingSince"])
    assert ISO_MS.fullmatch(failing)
    for span in ("1d", "1d", "1d", "1d", "20h"):
        owner.payment(till)
        owner.advance(span)
        assert ok(owner.api.get(ENDPOINT))["state"] == enabled
    owner.payment(till)
    owner.advance("10h")
    until(lambda: ok(owner.api.get(ENDPOINT))["state"] != enabled)
    seen = len(door.received)
    owner.payment(till)
    owner.advance("10m")
    assert len(door.received) == seen
    door.otherwise = 200
    ok(owner.api.post(f"{ENDPOINT}/enable"))
    assert ok(owner.api.get(ENDPOINT))["failingSince"] is None
    created(owner, till, door)


def test_a_success_ends_the_failing_time(owner: Shop, till: str, door: Door) -> None:
    door.answers.append(500)
    payment_id, _ = created(owner, till, door)
    assert until(lambda: ok(owner.api.get(ENDPOINT))["failingSince"])
    owner.advance(f"{5 + LATE_S}s")
    assert until(lambda: door.of(payment_id)[1:])
    until(lambda: ok(owner.api.get(ENDPOINT))["failingSince"] is None)
