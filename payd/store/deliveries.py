"""Deliveries: the outbox of events owed to endpoints."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from payd.core import endpoint as endpoint_rules
from payd.core.endpoint import Endpoint, EndpointState
from payd.core.errors import EndpointDisabled, InvalidParams, NotFound
from payd.core.event import iso_ms
from payd.core.fault import HELD
from payd.core.retry import JITTER_MAX_S, RETRY_AFTER_EXTRA_MAX_S, RETRY_DELAYS_S, next_attempt_at_ms
from payd.store.endpoints import SealedSecret, endpoint_of_id, secrets_of
from payd.store.events import of_merchants, sold_few
from payd.store.rows import SEQ_MAX, find_rows, insert_rows

Tx: TypeAlias = sqlite3.Connection
MessageKind: TypeAlias = Literal["notice", "canary"]

# What is sent first when an endpoint is owed several things at once, but for the turns of the others.
FRESH: Final = 0
RETRY: Final = 1
REPLAY: Final = 2
PRIORITIES: Final = (FRESH, RETRY, REPLAY)


class Head(NamedTuple):
    """The little that an endpoint's actor keeps of a pending delivery."""

    id: str
    payment_id: str | None
    attempts: int
    next_at_ms: int


class Work(NamedTuple):
    """What one attempt needs: the frozen bytes, where they go, and what signs them."""

    delivery_id: str
    message_id: str
    event_type: str
    kind: str
    attempts: int
    priority: int
    created_at_ms: int
    body: bytes
    endpoint: Endpoint
    secrets: Sequence[SealedSecret]


class NewDelivery(NamedTuple):
    """An event that an endpoint is owed from `now_ms` on."""

    id: str
    message_id: str
    account_id: str
    endpoint_id: str
    event_seq: int
    event_type: str
    payment_id: str
    priority: int
    now_ms: int


class DeliveryRow(NamedTuple):
    """One delivery as the API shows it; `attempts` counts every entry of its log."""

    seq: int
    id: str
    event_id: str | None
    event_type: str
    payment_id: str | None
    state: str
    reason: str | None
    attempts: int
    last_status: int | None
    next_at_ms: int | None
    created_at_ms: int
    event_seq: int | None
    message_id: str
    endpoint_state: str


def endpoint_wanting(tx: Tx, account_id: str, event_type: str) -> str | None:
    """The account's endpoint, if it is on or paused and chose this type."""
    endpoint = tx.execute(
        "SELECT id, events FROM endpoints WHERE account_id = ? AND state IN ('enabled', 'paused')",
        (account_id,),
    ).fetchone()
    return None if endpoint is None or event_type not in endpoint[1].split(" ") else str(endpoint[0])


def insert_deliveries(tx: Tx, new: Sequence[NewDelivery]) -> None:
    """Store pending deliveries that are due at once; at least one."""
    insert_rows(
        tx,
        "INSERT INTO deliveries (id, message_id, account_id, endpoint_id, event_seq, event_type, payment_id,"
        " priority, next_at_ms, created_at_ms, kind, state)",
        [(*one, one.now_ms, "event", "pending") for one in new],
    )


def owe_message(
    tx: Tx,
    *,
    endpoint_id: str,
    kind: MessageKind,
    event_type: str,
    body: bytes,
    delivery_id: str,
    message_id: str,
    now_ms: int,
) -> bool:
    """Owe something that is no account's event to an endpoint of the house. Returns whether that is on."""
    endpoint = endpoint_of_id(tx, endpoint_id)
    if endpoint is None or endpoint.state is not EndpointState.ENABLED:
        return False
    tx.execute(
        "INSERT INTO deliveries (id, message_id, account_id, endpoint_id, event_type, body, kind, state,"
        " priority, next_at_ms, created_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, 'pending', ?, ?, ?)",
        (
            delivery_id,
            message_id,
            endpoint.account_id,
            endpoint_id,
            event_type,
            body,
            kind,
            FRESH,
            now_ms,
            now_ms,
        ),
    )
    return True


# Every endpoint that is owed something, and those of them that are not on hold; one index look-up for each.
_EACH: Final = (
    "WITH RECURSIVE each_of (id) AS ("
    " SELECT min(endpoint_id) FROM deliveries WHERE state = 'pending'"
    " UNION ALL SELECT (SELECT min(endpoint_id) FROM deliveries"
    "  WHERE state = 'pending' AND endpoint_id > each_of.id) FROM each_of WHERE each_of.id IS NOT NULL)"
)
_OWED: Final = (
    f"{_EACH}, owed AS (SELECT id, state, failing_since_ms FROM each_of JOIN endpoints USING (id)"
    " WHERE endpoints.state <> 'paused') "
)


def endpoints_with_pending(tx: Tx) -> list[str]:
    """Every endpoint that is owed something, now or later, but for those on hold."""
    return [endpoint_id for (endpoint_id,) in tx.execute(f"{_OWED}SELECT id FROM owed")]


def pending_heads(tx: Tx, endpoint_id: str, priority: int, limit: int) -> list[Head]:
    """The first pending deliveries of an endpoint by due time, also those that are not due yet."""
    rows = tx.execute(
        "SELECT id, payment_id, attempts, next_at_ms FROM deliveries"
        " WHERE state = 'pending' AND endpoint_id = ? AND priority = ? ORDER BY next_at_ms, seq LIMIT ?",
        (endpoint_id, priority, limit),
    )
    return [Head(*row) for row in rows]


def next_due_ms(tx: Tx, after_ms: int = -1) -> int | None:
    """When the realm's next attempt is due, or None when nothing is owed to anyone who is not on hold.

    Args:
        tx: A connection.
        after_ms: Of those that are due later than this, in the realm's time.
    """
    (at_ms,) = tx.execute(
        f"{_OWED}SELECT min((SELECT min(next_at_ms) FROM deliveries WHERE state = 'pending'"
        " AND endpoint_id = owed.id AND priority = p.column1 AND next_at_ms > ?))"
        " FROM owed, (VALUES (0), (1), (2)) p",
        (after_ms,),
    ).fetchone()
    return None if at_ms is None else int(at_ms)


class Overdue(NamedTuple):
    """An endpoint that is owed something: since when, and whether the endpoint itself works."""

    endpoint_id: str
    due_at_ms: int
    is_healthy: bool


def overdue(tx: Tx, before_ms: int, claimed: Collection[str]) -> list[Overdue]:
    """The endpoints to which something was due before that and is not being sent, with the oldest of it.

    Args:
        tx: A connection.
        before_ms: The realm's time.
        claimed: The deliveries that are being sent.
    """
    found = []
    for endpoint_id, failing_since_ms in tx.execute(
        f"{_OWED}SELECT id, failing_since_ms FROM owed"
    ).fetchall():
        heads = [
            head
            for priority in PRIORITIES
            for head in pending_heads(tx, endpoint_id, priority, len(claimed) + 1)
            if head.id not in claimed
        ]
        oldest_ms = min((head.next_at_ms for head in heads), default=before_ms)
        if oldest_ms < before_ms:
            found.append(Overdue(endpoint_id, oldest_ms, failing_since_ms is None))
    return found


def count_pending(tx: Tx) -> int:
    """How many deliveries are pending. Reads an index entry for each: not for a request."""
    (count,) = tx.execute("SELECT count(*) FROM deliveries WHERE state = 'pending'").fetchone()
    return int(count)


_WORK: Final = (
    "SELECT d.id, d.message_id, d.event_type, d.kind, d.attempts, d.priority, d.created_at_ms,"
    " coalesce(d.body, e.body), d.endpoint_id FROM deliveries d LEFT JOIN events e ON e.seq = d.event_seq"
    " WHERE"
)


def load_work(tx: Tx, delivery_id: str) -> Work | None:
    """What an attempt of this delivery needs, as things are now; None for a test or one that is not there."""
    row = tx.execute(f"{_WORK} d.id = ? AND d.kind <> 'test'", (delivery_id,)).fetchone()
    if row is None:
        return None
    *found, endpoint_id = row
    endpoint = endpoint_of_id(tx, endpoint_id)
    assert endpoint is not None, "endpoints are marked deleted, never removed"
    return Work._make((*found, endpoint, secrets_of(tx, endpoint_id)))


def load_due_work(tx: Tx, endpoint_id: str, delivery_ids: Collection[str], now_ms: int) -> dict[str, Work]:
    """As `load_work`, by id, of those of an endpoint's deliveries that are still pending and due.

    There are none unless the endpoint is enabled.
    """
    endpoint = endpoint_of_id(tx, endpoint_id)
    if endpoint is None or endpoint.state is not EndpointState.ENABLED:
        return {}
    secrets = secrets_of(tx, endpoint_id)
    marks = ",".join("?" * len(delivery_ids))
    rows = tx.execute(
        f"{_WORK} d.id IN ({marks}) AND d.state = 'pending' AND d.next_at_ms <= ?", (*delivery_ids, now_ms)
    )
    return {row[0]: Work._make((*row[:-1], endpoint, secrets)) for row in rows}


# The longest that a delivery may wait after so many attempts.
_LONGEST_MS: Final = "CASE attempts {} ELSE 0 END".format(
    " ".join(
        f"WHEN {made} THEN {(delay_s + RETRY_AFTER_EXTRA_MAX_S + JITTER_MAX_S) * 1000}"
        for made, delay_s in enumerate(RETRY_DELAYS_S)
        if made
    )
)

# Whether a fault holds it back, since a moment that is not after this one.
_IS_HELD: Final = (
    "coalesce((SELECT a.fault IN ({}) AND a.at_ms <= ? FROM attempts a WHERE a.delivery_id = deliveries.id"
    " ORDER BY a.seq DESC LIMIT 1), FALSE)"
).format(", ".join(f"'{kind}'" for kind in sorted(HELD)))


def astray(tx: Tx, now_ms: int, limit: int) -> list[Head]:
    """Some of the deliveries that are due further away than the schedule takes them, also of those on hold.

    The wall clock was ahead when they were put off, and was set back since. What is held back on purpose, by
    today's clock, is none of them. Reads an index entry for each delivery that is not due yet.
    """
    rows: list[Head] = []
    for (endpoint_id,) in tx.execute(f"{_EACH} SELECT id FROM each_of WHERE id IS NOT NULL").fetchall():
        for priority in PRIORITIES:
            found = tx.execute(
                "SELECT id, payment_id, attempts, next_at_ms FROM deliveries WHERE state = 'pending'"
                f" AND endpoint_id = ? AND priority = ? AND next_at_ms > ? AND next_at_ms > ? + {_LONGEST_MS}"
                f" AND NOT {_IS_HELD} LIMIT ?",
                (endpoint_id, priority, now_ms, now_ms, now_ms, limit - len(rows)),
            )
            rows += (Head(*row) for row in found)
    return rows


def bring_back(tx: Tx, heads: Collection[Head], now_ms: int) -> None:
    """Have these wait one step of the schedule from now on, as after the attempt that they had last."""
    tx.executemany(
        "UPDATE deliveries SET next_at_ms = ? WHERE id = ? AND state = 'pending'",
        [(next_attempt_at_ms(head.attempts, now_ms), head.id) for head in heads],
    )


def postpone(tx: Tx, delivery_id: str, next_at_ms: int) -> None:
    """Put a pending delivery off without an attempt: something on this side broke."""
    tx.execute(
        "UPDATE deliveries SET next_at_ms = max(next_at_ms, ?) WHERE id = ? AND state = 'pending'",
        (next_at_ms, delivery_id),
    )


def count_owed(tx: Tx, delivery_ids: Sequence[str]) -> int:
    """How many of some deliveries wait for an attempt."""
    owed = "SELECT 1 FROM asked CROSS JOIN deliveries d ON d.id = asked.column1 WHERE d.state = 'pending'"
    return len(find_rows(tx, owed, [(each,) for each in delivery_ids]))


def requeue(tx: Tx, delivery_id: str, now_ms: int) -> None:
    """Owe a failed or cancelled delivery once more, as a replay and with all its attempts."""
    tx.execute(
        "UPDATE deliveries SET state = 'pending', reason = NULL, attempts = 0, priority = ?, next_at_ms = ?"
        " WHERE id = ? AND state IN ('failed', 'cancelled')",
        (REPLAY, now_ms, delivery_id),
    )


def check_resend(tx: Tx, account_id: str, delivery_id: str, now_ms: int) -> str:
    """The endpoint to which this delivery may be sent once more by hand.

    Raises:
        NotFound: The account has no such delivery, or it was a test.
        EndpointDisabled: Its endpoint is paused, disabled or deleted; the message says what to do.
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
    if created_at_ms < now_ms - endpoint_rules.REPLAY_REACH_MS:
        raise InvalidParams("The event is older than 14 days and cannot be sent again.")
    if state != EndpointState.ENABLED:
        raise EndpointDisabled(_WAYS_OUT[state].format(since=iso_ms(created_at_ms)))
    return str(endpoint_id)


_WAYS_OUT: Final = {
    EndpointState.PAUSED: "The delivery's endpoint is paused; POST /v1/webhooks/endpoint/resume first.",
    EndpointState.DISABLED: "The delivery's endpoint is disabled; POST /v1/webhooks/endpoint/enable first.",
    EndpointState.DELETED: (
        "The delivery belonged to an endpoint that was deleted. Send its event to the present one:"
        " POST /v1/webhooks/replay-missing since {since}."
    ),
}


_ROW: Final = (
    "SELECT d.seq, d.id, (SELECT e.id FROM events e WHERE e.seq = d.event_seq), d.event_type, d.payment_id,"
    " d.state, d.reason, (SELECT count(*) FROM attempts a WHERE a.delivery_id = d.id), d.last_status,"
    " d.next_at_ms, d.created_at_ms, d.event_seq, d.message_id,"
    " (SELECT p.state FROM endpoints p WHERE p.id = d.endpoint_id) FROM deliveries d WHERE "
)


def narrow(
    tx: Tx,
    where: list[str],
    values: list[str | int],
    payment_id: str | None,
    merchants: Collection[str] | None,
) -> bool:
    """Add what leaves only the deliveries of a payment, and of these merchants, to a query's conditions and
    their values. Whether that leaves so few that they are found by their events sooner than by an index.
    """
    if payment_id is not None:
        where.append(f"seq IN ({_OF_EVENTS} WHERE e.payment_id = ?)")
        values.append(payment_id)
    if merchants is None:
        return payment_id is not None
    values += merchants
    if not sold_few(tx, merchants):
        where.append(of_merchants("payment_id", merchants))
        return payment_id is not None
    marks = ",".join("?" * len(merchants))
    where.append(
        f"seq IN ({_OF_EVENTS} JOIN payments p ON p.id = e.payment_id WHERE p.merchant_id IN ({marks}))"
    )
    return True


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
    where = ["account_id = ?", "seq < ?"]
    values: list[str | int] = [account_id, SEQ_MAX if before_seq is None else before_seq]
    if state is not None:
        where.append("state = ?")
        values.append(state)
    is_few = narrow(tx, where, values, payment_id, merchants)
    road = (
        "NOT INDEXED" if is_few else f"INDEXED BY deliveries_{'of_account' if state is None else 'by_state'}"
    )
    rows = tx.execute(
        f"{_ROW}d.seq IN (SELECT seq FROM deliveries {road} WHERE {' AND '.join(where)}"
        " ORDER BY seq DESC LIMIT ?) ORDER BY d.seq DESC",
        (*values, limit),
    )
    return [DeliveryRow(*row) for row in rows]


# By way of their events, which have an index on the payment.
_OF_EVENTS: Final = "SELECT o.seq FROM events e JOIN deliveries o ON o.event_seq = e.seq"

_NAMED: Final = {
    "msg": "d.message_id = ?",
    "evt": "d.event_seq = (SELECT e.seq FROM events e WHERE e.id = ?)",
}
"""What finds a delivery by another id than its own, which a receiver does not have."""


def find_delivery(tx: Tx, account_id: str, any_id: str) -> DeliveryRow | None:
    """One delivery of the account; its log is in `store.attempts`.

    Args:
        tx: A connection.
        account_id: Whose.
        any_id: Its own id, its webhook-id (`msg_…`), or that of its event (`evt_…`), which means the newest
            if that was owed to several endpoints, one after the other.
    """
    by = _NAMED.get(any_id.partition("_")[0], "d.id = ?")
    # The plus keeps the planner from walking through the account's deliveries for the sake of their order.
    found = tx.execute(
        f"{_ROW}{by} AND +d.account_id = ? ORDER BY d.seq DESC LIMIT 1", (any_id, account_id)
    ).fetchone()
    return None if found is None else DeliveryRow(*found)
