"""What payments cost later ones: the same requests to servers that differ in how many they hold.

First payments that are stored, which have ended, then open ones. All servers of a kind are up at once and
take turns; each is measured against the one that holds the fewest.

Source: DESIGN.md, "14. What it must reach (`scripts/bench`: ratios in one run, medians of alternated
rounds; never a timed test)".
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from payd.clock import system_wall_ms
from tests.bench.archive import fill_archive
from tests.bench.load import Job, Report, send_load
from tests.bench.machine import cpu_s
from tests.bench.measure import STILL
from tests.bench.opened import fill_open
from tests.bench.pages import KEEPS, status_requests
from tests.bench.realm import account_of
from tests.crash.client import request_bytes
from tests.crash.process import Furnished, Server, furnish

HEADER: Final = (
    "what",
    "payments",
    "1/s",
    "p50 / p99 ms",
    "CPU µs a request",
    "CPU : fewest",
    "p50 : fewest",
    "goal",
)
NOTES: Final = """\
- **Stored** payments have ended, over four years. The newest 50,000 have all that belongs to them; of those
  before, what payd keeps for ever. Their webhooks are owed and paused.
- **Open** payments wait for their buyers, for half a day. No webhooks are owed.
- A list is a backend's first page of twenty, a search is for a reference by its beginning. A status is one of
  a few hundred that are asked for again and again, or **any** payment's: where there are as many, one of
  20,000, each asked for once in a while, of which payd keeps 10,000 in memory. 16 connections.
- Where others use the machine, trust the CPU before the rates."""
GOAL: Final = "≤ 2"
GROWS: Final = ("create a payment, durable", "list payments", "search by reference")
"""What has that goal."""

REQUESTS: Final = 200
SELDOM: Final = 20_000

Line = tuple[str, ...]


@dataclass(frozen=True)
class Grows:
    """How much of it."""

    payments: tuple[int, ...] = (1000, 10_000, 100_000, 1_000_000)
    open_payments: tuple[int, ...] = (100, 10_000, 1_000_000)
    rounds: int = 5
    seconds: float = 1.5
    clients: int = 16


@dataclass
class Held:
    """A server with so many payments, and what it did, by what was asked."""

    holds: str
    server: Server
    requests: dict[str, list[bytes]]
    reports: dict[str, list[Report]] = field(default_factory=dict)
    cpu_us: dict[str, list[float]] = field(default_factory=dict)

    async def measure(self, what: str, plan: Grows) -> None:
        """One round."""
        job = Job(self.server.port, plan.clients, self.requests[what], plan.seconds, plan.seconds / 10)
        used_s = cpu_s(self.server.pid)
        report = await send_load(job)
        assert not report.refused, f"{what}: {report.refused} requests were refused"
        self.cpu_us.setdefault(what, []).append((cpu_s(self.server.pid) - used_s) / report.all_answers * 1e6)
        self.reports.setdefault(what, []).append(report)


async def growth_lines(folder: Path, plan: Grows, say: Callable[[str], None]) -> list[Line]:
    """Every kind of request, at every number of payments that are stored, and of open ones."""
    lines: list[Line] = []
    for kind, counts, fill in (
        ("stored", plan.payments, _fill_stored),
        ("open", plan.open_payments, _fill_opened),
    ):
        lines += await _grow(folder, kind, counts, fill, plan, say)
    return lines


Fill = Callable[[Furnished, int], None]


async def _grow(
    folder: Path, kind: str, counts: tuple[int, ...], fill: Fill, plan: Grows, say: Callable[[str], None]
) -> list[Line]:
    async with AsyncExitStack() as stack:
        held: list[Held] = []
        for count in counts:
            say(f"{count:,} payments are made, {kind}")
            place = folder / f"{kind}{count}"
            place.mkdir()
            at = await furnish(place, None)
            fill(at, count)
            one = Held(f"{count:,} {kind}", Server(place, {**KEEPS, **STILL}), _requests(at, count))
            stack.push_async_callback(one.server.put_away)
            await one.server.start()
            held.append(one)
        for number in range(plan.rounds):
            for what in held[0].requests:
                say(f"{kind}, round {number + 1}: {what}")
                for one in held:
                    await one.measure(what, plan)
    return [_line(what, one, held[0]) for what in held[0].requests for one in held]


def _fill_stored(at: Furnished, count: int) -> None:
    file = at.folder / "data" / "test.db"
    fill_archive(file, count, account_id=account_of(at), now_ms=system_wall_ms())
    with closing(sqlite3.connect(file)) as tx, tx:
        tx.execute("UPDATE endpoints SET state = 'paused'")


def _fill_opened(at: Furnished, count: int) -> None:
    file = at.folder / "data" / "test.db"
    fill_open(file, count, account_id=account_of(at), merchant_id=at.merchant_id, now_ms=system_wall_ms())


def _requests(at: Furnished, payments: int) -> dict[str, list[bytes]]:
    dice, key = random.Random(5), {"api-key": at.key}

    def get(path: str) -> bytes:
        return request_bytes("GET", path, None, key)

    def create(number: int) -> bytes:
        body = {"referenceId": f"NEW-{number}", "amount": {"unit": "iso4217/USD", "value": "2500"}}
        return request_bytes("POST", "/v1/payments", body, at.headers)

    numbers = [dice.randrange(1, payments + 1) for _ in range(REQUESTS)]
    return {
        "create a payment, durable": [create(number) for number in numbers],
        "read a status": status_requests(at, payments, REQUESTS),
        "read any payment's status": status_requests(at, payments, SELDOM),
        "list payments": [get("/v1/payments")],
        "search by reference": [get(f"/v1/payments?referenceId=ORDER-{number}") for number in numbers],
    }


def _line(what: str, one: Held, fewest: Held) -> Line:
    reports, cpu_us = one.reports[what], median(one.cpu_us[what])
    p50_ms = median(report.p50_ms for report in reports)
    p99_ms = median(report.p99_ms for report in reports)
    first_ms = median(report.p50_ms for report in fewest.reports[what])
    return (
        what,
        one.holds,
        f"{median(report.rate for report in reports):,.0f}",
        f"{p50_ms:.2f} / {p99_ms:.2f}",
        f"{cpu_us:,.0f}",
        f"**{cpu_us / median(fewest.cpu_us[what]):.2f}**",
        f"{p50_ms / first_ms:.2f}",
        GOAL if one is not fewest and what in GROWS else "–",
    )
