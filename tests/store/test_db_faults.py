"""The database in bad days: full disks, lost connections, dead threads, kill -9; and no waiter hangs."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import outcome
import pytest
import trio

from payd.core.errors import OutcomeUnknown, PaydError, StoreUnavailable
from payd.store import bridge as bridge_module
from payd.store import connection as connection_module
from payd.store import db as seam
from payd.store.bridge import bridge
from payd.store.db import Database, Tx, open_database

ROOT = Path(__file__).parents[2]

# Nothing here takes a second; a waiter that hangs is red, not stuck.
PATIENCE_S = 20


@pytest.fixture(params=["threads", "inline", "together"])
async def db(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Database]:
    if request.param == "together":
        monkeypatch.setattr(sys.modules[__name__], "write", write_together)
    with bridge():
        async with open_database(
            tmp_path / "office.db", "office", inline=request.param == "inline"
        ) as opened:
            with trio.fail_after(PATIENCE_S):
                yield opened


def add(tx: Tx, n: int, size: int = 0) -> int:
    tx.execute("INSERT INTO accounts VALUES (?, ?, 'v', 0)", (f"acct_{n}", f"{n} {'x' * size}"))
    return n


def add_all(tx: Tx, asked: list[tuple[int, int]]) -> list[outcome.Outcome[int]]:
    return [outcome.Value(add(tx, *one)) for one in asked]


async def write(db: Database, n: int, size: int = 0) -> int:
    return await db.write(add, n, size)


async def write_together(db: Database, n: int, size: int = 0) -> int:
    found: int = await db.write_together(None, add_all, (n, size))
    return found


def run_sql(tx: Tx, sql: str) -> object:
    return tx.execute(sql).fetchone()


def ids(tx: Tx) -> set[int]:
    return {int(id_[5:]) for (id_,) in tx.execute("SELECT id FROM accounts")}


async def outcomes(db: Database, *numbers: int, size: int = 0) -> list[type[PaydError] | int]:
    """Write all at once; what each waiter is told."""
    told: dict[int, type[PaydError] | int] = {}

    async def tell(n: int) -> None:
        try:
            told[n] = await write(db, n, size)
        except PaydError as error:
            told[n] = type(error)

    async with trio.open_nursery() as nursery:
        for n in numbers:
            nursery.start_soon(tell, n)
    return [told[n] for n in numbers]


async def until_healthy(db: Database) -> None:
    while not db.healthy:
        await trio.lowlevel.checkpoint()


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """A write that would make a file larger fails with EFBIG, as a quota does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def unreadable(db: Database) -> Iterator[None]:
    """What is not in memory of the database and of its log cannot be read: the disk answers with errors."""
    names = {str(db._path), f"{db._path}-wal"}
    open_files = [int(fd) for fd in os.listdir("/proc/self/fd") if _name_of(fd) in names]
    kept = [(fd, os.dup(fd)) for fd in open_files]
    with open(os.devnull, "wb") as nothing_to_read:
        for fd, _ in kept:
            os.dup2(nothing_to_read.fileno(), fd)
    try:
        yield
    finally:
        for fd, copy in kept:
            os.dup2(copy, fd)
            os.close(copy)


def _name_of(fd: str) -> str:
    with suppress(FileNotFoundError):  # that of the look itself
        return os.readlink(f"/proc/self/fd/{fd}")
    return ""


@pytest.mark.real_time
async def test_a_full_database_refuses_the_whole_batch_and_comes_back(db: Database) -> None:
    reloads: list[set[int]] = []
    db.on_reload(lambda: reloads.append(db.point(ids)))
    await write(db, 0)
    await db.write(run_sql, "PRAGMA max_page_count = 1")

    assert await outcomes(db, 1, 2, 3, size=50_000) == [StoreUnavailable] * 3

    assert reloads == [{0}], "memory is read again before a waiter goes on, and rows can be read by then"
    await until_healthy(db)
    assert db.failure is None
    assert await write(db, 4) == 4
    assert db.point(ids) == {0, 4}
    assert db.stats().failures == 1


@pytest.mark.real_time
async def test_while_it_is_unhealthy_writes_are_refused_at_once_in_words_and_reads_go_on(
    db: Database,
) -> None:
    await write(db, 0)
    await db.write(run_sql, "PRAGMA max_page_count = 1")
    db._retry_s = 3600
    readers = db._connections.reader, db._connections.point
    await outcomes(db, 1, size=50_000)

    assert not db.healthy
    assert "the disk is full" in (db.failure or "")
    with pytest.raises(StoreUnavailable, match="disk is full: free some space"):
        await write(db, 2)
    assert db.point(ids) == {0}
    assert await db.read(ids) == {0}
    assert (db._connections.reader, db._connections.point) == readers, (
        "a full disk need not let them in again"
    )


@pytest.mark.real_time
async def test_a_read_only_database_refuses_and_comes_back(db: Database) -> None:
    await db.write(run_sql, "PRAGMA query_only = ON")

    with pytest.raises(StoreUnavailable, match="read-only: let payd write"):
        await write(db, 1)

    await until_healthy(db)
    assert await outcomes(db, 1, 2) == [1, 2]


@pytest.mark.real_time
@pytest.mark.parametrize("there", ["nothing", "an empty file", "an older copy"])
async def test_what_nobody_would_find_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: str
) -> None:
    """Who takes the folder away under a server, or puts a backup there, is told, and puts it back."""
    monkeypatch.setattr(seam, "LOOK_S", 0.002)
    path, away = tmp_path / "office.db", tmp_path / "away.db"
    with bridge(), trio.fail_after(PATIENCE_S):
        async with open_database(path, "office") as db:
            await write(db, 0)
            path.rename(away)
            if there != "nothing":
                path.write_bytes(b"" if there == "an empty file" else away.read_bytes())
            n = 1
            with suppress(StoreUnavailable):
                while n := await write(db, n) + 1:
                    await trio.sleep(0.001)

            with pytest.raises(StoreUnavailable, match="moved, replaced or removed: put it back"):
                await write(db, n)
            assert await db.read(ids) == set(range(n)), "what was stored so far can be read"
            await trio.sleep(4 * seam.RETRY_FIRST_S)
            assert "moved, replaced or removed" in (db.failure or ""), "no other file is taken for it"
            away.rename(path)
            await until_healthy(db)
            assert await write(db, n) == n
            assert await db.read(ids) == set(range(n + 1))


@pytest.mark.real_time
async def test_a_disk_error_in_a_read_is_told_in_words_and_the_next_one_is_read(db: Database) -> None:
    await write(db, 0, 100_000)
    with unreadable(db):
        for read in (db.read, db.look):
            for _ in range(2):
                with pytest.raises(StoreUnavailable, match="cannot be read: the disk answers with errors"):
                    await read(run_sql, "SELECT name FROM accounts")
        with pytest.raises(StoreUnavailable, match="cannot be read: the disk answers with errors") as refused:
            db.point(run_sql, "SELECT name FROM accounts")
    assert isinstance(refused.value.__cause__, sqlite3.OperationalError)

    assert await db.read(ids) == await db.look(ids) == db.point(ids) == {0}
    assert db.healthy


@pytest.mark.real_time
async def test_a_disk_error_in_the_commit_is_an_unknown_outcome_and_rows_tell_the_truth(db: Database) -> None:
    reloads: list[set[int]] = []
    db.on_reload(lambda: reloads.append(db.point(ids)))
    stored = {n for n in range(20) if await write(db, n, 5000) == n}

    with files_up_to(150_000):
        told = await outcomes(db, 100, 101, 102, size=20_000)
        assert told == [OutcomeUnknown] * 3
        assert reloads == [db.point(ids)]
        assert not db.healthy or await outcomes(db, 103, size=90_000) != [103]

    await until_healthy(db)
    assert await write(db, 104) == 104
    assert db.point(ids) >= stored | {104}
    assert db.point(run_sql, "PRAGMA integrity_check") == ("ok",)


async def test_writes_are_refused_until_one_would_succeed_and_memory_is_read_again_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "BUSY_MAX_S", 0)
    reloads: list[set[int]] = []
    async with open_database(tmp_path / "office.db", "office", inline=True) as db:
        db.on_reload(lambda: reloads.append(db.point(ids)))
        await write(db, 0)
        with closing(sqlite3.connect(tmp_path / "office.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert await outcomes(db, 1, 2) == [StoreUnavailable] * 2
            await trio.sleep(3600)
            assert "another process holds the database" in (db.failure or "")
            assert reloads == [{0}]
        await trio.sleep(2 * seam.RETRY_MAX_S)
        assert db.healthy
        assert await write(db, 3) == 3
    assert reloads == [{0}]


async def test_it_waits_longer_each_time_and_comes_back_by_itself_when_there_is_space(tmp_path: Path) -> None:
    """In virtual time: an hour on a disk that is full."""
    async with open_database(tmp_path / "office.db", "office", inline=True) as db:
        await write(db, 0)
        with files_up_to(1):
            assert await outcomes(db, 1) == [OutcomeUnknown]
            await trio.sleep(3600)
            assert "the disk answers with errors" in (db.failure or "")
            assert db.stats().failures == 1, "the probes are none"
            with pytest.raises(StoreUnavailable):
                await write(db, 2)
        await trio.sleep(3 * seam.RETRY_MAX_S)
        assert db.healthy
        assert await write(db, 3) == 3


async def test_a_database_that_is_unhealthy_closes_without_waiting(tmp_path: Path) -> None:
    started_s = trio.current_time()
    async with open_database(tmp_path / "office.db", "office", inline=True) as db:
        with files_up_to(1):
            await outcomes(db, 1)
            await trio.sleep(60)
            assert not db.healthy
    assert trio.current_time() - started_s == pytest.approx(60)


async def test_an_idle_database_waits_for_no_time(tmp_path: Path) -> None:
    async with open_database(tmp_path / "office.db", "office", inline=True) as db:
        await write(db, 1)
        await trio.sleep(60)
        assert trio.lowlevel.current_statistics().seconds_to_next_deadline == float("inf")


@pytest.mark.real_time
async def test_a_step_that_closes_its_connection_harms_one_batch(db: Database) -> None:
    with pytest.raises(StoreUnavailable):
        await db.write(lambda tx: tx.close())

    await until_healthy(db)
    assert await outcomes(db, 1, 2) == [1, 2]


@pytest.mark.real_time
@pytest.mark.parametrize("role", ["writer", "reader", "checkpointer"])
async def test_a_connection_that_is_lost_is_opened_again(tmp_path: Path, role: str) -> None:
    with bridge(), trio.fail_after(PATIENCE_S):
        async with open_database(tmp_path / "office.db", "office") as db:
            await write(db, 0)
            lost = getattr(db._connections, role)
            lost._on_thread.stop()
            if role == "checkpointer":
                await db._checkpoint("PASSIVE")  # It has nobody to tell.
            else:
                with pytest.raises(StoreUnavailable):
                    await (db.write(add, 1) if role == "writer" else db.read(ids))
            while getattr(db._connections, role) in (None, lost):
                await trio.lowlevel.checkpoint()
            await until_healthy(db)
            assert await write(db, 2) == 2
            assert {0, 2} <= await db.read(ids)
            assert (await db._checkpoint("PASSIVE")).pages >= 0


@pytest.mark.real_time
async def test_a_lost_connection_is_not_kept_waiting_by_a_step_in_company(tmp_path: Path) -> None:
    told: list[type[PaydError]] = []

    async def write(db: Database) -> None:
        try:
            await db.write_in_company(add, 1)
        except PaydError as error:
            told.append(type(error))

    with bridge(), trio.fail_after(PATIENCE_S):
        async with open_database(tmp_path / "office.db", "office") as db, trio.open_nursery() as nursery:
            db._company_s = 3600
            nursery.start_soon(write, db)
            await trio.testing.wait_all_tasks_blocked()
            assert db._connections.reader is not None
            assert db._connections.reader._on_thread is not None
            db._connections.reader._on_thread.stop()
            with pytest.raises(StoreUnavailable):
                await db.read(ids)

        assert told == [StoreUnavailable]


@pytest.mark.real_time
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_thread_that_dies_with_a_batch_leaves_no_waiter_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seam, "LOOK_S", 0.002)
    monkeypatch.setattr(connection_module, "CLOSE_MAX_S", 3600)
    answer = bridge_module._TrioLoop.call_soon_threadsafe

    def die_on_the_writer(loop: object, *args: object) -> object:
        if threading.current_thread() is doomed:
            raise RuntimeError("the thread dies before it can answer")
        return answer(loop, *args)  # type: ignore[arg-type]

    with bridge(), trio.fail_after(PATIENCE_S):
        async with open_database(tmp_path / "office.db", "office") as db:
            await db.write(add, 0)
            generation = db.generation
            assert db._connections.writer is not None
            doomed = db._connections.writer.raw.thread
            monkeypatch.setattr(bridge_module._TrioLoop, "call_soon_threadsafe", die_on_the_writer)

            assert await outcomes(db, 1, 2) == [OutcomeUnknown] * 2

            await until_healthy(db)
            assert db.point(ids) == {0, 1, 2}, "it was stored, and nobody could know"
            assert db.generation != generation
            assert await outcomes(db, 3) == [3]


@pytest.mark.real_time
async def test_a_callback_that_raises_ends_the_database_and_no_waiter_hangs(tmp_path: Path) -> None:
    def stumble() -> None:
        raise KeyError("memory")

    told: list[type[PaydError] | int] = []

    async def write_shielded() -> None:
        async with open_database(tmp_path / "office.db", "office") as db:
            db.on_reload(stumble)
            await db.write(run_sql, "PRAGMA query_only = ON")
            with trio.CancelScope(shield=True):
                told.extend(await outcomes(db, 1, 2))
            await trio.sleep_forever()

    with bridge(), trio.fail_after(PATIENCE_S), pytest.raises(ExceptionGroup) as caught:
        await write_shielded()
    assert caught.group_contains(KeyError)
    assert len(told) == 2
    assert set(told) <= {StoreUnavailable, OutcomeUnknown}


@pytest.mark.real_time
async def test_a_batch_that_outlasts_the_end_is_told_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seam, "SHUTDOWN_MAX_S", 0.01)
    release, entered = threading.Event(), trio.Event()
    token = trio.lowlevel.current_trio_token()
    told: dict[str, type[PaydError]] = {}

    def hang(tx: Tx) -> None:
        token.run_sync_soon(entered.set)
        release.wait()

    async def write(name: str, step: Callable[[Tx], object]) -> None:
        try:
            await opened[0].write(step)
        except PaydError as error:
            told[name] = type(error)
            if len(told) == 2:
                release.set()

    opened: list[Database] = []

    with bridge(), trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery, open_database(tmp_path / "office.db", "office") as db:
            opened.append(db)
            nursery.start_soon(write, "in flight", hang)
            await entered.wait()
            nursery.start_soon(write, "staged", ids)
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
    assert told == {"in flight": OutcomeUnknown, "staged": StoreUnavailable}


CRASH = """
import sys, trio
from payd.store.bridge import bridge
from payd.store.db import open_database

async def main():
    with bridge():
        async with open_database(sys.argv[1], "office") as db:
            await db.read(lambda tx: None)
            raise RuntimeError("crash")

trio.run(main)
"""

WRITE = """
import os, sys, trio
from payd.store.bridge import bridge
from payd.store.db import open_database

def add(tx, n):
    tx.execute("INSERT INTO accounts VALUES (?, ?, 'v', 0)", (f"acct_{n}", str(n)))

async def write(db, first):
    for n in range(first, first + 10**6):
        await db.write(add, n)
        os.write(1, f"{n}\\n".encode())

async def main():
    with bridge():
        async with open_database(sys.argv[1], "office") as db, trio.open_nursery() as nursery:
            for actor in range(30):
                nursery.start_soon(write, db, actor * 10**6)

trio.run(main)
"""


def test_an_exception_in_main_ends_the_process(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", CRASH, str(tmp_path / "office.db")],
        cwd=ROOT,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.endswith(b"\nRuntimeError: crash\n")


@pytest.mark.parametrize("acknowledged_min", [1, 500, 5000])
def test_after_kill_9_every_acknowledged_row_is_there(tmp_path: Path, acknowledged_min: int) -> None:
    path = tmp_path / "office.db"
    with subprocess.Popen(
        [sys.executable, "-c", WRITE, str(path)], cwd=ROOT, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        told = [writer.stdout.readline() for _ in range(acknowledged_min)]
        os.kill(writer.pid, signal.SIGKILL)
        told += writer.stdout.readlines()
    acknowledged = {int(line) for line in told if line.endswith(b"\n")}

    with closing(sqlite3.connect(path)) as left:
        assert len(acknowledged) >= acknowledged_min
        assert acknowledged <= ids(left)
        assert run_sql(left, "PRAGMA integrity_check") == ("ok",)
