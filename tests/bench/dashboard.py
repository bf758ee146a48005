"""The dashboard among many payments: its pages over HTTP beside their SQL alone, and what others feel of it.

Source: DESIGN.md, "14. What it must reach (`scripts/bench`: ratios in one run, medians of alternated
rounds; never a timed test)".
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Final

import trio

from payd.clock import system_wall_ms
from tests.bench.load import Job, Report, send_load
from tests.bench.pages import (
    CSV,
    CSV_PATH,
    KEEPS,
    Browser,
    Realm,
    Said,
    listening_house,
    statements_of,
    statements_of_csv,
    status_requests,
    ways,
)
from tests.bench.realm import account_of, fill
from tests.crash.process import Furnished, Server, furnish
from tests.visitor import seat

GOAL: Final = "p99 < 300 ms"
GOAL_FROM: Final = 100_000
# Statuses that are read meanwhile, and by how many at once.
STATUSES: Final = 200
READERS: Final = 4
VISITORS: Final = 2
SHARED: Final = (
    "home",
    "payments: first page",
    "payments: any later page",
    "deliveries: first page",
    "payment",
)

Line = tuple[str, ...]
Alone = dict[str, sqlite3.Connection]

HEADER: Final = ("what", "at", "over HTTP p50 / p99 ms", "SQL alone p50 / p99 ms", "HTTP : SQL", "goal")
NOTES: Final = f"""\
- Over HTTP: from the request of a person who is signed in to the last byte of the page, and of the page that
  a search leads to. The statements that the same page asks both stores are then run by SQLite alone, one
  connection a file, rows fetched and thrown away.
- The payments are of one account over 80 days, with events, deliveries, attempts, quotes, transfers and the
  log of their requests; nothing that was asked is asked again with the same payment, day or buyer.
- Statuses are read by {READERS} connections from a process of its own, first alone and then while
  {VISITORS} people load home, lists, deliveries and payments without a pause. The ratio there is of the p50
  with them and without."""


@dataclass(frozen=True)
class Browse:
    """How much of it."""

    payments: tuple[int, ...] = (10_000, 100_000)
    asks: int = 200
    seconds: float = 5.0
    """Of the statuses that are read meanwhile."""


async def dashboard_lines(folder: Path, plan: Browse, say: Callable[[str], None]) -> list[Line]:
    """Every page, at every number of payments."""
    lines: list[Line] = []
    for payments in plan.payments:
        place = folder / f"dashboard{payments}"
        place.mkdir()
        say(f"{payments:,} payments are made")
        at = await furnish(place, None)
        realm = Realm(payments, system_wall_ms())
        account_id = account_of(at)
        fill(place / "data" / "test.db", payments, account_id=account_id, now_ms=realm.now_ms)
        token = seat(place / "data", account_id)
        asked = await _listen(at, realm, account_id, token, plan.asks)
        server = Server(place, KEEPS)
        try:
            await server.start()
            lines += await _measure(server, at, realm, token, asked, say)
            lines += await _share(server, at, realm, token, plan.seconds, say)
        finally:
            await server.put_away()
    return lines


@dataclass(frozen=True)
class Ask:
    """One visit, and what it asks the stores."""

    path: str
    statements: list[Said]


async def _listen(
    at: Furnished, realm: Realm, account_id: str, token: str, asks: int
) -> dict[str, list[Ask]]:
    """Every visit that will be measured, made once where its statements can be heard."""
    dice = random.Random(11)
    asked: dict[str, list[Ask]] = {}
    async with listening_house(at, account_id, token) as visitor:
        for title, way in ways(realm).items():
            paths = [way(dice) for _ in range(asks)]
            asked[title] = [Ask(path, await statements_of(visitor, path)) for path in paths]
        asked[CSV] = [Ask(CSV_PATH, await statements_of_csv(visitor))] * asks
    return asked


async def _measure(
    server: Server,
    at: Furnished,
    realm: Realm,
    token: str,
    asked: dict[str, list[Ask]],
    say: Callable[[str], None],
) -> list[Line]:
    browser = Browser(server.port, token)
    lines: list[Line] = []
    with _alone(at.folder / "data") as alone:
        for title, visits in asked.items():
            say(f"{title}, {realm.payments:,} payments")
            ours, sql = [], []
            for visit in visits:
                ours.append(await (browser.first_row if title == CSV else browser.get)(visit.path))
                sql.append(_run(alone, visit.statements))
            lines.append(_line(title, realm.payments, ours, sql))
    await browser.close()
    return lines


@contextmanager
def _alone(folder: Path) -> Iterator[Alone]:
    with (
        closing(
            sqlite3.connect(f"file:{folder}/office.db?mode=ro", uri=True, isolation_level=None)
        ) as office,
        closing(sqlite3.connect(f"file:{folder}/test.db?mode=ro", uri=True, isolation_level=None)) as test,
    ):
        test.create_function("casefold", 1, str.casefold, deterministic=True)
        yield {"office": office, "test": test}


def _run(alone: Alone, statements: list[Said]) -> float:
    """Milliseconds that SQLite takes for them."""
    started_s = time.perf_counter()
    for store, statement in statements:
        alone[store].execute(statement).fetchall()
    return (time.perf_counter() - started_s) * 1000


async def _share(
    server: Server, at: Furnished, realm: Realm, token: str, seconds: float, say: Callable[[str], None]
) -> list[Line]:
    """Statuses that a backend reads, alone and while people look at pages."""
    requests = status_requests(at, realm.payments, STATUSES)
    job = Job(server.port, READERS, requests, seconds, seconds / 10)
    say(f"statuses, {realm.payments:,} payments")
    quiet = await send_load(job)
    seen: list[float] = []
    async with trio.open_nursery() as nursery:
        for number in range(VISITORS):
            nursery.start_soon(_look_around, Browser(server.port, token), realm, number, seen)
        busy = await send_load(job)
        nursery.cancel_scope.cancel()
    for report in (quiet, busy):
        assert not report.refused, f"{report.refused} statuses were refused"
    words, goal = f"{realm.payments:,} payments", GOAL if realm.payments >= GOAL_FROM else "–"
    return [
        ("a status, nobody looks at pages", words, _of(quiet), "–", "–", "–"),
        (
            "a status, people look at pages",
            words,
            _of(busy),
            "–",
            f"**{busy.p50_ms / quiet.p50_ms:.2f}**",
            "–",
        ),
        ("those pages meanwhile", words, _both(seen), "–", "–", goal),
    ]


async def _look_around(browser: Browser, realm: Realm, number: int, seen: list[float]) -> None:
    dice, all_ways = random.Random(number), ways(realm)
    try:
        while True:
            for title in SHARED:
                seen.append(await browser.get(all_ways[title](dice)))
    finally:
        with trio.CancelScope(shield=True):
            await browser.close()


def _of(report: Report) -> str:
    return f"{report.p50_ms:.2f} / {report.p99_ms:.2f}"


def _line(title: str, payments: int, ours: list[float], alone: list[float]) -> Line:
    goal = GOAL if payments >= GOAL_FROM else "–"
    ratio = f"**{median(ours) / median(alone):.2f}**"
    return (title, f"{payments:,} payments", _both(ours), _both(alone), ratio, goal)


def _both(times_ms: list[float]) -> str:
    p99_ms = quantiles(times_ms, n=100, method="inclusive")[98] if len(times_ms) > 1 else times_ms[0]
    return f"{median(times_ms):.2f} / {p99_ms:.2f}"
