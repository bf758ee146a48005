"""The figures of pages that follow payments: each beside the bare fan-out's, and beside those of one page.

Source: DESIGN.md, "14. What it must reach (`scripts/bench`: ratios in one run, medians of alternated
rounds; never a timed test)".
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

from tests.bench.follow import Follows, Idle, Shape, Side, measure_follows, measure_idle
from tests.bench.table import NONE, Line

HEADER: Final = (
    "pages that follow",
    "at",
    "payd, p50 / p99",
    "bare fan-out, p50 / p99",
    "payd : bare",
    "p99 : p99 of one page",
    "goal",
)

NOTES: Final = """\
Followed: from the moment that a move of a payment is asked for over HTTP to the arrival of its frame, in ms;
payd has committed it, with fsync, in between. Server, mover and pages are processes of their own; both
servers stay up, one idle while the other is measured.
- **Each page** is every arrival; **the last** is the arrival at the last page that follows the payment.
- **The bare fan-out** is Trio with a task for each socket, and a loop that writes one prepared frame to each:
  no HTTP to speak of, no disk, no payments, no pings. What it takes with all on one is what the kernel takes
  to write to so many sockets on one machine.
- A payment moves twice, to its last snapshot, with which its pages are bidden farewell.
- **Memory** is what RSS grew by since before the first page, a page; **CPU** is that of all pages while
  nothing happens but pings, without what the server takes when nobody follows."""

UNDER: Final = "< 10"


async def follow_lines(folder: Path, plan: Follows, say: Callable[[str], None]) -> list[Line]:
    """Measure everything."""
    say(f"{plan.pages} idle pages")
    idle = await measure_idle(_fresh(folder, "idle"), plan)
    say(f"{plan.pages} pages that follow")
    sides = await measure_follows(_fresh(folder, "follow"), plan)
    return [*latency_lines(plan, *sides), *idle_lines(*idle)]


def latency_lines(plan: Follows, payd: Side, bare: Side) -> list[Line]:
    """Each shape, beside one page alone."""
    one, crowd = payd.followed.one, plan.pages // plan.payments
    spread = f"{plan.pages:,} pages, {crowd} on each of {plan.payments} payments"
    everyone = f"{plan.pages:,} pages on one payment"
    lines = [_latency("one page", "one page on one payment", one.each_ms, bare.followed.one.each_ms, None)]
    for at, mine, theirs in (
        (spread, payd.followed.spread, bare.followed.spread),
        (everyone, payd.followed.all, bare.followed.all),
    ):
        lines.append(_latency("each page", at, mine.each_ms, theirs.each_ms, one))
        lines.append(_latency("the last page", at, mine.last_ms, theirs.last_ms, one))
    return lines


def idle_lines(payd: Idle, bare: Idle) -> list[Line]:
    """Memory by the number of pages, and what their pings cost."""
    what, goal = "memory an idle page (kB)", "≤ 10"
    lines = [
        _plain(what, f"{pages:,} pages", kilobytes, bare.kilobytes[pages], goal)
        for pages, kilobytes in payd.kilobytes.items()
    ]
    at = f"{max(payd.kilobytes):,} pages"
    return [*lines, _plain("CPU of idle pages (% of a core)", at, payd.percent, None, NONE)]


def quantile(values: list[float], share: float) -> float:
    """What that share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _latency(what: str, at: str, payd: list[list[float]], bare: list[list[float]], one: Shape | None) -> Line:
    p50, p99 = (_median(payd, share) for share in (0.50, 0.99))
    bare50, bare99 = (_median(bare, share) for share in (0.50, 0.99))
    beside = NONE if one is None else f"**{p99 / _median(one.each_ms, 0.99):.2f}**"
    return (
        f"{what} reached (ms)",
        at,
        f"{p50:.2f} / {p99:.2f}",
        f"{bare50:.2f} / {bare99:.2f}",
        f"{p50 / bare50:.2f} / {p99 / bare99:.2f}",
        beside,
        NONE if one is None else UNDER,
    )


def _median(rounds: list[list[float]], share: float) -> float:
    return median(quantile(values, share) for values in rounds)


def _plain(what: str, at: str, payd: float, bare: float | None, goal: str) -> Line:
    beside, ratio = (NONE, NONE) if bare is None else (f"{bare:.1f}", f"{payd / bare:.2f}")
    return (what, at, f"{payd:.1f}", beside, ratio, NONE, goal)


def _fresh(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made
