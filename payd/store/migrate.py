"""Schemas, in numbered steps that only go forward.

A schema is a folder of `NNNN_name.sql` files. Each runs in one transaction together with its number, which
the database keeps in `PRAGMA user_version`: it is applied whole, once, or not at all.

Source: DESIGN.md, "4. The house"; DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from importlib import resources
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from payd.store.durable import FILE_MODE, OF_OTHERS, make_file

Schema: TypeAlias = Literal["realm", "office"]

_FILE_NAME: Final = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")


class MigrationFailed(RuntimeError):
    """A migration could not be applied; the database is as it was before it."""


class DatabaseTooNew(RuntimeError):
    """The database was written by a newer payd. There is no way back but a backup."""

    def __init__(self, found: int, known: int, name: str = "the database") -> None:
        super().__init__(
            f"{name} is at schema version {found}, and this payd knows versions up to {known}: "
            "run the newer payd again, or restore the backup that was made before the upgrade"
        )
        self.found = found
        self.known = known


class Migration(msgspec.Struct, frozen=True):
    """One step of a schema: `sql` takes a database from `version - 1` to `version`."""

    version: int
    name: str
    sql: str


def bring_up_to_date(path: Path | str, schema: Schema) -> int:
    """Make the database where it is missing, for its owner only, and migrate it; returns its version.

    Raises:
        DatabaseTooNew: A newer payd wrote it; nothing was changed.
        MigrationFailed: A migration could not be applied.
        sqlite3.Error: The file cannot be opened, or is no database.
    """
    path = Path(path).absolute()
    # Not opened where it exists: closing it again would drop the locks that SQLite has in this process.
    if not path.exists():
        make_file(path)
    # It holds keys' hashes, people and money; the log and its index take the mode over.
    if path.stat().st_mode & OF_OTHERS:
        path.chmod(FILE_MODE)
    uri = f"{path.as_uri()}?mode=rw"
    migrations = read_migrations(schema)
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as tx:
        if schema_version(tx) < len(migrations):
            # Heard only while there is no table: what is pruned later is given back a little at a time.
            tx.execute("PRAGMA auto_vacuum = INCREMENTAL")
            # The disk is waited for once, at the end, and not for each migration's journal. What a power cut
            # takes away meanwhile are the last migrations, whole, and the next start applies them again.
            tx.execute("PRAGMA journal_mode = WAL")
            tx.execute("PRAGMA synchronous = NORMAL")
        return migrate(tx, migrations)


def read_migrations(schema: Schema) -> tuple[Migration, ...]:
    """The migrations that this payd carries, in order."""
    folder = resources.files("payd.store") / "migrations" / schema
    return order({file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()})


def order(files: dict[str, str]) -> tuple[Migration, ...]:
    """The migrations in these files, by number from 1 on.

    Raises:
        ValueError: A file has another kind of name, or a number is missing or there twice.
    """
    migrations = []
    for file_name in sorted(files):
        if (match := _FILE_NAME.fullmatch(file_name)) is None:
            raise ValueError(f"{file_name} is no migration: its name is to be like 0001_initial.sql")
        migrations.append(Migration(int(match[1]), match[2], files[file_name]))
    if (numbers := [each.version for each in migrations]) != list(range(1, len(migrations) + 1)):
        raise ValueError(f"migrations are numbered 1, 2, 3 …; these are {numbers}")
    return tuple(migrations)


def schema_version(tx: sqlite3.Connection) -> int:
    """The number of the last migration that this database has; 0 for an empty one."""
    (version,) = tx.execute("PRAGMA user_version").fetchone()
    return int(version)


def migrate(tx: sqlite3.Connection, migrations: Sequence[Migration]) -> int:
    """Apply what is missing, each migration in its own transaction; returns the version reached.

    `tx` has `isolation_level=None` and no open transaction.

    Raises:
        DatabaseTooNew: The database is ahead of `migrations`; nothing was changed.
        MigrationFailed: One could not be applied; the ones before it are.
    """
    known = migrations[-1].version if migrations else 0
    if (found := schema_version(tx)) > known:
        raise DatabaseTooNew(found, known)
    for migration in migrations[found:]:
        _apply(tx, migration)
    return known


def _apply(tx: sqlite3.Connection, migration: Migration) -> None:
    tx.create_function("unpacked", 1, _unpacked, deterministic=True)
    tx.execute("BEGIN IMMEDIATE")
    tx.set_authorizer(_deny_transactions)
    try:
        for statement in split_statements(migration.sql):
            tx.execute(statement)
        tx.set_authorizer(None)
        tx.execute(f"PRAGMA user_version = {migration.version}")
        tx.execute("COMMIT")
    except sqlite3.Error as error:
        tx.set_authorizer(None)
        if tx.in_transaction:
            tx.execute("ROLLBACK")
        raise MigrationFailed(f"migration {migration.version:04}_{migration.name} failed: {error}") from error


def _unpacked(body: bytes) -> str:
    """MessagePack as JSON, for a migration that fills a column from rows' bodies; bytes become base64."""
    return msgspec.json.encode(msgspec.msgpack.decode(body)).decode("utf-8")


def _deny_transactions(action: int, *_: str | None) -> int:
    """A migration that commits in its middle could be half applied."""
    ends = action in (sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT)
    return sqlite3.SQLITE_DENY if ends else sqlite3.SQLITE_OK


def split_statements(sql: str) -> Iterator[str]:
    """The single statements of a script; a ';' in a string, a comment or a trigger ends none."""
    statement = ""
    for piece in re.split("(?<=;)", sql):
        statement += piece
        if sqlite3.complete_statement(statement):
            yield statement.strip()
            statement = ""
    if statement.strip():
        yield statement.strip()
