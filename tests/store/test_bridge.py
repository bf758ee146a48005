"""The bridge: what of asyncio aiosqlite leans on, and that it leans on nothing else."""

from __future__ import annotations

import asyncio
import importlib.metadata
import sqlite3
import threading
from collections.abc import Iterator

import aiosqlite
import pytest
import trio

from payd.store.bridge import UnsupportedByBridge, bridge, check_bridge

pytestmark = pytest.mark.real_time

# Counts without end: long enough to be cancelled, and interrupted then.
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"


async def rows(db: aiosqlite.Connection, sql: str, *args: object) -> list[object]:
    return [tuple(row) for row in await db.execute_fetchall(sql, args)]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        if not thread.daemon:  # Trio keeps daemon threads for later.
            thread.join(10)
            assert not thread.is_alive(), thread


def test_aiosqlite_is_of_the_series_that_these_tests_were_written_for() -> None:
    major, minor, *_ = importlib.metadata.version("aiosqlite").split(".")
    assert (major, minor) == ("0", "22"), "run this file, read aiosqlite's core.py, then widen the range"


async def test_the_whole_public_way_of_a_connection_works_under_trio() -> None:
    with bridge():
        db = await aiosqlite.connect(":memory:", isolation_level=None)
        await db.execute("CREATE TABLE t (x INTEGER PRIMARY KEY)")
        await db.execute("BEGIN")
        await db.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(100)])
        await db.commit()
        async with db.execute("SELECT x FROM t ORDER BY x") as cursor:
            assert await cursor.fetchone() == (0,)
            assert [row async for row in cursor] == [(n,) for n in range(1, 100)]
        await db.execute("BEGIN")
        await db.execute("DELETE FROM t")
        await db.rollback()
        assert await rows(db, "SELECT count(*) FROM t") == [(100,)]
        async with db.cursor() as cursor:
            await cursor.execute("SELECT max(x) FROM t")
            assert [tuple(row) for row in await cursor.fetchall()] == [(99,)]
        await db.close()


async def test_an_error_of_sqlite_arrives_and_the_connection_goes_on() -> None:
    with bridge():
        async with aiosqlite.connect(":memory:") as db:
            with pytest.raises(sqlite3.OperationalError, match="no such table"):
                await db.execute("SELECT * FROM nowhere")
            assert await rows(db, "SELECT 1") == [(1,)]


async def test_a_connection_that_cannot_be_opened_says_so() -> None:
    before = set(threading.enumerate())
    with bridge():
        connecting = aiosqlite.connect("file:/nowhere/at/all.db?mode=ro", uri=True)
        with pytest.raises(sqlite3.OperationalError, match="unable to open"):
            await connecting
        for thread in set(threading.enumerate()) - before:
            await trio.to_thread.run_sync(thread.join)  # It answers to this run, and nobody waits for it.


async def test_a_cancelled_waiter_leaves_at_once_and_its_result_is_dropped() -> None:
    with bridge():
        async with aiosqlite.connect(":memory:") as db:
            with trio.CancelScope() as scope:
                scope.cancel()
                await db.execute("CREATE TABLE t (x)")
            assert scope.cancelled_caught
            with trio.move_on_after(0.01) as impatient:
                await db.execute_fetchall(ENDLESS)
            assert impatient.cancelled_caught
            await db.interrupt()
            assert await rows(db, "SELECT count(*) FROM t") == [(0,)]


async def test_many_tasks_share_one_connection() -> None:
    got: list[object] = []
    with bridge():
        async with aiosqlite.connect(":memory:") as db:

            async def ask(n: int) -> None:
                got.extend(await rows(db, "SELECT ?", n))

            async with trio.open_nursery() as nursery:
                for n in range(20):
                    nursery.start_soon(ask, n)
    assert sorted(got, key=str) == sorted([(n,) for n in range(20)], key=str)


async def test_what_needs_more_of_the_loop_is_refused_by_name() -> None:
    with bridge():
        async with aiosqlite.connect(":memory:") as db:
            with pytest.raises(UnsupportedByBridge, match=r"create_task .*payd/store/bridge\.py"):
                _ = [line async for line in db.iterdump()]


async def test_every_other_method_of_a_loop_and_a_future_is_refused() -> None:
    with bridge():
        loop = asyncio.get_event_loop()
        public = [name for name in dir(asyncio.AbstractEventLoop) if not name.startswith("_")]
        assert len(public) > 40
        for name in set(public) - {"create_future", "call_soon_threadsafe"}:
            with pytest.raises(UnsupportedByBridge, match=name):
                getattr(loop, name)
        with pytest.raises(UnsupportedByBridge, match="add_done_callback"):
            loop.create_future().add_done_callback(print)


async def test_a_future_that_is_settled_first_gives_its_result_to_a_later_waiter() -> None:
    with bridge():
        loop = asyncio.get_event_loop()
        good, bad = loop.create_future(), loop.create_future()
        good.set_result(7)
        bad.set_exception(KeyError("x"))
        assert good.done()
        assert good.get_loop() is loop
        assert await good == 7
        with pytest.raises(KeyError):
            await bad


def test_a_thread_that_answers_after_the_run_hears_that_the_loop_is_closed() -> None:
    async def take_loop() -> asyncio.AbstractEventLoop:
        with bridge():
            return asyncio.get_event_loop()

    loop = trio.run(take_loop)
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        loop.call_soon_threadsafe(print, "never")


async def test_afterwards_the_thread_has_no_loop_and_asyncio_works_as_ever() -> None:
    with pytest.raises(KeyError), bridge():
        raise KeyError
    with pytest.raises(RuntimeError):
        asyncio.get_event_loop()
    with pytest.raises(RuntimeError, match="no bridge is open"):
        check_bridge()


def test_asyncio_runs_in_a_thread_that_had_a_bridge() -> None:
    async def cross() -> None:
        with bridge():
            await trio.lowlevel.checkpoint()

    async def seven() -> int:
        await asyncio.sleep(0)
        return 7

    trio.run(cross)
    assert asyncio.run(seven()) == 7


async def test_a_bridge_inside_another_leaves_it_open() -> None:
    with bridge():
        outer = asyncio.get_event_loop()
        with bridge():
            assert asyncio.get_event_loop() is outer
        assert asyncio.get_event_loop() is outer
        check_bridge()
