"""What each of many things costs in memory: open payments, pages that are open, webhooks that are owed.

Source: DESIGN.md, "14. What it must reach (`scripts/bench`: ratios in one run, medians of alternated
rounds; never a timed test)".
"""

from __future__ import annotations

import gc
import sqlite3
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final, cast

import trio

from payd.actors.payments import PaymentActor, Payments
from payd.actors.turns import Turns
from payd.clock import system_wall_ms
from payd.store.payments import find_payment
from tests.bench.follow import Follows, measure_idle
from tests.bench.machine import resident_bytes
from tests.bench.measure import STILL
from tests.bench.opened import fill_open
from tests.bench.realm import account_of, payment_id
from tests.bench.table import NONE, Line
from tests.bench.webhooks import Sends, measure_backlog
from tests.crash.process import Furnished, Server, furnish

HEADER: Final = ("memory", "of", "bytes each", "beside it", "which is", "goal")
NOTES: Final = """\
- **Asleep**, a payment is a row: what a server that has just started takes more than an empty one, by number.
- **Awake**, it is an actor, of which payd keeps 10,000 at most: what Python allocates for payd's own objects.
- **An idle page** is a websocket that follows a payment. Beside it, one of a bare fan-out on Trio.
- **A pending webhook** is a row, too: what a server takes more than one that owes nothing, by number."""


@dataclass(frozen=True)
class Much:
    """How many of each."""

    opened: int = 1_000_000
    awake: int = 10_000
    pages: int = 2000
    pending: int = 100_000
    rounds: int = 3
    settle_s: float = 3.0
    """How long a server is up before its memory counts."""


async def memory_lines(folder: Path, plan: Much, say: Callable[[str], None]) -> list[Line]:
    """All of them."""
    say(f"{plan.opened:,} open payments are made")
    empty, opened = [await furnish(_fresh(folder, name), None) for name in ("empty", "opened")]
    account_id, now_ms = account_of(opened), system_wall_ms()
    file = opened.folder / "data" / "test.db"
    fill_open(file, plan.opened, account_id=account_id, merchant_id=opened.merchant_id, now_ms=now_ms)
    more = [await _resident(opened, plan) - await _resident(empty, plan) for _ in range(plan.rounds)]
    awake = min(plan.awake, plan.opened)
    say(f"{plan.pages:,} idle pages")
    ours, bare = await measure_idle(_fresh(folder, "pages"), Follows(pages=plan.pages, idle_s=plan.settle_s))
    say(f"{plan.pending:,} pending webhooks")
    owing = await measure_backlog(
        _fresh(folder, "owing"), Sends(rounds=plan.rounds, backlog=plan.pending, settle_s=plan.settle_s)
    )
    pending = (median(owing.mib) - median(owing.idle_mib)) * 2**20 / plan.pending
    return [
        _line("open payment, asleep", plan.opened, median(more) / plan.opened, None, NONE, "a row"),
        _line("open payment, awake", awake, await _awake_bytes(file, awake), None, NONE, "≤ 2,000"),
        _line(
            "idle checkout page",
            plan.pages,
            1000 * ours.kilobytes[plan.pages],
            1000 * bare.kilobytes[plan.pages],
            "bare fan-out",
            "≤ 10,000",
        ),
        _line("pending webhook", plan.pending, pending, None, NONE, NONE),
    ]


async def _resident(at: Furnished, plan: Much) -> int:
    """Bytes of a server that has just started."""
    server = Server(at.folder, STILL)
    try:
        await server.start()
        await trio.sleep(plan.settle_s)
        return resident_bytes(server.pid)
    finally:
        await server.put_away()


async def _awake_bytes(file: Path, count: int) -> float:
    """Of an actor that holds its payment, in the table of those that are awake."""
    ids = [payment_id(number) for number in range(1, count + 1)]
    of = cast(Payments, None)  # an actor refers to the house; it asks nothing of it here
    async with trio.open_nursery() as nursery:
        turns: Turns[PaymentActor] = Turns(lambda key: PaymentActor(key, of), nursery, _no_bug, count)
        with closing(sqlite3.connect(file)) as tx:
            gc.collect()
            tracemalloc.start()
            try:
                for one in ids:
                    turns.wake(one).payment = find_payment(tx, one)
                gc.collect()
                taken, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
        assert len(turns) == count
    return taken / count


def _no_bug(key: str, bug: Exception) -> None:
    raise bug


def _line(what: str, count: int, each: float, beside: float | None, which: str, goal: str) -> Line:
    return (what, f"{count:,}", f"{each:,.0f}", NONE if beside is None else f"{beside:,.0f}", which, goal)


def _fresh(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made
