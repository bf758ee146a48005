"""A realm that has been in use for years: very many old payments, the newest with all that belongs to them.

Of a payment whose events and deliveries are past `[webhooks] keep_days`, its row stays, and its options,
quotes and transfers. These are copied from payments that the store's own functions made, under other names
and at other times. The tallies of that time are not there: only the dashboard's reports read them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

import msgspec

from payd.core.period import DAY_MS
from payd.core.status import FINAL
from payd.store.db import Tx
from payd.store.migrate import bring_up_to_date
from tests.bench.realm import DAYS, fill, payment_id, sell_many, writing_in_bulk

# As many as a busy shop sells in the time in which events and deliveries are kept.
NEWEST: Final = 50_000
YEARS_MS: Final = 4 * 365 * DAY_MS
PATTERNS: Final = 1000
ROWS_AT_ONCE: Final = 5000

Row = dict[str, Any]
Pattern = dict[str, list[Row]]
"""The rows of one payment by their table, its own first."""

# Where a table's rows have the payment they are of.
TABLES: Final = {"payments": "id", "options": "payment_id", "quotes": "payment_id", "transfers": "payment_id"}


def fill_archive(path: Path, payments: int, *, account_id: str, now_ms: int) -> None:
    """Give an account of a realm that is up to date so many payments, up to now."""
    older = max(0, payments - NEWEST)
    patterns = _patterns(path.with_name("patterns.db"), account_id, now_ms) if older else []
    with writing_in_bulk(path) as tx:
        _copy_many(tx, patterns, older, now_ms - DAYS * DAY_MS)
        sell_many(tx, payments - older, account_id=account_id, now_ms=now_ms, older=older)


def _patterns(path: Path, account_id: str, now_ms: int) -> list[Pattern]:
    """Payments that have ended, from a realm of their own."""
    bring_up_to_date(path, "realm")
    fill(path, PATTERNS, account_id=account_id, now_ms=now_ms)
    with closing(sqlite3.connect(path)) as tx:
        patterns = [
            {table: _rows(tx, table, f"WHERE {column} = ?", sold["id"]) for table, column in TABLES.items()}
            for sold in _rows(tx, "payments", "ORDER BY seq")
            if sold["status"] in FINAL
        ]
    path.unlink()
    return patterns


def _rows(tx: Tx, table: str, which: str, *values: str) -> list[Row]:
    """Rows by the names of their columns, but for those that SQLite fills by itself."""
    names = [column[1] for column in tx.execute(f"PRAGMA table_info({table})")]
    found = tx.execute(f"SELECT {', '.join(names)} FROM {table} {which}", values)
    return [dict(zip(names, row, strict=True)) for row in found]


def _copy_many(tx: Tx, patterns: list[Pattern], count: int, until_ms: int) -> None:
    """So many payments, numbered from 1, evenly over `YEARS_MS` before `until_ms`."""
    copies = _copies(patterns, count, until_ms)
    while some := list(islice(copies, ROWS_AT_ONCE)):
        for table in TABLES:
            rows = [row for one in some for row in one[table]]
            if rows:
                names = list(rows[0])
                values = [tuple(row.values()) for row in rows]
                tx.executemany(
                    f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})", values
                )


def _copies(patterns: list[Pattern], count: int, until_ms: int) -> Iterator[Pattern]:
    for number, pattern in zip(range(1, count + 1), cycle(patterns), strict=False):
        (old,) = pattern["payments"]
        at_ms = until_ms - YEARS_MS + number * YEARS_MS // (count + 1)
        new_id = payment_id(number)
        texts = {
            old["id"]: new_id,
            f"opt_{old['id']}": f"opt_{new_id}",
            old["reference_id"]: f"ORDER-{number}",
            old["tx_id"]: f"0x{number:064x}",
        }
        shift_ms = at_ms - old["created_at_ms"]
        copy = {table: [_moved(row, shift_ms, texts) for row in rows] for table, rows in pattern.items()}
        (new,) = copy["payments"]
        new["seq"] = number
        new["body"] = msgspec.msgpack.encode(_moved(msgspec.msgpack.decode(old["body"]), shift_ms, texts))
        for row in copy["quotes"] + copy["transfers"]:
            row["seq"] = None  # the next
        yield copy


def _moved(fields: Row, shift_ms: int, texts: dict[Any, str]) -> Row:
    """The same fields with other texts in place of those, and their times so much later."""
    moved: Row = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            moved[name] = _moved(value, shift_ms, texts)
        elif isinstance(value, int):
            moved[name] = value + shift_ms if value and name.endswith("_ms") else value
        else:
            moved[name] = texts.get(value, value) if isinstance(value, str) else value
    return moved
