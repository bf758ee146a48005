"""The outbox: events as they happen, each with the delivery that is owed for it, in one transaction.

Source: DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache, partial
from typing import NamedTuple, TypeAlias

import msgspec

from payd.core.payment import Transition
from payd.store.deliveries import FRESH, NewDelivery, endpoint_wanting, insert_deliveries
from payd.store.events import insert_events

Tx: TypeAlias = sqlite3.Connection


class EventToStore(msgspec.Struct, frozen=True):
    """A transition's event: its frozen bytes, and ids for it and for the delivery it may owe."""

    id: str
    body: bytes
    delivery_id: str
    message_id: str


class NewEvent(NamedTuple):
    """An event, and ids for the delivery it may owe: `message_id` is the `webhook-id` of every attempt."""

    id: str
    account_id: str
    payment_id: str
    version: int
    type: str
    created_at_ms: int
    body: bytes
    delivery_id: str
    message_id: str


def event_of(moved: Transition, event: EventToStore) -> NewEvent:
    """The event of a transition as `put_out` takes it."""
    payment = moved.payment
    return NewEvent(
        event.id,
        payment.account_id,
        payment.id,
        payment.version,
        moved.event_type,
        moved.occurred_at_ms,
        event.body,
        event.delivery_id,
        event.message_id,
    )


def put_out(tx: Tx, new: Sequence[NewEvent]) -> list[str | None]:
    """Store events, at least one, in the step in which they happen, and owe each to its account's endpoint.

    Nothing is owed where an account has no endpoint that is on or paused, or it did not choose this type. The
    first attempt is due at once.

    Returns:
        For each the endpoint to tell of it after the commit, by `Deliveries.note_owed`, or None.

    Raises:
        sqlite3.IntegrityError: This version of a payment has an event; two writers own the payment.

    Source: SPEC.md, "Delivery rules"; DESIGN.md, "7. Events and webhooks".
    """
    seqs = insert_events(
        tx,
        [
            (one.id, one.account_id, one.payment_id, one.version, one.type, one.created_at_ms, one.body)
            for one in new
        ],
    )
    wanting = cache(partial(endpoint_wanting, tx))
    endpoints = [wanting(one.account_id, one.type) for one in new]
    owed = [
        NewDelivery(
            one.delivery_id,
            one.message_id,
            one.account_id,
            endpoint_id,
            seq,
            one.type,
            one.payment_id,
            FRESH,
            one.created_at_ms,
        )
        for one, endpoint_id, seq in zip(new, endpoints, seqs, strict=True)
        if endpoint_id is not None
    ]
    if owed:
        insert_deliveries(tx, owed)
    return endpoints
