"""What handlers that do nothing answer: payd's own JSON, decoded and encoded, and no more."""

from __future__ import annotations

import gc
from typing import Final

import msgspec

from payd.server import GC_THRESHOLDS
from payd.web.gateway import ConfirmIn, GatewayStatus
from payd.web.schema import POLL_IN_MS, CreatePayment, PaymentCreatedBoth, PaymentStatus

PAYMENT_ID: Final = "pay_t" + "0" * 36
LINK: Final = f"http://127.0.0.1/pay/{PAYMENT_ID}"
READY: Final = b'{"status":"ok"}'


def created(raw: bytes | str) -> bytes:
    """Of POST /v1/payments."""
    assert msgspec.json.decode(raw, type=CreatePayment).reference_id
    made = PaymentCreatedBoth(
        payment_id=PAYMENT_ID,
        gateway_url=LINK,
        status="requires_action",
        expires_at=1_800_000_900,
        is_final=False,
        poll_in_ms=POLL_IN_MS,
        id=PAYMENT_ID,
        url=LINK,
    )
    return msgspec.json.encode(made)


def status() -> bytes:
    """Of GET /v1/payments/{id}/status."""
    return msgspec.json.encode(PaymentStatus("requires_action", False, POLL_IN_MS, None))


def confirmed(raw: bytes | str) -> bytes:
    """Of POST /v1/gateway/payment/{id}/confirm."""
    assert msgspec.json.decode(raw, type=ConfirmIn).option_id
    return msgspec.json.encode(GatewayStatus("processing", False, POLL_IN_MS))


def tune_gc() -> None:
    """Collect as rarely as payd does."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
