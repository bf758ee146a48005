"""The relayer of one chain: brings to it what buyers signed, with one key that holds gas money only.

A tick reads the rows and the chain and does all that is due. A start, a crash and a new head are one to it.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import structlog
import trio

from payd.actors.relay_alarms import Alarms
from payd.actors.relay_broadcast import Broadcaster
from payd.actors.relay_flight import Flight
from payd.actors.relay_purse import Purse
from payd.actors.relay_queue import Queue
from payd.actors.relay_stats import RelayerStats
from payd.actors.supervisor import Backoff
from payd.chains.evm.signer import Signer
from payd.chains.evm.survey import survey
from payd.chains.rpc import NodesDown, Rpc
from payd.clock import Clock
from payd.core.caip import ChainId
from payd.core.errors import OutcomeUnknown, StoreUnavailable
from payd.core.relay import RelayLimits
from payd.store.db import Database
from payd.store.relay_transactions import OpenTransaction, open_transactions, spent_since
from payd.store.relays import (
    abandon_others,
    count_of_buyer,
    count_queued,
    due_jobs,
    is_over_from,
    oldest_queued_ms,
    others_are_open,
    reopen_from,
    untold_deaths,
)

log = structlog.get_logger("payd.relayer")

DAY_MS: Final = 86_400_000
# While anything is open or queued, and while nothing is: then only the balance is read.
BUSY_S: Final = 5.0
IDLE_S: Final = 60.0
# Some chains have four heads a second; more ticks than this bring nothing.
PAUSE_S: Final = 0.25
TROUBLE: Final = Backoff(first_s=1.0, last_s=15.0)
# More than a chain takes in minutes: who comes later pays another way.
QUEUED_MAX: Final = 200
QUEUE_OLD_MS: Final = 5 * 60_000
# Payments that are told at once that nothing comes of them; each may ask nodes.
TOLD_MAX: Final = 32


class Relayer:
    """Brings the jobs of one chain there.

    Args:
        db: The realm's store.
        clock: The realm's.
        rpc: The chain's nodes.
        chain: An `eip155` chain.
        signer: The key; nobody else may use it on this chain.
        limits: What may be spent, and the pace.
        news: Told `(payment_id, chain)` when nothing can come of a payment's job any more. Must not raise.
        wake_watcher: Called when the chain has something to show.
    """

    def __init__(
        self,
        db: Database,
        clock: Clock,
        rpc: Rpc,
        chain: ChainId,
        signer: Signer,
        limits: RelayLimits,
        news: Callable[[str, str], Awaitable[None]],
        wake_watcher: Callable[[], None],
    ) -> None:
        self._db = db
        self._clock = clock
        self._rpc = rpc
        self._chain = str(chain)
        self._limits = limits
        self._news = news
        self._wake_watcher = wake_watcher
        self._sender = signer.address
        self._alarms = Alarms(self._chain)
        self._purse = Purse(limits.gas_per_day, limits.max_fee, self._alarms)
        broadcaster = Broadcaster(db, clock, rpc)
        self._flight = Flight(db, clock, rpc, chain, signer, limits, self._purse, self._alarms, broadcaster)
        self._queue = Queue(
            db,
            clock,
            rpc,
            chain,
            signer,
            limits,
            self._purse,
            broadcaster,
            landed=wake_watcher,
            died=self._one_died,
        )
        self._one_tick = trio.Lock()
        self._woken = trio.Event()
        self._dead = trio.Event()
        self._surveyed_s: float | None = None
        self._failures = 0

    # For others, at any time.

    def wake(self) -> None:
        """There is a new job, or a new head, or a reorg."""
        self._woken.set()

    def can_relay(self, buyer: str) -> bool:
        """Whether a payment of this account, canonical CAIP-10, would be brought to the chain soon.

        By what the last tick found of gas money and budget, by the queue, and by the account's share of it.
        """
        since_ms = self._clock.now_ms() - DAY_MS
        return (
            not self._failures
            and self._purse.can_pay_one()
            and self._alarms.active.isdisjoint({"fee_limit", "stuck", "count_in_doubt"})
            and self._db.point(count_of_buyer, self._chain, buyer, since_ms) < self._limits.relays_per_buyer
            and self._db.point(count_queued, self._chain, QUEUED_MAX) < QUEUED_MAX
        )

    def stats(self) -> RelayerStats:
        """For metrics and the doctor."""
        return RelayerStats(
            address=self._sender,
            balance=self._purse.balance,
            spent_today=self._purse.spent,
            per_day=self._limits.gas_per_day,
            in_flight=len(self._open()),
            queued=self._db.point(count_queued, self._chain, QUEUED_MAX),
            oldest_queued_ms=self._db.point(oldest_queued_ms, self._chain),
            bumps=self._flight.counts["bumps"],
            reverts=self._flight.counts["reverts"],
            lost=self._flight.counts["lost"],
            fillers=self._flight.counts["fillers"],
            alarms=self._alarms.active,
        )

    def _one_died(self) -> None:
        self._dead.set()

    # The task.

    async def run(self) -> None:
        """Tick for ever: when woken, and by a timer. A task beside it tells payments whose jobs are dead."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tell_forever)
            while True:
                self._woken = trio.Event()
                wait_s = await self._tick_or_wait()
                await trio.sleep(PAUSE_S)  # who was idle brings at once what a buyer just signed
                with trio.move_on_after(wait_s):
                    await self._woken.wait()

    async def run_once(self) -> None:
        """Do all that is due, then return.

        Raises:
            NodesDown: No node answers; what is due stays due.
            StoreUnavailable: Nothing can be read or stored; so does it then.
            OutcomeUnknown: As before.
        """
        async with self._one_tick:
            await self._tick()
        await self._tell()

    async def _tick_or_wait(self) -> float:
        """One tick. Returns for how many seconds nothing is due, if nobody wakes it."""
        try:
            async with self._one_tick:
                await self._tick()
            wait_s = BUSY_S if self._is_busy() else IDLE_S
        except (NodesDown, StoreUnavailable, OutcomeUnknown) as trouble:
            self._failures += 1
            self._flight.forget_refusals()
            if self._failures == 1:
                log.warning("relayer.waits", chain=self._chain, reason=str(trouble))
            self._alarms.keep()
            with suppress(StoreUnavailable):
                self._note_old_queue()
            self._alarms.settle()
            await trio.sleep(TROUBLE.delay_s(self._failures))
            return 0.0
        if self._failures:
            log.info("relayer.goes_on", chain=self._chain, failures=self._failures)
        self._failures = 0
        return wait_s

    async def _tick(self) -> None:
        if self._db.point(others_are_open, self._chain, self._sender):
            abandoned = await self._db.write(abandon_others, self._chain, self._sender)
            log.warning("relayer.key_changed", chain=self._chain, abandoned=abandoned)
        if not self._is_due():
            return
        self._alarms.forget()
        now = await survey(self._rpc, self._sender, self._clock.now_ms() // 1000)
        await self._reopen(now.count)
        if await self._flight.settle(self._open(), now.count):
            self._wake_watcher()
        open_ones = self._open()
        self._purse.update(
            balance=now.balance,
            spent=await self._db.look(spent_since, self._chain, self._clock.now_ms() - DAY_MS),
            reserved=sum(one.reserved for one in open_ones),
            market=now.market,
        )
        await self._flight.keep([one for one in open_ones if one.nonce >= now.count], now)
        await self._queue.work(now)
        if self._queue.is_count_in_doubt(now):
            self._alarms.note("count_in_doubt", highest=now.count, lowest=now.sure)
        self._note_old_queue()
        self._alarms.settle()
        self._surveyed_s = trio.current_time()

    def _is_due(self) -> bool:
        """Whether the chain must be asked now: heads come more often than there is something to do."""
        if self._db.point(due_jobs, self._chain, self._clock.now_ms(), 1) or self._open(1):
            return True
        age_s = None if self._surveyed_s is None else trio.current_time() - self._surveyed_s
        return age_s is None or age_s >= (BUSY_S if self._is_busy() else IDLE_S)

    def _is_busy(self) -> bool:
        return bool(self._db.point(count_queued, self._chain, 1) or self._open(1))

    def _open(self, at_most: int | None = None) -> list[OpenTransaction]:
        limit = self._limits.in_flight_max if at_most is None else at_most
        return self._db.point(open_transactions, self._chain, self._sender, limit)

    async def _reopen(self, count: int) -> None:
        """What is over at nonces that the chain has not counted is not over: a reorg, or a node that lied."""
        if self._db.point(is_over_from, self._chain, self._sender, count):
            limit = self._limits.in_flight_max
            reopened = await self._db.write(reopen_from, self._chain, self._sender, count, limit)
            log.warning("relayer.reopened", chain=self._chain, transactions=reopened, count=count)

    def _note_old_queue(self) -> None:
        since_ms = self._db.point(oldest_queued_ms, self._chain)
        if since_ms is not None and self._clock.now_ms() - since_ms >= QUEUE_OLD_MS:
            self._alarms.note("queue_old", oldest_s=(self._clock.now_ms() - since_ms) // 1000)

    # Telling payments. From rows: a crash between a job's death and its news changes nothing.

    async def _tell_forever(self) -> None:
        while True:
            self._dead = trio.Event()
            try:
                await self._tell()
            except StoreUnavailable as trouble:
                log.debug("relayer.tells_later", chain=self._chain, reason=str(trouble))
            with trio.move_on_after(IDLE_S):
                await self._dead.wait()

    async def _tell(self) -> None:
        untold = await self._db.look(untold_deaths, self._chain, TOLD_MAX)
        async with trio.open_nursery() as nursery:
            for payment_id in untold:
                nursery.start_soon(self._news, payment_id, self._chain)
