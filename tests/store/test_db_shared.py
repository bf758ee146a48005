"""Commits that are shared: who waits for whom, what is one call, and who is told of what."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from functools import partial
from pathlib import Path

import outcome
import pytest
import trio

from payd.core.errors import InvalidState
from payd.store import db as seam
from payd.store.bridge import bridge
from payd.store.db import Database, Tx, open_database
from tests.store.test_db import add, count, refuse, two_ticks

pytestmark = pytest.mark.real_time

# Nothing here takes a second; a waiter that hangs is red, not stuck.
PATIENCE_S = 20


@pytest.fixture(params=["threads", "inline"])
async def db(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    with bridge():
        async with open_database(
            tmp_path / "office.db", "office", inline=request.param == "inline"
        ) as opened:
            yield opened


@pytest.mark.parametrize("db", ["threads"], indirect=True)
async def test_a_step_in_company_is_committed_with_the_next_write_which_does_not_wait(db: Database) -> None:
    db._company_s = 3600
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            for n in range(3):
                nursery.start_soon(db.write_in_company, add, n)
            await trio.testing.wait_all_tasks_blocked()
            assert db.stats().commits == 0
            assert await db.write(add, 3) == 3

    stats = db.stats()
    assert (stats.commits, stats.steps) == (1, 4)


@pytest.mark.parametrize("db", ["threads"], indirect=True)
async def test_steps_that_go_together_wait_for_company_where_nobody_hurries(db: Database) -> None:
    db._company_s = 3600
    together = partial(db.write_together, None, add_none)
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(together, 1, hurry=False))
            await trio.testing.wait_all_tasks_blocked()
            assert db.stats().commits == 0
            await together(2)

    assert (db.stats().commits, db.stats().steps) == (1, 2)


async def test_a_step_in_company_is_committed_too_when_nobody_comes(db: Database) -> None:
    with trio.fail_after(PATIENCE_S):
        for n in range(3):
            assert await db.write_in_company(add, n) == n

    assert db.stats().commits == db.point(count) == 3


@pytest.mark.parametrize("db", ["threads"], indirect=True)
async def test_each_batch_waits_for_company_anew(db: Database) -> None:
    db._company_s = 3600
    with trio.fail_after(PATIENCE_S):
        await db.write(add, 0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(db.write_in_company, add, 1)
            await trio.testing.wait_all_tasks_blocked()
            assert db.stats().commits == 1
            await db.write(add, 2)

    assert db.stats().commits == 2


async def test_the_end_waits_for_no_company(tmp_path: Path) -> None:
    with bridge(), trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery, open_database(tmp_path / "office.db", "office") as db:
            db._company_s = 3600
            nursery.start_soon(db.write_in_company, add, 1)
            await two_ticks()

    with closing(sqlite3.connect(tmp_path / "office.db")) as left:
        assert count(left) == 1


def add_none(_: Tx, numbers: list[int]) -> list[outcome.Outcome[None]]:
    """Writes nothing, together."""
    return [outcome.Value(None) for _ in numbers]


@pytest.mark.parametrize(
    ("meanwhile", "apart", "commits"), [(10, 0, 2), (0, seam.COMPANY, 2), (seam.COMPANY, 0, 3)]
)
async def test_a_batch_waits_for_the_tasks_that_the_one_before_it_woke_unless_many_go_together(
    tmp_path: Path, meanwhile: int, apart: int, commits: int
) -> None:
    release, entered = threading.Event(), trio.Event()
    token = trio.lowlevel.current_trio_token()

    def wait_and_add(tx: Tx, n: int) -> int:
        token.run_sync_soon(entered.set)
        release.wait()
        return add(tx, n)

    async def write_twice(db: Database, n: int) -> None:
        await db.write(wait_and_add, n)
        await db.write(add, n + 1)

    with bridge():
        async with open_database(tmp_path / "office.db", "office") as db, trio.open_nursery() as nursery:
            for n in range(0, 20, 2):
                nursery.start_soon(write_twice, db, n)
            await entered.wait()
            for n in range(meanwhile):
                nursery.start_soon(db.write_together, lambda _: None, add_none, n)
            for n in range(20, 20 + apart):
                nursery.start_soon(db.write, add, n)
            await two_ticks()
            release.set()
    assert db.stats().steps == 20 + meanwhile + apart
    # The second steps share the commit of the few that were staged meanwhile, and come after the many.
    assert db.stats().commits == commits


async def test_a_step_is_told_of_once_it_is_on_the_disk_and_before_its_waiter_goes_on(db: Database) -> None:
    told: list[int] = []

    assert await db.write_and_tell(lambda n: told.append(db.point(count)), add, 1, name="Ada") == 1
    with pytest.raises(InvalidState):
        await db.write_and_tell(told.append, refuse, 2)
    assert told == [1]


async def test_a_step_whose_waiter_left_is_told_of_all_the_same(db: Database) -> None:
    told: list[int] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        await db.write_and_tell(told.append, add, 1)
    assert told == []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(db.write_and_tell, told.append, add, 2)
        await two_ticks()
        nursery.cancel_scope.cancel()
    with trio.fail_after(PATIENCE_S):
        await db.write(add, 3)
    assert told == [2]


def add_all(tx: Tx, numbers: list[int]) -> list[outcome.Outcome[int]]:
    """By one call; the refused ones write nothing, and each is told how many there were."""
    good = [n for n in numbers if n < 10]
    for n in good:
        add(tx, n)
    return [outcome.Value(len(good)) if n < 10 else outcome.Error(InvalidState(f"no {n}")) for n in numbers]


async def test_writes_that_go_together_are_one_call_and_each_waiter_hears_of_its_own(db: Database) -> None:
    told: list[int] = []
    ended: dict[int, int | str] = {}

    async def ask(n: int) -> None:
        try:
            count: int = await db.write_together(told.append, add_all, n)
            ended[n] = count
        except InvalidState as refused:
            ended[n] = str(refused)

    async with trio.open_nursery() as nursery:
        for n in (1, 2, 10, 3):
            nursery.start_soon(ask, n)

    assert ended == {1: 3, 2: 3, 10: "no 10", 3: 3}
    assert told == [3, 3, 3]
    assert await db.read(count) == 3


async def test_who_tells_wrong_hears_of_it_and_the_others_of_the_batch_do_not(db: Database) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(db.write, add, 1)
        with pytest.raises(ZeroDivisionError):
            await db.write_and_tell(lambda n: n / 0, add, 2)
    assert await db.read(count) == 2
    assert await db.write(add, 3) == 3
