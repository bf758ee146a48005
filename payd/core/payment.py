"""A payment and every way it can move: all transitions stand in this file, in one table.

Nothing else in the tree may decide that a payment moves. Triggers are the facts that go in, transitions are
what comes out; they are different types, so that an outcome can never be fed back as a fact.

Source: SPEC.md, "States and transitions"; DESIGN.md, "5. A payment is an actor".
"""

from __future__ import annotations

from typing import ClassVar, Final

import msgspec

from payd.core.errors import InvalidState, PaymentExpired
from payd.core.fee import Fee
from payd.core.money import AmountWire, fiat_amount
from payd.core.status import FINAL, Status

CANCELLED_BY_MERCHANT: Final = "cancelled_by_merchant"
CANCELLED_BY_USER: Final = "cancelled_by_user"
_CANCELLED: Final = {CANCELLED_BY_MERCHANT: "by the merchant", CANCELLED_BY_USER: "by the buyer"}


class Checkout(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Where the checkout page sends the buyer afterwards; both are https or there is no redirect."""

    success_url: str
    error_url: str


class Processing(msgspec.Struct, frozen=True):
    """What the buyer committed, and what its chain needs to follow it."""

    processing_at_ms: int
    option_amount: AmountWire
    settlement_amount: AmountWire
    buyer: str | None
    chain: str
    fee: Fee | None = None
    # The chain's own notes (what to look at, when); opaque to everyone else.
    track: bytes = b""


class Success(msgspec.Struct, frozen=True):
    """The payment is paid: proof, and when."""

    succeeded_at_ms: int
    tx_id: str | None


class Failed(msgspec.Struct, frozen=True):
    """The payment ended unpaid."""

    failed_at_ms: int
    reason: str
    code: str = "declined_user"


class Expired(msgspec.Struct, frozen=True):
    """The window closed first."""

    expired_at_ms: int


class Cancelled(msgspec.Struct, frozen=True):
    """Somebody called it off."""

    cancelled_at_ms: int
    reason: str


def cancelled_words(reason: str) -> str:
    """Who called a payment off, or why, for people."""
    return _CANCELLED.get(reason, reason)


class Settled(msgspec.Struct, frozen=True):
    """The merchant has the funds for good."""

    settled_at_ms: int
    tx_id: str | None
    amount: AmountWire


class Payment(msgspec.Struct, frozen=True, gc=False):
    """The whole payment at one version. Times are Unix milliseconds of its realm."""

    id: str
    account_id: str
    merchant_id: str
    reference_id: str
    currency: str
    value: int
    created_at_ms: int
    expires_at_ms: int
    updated_at_ms: int
    checkout: Checkout | None = None
    status: Status = Status.REQUIRES_ACTION
    version: int = 0
    results_hash: bytes | None = None
    processing: Processing | None = None
    success: Success | None = None
    failed: Failed | None = None
    cancelled: Cancelled | None = None
    expired: Expired | None = None
    settled: Settled | None = None

    @property
    def is_final(self) -> bool:
        """Whether no trigger can change the status any more."""
        return self.status in FINAL

    @property
    def is_only_seen(self) -> bool:
        """Whether nothing but a transfer that a node showed has committed the buyer yet, and no wallet."""
        return self.status is Status.PROCESSING and self.results_hash is None

    @property
    def amount(self) -> AmountWire:
        """The requested amount as the wire shows it."""
        return fiat_amount(self.currency, self.value)


class Trigger(msgspec.Struct, frozen=True):
    """A fact that may move a payment."""

    name: ClassVar[str]


class Created(Trigger, frozen=True):
    """The merchant asked for it."""

    name = "creation"


class FundsCommitted(Trigger, frozen=True):
    """The buyer signed, or a node shows the buyer's transfer."""

    name = "a commitment of funds"
    processing: Processing
    results_hash: bytes | None = None


class TransferConfirmed(Trigger, frozen=True):
    """The transfer is proven and deep enough.

    `processing` is what it paid: not always what had been committed before. None: that.
    """

    name = "a confirmed transfer"
    tx_id: str | None
    processing: Processing | None = None


class PaymentFailed(Trigger, frozen=True):
    """It is proven that the payment cannot happen any more."""

    name = "a failure"
    reason: str
    code: str = "declined_user"


class WindowClosed(Trigger, frozen=True):
    """The time is over, and nothing of ours can still land."""

    name = "expiry"


class PaymentCancelled(Trigger, frozen=True):
    """The merchant or the buyer called it off."""

    name = "a cancellation"
    reason: str


class SettlementCompleted(Trigger, frozen=True):
    """The same transfer is final on its chain."""

    name = "a settlement"
    tx_id: str | None


class Transition(msgspec.Struct, frozen=True):
    """A payment that moved: the state after, and the event a merchant is told."""

    payment: Payment
    event_type: str
    occurred_at_ms: int


TRANSITIONS: Final[dict[tuple[Status | None, type[Trigger]], tuple[Status, str]]] = {
    (None, Created): (Status.REQUIRES_ACTION, "payment.created"),
    (Status.REQUIRES_ACTION, FundsCommitted): (Status.PROCESSING, "payment.processing"),
    (Status.REQUIRES_ACTION, PaymentFailed): (Status.FAILED, "payment.failed"),
    (Status.REQUIRES_ACTION, WindowClosed): (Status.EXPIRED, "payment.expired"),
    (Status.REQUIRES_ACTION, PaymentCancelled): (Status.CANCELLED, "payment.cancelled"),
    (Status.PROCESSING, TransferConfirmed): (Status.SUCCEEDED, "payment.succeeded"),
    (Status.PROCESSING, PaymentFailed): (Status.FAILED, "payment.failed"),
    (Status.PROCESSING, WindowClosed): (Status.EXPIRED, "payment.expired"),
    (Status.SUCCEEDED, SettlementCompleted): (Status.SUCCEEDED, "payment.settled"),
}
"""Status before and trigger → status after and event type. What is not here cannot happen."""


STAGES: Final = ("created", *(one.value for one in Status if one is not Status.REQUIRES_ACTION), "settled")
"""What a payment comes to, one after the other, for who counts them."""


def stage_of(payment: Payment) -> str:
    """Which of `STAGES` a payment came to last."""
    if payment.status is Status.REQUIRES_ACTION:
        return "created"
    return payment.status.value if payment.settled is None else "settled"


def open_payment(draft: Payment) -> Transition:
    """The first transition: a payment comes to be at version 0."""
    assert draft.version == 0
    status, event_type = TRANSITIONS[None, Created]
    assert draft.status is status
    return Transition(draft, event_type, draft.created_at_ms)


def transition(payment: Payment, trigger: Trigger, now_ms: int) -> Transition:
    """Apply one trigger.

    Args:
        payment: The state before; never changed.
        trigger: What happened.
        now_ms: When, in Unix milliseconds of the payment's realm.

    Raises:
        PaymentExpired: The window had closed before.
        InvalidState: The payment is in another state from which this trigger leads nowhere.

    Source: SPEC.md, "States and transitions".
    """
    found = TRANSITIONS.get((payment.status, type(trigger)))
    if found is None or payment.settled is not None:
        raise _refusal(payment, trigger)
    status, event_type = found
    after = msgspec.structs.replace(
        payment,
        status=status,
        version=payment.version + 1,
        updated_at_ms=now_ms,
        **_block(payment, trigger, now_ms),
    )
    return Transition(after, event_type, now_ms)


def _block(payment: Payment, trigger: Trigger, now_ms: int) -> dict[str, object]:
    """The stage block that a trigger fills."""
    match trigger:
        case FundsCommitted(processing=processing, results_hash=results_hash):
            return {"processing": processing, "results_hash": results_hash}
        case TransferConfirmed(tx_id=tx_id, processing=processing):
            return {"success": Success(now_ms, tx_id), "processing": _paid(payment, processing)}
        case PaymentFailed(reason=reason, code=code):
            return {"failed": Failed(now_ms, reason, code)}
        case WindowClosed():
            return {"expired": Expired(now_ms)}
        case PaymentCancelled(reason=reason):
            return {"cancelled": Cancelled(now_ms, reason)}
        case SettlementCompleted(tx_id=tx_id):
            assert payment.processing is not None
            return {"settled": Settled(now_ms, tx_id, payment.processing.settlement_amount)}
    raise AssertionError(f"{type(trigger).__name__} fills no block")


def _paid(payment: Payment, processing: Processing | None) -> Processing | None:
    """What was paid in the end; it was committed when it was."""
    before = payment.processing
    if before is None or processing is None:
        return before
    return msgspec.structs.replace(processing, processing_at_ms=before.processing_at_ms)


def _refusal(payment: Payment, trigger: Trigger) -> InvalidState | PaymentExpired:
    if payment.status is Status.EXPIRED and not isinstance(trigger, PaymentCancelled):
        return PaymentExpired("This payment has expired. Ask the shop for a new payment link.")
    return InvalidState(
        f"The payment is {payment.status.value}; {trigger.name} cannot follow that.",
        details={"status": payment.status.value},
    )
