"""Webhooks: how fast they are sent, what endpoints that hang cost the others, their memory and delay.

Every figure is taken where webhooks arrive (`tests/bench/sink.py`). Where a rate is measured, the sender with
all its threads keeps to one core and the sink to another, so that they do not take from each other.

Source: DESIGN.md, "14. What it must reach (`scripts/bench`: ratios in one run, medians of alternated
rounds; never a timed test)".
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
import trio

from payd.entropy import system_entropy
from payd.store.seal import Seal, load_key
from tests.bench.load import ROOT
from tests.bench.machine import cpu_s, resident_bytes
from tests.bench.owed import count_logged, created_s, fill
from tests.bench.sender import SEAL, Job
from tests.bench.sink import CA_FILE, Arrivals, Expect, OpenSink, Receivers, open_sink, read_line
from tests.crash.client import Client
from tests.crash.process import Furnished, Server, furnish

# What was sent last is in the log a moment after it has arrived.
LOGGED_MAX_S: Final = 10.0
TRUSTING: Final = {"PAYD_WEBHOOKS_TEST_CA_FILE": str(CA_FILE)}


@dataclass(frozen=True)
class Sends:
    """How long and how much.

    Attributes:
        rounds: Of each part, payd and what is beside it in turn.
        endpoints: For the rates.
        deliveries: Of each measurement of a rate, over all endpoints that answer.
        apart: Endpoints that answer where as many others hang.
        pool_s: How long one pool for everybody is watched while it hangs.
        rate: Events a second to endpoints that answer, for latencies.
        seconds: Of a latency's measurement.
        hang_s: The same beside endpoints that hang; past 15 s their first requests end.
        warm_s: What happened before that is no part of a latency: connections were opened.
        backlog: Pending deliveries for the memory.
        settle_s: How long a server is up before its memory counts.
    """

    rounds: int = 3
    endpoints: tuple[int, ...] = (1, 8)
    deliveries: int = 6000
    apart: int = 10
    pool_s: float = 20.0
    rate: float = 100.0
    seconds: float = 6.0
    hang_s: float = 18.0
    warm_s: float = 1.0
    backlog: int = 100_000
    settle_s: float = 2.0


@dataclass(frozen=True)
class Sent:
    """One measurement of a rate.

    Attributes:
        rate: Deliveries a second.
        cpu_us: Of all the sender's threads, for each.
        bytes: What arrived in all.
    """

    rate: float
    cpu_us: float
    bytes: int


@dataclass(frozen=True)
class Latency:
    """From an event to the first byte of its first attempt at the receiver; at most 1 ms too long."""

    p50_ms: float
    p99_ms: float


@dataclass
class Rates:
    """By sender, round by round."""

    payd: list[Sent] = field(default_factory=list)
    client: list[Sent] = field(default_factory=list)
    h11: list[Sent] = field(default_factory=list)


@dataclass
class Apart:
    """What healthy endpoints get, with and without as many that hang."""

    payd: list[Sent] = field(default_factory=list)
    payd_alone: list[Sent] = field(default_factory=list)
    pool: list[Sent] = field(default_factory=list)
    pool_alone: list[Sent] = field(default_factory=list)
    latency: list[Latency] = field(default_factory=list)
    latency_alone: list[Latency] = field(default_factory=list)


@dataclass
class Backlog:
    """A server that owes much, to its first attempt, and one that owes nothing, until it is ready."""

    mib: list[float] = field(default_factory=list)
    idle_mib: list[float] = field(default_factory=list)
    first_ms: list[float] = field(default_factory=list)
    ready_ms: list[float] = field(default_factory=list)


def cores() -> tuple[int | None, int | None]:
    """The sender's core and the sink's; none where there are not two."""
    free = sorted(os.sched_getaffinity(0))
    return (free[0], free[1]) if len(free) > 1 else (None, None)


async def measure_rates(folder: Path, plan: Sends, endpoints: int) -> Rates:
    """The deliveries, their client alone, and h11 by hand: the same POSTs, as many at once.

    That they are the same is checked by what arrived: not a byte more or less.
    """
    rates = Rates()
    each = plan.deliveries // endpoints
    async with open_sink(Receivers(endpoints, core=cores()[1])) as sink:
        fill(folder / "owed.db", sink.answering, each, SEAL)
        for _ in range(plan.rounds):
            for how, sent in vars(rates).items():
                sent.append(await _send_owed(folder, sink, how, each * endpoints))
    sizes = {how: {one.bytes for one in sent} for how, sent in vars(rates).items()}
    assert len(set.union(*sizes.values())) == 1, f"not the same bytes: {sizes}"
    return rates


async def measure_apart(folder: Path, plan: Sends) -> Apart:
    """Endpoints that answer, beside as many that hang and alone: by payd, and by one pool for all."""
    found = Apart()
    each = plan.deliveries // (2 * plan.apart)
    together, alone = folder / "together", folder / "alone"
    together.mkdir()
    alone.mkdir()
    async with open_sink(Receivers(plan.apart, plan.apart, cores()[1])) as sink:
        fill(together / "owed.db", sink.urls, each, SEAL)
        fill(alone / "owed.db", sink.answering, each, SEAL)
        for _ in range(plan.rounds):
            found.payd.append(await _send_owed(together, sink, "payd", each * plan.apart))
            found.payd_alone.append(await _send_owed(alone, sink, "payd", each * plan.apart))
        found.pool.append(await _send_owed(together, sink, "pool", each * plan.apart, plan.pool_s))
        found.pool_alone.append(await _send_owed(alone, sink, "pool", each * plan.apart))
        for _ in range(plan.rounds):
            found.latency.append(await _send_steadily(together, sink, plan, sink.urls, plan.hang_s))
            found.latency_alone.append(await _send_steadily(alone, sink, plan, sink.answering, plan.seconds))
    return found


async def measure_backlog(folder: Path, plan: Sends) -> Backlog:
    """The real server, owed very much by endpoints that hang, and owed nothing."""
    found = Backlog()
    owing, idle = folder / "owing", folder / "idle"
    async with open_sink(Receivers(0, 2 * plan.apart)) as sink:
        for place in (owing, idle):
            place.mkdir()
            await furnish(place, None)
        seal = Seal(load_key(owing / "data" / "seal.key", system_entropy))
        fill(owing / "data" / "test.db", sink.hanging, plan.backlog // len(sink.hanging), seal)
        arrived: list[Arrivals] = []

        async def first_attempt() -> None:
            arrived.append(await sink.arrived())

        for _ in range(plan.rounds):
            await sink.expect(Expect(1, of_hanging=True))
            started_s = time.time()
            found.mib.append((await _settled(owing, plan.settle_s, first_attempt))[0])
            found.first_ms.append(1000 * (arrived[-1].at_s[0] - started_s))
            idle_mib, ready_s = await _settled(idle, plan.settle_s, trio.lowlevel.checkpoint)
            found.idle_mib.append(idle_mib)
            found.ready_ms.append(1000 * ready_s)
    return found


async def _settled(
    folder: Path, seconds: float, happened: Callable[[], Awaitable[None]]
) -> tuple[float, float]:
    """MiB of a server a while after something happened, and after how many seconds it was ready."""
    server = Server(folder, TRUSTING)
    try:
        await server.start()
        await happened()
        await trio.sleep(seconds)
        return resident_bytes(server.pid) / 2**20, server.ready_after_s[-1]
    finally:
        await server.put_away()


async def measure_served(folder: Path, plan: Sends) -> list[Latency]:
    """A real server: payments created over HTTP at a steady rate, and their webhooks."""
    found: list[Latency] = []
    async with open_sink(Receivers(1)) as sink:
        at = await furnish(folder, sink.answering[0])
        server = Server(folder, TRUSTING)
        try:
            await server.start()
            for _ in range(plan.rounds):
                count = round(plan.rate * plan.seconds)
                await sink.expect(Expect(count))
                await _create_steadily(server, at, plan.rate, count)
                arrivals = await sink.arrived()
                assert len(arrivals.ids) == count, f"{len(arrivals.ids)} of {count} came"
                found.append(_latency(arrivals, created_s(folder / "data" / "test.db"), plan.warm_s))
        finally:
            await server.put_away()
    return found


async def _create_steadily(server: Server, at: Furnished, rate: float, count: int) -> None:
    """Payments, each in time whether or not those before it have been answered."""
    idle: list[Client] = []
    body = {"referenceId": "ORDER", "amount": {"unit": "iso4217/USD", "value": "2500"}}

    async def create() -> None:
        client = idle.pop() if idle else Client(server.port)
        answered = await client.ask("POST", "/v1/payments", body, at.headers)
        assert answered.status < 300, answered.raw
        idle.append(client)

    begun_s = trio.current_time()
    async with AsyncExitStack() as stack:
        async with trio.open_nursery() as nursery:
            for number in range(count):
                await trio.sleep_until(begun_s + number / rate)
                nursery.start_soon(create)
        for client in idle:
            stack.push_async_callback(client.close)


@dataclass
class _Sender:
    process: trio.Process
    path: Path

    async def begin(self) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send_all(b"begin\n")

    async def logged(self, count: int) -> None:
        """Return when so many successful attempts are in the log, and as many deliveries are settled."""
        with trio.fail_after(LOGGED_MAX_S):
            while count_logged(self.path) != (count, count):
                await trio.sleep(0.02)


def _copy(owed: Path, path: Path) -> None:
    for old in path.parent.glob(f"{path.name}*"):
        old.unlink()
    shutil.copy(owed, path)


@asynccontextmanager
async def _open_sender(folder: Path, job: Job) -> AsyncIterator[_Sender]:
    """The sender's process on a fresh copy of what is owed, ready to begin; ended with the block."""
    path = Path(job.path)
    _copy(folder / "owed.db", path)
    with (folder / "sender.log").open("wb") as log:
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "tests.bench.sender", msgspec.json.encode(job).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=ROOT,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    async with process.stdin, process.stdout as said:
        try:
            assert await read_line(said) == b"ready\n"
            yield _Sender(process, path)
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()


async def _send_owed(
    folder: Path, sink: OpenSink, how: str, count: int, seconds: float | None = None
) -> Sent:
    """All that is owed, until what goes to endpoints that answer has arrived, or for so long."""
    job = Job(how, str(folder / "run.db"), cores()[0])
    async with _open_sender(folder, job) as sender:
        await sink.expect(Expect(count, seconds))
        used_s = cpu_s(sender.process.pid)
        await sender.begin()
        arrivals = await sink.arrived()
        used_s = cpu_s(sender.process.pid) - used_s
        whole = len(arrivals.ids) == count
        assert whole or seconds is not None, f"{how}: {len(arrivals.ids)} of {count} came"
        if how == "payd":
            await sender.logged(count)
    rate = arrivals.rate() if whole else len(arrivals.ids) / (seconds or 1.0)
    return Sent(rate, used_s / max(1, len(arrivals.ids)) * 1e6, arrivals.bytes)


async def _send_steadily(
    folder: Path, sink: OpenSink, plan: Sends, urls: list[str], seconds: float
) -> Latency:
    """Events that happen at a steady rate while the machinery runs; those to endpoints that answer count."""
    fresh = folder / "steady"
    fresh.mkdir(exist_ok=True)
    if not (fresh / "owed.db").exists():
        fill(fresh / "owed.db", urls, 0, SEAL)
    answering = len(sink.answering)
    job = Job("payd", str(fresh / "run.db"), cores()[0], len(urls), plan.rate * len(urls) / answering)
    count = round(plan.rate * seconds)
    async with _open_sender(fresh, job) as sender:
        await sink.expect(Expect(count))
        await sender.begin()
        arrivals = await sink.arrived()
        # The events go on until the sender is stopped: one more may have come meanwhile.
        assert len(arrivals.ids) >= count, f"{len(arrivals.ids)} of {count} came"
        return _latency(arrivals, created_s(Path(job.path)), plan.warm_s)


def _latency(arrivals: Arrivals, created: dict[str, float], warm_s: float) -> Latency:
    assert len(set(arrivals.ids)) == len(arrivals.ids), "one came twice"
    from_s = min(created[one] for one in arrivals.ids) + warm_s
    late_ms = sorted(
        1000 * (at_s - created[one])
        for one, at_s in zip(arrivals.ids, arrivals.at_s, strict=True)
        if created[one] >= from_s
    )
    assert late_ms, "nothing happened after the warm-up"
    return Latency(late_ms[len(late_ms) // 2], late_ms[min(len(late_ms) - 1, len(late_ms) * 99 // 100)])
