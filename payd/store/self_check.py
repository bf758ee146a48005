"""What a database has to be: whole, with exactly the schema of its version, and with every row that it had.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Final, TypeAlias

from payd.store.migrate import Migration, Schema, migrate, read_migrations, schema_version

Tx: TypeAlias = sqlite3.Connection

# Of a broken database the first few places say enough.
PLACES_SHOWN: Final = 5

_COMMENT: Final = re.compile(r"--[^\n]*|/\*.*?\*/", re.S)
_DECLARED: Final = re.compile(r"^-- Changes how many rows there are in: (.+)\.$", re.M)


def broken_places(tx: Tx) -> list[str]:
    """What SQLite finds wrong with the file, in its words; nothing of a good one."""
    try:
        found = [str(words) for (words,) in tx.execute(f"PRAGMA integrity_check({PLACES_SHOWN})")]
    except sqlite3.OperationalError:
        raise  # it was stopped, or the disk said no
    except sqlite3.DatabaseError as error:
        return [str(error)]
    places = [] if found == ["ok"] else found
    orphans = tx.execute("PRAGMA foreign_key_check").fetchmany(PLACES_SHOWN)
    return places + [
        f"row {row} of {table} refers to a row of {parent} that is not there"
        for table, row, parent, _ in orphans
    ]


def schema_differences(tx: Tx, schema: Schema) -> list[str]:
    """What a database has that a new one of the same version would not have, and the other way round."""
    version = schema_version(tx)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        migrate(fresh, read_migrations(schema)[:version])
        wanted, found = _definitions(fresh), _definitions(tx)
    named = sorted(wanted.keys() | found.keys())
    return [
        f"{kind} {name} {_difference(found.get((kind, name)), wanted.get((kind, name)))}"
        for kind, name in named
        if found.get((kind, name)) != wanted.get((kind, name))
    ]


def row_counts(tx: Tx) -> dict[str, int]:
    """How many rows each table has."""
    return {table: _count(tx, table) for kind, table in _definitions(tx) if kind == "table"}


def lost_rows(before: Mapping[str, int], after: Mapping[str, int], steps: Sequence[Migration]) -> list[str]:
    """Tables whose number of rows changed on the way without one of the `steps` having said so.

    A migration says it in a comment: `-- Changes how many rows there are in: this, that.`
    """
    declared = {name for step in steps for names in _DECLARED.findall(step.sql) for name in names.split(", ")}
    return [
        f"table {table} had {count} rows and has {after.get(table, 'no place')} now"
        for table, count in before.items()
        if after.get(table) != count and table not in declared
    ]


def _definitions(tx: Tx) -> dict[tuple[str, str], str]:
    """What each table, index and trigger is, without comments and space."""
    rows = tx.execute("SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!'")
    return {(kind, name): " ".join(_COMMENT.sub(" ", sql or "").split()) for kind, name, sql in rows}


def _difference(found: str | None, wanted: str | None) -> str:
    if found is None:
        return "is missing"
    return "should not be there" if wanted is None else "is another one"


def _count(tx: Tx, table: str) -> int:
    (count,) = tx.execute(f'SELECT count(*) FROM "{table}"').fetchone()
    return int(count)
