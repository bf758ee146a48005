"""Connections on their thread: staged functions that cannot commit, reads that leave no snapshot behind."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from payd.core.errors import StoreUnavailable
from payd.store import raw
from payd.store.raw import ReadConnection, StagedConnection, Tx

pytestmark = pytest.mark.real_time


@pytest.fixture
def reader(path: Path) -> Iterator[ReadConnection]:
    opened = sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=ReadConnection)
    with closing(opened):
        yield opened


def count(tx: Tx) -> int:
    (found,) = tx.execute("SELECT count(*) FROM t").fetchone()
    return int(found)


def add(path: Path, n: int) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("INSERT INTO t VALUES (?)", (n,))


def first_row(tx: Tx) -> sqlite3.Cursor:
    cursor = tx.execute("SELECT x FROM t")
    assert cursor.fetchone() == (0,)
    return cursor


def test_a_function_cannot_commit_on_the_connection_it_runs_on(path: Path) -> None:
    got = list[int]()
    with closing(sqlite3.connect(path, isolation_level=None, factory=StagedConnection)) as writer:
        writer.staged.append(writer.commit)
        writer.staged.append(lambda: got.append(7))
        with pytest.raises(RuntimeError, match="a step never commits"):
            writer.commit()
        writer.commit()
        with pytest.raises(RuntimeError, match="a step never commits"):
            writer.commit()
    assert got == [7]


def test_a_query_that_keeps_its_cursor_keeps_no_snapshot(path: Path, reader: ReadConnection) -> None:
    kept = [reader.snapshot(first_row), first_row(reader)]
    reader.close_cursors()
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as other:
        other.execute("INSERT INTO t VALUES (99)")
        blocked, _, _ = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    newest = reader.execute("SELECT max(x) FROM t").fetchone()

    assert blocked == 0
    assert newest == (99,)
    for cursor in kept:
        with pytest.raises(sqlite3.ProgrammingError, match="closed cursor"):
            cursor.fetchone()


def test_a_snapshot_stays_as_it_is_to_its_end(path: Path, reader: ReadConnection) -> None:
    def count_twice(tx: Tx) -> tuple[int, int]:
        before = count(tx)
        add(path, 99)
        return before, count(tx)

    assert reader.snapshot(count_twice) == (10, 10)
    assert reader.snapshot(count) == 11


def test_a_query_that_fails_or_takes_too_long_leaves_the_connection_as_it_was(
    path: Path, reader: ReadConnection
) -> None:
    def endless(tx: Tx) -> int:
        assert reader.reads
        words = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
        return int(tx.execute(words).fetchone()[0])

    def broken(tx: Tx) -> int:
        return int(first_row(tx).fetchone()[0]) // 0

    with pytest.raises(StoreUnavailable, match=r"longer than 0\.01 s to find. Narrow the filter"):
        reader.snapshot(endless, at_most_s=0.01)
    with pytest.raises(ZeroDivisionError):
        reader.snapshot(broken)

    assert not reader.in_transaction
    assert not reader.reads
    add(path, 99)
    assert reader.snapshot(count) == 11


def test_a_query_that_may_not_begin_waits_and_is_not_said_to_read(reader: ReadConnection) -> None:
    asked, got = threading.Event(), list[tuple[bool, int]]()

    class Watched(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            asked.set()
            return super().wait(timeout)

    reader.may_begin = Watched()

    def ask() -> None:
        got.append(reader.snapshot(lambda tx: (reader.reads, count(tx))))

    thread = threading.Thread(target=ask)
    thread.start()
    assert asked.wait(10)
    assert not reader.reads
    assert not got
    reader.may_begin.set()
    thread.join()

    assert got == [(True, 10)]
    assert not reader.reads


def test_a_query_waits_no_longer_than_a_list_may_take(
    reader: ReadConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "STILL_MAX_S", 0.01)
    reader.may_begin.clear()

    assert reader.snapshot(lambda tx: (reader.reads, count(tx))) == (True, 10)
    assert not reader.reads
