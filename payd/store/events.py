"""Events: what merchants were told, as frozen bytes, in the order in which it happened.

An event does not name the request that caused it: most have none, but a chain or the time. Where there was
one, the log of requests finds it by the payment, also the one that created it, for as long as it is kept.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple, TypeAlias

from payd.store.rows import SEQ_MAX, Row, insert_rows

Tx: TypeAlias = sqlite3.Connection

# Payments of merchants; some events each are sorted in no time.
FEW: Final = 200

# By how much a wall clock that is set back may have put events out of the order of their times.
SET_BACK_MAX_MS: Final = 2 * 3_600_000

COLUMNS: Final = "seq, id, account_id, payment_id, version, type, created_at_ms, body"


class EventRow(NamedTuple):
    """One stored event; `seq` is the account feed's cursor, `body` the envelope's bytes."""

    seq: int
    id: str
    account_id: str
    payment_id: str
    version: int
    type: str
    created_at_ms: int
    body: bytes


def insert_events(tx: Tx, rows: Sequence[Row]) -> range:
    """Store events, at least one, as `(id, account_id, payment_id, version, type, created_at_ms, body)`.

    Returns:
        Their `seq`s, in this order.

    Raises:
        sqlite3.IntegrityError: This version of a payment has an event; two writers own the payment.
    """
    last = insert_rows(
        tx, "INSERT INTO events (id, account_id, payment_id, version, type, created_at_ms, body)", rows
    )
    return range(last - len(rows) + 1, last + 1)


def get_event(tx: Tx, account_id: str, event_id: str) -> EventRow | None:
    """One event of the account."""
    row = tx.execute(
        f"SELECT {COLUMNS} FROM events WHERE id = ? AND account_id = ?", (event_id, account_id)
    ).fetchone()
    return None if row is None else EventRow(*row)


def list_events(
    tx: Tx,
    account_id: str,
    *,
    event_type: str | None = None,
    payment_id: str | None = None,
    merchants: Collection[str] | None = None,
    before_seq: int | None = None,
    limit: int,
) -> list[EventRow]:
    """A page of the account's events, newest first, older than `before_seq`; of these merchants, if given."""
    where = ["account_id = ?", "seq < ?"]
    values: list[str | int] = [account_id, SEQ_MAX if before_seq is None else before_seq]
    is_few = payment_id is not None
    if payment_id is not None:
        where.append("seq IN (SELECT seq FROM events WHERE payment_id = ?)")
        values.append(payment_id)
    if event_type is not None:
        where.append("type = ?")
        values.append(event_type)
    if merchants is not None and sold_few(tx, merchants):
        is_few = True
        where.append(
            "seq IN (SELECT e.seq FROM payments p JOIN events e ON e.payment_id = p.id"
            f" WHERE p.merchant_id IN ({','.join('?' * len(merchants))}))"
        )
        values += merchants
    elif merchants is not None:
        where.append(of_merchants("payment_id", merchants))
        values += merchants
    # Few are found by what they belong to and put in order; of many, the newest are soon met in their order.
    road = "NOT INDEXED" if is_few else ""
    rows = tx.execute(
        f"SELECT {COLUMNS} FROM events {road} WHERE {' AND '.join(where)} ORDER BY seq DESC LIMIT ?",
        (*values, limit),
    )
    return [EventRow(*row) for row in rows]


def sold_few(tx: Tx, merchants: Collection[str]) -> bool:
    """Whether these merchants have so few payments that what is theirs is found by these."""
    (count,) = tx.execute(
        "SELECT count(*) FROM (SELECT 1 FROM payments INDEXED BY payments_by_merchant"
        f" WHERE merchant_id IN ({','.join('?' * len(merchants))}) LIMIT ?)",
        (*merchants, FEW),
    ).fetchone()
    return int(count) < FEW


def of_merchants(payment_id: str, merchants: Collection[str]) -> str:
    """The condition that a row's payment, in this column, is of one of these merchants."""
    marks = ",".join("?" * len(merchants))
    return f"(SELECT merchant_id FROM payments WHERE id = {payment_id}) IN ({marks})"


def merchant_of(tx: Tx, payment_id: str) -> str | None:
    """The merchant of a payment."""
    row = tx.execute("SELECT merchant_id FROM payments WHERE id = ?", (payment_id,)).fetchone()
    return None if row is None else str(row[0])


def events_after(tx: Tx, account_id: str, after_seq: int, limit: int) -> list[EventRow]:
    """The account's events behind a cursor, oldest first: what a feed resumes with."""
    rows = tx.execute(
        f"SELECT {COLUMNS} FROM events WHERE account_id = ? AND seq > ? ORDER BY seq LIMIT ?",
        (account_id, after_seq, limit),
    )
    return [EventRow(*row) for row in rows]


def cursor_before(tx: Tx, account_id: str, at_ms: int) -> int:
    """The cursor behind which the account's events since `at_ms` are, found by halving.

    It takes times to follow cursors. Where a wall clock was set back they do not by as much: ask for a time
    that is earlier by more than that.
    """
    (newest,) = tx.execute("SELECT max(seq) FROM events WHERE account_id = ?", (account_id,)).fetchone()
    before, after = 0, newest or 0
    while before < after:
        middle = (before + after) // 2
        seq, created_at_ms = tx.execute(
            "SELECT seq, created_at_ms FROM events WHERE account_id = ? AND seq > ? ORDER BY seq LIMIT 1",
            (account_id, middle),
        ).fetchone()
        if created_at_ms >= at_ms:
            after = middle
        else:
            before = seq
    return before


def event_time(tx: Tx, seq: int) -> int | None:
    """When an event happened, by its number; None where there is none."""
    row = tx.execute("SELECT created_at_ms FROM events WHERE seq = ?", (seq,)).fetchone()
    return None if row is None else int(row[0])


def seq_in_history(tx: Tx, account_id: str, seq: int, at_ms: int, start_seq: int) -> int:
    """Where to go on behind an event, which may be of a history that a restored backup does not have.

    Args:
        tx: The read's transaction.
        account_id: Whose events are followed.
        seq: The event's number.
        at_ms: When it happened. What came before a backup is older; what came after its restore, newer.
        start_seq: The newest event at the server's start, for where times say nothing.
    """
    if event_time(tx, seq) == at_ms:
        return seq
    return min(seq, start_seq, cursor_before(tx, account_id, at_ms - SET_BACK_MAX_MS))
