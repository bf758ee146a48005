"""Time: the wall clock, and a realm's clock that can be moved forward.

Nothing else in the tree reads a clock. The core is given its instants as arguments.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import formatdate
from functools import lru_cache

import trio

WallMs = Callable[[], int]

# A wall clock can be set while we wait for it; a sleeper looks again at least this often.
RECHECK_S = 30.0


def system_wall_ms() -> int:
    """Unix milliseconds by the machine's clock."""
    return time.time_ns() // 1_000_000


def http_date() -> str:
    """The machine's clock as an answer's `Date` has it: `Sun, 06 Nov 1994 08:49:37 GMT`.

    Source: RFC 9110, section 6.6.1.
    """
    return _date_of(system_wall_ms() // 1000)


@lru_cache(maxsize=1)
def _date_of(unix_s: int) -> str:
    return formatdate(unix_s, usegmt=True)


def monotonic_s() -> float:
    """Seconds that never jump, for durations and rate limits."""
    return time.monotonic()


class Clock:
    """A realm's clock: a wall clock plus an offset that only grows.

    `now_ms` drives creation times, expiry, settlement, due times and the failure clock; `real_ms` is for what
    the outside world compares with its own clock, such as `webhook-timestamp`.

    Source: DESIGN.md, "9. Test realm".
    """

    def __init__(self, wall: WallMs = system_wall_ms, offset_ms: int = 0) -> None:
        self._wall = wall
        self._offset_ms = offset_ms
        self._moved = trio.Event()

    @property
    def offset_ms(self) -> int:
        """How far this clock is ahead of the wall, in milliseconds."""
        return self._offset_ms

    def now_ms(self) -> int:
        """Unix milliseconds in this realm."""
        return self._wall() + self._offset_ms

    def real_ms(self) -> int:
        """Unix milliseconds by the wall, never shifted."""
        return self._wall()

    def move_to_offset(self, offset_ms: int) -> None:
        """Move the clock forward and wake everyone who sleeps by it.

        The caller has stored the offset before: nothing may happen at a time that a restart would take back.
        """
        assert offset_ms >= self._offset_ms, "a realm's clock only goes forward"
        self._offset_ms = offset_ms
        moved, self._moved = self._moved, trio.Event()
        moved.set()

    async def sleep_until_ms(self, at_ms: int) -> None:
        """Return when `now_ms()` has reached `at_ms`; never early."""
        await trio.lowlevel.checkpoint()
        while (left_ms := at_ms - self.now_ms()) > 0:
            with trio.move_on_after(min(left_ms / 1000, RECHECK_S)):
                await self._moved.wait()
