"""The submitter of one Solana chain: brings to it what buyers signed, and looks after what we pay for them.

A tick reads the rows and the chain and does all that is due. A start, a crash and a new slot are one to it.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import structlog
import trio

from payd.actors.relay_alarms import Alarms
from payd.actors.relay_stats import RelayerStats
from payd.actors.submitter_flight import OPEN_MAX, Flight, Found
from payd.actors.submitter_purse import Purse
from payd.actors.supervisor import Backoff
from payd.chains.rpc import NodesDown, Rpc
from payd.chains.rpc_errors import BadAnswer
from payd.chains.solana.subscription import Wanted
from payd.chains.solana.terms import Terms
from payd.clock import Clock
from payd.core.errors import OutcomeUnknown, StoreUnavailable
from payd.store.db import Database
from payd.store.submissions import (
    StoredSubmission,
    count_open,
    latest_submissions,
    open_submissions,
    untold_ends,
)

log = structlog.get_logger("payd.relayer")

# While something is to land; while all that is open only waits to be final; while something is out that we
# pay for; and while nothing is: then only the balance is read.
LANDING_S: Final = 1.0
SETTLING_S: Final = 3.0
OUT_S: Final = 10.0
IDLE_S: Final = 60.0
# Wakes come with every confirmation and every piece of news; more ticks than this bring nothing.
PAUSE_S: Final = 0.25
TROUBLE: Final = Backoff(first_s=0.5, last_s=10.0)
QUEUE_OLD_MS: Final = 5 * 60_000
# Payments that are told at once that nothing comes of their transactions; each may ask nodes.
TOLD_MAX: Final = 32

_TROUBLE: Final = (NodesDown, BadAnswer, StoreUnavailable, OutcomeUnknown)


class Submitter:
    """Brings the submissions of one chain there.

    Args:
        db: The realm's store.
        clock: The realm's.
        rpc: The chain's nodes.
        terms: The chain, and what we may pay for others on it.
        news: Told `(payment_id, chain)` when nothing can come of a payment's transaction any more. Must not
            raise.
        found: Told of each transaction that a node confirms; see `Watcher.found`.
        wanted: Where it notes the transactions that a websocket is to tell of.
    """

    def __init__(
        self,
        db: Database,
        clock: Clock,
        rpc: Rpc,
        terms: Terms,
        *,
        news: Callable[[str, str], Awaitable[None]],
        found: Found,
        wanted: Wanted | None = None,
    ) -> None:
        self._db = db
        self._clock = clock
        self._terms = terms
        self._chain = str(terms.chain)
        self._news = news
        self._wanted = wanted
        self._alarms = Alarms(self._chain)
        self._flight = Flight(db, clock, rpc, terms.chain, found)
        self._purse = Purse(db, clock, rpc, terms, self._alarms)
        self._one_tick = trio.Lock()
        self._woken = trio.Event()
        self._dead = trio.Event()
        self._failures = 0

    # For others, at any time.

    def wake(self) -> None:
        """There is something new to bring, or news of what was brought."""
        self._woken.set()

    def can_sponsor(self, buyer: str) -> bool:
        """Whether the network fee of this account, canonical CAIP-10, would be paid now.

        By what the last tick found of money, and by the budgets; what is signed is reserved for itself.
        """
        return not self._failures and self._purse.can_pay_one(buyer)

    def stats(self) -> RelayerStats:
        """For metrics and the doctor."""
        left, stays = self._db.point(count_open, self._chain)
        counts = self._flight.counts
        return RelayerStats(
            address=str(self._purse.payer or ""),
            balance=self._purse.balance,
            spent_today=self._purse.spent().cost,
            per_day=self._terms.spend_per_day,
            in_flight=left,
            queued=stays,
            oldest_queued_ms=self._oldest_ms(),
            bumps=counts["resends"],
            reverts=counts["failed"],
            lost=counts["lost"],
            fillers=0,
            alarms=self._alarms.active,
        )

    def _oldest_ms(self) -> int | None:
        return min((one.created_at_ms for one in self._flight.unconfirmed), default=None)

    # The task.

    async def run(self) -> None:
        """Tick for ever: when woken, and by a timer. A task beside it tells payments that come to nothing."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tell_forever)
            while True:
                self._woken = trio.Event()
                wait_s = await self._tick_or_wait(nursery)
                await trio.sleep(PAUSE_S)  # who was idle brings at once what a buyer just signed
                with trio.move_on_after(wait_s):
                    await self._woken.wait()

    async def run_once(self) -> None:
        """Do all that is due, then return.

        Raises:
            NodesDown, BadAnswer: No node tells; what is due stays due.
            StoreUnavailable: Nothing can be read or stored; so does it then.
            OutcomeUnknown: As before.
        """
        trouble: Exception | None = None
        async with self._one_tick, trio.open_nursery() as nursery:
            try:
                await self._tick(nursery)
            except _TROUBLE as caught:
                trouble = caught
        if trouble is not None:
            raise trouble
        await self._tell()

    async def _tick_or_wait(self, nursery: trio.Nursery) -> float:
        """One tick. Returns for how many seconds nothing is due, if nobody wakes it."""
        try:
            async with self._one_tick:
                await self._tick(nursery)
            wait_s = self._pause_s()
        except _TROUBLE as trouble:
            self._failures += 1
            if self._failures == 1:
                log.warning("submitter.waits", chain=self._chain, reason=str(trouble))
            self._alarms.keep()
            self._note_alarms()
            self._alarms.settle()
            return TROUBLE.delay_s(self._failures)
        if self._failures:
            log.info("submitter.goes_on", chain=self._chain, failures=self._failures)
        self._failures = 0
        return wait_s

    async def _tick(self, nursery: trio.Nursery) -> None:
        self._alarms.forget()
        waiting = self._open()
        if self._wanted is not None:
            self._wanted.want_ids(one.tx_id for one in waiting if not self._flight.is_confirmed(one))
        if await self._flight.work(waiting, nursery):
            self._dead.set()
        await self._purse.look()
        self._note_alarms()
        self._alarms.settle()

    def _open(self) -> list[StoredSubmission]:
        """The oldest; where there are more, what is new too: it lands within a minute or never.

        Nothing ends while a node is away that has to agree, and old ones would be in the way of all others.
        """
        waiting = self._db.point(open_submissions, self._chain, 0, OPEN_MAX)
        if len(waiting) < OPEN_MAX:
            return waiting
        found = {
            one.seq: one for one in (*waiting, *self._db.point(latest_submissions, self._chain, OPEN_MAX))
        }
        return [found[seq] for seq in sorted(found)]

    def _pause_s(self) -> float:
        if self._flight.unconfirmed:
            return LANDING_S
        if self._db.point(open_submissions, self._chain, 0, 1):
            return SETTLING_S
        return OUT_S if self._purse.is_out() else IDLE_S

    def _note_alarms(self) -> None:
        oldest_ms = self._oldest_ms()
        if oldest_ms is not None and self._clock.now_ms() - oldest_ms >= QUEUE_OLD_MS:
            self._alarms.note("queue_old", oldest_s=(self._clock.now_ms() - oldest_ms) // 1000)
        if self._flight.lost:
            self._alarms.note("lost", payments=len(self._flight.lost))

    # Telling payments. From rows: a crash between a transaction's end and its news changes nothing.

    async def _tell_forever(self) -> None:
        while True:
            self._dead = trio.Event()
            try:
                await self._tell()
            except StoreUnavailable as trouble:
                log.debug("submitter.tells_later", chain=self._chain, reason=str(trouble))
            with trio.move_on_after(IDLE_S):
                await self._dead.wait()

    async def _tell(self) -> None:
        untold = await self._db.look(untold_ends, self._chain, TOLD_MAX)
        async with trio.open_nursery() as nursery:
            for payment_id in untold:
                nursery.start_soon(self._news, payment_id, self._chain)
