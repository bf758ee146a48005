"""Many rows in few statements.

Each statement gives the interpreter away while SQLite works, and has to wait for it again behind the loop:
one for many rows costs little more than one for a single row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any, Final, TypeAlias

Tx: TypeAlias = sqlite3.Connection
Row: TypeAlias = Sequence[object]

# A power of two: so few texts are prepared, and kept, for any number of rows.
ROWS_MAX: Final = 64


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


def _parts(rows: Sequence[Row]) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Rows as few VALUES clauses, with what is in each."""
    while rows:
        count = min(ROWS_MAX, 1 << (len(rows).bit_length() - 1))
        part, rows = rows[:count], rows[count:]
        yield _values(len(part[0]), count), tuple(chain.from_iterable(part))


@cache
def _values(columns: int, rows: int) -> str:
    row = f"({','.join('?' * columns)})"
    return f"VALUES {','.join([row] * rows)}"
