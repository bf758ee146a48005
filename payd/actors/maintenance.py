"""Chores of a realm: each has a `run_once`, small transactions, and nothing that waits for it.

Source: DESIGN.md, "5. A payment is an actor".
"""

from __future__ import annotations

from typing import Final

import structlog
import trio

from payd.clock import Clock
from payd.store.db import Database
from payd.store.idempotency import prune_answers

log = structlog.get_logger("payd.maintenance")

EVERY_S: Final = 3600.0
ANSWERS_KEPT_MS: Final = 30 * 86_400_000
"""How long an idempotency key is remembered; used again after that, it is a new request."""

# A prune must never hold the writer for long.
BATCH_MAX: Final = 500


class Maintenance:
    """The chores of one realm."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    async def run(self) -> None:
        """Do all chores every hour, for ever."""
        while True:
            await self.run_once()
            await trio.sleep(EVERY_S)

    async def run_once(self) -> int:
        """Forget old idempotency answers; returns how many."""
        before_ms = self._clock.now_ms() - ANSWERS_KEPT_MS
        pruned = 0
        while True:
            count = await self._db.write(prune_answers, before_ms, BATCH_MAX)
            pruned += count
            if count < BATCH_MAX:
                break
        if pruned:
            log.info("idempotency.pruned", count=pruned)
        return pruned
