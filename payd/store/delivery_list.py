"""Deliveries as a person looks through them: filters that combine, pages that stay, what is new, their bytes.

Source: DESIGN.md, "11. Pages"; DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from payd.store.rows import SEQ_MAX

Tx: TypeAlias = sqlite3.Connection

# More than this is shown as "more than": nobody counts on, and the look stays short.
COUNT_MAX: Final = 1000
# Endpoints that an account had, one after the other; the newest are what a person looks for.
ENDPOINTS_MAX: Final = 20


class DeliveryFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which deliveries of an account are shown; None: any."""

    account_id: str
    endpoint_id: str | None = None
    state: str | None = None
    event_type: str | None = None
    payment_id: str | None = None
    since_ms: int | None = None


class Listed(NamedTuple):
    """A delivery in a list.

    Attributes:
        kind: event or test.
        tries: By the schedule, which has so many; sends by hand are none of them.
        logged: Every request.
        status: Of the last answer.
        error_class: Of the last attempt; None where it was a success, or where there was none.
        took_ms: Of the last attempt.
    """

    seq: int
    id: str
    message_id: str
    kind: str
    event_type: str
    event_id: str | None
    payment_id: str | None
    state: str
    reason: str | None
    tries: int
    logged: int
    status: int | None
    error_class: str | None
    took_ms: int | None
    next_at_ms: int | None
    created_at_ms: int
    endpoint_id: str
    endpoint_url: str
    endpoint_state: str


_LAST: Final = "(SELECT a.{} FROM attempts a WHERE a.delivery_id = d.id ORDER BY a.seq DESC LIMIT 1)"
_LISTED: Final = (
    "SELECT d.seq, d.id, d.message_id, d.kind, d.event_type,"
    " (SELECT e.id FROM events e WHERE e.seq = d.event_seq), d.payment_id, d.state, d.reason, d.attempts,"
    " (SELECT count(*) FROM attempts a WHERE a.delivery_id = d.id), d.last_status,"
    f" {_LAST.format('error_class')}, {_LAST.format('duration_ms')}, d.next_at_ms, d.created_at_ms,"
    " p.id, p.url, p.state FROM deliveries d JOIN endpoints p ON p.id = d.endpoint_id "
)


def page_of_deliveries(tx: Tx, chosen: DeliveryFilter, before_seq: int | None, limit: int) -> list[Listed]:
    """A page of deliveries, newest first, older than `before_seq`."""
    where, values = _where(chosen)
    # The page is found by an index, before any row is read.
    rows = tx.execute(
        f"{_LISTED} WHERE d.seq IN (SELECT seq FROM deliveries {_road(chosen)} WHERE {where} AND seq < ?"
        " ORDER BY seq DESC LIMIT ?) ORDER BY d.seq DESC",
        (*values, SEQ_MAX if before_seq is None else before_seq, limit),
    )
    return [Listed(*row) for row in rows]


def deliveries_again(tx: Tx, account_id: str, ids: Sequence[str]) -> list[Listed]:
    """These deliveries as they are now, those of the account."""
    marks = ",".join("?" * len(ids))
    # The plus keeps the planner from walking through all of the account's for the sake of their order.
    rows = tx.execute(f"{_LISTED} WHERE d.id IN ({marks}) AND +d.account_id = ?", (*ids, account_id))
    return [Listed(*row) for row in rows]


def one_listed(tx: Tx, account_id: str, delivery_id: str) -> Listed | None:
    """One delivery of the account."""
    return next(iter(deliveries_again(tx, account_id, [delivery_id])), None)


def count_newer(tx: Tx, chosen: DeliveryFilter, after_seq: int) -> int:
    """How many of these came behind that one, counted up to `COUNT_MAX`."""
    where, values = _where(chosen)
    (count,) = tx.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM deliveries {_road(chosen)} WHERE {where} AND seq > ? LIMIT ?)",
        (*values, after_seq, COUNT_MAX),
    ).fetchone()
    return int(count)


class Owed(NamedTuple):
    """How many deliveries of an endpoint wait, and how many failed for good; counted up to `COUNT_MAX`."""

    pending: int
    failed: int


def owed_to(tx: Tx, account_id: str, endpoint_id: str) -> Owed:
    """What stands open with an endpoint; tests aside."""

    def count(state: str) -> int:
        (found,) = tx.execute(
            "SELECT count(*) FROM (SELECT 1 FROM deliveries WHERE account_id = ? AND state = ?"
            " AND endpoint_id = ? AND kind = 'event' LIMIT ?)",
            (account_id, state, endpoint_id, COUNT_MAX),
        ).fetchone()
        return int(found)

    return Owed(count("pending"), count("failed"))


def body_of(tx: Tx, account_id: str, delivery_id: str) -> bytes:
    """The bytes that every attempt of a delivery of the account sends; empty when the event is pruned."""
    row = tx.execute(
        "SELECT coalesce(d.body, (SELECT e.body FROM events e WHERE e.seq = d.event_seq)) FROM deliveries d"
        " WHERE d.id = ? AND d.account_id = ?",
        (delivery_id, account_id),
    ).fetchone()
    return b"" if row is None or row[0] is None else bytes(row[0])


def endpoints_of(tx: Tx, account_id: str) -> list[tuple[str, str, str]]:
    """Every endpoint that the account has or had, as id, URL and state, the newest first."""
    return tx.execute(
        "SELECT id, url, state FROM endpoints WHERE account_id = ?"
        " ORDER BY created_at_ms DESC, id DESC LIMIT ?",
        (account_id, ENDPOINTS_MAX),
    ).fetchall()


def _road(chosen: DeliveryFilter) -> str:
    """The index that a list is read from: SQLite does not know how many pass which filter."""
    if chosen.payment_id is not None:
        return "NOT INDEXED"
    return f"INDEXED BY deliveries_{'of_account' if chosen.state is None else 'by_state'}"


def _where(chosen: DeliveryFilter) -> tuple[str, list[str | int]]:
    where: list[str] = ["account_id = ?"]
    values: list[str | int] = [chosen.account_id]
    for condition, value in (
        ("state = ?", chosen.state),
        ("endpoint_id = ?", chosen.endpoint_id),
        ("event_type = ?", chosen.event_type),
        # By way of its events, which have an index on the payment.
        (
            "seq IN (SELECT o.seq FROM events e JOIN deliveries o ON o.event_seq = e.seq"
            " WHERE e.payment_id = ?)",
            chosen.payment_id,
        ),
        ("created_at_ms >= ?", chosen.since_ms),
    ):
        if value is not None:
            where.append(condition)
            values.append(value)
    return " AND ".join(where), values
