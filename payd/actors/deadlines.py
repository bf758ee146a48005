"""One heap of deadlines for all payments, refilled from the due-time index.

Rows hold every deadline; the heap holds only those of the near future, so that open payments cost no memory
and a restart needs no special code.

Source: DESIGN.md, "5. A payment is an actor".
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from payd.clock import Clock

# How far ahead the heap looks. Shorter means more refills, longer a bigger heap.
WINDOW_MS: Final = 60_000
# At most this many rows a refill: bounds memory after a long downtime.
LOADED_MAX: Final = 10_000
# Payments looked after at the same moment.
AT_ONCE_MAX: Final = 256

Load = Callable[[int, int], Awaitable[list[tuple[int, str]]]]


class Deadlines:
    """Calls `tend(key)` for each key when its time has come.

    Args:
        clock: The realm's clock.
        load: `load(until_ms, limit)` gives `(due_at_ms, key)` from the store, earliest first.
        tend: Looks after one key. Must not raise; it derives from the row whether anything is due at all.
    """

    def __init__(self, clock: Clock, load: Load, tend: Callable[[str], Awaitable[None]]) -> None:
        self._clock = clock
        self._load = load
        self._tend = tend
        self._heap: list[tuple[int, str]] = []
        self._horizon_ms = 0
        self._sooner = trio.Event()
        self._free = trio.CapacityLimiter(AT_ONCE_MAX)
        self._in_flight: set[str] = set()
        self._again: set[str] = set()

    @property
    def busy(self) -> bool:
        """Whether anything is being looked after at this moment."""
        return bool(self._in_flight)

    def add(self, key: str, due_at_ms: int) -> None:
        """A key has a new deadline. Later than the window: the index keeps it."""
        if due_at_ms > self._horizon_ms:
            return
        heapq.heappush(self._heap, (due_at_ms, key))
        if self._heap[0][0] == due_at_ms:
            self._sooner.set()

    def reload(self) -> None:
        """Read the index again at the next chance."""
        self._heap.clear()
        self._horizon_ms = 0
        self._sooner.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run for ever. Started once the first window is loaded."""
        await self._refill()
        task_status.started()
        async with trio.open_nursery() as nursery:
            while True:
                now_ms = self._clock.now_ms()
                if now_ms >= self._horizon_ms:
                    await self._refill()
                while self._heap and self._heap[0][0] <= now_ms:
                    _, key = heapq.heappop(self._heap)
                    await self._start(nursery, key)
                await self._sleep()

    async def _refill(self) -> None:
        until_ms = self._clock.now_ms() + WINDOW_MS
        rows = await self._load(until_ms, LOADED_MAX)
        known = {key for _, key in self._heap}
        for due_at_ms, key in rows:
            if key not in known:
                heapq.heappush(self._heap, (due_at_ms, key))
        full = len(rows) == LOADED_MAX
        self._horizon_ms = max(rows[-1][0], self._clock.now_ms() + 1) if full else until_ms

    async def _start(self, nursery: trio.Nursery, key: str) -> None:
        if key in self._in_flight:
            self._again.add(key)
            return
        self._in_flight.add(key)
        # The task gives back what it did not borrow itself, hence "on behalf of" its key.
        await self._free.acquire_on_behalf_of(key)
        nursery.start_soon(self._one, key)

    async def _one(self, key: str) -> None:
        try:
            await self._tend(key)
        finally:
            self._in_flight.discard(key)
            self._free.release_on_behalf_of(key)
            if key in self._again:
                self._again.discard(key)
                self.add(key, self._clock.now_ms())

    async def _sleep(self) -> None:
        self._sooner = trio.Event()
        next_ms = min(self._heap[0][0], self._horizon_ms) if self._heap else self._horizon_ms
        async with trio.open_nursery() as nursery:

            async def until_sooner() -> None:
                await self._sooner.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(until_sooner)
            await self._clock.sleep_until_ms(next_ms)
            nursery.cancel_scope.cancel()
