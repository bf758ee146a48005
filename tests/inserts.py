"""One payment or transfer put into the store, or moved there, where many at once are not the point."""

from __future__ import annotations

from payd.core.payment import Transition
from payd.store.creations import insert_payments
from payd.store.db import Tx
from payd.store.outbox import EventToStore
from payd.store.payments import Move, record_transitions
from payd.store.transfers import Transfer, match_transfers


def insert_payment(tx: Tx, moved: Transition, event: EventToStore, due_at_ms: int | None) -> str | None:
    """Store a new payment with its first event. Returns the webhook endpoint to tell, if one is owed it."""
    return insert_payments(tx, [Move(moved, event, due_at_ms)])[0]


def record_transition(tx: Tx, moved: Transition, event: EventToStore, due_at_ms: int | None) -> str | None:
    """Store a transition with its event. Returns the webhook endpoint to tell, if one is owed it."""
    return record_transitions(tx, [Move(moved, event, due_at_ms)])[0]


def insert_transfer(tx: Tx, transfer: Transfer) -> bool:
    """Store a transfer of any kind. Returns False when it is known to pay for something else."""
    return match_transfers(tx, [transfer])
