"""Where a batch runs: which thread has its statements, what others who have the database do to it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import outcome
import pytest
import trio

from payd.core.errors import InternalError, OutcomeUnknown, StoreUnavailable
from payd.store import writer
from payd.store.batch import Failure, Step, commit_steps, run_steps
from payd.store.bridge import bridge
from payd.store.db import Database, Tx, open_database
from payd.store.raw import StagedConnection

pytestmark = pytest.mark.real_time

# Nothing here takes a second; a waiter that hangs is red, not stuck.
PATIENCE_S = 20


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    with bridge():
        async with open_database(tmp_path / "office.db", "office") as opened:
            with trio.fail_after(PATIENCE_S):
                yield opened


def add(tx: Tx, n: int) -> str:
    """Gives the name of the thread."""
    tx.execute("INSERT INTO accounts VALUES (?, ?, 'v', 0)", (f"acct_{n}", f"name {n}"))
    return threading.current_thread().name


def add_all(tx: Tx, numbers: list[int]) -> list[outcome.Outcome[str]]:
    return [outcome.Value(add(tx, n)) for n in numbers]


def count(tx: Tx) -> int:
    (rows,) = tx.execute("SELECT count(*) FROM accounts").fetchone()
    return int(rows)


async def together(db: Database, *numbers: int) -> list[str]:
    """Write all at once; in which thread each was."""
    where: dict[int, str] = {}

    async def write(n: int) -> None:
        where[n] = await db.write_together(None, add_all, n)

    async with trio.open_nursery() as nursery:
        for n in numbers:
            nursery.start_soon(write, n)
    return [where[n] for n in numbers]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Somebody else writes to the database."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


async def test_what_goes_together_runs_on_the_loop_s_thread_and_all_else_on_the_other(
    db: Database,
) -> None:
    here = threading.current_thread().name
    assert set(await together(db, 1, 2, 3)) == {here}
    assert await db.write(add, 4) != here
    assert await together(db, 5) == [here]

    where: list[str] = []

    async def write_with_another() -> None:
        where.append(await db.write_together(None, add_all, 7))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(db.write, add, 6)
        nursery.start_soon(write_with_another)
    assert here not in where
    assert (db.point(count), db.stats().commits) == (7, 4)


async def test_the_disk_is_waited_for_on_the_writer_s_thread(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, entered, real = threading.Event(), trio.Event(), commit_steps
    token = trio.lowlevel.current_trio_token()

    def commit_late(tx: Tx) -> Failure | None:
        token.run_sync_soon(entered.set)
        release.wait(PATIENCE_S)
        return real(tx)

    monkeypatch.setattr(writer, "commit_steps", commit_late)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(together, db, 1)
        await entered.wait()
        assert db.point(count) == 0  # the statements have run, and nobody sees them yet
        release.set()
    assert db.point(count) == 1


async def test_so_many_at_once_are_batches_that_the_loop_has_time_for(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "BRIEF_MAX", 10)
    here = threading.current_thread().name
    assert set(await together(db, *range(35))) == {here}
    assert (db.point(count), db.stats().commits) == (35, 4)


async def test_who_else_has_the_database_is_waited_for_without_the_loop(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, waited_s = threading.current_thread().name, []

    def note_and_run(tx: StagedConnection, batch: Sequence[Step]) -> Failure | None:
        waited_s.append(tx._waits_s)
        return run_steps(tx, batch)

    monkeypatch.setattr(writer, "run_steps", note_and_run)
    async with trio.open_nursery() as nursery:
        with locked(db._path):
            where: list[str] = []

            async def write() -> None:
                where.extend(await together(db, 1, 2))

            nursery.start_soon(write)
            while not waited_s:
                await trio.lowlevel.checkpoint()
            assert where == []
    assert where != []
    assert here not in where
    assert await together(db, 3) == [here]  # again
    assert waited_s == [0, 0]
    assert db.stats().failures == 0


@pytest.mark.parametrize("is_in_doubt", [True, False])
async def test_what_failed_on_the_loop_is_not_run_again_on_the_thread(
    db: Database, is_in_doubt: bool
) -> None:
    ran: list[int] = []

    def break_off(tx: Tx, numbers: list[int]) -> list[outcome.Outcome[str]]:
        ran.extend(numbers)
        add_all(tx, numbers)
        if is_in_doubt:
            tx.execute("COMMIT")
            return []
        full = sqlite3.OperationalError("database or disk is full")
        full.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise full

    with pytest.raises(OutcomeUnknown if is_in_doubt else StoreUnavailable):
        await db.write_together(None, break_off, 1)
    while not db.healthy:
        await trio.sleep(0.01)
    assert ran == [1]
    assert db.point(count) == int(is_in_doubt)


@pytest.mark.parametrize("what", ["its thread", "its connection"])
async def test_a_writer_that_is_gone_has_nothing_run_and_comes_back(db: Database, what: str) -> None:
    await together(db, 1)
    gone = db._connections.writer
    assert gone is not None
    if what == "its thread":
        assert gone._on_thread is not None
        gone._on_thread.stop()
        gone.raw.thread.join(PATIENCE_S)
    else:
        gone.raw.close()
    with pytest.raises(StoreUnavailable, match="the connection to the database was lost"):
        await db.write_together(None, add_all, 2)
    while not db.healthy:
        await trio.sleep(0.01)
    assert db.point(count) == 1
    await together(db, 3)
    assert db.point(count) == 2


@pytest.mark.parametrize("when", ["between", "before the commit"])
async def test_a_connection_that_is_closed_under_a_batch_ends_no_committer(
    db: Database, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    name = "run_steps" if when == "between" else "commit_steps"
    real = getattr(writer, name)

    def with_close(tx: Tx, *more: Sequence[Step]) -> Failure | None:
        if when == "between":
            found: Failure | None = real(tx, *more)
            tx.close()
            return found
        tx.close()
        return commit_steps(tx)

    with monkeypatch.context() as patch:
        patch.setattr(writer, name, with_close)
        with pytest.raises(InternalError, match="The store cannot be written"):
            await db.write_together(None, add_all, 1)
    while not db.healthy:
        await trio.sleep(0.01)
    await together(db, 2)
    assert db.point(count) == 1
