"""The figures as one Markdown table: absolute, as ratios, and the goals beside them.

Source: DESIGN.md, "14. What it must reach (`scripts/bench`: ratios in one run, medians of alternated
rounds; never a timed test)".
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Final

from tests.bench.load import Report
from tests.bench.measure import Crowded, Samples, Started

HEADER: Final = (
    "what",
    "at",
    "payd",
    "p50 / p99 ms",
    "no-op Quart",
    "SQLite alone",
    "payd : no-op",
    "payd : SQLite",
    "CPU µs a request, payd / no-op",
    "goal",
)

TITLES: Final = {
    "create": "create a payment, durable, event and delivery owed (1/s)",
    "status": "read a status (1/s)",
    "confirm": "confirm a payment, durable (1/s)",
}
GOALS: Final = {
    ("create", 16): "≥ 0.75 : no-op; in the end ≥ 3",
    ("create", 100): "≥ 0.75 : no-op; in the end ≥ 5",
    ("status", 100): "in the end ≥ 10 : no-op",
}
NONE: Final = "–"

Line = tuple[str, ...]


def rate_line(what: str, connections: int, samples: Samples) -> Line:
    """One part at one number of connections."""
    payd = median(spent.report.rate for spent in samples.payd)
    noop = median(spent.report.rate for spent in samples.noop)
    sqlite = median(samples.sqlite)
    p50_ms = median(spent.report.p50_ms for spent in samples.payd)
    p99_ms = median(spent.report.p99_ms for spent in samples.payd)
    cpu_us = [median(spent.cpu_us for spent in spents) for spents in (samples.payd, samples.noop)]
    return (
        TITLES[what],
        f"{connections} connection{'s' * (connections > 1)}",
        f"{payd:,.0f}",
        f"{p50_ms:.2f} / {p99_ms:.2f}",
        f"{noop:,.0f}",
        f"{sqlite:,.0f}",
        f"**{payd / noop:.2f}**",
        f"{payd / sqlite:.3f}",
        f"{cpu_us[0]:,.0f} / {cpu_us[1]:,.0f}",
        GOALS.get((what, connections), NONE),
    )


def generator_line(connections: int, alone: Report) -> Line:
    """What the load generator reaches on a server that sends fixed bytes: no other rate can be higher."""
    empty = (NONE,) * (len(HEADER) - 3)
    return ("the load generator alone (1/s)", f"{connections} connections", f"({alone.rate:,.0f})", *empty)


def feed_lines(readers: int, payd: Crowded, noop: Crowded) -> list[Line]:
    """A feed's memory, CPU and latency. The handler beside it is Quart's own websocket."""
    at = f"{readers:,} reader{'s' * (readers > 1)}"
    many = readers >= 10_000
    return [
        _plain("feed: memory a reader (kB)", at, payd.kilobytes, noop.kilobytes, 1, "≤ 10"),
        _plain("feed: CPU a push (µs)", at, median(payd.push_us), median(noop.push_us), 1, "≤ 10"),
        _plain(
            "feed: last one reached (ms)",
            at,
            median(payd.last_ms),
            median(noop.last_ms),
            0,
            "≤ 100" if many else NONE,
        ),
    ]


def start_lines(payd: Started) -> list[Line]:
    """Start and rest."""
    ready, idle = "≤ 1,500; in the end ≤ 1,000", "≤ 90; in the end ≤ 80"
    return [
        _plain("start of the process to /readyz (ms)", "test realm", median(payd.ready_ms), None, 0, ready),
        _plain("idle RSS (MiB)", "test realm", median(payd.idle_mib), None, 1, idle),
    ]


def markdown(lines: Iterable[Line], header: Line = HEADER) -> str:
    """The table."""
    rows = [header, ("---",) * len(header), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _plain(what: str, at: str, payd: float, noop: float | None, digits: int, goal: str) -> Line:
    return (
        what,
        at,
        f"{payd:,.{digits}f}",
        NONE,
        NONE if noop is None else f"{noop:,.{digits}f}",
        NONE,
        f"{payd / noop:.2f}" if noop else NONE,
        NONE,
        NONE,
        goal,
    )
