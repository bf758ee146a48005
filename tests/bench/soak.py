"""A soak: a server under a modest mixed load for long, and whether anything of it grows.

People create, pay, cancel, read and list, pages and an account follow, webhooks arrive, backups are made.
After each shift the realm's clock moves on, so that what expires, is sent again or is forgotten falls due.

Source: DESIGN.md, "14. What it must reach (`scripts/bench`: ratios in one run, medians of alternated
rounds; never a timed test)".
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median, quantiles
from typing import Any, Final

import msgspec
import trio

from payd.actors.turns import AWAKE_MAX
from payd.store.db import LOG_PAGES_MAX
from tests.bench.load import Job, send_load
from tests.bench.machine import cpu_s, open_descriptors, resident_bytes, threads
from tests.bench.table import Line
from tests.bench.trend import Watched, trend_line
from tests.crash.aftermath import come_to_rest, moody
from tests.crash.backups import Backer, Backup
from tests.crash.client import Answered, Client, request_bytes
from tests.crash.process import Furnished, Server, furnish
from tests.crash.shoppers import Caller, Door, Ledger, Shopper, listen_to_account, watch_pages
from tests.receiver import Receiver

# By the test clock, which moves on after each shift, events are forgotten after some minutes.
ENV: Final = {"PAYD_WEBHOOKS_KEEP_DAYS": "15"}
MODULE: Final = ("tests.bench.frequent_chores", "serve")
SHIFT_DAYS: Final = 2
# Some pages go at once, as those of buyers on their way; others stay open.
PAGE_STAYS_S: Final = (0.4, 30.0)
LISTS: Final = (
    "/v1/payments",
    "/v1/payments?limit=100",
    "/v1/payments?status=processing",
    "/v1/payments?referenceId=shift1",
    "/v1/events",
    "/v1/webhooks/deliveries",
    "/v1/merchants",
    "/metrics",
)
GLIMPSE_S: Final = 0.05
FIRST_CONNECTIONS: Final = 8
DAY_S: Final = 86_400
FIXED_S: Final = 0.1
MIB: Final = 2**20
PAGE_BYTES: Final = 4096
# Until then the caches of the database's connections fill.
MEMORY_JUDGED_MINUTES: Final = 30.0
# A slope over pairs takes the square of their number.
SAMPLES_MAX: Final = 600
NOTES: Final = """\
- **Grew**: the median slope between all pairs of samples of the second half. In the first one, caches fill;
  in less than half an hour they go on filling, and memory is shown and not judged.
- A backup pins the log while it copies: it may grow to four times the size at which it is emptied.
- **Fixed bytes**: a server that sends the same answer to whatever comes, asked ten times a second by the same
  process. Where others use the machine it gets as slow as payd, and only the ratio says something."""


@dataclass(frozen=True)
class Soak:
    """How long, and how much at once."""

    minutes: float = MEMORY_JUDGED_MINUTES
    first: int = AWAKE_MAX
    """Payments that are there when it begins, so that what is kept in memory of so many is full."""
    shoppers: int = 16
    pause_max_s: float = 1.0
    pages: int = 8
    sample_s: float = 2.0
    backup_s: float = 60.0
    shift_s: float = 20.0

    @property
    def every_s(self) -> float:
        """Between two samples."""
        return max(self.sample_s, self.minutes * 60 / SAMPLES_MAX)


@dataclass(frozen=True)
class Sample:
    """The server at one moment, and what its clients waited since the one before."""

    at_s: float
    rss: int
    descriptors: int
    threads: int
    log_bytes: int
    file_bytes: int
    payments: int
    p50_ms: float
    p99_ms: float
    fixed_ms: float
    """Median of the server that sends fixed bytes."""
    cpu_us: float
    """Of all threads, a request."""


class TimedDoor:
    """A door that notes how long each answer took, but for those that were asked to wait."""

    def __init__(self, door: Door, took_ms: list[float]) -> None:
        self._door = door
        self._took_ms = took_ms

    async def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answered:
        """As the door does."""
        begun_s = time.perf_counter()
        answered = await self._door.ask(method, path, body, headers)
        if "maxPollMs" not in path:
            self._took_ms.append(1000 * (time.perf_counter() - begun_s))
        return answered

    async def close(self) -> None:
        """Go away."""
        await self._door.close()


class Clerk(Caller):
    """Looks at lists, and at the metrics."""

    pause_max_s = 0.4

    async def live(self, until: trio.Event) -> None:
        while not until.is_set():
            path = self.rng.choice(LISTS)
            answered = await self.insist("GET", path)
            if answered.status != 200:
                self.refuse(answered, path)
            await trio.sleep(self.rng.random() * self.pause_max_s)


@dataclass
class Soaked:
    """A run: the load, and what came of it."""

    plan: Soak
    at: Furnished
    server: Server
    fixed: Server
    receiver: Receiver
    ledger: Ledger = field(default_factory=Ledger)
    took_ms: list[float] = field(default_factory=list)
    fixed_ms: list[float] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def door(self) -> Door:
        """For one client."""
        return TimedDoor(self.server.door(), self.took_ms)

    async def run(self, rng: Random, say: Callable[[str], None]) -> None:
        """The whole load, for as long as it was planned."""
        await self._fill()
        begun_s = trio.current_time()
        async with trio.open_nursery() as others:
            others.start_soon(listen_to_account, self.server, self.at, self.ledger)
            for number in range(self.plan.pages):
                stays_s = PAGE_STAYS_S[number % len(PAGE_STAYS_S)]
                others.start_soon(watch_pages, self.server, self.ledger, stays_s)
            others.start_soon(self._ask_fixed)
            others.start_soon(self._back_up, Random(rng.random()))
            async with Client(self.server.port) as client:
                while trio.current_time() < begun_s + 60 * self.plan.minutes:
                    await self._shift(Random(rng.random()), begun_s)
                    say(str(self.samples[-1]))
                    await come_to_rest(client, self.at, f"{SHIFT_DAYS}d")
                    self.done["days of the test clock"] += SHIFT_DAYS
            others.cancel_scope.cancel()

    async def _fill(self) -> None:
        """Have as many payments in memory as are kept there. They are over before there is an endpoint."""
        amount = {"unit": "iso4217/USD", "value": "2500"}
        body = {"referenceId": "FIRST", "amount": amount, "expiresAt": int(time.time()) + DAY_S}
        request = request_bytes("POST", "/v1/payments", body, self.at.headers)
        report = await send_load(Job(self.server.port, FIRST_CONNECTIONS, [request] * self.plan.first))
        assert not report.refused, f"{report.refused} requests were refused"
        self.done["payments"] += report.all_answers
        async with Client(self.server.port) as client:
            await come_to_rest(client, self.at, f"{SHIFT_DAYS}d")
            url = f"http://127.0.0.1:{await self.receiver.listen()}/hook"
            hooked = await client.ask("PUT", "/v1/webhooks/endpoint", {"url": url}, self.at.headers)
            assert hooked.status == 200, hooked.raw

    async def _shift(self, rng: Random, begun_s: float) -> None:
        """People come, are sampled, and finish what they began."""
        plan, enough = self.plan, trio.Event()
        name = f"shift{self.done['days of the test clock']}"
        async with trio.open_nursery() as shop:
            for number in range(plan.shoppers):
                draws = Random(rng.random())
                shopper = Shopper(f"{name}-{number}", self.door, self.at, self.ledger, draws)
                shopper.pause_max_s, shopper.glimpse_s = plan.pause_max_s, GLIMPSE_S
                shop.start_soon(shopper.run, enough)
            shop.start_soon(Clerk(self.door, self.at, self.ledger, Random(rng.random())).run, enough)
            await self._sample(begun_s)
            enough.set()

    async def _sample(self, begun_s: float) -> None:
        """Look at the server again and again, for a shift."""
        ends_s = trio.current_time() + self.plan.shift_s
        used_s, answered = cpu_s(self.server.pid), self.ledger.answered
        self.took_ms.clear()
        while trio.current_time() < ends_s:
            await trio.sleep(self.plan.every_s)
            if len(self.took_ms) < 2 or not self.fixed_ms:
                continue  # a machine that stands still; a server that does is found out by its clients
            now_used_s, requests = cpu_s(self.server.pid), self.ledger.answered - answered
            self._forget()
            self.samples.append(
                self._look(trio.current_time() - begun_s, (now_used_s - used_s) / requests * 1e6)
            )
            used_s, answered = now_used_s, answered + requests

    def _look(self, at_s: float, cpu_us: float) -> Sample:
        pid, file = self.server.pid, self.at.folder / "data" / "test.db"
        cuts = quantiles(self.took_ms, n=100, method="inclusive")
        fixed_ms = median(self.fixed_ms)
        self.took_ms.clear()
        self.fixed_ms.clear()
        log_file = file.with_name("test.db-wal")
        return Sample(
            at_s=at_s,
            rss=resident_bytes(pid),
            descriptors=open_descriptors(pid),
            threads=threads(pid),
            log_bytes=log_file.stat().st_size if log_file.exists() else 0,
            file_bytes=file.stat().st_size,
            payments=self.done["payments"],
            p50_ms=cuts[49],
            p99_ms=cuts[98],
            fixed_ms=fixed_ms,
            cpu_us=cpu_us,
        )

    def _forget(self) -> None:
        """Count what was heard and let go of it: here is nobody whose memory is watched."""
        ledger = self.ledger
        self.done.update(
            {
                "payments": len(ledger.payments),
                "events heard by the account's feed": len(ledger.heard),
                "frames on pages": len(ledger.frames),
                "webhooks received": len(self.receiver.received),
            }
        )
        for heard in (ledger.payments, ledger.answers, ledger.heard, ledger.frames, ledger.glimpses):
            heard.clear()
        self.receiver.received.clear()

    async def _ask_fixed(self) -> None:
        door = TimedDoor(self.fixed.door(), self.fixed_ms)
        try:
            while True:
                await door.ask("GET", "/", None, self.at.headers)
                await trio.sleep(FIXED_S)
        finally:
            with trio.CancelScope(shield=True):
                await door.close()

    async def _back_up(self, rng: Random) -> None:
        backups: list[Backup] = []
        backer = Backer(self.server, self.ledger, backups, rng)
        while True:
            await trio.sleep(self.plan.backup_s)
            made = await backer.back_up()
            assert made is not None
            if made.made:
                self.done["backups"] += 1
                await trio.to_thread.run_sync(shutil.rmtree, made.dest)
            backups.clear()

    async def stop(self) -> None:
        """Stop the server, and read what it has to say."""
        code = await self.server.stop()
        if code:
            self.wrong.append(f"the server ended with {code}")
        self.wrong += self.ledger.problems
        self.wrong += [f"logged: {said}" for said in self.server.complaints()]
        if self.ledger.lost:
            self.wrong.append(f"{self.ledger.lost} answers were lost, and nobody was killed")
        self.done["answers"] = self.ledger.answered
        for line in self.server.log().splitlines():
            said = msgspec.json.decode(line)
            if said["event"] == "store.pruned":
                self.done["rows forgotten"] += sum(count for count in said.values() if isinstance(count, int))

    def watched(self) -> list[Watched]:
        """Every figure with its bound."""
        at_s = [one.at_s for one in self.samples]

        def each(value: Callable[[Sample], float]) -> list[float]:
            return [value(one) for one in self.samples]

        log_mib = 4 * LOG_PAGES_MAX * PAGE_BYTES / MIB
        memory = 0.05 if self.plan.minutes >= MEMORY_JUDGED_MINUTES else None
        return [
            Watched("memory, resident (MiB)", at_s, each(lambda one: one.rss / MIB), 1, "share", memory),
            Watched("file descriptors", at_s, each(lambda one: one.descriptors), 0, "growth", 4),
            Watched("threads", at_s, each(lambda one: one.threads), 0, "growth", 1),
            Watched(
                "write-ahead log (MiB)", at_s, each(lambda one: one.log_bytes / MIB), 1, "highest", log_mib
            ),
            Watched(
                "database a payment stored (kB)",
                at_s,
                each(lambda one: one.file_bytes / max(1, one.payments) / 1000),
                2,
                "share",
                0.05,
            ),
            Watched("CPU a request (µs)", at_s, each(lambda one: one.cpu_us), 0, "share", 0.25),
            Watched("latency, p50 (ms)", at_s, each(lambda one: one.p50_ms), 1, "share", None),
            Watched("latency, p99 (ms)", at_s, each(lambda one: one.p99_ms), 1, "share", None),
            Watched(
                "latency, p50 : fixed bytes (×)",
                at_s,
                each(lambda one: one.p50_ms / one.fixed_ms),
                1,
                "share",
                0.5,
            ),
        ]


async def soak(folder: Path, plan: Soak, say: Callable[[str], None]) -> Soaked:
    """Run it; the server is stopped at the end."""
    rng = Random(11)
    async with trio.open_nursery() as nursery:
        receiver = Receiver(nursery, moody(Random(rng.random())))
        at = await furnish(folder, None)
        (folder / "fixed").mkdir()
        fixed = Server(folder / "fixed", module=("tests.bench.fixed",))
        soaked = Soaked(plan, at, Server(folder, ENV, MODULE), fixed, receiver)
        try:
            await fixed.start()
            await soaked.server.start()
            await soaked.run(rng, say)
            await soaked.stop()
        finally:
            await soaked.server.put_away()
            await fixed.put_away()
            nursery.cancel_scope.cancel()
    return soaked


def soak_lines(soaked: Soaked) -> list[Line]:
    """The table."""
    return [trend_line(one) for one in soaked.watched()]


def findings(soaked: Soaked) -> list[str]:
    """What grows, and what went wrong; nothing of a server that can go on like this."""
    return [f"{one.what} grows" for one in soaked.watched() if not one.holds] + soaked.wrong
