"""What is remembered of keys, apps and merchants: nothing that is not so any more."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from payd.core.errors import InvalidState
from payd.store import memory
from payd.store.apps import find_app
from payd.store.bridge import bridge
from payd.store.db import Database, Tx, open_database
from payd.store.keys import find_key
from payd.store.memory import WATCHED
from payd.store.merchants import account_of_merchant

pytestmark = pytest.mark.real_time

MERCHANT = (
    "INSERT INTO merchants (id, account_id, name, email, status, created_at_ms)"
    " VALUES (?, ?, '', '', 'active', 0)"
)


@pytest.fixture(params=["threads", "inline"])
async def db(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    with bridge():
        inline = request.param == "inline"
        async with open_database(tmp_path / "test.db", "realm", inline=inline) as opened:
            await opened.write(run, MERCHANT, "mrch_1", "acct_1")
            yield opened


def run(tx: Tx, statement: str, *given: object) -> None:
    tx.execute(statement, given)


def give_to(tx: Tx, account_id: str) -> None:
    tx.execute("UPDATE merchants SET account_id = ? WHERE id = 'mrch_1'", (account_id,))


class Asked:
    """The lookup of a merchant's account, and how often it reached the database."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, tx: Tx, merchant_id: str) -> str | None:
        self.count += 1
        return account_of_merchant(tx, merchant_id)


async def test_what_was_found_is_not_looked_up_again(db: Database) -> None:
    asked = Asked()
    assert [db.remember(asked, "mrch_1") for _ in range(3)] == ["acct_1"] * 3
    await db.write(run, "UPDATE payments SET version = version")
    assert db.remember(asked, "mrch_1") == "acct_1"

    assert asked.count == 1


async def test_a_change_is_seen_as_soon_as_its_write_returns(db: Database) -> None:
    assert db.remember(account_of_merchant, "mrch_1") == "acct_1"
    await db.write(give_to, "acct_2")
    assert db.remember(account_of_merchant, "mrch_1") == "acct_2"
    await db.write(run, "DELETE FROM merchants WHERE id = 'mrch_1'")
    assert db.remember(account_of_merchant, "mrch_1") is None


async def test_what_is_read_while_the_change_waits_for_its_commit_is_not_kept(tmp_path: Path) -> None:
    with bridge():
        async with open_database(tmp_path / "test.db", "realm") as db:
            await db.write(run, MERCHANT, "mrch_1", "acct_1")
            in_step, go_on = trio.Event(), trio.Event()

            def change(tx: Tx) -> None:
                give_to(tx, "acct_2")
                trio.from_thread.run_sync(in_step.set, trio_token=token)
                trio.from_thread.run(go_on.wait, trio_token=token)

            token = trio.lowlevel.current_trio_token()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(db.write, change)
                await in_step.wait()
                assert db.remember(account_of_merchant, "mrch_1") == "acct_1"
                go_on.set()
            assert db.remember(account_of_merchant, "mrch_1") == "acct_2"


async def test_a_change_that_is_taken_back_leaves_what_was(db: Database) -> None:
    def refuse(tx: Tx) -> None:
        give_to(tx, "acct_2")
        raise InvalidState("no")

    with pytest.raises(InvalidState):
        await db.write(refuse)
    assert db.remember(account_of_merchant, "mrch_1") == "acct_1"


async def test_what_is_not_there_is_asked_for_each_time(db: Database) -> None:
    asked = Asked()
    assert db.remember(asked, "mrch_2") is None
    assert not len(db._memory)
    await db.write(run, MERCHANT, "mrch_2", "acct_2")

    assert db.remember(asked, "mrch_2") == "acct_2"
    assert asked.count == 2


async def test_it_holds_only_so_much(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "KEPT_MAX", 2)
    for number in range(2, 9):
        await db.write(run, MERCHANT, f"mrch_{number}", "acct_1")
    for number in range(1, 9):
        assert db.remember(account_of_merchant, f"mrch_{number}") == "acct_1"
        assert len(db._memory) <= 2


@pytest.mark.parametrize("table", WATCHED)
async def test_every_change_of_a_watched_table_is_noticed(db: Database, table: str) -> None:
    columns = db.point(lambda tx: tx.execute(f"PRAGMA table_info({table})").fetchall())
    names = [str(name) for _, name, *_ in columns]
    values = [f"{name} of a row" for name in names]
    marks = ", ".join("?" * len(names))
    for statement, given in (
        (f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})", values),
        (f"INSERT OR REPLACE INTO {table} ({', '.join(names)}) VALUES ({marks})", values),
        (f"UPDATE {table} SET id = id", ()),
        (f"DELETE FROM {table}", ()),
    ):
        db._memory.find(account_of_merchant, "kept", lambda *_: "acct_1")
        assert len(db._memory) == 1
        await db.write(run, statement, *given)
        assert not len(db._memory), statement


@pytest.mark.parametrize(
    ("query", "key"), [(find_key, b"hash"), (find_app, "app_t1"), (account_of_merchant, "mrch_1")]
)
async def test_what_requests_have_remembered_is_read_from_watched_tables_alone(
    tmp_path: Path, query: Callable[[Tx, Any], object], key: str | bytes
) -> None:
    async with open_database(tmp_path / "test.db", "realm", inline=True):
        tx = sqlite3.connect(tmp_path / "test.db")
        read: set[str] = set()

        def note(act: int, table: str | None, *_: object) -> int:
            if act == sqlite3.SQLITE_READ and table is not None:
                read.add(table)
            return sqlite3.SQLITE_OK

        tx.set_authorizer(note)
        query(tx, key)
        tx.close()

    assert read
    assert read <= {*WATCHED}
