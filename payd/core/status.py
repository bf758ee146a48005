"""The states a payment can be in, and the words for them.

Source: SPEC.md, "States and transitions"; DESIGN.md, "5. A payment is an actor".
"""

from __future__ import annotations

import enum
from typing import Final


class Status(enum.StrEnum):
    """Where a payment stands; the values are the words of the API and of the webhooks."""

    REQUIRES_ACTION = "requires_action"
    PROCESSING = "processing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


FINAL: Final = frozenset({Status.SUCCEEDED, Status.FAILED, Status.EXPIRED, Status.CANCELLED})
"""Those that a payment never leaves."""

OVER: Final = (Status.EXPIRED, Status.CANCELLED, Status.FAILED)
"""How a payment ends that nothing pays any more."""

_MERCHANT_WORDS: Final = {Status.REQUIRES_ACTION: "pending", Status.CANCELLED: "failed"}


def merchant_word(status: Status) -> str:
    """The word for `status` on the two `/v1/merchant/payment` paths, which know five of them."""
    return _MERCHANT_WORDS.get(status, status.value)
