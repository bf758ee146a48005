"""Faults that a developer has payd make on purpose, to try a receiver: what each does, and whom it touches.

    duplicate        the delivery is sent, and then once more; what the copy is answered changes nothing
    reorder          it is held back until a later one has gone, for a minute at most
    delay            it is held back for a time
    drop             the attempt is lost on the way: no request is made
    stale_timestamp  the attempt is signed rightly, for ten minutes ago
    bad_signature    the attempt is signed over other bytes than those that are sent
    wrong_secret     the attempt is signed with a secret that is nobody's

What is promised of deliveries stays so. A delivery that is held back has used none of its attempts. An
attempt that was dropped or forged is a failed one, whatever it was answered, and the schedule goes on. The
last attempt of a delivery is never touched. No fault says anything about the receiver: its failure clock
stands still. Only what the schedule sends is touched; not what is sent by hand, replays and tests.

Source: DESIGN.md, "9. Test realm".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from payd.core.retry import ATTEMPTS_MAX
from payd.core.signature import TOLERANCE_S

FaultKind: TypeAlias = Literal[
    "duplicate", "reorder", "delay", "drop", "stale_timestamp", "bad_signature", "wrong_secret"
]
FAULT_KINDS: Final[tuple[FaultKind, ...]] = get_args(FaultKind)

FORGED: Final[frozenset[FaultKind]] = frozenset({"stale_timestamp", "bad_signature", "wrong_secret"})
"""Sent so that a receiver that verifies refuses it."""

HELD: Final[frozenset[FaultKind]] = frozenset({"reorder", "delay"})
"""Kept back without an attempt."""

# These would do the same to every attempt of a delivery: for a while, they touch each delivery once.
_ONCE: Final[frozenset[FaultKind]] = HELD | {"duplicate"}

STALE_BY_S: Final = 2 * TOLERANCE_S
REORDER_MAX_MS: Final = 60_000

WORDS: Final[Mapping[FaultKind, str]] = {
    "duplicate": "This is a copy: the same delivery was sent just before. Your receiver should do nothing.",
    "reorder": "It was held back until a later event had gone.",
    "delay": "It was held back.",
    "drop": "It was dropped: no request was made. The next attempt follows the schedule.",
    "stale_timestamp": "It was signed for ten minutes ago. Your receiver should refuse it with 400.",
    "bad_signature": "It was signed over other bytes. Your receiver should refuse it with 400.",
    "wrong_secret": "It was signed with a secret that is nobody's. Your receiver should refuse it with 400.",
}
"""What was done on purpose, for the attempt's log."""

ACCEPTED: Final = "forgery_accepted"
"""The class of the failure when a receiver takes what it should refuse."""

INJECTED: Final = "injected_fault"
"""The class where no request was made at all."""


class Fault(msgspec.Struct, frozen=True):
    """One fault of an endpoint.

    Attributes:
        kind: What it does.
        delay_ms: How long `delay` holds back; None of others.
        events: The types it touches; empty: all.
        payment_id: The payment whose events it touches; None: any.
        deliveries: How many it was to touch; None: all until `until_ms`.
        left: How many it will still touch; None likewise.
        until_ms: When it ends, in the realm's time; None: with the last delivery.
        injected: How many attempts it touched.
        held: The delivery that `reorder` holds back now.
        ended_at_ms: When a person ended it.
    """

    id: str
    endpoint_id: str
    kind: FaultKind
    delay_ms: int | None
    events: tuple[str, ...]
    payment_id: str | None
    deliveries: int | None
    left: int | None
    until_ms: int | None
    created_at_ms: int
    injected: int = 0
    held: str | None = None
    ended_at_ms: int | None = None


def is_over(fault: Fault, now_ms: int) -> bool:
    """Whether it touches nothing more."""
    if fault.ended_at_ms is not None or fault.left == 0:
        return True
    return fault.until_ms is not None and fault.until_ms <= now_ms


def is_about(fault: Fault, event_type: str, payment_id: str | None) -> bool:
    """Whether it is about such an event."""
    if fault.events and event_type not in fault.events:
        return False
    return fault.payment_id is None or fault.payment_id == payment_id


def touches(
    fault: Fault, *, event_type: str, payment_id: str | None, attempts: int, met: bool, now_ms: int
) -> bool:
    """Whether a fault touches the next attempt of a delivery.

    Args:
        fault: One of the delivery's endpoint.
        event_type: Of the delivery.
        payment_id: Whose event it is.
        attempts: How many the schedule has made.
        met: Whether the fault has touched this delivery before.
        now_ms: The realm's time.
    """
    if is_over(fault, now_ms) or attempts >= ATTEMPTS_MAX - 1:
        return False
    if fault.kind == "reorder" and fault.held is not None:
        return False
    if met and (fault.deliveries is not None or fault.kind in _ONCE):
        return False
    return is_about(fault, event_type, payment_id)


def held_until_ms(fault: Fault, now_ms: int) -> int:
    """When a delivery that is held back goes at the latest."""
    return now_ms + (REORDER_MAX_MS if fault.delay_ms is None else fault.delay_ms)
