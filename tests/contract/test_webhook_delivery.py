"""Webhook deliveries: what arrives, how it is signed, and that others' code can verify it.

Source: SPEC.md, "Webhook event envelope"
"""

from __future__ import annotations

import re
import time
from typing import NamedTuple

import pytest

from tests.contract.outside import (
    ID_REST,
    ISO_UTC,
    USDC,
    Delivery,
    Door,
    Receiver,
    Shop,
    fresh_buyer,
    magic_buyer,
    ok,
    until,
)
from tests.contract.verifiers import Verify, forged, genuine

ENDPOINT = "/v1/webhooks/endpoint"
ENVELOPE = {"id", "type", "api_version", "created_at", "data"}
BLOCKS = ["processing", "success", "failed", "cancelled", "expired", "settled"]
DATA = {
    "payment_id",
    "merchant_id",
    "live",
    "payment_state_version",
    "reference_id",
    "status",
    "amount",
    "created_at",
    "expires_at",
    *BLOCKS,
}


@pytest.fixture(scope="module")
def hooks(shops: dict[str, Shop]) -> Shop:
    return shops["hooks"]


@pytest.fixture(scope="module")
def door(receiver: Receiver) -> Door:
    return receiver.door()


@pytest.fixture(scope="module")
def secret(hooks: Shop, door: Door) -> str:
    """The secret of the account's endpoint, which is the door from here on."""
    return str(ok(hooks.api.put(ENDPOINT, {"url": door.url}))["secret"])


@pytest.fixture(scope="module")
def lives(hooks: Shop, door: Door, secret: str) -> dict[str, list[Delivery]]:
    """Five payments that end in five ways, and what was delivered about each, in order of version."""
    merchant_id = hooks.merchant("Lives")
    made = {n: hooks.payment(merchant_id, referenceId=f"life {n} ✓") for n in ("settled", "failed", "broken")}
    made |= {name: hooks.payment(merchant_id) for name in ("cancelled", "expired")}
    hooks.pay(made["settled"], magic_buyer(1))
    hooks.advance("5s")
    hooks.simulate(made["failed"], "failed", reason="the buyer walked away")
    hooks.simulate(made["broken"], "processing")
    hooks.simulate(made["broken"], "failed")
    ok(hooks.api.post(f"/v1/payments/{made['cancelled']}/cancel"))
    hooks.advance("15m")
    hooks.advance("1s")
    for name, payment_id in made.items():
        last = "failed" if name == "broken" else name
        door.wait_for(payment_id, f"payment.{last}", "payment.created")
    ordered = {name: sorted(door.of(payment_id), key=version_of) for name, payment_id in made.items()}
    return {**ordered, "merchant": [], merchant_id: []}


def version_of(delivery: Delivery) -> int:
    return int(delivery.event["data"]["payment_state_version"])


def types(deliveries: list[Delivery]) -> list[str]:
    return [d.event["type"].removeprefix("payment.") for d in deliveries]


def test_a_paid_payment_tells_its_whole_life(lives: dict[str, list[Delivery]]) -> None:
    assert types(lives["settled"]) == ["created", "processing", "succeeded", "settled"]
    statuses = [d.event["data"]["status"] for d in lives["settled"]]
    assert statuses == ["requires_action", "processing", "succeeded", "succeeded"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("failed", ["created", "failed"]),
        ("broken", ["created", "processing", "failed"]),
        ("cancelled", ["created", "cancelled"]),
        ("expired", ["created", "expired"]),
    ],
)
def test_every_other_end_is_told(lives: dict[str, list[Delivery]], name: str, told: list[str]) -> None:
    assert types(lives[name]) == told
    assert lives[name][-1].event["data"]["status"] == told[-1]


def test_versions_count_from_0_without_a_gap(lives: dict[str, list[Delivery]]) -> None:
    for deliveries in lives.values():
        assert [version_of(d) for d in deliveries] == list(range(len(deliveries)))


def every(lives: dict[str, list[Delivery]]) -> list[Delivery]:
    return [delivery for deliveries in lives.values() for delivery in deliveries]


def test_every_event_has_the_envelope_and_the_whole_snapshot(
    hooks: Shop, lives: dict[str, list[Delivery]]
) -> None:
    for delivery in every(lives):
        event, data = delivery.event, delivery.event["data"]
        assert set(event) >= ENVELOPE
        assert re.fullmatch(f"evt_{ID_REST}", event["id"])
        assert event["api_version"] == "2026-05-18"
        assert ISO_UTC.fullmatch(event["created_at"])
        assert set(data) >= DATA
        assert re.fullmatch(f"pay_t{ID_REST}", data["payment_id"])
        assert data["merchant_id"] in lives
        assert data["live"] is False
        assert type(data["payment_state_version"]) is int
        assert data["amount"] == {"unit": "iso4217/USD", "value": "1250"}
        assert ISO_UTC.fullmatch(data["created_at"])
        assert ISO_UTC.fullmatch(data["expires_at"])
    assert lives["settled"][0].event["data"]["reference_id"] == "life settled ✓"
    assert len({d.event["id"] for d in every(lives)}) == len(every(lives))


def test_a_block_is_null_until_its_stage_and_stays_afterwards(lives: dict[str, list[Delivery]]) -> None:
    reached = {
        "settled": [[], ["processing"], ["processing", "success"], ["processing", "success", "settled"]],
        "failed": [[], ["failed"]],
        "broken": [[], ["processing"], ["processing", "failed"]],
        "cancelled": [[], ["cancelled"]],
        "expired": [[], ["expired"]],
    }
    for name, stages in reached.items():
        for delivery, stage in zip(lives[name], stages, strict=True):
            data = delivery.event["data"]
            assert [block for block in BLOCKS if data[block] is not None] == stage


def test_blocks_have_the_fields_of_the_pages(lives: dict[str, list[Delivery]]) -> None:
    data = lives["settled"][-1].event["data"]
    processing = data["processing"]
    fields = {
        "processing_at",
        "option_amount",
        "fee",
        "settlement_amount",
        "buyer_caip10",
        "chain_caip2",
    }
    assert fields <= set(processing)
    assert processing["fee"] is None
    assert processing["buyer_caip10"].lower() == magic_buyer(1)
    assert processing["chain_caip2"] == "eip155:8453"
    for amount in (processing["option_amount"], processing["settlement_amount"], data["settled"]["amount"]):
        assert amount["unit"].lower() == f"caip19/{USDC}".lower()
        assert re.fullmatch(r"[1-9]\d*", amount["value"])
    tx_id = f"test:{data['payment_id']}"
    assert (data["success"]["tx_id"], data["settled"]["tx_id"]) == (tx_id, tx_id)
    failed = lives["failed"][-1].event["data"]["failed"]
    cancelled = lives["cancelled"][-1].event["data"]["cancelled"]
    expired = lives["expired"][-1].event["data"]["expired"]
    for reason in (failed["failure_reason"], cancelled["cancellation_reason"]):
        assert isinstance(reason, str)
        assert reason
    for instant in (
        processing["processing_at"],
        data["success"]["succeeded_at"],
        data["settled"]["settled_at"],
        failed["failed_at"],
        cancelled["cancelled_at"],
        expired["expired_at"],
    ):
        assert ISO_UTC.fullmatch(instant)


def test_a_delivery_is_a_json_post_with_the_standard_headers(lives: dict[str, list[Delivery]]) -> None:
    for delivery in every(lives):
        assert delivery.headers["content-type"].split(";")[0] == "application/json"
        assert re.fullmatch(f"msg_{ID_REST}", delivery.headers["webhook-id"])
        # Signed with the real time, whatever the test clock says.
        assert abs(int(delivery.headers["webhook-timestamp"]) - delivery.at_s) < 10
        assert re.fullmatch(r"v1,[A-Za-z0-9+/]{43}=", delivery.headers["webhook-signature"])
    assert len({d.headers["webhook-id"] for d in every(lives)}) == len(every(lives))


def test_every_verifier_accepts_every_delivery(
    lives: dict[str, list[Delivery]], secret: str, verify: Verify
) -> None:
    deliveries = every(lives)
    assert verify([genuine(secret, d) for d in deliveries]) == [d.event["id"] for d in deliveries]


def test_every_verifier_refuses_a_delivery_in_which_anything_was_changed(
    lives: dict[str, list[Delivery]], secret: str, verify: Verify
) -> None:
    changed = [one for delivery in every(lives) for one in forged(secret, delivery)]
    assert len({(one.raw, *one.headers.values()) for one in changed}) == len(changed)
    assert verify(changed) == [None] * len(changed)


class Rotated(NamedTuple):
    """A delivery at one stage of a rotation, and the secrets that are valid then, the newest first."""

    delivery: Delivery
    valid: tuple[str, ...]


@pytest.fixture(scope="module")
def rotation(shops: dict[str, Shop], receiver: Receiver) -> list[Rotated]:
    """An endpoint whose secret is rotated twice within a day, told of a payment at each stage."""
    owner, door = shops["endpoint"], receiver.door()
    owner.api.delete(ENDPOINT)
    merchant_id = owner.merchant()
    stages: list[Rotated] = []

    def sell(*valid: str) -> None:
        payment_id = owner.payment(merchant_id)
        stages.append(Rotated(door.wait_for(payment_id, "payment.created")[0], valid))

    first = ok(owner.api.put(ENDPOINT, {"url": door.url}))["secret"]
    sell(first)
    second = ok(owner.api.post(f"{ENDPOINT}/rotate"))["secret"]
    sell(second, first)
    owner.advance("1h")
    third = ok(owner.api.post(f"{ENDPOINT}/rotate"))["secret"]
    sell(third, second, first)
    owner.advance("22h")
    sell(third, second, first)
    # A secret signs for a day after the rotation that replaced it.
    owner.advance("61m")
    sell(third, second)
    owner.advance("1h")
    sell(third)
    ok(owner.api.delete(ENDPOINT))
    return stages


def test_a_delivery_carries_one_signature_for_each_valid_secret(rotation: list[Rotated]) -> None:
    entries = [stage.delivery.headers["webhook-signature"].split(" ") for stage in rotation]
    assert [len(signatures) for signatures in entries] == [len(stage.valid) for stage in rotation]
    assert [len(stage.valid) for stage in rotation] == [1, 2, 3, 3, 2, 1]
    assert all(entry.startswith("v1,") for signatures in entries for entry in signatures)


def test_every_verifier_accepts_a_rotation_with_each_valid_secret_and_no_other(
    rotation: list[Rotated], verify: Verify
) -> None:
    secrets = rotation[2].valid
    pairs = [(stage, secret) for stage in rotation for secret in secrets]
    accepted = [stage.delivery.event["id"] if secret in stage.valid else None for stage, secret in pairs]
    assert accepted.count(None) == 6
    assert verify([genuine(secret, stage.delivery) for stage, secret in pairs]) == accepted


def test_every_verifier_refuses_a_changed_delivery_also_during_a_rotation(
    rotation: list[Rotated], verify: Verify
) -> None:
    changed = [one for stage in rotation for secret in stage.valid for one in forged(secret, stage.delivery)]
    assert verify(changed) == [None] * len(changed)


def test_events_can_be_read_back_byte_for_byte(hooks: Shop, lives: dict[str, list[Delivery]]) -> None:
    listed = ok(hooks.api.get("/v1/events"))
    assert set(listed) == {"data", "nextCursor"}
    assert listed["data"]
    for delivery in lives["settled"]:
        event = delivery.event
        shown = ok(hooks.api.get(f"/v1/events/{event['id']}"))
        assert set(shown) >= {"id", "type", "createdAt", "paymentId", "envelope"}
        assert (shown["id"], shown["type"]) == (event["id"], event["type"])
        assert shown["paymentId"] == event["data"]["payment_id"]
        assert shown["createdAt"] == event["created_at"]
        assert shown["envelope"] == event
    missing = hooks.api.get("/v1/events/evt_" + "0" * 36)
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


def test_an_event_waits_for_no_other_payment(hooks: Shop, door: Door, secret: str) -> None:
    began = time.monotonic()
    payment_id = hooks.payment(hooks.merchant())
    hooks.pay(payment_id, fresh_buyer())
    until(lambda: {"payment.created", "payment.processing"} <= set(door.types_of(payment_id)))
    assert time.monotonic() - began < 5
