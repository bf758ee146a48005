"""A database that is damaged and can be read all the same: a row lacks what its table says it has."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

SPOILED: Final = "NULL value in merchants.name"
"""What SQLite says of it."""


def spoil(path: Path) -> None:
    """Take the names of a realm's merchants away, which cannot be."""
    define = "UPDATE sqlite_schema SET sql = ? WHERE name = 'merchants'"
    with closing(sqlite3.connect(path)) as tx, tx:
        [defined] = tx.execute("SELECT sql FROM sqlite_schema WHERE name = 'merchants'").fetchone()
        tx.execute("PRAGMA writable_schema = ON")
        tx.execute(define, (defined.replace("NOT NULL", ""),))
    with closing(sqlite3.connect(path)) as tx, tx:
        tx.execute("UPDATE merchants SET name = NULL")
        tx.execute("PRAGMA writable_schema = ON")
        tx.execute(define, (defined,))
