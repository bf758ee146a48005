"""What a merchant is told: the webhook envelope and the full snapshot of a payment.

An envelope is encoded once, when the event happens; from then on it is bytes.

Source: SPEC.md, "Webhook event envelope".
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

import msgspec

from payd.core.fee import Fee
from payd.core.money import AmountWire
from payd.core.payment import (
    CANCELLED_BY_MERCHANT,
    Cancelled,
    Expired,
    Failed,
    Payment,
    Processing,
    Settled,
    Success,
    Transition,
)
from payd.core.status import Status

API_VERSION: Final = "2026-05-18"


class ProcessingBlock(msgspec.Struct, frozen=True):
    processing_at: str
    option_amount: AmountWire
    fee: Fee | None
    settlement_amount: AmountWire
    buyer_caip10: str | None
    chain_caip2: str


class SuccessBlock(msgspec.Struct, frozen=True):
    succeeded_at: str
    tx_id: str | None


class FailedBlock(msgspec.Struct, frozen=True):
    failed_at: str
    failure_reason: str


class CancelledBlock(msgspec.Struct, frozen=True):
    cancelled_at: str
    cancellation_reason: str


class ExpiredBlock(msgspec.Struct, frozen=True):
    expired_at: str


class SettledBlock(msgspec.Struct, frozen=True):
    settled_at: str
    tx_id: str | None
    amount: AmountWire


class Snapshot(msgspec.Struct, frozen=True):
    """The whole payment at one version, as a merchant sees it."""

    payment_id: str
    merchant_id: str
    live: bool
    payment_state_version: int
    reference_id: str
    status: str
    amount: AmountWire
    created_at: str
    expires_at: str
    processing: ProcessingBlock | None
    success: SuccessBlock | None
    failed: FailedBlock | None
    cancelled: CancelledBlock | None
    expired: ExpiredBlock | None
    settled: SettledBlock | None


class Envelope(msgspec.Struct, frozen=True):
    """One event."""

    id: str
    type: str
    api_version: str
    created_at: str
    data: Snapshot


_encode = msgspec.json.Encoder().encode
# Each envelope has two instants or more: to look one up costs a fifth of formatting it.
_MILLISECONDS: Final = tuple(f".{ms:03d}Z" for ms in range(1000))


def iso_ms(at_ms: int) -> str:
    """ISO 8601 UTC with milliseconds, such as `2026-05-18T09:59:00.123Z`."""
    return _iso_second(at_ms // 1000) + _MILLISECONDS[at_ms % 1000]


# Most instants of a moment share their second, and formatting one is the dearest part of an envelope.
@lru_cache(maxsize=64)
def _iso_second(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def snapshot(payment: Payment, *, live: bool) -> Snapshot:
    """The full snapshot of a payment; never a delta."""
    return Snapshot(
        payment_id=payment.id,
        merchant_id=payment.merchant_id,
        live=live,
        payment_state_version=payment.version,
        reference_id=payment.reference_id,
        status=payment.status.value,
        amount=payment.amount,
        created_at=iso_ms(payment.created_at_ms),
        expires_at=iso_ms(payment.expires_at_ms),
        processing=_processing(payment.processing),
        success=_success(payment.success),
        failed=_failed(payment.failed),
        cancelled=_cancelled(payment.cancelled),
        expired=_expired(payment.expired),
        settled=_settled(payment.settled),
    )


def encode_event(moved: Transition, event_id: str, *, live: bool) -> bytes:
    """The envelope's bytes, frozen from here on."""
    return _encode(
        Envelope(
            id=event_id,
            type=moved.event_type,
            api_version=API_VERSION,
            created_at=iso_ms(moved.occurred_at_ms),
            data=snapshot(moved.payment, live=live),
        )
    )


def sample_event(event_type: str, *, event_id: str, payment_id: str, merchant_id: str, now_ms: int) -> bytes:
    """An envelope of any type with sample data and `live` false, for a test delivery.

    Source: SPEC.md, "Events".
    """
    return encode_event(
        Transition(_sample_payment(event_type, payment_id, merchant_id, now_ms), event_type, now_ms),
        event_id,
        live=False,
    )


_SAMPLE_ASSET: Final = "caip19/eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"
_SAMPLE_STAGES: Final[dict[str, tuple[Status, int]]] = {
    "payment.created": (Status.REQUIRES_ACTION, 0),
    "payment.processing": (Status.PROCESSING, 1),
    "payment.succeeded": (Status.SUCCEEDED, 2),
    "payment.failed": (Status.FAILED, 2),
    "payment.expired": (Status.EXPIRED, 1),
    "payment.cancelled": (Status.CANCELLED, 1),
    "payment.settled": (Status.SUCCEEDED, 3),
}


def _sample_payment(event_type: str, payment_id: str, merchant_id: str, now_ms: int) -> Payment:
    status, version = _SAMPLE_STAGES[event_type]
    paid = AmountWire(_SAMPLE_ASSET, "10000000")
    buyer = "eip155:8453:0x0000000000000000000000000000000000000001"
    tx_id = f"test:{payment_id}"
    return Payment(
        id=payment_id,
        account_id="",
        merchant_id=merchant_id,
        reference_id="SAMPLE-1",
        currency="USD",
        value=1000,
        created_at_ms=now_ms - 60_000,
        expires_at_ms=now_ms + 840_000,
        updated_at_ms=now_ms,
        status=status,
        version=version,
        processing=(
            Processing(now_ms - 2000, paid, paid, buyer, "eip155:8453")
            if status in (Status.PROCESSING, Status.SUCCEEDED, Status.FAILED)
            else None
        ),
        success=Success(now_ms - 1000, tx_id) if status is Status.SUCCEEDED else None,
        failed=Failed(now_ms, "Sample failure") if status is Status.FAILED else None,
        cancelled=Cancelled(now_ms, CANCELLED_BY_MERCHANT) if status is Status.CANCELLED else None,
        expired=Expired(now_ms) if status is Status.EXPIRED else None,
        settled=Settled(now_ms, tx_id, paid) if event_type == "payment.settled" else None,
    )


def _processing(block: Processing | None) -> ProcessingBlock | None:
    if block is None:
        return None
    return ProcessingBlock(
        processing_at=iso_ms(block.processing_at_ms),
        option_amount=block.option_amount,
        fee=block.fee,
        settlement_amount=block.settlement_amount,
        buyer_caip10=block.buyer,
        chain_caip2=block.chain,
    )


def _success(block: Success | None) -> SuccessBlock | None:
    return None if block is None else SuccessBlock(iso_ms(block.succeeded_at_ms), block.tx_id)


def _failed(block: Failed | None) -> FailedBlock | None:
    return None if block is None else FailedBlock(iso_ms(block.failed_at_ms), block.reason)


def _cancelled(block: Cancelled | None) -> CancelledBlock | None:
    return None if block is None else CancelledBlock(iso_ms(block.cancelled_at_ms), block.reason)


def _expired(block: Expired | None) -> ExpiredBlock | None:
    return None if block is None else ExpiredBlock(iso_ms(block.expired_at_ms))


def _settled(block: Settled | None) -> SettledBlock | None:
    return None if block is None else SettledBlock(iso_ms(block.settled_at_ms), block.tx_id, block.amount)
