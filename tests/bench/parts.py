"""The parts of the bench: what each measures, at which size, and what is said of its table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from tests.bench import (
    abuse_table,
    dashboard,
    follow_table,
    growth,
    limits,
    live_table,
    memory,
    restart,
    table,
    webhook_table,
)
from tests.bench.abuse import Abuse
from tests.bench.abuse_table import abuse_lines
from tests.bench.dashboard import Browse, dashboard_lines
from tests.bench.follow import Follows
from tests.bench.follow_table import follow_lines
from tests.bench.growth import Grows, growth_lines
from tests.bench.limits import Bounds, limit_lines
from tests.bench.live import Walks
from tests.bench.live_table import live_lines
from tests.bench.measure import Plan, measure_feeds, measure_starts, open_bench
from tests.bench.memory import Much, memory_lines
from tests.bench.restart import Restarts, restart_lines
from tests.bench.table import TITLES, Line, feed_lines, generator_line, rate_line, start_lines
from tests.bench.webhook_table import webhook_lines
from tests.bench.webhooks import Sends

Say = Callable[[str], None]
Measure = Callable[[Path, Say], Awaitable[list[Line]]]
P = TypeVar("P", Plan, Follows, Sends, Walks, Browse, Grows, Much, Restarts, Bounds, Abuse)

CEILING_AT: Final = 16


@dataclass(frozen=True)
class Part:
    """One table, how its lines are measured, and what is to be known of them."""

    name: str
    title: str
    header: Line
    notes: str
    measure: Measure


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    plan: Plan = field(default_factory=Plan)
    follows: Follows = field(default_factory=Follows)
    sends: Sends = field(default_factory=Sends)
    walks: Walks = field(default_factory=Walks)
    browse: Browse = field(default_factory=Browse)
    grows: Grows = field(default_factory=Grows)
    much: Much = field(default_factory=Much)
    restarts: Restarts = field(default_factory=Restarts)
    bounds: Bounds = field(default_factory=Bounds)
    abuse: Abuse = field(default_factory=Abuse)

    def chosen(self, values: dict[str, Any]) -> Size:
        """The same with these values, wherever there is one of the name."""
        return Size(**{each.name: _with(getattr(self, each.name), values) for each in fields(self)})


QUICK: Final = Size(
    plan=Plan(rounds=3, seconds=1, confirms=160, readers=(1000,), pushes=2, starts=3),
    follows=Follows(payments=50, ones=40, crowds=1, rounds=2, idle_s=5.0),
    sends=Sends(rounds=2, deliveries=2000, pool_s=5.0, seconds=3.0, hang_s=5.0, warm_s=0.5, backlog=20_000),
    walks=Walks(payments=20, open_payments=(10, 200), blocks=12, starts=1),
    browse=Browse(payments=(1000, 20_000), asks=50, seconds=2.0),
    grows=Grows(payments=(1000, 60_000), open_payments=(100, 10_000), rounds=3, seconds=0.5),
    much=Much(opened=20_000, pages=200, pending=20_000, rounds=2, settle_s=1.0),
    restarts=Restarts(stored=60_000, opened=10_000, rounds=2),
    bounds=Bounds(rounds=3, seconds=0.5),
    abuse=Abuse(rounds=1, seconds=2.0, connections=2000, slow=200),
)

# Of one table, on servers that stay up for several of them.
RATES: Final = ("create", "keyed", "status", "confirm", "feed", "start")


def parts_of(size: Size, rates: tuple[str, ...] = RATES) -> Iterator[Part]:
    """Every part at this size; `rates` says which lines the first one has."""
    yield Part(
        "rates",
        "Requests, the feed, and a start",
        table.HEADER,
        f"Medians of {size.plan.rounds} alternated rounds of {size.plan.seconds} s.\n{table.NOTES}",
        partial(_rates, size.plan, rates),
    )
    yield Part(
        "follow",
        "Pages that follow payments",
        follow_table.HEADER,
        f"Medians of {size.follows.rounds} alternated rounds.\n{follow_table.NOTES}",
        lambda folder, say: follow_lines(folder, size.follows, say),
    )
    yield Part(
        "webhooks",
        "Webhooks",
        webhook_table.HEADER,
        f"Medians of {size.sends.rounds} alternated rounds.\n{webhook_table.NOTES}",
        lambda folder, say: webhook_lines(folder, size.sends, say),
    )
    yield Part(
        "live",
        "Live payments",
        live_table.HEADER,
        live_table.NOTES,
        lambda folder, say: live_lines(folder, size.walks, say),
    )
    yield Part(
        "dashboard",
        "The dashboard",
        dashboard.HEADER,
        dashboard.NOTES,
        lambda folder, say: dashboard_lines(folder, size.browse, say),
    )
    yield from _parts_of_much(size)


def _parts_of_much(size: Size) -> Iterator[Part]:
    """Those that look at what many payments, and many strangers, come to."""
    yield Part(
        "growth",
        "What payments cost later ones",
        growth.HEADER,
        f"Medians of {size.grows.rounds} alternated rounds of {size.grows.seconds} s.\n{growth.NOTES}",
        lambda folder, say: growth_lines(folder, size.grows, say),
    )
    yield Part(
        "memory",
        "Memory",
        memory.HEADER,
        f"Medians of {size.much.rounds} rounds.\n{memory.NOTES}",
        lambda folder, say: memory_lines(folder, size.much, say),
    )
    yield Part(
        "restart",
        "Starts among much",
        restart.HEADER,
        f"Medians of {size.restarts.rounds} alternated rounds.\n{restart.NOTES}",
        lambda folder, say: restart_lines(folder, size.restarts, say),
    )
    yield Part(
        "limits",
        "What the machine allows",
        limits.HEADER,
        f"Medians of {size.bounds.rounds} alternated rounds of {size.bounds.seconds} s.\n{limits.NOTES}",
        lambda folder, say: limit_lines(folder, size.bounds, say),
    )
    yield Part(
        "abuse",
        "Abuse",
        abuse_table.HEADER,
        f"Medians of {size.abuse.rounds} rounds of {size.abuse.seconds} s.\n{abuse_table.NOTES}",
        lambda folder, say: abuse_lines(folder, size.abuse, say),
    )


async def _rates(plan: Plan, chosen: tuple[str, ...], folder: Path, say: Say) -> list[Line]:
    """The lines of the first table."""
    lines: list[Line] = []
    if rates := [part for part in chosen if part in TITLES]:
        async with open_bench(_fresh(folder, "rates"), plan) as opened:
            for part in rates:
                for connections in plan.connections:
                    say(f"{part} at {connections}")
                    lines.append(rate_line(part, connections, await opened.rates(part, connections)))
            say("the load generator alone")
            lines.append(generator_line(CEILING_AT, await opened.ceiling(CEILING_AT)))
    if "feed" in chosen:
        for readers in plan.readers:
            say(f"feed of {readers} readers")
            lines += feed_lines(
                readers, *await measure_feeds(_fresh(folder, f"feed{readers}"), plan, readers)
            )
    if "start" in chosen:
        say("starts")
        lines += start_lines(await measure_starts(_fresh(folder, "start"), plan))
    return lines


def _with(plan: P, values: dict[str, Any]) -> P:
    named = {one.name for one in fields(plan)}
    return replace(plan, **{name: value for name, value in values.items() if name in named})


def _fresh(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made
