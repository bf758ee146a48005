"""The figures as one Markdown table: absolute, as ratios, and the goals beside them.

Source: DESIGN.md, "14. What it must reach (`scripts/bench`: ratios in one run, medians of alternated
rounds; never a timed test)".
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Final

from tests.bench.load import Report
from tests.bench.measure import Crowded, Round, Started

HEADER: Final = (
    "what",
    "at",
    "payd",
    "p50 / p99 ms",
    "no-op Quart",
    "no-op FastAPI",
    "the limit",
    "payd : Quart",
    "payd : FastAPI",
    "payd : limit",
    "CPU µs a request, payd / Quart / FastAPI",
    "goal",
)

TITLES: Final = {
    "create": "create a payment, durable, event and delivery owed (1/s)",
    "keyed": "the same, each under an Idempotency-Key of its own (1/s)",
    "status": "read a status (1/s)",
    "confirm": "confirm a payment, durable (1/s)",
}
GOALS: Final = {
    ("create", 16): "≥ 0.75 : Quart; in the end ≥ 3, and ≥ 1 : FastAPI",
    ("create", 100): "≥ 0.75 : Quart; in the end ≥ 5, and ≥ 1 : FastAPI",
    ("status", 100): "in the end ≥ 10 : Quart, and ≥ 2.5 : FastAPI",
}
NOTES: Final = """\
Servers and load generator are a process each; all servers stay up, and idle while another one is measured.
Creations, each with an order's number of its own, and statuses are asked for by wrk; confirms, once each, by
a generator in Python.
- **no-op Quart**: the same routes in Quart-Trio on stock hypercorn-trio, which decode and encode the same
  JSON by msgspec and do nothing else; for the feed, Quart's own websockets. The garbage collection is tuned.
- **no-op FastAPI**: the same in FastAPI on uvicorn with uvloop and httptools, tuned alike; no access log.
- **The limit** of a request is SQLite alone: a tight loop that commits the rows which payd has just written,
  as many a transaction as there are connections, WAL and synchronous=FULL; without the answers that payd
  keeps under keys; for the status, reads of the payment's row by id. That of the feed is a bare loop on Trio
  that writes one prepared frame to each socket, with no payments, no disk and no limits.
- **CPU** is that of all the server's threads. Where others use the machine, trust it before the rates.
- The endpoint never answers: deliveries are owed and stored, and at most ten are under way.
- **A push** of the feed is a change of the payment, committed and then told: with few readers it is the
  change that costs, not the telling, and the memory of one reader is within the noise."""

NONE: Final = "–"
# As many as a goal is set for.
MANY: Final = 10_000

Line = tuple[str, ...]


def rate_line(what: str, connections: int, rounds: list[Round]) -> Line:
    """One part at one number of connections."""
    payd, quart, fastapi = ([getattr(one, name) for one in rounds] for name in ("payd", "quart", "fastapi"))
    rates = [median(spent.report.rate for spent in spents) for spents in (payd, quart, fastapi)]
    rates.append(median(one.sqlite for one in rounds))
    p50_ms = median(spent.report.p50_ms for spent in payd)
    p99_ms = median(spent.report.p99_ms for spent in payd)
    cpu_us = [median(spent.cpu_us for spent in spents) for spents in (payd, quart, fastapi)]
    return (
        TITLES[what],
        f"{connections} connection{'s' * (connections > 1)}",
        f"{rates[0]:,.0f}",
        f"{p50_ms:.2f} / {p99_ms:.2f}",
        *(f"{rate:,.0f}" for rate in rates[1:]),
        f"**{rates[0] / rates[1]:.2f}**",
        f"**{rates[0] / rates[2]:.2f}**",
        f"{rates[0] / rates[3]:.3f}",
        " / ".join(f"{cpu:,.0f}" for cpu in cpu_us),
        GOALS.get((what, connections), NONE),
    )


def generator_line(connections: int, alone: Report) -> Line:
    """What the load generator reaches on a server that sends fixed bytes: no other rate can be higher."""
    empty = (NONE,) * (len(HEADER) - 3)
    return ("the load generator alone (1/s)", f"{connections} connections", f"({alone.rate:,.0f})", *empty)


def feed_lines(readers: int, payd: Crowded, noop: Crowded, bare: Crowded) -> list[Line]:
    """A feed's memory, CPU and latency. The handler beside it is Quart's own websocket."""
    at = f"{readers:,} reader{'s' * (readers > 1)}"
    sides = payd, noop, bare
    memory, push, last = (
        [one.kilobytes for one in sides],
        [median(one.push_us) for one in sides],
        [median(one.last_ms) for one in sides],
    )
    return [
        _plain("feed: memory a reader (kB)", at, *memory, digits=1, goal="≤ 10"),
        _plain("feed: CPU a push (µs)", at, *push, digits=1, goal="≤ 10"),
        _plain("feed: last one reached (ms)", at, *last, digits=0, goal="≤ 100" if readers >= MANY else NONE),
    ]


def start_lines(payd: Started) -> list[Line]:
    """Start and rest."""
    ready, idle = "≤ 1,500; in the end ≤ 1,000", "≤ 90; in the end ≤ 80"
    return [
        _plain(
            "start of the process to /readyz (ms)", "test realm", median(payd.ready_ms), digits=0, goal=ready
        ),
        _plain("idle RSS (MiB)", "test realm", median(payd.idle_mib), digits=1, goal=idle),
    ]


def markdown(lines: Iterable[Line], header: Line = HEADER) -> str:
    """The table."""
    rows = [header, ("---",) * len(header), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _plain(
    what: str,
    at: str,
    payd: float,
    noop: float | None = None,
    bare: float | None = None,
    *,
    digits: int,
    goal: str,
) -> Line:
    def shown(figure: float | None) -> str:
        return NONE if figure is None else f"{figure:,.{digits}f}"

    def ratio(beside: float | None) -> str:
        return f"{payd / beside:.2f}" if beside else NONE

    return (
        what,
        at,
        shown(payd),
        NONE,
        shown(noop),
        NONE,
        shown(bare),
        ratio(noop),
        NONE,
        ratio(bare),
        NONE,
        goal,
    )
