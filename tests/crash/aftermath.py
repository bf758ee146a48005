"""One run of load and deaths, and what is left of it: in clients, API and file, and at the receiver."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import trio

from payd.clock import system_wall_ms
from tests.crash.backups import Backer, Backup, Restored, draft_of, restore_each
from tests.crash.client import Client
from tests.crash.endpoint_diary import EndpointDiary
from tests.crash.process import Furnished, Server, furnish
from tests.crash.rows import Rows, read_rows
from tests.crash.shoppers import ClockMover, Door, Ledger, Shopper, listen_to_account, watch_pages
from tests.receiver import Does, Received, Receiver, Script, always

SHOPPERS: Final = 8
PAGES: Final = 8
DEATHS_MIN: Final = 6
# Deaths go on for this long: a fast machine dies more often, and a slow one is done in a minute as well.
DYING_S: Final = 16
# On what each life runs, in turn.
DISKS: Final = (("payd", "serve"), ("tests.crash.slow_disk", "serve"))
# Long past everything that a delivery or a payment waits for.
REST: Final = "40h"
POLL_S: Final = 0.05
# Who has not heard of an event by now will not.
HEAR_MAX_S: Final = 30
# What makes a hang a failure, on a machine that is busy too.
WHOLE_RUN_MAX_S: Final = 900


@dataclass(frozen=True)
class Death:
    """When and where the server was killed.

    Attributes:
        at_ms: Unix milliseconds by the wall.
        on: The module that was served.
        starting: Whether it was getting up.
        backing_up: Whether it was asked for a backup that it had not answered for.
    """

    at_ms: int
    on: str
    starting: bool
    backing_up: bool


@dataclass(frozen=True)
class Diary:
    """What has happened so far. It is there also where a run does not come to its end."""

    ledger: Ledger = field(default_factory=Ledger)
    deaths: list[Death] = field(default_factory=list)
    backups: list[Backup] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)


@dataclass(frozen=True)
class Aftermath:
    """What is left."""

    seed: int
    at: Furnished
    ledger: Ledger
    received: list[Received]
    events: list[dict[str, Any]]
    """All pages of `GET /v1/events`, oldest first."""
    details: dict[str, dict[str, Any]]
    """`GET /v1/payments/{id}` of every payment that a client knows."""
    rows: Rows
    exit_code: int
    deaths: int
    ready_after_s: list[float]
    complaints: list[dict[str, Any]]
    backups: list[Restored] = field(default_factory=list)
    draft_left: bool = False
    """Whether something of a backup was left behind that the last one should have cleared away."""
    diary: EndpointDiary | None = None
    """What became of the webhook endpoint, where somebody changes it."""

    def chain(self, payment_id: str) -> list[tuple[int, str]]:
        """The payment's (version, status) as its events say it, in the order of the file."""
        return self.rows.chains[payment_id]


def live_through(folder: Path, seed: int, diary: Diary | None = None) -> Aftermath:
    """Run the load on a server that dies again and again, let all come to rest, and collect what is left."""
    return trio.run(_live_through, folder, seed, diary or Diary())


async def _live_through(folder: Path, seed: int, diary: Diary) -> Aftermath:
    rng = Random(seed)
    ledger = diary.ledger
    with trio.fail_after(WHOLE_RUN_MAX_S):
        async with trio.open_nursery() as nursery:
            receiver = Receiver(nursery, moody(Random(rng.random())), received=diary.received)
            at = await furnish(folder, f"http://127.0.0.1:{await receiver.listen()}/hook")
            server = Server(folder)
            backer = Backer(server, ledger, diary.backups, Random(rng.random()))
            try:
                nursery.start_soon(listen_to_account, server, at, ledger)
                for _ in range(PAGES):
                    nursery.start_soon(watch_pages, server, ledger)
                await _shop_and_die(server, at, diary, backer, rng)
                receiver.script = always(Does())
                async with Client(server.port) as client:
                    await come_to_rest(client, at)
                    events = await all_events(client, at)
                    details = await all_details(client, at, ledger)
                with trio.move_on_after(HEAR_MAX_S):
                    while len(ledger.heard) < len(events):  # the server decides when
                        await trio.sleep(POLL_S)
                await backer.back_up()
                exit_code = await server.stop()
            finally:
                await server.put_away()
                nursery.cancel_scope.cancel()
    return Aftermath(
        seed=seed,
        at=at,
        ledger=ledger,
        received=receiver.received,
        events=events,
        details=details,
        rows=read_rows(folder / "data" / "test.db"),
        exit_code=exit_code,
        deaths=len(diary.deaths),
        ready_after_s=server.ready_after_s,
        complaints=server.complaints(),
        backups=restore_each(folder, diary.backups, system_wall_ms()),
        draft_left=draft_of(folder).exists(),
    )


def moody(rng: Random) -> Script:
    """A receiver that is mostly well: now slow, now broken, now gone."""

    def script(_: Received) -> Does:
        mood = rng.random()
        if mood < 0.06:
            return Does(status=500)
        if mood < 0.08:
            return Does(resets=True)
        if mood < 0.18:
            return Does(delay_s=rng.random() * 0.4)
        return Does()

    return script


async def _shop_and_die(server: Server, at: Furnished, diary: Diary, backer: Backer, rng: Random) -> None:
    """Load from all sides; the server is killed at random moments, also at its start. In the end it lives."""
    enough = trio.Event()
    deaths = diary.deaths

    async def kill(*, starting: bool = False) -> None:
        deaths.append(Death(system_wall_ms(), server.module[0], starting, backer.under_way))
        await server.kill()

    await server.start()
    async with trio.open_nursery() as shop:
        for number in range(SHOPPERS):
            shopper = Shopper(f"shopper{number}", server.door, at, diary.ledger, Random(rng.random()))
            shop.start_soon(shopper.run, enough)
        shop.start_soon(ClockMover(server.door, at, diary.ledger, Random(rng.random())).run, enough)
        shop.start_soon(backer.run, enough)
        ends_at_s = trio.current_time() + DYING_S
        while len(deaths) < DEATHS_MIN or trio.current_time() < ends_at_s:
            await trio.sleep(0.1 + 2 * rng.random())
            await kill()
            server.module = DISKS[len(deaths) % len(DISKS)]
            await server.spawn()
            while rng.random() < 0.25:
                await trio.sleep(rng.random())
                await kill(starting=True)
                await server.spawn()
            await server.become_ready()
        await kill()
        server.module = DISKS[0]
        await server.start()
        enough.set()


async def come_to_rest(client: Door, at: Furnished, after: str = REST) -> None:
    """Move the clock past all retries and deadlines, and wait for what was due on the way."""
    moved = await client.ask("POST", "/v1/test/clock", {"advance": after}, at.headers)
    assert moved.status == 202, moved.raw
    while True:
        now = await client.ask("GET", "/v1/test/clock", None, at.headers)
        if now.body["job"]["state"] == "done":
            return
        await trio.sleep(POLL_S)


async def all_events(client: Door, at: Furnished) -> list[dict[str, Any]]:
    """All pages of `GET /v1/events`, oldest first."""
    events: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = (await client.ask("GET", f"/v1/events?limit=100{cursor}", None, {"api-key": at.key})).body
        events += page["data"]
        if page["nextCursor"] is None:
            return events[::-1]
        cursor = f"&cursor={page['nextCursor']}"


async def all_details(client: Door, at: Furnished, ledger: Ledger) -> dict[str, dict[str, Any]]:
    """`GET /v1/payments/{id}` of every payment that a client knows."""
    details = {}
    for payment_id in ledger.payments:
        found = await client.ask("GET", f"/v1/payments/{payment_id}", None, {"api-key": at.key})
        details[payment_id] = found.body if found.status == 200 else {"status": f"HTTP {found.status}"}
    return details
