"""Starts of a server that has much: from the start of the process until it is ready, and until nothing waits.

Every kind of server takes its turn in every round, on files that the system has in its cache. What is open
was served until a SIGKILL, while payments were created; what is overdue was being looked after when it came.

Source: DESIGN.md, "14. What it must reach (`scripts/bench`: ratios in one run, medians of alternated
rounds; never a timed test)"; DESIGN.md, "5. A payment is an actor".
"""

from __future__ import annotations

import resource
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

import trio

from payd.clock import system_wall_ms
from tests.bench.archive import fill_archive
from tests.bench.machine import cpu_s, resident_bytes
from tests.bench.measure import STILL
from tests.bench.opened import fill_open
from tests.bench.pages import KEEPS
from tests.bench.realm import account_of
from tests.bench.table import NONE, Line
from tests.crash.client import Client, Lost
from tests.crash.process import Furnished, Server, furnish

HEADER: Final = ("starts", "of a server with", "payd", "beside it", "which is", "payd : beside", "goal")
NOTES: Final = """\
- **Ready** is from the start of the process to a `/readyz` that answers 200. **Imports** is a Python that
  imports trio, Quart and hypercorn, and ends.
- **Open** payments wait for their buyers. The server was killed by SIGKILL while more were created.
- **Overdue** ones fell due while there was no server: half were paid and are now confirmed, the others'
  windows closed. The server was killed before, too, as soon as it was ready. All are looked after once each
  has moved, with its event on the disk.
- **CPU** is that of all threads until then. Where others use the machine, trust it before the times."""
IMPORTS: Final = "import trio, quart_trio, hypercorn.trio"
KILLED_AFTER_S: Final = 1.0
CREATORS: Final = 4
POLL_S: Final = 0.02
LOOKED_AFTER_MAX_S: Final = 600.0
IDLE_S: Final = 1.0


@dataclass(frozen=True)
class Restarts:
    """How much of it."""

    stored: int = 1_000_000
    opened: int = 100_000
    rounds: int = 5


@dataclass
class Restarted:
    """What the starts of one kind of server were like."""

    ready_ms: list[float] = field(default_factory=list)
    ready_cpu_ms: list[float] = field(default_factory=list)
    mib: list[float] = field(default_factory=list)
    """In memory once nothing waits."""
    looked_after_s: list[float] = field(default_factory=list)
    """From the start of the process until nothing is overdue."""
    looked_after_cpu_s: list[float] = field(default_factory=list)
    overdue: list[int] = field(default_factory=list)
    """How many there were."""


@dataclass
class Found:
    """All of it."""

    imports_ms: list[float] = field(default_factory=list)
    imports_cpu_ms: list[float] = field(default_factory=list)
    empty: Restarted = field(default_factory=Restarted)
    stored: Restarted = field(default_factory=Restarted)
    opened: Restarted = field(default_factory=Restarted)
    overdue: Restarted = field(default_factory=Restarted)


async def measure_restarts(folder: Path, plan: Restarts, say: Callable[[str], None]) -> Found:
    """All rounds."""
    say(f"{plan.stored:,} payments are made, and twice {plan.opened:,} open ones")
    empty, stored, opened, overdue = [
        await furnish(_fresh(folder, name), None) for name in ("empty", "stored", "opened", "overdue")
    ]
    now_ms = system_wall_ms()
    fill_archive(_file(stored), plan.stored, account_id=account_of(stored), now_ms=now_ms)
    with closing(sqlite3.connect(_file(stored))) as tx, tx:
        tx.execute("UPDATE endpoints SET state = 'paused'")
    for at, late in ((opened, False), (overdue, True)):
        fill_open(
            _file(at),
            plan.opened,
            account_id=account_of(at),
            merchant_id=at.merchant_id,
            now_ms=now_ms,
            overdue=late,
        )
    kept = shutil.copytree(overdue.folder / "data", folder / "kept")
    found = Found()
    for number in range(plan.rounds):
        say(f"starts, round {number + 1}")
        await _import(found)
        await _start(empty, found.empty)
        await _start(stored, found.stored)
        await _kill_while_creating(opened)
        await _start(opened, found.opened)
        shutil.rmtree(overdue.folder / "data")
        shutil.copytree(kept, overdue.folder / "data")
        await _look_after(overdue, found.overdue)
    return found


def _fresh(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made


def _file(at: Furnished) -> Path:
    return at.folder / "data" / "test.db"


async def _import(into: Found) -> None:
    """Python with what any such server imports."""
    used_s, started_s = _children_cpu_s(), time.monotonic()
    await trio.run_process([sys.executable, "-c", IMPORTS], stdin=subprocess.DEVNULL)
    into.imports_ms.append(1000 * (time.monotonic() - started_s))
    into.imports_cpu_ms.append(1000 * (_children_cpu_s() - used_s))


def _children_cpu_s() -> float:
    """Of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def _start(at: Furnished, into: Restarted) -> None:
    server = Server(at.folder, {**KEEPS, **STILL})
    try:
        await server.start()
        into.ready_cpu_ms.append(1000 * cpu_s(server.pid))
        await trio.sleep(IDLE_S)
        into.ready_ms.append(1000 * server.ready_after_s[-1])
        into.mib.append(resident_bytes(server.pid) / 2**20)
    finally:
        await server.put_away()


async def _kill_while_creating(at: Furnished) -> None:
    server = Server(at.folder, {**KEEPS, **STILL})
    created = 0

    async def create() -> None:
        nonlocal created
        body = {"referenceId": "ORDER", "amount": {"unit": "iso4217/USD", "value": "2500"}}
        async with Client(server.port) as client:
            while True:
                try:
                    answered = await client.ask("POST", "/v1/payments", body, at.headers)
                except Lost:
                    return
                assert answered.status == 201, answered.raw
                created += 1

    try:
        await server.start()
        async with trio.open_nursery() as nursery:
            for _ in range(CREATORS):
                nursery.start_soon(create)
            await trio.sleep(KILLED_AFTER_S)
            await server.kill()
    finally:
        await server.put_away()
    assert created, "the server was killed before it created anything"


async def _look_after(at: Furnished, into: Restarted) -> None:
    """Kill a server as soon as it is ready, start it again, and wait until nothing is overdue."""
    server = Server(at.folder, KEEPS)
    try:
        await server.start()
        await server.kill()
        with closing(sqlite3.connect(f"file:{_file(at)}?mode=ro", uri=True)) as tx:
            now_ms = system_wall_ms()
            (count,) = tx.execute("SELECT count(*) FROM payments WHERE due_at_ms <= ?", (now_ms,)).fetchone()
            assert count, "nothing was left to look after"
            started_s = time.monotonic()
            await server.start()
            into.ready_cpu_ms.append(1000 * cpu_s(server.pid))
            with trio.fail_after(LOOKED_AFTER_MAX_S):
                while tx.execute("SELECT 1 FROM payments WHERE due_at_ms <= ? LIMIT 1", (now_ms,)).fetchone():
                    await trio.sleep(POLL_S)
            into.looked_after_s.append(time.monotonic() - started_s)
            into.looked_after_cpu_s.append(cpu_s(server.pid))
            into.overdue.append(count)
        into.ready_ms.append(1000 * server.ready_after_s[-1])
        into.mib.append(resident_bytes(server.pid) / 2**20)
    finally:
        await server.put_away()
    assert not server.complaints(), server.complaints()


async def restart_lines(folder: Path, plan: Restarts, say: Callable[[str], None]) -> list[Line]:
    """The table."""
    return table_of(await measure_restarts(folder, plan, say), plan)


def table_of(found: Found, plan: Restarts) -> list[Line]:
    """Each kind beside an empty server, and that beside the imports alone."""
    stored, opened = f"{plan.stored:,} stored payments", f"{plan.opened:,} open payments, after kill -9"
    overdue = f"{median(found.overdue.overdue):,.0f} overdue payments, after kill -9"
    kinds = ((stored, found.stored), (opened, found.opened), (overdue, found.overdue))
    empty, nothing = found.empty, "nothing stored"
    empty_ms, empty_cpu_ms = median(empty.ready_ms), median(empty.ready_cpu_ms)
    imports_ms, imports_cpu_ms = median(found.imports_ms), median(found.imports_cpu_ms)
    lines = [
        _line("ready (ms)", "nothing", empty_ms, imports_ms, "imports", "≤ 1,000"),
        _line("ready, CPU (ms)", "nothing", empty_cpu_ms, imports_cpu_ms, "imports", NONE),
    ]
    for holds, one in kinds:
        goal = "≤ 10,000" if one is found.overdue else "≤ 1,000"
        lines += [
            _line("ready (ms)", holds, median(one.ready_ms), empty_ms, nothing, goal),
            _line("ready, CPU (ms)", holds, median(one.ready_cpu_ms), empty_cpu_ms, nothing, NONE),
        ]
    done_ms = 1000 * median(found.overdue.looked_after_s)
    done_cpu_ms = 1000 * median(found.overdue.looked_after_cpu_s)
    lines += [
        _line("all looked after (ms)", overdue, done_ms, empty_ms, nothing, "≤ 10,000"),
        _line("all looked after, CPU (ms)", overdue, done_cpu_ms, empty_cpu_ms, nothing, NONE),
    ]
    empty_mib = median(empty.mib)
    lines += [_line("memory (MiB)", holds, median(one.mib), empty_mib, nothing, NONE) for holds, one in kinds]
    return lines


def _line(what: str, holds: str, payd: float, beside: float, which: str, goal: str) -> Line:
    digits = 1 if "MiB" in what else 0
    return (
        what,
        holds,
        f"{payd:,.{digits}f}",
        f"{beside:,.{digits}f}",
        which,
        f"**{payd / beside:.2f}**",
        goal,
    )
