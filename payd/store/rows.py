"""Many rows in few statements.

Each statement gives the interpreter away while SQLite works, and has to wait for it again behind the loop:
one for many rows costs little more than one for a single row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Final, TypeAlias

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
    while rows:
        count = min(ROWS_MAX, 1 << (len(rows).bit_length() - 1))
        part, rows = rows[:count], rows[count:]
        last = tx.execute(_statement(insert, len(part[0]), count), tuple(chain.from_iterable(part))).lastrowid
    assert last is not None, "an INSERT has a rowid"
    return last


@cache
def _statement(insert: str, columns: int, rows: int) -> str:
    row = f"({','.join('?' * columns)})"
    return f"{insert} VALUES {','.join([row] * rows)}"
