"""Migrations: whole or not at all, forward only, and split where SQLite would."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from payd.store.migrate import (
    DatabaseTooNew,
    Migration,
    MigrationFailed,
    Schema,
    bring_up_to_date,
    migrate,
    order,
    read_migrations,
    schema_version,
    split_statements,
)

FIRST = Migration(1, "first", "CREATE TABLE a (x); INSERT INTO a VALUES ('one; two');")
SECOND = Migration(2, "second", "ALTER TABLE a ADD COLUMN y; UPDATE a SET y = 2;")


@pytest.fixture
def tx() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        yield connection


def tables(tx: sqlite3.Connection) -> set[str]:
    return {name for (name,) in tx.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


@pytest.mark.parametrize("schema", ["realm", "office"])
def test_a_shipped_schema_builds_an_empty_database_once(tmp_path: Path, schema: Schema) -> None:
    path = tmp_path / "new.db"
    newest = len(read_migrations(schema))

    assert bring_up_to_date(path, schema) == newest
    assert bring_up_to_date(path, schema) == newest

    with closing(sqlite3.connect(path)) as connection:
        assert schema_version(connection) == newest
        assert tables(connection) > ({"payments", "events"} if schema == "realm" else set())
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_database_is_for_its_owner_only_also_when_it_was_not_before(tmp_path: Path) -> None:
    fresh, loose = tmp_path / "fresh.db", tmp_path / "loose.db"
    loose.touch(mode=0o644)

    for path in (fresh, loose):
        bring_up_to_date(path, "office")
        assert path.stat().st_mode & 0o777 == 0o600


def test_migrations_run_in_order_and_only_those_that_are_missing(tx: sqlite3.Connection) -> None:
    assert migrate(tx, [FIRST]) == 1
    assert migrate(tx, [FIRST, SECOND]) == 2
    assert tx.execute("SELECT x, y FROM a").fetchall() == [("one; two", 2)]
    assert schema_version(tx) == 2


def test_whoever_looks_from_outside_sees_a_migration_with_its_number_or_neither(tmp_path: Path) -> None:
    """As whoever comes after a death at that moment does."""
    seen: list[tuple[int, int]] = []
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as tx, closing(sqlite3.connect(path)) as other:
        tx.execute("PRAGMA journal_mode = WAL")
        columns = "SELECT count(*) FROM pragma_table_info('a')"
        tx.set_trace_callback(
            lambda _: seen.append((schema_version(other), other.execute(columns).fetchone()[0]))
        )
        migrate(tx, [FIRST, SECOND])
        tx.set_trace_callback(None)
    assert sorted(set(seen)) == [(0, 0), (1, 1)]


@pytest.mark.parametrize(
    "ending",
    [
        "INSERT INTO nowhere VALUES (1);",
        "INSERT INTO a VALUES (1",
        "COMMIT; CREATE TABLE c (x);",
        "SAVEPOINT s;",
    ],
)
def test_a_migration_that_fails_midway_leaves_nothing_behind(tx: sqlite3.Connection, ending: str) -> None:
    migrate(tx, [FIRST])
    before = tx.execute("SELECT * FROM sqlite_master").fetchall()
    broken = Migration(2, "broken", f"CREATE TABLE b (x); DELETE FROM a; {ending}")

    with pytest.raises(MigrationFailed, match="0002_broken"):
        migrate(tx, [FIRST, broken])

    assert tx.execute("SELECT * FROM sqlite_master").fetchall() == before
    assert tx.execute("SELECT x FROM a").fetchall() == [("one; two",)]
    assert schema_version(tx) == 1
    assert not tx.in_transaction
    assert migrate(tx, [FIRST, SECOND]) == 2


def test_a_database_of_a_newer_payd_is_refused_untouched_with_both_versions(tx: sqlite3.Connection) -> None:
    migrate(tx, [FIRST, SECOND])

    with pytest.raises(DatabaseTooNew, match=r"version 2.* up to 1\b") as caught:
        migrate(tx, [FIRST])

    assert (caught.value.found, caught.value.known) == (2, 1)
    assert schema_version(tx) == 2


def test_not_a_byte_is_changed_of_what_needs_no_migration(tmp_path: Path) -> None:
    path = tmp_path / "newer.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {len(read_migrations('office')) + 1}")
    before = path.read_bytes()

    with pytest.raises(DatabaseTooNew):
        bring_up_to_date(path, "office")

    assert path.read_bytes() == before


def test_a_semicolon_in_a_string_a_comment_or_a_trigger_ends_no_statement(tx: sqlite3.Connection) -> None:
    script = """
        -- first; the table
        CREATE TABLE a (x DEFAULT ';', y); /* then; the
        index; */ CREATE INDEX i ON a (x); INSERT INTO a VALUES ('a;b', "c;d");
        CREATE TRIGGER t AFTER INSERT ON a WHEN new.x = ';' BEGIN
            UPDATE a SET y = 1; -- once;
            UPDATE a SET y = y + 1;
        END;
        INSERT INTO a (x) VALUES (';');
        -- nothing; follows
    """.replace('"', "'")

    statements = list(split_statements(script))
    migrate(tx, [Migration(1, "hard", script)])

    assert [line.split()[0] for line in statements[1:-1]] == ["/*", "INSERT", "CREATE", "INSERT"]
    assert tx.execute("SELECT x, y FROM a").fetchall() == [("a;b", 2), (";", 2)]


@pytest.mark.parametrize("numbers", [[2], [1, 3], [1, 2, 2]])
def test_a_gap_or_a_double_in_the_numbers_is_refused(numbers: list[int]) -> None:
    files = {f"{number:04}_{letter}.sql": "" for number, letter in zip(numbers, "abc", strict=False)}

    with pytest.raises(ValueError, match=r"numbered 1, 2, 3"):
        order(files)


@pytest.mark.parametrize("name", ["1_x.sql", "0001-x.sql", "0001_x.sql.orig", "README"])
def test_a_file_that_is_no_migration_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no migration"):
        order({name: ""})
