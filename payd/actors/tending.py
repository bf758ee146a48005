"""What payments wait for: looks after each when its time has come, and survives what goes wrong.

Nothing is kept beside the rows: a payment's deadline follows from its state, and what a chain has news of is
stored before it is told here.

Source: DESIGN.md, "5. A payment is an actor"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog
import trio

from payd.actors.deadlines import Deadlines, Due
from payd.actors.supervisor import Backoff
from payd.chains.base import Found
from payd.core.errors import (
    ChainUnavailable,
    InternalError,
    InvalidState,
    OutcomeUnknown,
    PaydError,
    StoreUnavailable,
)
from payd.core.payment import Payment, PaymentFailed, Trigger, WindowClosed, transition
from payd.core.status import Status
from payd.store.commitments import is_held
from payd.store.db import Tx
from payd.store.payments import (
    Move,
    due_payments,
    find_payments,
    park_payment,
    record_transitions,
    unpark_payments,
)
from payd.store.sightings import pay_in_stead, take_back
from payd.store.transfers import follow_transfer, paid_among
from payd.store.watches import chains_watched

if TYPE_CHECKING:
    from payd.actors.payments import PaymentActor, Payments

log = structlog.get_logger("payd.payments")

# After this many bugs in a row nobody but a person can help a payment.
CRASHES_MAX: Final = 5
BACKOFF: Final = Backoff(first_s=1.0, last_s=60.0)
# A store that refuses recovers by itself, and then the due-time index is read again.
STORE_RETRY_MS: Final = 10_000
# A node that says nothing for this long will say nothing.
LOOK_DEADLINE_S: Final = 20.0
# Looks at chains at the same moment: what a node may be asked at once.
LOOKS_AT_ONCE_MAX: Final = 256
# One piece of news is a few moves at most: committed, confirmed, settled.
LOOKS_A_NEWS_MAX: Final = 4
# A window that has closed waits for its chains to be read; looked at again this often.
UNREAD_RETRY_MS: Final = 2_000
# Of many that move at once, so many are made ready before others have the loop: about a millisecond.
MOVES_A_TICK: Final = 16


@dataclass(slots=True, frozen=True)
class _Move:
    """One of several moves that are stored in one step."""

    actor: PaymentActor
    before: Payment
    found: Found
    stored: Move


class Tending:
    """Looks after the payments of a realm.

    Args:
        payments: The realm's.
    """

    def __init__(self, payments: Payments) -> None:
        self._of = payments
        self._looks = trio.CapacityLimiter(LOOKS_AT_ONCE_MAX)
        self._crashes: Counter[str] = Counter()
        self._timeouts: Counter[str] = Counter()
        self._gone: set[str] = set()
        self._loaded = False
        self.deadlines = Deadlines(payments.clock, self._load_due, self._tend, self._tend_together)

    async def news(self, payment_id: str, chain: str) -> None:
        """A chain has stored something about a payment: look at once, and as long as that moves it.

        Must not raise: whoever tells keeps what it knows, and tells again.
        """
        await self._survive(payment_id, lambda: self._follow_news(payment_id, chain))

    async def idle_until(self, now_ms: int) -> None:
        """Return when nothing that is due by now is left to do. For the test clock."""
        while True:
            due_at_ms = self._of.next_due_ms()
            if not self.deadlines.busy and (due_at_ms is None or due_at_ms > now_ms):
                return
            await self.deadlines.ended.park()

    async def _load_due(self, after: Due, until_ms: int, limit: int) -> list[Due]:
        # Whoever started the server anew may have mended what payments were parked for: each has another try.
        if not self._loaded and self._of.parked:
            await self._of.db.write(unpark_payments)
        self._loaded = True
        return await self._of.db.look(due_payments, after, until_ms, limit)

    async def _tend(self, payment_id: str) -> None:
        """Look after one payment whose time has come."""
        await self._survive(payment_id, lambda: self._tend_once(payment_id))

    async def _tend_together(self, payment_ids: Sequence[str]) -> Sequence[str]:
        """Look after payments in one turn and one step, as far as no node is asked; gives who is left.

        After a downtime everything is due at once. Where one is in trouble, each is looked after alone, and
        meets its own.
        """
        try:
            return await self._of.turns.ask_together(payment_ids, partial(self._move_together, payment_ids))
        except Exception as trouble:
            log.debug("payment.tend_apart", payments=len(payment_ids), error=repr(trouble))
            return payment_ids

    async def _move_together(
        self, payment_ids: Sequence[str], actors: Sequence[PaymentActor]
    ) -> Sequence[str]:
        of, moves = self._of, list[_Move]()
        asleep = {actor.key: actor for actor in actors if actor.payment is None}
        for payment in of.db.point(find_payments, list(asleep)):
            asleep[payment.id].payment = payment
        windows = [one for one in (actor.load() for actor in actors) if one.status is Status.REQUIRES_ACTION]
        window_ids = [payment.id for payment in windows]
        waiting = self._unread(windows).keys() | of.db.point(paid_among, window_ids)
        for place, actor in enumerate(actors, start=1):
            if place % MOVES_A_TICK == 0:
                await trio.lowlevel.checkpoint()
            found = None if actor.key in waiting else await self._find_at_once(actor.load())
            if found is not None and found.trigger is not None:
                moves.append(self._move(actor, found, found.trigger))

        closed = [move.actor.key for move in moves if isinstance(move.found.trigger, WindowClosed)]

        def step(tx: Tx) -> list[str | None]:
            still_unpaid(tx, closed)
            endpoints = record_transitions(tx, [move.stored for move in moves])
            self._keep(tx, [(move.before, move.found) for move in moves])
            return endpoints

        endpoints = await of.db.write(step) if moves else []
        for move, endpoint in zip(moves, endpoints, strict=True):
            move.actor.payment = move.stored.payment
            of.tell_all(move.stored, endpoint)
        moved = {move.actor.key for move in moves}
        return [payment_id for payment_id in payment_ids if payment_id not in moved]

    async def _find_at_once(self, payment: Payment) -> Found | None:
        """What is new about a payment that is due, where nobody must be waited for to know it."""
        now_ms = self._of.clock.now_ms()
        if payment.status is Status.REQUIRES_ACTION:
            return Found(WindowClosed()) if payment.expires_at_ms <= now_ms else None
        followed = followed_on(payment)
        chain = None if followed is None else self._of.chain_of(followed)
        return await chain.look(payment, now_ms) if chain is not None and not chain.has_nodes else None

    def _move(self, actor: PaymentActor, found: Found, trigger: Trigger) -> _Move:
        payment = actor.load()
        moved = transition(payment, trigger, self._of.clock.now_ms())
        return _Move(actor, payment, found, self._of.move_of(moved))

    async def _survive(self, payment_id: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except trio.TooSlowError:
            self._timed_out(payment_id)
        except ChainUnavailable as down:
            log.debug("payment.look_put_off", payment_id=payment_id, error=down.message)
        except InternalError as broken:
            await self._crashed(payment_id, broken)
        except PaydError as refusal:
            # It moved meanwhile; whoever moved it set its next deadline.
            log.debug("payment.tend_refused", payment_id=payment_id, code=refusal.code)
        except Exception as bug:
            log.error("payment.crashed", payment_id=payment_id, exc_info=bug)
            await self._crashed(payment_id, bug)
        else:
            self._crashes.pop(payment_id, None)
            self._timeouts.pop(payment_id, None)

    async def _tend_once(self, payment_id: str) -> None:
        payment = self._of.find(payment_id)
        due_at_ms = self._of.due_at_ms(payment)
        if due_at_ms is None:
            followed = followed_on(payment)
            if followed is not None and self._of.chain_of(followed) is None:
                await self._chain_gone(payment_id, followed)
            return
        if due_at_ms > self._of.clock.now_ms():
            self.deadlines.add(payment_id, due_at_ms)
            return
        if payment.status is Status.REQUIRES_ACTION:
            await self._close_window(payment)
            return
        if not self._of.db.point(is_held, payment) and await self._waits_for_reading(payment):
            return
        assert payment.processing is not None
        found = await self._look(payment, payment.processing.chain)
        if found is not None:
            await self._apply(payment, found)

    async def _follow_news(self, payment_id: str, chain: str) -> None:
        for _ in range(LOOKS_A_NEWS_MAX):
            payment = self._of.find(payment_id)
            found = await self._look(payment, chain)
            if found is None or not await self._apply(payment, found) or found.trigger is None:
                return

    async def _look(self, payment: Payment, on: str) -> Found | None:
        chain = self._of.chain_of(on)
        assert chain is not None, "only a served chain makes a payment due, or has news"
        async with self._looks:
            with trio.fail_after(LOOK_DEADLINE_S):
                return await chain.look(payment, self._of.clock.now_ms())

    async def _apply(self, payment: Payment, found: Found) -> bool:
        """Store what a look found; False when the payment has moved since, or cannot end yet.

        Until its window was read to the end, what payd does not bring itself may be paid by another transfer.
        What payd could not bring is paid by one that was seen before; its chain is looked at next.
        """
        is_end = isinstance(found.trigger, (WindowClosed, PaymentFailed))
        if is_end and not self._of.db.point(is_held, payment) and self._unread([payment]):
            return False

        def keep(tx: Tx) -> None:
            if is_end:
                still_unpaid(tx, [payment.id])
            self._keep(tx, [(payment, found)])

        async def turn(actor: PaymentActor) -> bool:
            if actor.load().version != payment.version:
                return False
            if is_end and await self._of.db.write(pay_in_stead, payment.id):
                log.warning("payment.paid_in_stead", payment_id=payment.id)
                return False
            if found.trigger is None:
                await self._of.db.write(self._keep, [(payment, found)])
            else:
                await actor.move(found.trigger, also=keep)
            return True

        return await self._of.turns.ask(payment.id, turn, limited=False)

    def _keep(self, tx: Tx, news: Sequence[tuple[Payment, Found]]) -> None:
        self._of.keep_transfers(tx, [(payment, found.transfers) for payment, found in news])
        for payment, found in news:
            if found.follow is not None and not follow_transfer(tx, payment.id, found.follow):
                raise InvalidState("A reorg was faster than the look; the chain is looked at again.")
            if found.denied is not None:
                take_back(tx, found.denied)

    async def _close_window(self, payment: Payment) -> None:
        """Expire a payment, once each chain that it can be paid on was read up to the end of its window.

        Not while a transfer that pays it waits for its proof.
        """
        if await self._waits_for_reading(payment):
            return
        if self._of.db.point(paid_among, [payment.id]):
            # Paid in time: whoever stored it has told, or tells again, and the nodes may need a while.
            self.deadlines.add(payment.id, self._of.clock.now_ms() + UNREAD_RETRY_MS)
            return
        await self._of.turns.ask(payment.id, _expire, limited=False)

    async def _waits_for_reading(self, payment: Payment) -> bool:
        """Whether a chain that it can be paid on is to be read first up to the end of its window."""
        unread = self._unread([payment]).get(payment.id)
        if unread is None:
            return False
        if self._of.chain_of(unread) is None:
            await self._chain_gone(payment.id, unread)
        else:
            self.deadlines.add(
                payment.id, max(payment.expires_at_ms, self._of.clock.now_ms()) + UNREAD_RETRY_MS
            )
        return True

    def _unread(self, windows: Sequence[Payment]) -> dict[str, str]:
        """Of payments that wait for one, a chain that each can be paid on and that was not read up to the end
        of its window, or is not served.
        """
        ends_ms = {payment.id: payment.expires_at_ms for payment in windows}
        found: dict[str, str] = {}
        for payment_id, name in self._of.db.point(chains_watched, list(ends_ms)):
            chain = self._of.chain_of(name)
            read_until_ms = 0 if chain is None else chain.read_until_ms(name)
            if read_until_ms is not None and read_until_ms <= ends_ms[payment_id]:
                found.setdefault(payment_id, name)
        return found

    # Surviving.

    async def _crashed(self, payment_id: str, error: Exception) -> None:
        """Come back later, and give up loudly when that never helps."""
        if isinstance(error, (StoreUnavailable, OutcomeUnknown)) or not self._of.db.healthy:
            log.debug("payment.tend_put_off", payment_id=payment_id, error=repr(error))
            self.deadlines.add(payment_id, self._of.clock.now_ms() + STORE_RETRY_MS)
            return
        self._crashes[payment_id] += 1
        if self._crashes[payment_id] < CRASHES_MAX:
            delay_s = BACKOFF.delay_s(self._crashes[payment_id])
            self._of.nursery.start_soon(self._come_back, payment_id, delay_s)
            return
        log.critical("payment.parked", payment_id=payment_id, crashes=CRASHES_MAX, error=repr(error))
        del self._crashes[payment_id]
        await self._park(payment_id)

    def _timed_out(self, payment_id: str) -> None:
        log.warning("payment.look_timed_out", payment_id=payment_id)
        # Others wait for their look: the next window brings this one back.
        if not self._looks.statistics().tasks_waiting:
            self._timeouts[payment_id] += 1
            self._of.nursery.start_soon(
                self._come_back, payment_id, BACKOFF.delay_s(self._timeouts[payment_id])
            )

    async def _come_back(self, payment_id: str, delay_s: float) -> None:
        # By real time: a test clock that is moved must not turn a backoff into a busy loop.
        await trio.sleep(delay_s)
        self.deadlines.add(payment_id, self._of.clock.now_ms())

    async def _chain_gone(self, payment_id: str, chain: str) -> None:
        """Nobody can follow the payment until its chain is served again, which takes a restart."""
        if chain not in self._gone:
            self._gone.add(chain)
            log.warning("payment.chain_gone", chain=chain, payment_id=payment_id)
        await self._park(payment_id)

    async def _park(self, payment_id: str) -> None:
        try:
            await self._of.db.write(park_payment, payment_id, self._of.clock.now_ms())
        except InternalError as broken:
            log.error("payment.park_failed", payment_id=payment_id, error=repr(broken))


def followed_on(payment: Payment) -> str | None:
    """The chain on which more can happen to the payment; None when nothing can."""
    if payment.status not in (Status.PROCESSING, Status.SUCCEEDED) or payment.settled is not None:
        return None
    return None if payment.processing is None else payment.processing.chain


async def _expire(actor: PaymentActor) -> None:
    payment = actor.load()
    if payment.status is Status.REQUIRES_ACTION:
        await actor.move(WindowClosed(), also=lambda tx: still_unpaid(tx, [payment.id]))


def still_unpaid(tx: Tx, payment_ids: Sequence[str]) -> None:
    """In the step that ends payments unpaid: no transfer that pays was stored since that was asked.

    Raises:
        InvalidState: One was.
    """
    if paid_among(tx, payment_ids):
        raise InvalidState("A transfer was faster than the payment's end; it is looked at again.")
