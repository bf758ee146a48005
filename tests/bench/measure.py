"""What is measured and how: rounds of payd, of handlers that do nothing, and of SQLite alone, in turn.

Source: DESIGN.md, "14. What it must reach (`scripts/bench`: ratios in one run, medians of alternated
rounds; never a timed test)".
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from subprocess import PIPE
from typing import Any, Final

import msgspec
import trio

from tests.bench.load import ROOT, Job, Report, send_load
from tests.bench.machine import cpu_s, resident_bytes
from tests.bench.readers import Arrivals, Crowd
from tests.bench.rows import commit_created, commit_moved, read_payments, read_written
from tests.bench.wrk import ONE_TIME, repeat_load
from tests.crash.client import Client, request_bytes
from tests.crash.process import Furnished, Server, furnish
from tests.shop import APPROVES, SIGNATURE

QUART: Final = "tests.bench.noop"
FASTAPI: Final = "tests.bench.noop_fastapi"
FANOUT: Final = "tests.bench.fanout"
FILLING_CONNECTIONS: Final = 16
ROWS_MAX: Final = 2000
# Each with a number of its own, as a shop's orders have; they begin anew where more are asked for.
ORDERS: Final = 30_000
STATUS_PAYMENTS: Final = 500
# Paid payments stay processing: their timers are no part of what is measured.
STILL: Final = {"PAYD_TEST_CONFIRM_AFTER_MS": "86400000"}
IDLE_S: Final = 1.0
SETTLE_S: Final = 0.3


@dataclass(frozen=True)
class Plan:
    """How long and how much."""

    connections: tuple[int, ...] = (1, 16, 100)
    rounds: int = 5
    seconds: int = 2
    confirms: int = 600
    """Payments that are confirmed in a round at 16 connections and more; a quarter of it at fewer."""
    readers: tuple[int, ...] = (1, 16, 100, 1000, 10_000)
    pushes: int = 3
    starts: int = 5


@dataclass(frozen=True)
class Spent:
    """What one server did in one measurement."""

    report: Report
    cpu_us: float
    """Of all its threads, a request. Where others use the machine it says more than a rate."""


@dataclass(frozen=True)
class Round:
    """One part once, on each server and by SQLite alone."""

    payd: Spent
    quart: Spent
    fastapi: Spent
    sqlite: float
    """Rows a second."""


@dataclass
class Crowded:
    """What one server did for its feed's readers."""

    kilobytes: float = 0.0
    push_us: list[float] = field(default_factory=list)
    last_ms: list[float] = field(default_factory=list)


@dataclass
class Started:
    """What payd's starts were like."""

    ready_ms: list[float] = field(default_factory=list)
    idle_mib: list[float] = field(default_factory=list)


@dataclass
class Bench:
    """payd and the handlers that do nothing, all served, and where payd's rows are."""

    plan: Plan
    at: Furnished
    payd: Server
    quart: Server
    fastapi: Server

    @property
    def servers(self) -> tuple[Server, Server, Server]:
        """In the order in which they take turns."""
        return self.payd, self.quart, self.fastapi

    @property
    def file(self) -> Path:
        """The test realm."""
        return self.at.folder / "data" / "test.db"

    async def rates(self, what: str, connections: int) -> list[Round]:
        """All rounds of one part at one number of connections."""
        by_name: dict[str, Callable[[int], Awaitable[Round]]] = {
            "create": self._create,
            "keyed": partial(self._create, keyed=True),
            "status": self._status,
            "confirm": self._confirm,
        }
        one_round = by_name[what]
        rounds = [await one_round(connections) for _ in range(self.plan.rounds)]
        refused = sum(one.payd.report.refused for one in rounds)
        assert not refused, f"{what}: payd refused {refused} requests"
        return rounds

    async def _create(self, connections: int, *, keyed: bool = False) -> Round:
        requests = [self.creation(number, keyed=keyed) for number in range(ORDERS)]
        payd, quart, fastapi = [await self._timed(server, connections, requests) for server in self.servers]
        written = read_written(self.file, "payment.created", ROWS_MAX)
        return Round(payd, quart, fastapi, await self._alone(commit_created, written, connections))

    async def _status(self, connections: int) -> Round:
        ids = await self.create_payments(STATUS_PAYMENTS)
        requests = [request_bytes("GET", f"/v1/payments/{one}/status", None, self.at.headers) for one in ids]
        payd, quart, fastapi = [await self._timed(server, connections, requests) for server in self.servers]
        sqlite = await trio.to_thread.run_sync(read_payments, self.file, ids, self.plan.seconds / 4)
        return Round(payd, quart, fastapi, sqlite)

    async def _confirm(self, connections: int) -> Round:
        count = self.plan.confirms if connections >= FILLING_CONNECTIONS else self.plan.confirms // 4
        ids = await self.create_payments(max(count, connections))
        asked = [self._gateway(one, "options", [APPROVES]) for one in ids]
        offered = (await self._once(self.payd, FILLING_CONNECTIONS, asked)).report.bodies
        requests = [
            self._gateway(one, "confirm", _paid(msgspec.json.decode(body)))
            for one, body in zip(ids, offered, strict=True)
        ]
        payd, quart, fastapi = [await self._once(server, connections, requests) for server in self.servers]
        written = read_written(self.file, "payment.processing", len(ids))
        return Round(payd, quart, fastapi, await self._alone(commit_moved, written, connections))

    def creation(self, number: int, *, keyed: bool = False) -> bytes:
        """A request that creates a payment; under a key that is another one each time that it is sent."""
        headers = self.at.headers | ({"idempotency-key": ONE_TIME} if keyed else {})
        body = {"referenceId": f"ORDER-{number:05}", "amount": {"unit": "iso4217/USD", "value": "2500"}}
        return request_bytes("POST", "/v1/payments", body, headers)

    async def create_payments(self, count: int) -> list[str]:
        """That many fresh payments' ids."""
        requests = [self.creation(number) for number in range(count)]
        made = (await self._once(self.payd, FILLING_CONNECTIONS, requests)).report.bodies
        return [msgspec.json.decode(body)["paymentId"] for body in made]

    def _gateway(self, payment_id: str, act: str, body: Any) -> bytes:
        path = f"/v1/gateway/payment/{payment_id}/{act}"
        return request_bytes("POST", path, body, {"api-key": self.at.key})

    async def _timed(self, server: Server, connections: int, requests: list[bytes]) -> Spent:
        load = partial(repeat_load, server.port, connections, requests, self.plan.seconds)
        return await _spend(server, load)

    async def _once(self, server: Server, connections: int, requests: list[bytes]) -> Spent:
        job = Job(server.port, connections, requests, keep=True)
        spent = await _spend(server, partial(send_load, job))
        refused = spent.report.refused
        assert not refused, f"{refused} requests were refused: {spent.report.bodies[0].decode()}"
        return spent

    async def _alone(self, commit: Any, written: Any, connections: int) -> float:
        path = self.at.folder / "alone.db"
        return await trio.to_thread.run_sync(commit, path, written, connections, self.plan.seconds / 4)

    async def ceiling(self, connections: int) -> Report:
        """What the load generator reaches on a server that only sends fixed bytes."""
        fixed = Server(self.at.folder, module=("tests.bench.fixed",))
        try:
            await fixed.start()
            return (await self._timed(fixed, connections, [self.creation(0)])).report
        finally:
            await fixed.put_away()


@asynccontextmanager
async def open_bench(folder: Path, plan: Plan) -> AsyncIterator[Bench]:
    """All servers on one data directory, with an endpoint that is owed every event and never answers.

    Deliveries are written, not sent: at most a handful is under way at any time.
    """
    async with trio.open_nursery() as nursery:
        hook = await nursery.start(partial(trio.serve_tcp, _never_answer, 0, host="127.0.0.1"))
        port = hook[0].socket.getsockname()[1]
        at = await furnish(folder, f"http://127.0.0.1:{port}/hook")
        servers = [Server(folder, STILL), *(Server(folder, module=(noop,)) for noop in (QUART, FASTAPI))]
        try:
            for server in servers:
                await server.start()
            yield Bench(plan, at, *servers)
        finally:
            for server in servers:
                await server.put_away()
            nursery.cancel_scope.cancel()


async def _spend(server: Server, load: Callable[[], Awaitable[Report]]) -> Spent:
    used_s = cpu_s(server.pid)
    report = await load()
    return Spent(report, (cpu_s(server.pid) - used_s) / report.all_answers * 1e6)


async def _never_answer(stream: trio.SocketStream) -> None:
    async for _ in stream:
        pass


def _paid(offered: dict[str, Any]) -> dict[str, Any]:
    """A wallet's results for the first option."""
    return {
        "optionId": offered["options"][0]["id"],
        "results": [{"type": "walletRpc", "data": [SIGNATURE]}],
    }


async def measure_feeds(folder: Path, plan: Plan, readers: int) -> tuple[Crowded, Crowded, Crowded]:
    """One push to many readers of one payment: payd's hub, Quart's own websockets, and a bare loop."""
    at = await furnish(folder, None)
    payd, noop, bare = Crowded(), Crowded(), Crowded()
    servers = ours, theirs, loop = (
        Server(folder, STILL),
        Server(folder, module=(QUART,)),
        Server(folder, module=(FANOUT,)),
    )
    any_feed = "/v1/payments/any/feed"
    try:
        for server in servers:
            await server.start()
        for _ in range(plan.pushes):
            await _push_by_payd(ours, at, readers, payd)
            await _push(theirs, any_feed, readers, noop, "/push", None, {})
            await _push(loop, any_feed, readers, bare, "/v1/test/payments/any/simulate", None, {})
    finally:
        for server in servers:
            await server.put_away()
    return payd, noop, bare


async def _push_by_payd(server: Server, at: Furnished, readers: int, crowded: Crowded) -> None:
    async with Client(server.port) as client:
        body = {"referenceId": "ORDER", "amount": {"unit": "iso4217/USD", "value": "2500"}}
        made = (await client.ask("POST", "/v1/payments", body, at.headers)).body
    payment = f"payments/{made['paymentId']}"
    to = {"to": "processing"}
    await _push(
        server, f"/v1/{payment}/feed", readers, crowded, f"/v1/test/{payment}/simulate", to, at.headers
    )


async def _push(
    server: Server, feed: str, readers: int, crowded: Crowded, path: str, body: Any, headers: dict[str, str]
) -> None:
    """Open the readers, push once, and note memory (of the first crowd), CPU and the last arrival."""
    before = resident_bytes(server.pid)
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "tests.bench.readers"], stdin=PIPE, stdout=PIPE, cwd=ROOT
    )
    assert process.stdin is not None
    assert process.stdout is not None
    async with process.stdin as talk, process.stdout as said, Client(server.port) as client:
        try:
            await talk.send_all(msgspec.json.encode(Crowd(server.port, [feed], readers)) + b"\n")
            assert await _line(said) == b"open\n"
            await trio.sleep(SETTLE_S)
            crowded.kilobytes = crowded.kilobytes or (resident_bytes(server.pid) - before) / readers / 1000
            used_s, pushed_s = cpu_s(server.pid), time.monotonic()
            answered = await client.ask("POST", path, body, headers)
            assert answered.status == 200, answered.raw
            arrivals = msgspec.json.decode(await _line(said), type=Arrivals)
            # No later: the pings of a second, which go to one of twenty-five readers, are no part of it.
            crowded.push_us.append((cpu_s(server.pid) - used_s) / readers * 1e6)
            crowded.last_ms.append((max(arrivals.at_s) - pushed_s) * 1000)
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
    await trio.sleep(SETTLE_S)


async def _line(said: trio.abc.ReceiveStream) -> bytes:
    """The one line that is said next; nothing follows it until somebody answers."""
    line = b""
    while not line.endswith(b"\n"):
        more = await said.receive_some()
        assert more, f"the readers ended after {line!r}"
        line += more
    return line


async def measure_starts(folder: Path, plan: Plan) -> Started:
    """From the start of the process to `/readyz`, and what is in memory when nothing happens after it."""
    await furnish(folder, None)
    started = Started()
    for _ in range(plan.starts):
        server = Server(folder)
        try:
            await server.start()
            await trio.sleep(IDLE_S)
            started.ready_ms.append(1000 * server.ready_after_s[-1])
            started.idle_mib.append(resident_bytes(server.pid) / 2**20)
        finally:
            await server.put_away()
    return started
