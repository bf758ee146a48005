"""A destination that is to change: when the change takes effect, and what counts as another address.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from typing import Final

import msgspec

from payd.core.caip import canonical_account, parse_account

DAY_S: Final = 86_400
DELAY_S_MAX: Final = 30 * DAY_S
"""A change that waits longer is one that nobody remembers having asked for."""


class SettlementChange(msgspec.Struct, frozen=True):
    """A change that is held back.

    Attributes:
        destination: Where the money goes from `due_at_ms` on, as it was sent.
        actor: Who asked for it.
        asked_at_ms: Unix milliseconds of the realm, as `due_at_ms`.
    """

    settlement_id: str
    merchant_id: str
    account_id: str
    destination: str
    actor: str
    asked_at_ms: int
    due_at_ms: int


def is_same_account(one: str, other: str) -> bool:
    """Whether two CAIP-10 accounts are one, however they are spelled."""
    return one == other or canonical_account(parse_account(one)) == canonical_account(parse_account(other))


def takes_effect_at_ms(
    now: str, pending: SettlementChange | None, wanted: str, *, now_ms: int, delay_ms: int
) -> int:
    """When a change that is asked for takes effect; `now_ms` is at once.

    The account to which the money goes already needs no delay: that is no change, and takes back one that
    waits. What waits already does not wait anew, or a client that repeats itself would put it off for ever.
    Any other account waits the whole delay, also where another change has waited for most of it.

    Args:
        now: The destination in effect.
        pending: The change that waits.
        wanted: The new destination.
        now_ms: The realm's time.
        delay_ms: How long changes are held back now; 0: not at all.
    """
    if is_same_account(now, wanted):
        return now_ms
    due_at_ms = now_ms + delay_ms
    if pending is not None and is_same_account(pending.destination, wanted):
        return max(now_ms, min(pending.due_at_ms, due_at_ms))
    return due_at_ms
