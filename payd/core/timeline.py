"""What happened to a payment, as one list: what moved it and why, what was offered, seen, told and sent.

Each kind of entry is a type of its own, with a time in the realm's milliseconds. At the same millisecond a
cause comes before what follows from it.

Source: DESIGN.md, "5. A payment is an actor"; DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from payd.core.payment import TRANSITIONS, Payment, Trigger
from payd.core.status import Status


class Entry(msgspec.Struct, frozen=True):
    """Something that happened then. `rank` is its place among what happened in the same millisecond."""

    rank: ClassVar[int] = 0
    at_ms: int


class QuoteOut(msgspec.Struct, frozen=True):
    """A quote as it was handed out; the amount in smallest units."""

    option_id: str
    asset: str
    account: str
    amount: int
    destination: str
    valid_until_ms: int


class Offered(Entry, frozen=True):
    """A wallet asked for options and was handed these; what it was told again is not there twice."""

    rank = 0
    quotes: tuple[QuoteOut, ...]

    @property
    def accounts(self) -> tuple[str, ...]:
        """For which accounts."""
        return tuple(dict.fromkeys(quote.account for quote in self.quotes))


class Answered(Entry, frozen=True):
    """The buyer answered what the merchant asks."""

    rank = 1


class Built(Entry, frozen=True):
    """A transaction was built for a wallet to sign."""

    rank = 2
    chain: str
    account: str


class WalletTold(Entry, frozen=True):
    """A wallet said that it sent this transaction; nobody need believe it."""

    rank = 3
    tx_id: str


class Relayed(Entry, frozen=True):
    """The house brought something to a chain for the buyer.

    Attributes:
        stage: owed: what the buyer signed was stored; sent: to the chain's nodes; ended: nothing more is to
            come of it.
        tx_id: Of the transaction, once there is one.
        words: How it ended, or why it did.
    """

    rank = 4
    stage: str
    chain: str
    tx_id: str | None
    words: str


class TransferSeen(Entry, frozen=True):
    """A chain showed a transfer.

    Attributes:
        kind: What it is for the payment: matched, late, partial, surplus, unmatched.
        value: Smallest units.
        confirmations: Blocks from its own to the newest that was read, both counted; None: not on a chain.
        on_chain: Whether it still is there, as far as was read.
        by_hand: It is for this payment because a person said so.
    """

    rank = 5
    chain: str
    tx_id: str
    asset: str
    value: int
    sender: str
    kind: str
    confirmations: int | None
    on_chain: bool
    by_hand: bool


class Acted(Entry, frozen=True):
    """A person or a key did something to it."""

    rank = 6
    actor: str
    act: str
    details: Mapping[str, Any]


class Moved(Entry, frozen=True):
    """A new version of the payment.

    Attributes:
        event_type: What it is called on the wire.
        cause: The trigger, in words.
        detail: The reason, the buyer or the transaction; empty: there is none.
    """

    rank = 7
    version: int
    status: Status
    event_type: str
    cause: str
    detail: str


class EventKept(Entry, frozen=True):
    """The event that the merchant is told, frozen; gone when it has become old."""

    rank = 8
    event_id: str
    event_type: str
    version: int


class DeliveryOwed(Entry, frozen=True):
    """The event is owed to an endpoint; the state and the rest are as they are now."""

    rank = 9
    delivery_id: str
    event_type: str
    endpoint_id: str
    state: str
    reason: str | None
    next_at_ms: int | None


class DeliveryTried(Entry, frozen=True):
    """One HTTP request of a delivery, and how it ended; `fault` is what was done to it on purpose."""

    rank = 10
    delivery_id: str
    event_type: str
    n: int
    trigger: str
    status: int | None
    error_class: str | None
    error: str | None
    duration_ms: int
    fault: str | None = None


class Refunded(Entry, frozen=True):
    """The merchant said that it paid the money back."""

    rank = 11
    tx_id: str | None
    note: str | None


class Parked(Entry, frozen=True):
    """Its supervisor gave it up; a person is needed."""

    rank = 12


class KeptEvent(NamedTuple):
    """What of a stored event a timeline needs."""

    id: str
    version: int
    type: str
    created_at_ms: int


def transitions_of(payment: Payment, events: Iterable[KeptEvent]) -> list[Moved]:
    """Every version of a payment, oldest first, also those whose event is not kept any more.

    Each transition fills one block of the payment, so the blocks alone tell the versions.
    """
    kept = {event.version: event.created_at_ms for event in events}
    moves: list[Moved] = []
    before: Status | None = None
    last_ms = 0
    for version, (at_ms, event_type, detail) in enumerate(_stages(payment)):
        trigger, after = _CAUSES[before, event_type]
        # Without its event: a block may have the time of its chain, and versions are in order all the same.
        last_ms = kept.get(version, max(at_ms, last_ms))
        moves.append(Moved(last_ms, version, after, event_type, trigger.name, detail))
        before = after
    assert len(moves) == payment.version + 1, "one block a transition"
    return moves


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """By time; causes before what follows from them; else as they came."""
    return sorted(entries, key=lambda entry: (entry.at_ms, entry.rank))


_CAUSES: Final[dict[tuple[Status | None, str], tuple[type[Trigger], Status]]] = {
    (before, event_type): (trigger, after) for (before, trigger), (after, event_type) in TRANSITIONS.items()
}


def _stages(payment: Payment) -> list[tuple[int, str, str]]:
    """When, the event's type, and the detail of each transition, in the order in which they can come."""
    stages = [(payment.created_at_ms, "payment.created", "")]
    if (processing := payment.processing) is not None:
        stages.append((processing.processing_at_ms, "payment.processing", processing.buyer or ""))
    if (success := payment.success) is not None:
        stages.append((success.succeeded_at_ms, "payment.succeeded", success.tx_id or ""))
    if (failed := payment.failed) is not None:
        stages.append((failed.failed_at_ms, "payment.failed", failed.reason))
    if (cancelled := payment.cancelled) is not None:
        stages.append((cancelled.cancelled_at_ms, "payment.cancelled", cancelled.reason))
    if (expired := payment.expired) is not None:
        stages.append((expired.expired_at_ms, "payment.expired", ""))
    if (settled := payment.settled) is not None:
        stages.append((settled.settled_at_ms, "payment.settled", settled.tx_id or ""))
    return stages
