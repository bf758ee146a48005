"""What abuse costs those who mean well: payments created and statuses read beside it, and the same without.

Healthy requests come at a steady rate. A status is read on a connection of its own each time, as by somebody
who has just come; creations have connections that stay. The server has the limits that it is shipped with.

Source: DESIGN.md, "14. What it must reach (`scripts/bench`: ratios in one run, medians of alternated
rounds; never a timed test)".
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE
from typing import Final

import msgspec
import trio

from payd.config import load
from tests.bench.abusers import ASKED, HELD, Outcome, Siege
from tests.bench.load import ROOT
from tests.bench.machine import cpu_s, resident_bytes
from tests.crash.client import Client, Lost
from tests.crash.process import Furnished, Server, furnish

FULL: Final = "a full house"
"""More idle connections than the server has room for."""
SORTS: Final = (*HELD, FULL, *ASKED)
LOOK_S: Final = 0.1
BODY: Final = {"referenceId": "ORDER", "amount": {"unit": "iso4217/USD", "value": "2500"}}


@dataclass(frozen=True)
class Abuse:
    """How much, and how long.

    Attributes:
        rounds: Of each sort, without it and with it in turn.
        seconds: Of each half of a round.
        connections: That are held open and idle; half as many fit into a full house.
        slow: That are held open by a byte now and then.
        rate: Of requests that harm, a second.
        addresses: That abusers have.
        clients: That mean well.
        pace: Requests of each a second, a creation and a status in turn.
        settle_s: How long after it memory is looked at.
    """

    rounds: int = 3
    seconds: float = 3.0
    connections: int = 10_000
    slow: int = 1000
    rate: float = 200.0
    addresses: int = 40
    clients: int = 8
    pace: float = 20.0
    settle_s: float = 1.0


@dataclass
class Healthy:
    """Half a round.

    Attributes:
        created: Latencies of healthy creations in ms.
        read: Those of healthy reads, with their connections.
        failed: What became of requests without a good answer.
        busy: Share of a core that the server used.
    """

    created: list[float] = field(default_factory=list)
    read: list[float] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)
    busy: float = 0.0


@dataclass
class Suffered:
    """One sort of abuse, round by round.

    Attributes:
        sort: One of `SORTS`.
        quiet: Without it.
        abused: With it.
        mib: The server's memory before it, the most during it, and after it, in each round.
        outcome: What the abusers got of all rounds.
    """

    sort: str
    quiet: list[Healthy] = field(default_factory=list)
    abused: list[Healthy] = field(default_factory=list)
    mib: list[tuple[float, float, float]] = field(default_factory=list)
    outcome: Outcome = field(default_factory=lambda: Outcome({}, 0, 0))


@dataclass
class Besieged:
    """A server, and what is known of it."""

    plan: Abuse
    at: Furnished
    server: Server
    payment_id: str
    cursor: str

    async def suffer(self, sort: str) -> Suffered:
        """All rounds of one sort."""
        suffered = Suffered(sort)
        for _ in range(self.plan.rounds):
            suffered.quiet.append(await self._healthy())
            before = self._mib()
            most = [before]
            async with self._siege(sort) as lift:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._watch, most)
                    suffered.abused.append(await self._healthy())
                    nursery.cancel_scope.cancel()
                outcome = await lift()
            await trio.sleep(self.plan.settle_s)
            suffered.mib.append((before, max(most), self._mib()))
            suffered.outcome = _both(suffered.outcome, outcome)
        return suffered

    async def _healthy(self) -> Healthy:
        """All healthy clients, for as long as the plan says."""
        found = Healthy()
        begun_s, used_s = time.perf_counter(), cpu_s(self.server.pid)
        async with trio.open_nursery() as nursery:
            for number in range(self.plan.clients):
                nursery.start_soon(self._one_healthy, number / self.plan.clients, found)
        found.busy = (cpu_s(self.server.pid) - used_s) / (time.perf_counter() - begun_s)
        return found

    async def _one_healthy(self, phase: float, found: Healthy) -> None:
        plan, status = self.plan, f"/v1/payments/{self.payment_id}/status"
        begun_s = trio.current_time()
        async with Client(self.server.port) as kept:
            for number in range(round(plan.seconds * plan.pace)):
                await trio.sleep_until(begun_s + (number + phase) / plan.pace)
                if number % 2:
                    async with Client(self.server.port) as fresh:
                        await self._timed(fresh, "GET", status, None, found.read, found.failed)
                else:
                    if kept.is_stale():
                        await kept.close()
                    await self._timed(kept, "POST", "/v1/payments", BODY, found.created, found.failed)

    async def _timed(
        self, client: Client, method: str, path: str, body: object, took: list[float], failed: Counter[str]
    ) -> None:
        asked_s = time.perf_counter()
        try:
            status = (await client.ask(method, path, body, self.at.headers)).status
        except Lost:
            failed["lost"] += 1
            return
        took.append(1000 * (time.perf_counter() - asked_s))
        if status >= 300:
            failed[str(status)] += 1

    async def _watch(self, most: list[float]) -> None:
        while True:
            most.append(self._mib())
            await trio.sleep(LOOK_S)

    def _mib(self) -> float:
        return resident_bytes(self.server.pid) / 2**20

    @asynccontextmanager
    async def _siege(self, sort: str) -> AsyncIterator[Lift]:
        """Lay a siege; it is lifted by what is yielded, or ends with the block."""
        plan = self.plan
        siege = Siege(
            port=self.server.port,
            how="idle" if sort == FULL else sort,
            connections=plan.connections if sort in ("idle", FULL) else plan.slow,
            rate=plan.rate,
            addresses=plan.addresses,
            headers=self.at.headers,
            payment_id=self.payment_id,
            cursor=self.cursor,
        )
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "tests.bench.abusers"], stdin=PIPE, stdout=PIPE, cwd=ROOT
        )
        assert process.stdin is not None
        assert process.stdout is not None
        async with process.stdin as talk, process.stdout as told:
            try:
                await talk.send_all(msgspec.json.encode(siege) + b"\n")
                assert await _line(told) == b"ready\n"
                yield Lift(talk, told)
            finally:
                process.kill()
                with trio.CancelScope(shield=True):
                    await process.wait()


@dataclass(frozen=True)
class Lift:
    """Ends a siege, and says what came of it."""

    talk: trio.abc.SendStream
    told: trio.abc.ReceiveStream

    async def __call__(self) -> Outcome:
        await self.talk.send_all(b"\n")
        return msgspec.json.decode(await _line(self.told), type=Outcome)


def shipped_limits(folder: Path) -> dict[str, str]:
    """The limits that a server has when nobody says anything, in place of the tests' own, which are none."""
    shipped = load(None, {"PAYD_DATA_DIR": str(folder)})
    return {
        "PAYD_RATE_LIMITS_PER_KEY": str(shipped.rate_limits.per_key),
        "PAYD_RATE_LIMITS_PER_IP": str(shipped.rate_limits.per_ip),
        "PAYD_RATE_LIMITS_FAILED_AUTH": str(shipped.rate_limits.failed_auth),
        "PAYD_HTTP_CONNECTIONS_PER_IP": str(shipped.http.connections_per_ip),
        "PAYD_FEEDS_PER_IP": str(shipped.feeds.per_ip),
        "PAYD_FEEDS_PER_PAYMENT": str(shipped.feeds.per_payment),
    }


@asynccontextmanager
async def open_besieged(folder: Path, plan: Abuse, *, full: bool) -> AsyncIterator[Besieged]:
    """A server of its own with a few payments; where it is to be full, with room for half of who comes."""
    at = await furnish(folder, None)
    env = shipped_limits(folder)
    if full:
        env["PAYD_HTTP_CONNECTIONS_MAX"] = str(plan.connections // 2)
    server = Server(folder, env)
    try:
        await server.start()
        async with Client(server.port) as client:
            made = [(await client.ask("POST", "/v1/payments", BODY, at.headers)).body for _ in range(3)]
            listed = (await client.ask("GET", "/v1/payments?limit=1", None, at.headers)).body
        yield Besieged(plan, at, server, made[0]["paymentId"], listed["nextCursor"])
        errors = [one for one in server.complaints() if one["event"] not in {"front.full", "front.no_room"}]
        assert not errors, errors[:3]
    finally:
        await server.put_away()


async def _line(told: trio.abc.ReceiveStream) -> bytes:
    """The one line that is said next; nothing follows it until somebody answers."""
    line = b""
    while not line.endswith(b"\n"):
        more = bytes(await told.receive_some())
        assert more, f"the abusers ended after {line!r}"
        line += more
    return line


def _both(one: Outcome, other: Outcome) -> Outcome:
    answers = Counter(one.answers) + Counter(other.answers)
    return Outcome(dict(sorted(answers.items())), one.opened + other.opened, one.ended + other.ended)
