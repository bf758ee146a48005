"""The changes of destinations that are held back, applied when they are due.

A change is a row with a due time by the realm's clock: what is due is read from the rows, after a start as at
any other time. Applying one removes its row in the same transaction, so that none is applied twice.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"; DESIGN.md, "5. A payment is an actor".
"""

from __future__ import annotations

from functools import partial
from typing import Final

import structlog
import trio

from payd.actors.deliveries import Deliveries
from payd.clock import RECHECK_S, Clock
from payd.core.endpoint import NOTIFY
from payd.entropy import Entropy, new_id
from payd.store.db import Database
from payd.store.settlement_changes import apply_change, changes_due, next_change_ms

log = structlog.get_logger("payd.settlements")

# Read at once; each is a transaction of its own.
BATCH_MAX: Final = 100


class SettlementChanges:
    """The held changes of one realm.

    Args:
        db: The realm's database.
        clock: The realm's clock.
        entropy: For the ids of notices.
        deliveries: Hear of a notice.
        delay_ms: How long changes are held back; 0: not at all.
    """

    def __init__(
        self, *, db: Database, clock: Clock, entropy: Entropy, deliveries: Deliveries, delay_ms: int
    ) -> None:
        self.delay_ms = delay_ms
        self._db = db
        self._clock = clock
        self._fresh_id = partial(new_id, entropy=entropy)
        self._deliveries = deliveries
        self._bell = trio.Event()

    def wake(self) -> None:
        """A change was asked for."""
        self._bell.set()

    async def run(self) -> None:
        """Apply what is due, for ever."""
        while True:
            self._bell = trio.Event()
            await self.run_once()
            due_ms = self._db.point(next_change_ms)
            # The wall clock may be set meanwhile.
            left_s = RECHECK_S if due_ms is None else (due_ms - self._clock.now_ms()) / 1000
            with trio.move_on_after(max(0, min(left_s, RECHECK_S))):
                await self._bell.wait()

    async def run_once(self) -> int:
        """Apply every change that is due now; returns how many were."""
        applied = 0
        while due := self._db.point(changes_due, self._clock.now_ms(), BATCH_MAX):
            for settlement_id in due:
                now_ms = self._clock.now_ms()
                change = await self._db.write(apply_change, settlement_id, self._fresh_id, now_ms)
                if change is None:
                    log.warning("settlement.change_dropped", id=settlement_id)
                    continue
                applied += 1
                self._deliveries.wake(NOTIFY)
                log.warning(
                    "settlement.changed",
                    id=settlement_id,
                    merchant=change.merchant_id,
                    actor=change.actor,
                    held_ms=now_ms - change.asked_at_ms,
                )
        return applied
