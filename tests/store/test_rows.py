"""Many rows in few statements: all of them, in their order, whatever their number."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.store.rows import FEW, ROWS_MAX, STRIDE, change_rows, find_rows, insert_rows, upsert_rows

INSERT = "INSERT INTO t (name, size)"


@pytest.fixture
def tx() -> Iterator[sqlite3.Connection]:
    with closing(new_table()) as connection:
        yield connection


def new_table() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT UNIQUE, size INTEGER)")
    return connection


def stored(tx: sqlite3.Connection) -> list[tuple[int, str, int]]:
    return tx.execute("SELECT id, name, size FROM t ORDER BY id").fetchall()


@given(counts=st.lists(st.integers(1, 3 * ROWS_MAX), min_size=1, max_size=3))
def test_rows_are_stored_in_their_order_and_their_rowids_are_in_a_row(counts: list[int]) -> None:
    with closing(new_table()) as tx:
        written: list[tuple[int, str, int]] = []
        for count in counts:
            rows = [(f"{len(written) + place}", place) for place in range(count)]
            last = insert_rows(tx, INSERT, rows)
            written += [(last - count + 1 + place, *row) for place, row in enumerate(rows)]
        assert stored(tx) == written


@pytest.mark.parametrize(
    ("count", "statements"), [(1, 1), (FEW, 1), (FEW + 1, 2), (ROWS_MAX - 1, 2), (2 * ROWS_MAX + 5, 3)]
)
def test_they_are_few_statements(tx: sqlite3.Connection, count: int, statements: int) -> None:
    said: list[str] = []
    tx.set_trace_callback(said.append)

    insert_rows(tx, INSERT, [(str(number), number) for number in range(count)])

    assert len(said) == statements


class Overheard(sqlite3.Connection):
    """A connection that remembers each text that it was given."""

    def __init__(self, database: str) -> None:
        super().__init__(database)
        self.texts: set[str] = set()

    def execute(self, text: str, *args: Any) -> sqlite3.Cursor:
        self.texts.add(text)
        return super().execute(text, *args)


def test_few_texts_serve_any_number_of_rows() -> None:
    with closing(Overheard(":memory:")) as tx:
        tx.execute("CREATE TABLE t (name TEXT, size INTEGER)")
        tx.texts.clear()
        for count in range(1, 3 * ROWS_MAX):
            insert_rows(tx, INSERT, [("a", 1)] * count)

        assert len(tx.texts) == FEW + ROWS_MAX // STRIDE - FEW // STRIDE


def test_rows_go_on_behind_the_newest(tx: sqlite3.Connection) -> None:
    tx.execute("INSERT INTO t VALUES (41, 'a', 0)")
    assert insert_rows(tx, INSERT, [("b", 1), ("c", 2)]) == 43
    tx.execute("DELETE FROM t WHERE id < 43")
    assert insert_rows(tx, INSERT, [("d", 3)]) == 44


CHANGE = "UPDATE t SET size = column2, name = column3"


@given(there=st.integers(0, 100), asked=st.lists(st.integers(0, 110), unique=True, max_size=3 * ROWS_MAX))
def test_those_are_changed_that_are_there_and_each_by_its_own_row(there: int, asked: list[int]) -> None:
    with closing(new_table()) as tx, closing(new_table()) as other:
        for one in (tx, other):
            one.executemany("INSERT INTO t VALUES (?, ?, 0)", [(n, f"{n}") for n in range(there)])
        rows = [(number, number * 7, f"new {number}") for number in asked]

        changed = change_rows(tx, CHANGE, "WHERE id = column1 AND size = 0", rows)

        other.executemany("UPDATE t SET size = ?2, name = ?3 WHERE id = ?1", rows)
        assert stored(tx) == stored(other)
        assert changed == sum(number < there for number in asked)


@pytest.mark.parametrize("ids", [(1, 1), (1, 2, 3, 1)])
def test_one_that_is_meant_twice_is_changed_once(tx: sqlite3.Connection, ids: tuple[int, ...]) -> None:
    insert_rows(tx, INSERT, [("a", 0), ("b", 0), ("c", 0)])

    changed = change_rows(tx, CHANGE, "WHERE id = column1", [(one, 1, f"new {one}") for one in ids])

    assert changed < len(ids)


@given(there=st.integers(0, 40), asked=st.lists(st.integers(0, 60), max_size=2 * ROWS_MAX))
def test_rows_are_inserted_or_changed_as_one_by_one(there: int, asked: list[int]) -> None:
    again = "ON CONFLICT DO UPDATE SET size = size + excluded.size WHERE size < 3"
    with closing(new_table()) as tx, closing(new_table()) as other:
        for one in (tx, other):
            one.executemany(
                "INSERT INTO t (name, size) VALUES (?, ?)", [(f"{n}", n % 5) for n in range(there)]
            )
        rows = [(f"{number}", 1) for number in asked]

        changed = upsert_rows(tx, INSERT, rows, again)

        one_by_one = [other.execute(f"{INSERT} VALUES (?, ?) {again}", row).rowcount for row in rows]
        assert stored(tx) == stored(other)
        assert changed == sum(one_by_one)


def test_one_that_is_taken_is_an_error(tx: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        insert_rows(tx, INSERT, [("a", 1), ("b", 2), ("a", 3)])


@given(stored=st.integers(0, 200), asked=st.lists(st.integers(-5, 205), max_size=3 * ROWS_MAX))
def test_what_is_there_of_some_keys_is_found(stored: int, asked: list[int]) -> None:
    with closing(new_table()) as tx:
        if stored:
            insert_rows(tx, INSERT, [(str(number), number % 7) for number in range(stored)])

        found = find_rows(
            tx,
            "SELECT t.name FROM asked CROSS JOIN t ON (t.name, t.size) = (asked.column1, asked.column2)",
            [(str(number), number % 7) for number in asked],
        )

        assert sorted(found) == sorted((str(number),) for number in asked if 0 <= number < stored)
