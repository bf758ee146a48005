"""The webhook endpoint: registering, reading, changing, trying and deleting it.

Source: DESIGN.md, "7. Events and webhooks"
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.contract.outside import (
    ID_REST,
    Caller,
    Receiver,
    Server,
    Shop,
    assert_misses_schema,
    assert_refused,
    fresh_buyer,
    ok,
    until,
)

ENDPOINT = "/v1/webhooks/endpoint"
TYPES = [
    f"payment.{word}"
    for word in ("created", "processing", "succeeded", "failed", "expired", "cancelled", "settled")
]


@pytest.fixture
def owner(shops: dict[str, Shop]) -> Iterator[Shop]:
    """An account without an endpoint."""
    owner = shops["endpoint"]
    owner.api.delete(ENDPOINT)
    yield owner
    owner.api.delete(ENDPOINT)


@pytest.fixture(scope="module")
def till(shops: dict[str, Shop]) -> str:
    return shops["endpoint"].merchant()


def test_registering_shows_the_secret_once(owner: Shop, receiver: Receiver) -> None:
    url = receiver.door().url
    made = ok(owner.api.put(ENDPOINT, {"url": url}))
    assert {"id", "url", "events", "state", "failingSince", "secret"} <= set(made)
    assert (made["url"], made["failingSince"]) == (url, None)
    assert sorted(made["events"]) == sorted(TYPES)
    assert isinstance(made["state"], str)
    assert made["secret"].startswith("whsec_")
    assert len(base64.b64decode(made["secret"].removeprefix("whsec_"), validate=True)) >= 24
    shown = ok(owner.api.get(ENDPOINT))
    assert shown == {name: value for name, value in made.items() if name != "secret"}
    again = ok(owner.api.put(ENDPOINT, {"url": url, "events": ["payment.settled"]}))
    assert "secret" not in again
    assert (again["id"], again["events"]) == (made["id"], ["payment.settled"])


def test_without_an_endpoint_everything_about_it_is_not_found(owner: Shop) -> None:
    assert_refused(owner.api.get(ENDPOINT), 404, "not_found")
    for act in ("rotate", "reveal", "enable", "disable"):
        assert_refused(owner.api.post(f"{ENDPOINT}/{act}"), 404, "not_found")
    assert_refused(owner.api.post(f"{ENDPOINT}/test", {"type": "payment.created"}), 404, "not_found")
    assert_refused(owner.api.delete(ENDPOINT), 404, "not_found")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"url": 7},
        {"url": None},
        {"url": "https://shop.example/h", "events": ["payment.paid"]},
        {"url": "https://shop.example/h", "events": "payment.created"},
        {"url": "https://shop.example/h", "events": ["payment.created", "payment.created"]},
    ],
)
def test_a_body_that_misses_its_schema_registers_nothing(owner: Shop, body: Any) -> None:
    assert_misses_schema(owner.api.put(ENDPOINT, body), "events" if "events" in body else "url")
    assert_refused(owner.api.get(ENDPOINT), 404, "not_found")


@pytest.mark.parametrize(
    "url",
    [
        "https://10.0.0.1/hook",
        "https://192.168.1.1/hook",
        "https://[::1]/hook",
        "https://[fd00::1]/hook",
        "https://[::ffff:10.0.0.1]/hook",
        "https://100.64.0.1/hook",
    ],
)
def test_an_address_that_is_not_public_is_refused_with_the_key_to_set(owner: Shop, url: str) -> None:
    message = assert_refused(owner.api.put(ENDPOINT, {"url": url}), 400, "invalid_params")["message"]
    assert "allow_networks" in message
    assert_refused(owner.api.get(ENDPOINT), 404, "not_found")


@pytest.mark.parametrize("url", ["https://169.254.169.254/latest/meta-data", "https://0.0.0.0/hook"])
def test_an_address_that_no_configuration_opens_is_refused_without_one(owner: Shop, url: str) -> None:
    message = assert_refused(owner.api.put(ENDPOINT, {"url": url}), 400, "invalid_params")["message"]
    assert "never calls" in message
    assert "allow_networks" not in message


@pytest.mark.parametrize(
    "url",
    ["ftp://shop.example/hook", "javascript:alert(1)", "nonsense", "https://", "https://u:p@shop.example/"],
)
def test_an_url_that_is_no_endpoint_is_refused(owner: Shop, url: str) -> None:
    answer = owner.api.put(ENDPOINT, {"url": url})
    assert answer.status_code == 400
    assert answer.json()["code"] in ("invalid_params", "params_validation")
    assert_refused(owner.api.get(ENDPOINT), 404, "not_found")


def test_the_shipped_configuration_is_closed_and_names_the_key_to_set(strict: Server) -> None:
    account_id = strict.cli_json("account", "create", "closed")["id"]
    with httpx.Client(base_url=strict.url) as client:
        caller = Caller(client, {"Api-Key": strict.key(account_id)})
        for url, key in (
            ("http://shop.example/hook", "allow_http"),
            ("https://127.0.0.1/hook", "allow_networks"),
        ):
            refusal = assert_refused(caller.put(ENDPOINT, {"url": url}), 400, "invalid_params")
            assert key in refusal["message"]


def test_reveal_shows_the_secret_again_and_rotate_another(owner: Shop, receiver: Receiver) -> None:
    secret = ok(owner.api.put(ENDPOINT, {"url": receiver.door().url}))["secret"]
    assert ok(owner.api.post(f"{ENDPOINT}/reveal"))["secret"] == secret
    rotated = ok(owner.api.post(f"{ENDPOINT}/rotate"))["secret"]
    assert rotated.startswith("whsec_")
    assert rotated != secret
    assert ok(owner.api.post(f"{ENDPOINT}/reveal"))["secret"] == rotated


def test_what_is_repeated_under_its_idempotency_key_is_done_once(
    owner: Shop, receiver: Receiver, till: str
) -> None:
    door, key = receiver.door(), f"repeated {time.time()}"
    ok(owner.api.put(ENDPOINT, {"url": door.url, "events": ["payment.created"]}))

    def twice(path: str, body: Any = None, status: int = 200) -> Any:
        first, again = (owner.api.once(path, body, key) for _ in range(2))
        assert first.content == again.content
        assert "idempotent-replayed" not in first.headers
        assert again.headers["idempotent-replayed"] == "true"
        return ok(first, status)

    scenario = "/v1/test/scenarios/created"
    twice(scenario, {}, 201)
    until(lambda: door.received)
    event = door.received[0].event["id"]
    delivery = f"/v1/webhooks/deliveries/{event}"
    until(lambda: ok(owner.api.get(delivery))["state"] == "succeeded")
    twice(f"{delivery}/resend")
    twice(f"{ENDPOINT}/test", {"type": "payment.failed"})
    twice(f"{ENDPOINT}/disable")
    twice(f"{ENDPOINT}/enable")
    ok(owner.api.once(f"{ENDPOINT}/disable", None, key))

    assert ok(owner.api.get(ENDPOINT))["state"] == "enabled"
    assert [one.event["type"] for one in door.received] == [*["payment.created"] * 2, "payment.failed"]
    assert_refused(owner.api.once(scenario, {"referenceId": "x"}, key), 409, "idempotency_conflict")


@pytest.mark.parametrize("event_type", TYPES)
def test_a_test_event_of_any_type_carries_sample_data(
    owner: Shop, receiver: Receiver, event_type: str
) -> None:
    door = receiver.door()
    ok(owner.api.put(ENDPOINT, {"url": door.url, "events": ["payment.settled"]}))
    body = ok(owner.api.post(f"{ENDPOINT}/test", {"type": event_type}))
    assert set(body) >= {"deliveryId", "status", "durationMs", "body"}
    assert re.fullmatch(f"dlv_{ID_REST}", body["deliveryId"])
    assert (body["status"], body["body"]) == (200, "seen")
    assert type(body["durationMs"]) is int
    until(lambda: door.received)
    event = door.received[0].event
    assert (event["type"], event["data"]["live"]) == (event_type, False)
    assert len(door.received) == 1


def test_a_test_event_needs_a_type(owner: Shop, receiver: Receiver) -> None:
    ok(owner.api.put(ENDPOINT, {"url": receiver.door().url}))
    assert_misses_schema(owner.api.post(f"{ENDPOINT}/test", {"type": "payment.paid"}), "type")
    assert_misses_schema(owner.api.post(f"{ENDPOINT}/test", {}), "type")


def test_only_the_chosen_types_are_delivered(owner: Shop, receiver: Receiver, till: str) -> None:
    door = receiver.door()
    ok(owner.api.put(ENDPOINT, {"url": door.url, "events": ["payment.processing", "payment.settled"]}))
    payment_id = owner.payment(till)
    owner.pay(payment_id, fresh_buyer())
    owner.advance("5s")
    door.wait_for(payment_id, "payment.settled")
    assert sorted(door.types_of(payment_id)) == ["payment.processing", "payment.settled"]


def test_pending_retries_follow_the_new_url(owner: Shop, receiver: Receiver, till: str) -> None:
    broken, fixed = receiver.door(), receiver.door()
    broken.otherwise = 500
    ok(owner.api.put(ENDPOINT, {"url": broken.url}))
    payment_id = owner.payment(till)
    broken.wait_for(payment_id, "payment.created")
    ok(owner.api.put(ENDPOINT, {"url": fixed.url}))
    owner.advance("2m")
    assert fixed.wait_for(payment_id, "payment.created")[0].raw == broken.of(payment_id)[0].raw


def test_deleting_takes_effect_at_once(owner: Shop, receiver: Receiver, till: str) -> None:
    door = receiver.door()
    door.otherwise = 500
    ok(owner.api.put(ENDPOINT, {"url": door.url}))
    payment_id = owner.payment(till)
    door.wait_for(payment_id, "payment.created")
    assert owner.api.delete(ENDPOINT).status_code == 200
    owner.simulate(payment_id, "failed")
    owner.advance("15m")
    assert door.types_of(payment_id) == ["payment.created"]
    assert_refused(owner.api.get(ENDPOINT), 404, "not_found")


def test_a_new_endpoint_after_deletion_has_a_new_secret(owner: Shop, receiver: Receiver) -> None:
    url = receiver.door().url
    first = ok(owner.api.put(ENDPOINT, {"url": url}))
    assert owner.api.delete(ENDPOINT).status_code == 200
    second = ok(owner.api.put(ENDPOINT, {"url": url}))
    assert first["secret"] != second["secret"]
    assert first["id"] != second["id"]


def test_a_disabled_endpoint_receives_nothing_until_enabled(
    owner: Shop, receiver: Receiver, till: str
) -> None:
    door = receiver.door()
    enabled = ok(owner.api.put(ENDPOINT, {"url": door.url}))["state"]
    ok(owner.api.post(f"{ENDPOINT}/disable"))
    disabled = ok(owner.api.get(ENDPOINT))["state"]
    assert disabled != enabled
    silent = owner.payment(till)
    assert_refused(owner.api.post("/v1/webhooks/recover", {"since": since(owner)}), 409, "endpoint_disabled")
    assert_refused(
        owner.api.post("/v1/webhooks/replay-missing", {"since": since(owner)}), 409, "endpoint_disabled"
    )
    ok(owner.api.post(f"{ENDPOINT}/enable"))
    assert ok(owner.api.get(ENDPOINT))["state"] == enabled
    heard = owner.payment(till)
    door.wait_for(heard, "payment.created")
    assert door.of(silent) == []


def since(shop: Shop, ago_s: float = 3600) -> str:
    """Return an instant of the test realm as ISO 8601 UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(shop.now_s() - ago_s))


def test_two_accounts_have_their_own_endpoints(other: Shop, owner: Shop, receiver: Receiver) -> None:
    second = other
    mine, theirs = receiver.door(), receiver.door()
    ok(owner.api.put(ENDPOINT, {"url": mine.url}))
    ok(second.api.put(ENDPOINT, {"url": theirs.url}))
    payment_id = second.payment(second.merchant())
    theirs.wait_for(payment_id, "payment.created")
    assert mine.received == []
    assert second.api.delete(ENDPOINT).status_code == 200
