"""What a database has to be: whole, with exactly the schema of its version, and with every row that it had.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, Literal, TypeAlias

from payd.clock import monotonic_s
from payd.store.copying import looked_at, open_existing
from payd.store.migrate import Migration, Schema, migrate, read_migrations, schema_version

Tx: TypeAlias = sqlite3.Connection

# Of a broken database the first few places say enough.
PLACES_SHOWN: Final = 5
# Older ones look at the clock only between two tables: there, a database that may take long is not begun.
_LOOKS_BETWEEN_TABLES: Final = sqlite3.sqlite_version_info < (3, 41)
UNBOUNDED_BYTES_MAX: Final = 1 << 30
# While a page is a step, these are 4 MiB between two looks at the clock.
QUICK_STEPS: Final = 1000

_COMMENT: Final = re.compile(r"--[^\n]*|/\*.*?\*/", re.S)
_DECLARED: Final = re.compile(r"^-- Changes how many rows there are in: (.+)\.$", re.M)


def broken_places(tx: Tx) -> list[str]:
    """What SQLite finds wrong with the file, in its words; nothing of a good one."""
    return list(_broken_places(tx, "integrity_check"))


def quickly_broken_places(tx: Tx, file: str, at_most_s: float) -> tuple[list[str], bool]:
    """The same, in a while and without comparing indexes with their tables: of a database in use.

    It holds no writer up, but the log cannot be emptied meanwhile. 100,000 payments with all that belongs to
    them, 780 MiB, take 0.7 s in memory and 12 s from a disk that others use.

    Args:
        tx: Is only read.
        file: Its name.
        at_most_s: After how long it is enough.

    Returns:
        What was found, and whether all was read.
    """
    end_s = monotonic_s() + at_most_s
    places: list[str] = []

    def look(*_: object) -> None:
        if monotonic_s() > end_s:
            raise _Over

    try:
        with looked_at(tx, "checking", file, look, QUICK_STEPS):
            for words in _broken_places(tx, "quick_check"):
                places.append(words)  # one by one: what was found before the end counts
    except _Over:
        return places, False
    return places, True


class Unreadable(Exception):
    """A database cannot be opened or read; the message is SQLite's."""


def look_for_damage(path: Path, at_most_s: float | None) -> tuple[list[str], bool]:
    """What is broken in a database's file, and whether all of it was read.

    Args:
        path: The file; it is only read, and a server may go on with it.
        at_most_s: As of `quickly_broken_places`; None: as `broken_places`, however long that takes.

    Raises:
        Unreadable: Nobody can tell.
    """
    try:
        with closing(open_existing(path, "ro")) as tx:
            if at_most_s is None:
                return broken_places(tx), True
            if _LOOKS_BETWEEN_TABLES and path.stat().st_size > UNBOUNDED_BYTES_MAX:
                return [], False
            return quickly_broken_places(tx, path.name, at_most_s)
    except (sqlite3.Error, OSError) as error:
        raise Unreadable(str(error)) from error


class _Over(Exception):
    """The time is."""


def _broken_places(tx: Tx, check: Literal["quick_check", "integrity_check"]) -> Iterator[str]:
    try:
        for (words,) in tx.execute(f"PRAGMA {check}({PLACES_SHOWN})"):
            if words != "ok":
                yield str(words)
        for table, row, parent, _ in tx.execute("PRAGMA foreign_key_check").fetchmany(PLACES_SHOWN):
            yield f"row {row} of {table} refers to a row of {parent} that is not there"
    except sqlite3.OperationalError:
        raise  # it was stopped, or the disk said no
    except sqlite3.DatabaseError as error:
        yield str(error)


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
