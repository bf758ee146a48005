"""The figures of live payments as a table: each beside what it is measured against, and the ratio.

Source: DESIGN.md, "14. What it must reach (`scripts/bench`: ratios in one run, medians of alternated
rounds; never a timed test)".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from tests.bench.live import Started, Walked, Walks, measure_calls, measure_live_starts, measure_walks
from tests.bench.table import NONE, Line

HEADER: Final = ("live payments", "at", "payd", "beside it", "which is", "payd : beside", "goal")

NOTES: Final = """\
Live payments: anvil mines when it is asked to, and every time is from then; one payment is under way. Its
transaction waits in the pool before, one confirmation is enough, the head is asked for every 50 ms. The
server is a process of its own; webhooks go over TLS and are timed where they arrive.
- **the node's receipt** is asked for again and again until it is there.
- **calls a block** are those besides the head's polls: what the same time costs without blocks is taken off.
- Options in a token, in another one and in the chain's coin are out for each open payment."""


async def live_lines(folder: Path, plan: Walks, say: Callable[[str], None]) -> list[Line]:
    """Measure all of it."""
    say("live payments, signed and sent")
    walked = await measure_walks(_fresh(folder, "walks"), plan)
    lines = [line for way in walked for line in walk_lines(way, walked[way])]
    calls: dict[int, float] = {}
    for count in plan.open_payments:
        say(f"calls a block with {count} open payments")
        calls[count] = await measure_calls(_fresh(folder, f"open{count}"), plan, count)
    lines += call_lines(calls)
    say("starts with a live chain")
    return lines + start_lines(await measure_live_starts(_fresh(folder, "starts"), plan))


def walk_lines(way: str, walked: Walked) -> list[Line]:
    """One way to pay."""
    at = f"{way}, {len(walked.receipt)} payments"
    return [
        _line(f"block → {what}, p{share} (ms)", at, _at(taken, share), _at(walked.receipt, share), RECEIPT)
        for what, taken in (("succeeded", walked.succeeded), ("webhook arrived", walked.webhook))
        for share in (50, 99)
    ]


RECEIPT: Final = "the node's receipt"


def call_lines(calls: dict[int, float]) -> list[Line]:
    """What each block costs; the more payments against the fewest."""
    fewest = min(calls)
    return [
        _line(
            "calls a block",
            f"{count:,} open payments",
            value,
            None if count == fewest else calls[fewest],
            NONE if count == fewest else f"{fewest:,} open",
        )
        for count, value in sorted(calls.items())
    ]


def start_lines(started: Started) -> list[Line]:
    """Start and rest."""
    ready, test_ready = median(started.ready_ms), median(started.test_ready_ms)
    idle, test_idle = median(started.idle_mib), median(started.test_idle_mib)
    which = "the test realm alone"
    return [
        _line("start of the process to /readyz (ms)", "one live chain", ready, test_ready, which, digits=0),
        _line("idle RSS (MiB)", "one live chain", idle, test_idle, which, "< 120 MiB"),
    ]


def _line(
    what: str, at: str, payd: float, beside: float | None, which: str, goal: str = NONE, digits: int = 1
) -> Line:
    return (
        what,
        at,
        f"{payd:,.{digits}f}",
        NONE if beside is None else f"{beside:,.{digits}f}",
        which,
        f"**{payd / beside:.2f}**" if beside else NONE,
        goal,
    )


def _at(taken: Sequence[float], share: int) -> float:
    ordered = sorted(taken)
    return ordered[min(len(ordered) - 1, len(ordered) * share // 100)]


def _fresh(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made
