"""What a merchant is told, byte for byte: `golden/` holds the bytes of each type of event."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.core.endpoint import EVENT_TYPES
from payd.core.event import API_VERSION, encode_event, iso_ms, sample_event, snapshot
from payd.core.fee import FeeRule, compute_fee, fee_total
from payd.core.money import AmountWire
from payd.core.payment import (
    TRANSITIONS,
    FundsCommitted,
    Payment,
    PaymentCancelled,
    PaymentFailed,
    Processing,
    SettlementCompleted,
    TransferConfirmed,
    Transition,
    Trigger,
    WindowClosed,
    open_payment,
    transition,
)

GOLDEN = Path(__file__).with_name("golden")

CREATED_AT_MS = 1_779_098_340_123  # 2026-05-18T09:59:00.123Z
UNIT = "caip19/eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"
PAID = AmountWire(UNIT, "10000000")
BUYER = "eip155:8453:0xabababababababababababababababababababab"
TX_ID = "0x" + "cd" * 32

PAYMENT = Payment(
    id="pay_l01jw0000000000000000000000000000000a",
    account_id="acct_01jw0000000000000000000000000000000b",
    merchant_id="mrch_01jw0000000000000000000000000000000c",
    reference_id='ORDER-1 £5 "gift"',
    currency="USD",
    value=1000,
    created_at_ms=CREATED_AT_MS,
    expires_at_ms=CREATED_AT_MS + 900_000,
    updated_at_ms=CREATED_AT_MS,
)
PROCESSING = Processing(CREATED_AT_MS + 60_000, PAID, PAID, BUYER, "eip155:8453", track=b"not for merchants")
RULE = FeeRule(base_amount=0, numerator=29, denominator=1000)
WITH_FEE = msgspec.structs.replace(
    PROCESSING,
    fee=compute_fee(RULE, 10_000_000, UNIT),
    settlement_amount=AmountWire(UNIT, str(10_000_000 - fee_total(RULE, 10_000_000))),
)

COMMIT = FundsCommitted(PROCESSING, b"not for merchants")
CONFIRM = TransferConfirmed(TX_ID)
HISTORIES: dict[str, tuple[Trigger, ...]] = {
    "payment.created": (),
    "payment.processing": (COMMIT,),
    "payment.processing.fee": (FundsCommitted(WITH_FEE),),
    "payment.succeeded": (COMMIT, CONFIRM),
    "payment.failed": (COMMIT, PaymentFailed("The transfer failed on its chain", "broadcast_failed")),
    "payment.expired": (WindowClosed(),),
    "payment.cancelled": (PaymentCancelled("cancelled_by_user"),),
    "payment.settled": (FundsCommitted(WITH_FEE), CONFIRM, SettlementCompleted(TX_ID)),
}


def moved_by(*triggers: Trigger) -> Transition:
    moved = open_payment(PAYMENT)
    for step, trigger in enumerate(triggers, start=1):
        moved = transition(moved.payment, trigger, CREATED_AT_MS + 60_000 * step)
    return moved


def decoded(body: bytes) -> dict[str, Any]:
    return msgspec.json.decode(body, type=dict[str, Any])


@pytest.mark.parametrize("name", HISTORIES)
def test_the_bytes_of_an_event_are_the_golden_ones(name: str) -> None:
    body = encode_event(moved_by(*HISTORIES[name]), "evt_01jw0000000000000000000000000000000d", live=True)

    assert body == (GOLDEN / f"{name}.json").read_bytes()


def test_every_event_type_has_a_golden_file_and_every_file_a_test() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(HISTORIES)
    assert set(EVENT_TYPES) <= set(HISTORIES)
    assert set(EVENT_TYPES) == {event_type for _, event_type in TRANSITIONS.values()}
    assert {moved_by(*history).event_type for history in HISTORIES.values()} == set(EVENT_TYPES)


@pytest.mark.parametrize("name", HISTORIES)
def test_an_event_has_the_fields_of_the_specification_and_no_others(name: str) -> None:
    event = decoded((GOLDEN / f"{name}.json").read_bytes())

    assert list(event) == ["id", "type", "api_version", "created_at", "data"]
    assert list(event["data"]) == [
        "payment_id",
        "merchant_id",
        "live",
        "payment_state_version",
        "reference_id",
        "status",
        "amount",
        "created_at",
        "expires_at",
        "processing",
        "success",
        "failed",
        "cancelled",
        "expired",
        "settled",
    ]
    assert event["api_version"] == API_VERSION == "2026-05-18"


@pytest.mark.parametrize(
    ("name", "status", "version", "blocks"),
    [
        ("payment.created", "requires_action", 0, set()),
        ("payment.processing", "processing", 1, {"processing"}),
        ("payment.processing.fee", "processing", 1, {"processing"}),
        ("payment.succeeded", "succeeded", 2, {"processing", "success"}),
        ("payment.failed", "failed", 2, {"processing", "failed"}),
        ("payment.expired", "expired", 1, {"expired"}),
        ("payment.cancelled", "cancelled", 1, {"cancelled"}),
        ("payment.settled", "succeeded", 3, {"processing", "success", "settled"}),
    ],
)
def test_an_event_carries_the_whole_payment_at_its_version(
    name: str, status: str, version: int, blocks: set[str]
) -> None:
    data = decoded((GOLDEN / f"{name}.json").read_bytes())["data"]
    stages = ("processing", "success", "failed", "cancelled", "expired", "settled")

    assert data["status"] == status
    assert data["payment_state_version"] == version
    assert {stage for stage in stages if data[stage] is not None} == blocks


def test_the_processing_block_has_no_fee_unless_one_is_taken() -> None:
    processing = decoded((GOLDEN / "payment.processing.json").read_bytes())["data"]["processing"]

    assert processing == {
        "processing_at": "2026-05-18T10:00:00.123Z",
        "option_amount": {"unit": UNIT, "value": "10000000"},
        "fee": None,
        "settlement_amount": {"unit": UNIT, "value": "10000000"},
        "buyer_caip10": BUYER,
        "chain_caip2": "eip155:8453",
    }


def test_a_fee_is_shown_with_how_it_came_about() -> None:
    processing = decoded((GOLDEN / "payment.processing.fee.json").read_bytes())["data"]["processing"]

    assert processing["fee"] == {
        "kind": "base_plus_percent",
        "base_amount": {"unit": UNIT, "value": "0"},
        "percent": {"numerator": "29", "denominator": "1000"},
        "percent_amount": {"unit": UNIT, "value": "290000"},
        "total_amount": {"unit": UNIT, "value": "290000"},
    }
    assert processing["settlement_amount"] == {"unit": UNIT, "value": "9710000"}


@pytest.mark.parametrize(
    ("name", "block", "fields"),
    [
        ("payment.succeeded", "success", {"succeeded_at": "2026-05-18T10:01:00.123Z", "tx_id": TX_ID}),
        (
            "payment.failed",
            "failed",
            {"failed_at": "2026-05-18T10:01:00.123Z", "failure_reason": "The transfer failed on its chain"},
        ),
        (
            "payment.cancelled",
            "cancelled",
            {"cancelled_at": "2026-05-18T10:00:00.123Z", "cancellation_reason": "cancelled_by_user"},
        ),
        ("payment.expired", "expired", {"expired_at": "2026-05-18T10:00:00.123Z"}),
        (
            "payment.settled",
            "settled",
            {
                "settled_at": "2026-05-18T10:02:00.123Z",
                "tx_id": TX_ID,
                "amount": {"unit": UNIT, "value": "9710000"},
            },
        ),
    ],
)
def test_each_stage_has_its_block(name: str, block: str, fields: dict[str, Any]) -> None:
    assert decoded((GOLDEN / f"{name}.json").read_bytes())["data"][block] == fields


def test_an_event_happened_when_the_payment_moved() -> None:
    event = decoded((GOLDEN / "payment.succeeded.json").read_bytes())

    assert event["created_at"] == "2026-05-18T10:01:00.123Z"
    assert event["data"]["created_at"] == "2026-05-18T09:59:00.123Z"
    assert event["data"]["expires_at"] == "2026-05-18T10:14:00.123Z"


def test_an_event_of_a_test_payment_is_not_live() -> None:
    moved = moved_by()

    assert decoded(encode_event(moved, "evt_1", live=False))["data"]["live"] is False
    assert snapshot(moved.payment, live=True).live is True


@pytest.mark.parametrize("name", HISTORIES)
def test_what_is_kept_for_payd_alone_is_told_nobody(name: str) -> None:
    body = (GOLDEN / f"{name}.json").read_bytes()

    assert b"not for merchants" not in body
    assert PAYMENT.account_id.encode() not in body


@pytest.mark.parametrize("event_type", EVENT_TYPES)
def test_a_sample_of_any_type_has_the_shape_of_a_real_one_and_is_not_live(event_type: str) -> None:
    body = sample_event(
        event_type, event_id="evt_1", payment_id="pay_t1", merchant_id="mrch_1", now_ms=CREATED_AT_MS
    )
    sample, real = decoded(body), decoded((GOLDEN / f"{event_type}.json").read_bytes())

    assert (sample["id"], sample["type"]) == ("evt_1", event_type)
    assert sample["data"]["live"] is False
    assert sample["data"]["payment_state_version"] == real["data"]["payment_state_version"]
    assert shape(sample["data"]) == shape(real["data"])


def shape(value: Any) -> Any:
    """The names in a value; a fee is left out, because a real event may have one and a sample has none."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items() if name != "fee"}
    return value is None


@pytest.mark.parametrize(
    ("at_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (CREATED_AT_MS, "2026-05-18T09:59:00.123Z"),
        (1_779_098_340_007, "2026-05-18T09:59:00.007Z"),
    ],
)
def test_times_are_utc_with_three_digits_of_milliseconds(at_ms: int, text: str) -> None:
    assert iso_ms(at_ms) == text


@given(st.integers(0, 2**42))
def test_times_keep_every_millisecond_and_sort_as_text(at_ms: int) -> None:
    assert len(iso_ms(at_ms)) == 24
    assert iso_ms(at_ms) < iso_ms(at_ms + 1)
