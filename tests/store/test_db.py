"""The database in good days: shared commits, refused steps, reads, the log, and the end."""

from __future__ import annotations

import math
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio

from payd.core.errors import InvalidState, StoreUnavailable
from payd.store import db as seam
from payd.store import writer
from payd.store.bridge import bridge
from payd.store.copying import pinned
from payd.store.db import Database, Tx, open_database
from payd.store.migrate import DatabaseTooNew, read_migrations

pytestmark = pytest.mark.real_time

# Nothing here takes a second; a waiter that hangs is red, not stuck.
PATIENCE_S = 20


@pytest.fixture(params=["threads", "inline"])
async def db(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    """The real thing, and the one for virtual time: every test here holds for both."""
    with bridge():
        async with open_database(
            tmp_path / "office.db", "office", inline=request.param == "inline"
        ) as opened:
            yield opened


def add(tx: Tx, n: int, *, name: str = "") -> int:
    tx.execute("INSERT INTO accounts VALUES (?, ?, 'v', 0)", (f"acct_{n}", name or f"name {n}"))
    return n


def refuse(tx: Tx, n: int) -> int:
    add(tx, n)
    raise InvalidState(f"no {n}")


def count(tx: Tx) -> int:
    (rows,) = tx.execute("SELECT count(*) FROM accounts").fetchone()
    return int(rows)


async def two_ticks() -> None:
    """Every task that was started has run until it waits; nothing is committed yet."""
    await trio.lowlevel.checkpoint()
    await trio.lowlevel.checkpoint()


async def test_a_write_returns_what_its_step_did_and_every_read_sees_it(db: Database) -> None:
    assert await db.write(add, 1, name="Ada") == 1

    assert db.point(count) == 1
    assert await db.read(count) == 1
    assert db.healthy
    assert db.failure is None


async def test_steps_that_are_ready_together_share_one_commit(db: Database) -> None:
    results: list[int] = []

    async def write(n: int) -> None:
        results.append(await db.write(add, n))

    async with trio.open_nursery() as nursery:
        for n in range(50):
            nursery.start_soon(write, n)

    assert sorted(results) == list(range(50))
    assert db.point(count) == 50
    stats = db.stats()
    assert (stats.commits, stats.steps, stats.staged, stats.failures) == (1, 50, 0, 0)
    assert (stats.commit_s.count, stats.commit_s.total > 0) == (stats.commits, True)


async def test_what_the_woken_tasks_stage_next_shares_the_next_commit(db: Database) -> None:
    async def write_thrice(n: int) -> None:
        for k in range(3):
            await db.write(add, 3 * n + k)

    async with trio.open_nursery() as nursery:
        for n in range(20):
            nursery.start_soon(write_thrice, n)

    assert db.stats().commits == 3


async def test_there_is_a_new_generation_after_each_commit_and_only_then(db: Database) -> None:
    generations = [db.generation]
    for n in range(3):
        assert db.point(count) == n
        assert await db.read(count) == n
        assert db.generation == generations[-1]
        await db.write(add, n)
        generations.append(db.generation)

    assert len(set(generations)) == 4


async def test_a_batch_is_bounded(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "BATCH_MAX", 10)

    async with trio.open_nursery() as nursery:
        for n in range(35):
            nursery.start_soon(db.write, add, n)

    assert db.point(count) == 35
    assert db.stats().commits == 4


async def test_who_comes_when_too_many_wait_is_refused_and_the_others_are_stored(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seam, "STAGED_MAX", 5)
    refused: list[str] = []

    async def write(n: int) -> None:
        try:
            await db.write(add, n)
        except StoreUnavailable as error:
            refused.append(error.message)

    async with trio.open_nursery() as nursery:
        for n in range(8):
            nursery.start_soon(write, n)

    assert refused == ["The store is behind: 5 writes wait. Try again in a moment."] * 3
    assert db.point(count) == 5
    assert db.healthy


@pytest.mark.parametrize("neighbours", [0, 4])
async def test_a_step_that_raises_is_taken_back_alone_and_only_its_caller_hears(
    db: Database, neighbours: int
) -> None:
    async def expect_refusal() -> None:
        with pytest.raises(InvalidState, match="no 100") as caught:
            await db.write(refuse, 100)
        assert caught.traceback[-1].name == "refuse", "the traceback leads to the line that raised"

    async def expect_conflict() -> None:
        with pytest.raises(sqlite3.IntegrityError):
            await db.write(add, 101, name="name 0" if neighbours else "taken")

    await db.write(add, 0 if neighbours else 102, name="" if neighbours else "taken")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(expect_refusal)
        for n in range(1, neighbours + 1):
            nursery.start_soon(db.write, add, n)
        nursery.start_soon(expect_conflict)

    assert db.point(count) == 1 + neighbours
    assert db.healthy


async def test_the_step_of_a_cancelled_waiter_is_stored_all_the_same(db: Database) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(db.write, add, 1)
        await two_ticks()
        nursery.cancel_scope.cancel()
    await db.write(add, 2)

    assert db.point(count) == 2


async def test_a_cancelled_waiters_refusal_is_logged(db: Database) -> None:
    with structlog.testing.capture_logs() as logs:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(db.write, refuse, 1)
            await two_ticks()
            nursery.cancel_scope.cancel()
        await db.write(add, 2)

    (entry,) = [entry for entry in logs if entry["event"] == "step_failed_unseen"]
    assert isinstance(entry["exc_info"], InvalidState)


async def test_a_write_in_a_scope_that_was_cancelled_before_stages_nothing(db: Database) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await db.write(add, 1)

    assert scope.cancelled_caught
    await db.write(add, 2)
    assert db.point(count) == 1


async def test_a_shielded_write_is_not_cut_short(db: Database) -> None:
    async with trio.open_nursery() as nursery:
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            assert await db.write(add, 1) == 1


async def test_a_read_does_not_wait_for_the_writer(tmp_path: Path) -> None:
    release, entered = trio.Event(), trio.Event()

    def slow(tx: Tx) -> None:
        add(tx, 1)
        trio.from_thread.run_sync(entered.set, trio_token=token)
        trio.from_thread.run(release.wait, trio_token=token)

    token = trio.lowlevel.current_trio_token()
    with bridge():
        async with open_database(tmp_path / "office.db", "office") as db, trio.open_nursery() as nursery:
            nursery.start_soon(db.write, slow)
            await entered.wait()
            assert await db.read(count) == 0
            assert db.point(count) == 0
            release.set()


async def test_too_many_waiting_reads_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seam, "READS_MAX", 0)
    with bridge():
        async with open_database(tmp_path / "office.db", "office") as db:
            with pytest.raises(StoreUnavailable, match="reads wait"):
                await db.read(count)


async def test_a_query_cannot_write(db: Database) -> None:
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        db.point(add, 1)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        await db.read(add, 1)


async def test_a_query_that_raises_leaves_the_next_one_unharmed(db: Database) -> None:
    def stumble(tx: Tx) -> None:
        for _ in tx.execute("SELECT 1 UNION SELECT 2"):
            raise InvalidState("midway")

    for _ in range(2):
        with pytest.raises(InvalidState):
            db.point(stumble)
        with pytest.raises(InvalidState):
            await db.read(stumble)
    await db.write(add, 1)
    assert (db.point(count), await db.read(count)) == (1, 1)


@pytest.mark.parametrize("inline", [False, True])
async def test_everything_staged_is_stored_at_the_end_and_later_calls_are_refused(
    tmp_path: Path, inline: bool
) -> None:
    done: list[int] = []

    async def write(db: Database, n: int) -> None:
        done.append(await db.write(add, n))

    with bridge():
        async with (
            trio.open_nursery() as nursery,
            open_database(tmp_path / "office.db", "office", inline=inline) as db,
        ):
            for n in range(20):
                nursery.start_soon(write, db, n)
            await two_ticks()
        with pytest.raises(StoreUnavailable, match="closed"):
            await db.write(add, 99)
        with pytest.raises(StoreUnavailable):
            await db.read(count)
        with pytest.raises(StoreUnavailable):
            db.point(count)

    assert sorted(done) == list(range(20))
    with closing(sqlite3.connect(tmp_path / "office.db")) as left:
        assert count(left) == 20
    assert not (tmp_path / "office.db-wal").exists()


async def test_a_cancelled_block_can_still_write_while_it_cleans_up(tmp_path: Path) -> None:
    with bridge(), trio.CancelScope() as scope:
        async with open_database(tmp_path / "office.db", "office") as db:
            try:
                scope.cancel()
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    assert await db.write(add, 1) == 1

    with closing(sqlite3.connect(tmp_path / "office.db")) as left:
        assert count(left) == 1


@pytest.mark.parametrize("inline", [False, True])
async def test_what_the_block_raises_comes_out_as_it_is(tmp_path: Path, inline: bool) -> None:
    with bridge(), pytest.raises(InvalidState, match="mine"):
        async with open_database(tmp_path / "office.db", "office", inline=inline):
            raise InvalidState("mine")


async def test_a_database_that_cannot_be_opened_is_said_so_at_once(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "new.db")) as newer:
        newer.execute("PRAGMA user_version = 9000")
    with pytest.raises(DatabaseTooNew, match="9000"):
        async with open_database(tmp_path / "new.db", "office", inline=True):
            pass
    with pytest.raises(FileNotFoundError):
        async with open_database(tmp_path / "missing" / "x.db", "office", inline=True):
            pass
    with pytest.raises(RuntimeError, match="no bridge"):
        async with open_database(tmp_path / "x.db", "office"):
            pass


async def test_a_database_and_its_log_are_for_their_owner_only(db: Database, tmp_path: Path) -> None:
    await db.write(add, 1)

    files = [tmp_path / name for name in ("office.db", "office.db-shm", "office.db-wal")]
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600] * 3


async def test_it_is_at_the_newest_version_of_its_schema(db: Database) -> None:
    assert db.point(lambda tx: tx.execute("PRAGMA user_version").fetchone()) == (
        len(read_migrations("office")),
    )


async def test_the_log_is_taken_in_while_it_grows_and_emptied_when_it_is_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seam, "LOOK_S", 0.002)
    monkeypatch.setattr(seam, "CHECKPOINT_ROWS", 10)
    log = tmp_path / "office.db-wal"
    with bridge():
        async with open_database(tmp_path / "office.db", "office") as db:
            with trio.fail_after(20):
                while db.stats().checkpoints < 3:
                    await db.write(add, db.stats().steps)
                assert log.stat().st_size > 0
                while log.stat().st_size > 0:
                    await trio.lowlevel.checkpoint()
            assert db.point(count) == db.stats().steps


async def test_one_large_step_is_taken_in_as_many_small_ones_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seam, "LOOK_S", 0.002)
    monkeypatch.setattr(seam, "CHECKPOINT_LOOKS", math.inf)
    monkeypatch.setattr(seam, "QUIET_LOOKS", math.inf)

    def add_many(tx: Tx) -> None:
        for n in range(seam.CHECKPOINT_ROWS):
            add(tx, n)

    with bridge():
        async with open_database(tmp_path / "office.db", "office") as db:
            await db.write(add_many)
            with trio.move_on_after(PATIENCE_S):
                while db.stats().checkpoints == 0:
                    await trio.sleep(0.002)
            assert db.stats().checkpoints == 1


async def test_a_log_that_only_grew_starts_again_from_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seam, "LOG_PAGES_MAX", 8)
    with bridge():
        async with open_database(tmp_path / "office.db", "office") as db:
            for n in range(20):
                await db.write(add, n)
            long = await db._checkpoint("PASSIVE")
            await db._checkpoint("RESTART")
            await db.write(add, 99)
            short = await db._checkpoint("PASSIVE")
    assert long.pages > 8
    assert short.pages < 8


# On a busy machine a checkpoint may not get the writer's lock in time, and tries again later.
TRIES = 3


async def test_a_log_starts_again_also_beside_lists_of_which_each_follows_on_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seam, "LOG_PAGES_MAX", 64)
    monkeypatch.setattr(seam, "LOOK_S", math.inf)

    def list_slowly(tx: Tx) -> None:
        count(tx)
        time.sleep(0.1)  # as long as a list of many rows

    async def go_on(work: Callable[[], Awaitable[object]], pause_s: float = 0) -> None:
        while True:
            await work()
            await trio.sleep(pause_s)

    with bridge():
        async with open_database(tmp_path / "office.db", "office") as db, trio.open_nursery() as others:
            for read in (db.read, db.read, db.look, db.look):
                others.start_soon(go_on, partial(read, list_slowly))
            others.start_soon(go_on, lambda: db.write(add, db.stats().commits), 0.02)
            while (await db._checkpoint("PASSIVE")).pages <= 2 * 64:
                await trio.sleep(0.1)
            pages = list[int]()
            while len(pages) < TRIES and min(pages, default=math.inf) > 64:
                await db._shorten("RESTART", 64)
                await db.write(add, -1)  # the log starts again with the next commit
                pages.append((await db._checkpoint("PASSIVE")).pages)
            assert pages[-1] <= 64, pages
            others.cancel_scope.cancel()


async def test_while_a_backup_reads_the_writer_is_not_locked_out_for_all_that_it_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seam, "LOG_PAGES_MAX", 8)
    monkeypatch.setattr(seam, "LOOK_S", math.inf)
    asked: list[str] = []
    with bridge():
        async with open_database(tmp_path / "office.db", "office") as db:
            take_log = db._connections.take_log

            async def noted(mode: Any, *, alone: bool = False) -> Any:
                asked.append(mode)
                return await take_log(mode, alone=alone)

            monkeypatch.setattr(db._connections, "take_log", noted)
            with pinned([tmp_path / "office.db"]):
                for n in range(20):
                    await db.write(add, n)
                asked.clear()
                await db._shorten("RESTART", 8)
                await db._shorten("TRUNCATE")
                assert asked == ["PASSIVE"] * 2
            asked.clear()
            await db._shorten("RESTART", 8)
            await db._shorten("TRUNCATE")
            assert asked == ["PASSIVE", "RESTART", "PASSIVE", "TRUNCATE"]


def count_for_ever(tx: Tx) -> int:
    endless = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
    (rows,) = tx.execute(endless).fetchone()
    return int(rows)


async def test_a_list_that_takes_too_long_is_ended_in_words_and_the_next_one_is_read(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seam, "READ_MAX_S", 0.05)
    with pytest.raises(StoreUnavailable, match="Narrow the filter"):
        await db.read(count_for_ever)

    assert await db.read(count) == 0


async def test_a_look_does_not_wait_for_a_list(tmp_path: Path) -> None:
    held, found = threading.Event(), threading.Event()

    def hold(tx: Tx) -> bool:
        held.set()
        return found.wait(10)

    with bridge():
        async with open_database(tmp_path / "office.db", "office") as db, trio.open_nursery() as nursery:
            nursery.start_soon(db.read, hold)
            await trio.to_thread.run_sync(held.wait)
            with trio.fail_after(5):
                assert await db.look(count) == 0
            found.set()
