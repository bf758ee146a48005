"""One endpoint's actor: what it is owed, in order, a few at a time, while the others know nothing of it.

Rows are the truth. Memory holds what is in flight and a short look ahead, and can be lost at any moment.

Source: DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial
from typing import Final

import structlog
import trio

from payd.actors.supervisor import Backoff
from payd.clock import Clock
from payd.core.endpoint import EndpointState
from payd.core.errors import OutcomeUnknown, StoreUnavailable
from payd.store.attempts import AttemptEnd, Recorded, Trigger
from payd.store.db import Database
from payd.store.deliveries import (
    FRESH,
    PRIORITIES,
    REPLAY,
    RETRY,
    Head,
    Work,
    count_owed,
    load_due_work,
    pending_heads,
    postpone,
)
from payd.store.endpoints import endpoint_of_id, sweep_endpoint

log = structlog.get_logger("payd.deliveries")

IN_FLIGHT_MAX: Final = 10
# Where so many were taken by the receiver and are not on the disk yet, nothing more begins: a death has them
# sent once more, as what is in flight, under the same ids.
UNRECORDED_MAX: Final = 20
# Enough to find work behind everything that is in flight and the later events of the same payments.
LOOK_AHEAD: Final = 64
# Whose turn the next places are, in a circle. Fresh goes first, but where more is owed than a receiver takes,
# no failed delivery waits for ever: of those that are due again, the n-th waits for 8 n places at most.
TURNS: Final = (FRESH, FRESH, FRESH, RETRY, FRESH, FRESH, FRESH, REPLAY)
# So many in a row from a receiver that is not there, and it is asked with one request at a time.
AWAY_MAX: Final = 3
AWAY: Final = frozenset(
    {
        "timeout_connect",
        "timeout_response",
        "connection_refused",
        "connection_reset",
        "network_unreachable",
        "dns_error",
        "proxy_error",
        "system_error",
    }
)
# What stands before a receiver says that it is not there, or asks for patience.
AWAY_STATUSES: Final = frozenset({429, 502, 503, 504})
# Work that has waited this long comes after somebody's downtime: begin with one request, and double.
OVERDUE_MS: Final = 30_000
# A receiver with many endpoints is owed something by all of them then: they begin within this, not at once.
SPREAD_MAX_S: Final = 5.0
# What breaks on this side is tried again soon, but never in a tight loop.
STORE_CHECK_S: Final = 1.0
BROKEN: Final = Backoff(first_s=1.0, last_s=60.0)

Attempt = Callable[[Work, Trigger, Callable[[], None]], Awaitable[tuple[AttemptEnd, Recorded]]]
"""Makes and records one attempt; how it ended and what the store made of it. See `Attempts.make`."""


class _Queue:
    """A look ahead into the pending deliveries of one priority."""

    __slots__ = ("heads", "next_due_ms", "stale")

    def __init__(self) -> None:
        self.heads: deque[Head] = deque()
        self.next_due_ms: int | None = None
        self.stale = True

    def fill(self, rows: list[Head], now_ms: int, claimed: Iterable[str], limit: int) -> None:
        """Take over what the store says: the due rows, and the time of the first that is not due yet."""
        due = [row for row in rows if row.next_at_ms <= now_ms]
        self.heads = deque(row for row in due if row.id not in claimed)
        self.next_due_ms = rows[len(due)].next_at_ms if len(due) < len(rows) else None
        # More may be due than was looked at.
        self.stale = len(due) == limit

    def pick(self, waiting_for: set[str], claimed: Collection[str]) -> Head | None:
        """The first head that need not wait for an earlier event of its payment.

        What was cancelled since, and is owed again as a replay, may be claimed from that queue already.
        """
        for head in self.heads:
            if head.id not in claimed and (head.attempts > 0 or head.payment_id not in waiting_for):
                self.heads.remove(head)
                return head
        return None


class Lane:
    """The actor of one endpoint. Lives while the endpoint is owed something, now or later."""

    def __init__(
        self,
        endpoint_id: str,
        *,
        db: Database,
        clock: Clock,
        attempt: Attempt,
        gate: trio.CapacityLimiter,
        share: Callable[[int], int],
        jitter: Callable[[], float],
        ended: Callable[[], None],
        retire: Callable[[], None],
    ) -> None:
        self.endpoint_id = endpoint_id
        self.scope = trio.CancelScope()
        self.stopping = False
        self.limit = IN_FLIGHT_MAX
        self._db = db
        self._clock = clock
        self._attempt = attempt
        self._gate = gate
        self._share = share
        self._jitter = jitter
        self._ended = ended
        self._retire = retire
        self._woken = trio.Event()
        self._queues = {priority: _Queue() for priority in PRIORITIES}
        self._places_given = 0
        self._claimed: dict[str, Head] = {}
        # Of these, what has a place at the receiver, or waits for one of the realm's.
        self._under_way: set[str] = set()
        self._first_attempts: set[str] = set()
        # Claimed and not looked up yet; looked up and not begun, in which generation of the store.
        self._unread: set[str] = set()
        self._read: dict[str, Work] = {}
        self._read_in = -1
        self._away = 0
        self._broken: dict[str, int] = {}

    @property
    def in_flight(self) -> int:
        """How many deliveries are being sent, or wait for the realm's limit."""
        return len(self._under_way)

    def is_sending_due_by(self, now_ms: int) -> bool:
        """Whether something is in flight that was due by then."""
        return any(head.next_at_ms <= now_ms for head in self._claimed.values())

    @property
    def broken(self) -> int:
        """How many deliveries broke on this side, and are still owed."""
        if not self._broken:
            return 0
        try:
            return self._db.point(count_owed, list(self._broken))
        except StoreUnavailable:
            return len(self._broken)

    @property
    def claimed(self) -> Collection[str]:
        """The deliveries that are in flight or being recorded."""
        return self._claimed.keys()

    @property
    def is_full(self) -> bool:
        """Whether as much is in flight as the receiver takes, or as its share of the realm's limit allows."""
        return not self._has_room()

    def wake(self) -> None:
        """Look at the rows again: something was added or has changed."""
        self._forget()
        self._woken.set()

    def note_owed(self) -> None:
        """Something fresh was added, and nothing else has changed: who is full finds it on having room."""
        self._queues[FRESH].stale = True
        if self._has_room():
            self._woken.set()

    async def run(self) -> None:
        """Send what is due until nothing is owed any more; calls `retire` in the moment that it ends."""
        await self._start_slowly()
        async with trio.open_nursery() as nursery:
            while True:
                self._woken = trio.Event()
                if not self._db.healthy and not self.stopping:
                    # What cannot be recorded would be sent again and again.
                    await trio.sleep(STORE_CHECK_S)
                    continue
                state = self._state()
                if state is not EndpointState.ENABLED:
                    if state is not EndpointState.PAUSED:
                        await self._sweep()
                    if not (self._claimed or self._woken.is_set()):
                        self._retire()
                        return
                    await self._woken.wait()
                    continue
                while self._has_room() and (head := self._take()) is not None:
                    nursery.start_soon(self._work, head)
                if not self._claimed and (self.stopping or self._next_due_ms() is None):
                    self._retire()
                    return
                await self._woken_or_due()

    def _state(self) -> EndpointState:
        endpoint = self._db.point(endpoint_of_id, self.endpoint_id)
        return EndpointState.DELETED if endpoint is None else endpoint.state

    async def _start_slowly(self) -> None:
        """Begin with one request where many may wait: after our downtime, or while the receiver fails."""
        endpoint = self._db.point(endpoint_of_id, self.endpoint_id)
        due_ms = min(
            (
                head.next_at_ms
                for priority in PRIORITIES
                for head in self._db.point(pending_heads, self.endpoint_id, priority, 1)
            ),
            default=None,
        )
        is_overdue = due_ms is not None and due_ms < self._clock.now_ms() - OVERDUE_MS
        if is_overdue or (endpoint is not None and endpoint.failing_since_ms is not None):
            self.limit = 1
        if is_overdue:
            await self._wait_for_its_turn()

    async def _wait_for_its_turn(self) -> None:
        """After our downtime, begin at a moment of its own, whatever happens until then."""
        with trio.move_on_after(self._jitter() * SPREAD_MAX_S):
            while not self.stopping:
                self._woken = trio.Event()
                await self._woken.wait()

    def _has_room(self) -> bool:
        under_way = len(self._under_way)
        if self.stopping or len(self._claimed) - under_way >= UNRECORDED_MAX:
            return False
        return under_way < min(self.limit, self._share(under_way))

    async def _sweep(self) -> None:
        """Cancel, batch by batch, what a disabled or deleted endpoint is still owed."""
        while await self._db.write(sweep_endpoint, self.endpoint_id):
            self._ended()
        self._forget()
        self._ended()

    def _forget(self) -> None:
        for queue in self._queues.values():
            queue.stale = True

    async def _woken_or_due(self) -> None:
        due_ms = self._next_due_ms() if self._has_room() else None
        if due_ms is None:
            await self._woken.wait()
            return
        async with trio.open_nursery() as nursery:

            async def until(wait: Callable[[], Awaitable[None]]) -> None:
                await wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(until, self._woken.wait)
            nursery.start_soon(until, lambda: self._clock.sleep_until_ms(due_ms))

    def _next_due_ms(self) -> int | None:
        return min((q.next_due_ms for q in self._queues.values() if q.next_due_ms is not None), default=None)

    def _take(self) -> Head | None:
        """Claim the next delivery: of those whose turn it is, else fresh before retries before replays."""
        if not self._db.healthy:
            return None
        now_ms = self._clock.now_ms()
        turn = TURNS[self._places_given % len(TURNS)]
        for priority in (turn, *PRIORITIES):
            queue = self._queues[priority]
            head = queue.pick(self._first_attempts, self._claimed)
            if head is None and (
                queue.stale or (queue.next_due_ms is not None and queue.next_due_ms <= now_ms)
            ):
                rows = self._db.point(pending_heads, self.endpoint_id, priority, LOOK_AHEAD)
                queue.fill(rows, now_ms, self._claimed, LOOK_AHEAD)
                head = queue.pick(self._first_attempts, self._claimed)
            if head is not None:
                self._places_given += 1
                self._claimed[head.id] = head
                self._under_way.add(head.id)
                self._unread.add(head.id)
                if head.attempts == 0 and head.payment_id is not None:
                    self._first_attempts.add(head.payment_id)
                return head
        return None

    def _leave(self, head: Head) -> None:
        """Give the places of a request that has ended to the next."""
        if head.id in self._under_way:
            self._under_way.remove(head.id)
            self._gate.release_on_behalf_of(head.id)
            if self._has_room():
                self._woken.set()

    def _release(self, head: Head) -> None:
        del self._claimed[head.id]
        self._under_way.discard(head.id)
        if head.attempts == 0 and head.payment_id is not None:
            self._first_attempts.discard(head.payment_id)
        self._ended()

    async def _work(self, first: Head) -> None:
        """Send one delivery, and then the next, as long as there is one to take."""
        head: Head | None = first
        while head is not None:
            was_due = False
            try:
                await self._gate.acquire_on_behalf_of(head.id)
                try:
                    was_due = await self._send(head)
                finally:
                    self._leave(head)
            finally:
                self._release(head)
            head = self._take() if was_due and self._has_room() else None
            if head is not None and self._has_room():
                # There is room for more than one: the loop has others join in.
                self._woken.set()
        self._woken.set()

    async def _send(self, head: Head) -> bool:
        """Make an attempt, unless things have changed since the look ahead. Returns whether they had not."""
        try:
            work = self._work_of(head)
        except StoreUnavailable:
            # It is still due in the store. Others' requests are under way here, and go on.
            self.wake()
            return False
        if work is None:
            return False
        try:
            trigger: Trigger = "replay" if work.priority == REPLAY else "auto"
            end, recorded = await self._attempt(work, trigger, partial(self._leave, head))
        except Exception as crash:
            await self._put_off(head, crash)
            return True
        self._broken.pop(head.id, None)
        self._pace(end.error_class, end.status)
        if recorded.next_at_ms is not None or recorded.endpoint.state is not EndpointState.ENABLED:
            self.wake()
        return True

    def _work_of(self, head: Head) -> Work | None:
        """What an attempt needs, as things are now; None when none is to be made any more.

        Those that were claimed in one moment are looked up at once, which holds until the next commit.
        """
        if self.stopping:
            return None
        if head.id not in self._read or self._read_in != self._db.generation:
            self._read = self._db.point(load_due_work, self.endpoint_id, self._unread, self._clock.now_ms())
            self._read_in = self._db.generation
        self._unread.discard(head.id)
        return self._read.pop(head.id, None)

    def _pace(self, error_class: str | None, status: int | None) -> None:
        """One at a time while the receiver is away; each success doubles it again."""
        if error_class in AWAY or status in AWAY_STATUSES:
            self._away += 1
            if self._away >= AWAY_MAX:
                self.limit = 1
            return
        self._away = 0
        if error_class is None:
            self.limit = min(self.limit * 2, IN_FLIGHT_MAX)

    async def _put_off(self, head: Head, crash: Exception) -> None:
        """Nothing was proven about the receiver: log it, keep the budget, and try this one later."""
        failures = self._broken[head.id] = self._broken.get(head.id, 0) + 1
        delay_s = BROKEN.delay_s(failures)
        # Said again once it has broken twice as often: nobody may look for days, and disks have an end.
        say = log.error if failures.bit_count() == 1 else log.debug
        say("webhook.broken", delivery_id=head.id, failures=failures, delay_s=delay_s, exc_info=crash)
        try:
            await self._db.write(postpone, head.id, self._clock.now_ms() + round(delay_s * 1000))
        except (StoreUnavailable, OutcomeUnknown):
            # It is still due in the store, and waits here in its place among those in flight.
            await trio.sleep(delay_s)
        self.wake()
