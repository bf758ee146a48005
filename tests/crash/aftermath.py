"""One run of load and deaths, and what is left of it: in clients, API and file, and at the receiver."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import trio

from tests.crash.client import Client
from tests.crash.process import Furnished, Server, furnish
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
# The canary goes the same way, and is nobody's event.
OF_EVENTS: Final = "kind = 'event'"
# Who has not heard of an event by now will not.
HEAR_MAX_S: Final = 5
# What makes a hang a failure, on a machine that is busy too.
WHOLE_RUN_MAX_S: Final = 300


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

    def chain(self, payment_id: str) -> list[tuple[int, str]]:
        """The payment's (version, status) as its events say it, in the order of the file."""
        return self.rows.chains[payment_id]


@dataclass(frozen=True)
class Rows:
    """The file, read without payd."""

    integrity: list[str]
    payments: dict[str, dict[str, Any]]
    events: list[dict[str, Any]]
    deliveries: list[dict[str, Any]]
    attempts: list[dict[str, Any]]
    chains: dict[str, list[tuple[int, str]]]


def live_through(folder: Path, seed: int) -> Aftermath:
    """Run the load on a server that dies again and again, let all come to rest, and collect what is left."""
    return trio.run(_live_through, folder, seed)


async def _live_through(folder: Path, seed: int) -> Aftermath:
    rng = Random(seed)
    ledger = Ledger()
    with trio.fail_after(WHOLE_RUN_MAX_S):
        async with trio.open_nursery() as nursery:
            receiver = Receiver(nursery, moody(Random(rng.random())))
            at = await furnish(folder, f"http://127.0.0.1:{await receiver.listen()}/hook")
            server = Server(folder)
            try:
                nursery.start_soon(listen_to_account, server, at, ledger)
                for _ in range(PAGES):
                    nursery.start_soon(watch_pages, server, ledger)
                deaths = await _shop_and_die(server, at, ledger, rng)
                receiver.script = always(Does())
                async with Client(server.port) as client:
                    await come_to_rest(client, at)
                    events = await all_events(client, at)
                    details = await all_details(client, at, ledger)
                with trio.move_on_after(HEAR_MAX_S):
                    while len(ledger.heard) < len(events):  # the server decides when
                        await trio.sleep(POLL_S)
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
        deaths=deaths,
        ready_after_s=server.ready_after_s,
        complaints=server.complaints(),
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


async def _shop_and_die(server: Server, at: Furnished, ledger: Ledger, rng: Random) -> int:
    """Load from all sides; the server is killed at random moments, also at its start. Returns the deaths."""
    enough = trio.Event()
    deaths = 0
    await server.start()
    async with trio.open_nursery() as shop:
        for number in range(SHOPPERS):
            shopper = Shopper(f"shopper{number}", server.door, at, ledger, Random(rng.random()))
            shop.start_soon(shopper.run, enough)
        shop.start_soon(ClockMover(server.door, at, ledger, Random(rng.random())).run, enough)
        ends_at_s = trio.current_time() + DYING_S
        while deaths < DEATHS_MIN or trio.current_time() < ends_at_s:
            await trio.sleep(0.1 + 2 * rng.random())
            await server.kill()
            deaths += 1
            server.module = DISKS[deaths % len(DISKS)]
            await server.spawn()
            while rng.random() < 0.25:
                # Dies again while it gets up.
                await trio.sleep(rng.random())
                await server.kill()
                deaths += 1
                await server.spawn()
            await server.become_ready()
        await server.kill()
        deaths += 1
        server.module = DISKS[0]
        await server.start()
        enough.set()
    return deaths


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
        page = (await client.ask("GET", f"/v1/events?limit=100{cursor}", None, at.headers)).body
        events += page["data"]
        if page["nextCursor"] is None:
            return events[::-1]
        cursor = f"&cursor={page['nextCursor']}"


async def all_details(client: Door, at: Furnished, ledger: Ledger) -> dict[str, dict[str, Any]]:
    """`GET /v1/payments/{id}` of every payment that a client knows."""
    details = {}
    for payment_id in ledger.payments:
        found = await client.ask("GET", f"/v1/payments/{payment_id}", None, at.headers)
        details[payment_id] = found.body if found.status == 200 else {"status": f"HTTP {found.status}"}
    return details


def read_rows(path: Path) -> Rows:
    """All of a realm that these tests compare with what was told."""
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    try:
        events = [dict(row) for row in db.execute("SELECT * FROM events ORDER BY seq")]
        chains: dict[str, list[tuple[int, str]]] = {}
        for row in db.execute(
            "SELECT payment_id, version, json_extract(CAST(body AS TEXT), '$.data.status') FROM events"
            " ORDER BY seq"
        ):
            chains.setdefault(row[0], []).append((row[1], row[2]))
        return Rows(
            integrity=[row[0] for row in db.execute("PRAGMA integrity_check")],
            payments={row["id"]: dict(row) for row in db.execute("SELECT * FROM payments")},
            events=events,
            deliveries=[dict(row) for row in db.execute(f"SELECT * FROM deliveries WHERE {OF_EVENTS}")],
            attempts=[
                dict(row)
                for row in db.execute(
                    "SELECT * FROM attempts WHERE delivery_id IN"
                    f" (SELECT id FROM deliveries WHERE {OF_EVENTS}) ORDER BY seq"
                )
            ],
            chains=chains,
        )
    finally:
        db.close()
