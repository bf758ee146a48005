"""Writes the log of API requests: many at once, off the requests' way, and only as many as it can keep.

A request notes itself in memory and goes on. What is noted is written every second in one transaction; what
a crash takes of it is no loss to anybody's money.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from typing import Final

import structlog
import trio

from payd.core.errors import OutcomeUnknown, StoreUnavailable
from payd.store.api_log import Logged, insert_logged
from payd.store.db import Database

log = structlog.get_logger("payd.api_log")

FLUSH_S: Final = 1.0
# In the time of a flush. 1000 rows take the writer some 5 ms.
QUEUE_MAX: Final = 1000
# Of these, successful reads: backends ask for a status again and again, and that must not push out an error.
READS_MAX: Final = 50
# At the end: the store is about to close, and waits no longer than this for a log.
LAST_FLUSH_S: Final = 2.0

SUCCESS_END: Final = 400


class ApiLog:
    """The log of one realm.

    Args:
        db: The realm's store.

    Attributes:
        dropped: Requests that came too fast to be kept, since the start.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._noted: list[Logged] = []
        self._reads = 0
        self._any = trio.Event()
        self.dropped = 0

    def note(self, entry: Logged) -> None:
        """Keep a request, if there is room; takes no time and never fails."""
        is_read = entry.method == "GET" and entry.status < SUCCESS_END
        if len(self._noted) >= QUEUE_MAX or (is_read and self._reads >= READS_MAX):
            self.dropped += 1
            return
        self._reads += is_read
        self._noted.append(entry)
        self._any.set()

    async def run(self) -> None:
        """Write what is noted, for ever; at the end once more."""
        try:
            while True:
                await self._any.wait()
                await trio.sleep(FLUSH_S)
                await self.run_once()
        finally:
            with trio.move_on_after(LAST_FLUSH_S) as patience:
                patience.shield = True
                await self.run_once()

    async def run_once(self) -> int:
        """Write what is noted; returns how many requests. A store that takes nothing costs the log only."""
        entries, self._noted, self._reads = self._noted, [], 0
        self._any = trio.Event()
        if not entries:
            return 0
        try:
            await self._db.write(insert_logged, entries)
        except (StoreUnavailable, OutcomeUnknown) as error:
            self.dropped += len(entries)
            log.warning("api_log.lost", requests=len(entries), reason=str(error))
            return 0
        return len(entries)
