"""One run of shoppers, a moody webhook receiver and many deaths, and what is left of it on both sides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import trio

from tests.crash.aftermath import DISKS, all_events, come_to_rest
from tests.crash.client import Client
from tests.crash.hook import Hook, Moods, Receipt, wall_ms
from tests.crash.process import Furnished, Server, furnish
from tests.crash.rows import Rows, read_rows
from tests.crash.shoppers import Ledger, Shopper, Told
from tests.short import IS_SHORT

KILLS: Final = 20 if IS_SHORT else 50
SHOPPERS: Final = 4
UP_MAX_S: Final = 0.5
# By then, what is always refused has had its seventh attempt and not its eighth: SPEC.md's steps add up to
# 17 h 35 min and to 27 h 35 min, and the last payments end in the first half hour.
SEVEN_ATTEMPTS: Final = "19h"
EIGHTH_ATTEMPT: Final = "12h"
# What makes a hang a failure, on a machine that is busy too.
WHOLE_RUN_MAX_S: Final = 400


@dataclass
class Death:
    """What was under way when the server was killed."""

    at_ms: int
    held: int
    """Requests at the receiver that had no answer yet."""


@dataclass
class Outlived:
    """What is left."""

    seed: int
    at: Furnished
    ledger: Ledger
    deaths: list[Death]
    receipts: list[Receipt]
    doomed: set[str]
    """Message ids that were refused until the seventh attempt."""
    moved_at_ms: int
    """When the test clock was moved first, long after the last death."""
    after_seven: Rows
    rows: Rows
    events: list[dict[str, Any]]
    exit_code: int
    ready_after_s: list[float]
    complaints: list[dict[str, Any]]
    took_s: float

    @property
    def of_message(self) -> dict[str, list[Receipt]]:
        """The receipts of each delivery, in the order in which they came."""
        found: dict[str, list[Receipt]] = {}
        for receipt in self.receipts:
            found.setdefault(receipt.message_id, []).append(receipt)
        return found


class Buyer(Shopper):
    """A shopper whom nobody watches: the webhooks are what is looked at."""

    async def _take(self, told: Told, way: Callable[[Told], Awaitable[None]]) -> None:
        await way(told)


@dataclass
class _Run:
    server: Server
    hook: Hook
    rng: Random
    ledger: Ledger = field(default_factory=Ledger)
    deaths: list[Death] = field(default_factory=list)

    async def shop_and_die(self, at: Furnished) -> None:
        """Load without a pause, and `KILLS` deaths at random moments; the server lives at the end."""
        enough = trio.Event()
        await self._start(0)
        async with trio.open_nursery() as shop:
            for number in range(SHOPPERS):
                buyer = Buyer(f"buyer{number}", self.server.door, at, self.ledger, Random(self.rng.random()))
                shop.start_soon(buyer.run, enough)
            for life in range(1, KILLS + 1):
                await trio.sleep(self.rng.random() * UP_MAX_S)
                self.deaths.append(Death(wall_ms(), self.hook.open))
                await self.server.kill()
                await self._start(life)
            enough.set()

    async def _start(self, life: int) -> None:
        self.server.module = DISKS[life % len(DISKS)]
        self.hook.life = life
        await self.server.start()


def outlive(folder: Path, seed: int) -> Outlived:
    """Run the load on a server that is killed again and again, let all arrive, and collect what is left."""
    return trio.run(_outlive, folder, seed)


async def _outlive(folder: Path, seed: int) -> Outlived:
    rng = Random(seed)
    began_s = trio.current_time()
    database = folder / "data" / "test.db"
    with trio.fail_after(WHOLE_RUN_MAX_S):
        async with trio.open_nursery() as nursery:
            moods = Moods(rng.randrange(2**32))
            hook = Hook(nursery, decide=moods)
            at = await furnish(folder, f"http://127.0.0.1:{await hook.listen()}/hook")
            run = _Run(Server(folder), hook, rng)
            try:
                await run.shop_and_die(at)
                async with Client(run.server.port) as client:
                    moods.moody = False
                    moved_at_ms = wall_ms()
                    await come_to_rest(client, at, SEVEN_ATTEMPTS)
                    after_seven = read_rows(database)
                    moods.healed = True
                    await come_to_rest(client, at, EIGHTH_ATTEMPT)
                    events = await all_events(client, at)
                exit_code = await run.server.stop()
            finally:
                await run.server.put_away()
                nursery.cancel_scope.cancel()
    return Outlived(
        seed=seed,
        at=at,
        ledger=run.ledger,
        deaths=run.deaths,
        receipts=hook.receipts,
        doomed={one.message_id for one in hook.receipts if moods.is_doomed(one.message_id)},
        moved_at_ms=moved_at_ms,
        after_seven=after_seven,
        rows=read_rows(database),
        events=events,
        exit_code=exit_code,
        ready_after_s=run.server.ready_after_s,
        complaints=run.server.complaints(),
        took_s=trio.current_time() - began_s,
    )
