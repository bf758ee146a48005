"""Deliveries: the outbox of events owed to endpoints."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import Final, NamedTuple, TypeAlias

from payd.core import endpoint as endpoint_rules
from payd.core.endpoint import Endpoint, EndpointState
from payd.core.errors import EndpointDisabled, InvalidParams, NotFound
from payd.store.endpoints import endpoint_of_id
from payd.store.events import of_merchants

Tx: TypeAlias = sqlite3.Connection

# What is sent first when an endpoint is owed several things at once.
FRESH: Final = 0
RETRY: Final = 1
REPLAY: Final = 2
PRIORITIES: Final = (FRESH, RETRY, REPLAY)

_SEQ_MAX: Final = 2**63 - 1


class Head(NamedTuple):
    """The little that an endpoint's actor keeps of a pending delivery."""

    id: str
    payment_id: str | None
    attempts: int
    next_at_ms: int


class Work(NamedTuple):
    """What one attempt needs: the frozen bytes and where they go."""

    delivery_id: str
    message_id: str
    endpoint: Endpoint
    event_type: str
    attempts: int
    priority: int
    body: bytes


class DeliveryRow(NamedTuple):
    """One delivery as the API shows it; `attempts` counts every entry of its log."""

    seq: int
    id: str
    event_id: str | None
    event_type: str
    payment_id: str | None
    state: str
    attempts: int
    last_status: int | None
    next_at_ms: int | None
    created_at_ms: int


def owe(
    tx: Tx,
    *,
    event_seq: int,
    event_type: str,
    account_id: str,
    payment_id: str,
    delivery_id: str,
    message_id: str,
    now_ms: int,
) -> str | None:
    """Owe an event to the account's endpoint, inside the step that moves the payment.

    Nothing is owed when the account has no enabled endpoint or the endpoint did not choose this type.

    Args:
        tx: The step's transaction.
        event_seq: What `store.events.insert_event` returned in the same step.
        event_type: Such as `payment.created`.
        account_id: Whose event it is.
        payment_id: What it is about.
        delivery_id: A fresh `dlv_…`.
        message_id: A fresh `msg_…`; the `webhook-id` of every attempt.
        now_ms: The realm's time; the first attempt is due at once.

    Returns:
        The endpoint to wake with `Deliveries.wake` after the commit, or None.

    Source: SPEC.md, "Delivery rules"; DESIGN.md, "7. Events and webhooks".
    """
    endpoint = tx.execute(
        "SELECT id, events FROM endpoints WHERE account_id = ? AND state = 'enabled'", (account_id,)
    ).fetchone()
    if endpoint is None or event_type not in endpoint[1].split(" "):
        return None
    endpoint_id: str = endpoint[0]
    insert_delivery(
        tx,
        delivery_id=delivery_id,
        message_id=message_id,
        account_id=account_id,
        endpoint_id=endpoint_id,
        event_seq=event_seq,
        event_type=event_type,
        payment_id=payment_id,
        priority=FRESH,
        now_ms=now_ms,
    )
    return endpoint_id


def insert_delivery(
    tx: Tx,
    *,
    delivery_id: str,
    message_id: str,
    account_id: str,
    endpoint_id: str,
    event_seq: int,
    event_type: str,
    payment_id: str,
    priority: int,
    now_ms: int,
) -> None:
    """Store a pending delivery that is due at once."""
    tx.execute(
        "INSERT INTO deliveries (id, message_id, account_id, endpoint_id, event_seq, event_type, payment_id,"
        " kind, state, priority, next_at_ms, created_at_ms)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, 'event', 'pending', ?, ?, ?)",
        (
            delivery_id,
            message_id,
            account_id,
            endpoint_id,
            event_seq,
            event_type,
            payment_id,
            priority,
            now_ms,
            now_ms,
        ),
    )


def endpoints_with_pending(tx: Tx) -> list[str]:
    """Every endpoint that is owed something, now or later; one index look-up for each."""
    rows = tx.execute(
        "WITH RECURSIVE owed (id) AS ("
        " SELECT min(endpoint_id) FROM deliveries WHERE state = 'pending'"
        " UNION ALL SELECT (SELECT min(endpoint_id) FROM deliveries"
        "  WHERE state = 'pending' AND endpoint_id > owed.id) FROM owed WHERE owed.id IS NOT NULL"
        ") SELECT id FROM owed WHERE id IS NOT NULL"
    )
    return [endpoint_id for (endpoint_id,) in rows]


def pending_heads(tx: Tx, endpoint_id: str, priority: int, limit: int) -> list[Head]:
    """The first pending deliveries of an endpoint by due time, also those that are not due yet."""
    rows = tx.execute(
        "SELECT id, payment_id, attempts, next_at_ms FROM deliveries"
        " WHERE state = 'pending' AND endpoint_id = ? AND priority = ? ORDER BY next_at_ms, seq LIMIT ?",
        (endpoint_id, priority, limit),
    )
    return [Head(*row) for row in rows]


def next_due_ms(tx: Tx) -> int | None:
    """When the realm's next attempt is due, or None when nothing is owed to anyone."""
    (at_ms,) = tx.execute("SELECT min(next_at_ms) FROM deliveries WHERE state = 'pending'").fetchone()
    return None if at_ms is None else int(at_ms)


def load_work(tx: Tx, delivery_id: str) -> Work | None:
    """What an attempt of this delivery needs, as things are now; None when it is no delivery of an event."""
    row = tx.execute(
        "SELECT d.message_id, d.endpoint_id, d.event_type, d.attempts, d.priority, e.body FROM deliveries d"
        " JOIN events e ON e.seq = d.event_seq WHERE d.id = ?",
        (delivery_id,),
    ).fetchone()
    if row is None:
        return None
    message_id, endpoint_id, event_type, attempts, priority, body = row
    endpoint = endpoint_of_id(tx, endpoint_id)
    assert endpoint is not None, "endpoints are marked deleted, never removed"
    return Work(delivery_id, message_id, endpoint, event_type, attempts, priority, body)


def load_due_work(tx: Tx, delivery_id: str, now_ms: int) -> Work | None:
    """As `load_work`, if the delivery is still pending, due, and its endpoint enabled."""
    row = tx.execute("SELECT state, next_at_ms FROM deliveries WHERE id = ?", (delivery_id,)).fetchone()
    if row is None or row[0] != "pending" or row[1] > now_ms:
        return None
    work = load_work(tx, delivery_id)
    return work if work is not None and work.endpoint.state is EndpointState.ENABLED else None


def postpone(tx: Tx, delivery_id: str, next_at_ms: int) -> None:
    """Put a pending delivery off without an attempt: something on this side broke."""
    tx.execute(
        "UPDATE deliveries SET next_at_ms = ? WHERE id = ? AND state = 'pending'", (next_at_ms, delivery_id)
    )


def requeue(tx: Tx, delivery_id: str, now_ms: int) -> None:
    """Owe a failed or cancelled delivery once more, behind everything else and with all its attempts."""
    tx.execute(
        "UPDATE deliveries SET state = 'pending', reason = NULL, attempts = 0, priority = ?, next_at_ms = ?"
        " WHERE id = ? AND state IN ('failed', 'cancelled')",
        (REPLAY, now_ms, delivery_id),
    )


def check_resend(tx: Tx, account_id: str, delivery_id: str, now_ms: int) -> str:
    """The endpoint to which this delivery may be sent once more by hand.

    Raises:
        NotFound: The account has no such delivery, or it was a test.
        EndpointDisabled: Its endpoint is disabled or deleted.
        InvalidParams: It is older than `core.endpoint.REPLAY_REACH_MS`.

    Source: SPEC.md, "Delivery rules".
    """
    row = tx.execute(
        "SELECT d.endpoint_id, p.state, e.created_at_ms FROM deliveries d"
        " JOIN events e ON e.seq = d.event_seq JOIN endpoints p ON p.id = d.endpoint_id"
        " WHERE d.id = ? AND d.account_id = ?",
        (delivery_id, account_id),
    ).fetchone()
    if row is None:
        raise NotFound("There is no such delivery of an event.")
    endpoint_id, state, created_at_ms = row
    if state != EndpointState.ENABLED:
        raise EndpointDisabled(f"The delivery's endpoint is {state}.")
    if created_at_ms < now_ms - endpoint_rules.REPLAY_REACH_MS:
        raise InvalidParams("The event is older than 14 days and cannot be sent again.")
    return str(endpoint_id)


_ROW: Final = (
    "SELECT d.seq, d.id, (SELECT e.id FROM events e WHERE e.seq = d.event_seq), d.event_type, d.payment_id,"
    " d.state, (SELECT count(*) FROM attempts a WHERE a.delivery_id = d.id), d.last_status, d.next_at_ms,"
    " d.created_at_ms FROM deliveries d WHERE "
)


def list_deliveries(
    tx: Tx,
    account_id: str,
    *,
    state: str | None = None,
    payment_id: str | None = None,
    merchants: Collection[str] | None = None,
    before_seq: int | None = None,
    limit: int,
) -> list[DeliveryRow]:
    """A page of the account's deliveries, newest first, older than `before_seq`.

    With `merchants`, only of theirs; test deliveries are of no merchant.
    """
    where = "d.account_id = ? AND d.seq < ?"
    values: list[str | int] = [account_id, _SEQ_MAX if before_seq is None else before_seq]
    if state is not None:
        where += " AND d.state = ?"
        values.append(state)
    if payment_id is not None:
        # By way of its events, which have an index on the payment.
        where += " AND d.event_seq IN (SELECT seq FROM events WHERE payment_id = ?)"
        values.append(payment_id)
    if merchants is not None:
        where += f" AND d.{of_merchants(merchants)}"
        values += merchants
    rows = tx.execute(f"{_ROW}{where} ORDER BY d.seq DESC LIMIT ?", (*values, limit))
    return [DeliveryRow(*row) for row in rows]


def find_delivery(tx: Tx, account_id: str, delivery_id: str) -> DeliveryRow | None:
    """One delivery of the account; its log is in `store.attempts`."""
    row = tx.execute(f"{_ROW}d.id = ? AND d.account_id = ?", (delivery_id, account_id)).fetchone()
    return None if row is None else DeliveryRow(*row)
