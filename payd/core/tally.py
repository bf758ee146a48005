"""What is counted of a payment when it ends, and what the counts of many say: numbers for charts.

Counts are kept by the quarter of an hour, in the commit of the transition: a view adds up some thousand small
rows however many payments there were. An index over payments would be read from end to end by each view.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Final, Literal

import msgspec

from payd.core.payment import Transition
from payd.core.period import Days
from payd.core.status import Status

What = Literal["succeeded", "failed", "expired", "cancelled", "took"]

# Failures are counted by their reason; one that a merchant's test makes up may be of any length.
REASON_MAX: Final = 120
# Up to here seconds are counted one by one, then in eighths of a doubling, up to the end.
SECONDS_EXACT: Final = 16
SECONDS_END: Final = 4096


class Tally(msgspec.Struct, frozen=True):
    """So many more of something. `value` is in minor units of the currency that `name` is."""

    what: What
    name: str
    count: int = 1
    value: int = 0


class Counted(msgspec.Struct, frozen=True):
    """What was counted of something on a day."""

    day: date
    tally: Tally


class Numbers(msgspec.Struct, frozen=True):
    """What the payments that ended in some time came to; currencies are never added to each other.

    Attributes:
        volume: Minor units that succeeded, by currency.
        reasons: How many failed, by reason, the most frequent first.
        median_s: From a payment's creation to its success, to an eighth or better; None: none succeeded.
    """

    succeeded: int
    failed: int
    expired: int
    cancelled: int
    volume: Mapping[str, int]
    reasons: Mapping[str, int]
    median_s: int | None

    @property
    def ended(self) -> int:
        """How many are in a final state."""
        return self.succeeded + self.failed + self.expired + self.cancelled

    @property
    def success_permille(self) -> int | None:
        """How many of a thousand that ended succeeded; None: none ended."""
        return None if not self.ended else round(1000 * self.succeeded / self.ended)


def tallies_of(moved: Transition) -> tuple[Tally, ...]:
    """What a transition adds: nothing unless it ends a payment, which happens once."""
    payment = moved.payment
    match moved.event_type:
        case "payment.succeeded":
            took_s = max(0, moved.occurred_at_ms - payment.created_at_ms) // 1000
            return (
                Tally("succeeded", payment.currency, value=payment.value),
                Tally("took", str(rounded_s(took_s))),
            )
        case "payment.failed":
            assert payment.failed is not None
            return (Tally("failed", payment.failed.reason[:REASON_MAX]),)
        case "payment.expired":
            return (Tally("expired", ""),)
        case "payment.cancelled":
            assert payment.cancelled is not None
            return (Tally("cancelled", payment.cancelled.reason[:REASON_MAX]),)
    assert not payment.is_final or payment.status is Status.SUCCEEDED
    return ()


def rounded_s(seconds: int) -> int:
    """The beginning of the step that seconds are counted in."""
    if seconds < SECONDS_EXACT:
        return seconds
    if seconds >= SECONDS_END:
        return SECONDS_END
    step = 1 << (seconds.bit_length() - 4)
    return seconds // step * step


def median_s(steps: Mapping[int, int]) -> int | None:
    """The middle of the step in which the median lies.

    Args:
        steps: How many, by the beginning of their step.
    """
    left = sum(steps.values()) // 2
    for start in sorted(steps):
        if left < steps[start]:
            width = 1 if start < SECONDS_EXACT else 1 << (start.bit_length() - 4)
            return start if start == SECONDS_END else start + width // 2
        left -= steps[start]
    return None


def numbers_of(tallies: Iterable[Tally]) -> Numbers:
    """What they come to together."""
    counts: Counter[str] = Counter()
    volume: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    steps: Counter[int] = Counter()
    for tally in tallies:
        if tally.what == "took":
            steps[int(tally.name)] += tally.count
            continue
        counts[tally.what] += tally.count
        if tally.what == "succeeded":
            volume[tally.name] += tally.value
        elif tally.what == "failed":
            reasons[tally.name] += tally.count
    return Numbers(
        succeeded=counts["succeeded"],
        failed=counts["failed"],
        expired=counts["expired"],
        cancelled=counts["cancelled"],
        volume=dict(sorted(volume.items())),
        reasons=dict(reasons.most_common()),
        median_s=median_s(steps),
    )


def added_up(tallies: Iterable[Tally]) -> tuple[Tally, ...]:
    """The same counts, each thing once."""
    sums: dict[tuple[What, str], tuple[int, int]] = {}
    for one in tallies:
        count, value = sums.get((one.what, one.name), (0, 0))
        sums[one.what, one.name] = count + one.count, value + one.value
    return tuple(Tally(what, name, count, value) for (what, name), (count, value) in sums.items())


def numbers_by_day(days: Days, counted: Iterable[Counted]) -> dict[date, Numbers]:
    """The numbers of each day, also of those on which nothing ended."""
    of_day: dict[date, list[Tally]] = {day: [] for day in days}
    for one in counted:
        of_day[one.day].append(one.tally)
    return {day: numbers_of(tallies) for day, tallies in of_day.items()}
