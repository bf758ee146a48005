"""The test realm's clock, moved forward so that all work that falls due on the way runs in time order.

Each step is stored before it takes effect, so that a restart takes no time back and goes on with the job.

Source: DESIGN.md, "9. Test realm".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import msgspec
import structlog
import trio

from payd.actors.deliveries import Deliveries
from payd.actors.payments import Payments
from payd.clock import Clock
from payd.entropy import Entropy, new_id
from payd.store.clock import (
    ClockRow,
    count_clock_events,
    get_clock,
    move_clock,
    newest_event_seq,
    start_clock_job,
)
from payd.store.db import Database, Tx
from payd.store.idempotency import IdempotentRequest, Outcome, once

log = structlog.get_logger("payd.clock")

# Finds a job whose wake-up was missed.
LOOK_S: Final = 30.0
# When nothing is due: further than any job goes.
FAR_MS: Final = 1 << 60


class AdvanceState(msgspec.Struct, frozen=True):
    """How far the newest job is; `events` counts what happened while it ran."""

    job_id: str | None
    state: Literal["running", "done"]
    events: int


class Advance:
    """Moves one realm's clock."""

    def __init__(
        self, db: Database, clock: Clock, payments: Payments, deliveries: Deliveries, entropy: Entropy
    ) -> None:
        self._db = db
        self._clock = clock
        self._payments = payments
        self._deliveries = deliveries
        self._entropy = entropy
        self._wanted = trio.Event()
        self._at_work = False

    def state(self) -> AdvanceState:
        """The newest job; done once everything that fell due on its way is."""
        return self._state(self._db.point(get_clock))

    async def start(
        self, advance_ms: int, request: IdempotentRequest | None, render: Callable[[AdvanceState], bytes]
    ) -> Outcome:
        """Aim the clock further ahead, once for each idempotency key; a job that runs is lengthened."""
        job_id = new_id("job_", self._clock.now_ms(), self._entropy)

        def work(tx: Tx) -> Outcome:
            return Outcome(202, render(self._state(start_clock_job(tx, job_id, advance_ms))))

        return await self._db.write_and_tell(lambda _: self._wanted.set(), once, request, work)

    def _state(self, row: ClockRow) -> AdvanceState:
        busy = row.running or self._at_work
        return AdvanceState(row.job_id, "running" if busy else "done", row.job_events)

    async def run(self) -> None:
        """Work on jobs for ever; one that a restart interrupted comes first."""
        # Of the last write before it, nobody may have known that it was stored.
        row = self._db.point(get_clock)
        self._clock.move_to_offset(max(row.offset_ms, self._clock.offset_ms))
        if not row.running:
            # What its last step had fall due may have been cut off.
            self._at_work = True
            await self._work_done()
        while True:
            self._wanted = trio.Event()
            self._at_work = self._db.point(get_clock).running
            if self._at_work:
                await self._run_job()
            else:
                with trio.move_on_after(LOOK_S):
                    await self._wanted.wait()

    async def _run_job(self) -> None:
        newest_seq = self._db.point(newest_event_seq)
        while (row := self._db.point(get_clock)).running:
            await self._work_done()
            offset_ms = min(self._next_offset_ms(), row.target_offset_ms)
            await self._db.write(move_clock, offset_ms)
            self._clock.move_to_offset(max(offset_ms, self._clock.offset_ms))
            await self._work_done()
            newest_seq = await self._db.write(count_clock_events, newest_seq)
        log.info("clock.advanced", offset_ms=row.offset_ms, job_id=row.job_id)

    def _next_offset_ms(self) -> int:
        """The offset at which the next due work is due; far away when nothing is.

        What became due to be sent while earlier work was waited for is under way, and does not hold the
        clock: where much happens, there is always some of it.
        """
        payment_ms = self._payments.next_due_ms()
        delivery_ms = self._deliveries.next_due_ms(after_ms=self._clock.now_ms())
        due = [at_ms for at_ms in (payment_ms, delivery_ms) if at_ms is not None]
        if not due:
            return FAR_MS
        return max(min(due) - self._clock.real_ms(), self._clock.offset_ms + 1)

    async def _work_done(self) -> None:
        """Wait until nothing that is due by now is left, in payments and then in their deliveries."""
        while True:
            now_ms = self._clock.now_ms()
            await self._payments.tending.idle_until(now_ms)
            await self._deliveries.drained(self._clock.now_ms())  # with what payments owe only now
            due_at_ms = self._payments.next_due_ms()
            if due_at_ms is None or due_at_ms > now_ms:
                return
