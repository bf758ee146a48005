"""One new payment put into the store, where many at once are not the point."""

from __future__ import annotations

from payd.core.payment import Transition
from payd.store.creations import insert_payments
from payd.store.db import Tx
from payd.store.outbox import EventToStore
from payd.store.payments import Move


def insert_payment(tx: Tx, moved: Transition, event: EventToStore, due_at_ms: int | None) -> str | None:
    """Store a new payment with its first event. Returns the webhook endpoint to tell, if one is owed it."""
    return insert_payments(tx, [Move(moved, event, due_at_ms)])[0]
