"""Chores of a realm: each has a `run_once`, small transactions, and nothing that waits for it.

Source: DESIGN.md, "5. A payment is an actor"; DESIGN.md, "7. Events and webhooks"; DESIGN.md, "10. Live
realm".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog
import trio

from payd.actors.supervisor import do_all
from payd.clock import Clock
from payd.core.endpoint import REPLAY_REACH_MS
from payd.store.api_log import prune_logged
from payd.store.builds import prune_own_builds, prune_paid_builds
from payd.store.collected import prune_collected, sort_collected
from payd.store.db import Database, Tx
from payd.store.idempotency import prune_answers
from payd.store.retention import (
    Pruned,
    prune_apps,
    prune_audit,
    prune_deliveries,
    prune_endpoints,
    prune_events,
    prune_fillers,
    prune_jobs,
    prune_keys,
    prune_relays,
    prune_secrets,
    prune_submissions,
    prune_vacancies,
    shrink,
)
from payd.store.watches import prune_watches

if TYPE_CHECKING:
    from payd.actors.clock_check import ClockCheck

log = structlog.get_logger("payd.maintenance")

# What is forgotten is gone: a machine's clock may be years ahead until the network is there to set it.
FIRST_S: Final = 600.0
EVERY_S: Final = 3600.0
# By what the nodes of live chains say of it. Less makes nothing old that is of use.
AHEAD_MAX_S: Final = 3600.0
DAY_MS: Final = 86_400_000
ANSWERS_KEPT_MS: Final = 30 * DAY_MS
"""How long an idempotency key is remembered; used again after that, it is a new request."""
WATCHES_KEPT_MS: Final = 30 * DAY_MS
"""How long after its window a payment is known by what its transfers carry, for a match by hand."""
RELAYS_KEPT_MS: Final = 90 * DAY_MS
"""How long what the relayer did is kept at least: a quarter's accounts can be checked against it."""
OWN_BUILDS_KEPT_MS: Final = DAY_MS
"""How long a transaction that was built for a wallet is known: it could land for some minutes."""
STRAY_ANSWERS_KEPT_MS: Final = DAY_MS
"""How long the answers of who did not pay are kept after the payment's last change."""
REQUESTS_KEPT_MS: Final = REPLAY_REACH_MS
"""How long the log of API requests is kept: as far as events can be sent again."""

AUDIT_DAYS: Final = 3650
"""How long the audit is kept where nobody says: as long as tax offices may ask."""

# A prune must never hold the writer for long.
BATCH_MAX: Final = 500
# Between two batches: a long prune leaves room for everything else.
BREATH_S: Final = 0.02


class Maintenance:
    """The chores of one realm.

    Args:
        db: The realm's database.
        clock: Its clock, by which things get old.
        keep_days: How long events, deliveries and attempts are kept.
        collected_days: How long buyers' answers are kept.
        audit_days: How long the audit is kept, and what it names.
        clock_check: What others say of the clock, if anybody does.
    """

    def __init__(
        self,
        db: Database,
        clock: Clock,
        keep_days: int,
        collected_days: int,
        audit_days: int = AUDIT_DAYS,
        clock_check: ClockCheck | None = None,
    ) -> None:
        self._clock_check = clock_check
        self._db = db
        self._clock = clock
        self._keep_ms = keep_days * DAY_MS
        self._collected_ms = collected_days * DAY_MS
        self._audit_ms = audit_days * DAY_MS

    async def run(self) -> None:
        """Do all chores every hour, for ever, and for the first time after `FIRST_S`.

        Not by a clock that is ahead, as nodes say: what is forgotten is gone when it is right again.
        """
        await trio.sleep(FIRST_S)
        while True:
            off_s = None if self._clock_check is None else self._clock_check.off_s
            if off_s is None or off_s < AHEAD_MAX_S:
                await self.run_once()
            await trio.sleep(EVERY_S)

    async def run_once(self) -> dict[str, int]:
        """Forget what is old; returns how many rows of each kind, but for a kind whose chore crashed."""
        now_ms = self._clock.now_ms()
        before_ms = now_ms - self._keep_ms
        audit_before_ms = now_ms - self._audit_ms
        relays_before_ms = now_ms - max(self._keep_ms, RELAYS_KEPT_MS)
        prune = partial(prune_all, self._db)
        pages = partial(self._prune_pages, now_ms=now_ms)
        chores = {
            "answers": partial(prune, prune_answers, now_ms - ANSWERS_KEPT_MS),
            # Each before what it keeps: a job its deliveries, and a delivery its event.
            "jobs": partial(prune, prune_jobs, before_ms),
            "deliveries": partial(pages, prune_deliveries, before_ms),
            "events": partial(pages, prune_events, before_ms),
            "secrets": partial(prune, prune_secrets, before_ms),
            "endpoints": partial(prune, prune_endpoints, before_ms),
            "relays": partial(pages, prune_relays, relays_before_ms),
            "submissions": partial(pages, prune_submissions, relays_before_ms),
            "own_builds": partial(prune, prune_own_builds, now_ms - OWN_BUILDS_KEPT_MS),
            "paid_builds": partial(prune, prune_paid_builds, relays_before_ms),
            "fillers": partial(prune, prune_fillers, relays_before_ms),
            "collected": partial(prune, prune_collected, now_ms - self._collected_ms),
            "stray_answers": partial(self._prune_pages, sort_collected, now_ms - STRAY_ANSWERS_KEPT_MS),
            "watches": partial(prune, prune_watches, now_ms - WATCHES_KEPT_MS),
            "requests": partial(pages, prune_logged, now_ms - REQUESTS_KEPT_MS),
            "vacancies": partial(prune, prune_vacancies, audit_before_ms),
            "audit": partial(prune, prune_audit, audit_before_ms),
            "keys": partial(prune, prune_keys, audit_before_ms),
            "apps": partial(prune, prune_apps, audit_before_ms),
        }
        pruned = await do_all(chores)
        if any(pruned.values()):
            log.info("store.pruned", **pruned)
        more = True
        while more:
            more = await self._db.write(shrink)
            await trio.sleep(BREATH_S)
        return pruned

    async def _prune_pages(self, step: Callable[..., Pruned], before_ms: int, **more: int) -> int:
        pruned, after_seq = 0, 0
        while True:
            count, next_seq = await self._db.write(step, after_seq, before_ms, BATCH_MAX, **more)
            pruned += count
            if next_seq is None:
                return pruned
            after_seq = next_seq
            await trio.sleep(BREATH_S)


async def prune_all(db: Database, step: Callable[[Tx, int, int], int], before_ms: int) -> int:
    """Forget what a step finds to be old, batch by batch; returns how many rows."""
    pruned = 0
    while count := await db.write(step, before_ms, BATCH_MAX):
        pruned += count
        await trio.sleep(BREATH_S)
    return pruned
