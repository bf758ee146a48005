"""How many pages follow payments at once: from the move that is asked for to its frame at each of them.

A round is one page on one payment, many times; then all pages, some on each of many payments; then all of
them on one. payd and the bare fan-out take the same moves, in turn.

Source: DESIGN.md, "14. What it must reach (`scripts/bench`: ratios in one run, medians of alternated
rounds; never a timed test)".
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE
from typing import Final

import msgspec
import trio

from tests.bench.load import ROOT
from tests.bench.machine import cpu_s, resident_bytes
from tests.bench.readers import Arrivals, Crowd
from tests.crash.client import Client
from tests.crash.process import Furnished, Server, furnish

# Paid payments stay as they are until they are moved by hand. Nobody here is a stranger.
STILL: Final = {"PAYD_TEST_CONFIRM_AFTER_MS": "86400000", "PAYD_TEST_SETTLE_AFTER_MS": "86400000"}
# To the last snapshot that a page gets: both moves are what a buyer waits for.
MOVES: Final = ("processing", "succeeded")
SETTLE_S: Final = 0.3


@dataclass(frozen=True)
class Follows:
    """How many, and how often."""

    pages: int = 2000
    payments: int = 200
    """Over which the pages are spread."""
    ones: int = 100
    """Payments that one page follows, one after the other."""
    crowds: int = 3
    """In a round, payments that all pages follow, one after the other."""
    rounds: int = 5
    idle_s: float = 10.0


@dataclass
class Shape:
    """From a move to its frames, in milliseconds, round by round."""

    each_ms: list[list[float]] = field(default_factory=list)
    last_ms: list[list[float]] = field(default_factory=list)

    def begin(self) -> None:
        """A round."""
        self.each_ms.append([])
        self.last_ms.append([])

    def add(self, arrivals: list[float]) -> None:
        """A move, and after how long its frame came to each who follows."""
        self.each_ms[-1] += arrivals
        self.last_ms[-1].append(max(arrivals))


@dataclass
class Followed:
    """What one server did."""

    one: Shape = field(default_factory=Shape)
    spread: Shape = field(default_factory=Shape)
    all: Shape = field(default_factory=Shape)


@dataclass(frozen=True)
class Idle:
    """What pages cost where nothing happens: memory by their number, and CPU of all of them."""

    kilobytes: dict[int, float]
    percent: float
    """Of a core, more than without them."""


@dataclass
class Followers:
    """The pages of one crowd after the other."""

    port: int
    talk: trio.abc.SendStream
    said: trio.abc.ReceiveStream
    _buffer: bytes = b""

    async def gather(self, payments: list[str], pages: int) -> None:
        """So many pages on each payment, in place of those before; all have their snapshot."""
        paths = [f"/v1/payments/{one}/feed" for one in payments]
        await self.talk.send_all(msgspec.json.encode(Crowd(self.port, paths, pages)) + b"\n")
        assert await self._line() == b"open"

    async def arrivals(self) -> Arrivals:
        """Of the next frame that came to all who follow one payment."""
        return msgspec.json.decode(await self._line(), type=Arrivals)

    async def _line(self) -> bytes:
        while b"\n" not in self._buffer:
            more = await self.said.receive_some()
            assert more, f"the readers ended after {self._buffer[:200]!r}"
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line


@asynccontextmanager
async def open_followers(port: int) -> AsyncIterator[Followers]:
    """Nobody yet, in a process of their own."""
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "tests.bench.readers"], stdin=PIPE, stdout=PIPE, cwd=ROOT
    )
    assert process.stdin is not None
    assert process.stdout is not None
    async with process.stdin as talk, process.stdout as said:
        try:
            yield Followers(port, talk, said)
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()


@dataclass
class Side:
    """A server, who moves its payments, and what that took."""

    server: Server
    at: Furnished | None
    followed: Followed = field(default_factory=Followed)

    async def payments(self, count: int) -> list[str]:
        """The ids of that many new payments."""
        if self.at is None:
            return [f"pay_{number}" for number in range(count)]
        body = {"referenceId": "ORDER", "amount": {"unit": "iso4217/USD", "value": "2500"}}
        async with Client(self.server.port) as client:
            made = [await client.ask("POST", "/v1/payments", body, self.at.headers) for _ in range(count)]
        return [one.body["paymentId"] for one in made]

    async def move_all(self, shape: Shape, crowd: Followers, payments: list[str], pages: int) -> None:
        """Move each payment to its end while so many pages follow each."""
        headers = {} if self.at is None else self.at.headers
        await crowd.gather(payments, pages)
        async with Client(self.server.port) as client:
            for move in MOVES:
                for number, one in enumerate(payments):
                    path = f"/v1/test/payments/{one}/simulate"
                    moved_s = time.monotonic()
                    answer = await client.ask("POST", path, {"to": move}, headers)
                    assert answer.status == 200, answer.raw
                    came = await crowd.arrivals()
                    assert came.path == number, "a payment that nobody moved was heard of"
                    shape.add([1000 * (at_s - moved_s) for at_s in came.at_s])

    async def round(self, plan: Follows) -> None:
        """One page and one payment at a time, then the spread, then all on one."""
        followed = self.followed
        for shape in (followed.one, followed.spread, followed.all):
            shape.begin()
        async with open_followers(self.server.port) as crowd:
            for one in await self.payments(plan.ones):
                await self.move_all(followed.one, crowd, [one], 1)
            spread = await self.payments(plan.payments)
            await self.move_all(followed.spread, crowd, spread, plan.pages // plan.payments)
            for one in await self.payments(plan.crowds):
                await self.move_all(followed.all, crowd, [one], plan.pages)

    async def idle(self, plan: Follows) -> Idle:
        """Half of the pages, then all, each on a payment of its own."""
        pid = self.server.pid
        kilobytes: dict[int, float] = {}
        payments = await self.payments(plan.pages)
        nobody_s = await self._rest(plan.idle_s)
        empty = resident_bytes(pid)
        async with open_followers(self.server.port) as some, open_followers(self.server.port) as others:
            half = plan.pages // 2
            await some.gather(payments[:half], 1)
            await trio.sleep(SETTLE_S)
            kilobytes[half] = (resident_bytes(pid) - empty) / half / 1000
            await others.gather(payments[half:], 1)
            await trio.sleep(SETTLE_S)
            kilobytes[plan.pages] = (resident_bytes(pid) - empty) / plan.pages / 1000
            used_s = await self._rest(plan.idle_s)
        return Idle(kilobytes, 100 * (used_s - nobody_s) / plan.idle_s)

    async def _rest(self, seconds: float) -> float:
        """CPU that it takes to do nothing for so long."""
        used_s = cpu_s(self.server.pid)
        await trio.sleep(seconds)
        return cpu_s(self.server.pid) - used_s


@asynccontextmanager
async def open_sides(folder: Path) -> AsyncIterator[tuple[Side, Side]]:
    """Payd and the bare fan-out, both served."""
    at = await furnish(folder, None)
    payd = Side(Server(folder, STILL), at)
    bare = Side(Server(folder, module=("tests.bench.fanout",)), None)
    try:
        await payd.server.start()
        await bare.server.start()
        yield payd, bare
    finally:
        await payd.server.put_away()
        await bare.server.put_away()


async def measure_follows(folder: Path, plan: Follows) -> tuple[Side, Side]:
    """All rounds."""
    async with open_sides(folder) as sides:
        for _ in range(plan.rounds):
            for side in sides:
                await side.round(plan)
    return sides


async def measure_idle(folder: Path, plan: Follows) -> tuple[Idle, Idle]:
    """Of fresh servers, whose memory no crowd before has made larger."""
    async with open_sides(folder) as (payd, bare):
        return await payd.idle(plan), await bare.idle(plan)
