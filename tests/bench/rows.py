"""SQLite alone: the rows that payd has just written, committed again by a tight loop on one connection.

No server, no steps, no savepoints, no checks: as many rows a transaction as there were connections, WAL and
`synchronous=FULL` as in payd.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from payd.store.migrate import bring_up_to_date

Row = tuple[Any, ...]

TABLES: Final = ("payments", "events", "deliveries")


@dataclass(frozen=True)
class Written:
    """Rows of payments, and of the event and the delivery of each, in one order."""

    payments: list[Row]
    events: list[Row]
    deliveries: list[Row]

    def batches(self, size: int) -> Iterator[slice]:
        """Where one transaction's rows are."""
        return (slice(start, start + size) for start in range(0, len(self.payments), size))


def read_written(path: Path, event_type: str, limit: int) -> Written:
    """The newest rows of one kind of change, from payd's file while it is being served."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        events = db.execute(
            "SELECT * FROM events WHERE type = ? ORDER BY seq DESC LIMIT ?", (event_type, limit)
        ).fetchall()
        seq, payment_id = 0, 3
        return Written(
            [_one(db, "SELECT * FROM payments WHERE id = ?", row[payment_id]) for row in events],
            events,
            [_one(db, "SELECT * FROM deliveries WHERE event_seq = ?", row[seq]) for row in events],
        )
    finally:
        db.close()


def commit_created(path: Path, written: Written, batch: int, seconds: float) -> float:
    """Payments a second: each a payment, an event and a delivery inserted."""
    db = _open(path)
    statements = [_insert(table, rows[0]) for table, rows in zip(TABLES, _rows(written), strict=True)]

    def commit(part: slice) -> None:
        for statement, rows in zip(statements, _rows(written), strict=True):
            db.executemany(statement, rows[part])

    def begin() -> None:
        for table in TABLES:
            db.execute(f"DELETE FROM {table}")

    return _rate(db, written, batch, seconds, begin, commit)


def commit_moved(path: Path, written: Written, batch: int, seconds: float) -> float:
    """Payments a second: each a payment updated, an event and a delivery inserted."""
    db = _open(path)
    db.executemany(_insert("payments", written.payments[0]), written.payments)
    columns = [row[1] for row in db.execute("PRAGMA table_info(payments)")]
    changed = ("status", "version", "asset", "network", "due_at_ms", "body")
    places = [columns.index(name) for name in changed]
    update = (
        f"UPDATE payments SET {', '.join(f'{name} = ?' for name in changed)} WHERE id = ? AND version = ?"
    )
    updates = [
        (*(row[place] for place in places), row[columns.index("id")], row[columns.index("version")] - 1)
        for row in written.payments
    ]

    def commit(part: slice) -> None:
        db.executemany(update, updates[part])
        db.executemany(_insert("events", written.events[0]), written.events[part])
        db.executemany(_insert("deliveries", written.deliveries[0]), written.deliveries[part])

    def begin() -> None:
        db.execute("DELETE FROM events")
        db.execute("DELETE FROM deliveries")
        db.execute("UPDATE payments SET version = version - 1 WHERE version > 0")

    return _rate(db, written, batch, seconds, begin, commit)


def read_payments(path: Path, ids: list[str], seconds: float) -> float:
    """Rows a second, read one by one by their id on a connection of its own."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        count = 0
        started_s = time.perf_counter()
        while (took_s := time.perf_counter() - started_s) < seconds:
            for payment_id in ids:
                db.execute("SELECT body FROM payments WHERE id = ?", (payment_id,)).fetchone()
            count += len(ids)
        return count / took_s
    finally:
        db.close()


def _rate(
    db: sqlite3.Connection, written: Written, batch: int, seconds: float, begin: Any, commit: Any
) -> float:
    """Commit all rows again and again until that took `seconds`; what undoes them is not counted."""
    took_s = 0.0
    count = 0
    try:
        while took_s < seconds:
            db.execute("BEGIN IMMEDIATE")
            begin()
            db.execute("COMMIT")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            started_s = time.perf_counter()
            for part in written.batches(batch):
                db.execute("BEGIN IMMEDIATE")
                commit(part)
                db.execute("COMMIT")
            took_s += time.perf_counter() - started_s
            count += len(written.payments)
        return count / took_s
    finally:
        db.close()


def _open(path: Path) -> sqlite3.Connection:
    for old in path.parent.glob(f"{path.name}*"):
        old.unlink()
    bring_up_to_date(path, "realm")
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    return db


def _rows(written: Written) -> tuple[list[Row], ...]:
    return written.payments, written.events, written.deliveries


def _insert(table: str, row: Row) -> str:
    return f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})"


def _one(db: sqlite3.Connection, query: str, value: object) -> Row:
    row: Row | None = db.execute(query, (value,)).fetchone()
    assert row is not None, f"{query} finds nothing for {value}: no endpoint is registered"
    return row
