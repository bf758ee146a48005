"""One actor a payment: its inbox is the only door, and every change is commit → memory → tell.

Source: DESIGN.md, "5. A payment is an actor".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import structlog
import trio

from payd.actors.supervisor import in_background
from payd.actors.tending import Tending, followed_on, still_unpaid
from payd.actors.turns import Actor, Turns
from payd.chains.base import Chain, SeenTransfer
from payd.clock import Clock
from payd.core.errors import PaymentNotFound
from payd.core.event import encode_event
from payd.core.ids import is_id
from payd.core.payment import (
    STAGES,
    Payment,
    PaymentCancelled,
    Transition,
    Trigger,
    open_payment,
    stage_of,
    transition,
)
from payd.core.status import Status
from payd.entropy import Entropy, new_id
from payd.store.creations import Created, Creation, create_payments
from payd.store.db import Database, Tx
from payd.store.idempotency import IdempotentRequest, Outcome, find_replay, keep_answer
from payd.store.outbox import EventToStore
from payd.store.payments import (
    Move,
    count_parked,
    find_payment,
    next_payment_due_ms,
    record_transitions,
)
from payd.store.transfers import Transfer, match_transfers

log = structlog.get_logger("payd.payments")

T = TypeVar("T")
Also = Callable[[Tx], None]
Render = Callable[[Tx, Payment], bytes]
Keep = Callable[[Tx, Payment], None]


class TransferUsedTwice(RuntimeError):
    """A transfer that paid for something was about to pay for something again."""


@dataclass(slots=True, frozen=True)
class Tell:
    """Who hears of a change after it is stored."""

    changed: Callable[[Payment], None]
    """A payment is at a new version: pages and long polls."""

    event: Callable[[str], object]
    """An account has a new event: the account feed."""

    endpoint: Callable[[str], object]
    """A webhook endpoint is owed a delivery."""

    offered: Callable[[str], object]
    """A payment can be paid on a chain from now on, and is to be looked for there."""

    relay: Callable[[str], object]
    """The relayer of a chain is owed a job."""


class PaymentActor(Actor):
    """One awake payment."""

    __slots__ = ("_of", "payment")

    def __init__(self, key: str, of: Payments) -> None:
        super().__init__(key)
        self._of = of
        self.payment: Payment | None = None

    def forget(self) -> None:
        """Read the row again before the next turn."""
        self.payment = None

    def load(self) -> Payment:
        """The payment as stored.

        Raises:
            PaymentNotFound: There is none.
        """
        if self.payment is None:
            self.payment = self._of.db.point(find_payment, self.key)
            if self.payment is None:
                raise PaymentNotFound(f"There is no payment {self.key}.")
        return self.payment

    async def move(
        self,
        trigger: Trigger,
        *,
        also: Also | None = None,
        keep: Keep | None = None,
    ) -> Payment:
        """Move the payment by one trigger: commit → memory → tell.

        Args:
            trigger: What happened.
            also: More to write in the same transaction.
            keep: Makes and keeps the answer to who asked, in the same transaction; see `Payments.once`.

        Raises:
            InvalidState, PaymentExpired: The table has no such row.
        """
        of = self._of
        move = of.move_of(transition(self.load(), trigger, of.clock.now_ms()))

        def step(tx: Tx) -> str | None:
            (endpoint,) = record_transitions(tx, [move])
            if also is not None:
                also(tx)
            if keep is not None:
                keep(tx, move.payment)
            return endpoint

        endpoint = await of.db.write(step)
        self.payment = move.payment
        of.tell_all(move, endpoint)
        return move.payment


class Payments:
    """The payments of a realm.

    Args:
        db: The realm's store.
        clock: The realm's clock.
        chains: What can be paid with here.
        live: What events say of it.
        entropy: For ids.
        tell: Who hears of changes.
        nursery: Where turns and background work run; cancelled last.

    Attributes:
        reached: How many payments came to each of `STAGES` since the start.
    """

    def __init__(
        self,
        *,
        db: Database,
        clock: Clock,
        chains: Sequence[Chain],
        live: bool,
        entropy: Entropy,
        tell: Tell,
        nursery: trio.Nursery,
    ) -> None:
        self.db = db
        self.clock = clock
        self.chains = chains
        self.entropy = entropy
        self.nursery = nursery
        self.turns = Turns(lambda key: PaymentActor(key, self), nursery, self._bug)
        self._live = live
        self._prefix = "pay_l" if live else "pay_t"
        self._tell = tell
        self.tending = Tending(self)
        # A series that first appears with a one shows no increase: all begin with a zero.
        self.reached: dict[str, int] = dict.fromkeys(STAGES, 0)
        db.on_reload(self._reload)

    # Asking.

    def find(self, payment_id: str) -> Payment:
        """The payment at its newest stored version: from memory, or by one point read.

        Raises:
            PaymentNotFound: Unknown or malformed; they read the same.
        """
        actor = self.turns.peek(payment_id)
        # While it has a turn its row may be ahead of memory, and lists show the row.
        if actor is not None and actor.payment is not None and not actor.busy:
            return actor.payment
        if not is_id(payment_id, self._prefix):
            raise PaymentNotFound("There is no such payment.")
        payment = self.db.point(find_payment, payment_id)
        if payment is None:
            raise PaymentNotFound("There is no such payment.")
        actor = self.turns.wake(payment_id)
        if actor.payment is None and not actor.busy:
            actor.payment = payment
        return payment

    async def ask(
        self, payment_id: str, turn: Callable[[PaymentActor], Awaitable[T]], *, waits: bool = True
    ) -> T:
        """Run one turn on a payment; see `Turns.ask`."""
        return await self.turns.ask(payment_id, turn, waits=waits)

    async def in_background(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run work that goes on when the caller is cancelled, and give its result."""
        return await in_background(self.nursery, work)

    async def create(
        self,
        draft: Payment,
        request: IdempotentRequest | None,
        answer: bytes,
        *,
        also: Also | None = None,
    ) -> Outcome:
        """Create a payment, once for each idempotency key; `also` is written with it.

        Those that come at the same moment, without `also`, are stored together.

        Raises:
            NotFound: The merchant is gone.
            InvalidParams: The merchant is not active or has no destination.
            IdempotencyConflict: The key was used with another body.
        """
        move = self.move_of(open_payment(draft))
        asked = Creation(move, Outcome(201, answer), request)

        def tell(created: Created) -> None:
            if created.answer.original_request is None:
                self.turns.wake(draft.id).payment = draft
                self.tell_all(move, created.endpoint_id)

        def with_also(tx: Tx, also: Also) -> Created:
            created = create_payments(tx, [asked])[0].unwrap()
            if created.answer.original_request is None:
                also(tx)
            return created

        if also is None:
            return (await self.db.write_together(tell, create_payments, asked)).answer
        return (await self.db.write_and_tell(tell, with_also, also)).answer

    async def cancel(
        self,
        payment_id: str,
        reason: str,
        request: IdempotentRequest | None,
        render: Render,
        *,
        also: Also | None = None,
    ) -> Outcome:
        """Call a payment off on behalf of a request; see `once`. `also` is written with it.

        Raises:
            InvalidState: It is past that, or a chain shows a transfer that pays it.
        """

        def unless_paid(tx: Tx) -> None:
            still_unpaid(tx, [payment_id])
            if also is not None:
                also(tx)

        return await self.once(
            payment_id,
            lambda actor, keep: actor.move(PaymentCancelled(reason), also=unless_paid, keep=keep),
            request,
            render,
        )

    async def once(
        self,
        payment_id: str,
        turn: Callable[[PaymentActor, Keep], Awaitable[Payment]],
        request: IdempotentRequest | None,
        render: Render,
    ) -> Outcome:
        """Run a turn on behalf of a request, once for each idempotency key.

        The turn hands what it is given to its last move: the answer is made in the step of its effect, and
        kept there under the key. So nothing that fails after the commit has it look as if it was not done.
        """
        answers: list[Outcome] = []

        def keep(tx: Tx, payment: Payment) -> None:
            answers.append(Outcome(200, render(tx, payment)))
            keep_answer(tx, request, answers[-1])

        async def unless_answered(actor: PaymentActor) -> Outcome:
            replay = self.db.point(find_replay, request)
            if replay is not None:
                return replay
            await turn(actor, keep)
            return answers[-1]

        return await self.ask(payment_id, unless_answered)

    def chain_of(self, chain: str) -> Chain | None:
        """The chain that serves this CAIP-2 id."""
        for one in self.chains:
            if one.serves(chain):
                return one
        return None

    def due_at_ms(self, payment: Payment) -> int | None:
        """When the payment must be looked at next: derived from its state, kept nowhere else."""
        if payment.status is Status.REQUIRES_ACTION:
            return payment.expires_at_ms
        followed = followed_on(payment)
        chain = None if followed is None else self.chain_of(followed)
        return None if chain is None else chain.due_at_ms(payment)

    def next_due_ms(self) -> int | None:
        """When the next payment is due, in realm time."""
        return self.db.point(next_payment_due_ms)

    @property
    def parked(self) -> int:
        """How many payments were given up on and wait for a person."""
        return self.db.point(count_parked)

    def keep_transfers(self, tx: Tx, paid: Iterable[tuple[Payment, Sequence[SeenTransfer]]]) -> None:
        """Store transfers that pay payments, inside their step.

        Raises:
            TransferUsedTwice: One of them paid for another payment.
        """
        at_ms = self.clock.now_ms()
        transfers = [matched(payment, seen, at_ms) for payment, shown in paid for seen in shown]
        if not match_transfers(tx, transfers):
            among = " or ".join(one.tx_id for one in transfers)
            raise TransferUsedTwice(f"transfer {among} paid for something already")

    # Telling.

    def move_of(self, moved: Transition) -> Move:
        """A transition as it is stored. Its event is encoded: the bytes are frozen from here on."""
        at_ms = moved.occurred_at_ms
        event_id = new_id("evt_", at_ms, self.entropy)
        event = EventToStore(
            id=event_id,
            body=encode_event(moved, event_id, live=self._live),
            delivery_id=new_id("dlv_", at_ms, self.entropy),
            message_id=new_id("msg_", at_ms, self.entropy),
        )
        return Move(moved, event, self.due_at_ms(moved.payment))

    def tell_all(self, move: Move, endpoint_id: str | None) -> None:
        """Tell everyone who follows; only after the change is stored."""
        payment = move.payment
        self.reached[stage_of(payment)] += 1
        if move.due_at_ms is not None:
            self.tending.deadlines.add(payment.id, move.due_at_ms)
        self._tell.changed(payment)
        self._tell.event(payment.account_id)
        if endpoint_id is not None:
            self._tell.endpoint(endpoint_id)

    def tell_offered(self, chain: str) -> None:
        """An option on this chain was handed out."""
        self._tell.offered(chain)

    def tell_relay(self, chain: str) -> None:
        """A job for the relayer of this chain is stored."""
        self._tell.relay(chain)

    def _reload(self) -> None:
        self.turns.forget_all()
        self.tending.deadlines.reload()

    def _bug(self, payment_id: str, bug: Exception) -> None:
        log.error("payment.crashed", payment_id=payment_id, exc_info=bug)


def matched(payment: Payment, seen: SeenTransfer, at_ms: int) -> Transfer:
    """A transfer that the chain shows, as it is stored with the payment that it pays."""
    return Transfer(
        account_id=payment.account_id,
        payment_id=payment.id,
        chain=seen.chain,
        tx_id=seen.tx_id,
        log_index=seen.log_index,
        asset=seen.asset,
        value=str(seen.value),
        sender=seen.sender,
        recipient=seen.recipient,
        kind="matched",
        seen_at_ms=at_ms,
    )
