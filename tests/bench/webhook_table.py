"""The webhooks' figures as a table: each beside what it is measured against, the ratio, and the goal.

Source: DESIGN.md, "14. What it must reach (`scripts/bench`: ratios in one run, medians of alternated
rounds; never a timed test)".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Final

from tests.bench.table import NONE, Line
from tests.bench.webhooks import (
    Apart,
    Backlog,
    Latency,
    Rates,
    Sends,
    Sent,
    measure_apart,
    measure_backlog,
    measure_rates,
    measure_served,
)

HEADER: Final = (
    "webhooks",
    "at",
    "payd",
    "beside it",
    "which is",
    "payd : beside",
    "CPU µs a delivery, payd / beside (ratio)",
    "goal",
)

NOTES: Final = """\
Webhooks: 1.7 kB, signed, over TLS 1.3 kept alive; every figure is taken where they arrive. For the rates and
beside endpoints that hang, the sender with all its threads keeps to one core and the sink to another; for the
server's latency and memory the system places them.
- **payd** reads what is owed from the disk, signs, sends, and has every attempt in its log, with fsync.
- **payd's client alone** and **h11 by hand** sign and send the same bytes from memory, as many at once; by
  hand there is one loop a connection, no deadline, no vetted address, no check of what comes back, no pool.
- **One pool** is a queue for everybody and 64 workers, which sign, send by payd's client and log nothing. It
  is watched once.
- An endpoint that hangs takes the request and never answers. Latency is from the event's time, which is
  before its commit, to the first byte at the receiver; the first second is left out.
- **CPU** is that of all the sender's threads; its ratio is what that of the rates would be on a core that
  nobody else uses. Where others use the machine, trust it before the rates."""


async def webhook_lines(folder: Path, plan: Sends, say: Callable[[str], None]) -> list[Line]:
    """Measure everything."""
    lines: list[Line] = []
    for endpoints in plan.endpoints:
        say(f"webhooks to {endpoints}")
        lines += rate_lines(
            endpoints, await measure_rates(_fresh(folder, f"rates{endpoints}"), plan, endpoints)
        )
    say("webhooks beside endpoints that hang")
    lines += apart_lines(plan, await measure_apart(_fresh(folder, "apart"), plan))
    say("webhooks of a server")
    lines += served_lines(plan, await measure_served(_fresh(folder, "served"), plan))
    say("webhooks that wait")
    lines += backlog_lines(plan, await measure_backlog(_fresh(folder, "backlog"), plan))
    return lines


def rate_lines(endpoints: int, rates: Rates) -> list[Line]:
    """Beside both clients."""
    what, at = "owed, sent, logged (1/s)", f"{endpoints} endpoint{'s' * (endpoints > 1)}"
    payd = _rate(rates.payd)
    by_hand, alone = _cpu(rates.payd, rates.h11), _cpu(rates.payd, rates.client)
    return [
        _line(what, at, payd, _rate(rates.h11), "h11 by hand", NONE, 0, by_hand),
        _line(what, at, payd, _rate(rates.client), "payd's client alone", "≥ 0.5", 0, alone),
    ]


def apart_lines(plan: Sends, found: Apart) -> list[Line]:
    """Isolation, and what it is worth."""
    at = f"{plan.apart} of {2 * plan.apart} hang"
    steady = f"{at}, {plan.rate:g} events/s to the others"
    latency = "event → first attempt, p{} (ms)"
    without = "payd without them"
    return [
        _line("those that answer (1/s)", at, _rate(found.payd), _rate(found.payd_alone), without, "≥ 0.8", 0),
        (
            "those that answer, one pool instead of payd (1/s)",
            at,
            f"({_rate(found.pool):,.0f})",
            f"{_rate(found.pool_alone):,.0f}",
            "the pool without them",
            f"{_rate(found.pool) / _rate(found.pool_alone):.3f}",
            NONE,
            NONE,
        ),
        _line(latency.format(50), steady, _p50(found.latency), _p50(found.latency_alone), without, NONE, 1),
        _line(latency.format(99), steady, _p99(found.latency), _p99(found.latency_alone), without, "≤ 2", 1),
    ]


def served_lines(plan: Sends, found: list[Latency]) -> list[Line]:
    """A real server's latency."""
    at = f"a real server, {plan.rate:g} payments/s"
    return [
        _line("event → first attempt, p50 (ms)", at, _p50(found), None, NONE, NONE, 1),
        _line("event → first attempt, p99 (ms)", at, _p99(found), None, NONE, "≤ 50 ms", 1),
    ]


def backlog_lines(plan: Sends, found: Backlog) -> list[Line]:
    """Memory and start."""
    at = f"{plan.backlog:,} pending, {2 * plan.apart} endpoints hang"
    return [
        _line("RSS (MiB)", at, median(found.mib), median(found.idle_mib), "nothing owed", "< 120 MiB", 1),
        _line(
            "start of the process → first attempt (ms)",
            at,
            median(found.first_ms),
            median(found.ready_ms),
            "ready, with nothing owed",
            NONE,
            0,
        ),
    ]


def _line(
    what: str, at: str, payd: float, beside: float | None, which: str, goal: str, digits: int, cpu: str = NONE
) -> Line:
    return (
        what,
        at,
        f"{payd:,.{digits}f}",
        NONE if beside is None else f"{beside:,.{digits}f}",
        which,
        f"**{payd / beside:.2f}**" if beside else NONE,
        cpu,
        goal,
    )


def _rate(sent: Iterable[Sent]) -> float:
    return median(one.rate for one in sent)


def _cpu(payd: Iterable[Sent], beside: Iterable[Sent]) -> str:
    """Both, and what the ratio of the rates would be on a core that nobody else uses."""
    ours, theirs = (median(one.cpu_us for one in sent) for sent in (payd, beside))
    return f"{ours:,.0f} / {theirs:,.0f} ({theirs / ours:.2f})"


def _p50(found: Iterable[Latency]) -> float:
    return median(one.p50_ms for one in found)


def _p99(found: Iterable[Latency]) -> float:
    return median(one.p99_ms for one in found)


def _fresh(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made
