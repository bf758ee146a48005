"""Chores of the office: what is over is forgotten, a little at a time.

Source: DESIGN.md, "3. Two realms".
"""

from __future__ import annotations

from functools import partial

import structlog
import trio

from payd.actors.maintenance import AUDIT_DAYS, DAY_MS, EVERY_S, FIRST_S, prune_all
from payd.actors.supervisor import do_all
from payd.clock import WallMs
from payd.core.tries import FORGOTTEN_MS
from payd.store.db import Database
from payd.store.links import prune_links
from payd.store.retention import prune_audit
from payd.store.second_factors import prune_challenges
from payd.store.sessions import LIFETIME_MS, prune_sessions
from payd.store.sign_ins import KEPT_MS, prune_sign_ins
from payd.store.tries import prune_tries

log = structlog.get_logger("payd.office")


class OfficeChores:
    """The chores of the office; `wall` gives Unix milliseconds, the audit is kept for `audit_days`."""

    def __init__(self, db: Database, wall: WallMs, audit_days: int = AUDIT_DAYS) -> None:
        self._db = db
        self._wall = wall
        self._audit_ms = audit_days * DAY_MS

    async def run(self) -> None:
        """Do all chores every hour, for ever, and for the first time after `FIRST_S`."""
        await trio.sleep(FIRST_S)
        while True:
            await self.run_once()
            await trio.sleep(EVERY_S)

    async def run_once(self) -> dict[str, int]:
        """Forget what is over; returns how many rows of each kind, but for a kind whose chore crashed."""
        now_ms = self._wall()
        prune = partial(prune_all, self._db)
        chores = {
            "sessions": partial(prune, prune_sessions, now_ms - LIFETIME_MS),
            "links": partial(prune, prune_links, now_ms),
            "challenges": partial(prune, prune_challenges, now_ms),
            "tries": partial(prune, prune_tries, now_ms - FORGOTTEN_MS),
            "sign_ins": partial(prune, prune_sign_ins, now_ms - KEPT_MS),
            "audit": partial(prune, prune_audit, now_ms - self._audit_ms),
        }
        pruned = await do_all(chores)
        if any(pruned.values()):
            log.info("office.pruned", **pruned)
        return pruned
