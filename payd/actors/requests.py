"""Requests under an idempotency key whose work is more than one step of the store: one at a time of each key.

Work that is one step needs none of this: there the step is the lock, as `store/idempotency.py` says.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import structlog
import trio

from payd.actors.turns import Actor, Turns
from payd.store.db import Database
from payd.store.idempotency import IdempotentRequest, Outcome, find_replay

log = structlog.get_logger("payd.requests")

# Keys that are remembered; those whose work runs are never let go.
AWAKE_MAX: Final = 1000


class Requests:
    """Runs such work of a realm.

    Args:
        db: The realm's store.
        nursery: Where the work runs; cancelled last.
    """

    def __init__(self, db: Database, nursery: trio.Nursery) -> None:
        self._db = db
        self._turns = Turns(Actor, nursery, _bug, AWAKE_MAX)

    async def once(
        self, request: IdempotentRequest | None, work: Callable[[], Awaitable[Outcome]]
    ) -> Outcome:
        """The answer that was kept under a request's key, or that of the work, which keeps it there.

        Under a key the work goes on to its end when the caller has gone, and a repetition waits for that end.
        Without one it just runs.

        Raises:
            IdempotencyConflict: The key was used with another body.
            RateLimited: Too many repetitions wait.
            PaydError: What the work refused.
            InternalError: The work hit a bug.
        """
        if request is None:
            return await work()

        async def unless_answered(_: Actor) -> Outcome:
            replay = self._db.point(find_replay, request)
            return await work() if replay is None else replay

        return await self._turns.ask(f"{request.account_id} {request.scope.hex()}", unless_answered)


def _bug(key: str, bug: Exception) -> None:
    log.error("request.crashed", account_id=key.partition(" ")[0], exc_info=bug)
