"""Many rows in few statements.

Each statement gives the interpreter away while SQLite works, and has to wait for it again behind the loop:
one for many rows costs little more than one for a single row.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any, Final, TypeAlias

Tx: TypeAlias = sqlite3.Connection
Row: TypeAlias = Sequence[object]

# No row has a higher number.
SEQ_MAX: Final = 2**63 - 1

ROWS_MAX: Final = 64
# So many rows are one statement, more are their eights and what is left: few texts are prepared, and kept.
FEW: Final = 16
STRIDE: Final = 8

# A value of a row, by its place.
_PLACE: Final = re.compile(r"\bcolumn(\d+)\b")


def insert_rows(tx: Tx, insert: str, rows: Sequence[Row]) -> int:
    """Insert rows in their order.

    Args:
        tx: The step's transaction.
        insert: Such as `INSERT INTO t (a, b)`.
        rows: At least one; each has as many values as there are columns.

    Returns:
        The rowid of the last one. Where SQLite chooses them, those of the others come right before it.
    """
    last = None
    for values, part in _parts(rows):
        last = tx.execute(f"{insert} {values}", part).lastrowid
    assert last is not None, "an INSERT has a rowid"
    return last


def upsert_rows(tx: Tx, insert: str, rows: Sequence[Row], on_conflict: str) -> int:
    """Insert rows in their order, or change those that are there.

    Args:
        tx: The step's transaction.
        insert: As `insert_rows` takes it.
        rows: Any number.
        on_conflict: Such as `ON CONFLICT DO UPDATE SET b = excluded.b WHERE b <> 0`.

    Returns:
        How many were stored or changed.
    """
    return sum(tx.execute(f"{insert} {values} {on_conflict}", part).rowcount for values, part in _parts(rows))


def change_rows(tx: Tx, update: str, where: str, rows: Sequence[Row]) -> int:
    """Change rows, each as a row of values says.

    Args:
        tx: The step's transaction.
        update: Such as `UPDATE t SET a = column2`; its values are columns by their numbers.
        where: Such as `WHERE id = column1`.
        rows: Any number; each has as many values as the others.

    Returns:
        How many were changed: fewer than asked for where a condition did not hold, or a row was meant twice.
    """
    changed = 0
    for values, part in _parts(rows):
        if len(part) == len(rows[0]):
            # To put a single row up as a table costs as much as to change it.
            statement, places = _of_one(f"{update} {where}")
            changed += tx.execute(statement, [part[place] for place in places]).rowcount
        else:
            changed += tx.execute(f"{update} FROM ({values}) {where}", part).rowcount
    return changed


def find_rows(tx: Tx, select: str, keys: Sequence[Row]) -> list[tuple[Any, ...]]:
    """What a SELECT finds for keys, in no order.

    Args:
        tx: The step's transaction.
        select: Such as `SELECT t.a FROM asked CROSS JOIN t ON t.id = asked.column1`; `asked` has a row for
            each key, with its columns in their order.
        keys: Any number; each has as many values as the others.
    """
    return [
        row
        for values, part in _parts(keys)
        for row in tx.execute(f"WITH asked AS ({values}) {select}", part).fetchall()
    ]


def values_of(tx: Tx, least: str, *among: str) -> list[str]:
    """The values of a column of texts, where they are few among many rows: each by one step in its index.

    Args:
        tx: A reading transaction.
        least: Finds the first one above another, such as `SELECT min(b) FROM t WHERE a = ? AND b > ?`.
        among: What else it asks for, before that.
    """
    found = [""]
    while (row := tx.execute(least, (*among, found[-1])).fetchone())[0] is not None:
        found.append(str(row[0]))
    return found[1:]


def prune_rows(tx: Tx, table: str, key: str, time: str, before_ms: int, limit: int) -> int:
    """Delete rows of a time before that, `limit` at most; returns how many.

    Args:
        tx: The step's transaction.
        table: Which.
        key: Its columns that name a row, such as `a, b`.
        time: The column with the time; one without a time stays.
        before_ms: In the milliseconds of that column.
        limit: How many.
    """
    chosen = f"SELECT {key} FROM {table} WHERE {time} < ? LIMIT ?"
    return tx.execute(f"DELETE FROM {table} WHERE ({key}) IN ({chosen})", (before_ms, limit)).rowcount


def _parts(rows: Sequence[Row]) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Rows as few VALUES clauses, with what is in each."""
    while rows:
        count = len(rows) if len(rows) <= FEW else min(ROWS_MAX, len(rows) // STRIDE * STRIDE)
        part, rows = rows[:count], rows[count:]
        yield _values(len(part[0]), count), tuple(chain.from_iterable(part))


@cache
def _of_one(statement: str) -> tuple[str, list[int]]:
    """The statement for a single row, and the places of its values in the row."""
    return _PLACE.sub("?", statement), [int(number) - 1 for number in _PLACE.findall(statement)]


@cache
def _values(columns: int, rows: int) -> str:
    row = f"({','.join('?' * columns)})"
    return f"VALUES {','.join([row] * rows)}"
