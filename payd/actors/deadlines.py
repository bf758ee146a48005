"""One heap of deadlines for all payments, refilled from the due-time index.

Rows hold every deadline; the heap holds only those of the near future, so that open payments cost no memory
and a restart needs no special code.

Source: DESIGN.md, "5. A payment is an actor".
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeAlias

import trio

from payd.clock import Clock

# How far ahead the heap looks. Shorter means more refills, longer a bigger heap.
WINDOW_MS: Final = 60_000
# At most this many rows a refill, and no refill while as many are tended. Twice as many tended at once, after
# a long downtime, are half of the writes that the store lets wait.
LOADED_MAX: Final = 2500
# Due at the same moment, so many are handed over at once: a few milliseconds of the loop and one write.
TOGETHER_MAX: Final = 100

Due: TypeAlias = tuple[int, str]
"""`(due_at_ms, key)`."""

Load = Callable[[Due, int, int], Awaitable[list[Due]]]
Together = Callable[[Sequence[str]], Awaitable[Sequence[str]]]

_FIRST: Final[Due] = (0, "")


class Deadlines:
    """Calls `tend(key)` for each key when its time has come.

    Args:
        clock: The realm's clock.
        load: `load(after, until_ms, limit)` gives a page of what is due from the store, in order.
        tend: Looks after one key. Must not raise; it derives from the row whether anything is due at all.
        together: Looks after several that are due at the same moment, earliest first, as far as that takes no
            waiting for anybody else, and gives those that are left, each for `tend`. Must not raise.

    Attributes:
        ended: Whoever parks here goes on when `tend` has ended for some key.
    """

    def __init__(
        self,
        clock: Clock,
        load: Load,
        tend: Callable[[str], Awaitable[None]],
        together: Together | None = None,
    ) -> None:
        self.ended = trio.lowlevel.ParkingLot()
        self._clock = clock
        self._load = load
        self._tend = tend
        self._together = together
        self._heap: list[Due] = []
        self._known: set[str] = set()  # all of them are in the heap
        self._horizon_ms = 0  # the heap keeps what it is told by then
        self._until_ms = 0  # the end of the window that is being read
        self._after = _FIRST  # and how far it is read
        self._refill_at_ms = 0
        self._sooner = trio.Event()
        self._in_flight: set[str] = set()
        self._alone = 0  # of those in flight, who are tended alone, and may wait for somebody else
        self._again: set[str] = set()

    @property
    def busy(self) -> bool:
        """Whether anything is being looked after at this moment."""
        return bool(self._in_flight)

    def add(self, key: str, due_at_ms: int) -> None:
        """A key has a new deadline. Later than the window: the index keeps it."""
        if due_at_ms > self._horizon_ms:
            return
        self._push((due_at_ms, key))
        if self._heap[0][0] == due_at_ms:
            self._sooner.set()

    def reload(self) -> None:
        """Read the index again, from its start, at the next chance."""
        self._heap.clear()
        self._known.clear()
        self._refill_at_ms = 0
        self._after = _FIRST
        self._sooner.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run for ever. Started once the first window is loaded."""
        # Whoever ran before took along what was in flight, and who was about to be.
        self._in_flight.clear()
        self._again.clear()
        self._alone = 0
        self.ended.unpark_all()
        self.reload()
        await self._refill()
        task_status.started()
        async with trio.open_nursery() as nursery:
            while True:
                if self._refill_at_ms > self._clock.now_ms() + WINDOW_MS:
                    self.reload()  # The wall clock was set back.
                if self._refill_at_ms <= self._clock.now_ms() and not self._full:
                    await self._refill()
                now_ms = self._clock.now_ms()
                while self._has_next(now_ms):
                    self._start(nursery, self._take(now_ms))
                    # Trio starts the tasks of one tick in any order; who was due first goes first.
                    await trio.lowlevel.checkpoint()
                await self._sleep()

    def _has_next(self, now_ms: float) -> bool:
        """Whether a key in the heap is due, and the index has none that was due before it and is not read.

        After a downtime, what follows from the first that move does not go before the last of them. Where one
        is looked after alone, which may take long, nobody waits for the index to be read on.
        """
        if not self._heap:
            return False
        due_at_ms = self._heap[0][0]
        return due_at_ms <= now_ms and (due_at_ms <= self._refill_at_ms or self._alone > 0)

    @property
    def _full(self) -> bool:
        return len(self._in_flight) >= LOADED_MAX

    async def _refill(self) -> None:
        """Read a window of the index, or its next page.

        Page by page by key: rows that stay due, whatever is done about them, hide none of those behind them.
        """
        # Before the read, not after it: what is told meanwhile is not in its rows.
        self._horizon_ms = self._clock.now_ms() + WINDOW_MS
        if self._after == _FIRST:
            self._until_ms = self._horizon_ms
        after, self._after = self._after, _FIRST
        until_ms = self._refill_at_ms = self._until_ms
        rows = await self._load(after, until_ms, LOADED_MAX)
        for due in rows:
            if due[1] not in self._known and due[1] not in self._in_flight:
                self._push(due)
        reloaded = self._refill_at_ms != until_ms
        if len(rows) == LOADED_MAX and not reloaded:
            self._after = rows[-1]
            self._refill_at_ms = rows[-1][0]

    def _push(self, due: Due) -> None:
        heapq.heappush(self._heap, due)
        self._known.add(due[1])

    def _take(self, now_ms: int) -> list[str]:
        """The next key that is due, or the next ones; who is tended already comes again after that."""
        keys: list[str] = []
        limit = 1 if self._together is None else TOGETHER_MAX
        while len(keys) < limit and self._has_next(now_ms):
            key = heapq.heappop(self._heap)[1]
            self._known.discard(key)
            if key in self._in_flight:
                self._again.add(key)
                continue
            self._in_flight.add(key)
            keys.append(key)
        return keys

    def _start(self, nursery: trio.Nursery, keys: Sequence[str]) -> None:
        if len(keys) > 1:
            nursery.start_soon(self._several, nursery, keys)
        elif keys:
            self._alone += 1
            nursery.start_soon(self._one, keys[0])

    async def _several(self, nursery: trio.Nursery, keys: Sequence[str]) -> None:
        assert self._together is not None
        left = dict.fromkeys(await self._together(keys))
        self._alone += len(left)
        self._ended([key for key in keys if key not in left])
        for key in left:
            nursery.start_soon(self._one, key)
            await trio.lowlevel.checkpoint()

    async def _one(self, key: str) -> None:
        try:
            await self._tend(key)
        finally:
            self._alone -= 1
            self._ended([key])

    def _ended(self, keys: Iterable[str]) -> None:
        if self._full:
            self._sooner.set()
        for key in keys:
            self._in_flight.discard(key)
            if key in self._again:
                self._again.discard(key)
                self.add(key, self._clock.now_ms())
        self.ended.unpark_all()

    async def _sleep(self) -> None:
        self._sooner = trio.Event()
        wakes_ms = [self._heap[0][0]] if self._has_next(math.inf) else []
        if not self._full:
            wakes_ms.append(self._refill_at_ms)
        async with trio.open_nursery() as nursery:
            # The wall clock may be set back meanwhile.
            nursery.cancel_scope.deadline = trio.current_time() + WINDOW_MS / 1000

            async def until_sooner() -> None:
                await self._sooner.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(until_sooner)
            await self._clock.sleep_until_ms(min(wakes_ms, default=self._clock.now_ms() + WINDOW_MS))
            nursery.cancel_scope.cancel()
