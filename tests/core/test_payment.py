"""The state machine: every row of the table, everything else refused, and what holds for any history."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.core.errors import InvalidState, PaymentExpired
from payd.core.money import AmountWire
from payd.core.payment import (
    STAGES,
    TRANSITIONS,
    Cancelled,
    Created,
    Expired,
    Failed,
    FundsCommitted,
    Payment,
    PaymentCancelled,
    PaymentFailed,
    Processing,
    Settled,
    SettlementCompleted,
    Success,
    TransferConfirmed,
    Trigger,
    WindowClosed,
    open_payment,
    stage_of,
    transition,
)
from payd.core.status import FINAL, Status

NOW_MS = 1_780_000_000_000
PAID = AmountWire("caip19/eip155:8453/slip44:60", "100")
LEFT = AmountWire("caip19/eip155:8453/slip44:60", "97")
PROCESSING = Processing(NOW_MS, PAID, LEFT, "eip155:8453:0xab", "eip155:8453", track=b"notes")
OPEN = Payment(
    id="pay_ta",
    account_id="acct_1",
    merchant_id="mrch_1",
    reference_id="ORDER-1",
    currency="EUR",
    value=1250,
    created_at_ms=NOW_MS,
    expires_at_ms=NOW_MS + 900_000,
    updated_at_ms=NOW_MS,
)

COMMIT = FundsCommitted(PROCESSING, b"hash")
CONFIRM = TransferConfirmed("0xabc")
FAIL = PaymentFailed("The transfer cannot happen any more", "broadcast_failed")
CLOSE = WindowClosed()
CANCEL = PaymentCancelled("cancelled_by_user")
SETTLE = SettlementCompleted("0xdef")
TRIGGERS: tuple[Trigger, ...] = (Created(), COMMIT, CONFIRM, FAIL, CLOSE, CANCEL, SETTLE)


def after(*triggers: Trigger, start: Payment = OPEN) -> Payment:
    payment = start
    for trigger in triggers:
        payment = transition(payment, trigger, NOW_MS + payment.version + 1).payment
    return payment


HISTORIES: dict[str, tuple[Trigger, ...]] = {
    "requires_action": (),
    "processing": (COMMIT,),
    "succeeded": (COMMIT, CONFIRM),
    "settled": (COMMIT, CONFIRM, SETTLE),
    "failed": (FAIL,),
    "failed while processing": (COMMIT, FAIL),
    "expired": (CLOSE,),
    "expired while processing": (COMMIT, CLOSE),
    "cancelled": (CANCEL,),
}

# DESIGN.md, "5. A payment is an actor": the rows after the first, in its order.
ROWS = [
    ("requires_action", COMMIT, Status.PROCESSING, "payment.processing"),
    ("requires_action", FAIL, Status.FAILED, "payment.failed"),
    ("requires_action", CLOSE, Status.EXPIRED, "payment.expired"),
    ("requires_action", CANCEL, Status.CANCELLED, "payment.cancelled"),
    ("processing", CONFIRM, Status.SUCCEEDED, "payment.succeeded"),
    ("processing", FAIL, Status.FAILED, "payment.failed"),
    ("processing", CLOSE, Status.EXPIRED, "payment.expired"),
    ("succeeded", SETTLE, Status.SUCCEEDED, "payment.settled"),
]
REFUSED = [
    (state, trigger)
    for state in HISTORIES
    for trigger in TRIGGERS
    if (state, type(trigger)) not in {(row[0], type(row[1])) for row in ROWS}
]


def name_of(value: object) -> str | None:
    return type(value).__name__ if isinstance(value, Trigger) else None


def test_a_created_payment_requires_action_at_version_0() -> None:
    moved = open_payment(OPEN)

    assert moved.payment is OPEN
    assert (moved.payment.status, moved.payment.version) == (Status.REQUIRES_ACTION, 0)
    assert (moved.event_type, moved.occurred_at_ms) == ("payment.created", NOW_MS)


@pytest.mark.parametrize(("state", "trigger", "status", "event_type"), ROWS, ids=name_of)
def test_every_row_of_the_table_moves_the_payment_and_names_its_event(
    state: str, trigger: Trigger, status: Status, event_type: str
) -> None:
    before = after(*HISTORIES[state])
    moved = transition(before, trigger, NOW_MS + 5000)

    assert moved.payment.status is status
    assert moved.event_type == event_type
    assert moved.occurred_at_ms == NOW_MS + 5000
    assert moved.payment.version == before.version + 1
    assert moved.payment.updated_at_ms == NOW_MS + 5000


def test_what_was_paid_in_the_end_replaces_what_was_committed_but_not_when() -> None:
    other = AmountWire("caip19/eip155:1/slip44:60", "99")
    paid = Processing(NOW_MS + 60_000, other, other, "eip155:1:0xcd", "eip155:1", track=b"other notes")

    moved = transition(after(COMMIT), TransferConfirmed("0xabc", paid), NOW_MS + 90_000).payment

    assert moved.processing == msgspec.structs.replace(paid, processing_at_ms=NOW_MS)
    assert moved.success == Success(NOW_MS + 90_000, "0xabc")
    assert transition(after(COMMIT), CONFIRM, NOW_MS).payment.processing == PROCESSING
    settled = transition(moved, SETTLE, NOW_MS + 95_000).payment.settled
    assert settled is not None
    assert settled.amount == other


def test_only_a_payment_that_no_wallet_committed_is_only_seen() -> None:
    by_sight = FundsCommitted(PROCESSING)

    assert after(by_sight).is_only_seen
    assert not after(by_sight, CONFIRM).is_only_seen
    assert not after(COMMIT).is_only_seen
    assert not OPEN.is_only_seen


def test_the_table_has_these_rows_and_no_others() -> None:
    starts = {(after(*HISTORIES[state]).status, type(trigger)) for state, trigger, _, _ in ROWS}

    assert set(TRANSITIONS) == starts | {(None, Created)}
    assert {event for _, event in TRANSITIONS.values()} == {
        "payment.created",
        "payment.processing",
        "payment.succeeded",
        "payment.failed",
        "payment.expired",
        "payment.cancelled",
        "payment.settled",
    }


@pytest.mark.parametrize(("state", "trigger"), REFUSED, ids=lambda value: name_of(value) or str(value))
def test_everything_else_is_refused(state: str, trigger: Trigger) -> None:
    before = after(*HISTORIES[state])
    expired = before.status is Status.EXPIRED and not isinstance(trigger, PaymentCancelled)
    with pytest.raises(PaymentExpired if expired else InvalidState) as refusal:
        transition(before, trigger, NOW_MS)

    if not expired:
        assert refusal.value.details == {"status": before.status.value}
        assert trigger.name in refusal.value.message


# What each trigger leaves behind


def test_committed_funds_fill_the_processing_block_and_keep_what_identifies_the_confirm() -> None:
    payment = after(COMMIT)

    assert payment.processing == PROCESSING
    assert payment.results_hash == b"hash"


def test_a_confirmed_transfer_fills_the_success_block() -> None:
    assert after(COMMIT, CONFIRM).success == Success(NOW_MS + 2, "0xabc")


def test_a_failure_keeps_its_reason_and_code() -> None:
    assert after(FAIL).failed == Failed(NOW_MS + 1, "The transfer cannot happen any more", "broadcast_failed")


def test_a_closed_window_fills_the_expired_block() -> None:
    assert after(CLOSE).expired == Expired(NOW_MS + 1)


def test_a_cancellation_keeps_its_reason() -> None:
    assert after(CANCEL).cancelled == Cancelled(NOW_MS + 1, "cancelled_by_user")


def test_a_settlement_is_of_the_amount_that_reaches_the_merchant() -> None:
    assert after(COMMIT, CONFIRM, SETTLE).settled == Settled(NOW_MS + 3, "0xdef", LEFT)


def test_what_ended_while_processing_still_shows_what_was_committed() -> None:
    assert after(COMMIT, FAIL).processing == PROCESSING
    assert after(COMMIT, CLOSE).processing == PROCESSING


def test_a_payment_shows_its_amount_as_the_wire_does() -> None:
    assert OPEN.amount == AmountWire("iso4217/EUR", "1250")


# What holds for any history

texts = st.text(max_size=10)
triggers = st.one_of(
    st.just(Created()),
    st.builds(FundsCommitted, st.just(PROCESSING), st.none() | st.binary(max_size=4)),
    st.builds(TransferConfirmed, st.none() | texts),
    st.builds(PaymentFailed, texts),
    st.just(WindowClosed()),
    st.builds(PaymentCancelled, texts),
    st.builds(SettlementCompleted, st.none() | texts),
)
histories = st.lists(triggers, max_size=20)
BLOCKS = {
    "processing": "processing",
    "success": "succeeded",
    "failed": "failed",
    "cancelled": "cancelled",
    "expired": "expired",
    "settled": "settled",
}


@given(histories)
def test_any_history_is_one_version_a_step_and_final_stays_final(history: list[Trigger]) -> None:
    """Whatever happens in whatever order: no gaps in versions, no way out of a final state."""
    payment = OPEN
    for at_ms, trigger in enumerate(history):
        before = payment
        try:
            payment = transition(before, trigger, at_ms).payment
        except (InvalidState, PaymentExpired):
            continue

        assert payment.version == before.version + 1
        assert before.status not in FINAL or payment.status is before.status
        assert before.status not in FINAL or isinstance(trigger, SettlementCompleted)


@given(histories)
def test_a_step_fills_one_block_and_changes_none_that_was_there(history: list[Trigger]) -> None:
    payment = OPEN
    for trigger in history:
        before = payment
        try:
            payment = transition(before, trigger, NOW_MS).payment
        except (InvalidState, PaymentExpired):
            continue
        filled = [name for name in BLOCKS if getattr(before, name) != getattr(payment, name)]

        assert len(filled) == 1
        assert getattr(before, filled[0]) is None


@given(histories)
def test_the_blocks_always_tell_the_status(history: list[Trigger]) -> None:
    payment = OPEN
    for trigger in history:
        try:
            payment = transition(payment, trigger, NOW_MS).payment
        except (InvalidState, PaymentExpired):
            continue
    status = payment.status.value

    assert [name for name, word in BLOCKS.items() if word == status and getattr(payment, name) is None] == []
    assert payment.is_final == (payment.status in FINAL)
    assert (payment.success is not None) == (payment.status is Status.SUCCEEDED)
    assert (payment.failed is not None) == (payment.status is Status.FAILED)
    assert (payment.expired is not None) == (payment.status is Status.EXPIRED)
    assert (payment.cancelled is not None) == (payment.status is Status.CANCELLED)
    assert payment.settled is None or payment.success is not None
    assert payment.success is None or payment.processing is not None


@given(histories)
def test_the_state_before_is_never_changed_and_survives_being_stored(history: list[Trigger]) -> None:
    payment = OPEN
    for trigger in history:
        stored = msgspec.msgpack.encode(payment)
        try:
            moved = transition(payment, trigger, NOW_MS).payment
        except (InvalidState, PaymentExpired):
            moved = payment

        assert msgspec.msgpack.encode(payment) == stored
        assert msgspec.msgpack.decode(stored, type=Payment) == payment
        payment = moved


def test_a_payment_is_counted_by_what_it_came_to_last() -> None:
    payment = OPEN
    assert stage_of(payment) == "created"
    for status in Status:
        moved = msgspec.structs.replace(payment, status=status)
        assert stage_of(moved) in STAGES
    settled = Settled(0, None, AmountWire("caip19/x", "1"))
    paid = msgspec.structs.replace(payment, status=Status.SUCCEEDED)
    assert stage_of(paid) == "succeeded"
    assert stage_of(msgspec.structs.replace(paid, settled=settled)) == "settled"
