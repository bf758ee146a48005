"""The watcher of one chain: has it read to the end, stores what it finds, and tells the payments.

It works from rows alone: the cursor says what is to be read, and the transfers which payments are to be told.
Heads by websocket are hints; a tick that fails is repeated with another node.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

import msgspec
import structlog
import trio

from payd.actors.node_choice import NodeChoice
from payd.actors.skipped import SkippedTurns
from payd.actors.supervisor import Backoff
from payd.actors.walk import LAG_S, UNCERTAIN, Lagging, MatchResult, Repair, Step, Troubled, Walk
from payd.chains.rpc import Node, NodesDown, Rpc
from payd.chains.rpc_errors import BadAnswer
from payd.chains.unread import Unread
from payd.clock import Clock
from payd.core.caip import ChainId
from payd.core.errors import ChainUnavailable, OutcomeUnknown, StoreUnavailable
from payd.store.chain_cursors import Cursor
from payd.store.db import Database
from payd.store.sightings import Noted
from payd.store.sightings_due import due_sightings, give_up, is_busy

log = structlog.get_logger("payd.watcher")

T = TypeVar("T")

# How often the head is asked for while nothing is open.
IDLE_S: Final = 15.0
# Hints come with every block, and wakes with every option: no tick sooner after another.
TICK_GAP_S: Final = 0.25
RETRY: Final = Backoff(first_s=0.5, last_s=15.0)
SOCKET_RETRY: Final = Backoff(first_s=1.0, last_s=60.0)
# Payments told in a tick; the next ones' turn is in the next tick.
TELL_MAX: Final = 256
TELL_AT_ONCE_MAX: Final = 32

_TROUBLE: Final = (NodesDown, Unread, BadAnswer, StoreUnavailable, OutcomeUnknown)

News = Callable[[str, str], Awaitable[None]]
"""Told of a payment and the chain that has news of it; never raises."""
Find = Callable[[str], Awaitable[Sequence[Noted]]]
"""Reads a transaction, and says what was stored of it."""
FollowHeads = Callable[[Callable[[int], None]], Awaitable[str]]
"""Calls back with the number of each new block, until the connection ends; says why it did."""
FollowNews = Callable[[Callable[[str], None]], Awaitable[str]]
"""Calls back with the id of each transaction that has news, or with nothing where it names none; as above."""


class WatcherStats(msgspec.Struct, frozen=True):
    """How the reading of a chain goes, for metrics.

    Attributes:
        head: The newest block that a node named; None before the first.
        read: Up to which block everything is read.
        read_time_s: When that was made.
        final: Up to which block everything is read a second time.
        ticks: Begun so far.
        failures: Ticks that failed so far.
        trouble: Why the last tick failed; empty: it did not.
        second_trouble: Why the last second reading failed; empty: it did not.
        reorgs: Followed so far.
        deepest_reorg: In blocks.
        lost: Payments that were told to have succeeded by a transfer which a reorg then took.
        skipped: Transactions that were read past, because no node can tell of them.
    """

    head: int | None
    read: int | None
    read_time_s: int | None
    final: int | None
    ticks: int
    failures: int
    trouble: str
    second_trouble: str
    reorgs: int
    deepest_reorg: int
    lost: int
    skipped: int

    @property
    def blocks_behind(self) -> int:
        """Blocks that are there and not read."""
        return 0 if self.head is None or self.read is None else max(0, self.head - self.read)


class Watcher:
    """Of one chain.

    Args:
        db: The realm's store.
        clock: The realm's clock.
        rpc: The chain's nodes.
        chain: Its id, CAIP-2.
        walk: Reads it.
        repair: Reads single transactions by hand.
        find: Reads one that somebody tells of, and stores what it paid; None: it is found by itself.
        poll_ms: How often the head is asked for while something is open.
        news: Told of payments that something was found for.
        wake_relayer: Called when there are new blocks.
        follow_heads: Tells of new blocks sooner than they are asked for.
        follow_news: Tells of transactions sooner than they are found.
    """

    def __init__(
        self,
        *,
        db: Database,
        clock: Clock,
        rpc: Rpc,
        chain: ChainId,
        walk: Walk,
        repair: Repair,
        find: Find | None = None,
        poll_ms: int,
        news: News,
        wake_relayer: Callable[[], object] = lambda: None,
        follow_heads: FollowHeads | None = None,
        follow_news: FollowNews | None = None,
    ) -> None:
        self._db = db
        self._clock = clock
        self._name = str(chain)
        self._poll_s = poll_ms / 1000
        self._news = news
        self._wake_relayer = wake_relayer
        self._follow_heads = follow_heads
        self._follow_news = follow_news
        self._reading: set[str] = set()
        self._walk = walk
        self._nodes = NodeChoice(rpc, walk.skipped)
        self._skipped = SkippedTurns()
        self._repair = repair
        self._find = find
        self._lock = trio.Lock()
        self._woken = trio.Event()
        self._telling: set[str] = set()
        self._tell_room = trio.CapacityLimiter(TELL_AT_ONCE_MAX)
        self._told_up_to = 0
        self._last: Step | None = None
        self._read_twice: Cursor | None = None
        self._busy = True
        self._lags_since_s: float | None = None
        self._ticks = self._failures = self._failures_in_row = 0
        self._trouble = self._second_trouble = ""

    def wake(self) -> None:
        """Make the next tick now: an option was handed out, or the relayer is owed a job."""
        self._woken.set()

    def stats(self) -> WatcherStats:
        """How it goes."""
        last, final = self._last, self._read_twice
        return WatcherStats(
            head=None if last is None else last.head.number,
            read=None if last is None else last.cursor.number,
            read_time_s=None if last is None else last.cursor.time_s,
            final=None if final is None else final.number,
            ticks=self._ticks,
            failures=self._failures,
            trouble=self._trouble,
            second_trouble=self._second_trouble,
            reorgs=self._walk.reorgs,
            deepest_reorg=self._walk.deepest,
            lost=self._walk.lost,
            skipped=len(self._read_past),
        )

    def read_until_s(self) -> int:
        """The time up to which the chain was read, also before the start; 0 before the first time."""
        return self._walk.read_until_s()

    async def run(self) -> None:
        """Read for ever."""
        async with trio.open_nursery() as nursery:
            if self._follow_heads is not None:
                nursery.start_soon(self._listen, self._follow_heads, self._hear)
            if self._follow_news is not None:
                nursery.start_soon(self._listen, self._follow_news, partial(self._hear_of, nursery))
            while True:
                self._woken = trio.Event()
                if not await self._tick(nursery):
                    await trio.sleep(RETRY.delay_s(self._failures_in_row))
                    continue
                await trio.sleep(TICK_GAP_S)
                with trio.move_on_after(await self._pause_s()):
                    await self._woken.wait()

    async def run_once(self) -> bool:
        """Do all that is due now, and return once everyone is told. False: no node could be read."""
        async with trio.open_nursery() as nursery:
            return await self._tick(nursery)

    async def match(self, tx_id: str) -> MatchResult:
        """Read a single transaction, record what it paid, and tell: for a payment that somebody misses.

        Raises:
            InvalidParams: It is no id of a transaction.
            ChainUnavailable: No node answers.
            StoreUnavailable, OutcomeUnknown: Nothing may have been stored.
        """
        result = await self._repair.match(tx_id)
        if result.outcome == "not_read_yet":
            self.wake()
        for payment_id in dict.fromkeys(one.payment_id for one in result.sightings if one.awaits == "depth"):
            if payment_id is not None:
                await self._news(payment_id, self._name)
        return result

    async def found(self, tx_id: str) -> None:
        """Read a transaction that somebody tells of, record what it paid, and tell; it may be a mistake.

        Raises:
            StoreUnavailable, OutcomeUnknown: Nothing may have been stored.
        """
        noted = () if self._find is None else await self._find(tx_id)
        self._note(noted)
        for payment_id in _payments_of(noted):
            await self._news(payment_id, self._name)

    # A tick.

    async def _tick(self, nursery: trio.Nursery) -> bool:
        async with self._lock:
            self._ticks += 1
            try:
                await self._read_all(nursery)
            except Lagging as lagging:
                return self._lagged(lagging)
            except _TROUBLE as trouble:
                self._failed(trouble)
                return False
            self._succeeded()
            for tx_id in self._skipped.due(self._read_past):
                nursery.start_soon(self._read_skipped, tx_id)
            return True

    async def _read_all(self, nursery: trio.Nursery) -> None:
        """Read up to the head, piece by piece, and tell after each."""
        more, told = True, set[str]()
        while more:
            step, node = await self._nodes.try_each(partial(self._walk.step, lag_s=self._lag_s))
            before, self._last = self._last, step
            if step.more:
                # What fails after that is tried again soon: a node may take no more than so much in a second.
                self._failures_in_row = 0
            await self._nodes.compare(step.head.number)
            if before is None or before.head.hash != step.head.hash:
                self._wake_relayer()
            self._note(step.noted)
            self._tell(nursery, [*_payments_of(step.noted), *step.also], told)
            more = step.more
            if step.final is not None:
                more = await self._read_again(node, step) or more
            await self._tell_due(nursery, step, told)
            if step.trouble is not None:
                self._nodes.rest(node, step.trouble)
                raise step.trouble

    async def _read_again(self, node: Node, step: Step) -> bool:
        """Read a piece of what is final from another node, and this one; True when there is more of it."""
        assert step.final is not None
        other = self._nodes.another(node)
        if other is None:
            return False
        try:
            nodes = (other,) if other is node else (other, node)
            noted, more = await self._walk.second_reading(nodes, step.final, step.cursor)
        except Troubled as troubled:
            self._second_failed(troubled.node, troubled.trouble)
            return False
        except (NodesDown, Unread, BadAnswer) as trouble:
            self._second_failed(other, trouble)
            return False
        before, self._read_twice = self._read_twice, self._walk.cursor("final")
        if self._nodes.compared(node, other, anew=self._read_twice != before):
            self._second_trouble = ""
        for one in noted:
            log.warning("chain.hidden_transfer", chain=self._name, tx_id=one.sighting.tx_id)
        self._note(noted)
        return more

    def _second_failed(self, node: Node, trouble: Exception) -> None:
        self._nodes.rest(node, trouble, self._walk.skipped_again)
        if not self._second_trouble:
            log.warning("chain.second_reading_failed", chain=self._name, node=node.name, why=str(trouble))
        self._second_trouble = str(trouble) or type(trouble).__name__

    @property
    def _read_past(self) -> set[str]:
        return self._walk.skipped | self._walk.skipped_again

    async def _read_skipped(self, tx_id: str) -> None:
        """Read what was read past, now that a node may be able to tell of it."""
        try:
            outcome = (await self.match(tx_id)).outcome
        except (ChainUnavailable, StoreUnavailable, OutcomeUnknown) as trouble:
            log.debug("chain.skipped_not_read", chain=self._name, tx_id=tx_id, why=str(trouble))
            return
        if outcome not in UNCERTAIN:
            log.info("chain.skipped_read", chain=self._name, tx_id=tx_id, outcome=outcome)
            self._walk.skipped.discard(tx_id)
            self._walk.skipped_again.discard(tx_id)

    def _note(self, noted: Iterable[Noted]) -> None:
        for one in noted:
            log.info(
                "chain.transfer",
                chain=self._name,
                tx_id=one.sighting.tx_id,
                kind=one.sighting.kind,
                payment_id=one.sighting.payment_id,
                reason=one.reason,
            )

    def _lagged(self, lagging: Lagging) -> bool:
        """No node is where the chain was read up to: they will be, within moments."""
        if self._lags_since_s is None:
            self._lags_since_s = trio.current_time()
        if self._lag_s < LAG_S:
            return True
        self._failed(lagging)
        return False

    @property
    def _lag_s(self) -> float:
        return 0.0 if self._lags_since_s is None else trio.current_time() - self._lags_since_s

    def _failed(self, trouble: Exception) -> None:
        self._failures += 1
        self._failures_in_row += 1
        if not self._trouble:
            log.warning("chain.unread", chain=self._name, why=str(trouble))
        self._trouble = str(trouble) or type(trouble).__name__

    def _succeeded(self) -> None:
        if self._trouble:
            log.info("chain.read_again", chain=self._name, after_failures=self._failures_in_row)
        self._failures_in_row, self._trouble, self._lags_since_s = 0, "", None

    # Telling.

    async def _tell_due(self, nursery: trio.Nursery, step: Step, told: set[str]) -> None:
        """Tell payments whose transfers have come far enough, some of them in each tick."""
        final = None if step.final is None else step.final.number
        due = await self._db.look(
            due_sightings, self._name, step.cursor.number, final, self._told_up_to, TELL_MAX
        )
        self._told_up_to = due[-1].seq if len(due) == TELL_MAX else 0
        if any(one.over for one in due):
            await self._db.write(give_up, self._name)
        self._tell(nursery, (one.payment_id for one in due if not one.over), told)

    def _tell(self, nursery: trio.Nursery, payment_ids: Iterable[str], told: set[str]) -> None:
        """Tell each once in a tick; who is being told already is due again in the next one."""
        for payment_id in payment_ids:
            if payment_id in told or payment_id in self._telling:
                continue
            if len(self._telling) < TELL_MAX:
                told.add(payment_id)
                self._telling.add(payment_id)
                nursery.start_soon(self._tell_one, payment_id)

    async def _tell_one(self, payment_id: str) -> None:
        try:
            async with self._tell_room:
                await self._news(payment_id, self._name)
        finally:
            self._telling.discard(payment_id)

    # Pace.

    async def _pause_s(self) -> float:
        try:
            # A window that has closed waits until the chain was read beyond its end.
            now_ms = min(self._clock.now_ms(), self._walk.read_until_s() * 1000)
            self._busy = await self._db.look(is_busy, self._name, now_ms)
        except StoreUnavailable:
            self._busy = True
        return max(0.0, (self._poll_s if self._busy else IDLE_S) - TICK_GAP_S)

    async def _listen(
        self, follow: Callable[[Callable[[T], None]], Awaitable[str]], hear: Callable[[T], None]
    ) -> None:
        """Be told of news for ever; without, they are asked for as often as before."""
        failures = 0
        while True:
            started_s = trio.current_time()
            words = await follow(hear)
            failures = 1 if trio.current_time() - started_s >= SOCKET_RETRY.last_s else failures + 1
            if failures == 1:
                log.warning("chain.heads_lost", chain=self._name, why=words)
            await trio.sleep(SOCKET_RETRY.delay_s(failures))

    def _hear_of(self, nursery: trio.Nursery, tx_id: str) -> None:
        """A hint: what it names is read at once, everything else soon."""
        if tx_id and tx_id not in self._reading and len(self._reading) < TELL_AT_ONCE_MAX:
            self._reading.add(tx_id)
            nursery.start_soon(self._read_one, tx_id)
        if self._busy:
            self.wake()
            self._wake_relayer()

    async def _read_one(self, tx_id: str) -> None:
        try:
            await self.found(tx_id)
        except (StoreUnavailable, OutcomeUnknown) as trouble:
            log.debug("chain.hint_not_stored", chain=self._name, why=str(trouble))
        finally:
            self._reading.discard(tx_id)

    def _hear(self, number: int) -> None:
        """A hint: where nothing is open, the next look is soon enough."""
        if self._busy and (self._last is None or number > self._last.cursor.number):
            self.wake()


def _payments_of(noted: Iterable[Noted]) -> list[str]:
    """The payments that something was found for, each once."""
    found = [one.sighting.payment_id for one in noted if one.sighting.kind == "matched"]
    return list(dict.fromkeys(one for one in found if one is not None))
