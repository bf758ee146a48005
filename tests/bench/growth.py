"""What stored payments cost later ones: the same requests to servers that differ in how much they hold.

All servers are up at once and take turns; each is measured against the one that holds the fewest.

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
from tests.bench.load import Job, Report, send_load
from tests.bench.machine import cpu_s
from tests.bench.measure import STILL
from tests.bench.pages import KEEPS, status_requests
from tests.bench.realm import fill
from tests.crash.client import request_bytes
from tests.crash.process import Furnished, Server, furnish

HEADER: Final = (
    "what",
    "stored",
    "1/s",
    "p50 / p99 ms",
    "CPU µs a request",
    "CPU : fewest",
    "p50 : fewest",
    "goal",
)
NOTES: Final = """\
- Every server has the same payments, some have more. Webhooks are owed and paused; a list is a backend's
  first page of twenty, a search is for a reference by its beginning. 16 connections.
- Where others use the machine, trust the CPU before the rates."""
GOAL: Final = "≤ 2"
REQUESTS: Final = 200

Line = tuple[str, ...]


@dataclass(frozen=True)
class Grows:
    """How much of it."""

    payments: tuple[int, ...] = (1000, 10_000, 100_000)
    rounds: int = 5
    seconds: float = 1.5
    clients: int = 16


@dataclass
class Held:
    """A server with so many payments, and what it did, by what was asked."""

    payments: int
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
    """Every kind of request, at every number of payments."""
    async with AsyncExitStack() as stack:
        held: list[Held] = []
        for payments in plan.payments:
            say(f"{payments:,} payments are made")
            place = folder / f"growth{payments}"
            place.mkdir()
            one = await _hold(place, payments)
            stack.push_async_callback(one.server.put_away)
            await one.server.start()
            held.append(one)
        for number in range(plan.rounds):
            for what in held[0].requests:
                say(f"round {number + 1}: {what}")
                for one in held:
                    await one.measure(what, plan)
    return [_line(what, one, held[0]) for what in held[0].requests for one in held]


async def _hold(place: Path, payments: int) -> Held:
    at = await furnish(place, None)
    file = place / "data" / "test.db"
    with closing(sqlite3.connect(file)) as tx:
        (account_id,) = tx.execute("SELECT account_id FROM merchants").fetchone()
    fill(file, payments, account_id=account_id, now_ms=system_wall_ms())
    with closing(sqlite3.connect(file)) as tx, tx:
        tx.execute("UPDATE endpoints SET state = 'paused'")
    return Held(payments, Server(place, {**KEEPS, **STILL}), _requests(at, payments))


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
        f"{one.payments:,}",
        f"{median(report.rate for report in reports):,.0f}",
        f"{p50_ms:.2f} / {p99_ms:.2f}",
        f"{cpu_us:,.0f}",
        f"**{cpu_us / median(fewest.cpu_us[what]):.2f}**",
        f"{p50_ms / first_ms:.2f}",
        "–" if one is fewest else GOAL,
    )
