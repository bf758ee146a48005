"""What is wrong with a database is found, and nothing of a right one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from payd.store.migrate import Migration, Schema, migrate, read_migrations
from payd.store.self_check import broken_places, lost_rows, row_counts, schema_differences


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
        assert "row 1 of child refers to a row of parent that is not there" in broken_places(found)
        pages = found.execute("PRAGMA page_count").fetchone()[0]
    data = bytearray(path.read_bytes())
    data[(pages - 2) * 4096 : (pages - 1) * 4096] = bytes(4096)
    path.write_bytes(data)
    with closing(sqlite3.connect(path)) as found:
        [words, *_] = broken_places(found)
        assert "malformed" in words or "Page" in words or "page" in words


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
