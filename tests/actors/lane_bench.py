"""A lane with attempts that a test ends by hand."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import trio

from payd.actors.lane import Lane
from payd.clock import Clock
from payd.entropy import new_id
from payd.store.attempts import AttemptEnd, Recorded, Trigger, record_attempt
from payd.store.db import Database
from payd.store.deliveries import Work
from payd.store.notices import Notices
from tests.store.test_deliveries import register
from tests.virtual_wall import VirtualWall

NOTICES = Notices(False, new_id)


class Bench:
    """A lane whose attempts wait for `ends`, and after a success for `recorded` before they are written."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.clock = Clock(VirtualWall())
        self.started: list[str] = []
        self.ends: dict[str, trio.Event] = {}
        self.recorded = trio.Event()
        self.recorded.set()
        self.error_class: str | None = None
        self.crashes: deque[Exception] = deque()
        self.retired = False
        self.share = 100
        self.jitter = 0.0
        self._news = trio.Event()
        self.lane = Lane(
            "ep_1",
            db=db,
            clock=self.clock,
            attempt=self.attempt,
            gate=trio.CapacityLimiter(100),
            share=lambda own: self.share,
            jitter=lambda: self.jitter,
            ended=lambda: None,
            retire=self.retire,
        )

    def retire(self) -> None:
        self.retired = True

    async def attempt(
        self, work: Work, trigger: Trigger, taken: Callable[[], None]
    ) -> tuple[AttemptEnd, Recorded]:
        self.started.append(work.delivery_id)
        news, self._news = self._news, trio.Event()
        news.set()
        if self.crashes:
            raise self.crashes.popleft()
        self.ends[work.delivery_id] = trio.Event()
        await self.ends[work.delivery_id].wait()
        now_ms = self.clock.now_ms()
        status = None if self.error_class else 200
        if status is not None:
            taken()
        await self.recorded.wait()
        end = AttemptEnd(trigger, now_ms, now_ms, status, self.error_class, 0, None, b"")
        return end, await self.db.write(record_attempt, work.delivery_id, end, NOTICES)

    async def attempts(self, number: int) -> None:
        """Return when that many attempts have begun."""
        while len(self.started) < number:
            await self._news.wait()
        await self.settle()

    async def settle(self) -> None:
        """Return when every task waits, without time passing."""
        await trio.testing.wait_all_tasks_blocked()


async def open_bench(db: Database) -> Bench:
    """A lane that does not run yet, and its endpoint."""
    await register(db, "acct_1", "ep_1")
    return Bench(db)
