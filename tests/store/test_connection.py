"""Connections: functions on their thread, reads that leave no snapshot behind, closing that always ends."""

from __future__ import annotations

import signal
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.lowlevel

from payd.core.errors import StoreUnavailable
from payd.store import connection
from payd.store import db as db_module
from payd.store.bridge import bridge
from payd.store.connection import (
    Connection,
    ConnectionGone,
    Connections,
    Role,
    SqliteTooOld,
    check_sqlite,
    open_connection,
    open_point,
)
from payd.store.db import open_database
from payd.store.raw import ReadConnection, StagedConnection, Tx

pytestmark = pytest.mark.real_time


@pytest.fixture(params=["threads", "inline"])
async def connections(path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Connections]:
    with bridge():
        opened = Connections(path, inline=request.param == "inline")
        await opened.open()
        yield opened
        await opened.close()


def is_not_main_thread() -> bool:
    return threading.current_thread() is not threading.main_thread()


def pragma(connection: Connection[StagedConnection] | Connection[ReadConnection], name: str) -> object:
    return connection.raw.execute(f"PRAGMA {name}").fetchone()[0]


def test_an_old_sqlite_is_refused_with_both_versions() -> None:
    check_sqlite((3, 38, 0))
    with pytest.raises(SqliteTooOld, match=r"SQLite 3\.37\.2.*needs 3\.38\.0"):
        check_sqlite((3, 37, 2))


async def test_the_writer_is_durable_and_leaves_its_log_to_the_checkpointer(path: Path) -> None:
    names = ("journal_mode", "synchronous", "wal_autocheckpoint", "foreign_keys", "temp_store", "query_only")
    opened = Connections(path, inline=False)
    with bridge():
        try:
            await opened.open()
            assert opened.writer is not None
            assert opened.reader is not None
            assert [pragma(opened.writer, name) for name in names] == ["wal", 2, 0, 0, 2, 0]
            assert pragma(opened.reader, "query_only") == 1
            assert await opened.writer.run(is_not_main_thread)
        finally:
            await opened.close()
    assert not path.with_name("x.db-wal").exists(), "the last one to close takes the log in"


async def test_what_a_function_raises_arrives_and_the_connection_goes_on(connections: Connections) -> None:
    assert connections.writer is not None

    with pytest.raises(ZeroDivisionError):
        await connections.writer.run(lambda: 1 // 0)
    with pytest.raises(ValueError, match="mine"):
        await connections.writer.run(lambda: int("mine"))

    assert await connections.writer.run(lambda: 7) == 7


async def test_functions_run_in_order_and_a_cancelled_waiter_takes_nobody_elses_result(
    connections: Connections,
) -> None:
    assert connections.reader is not None
    reader, got = connections.reader, dict[int, int]()

    async def ask(n: int) -> None:
        got[n] = await reader.run(lambda: n)

    async with trio.open_nursery() as nursery:
        for n in range(10):
            nursery.start_soon(ask, n)
        with trio.CancelScope() as scope:
            scope.cancel()
            await reader.run(lambda: -1)
    assert scope.cancelled_caught
    assert got == {n: n for n in range(10)}


async def test_a_reader_cannot_write(connections: Connections) -> None:
    assert connections.reader is not None
    assert connections.point is not None
    for raw in (connections.reader.raw, connections.point):
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            raw.execute("INSERT INTO t VALUES (99)")


async def test_a_closed_connection_says_that_it_is_gone_and_closes_again(connections: Connections) -> None:
    assert connections.writer is not None
    writer = connections.writer
    await writer.close()

    with pytest.raises(ConnectionGone):
        await writer.run(lambda: 7)
    await writer.close()


async def test_a_connection_whose_thread_was_stopped_is_gone_and_can_be_closed(path: Path) -> None:
    with bridge():
        connection = await open_connection(path, "writer", StagedConnection, inline=False)
        assert connection._on_thread is not None
        stopped = connection._on_thread.stop()
        with pytest.raises(ConnectionGone):
            await connection.run(lambda: 7)
        assert stopped is not None
        await stopped
        await trio.to_thread.run_sync(connection.raw.thread.join)
        with trio.fail_after(1):
            await connection.close()


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("role", ["writer", "reader"])
def test_a_file_that_is_missing_or_no_database_is_refused_and_no_thread_outlives_the_run(
    tmp_path: Path, role: Role, inline: bool
) -> None:
    (tmp_path / "text.db").write_text("This is a text, and longer than the header of a database is. " * 20)
    kind = ReadConnection if role == "reader" else StagedConnection

    async def open_here(path: Path) -> None:
        with bridge():
            await open_connection(path, role, kind, inline=inline)

    for name in ("missing.db", "text.db") * 10:
        with pytest.raises(sqlite3.DatabaseError, match=r"unable to open|not a database"):
            trio.run(open_here, tmp_path / name)
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        open_point(tmp_path / "missing.db")

    assert not (tmp_path / "missing.db").exists()


@pytest.mark.parametrize("looks_s", [0.002, 60])
async def test_a_log_is_not_left_to_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks_s: float
) -> None:
    """SQLite would take it into whatever has the name, and so spoil a backup that was put there."""
    monkeypatch.setattr(db_module, "LOOK_S", looks_s)
    path, old = tmp_path / "office.db", tmp_path / "old.db"

    def add(tx: Tx, n: int) -> None:
        tx.execute("INSERT INTO accounts VALUES (?, ?, 'v', 0)", (f"acct_{n}", f"{n}" * 5000))

    with bridge():
        async with open_database(path, "office") as db:
            pass
        old.write_bytes(path.read_bytes())
        async with open_database(path, "office") as db:
            for n in range(3):
                await db.write(add, n)
            old.replace(path)
            if looks_s < 1:
                while db.healthy:
                    await trio.sleep(0.01)

    with closing(sqlite3.connect(path)) as tx:
        assert tx.execute("SELECT count(*) FROM accounts").fetchone() == (0,)
        assert tx.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_a_machine_that_gives_no_thread_is_told_in_words_and_asked_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a container may have so many processes and no more, or there is no memory."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with bridge(), trio.fail_after(20):
        async with open_database(path.with_name("office.db"), "office") as db:
            with monkeypatch.context() as patch:
                patch.setattr(threading.Thread, "start", refuse)
                with pytest.raises(StoreUnavailable, match="gives no thread to the database"):
                    await open_connection(path, "writer", StagedConnection, inline=False)
                with pytest.raises(StoreUnavailable):
                    await db.write(lambda tx: tx.close())
                while "gives no thread" not in (db.failure or ""):
                    await trio.sleep(0.01)
            while not db.healthy:
                await trio.sleep(0.01)
            assert await db.write(lambda _: 7) == 7


async def test_a_thread_without_a_bridge_is_refused(path: Path) -> None:
    with pytest.raises(RuntimeError, match="no bridge is open"):
        await open_connection(path, "writer", StagedConnection, inline=False)


def test_ctrl_c_while_they_open_or_close_leaves_no_thread(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(*given: Any, **options: Any) -> Any:
        opened = await open_connection(*given, **options)
        signal.raise_signal(signal.SIGINT)
        return opened

    async def open_them() -> None:
        with bridge():
            async with open_database(path.with_name("office.db"), "office"):
                await trio.lowlevel.checkpoint()

    monkeypatch.setattr(connection, "open_connection", interrupted)
    with pytest.raises((KeyboardInterrupt, BaseExceptionGroup)):
        trio.run(open_them)
    assert [thread for thread in threading.enumerate() if not thread.daemon] == [threading.main_thread()]
