"""What is wrong with a database is found, and nothing of a right one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from payd.store import self_check
from payd.store.migrate import Migration, Schema, migrate, read_migrations
from payd.store.self_check import (
    Unreadable,
    broken_places,
    look_for_damage,
    lost_rows,
    quickly_broken_places,
    row_counts,
    schema_differences,
)


@pytest.fixture
def tx() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        yield connection


@pytest.mark.parametrize("schema", ["office", "realm"])
def test_every_version_of_a_new_database_is_right(tx: sqlite3.Connection, schema: Schema) -> None:
    steps = read_migrations(schema)
    for version in range(1, len(steps) + 1):
        migrate(tx, steps[:version])
        assert (broken_places(tx), schema_differences(tx, schema)) == ([], [])


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("DROP INDEX sign_ins_by_date", "index sign_ins_by_date is missing"),
        ("CREATE TABLE mine (x)", "table mine should not be there"),
        ("ALTER TABLE tries ADD COLUMN x", "table tries is another one"),
        ("CREATE TRIGGER t AFTER INSERT ON tries BEGIN SELECT 1; END", "trigger t should not be there"),
    ],
)
def test_a_difference_of_the_schema_is_named(tx: sqlite3.Connection, change: str, found: str) -> None:
    migrate(tx, read_migrations("office"))
    tx.execute(change)
    assert schema_differences(tx, "office") == [found]


def test_a_comment_makes_no_difference(tx: sqlite3.Connection) -> None:
    for step in read_migrations("office"):
        tx.executescript(step.sql.replace("-- SHA-256", "-- another word"))
    tx.execute(f"PRAGMA user_version = {len(read_migrations('office'))}")
    assert schema_differences(tx, "office") == []


def test_a_broken_page_and_a_lost_parent_are_found(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as made, made:
        made.execute("CREATE TABLE parent (id INTEGER PRIMARY KEY)")
        made.execute("CREATE TABLE child (id REFERENCES parent)")
        made.execute("CREATE INDEX of_child ON child (id)")
        made.executemany("INSERT INTO child VALUES (?)", [(n,) for n in range(9000)])
    with closing(sqlite3.connect(path)) as found:
        lost = "row 1 of child refers to a row of parent that is not there"
        assert lost in broken_places(found)
        assert lost in quickly_broken_places(found, "a.db", 60.0)[0]
        pages = found.execute("PRAGMA page_count").fetchone()[0]
    data = bytearray(path.read_bytes())
    data[(pages - 2) * 4096 : (pages - 1) * 4096] = bytes(4096)
    path.write_bytes(data)
    with closing(sqlite3.connect(path)) as found:
        [words, *_] = broken_places(found)
        assert "malformed" in words or "Page" in words or "page" in words
        assert quickly_broken_places(found, "a.db", 60.0)[0][0] == words


def test_a_quick_look_ends_in_time_with_what_it_found_and_says_that_it_was_not_all(
    tx: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    tx.execute("CREATE TABLE a (x NOT NULL)")
    tx.execute("INSERT INTO a VALUES (1)")
    tx.execute("CREATE TABLE b (x)")
    tx.executemany("INSERT INTO b VALUES (?)", [(n,) for n in range(9000)])
    assert quickly_broken_places(tx, "a.db", 60.0) == ([], True)
    monkeypatch.setattr(self_check, "QUICK_STEPS", 1)
    assert quickly_broken_places(tx, "a.db", 0.0) == ([], False)
    assert tx.execute("SELECT count(*) FROM b").fetchone() == (9000,), "nothing stops what comes next"


def test_what_may_take_long_is_not_begun_where_sqlite_looks_at_the_clock_between_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "test.db"
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE a (x)")
    monkeypatch.setattr(self_check, "UNBOUNDED_BYTES_MAX", 10)
    for looks_between_tables, is_all in ((True, False), (False, True)):
        monkeypatch.setattr(self_check, "_LOOKS_BETWEEN_TABLES", looks_between_tables)
        assert look_for_damage(path, 60.0) == ([], is_all)
        assert look_for_damage(path, None) == ([], True)
    monkeypatch.setattr(self_check, "_LOOKS_BETWEEN_TABLES", True)
    monkeypatch.setattr(self_check, "UNBOUNDED_BYTES_MAX", path.stat().st_size)
    assert look_for_damage(path, 60.0) == ([], True), "that one is soon looked through"
    with pytest.raises(Unreadable):
        look_for_damage(tmp_path / "gone.db", None)


def test_what_a_killed_server_left_in_its_log_stays_there(tmp_path: Path) -> None:
    path, log = tmp_path / "test.db", tmp_path / "test.db-wal"
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        made.execute("PRAGMA journal_mode = WAL")
        made.execute("CREATE TABLE a (x)")
        left = log.read_bytes()
    log.write_bytes(left)
    for at_most_s in (None, 60.0):
        assert look_for_damage(path, at_most_s) == ([], True)
    assert log.read_bytes() == left


def test_ctrl_c_ends_a_quick_look(tx: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> float:
        raise KeyboardInterrupt

    tx.execute("CREATE TABLE a (x)")
    tx.executemany("INSERT INTO a VALUES (?)", [(n,) for n in range(9000)])
    monkeypatch.setattr(self_check, "QUICK_STEPS", 1)
    clock = iter([1.0])
    monkeypatch.setattr(self_check, "monotonic_s", lambda: next(clock, None) or interrupted())
    with pytest.raises(KeyboardInterrupt):
        quickly_broken_places(tx, "a.db", 60.0)


def test_rows_that_went_missing_are_found_unless_a_migration_said_so(tx: sqlite3.Connection) -> None:
    first = Migration(1, "first", "CREATE TABLE a (x); CREATE TABLE b (x); INSERT INTO a VALUES (1), (2);")
    migrate(tx, [first])
    before = row_counts(tx)
    sql = "DELETE FROM a WHERE x = 1; DROP TABLE b; CREATE TABLE c (x); INSERT INTO c VALUES (1);"
    silent = Migration(2, "silent", sql)
    said = Migration(2, "said", f"-- Changes how many rows there are in: a, b.\n{sql}")
    migrate(tx, [first, silent])
    assert lost_rows(before, row_counts(tx), [silent]) == [
        "table a had 2 rows and has 1 now",
        "table b had 0 rows and has no place now",
    ]
    assert lost_rows(before, row_counts(tx), [said]) == []
