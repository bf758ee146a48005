"""kill -9 while changes of destinations that waited are applied: each of them happens, and happens once."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from payd.core.settlement_change import SettlementChange
from payd.store.db import Tx, open_database
from payd.store.merchants import Merchant, insert_merchant
from payd.store.settlement_changes import put_change
from payd.store.settlements import Settlement, insert_settlement
from tests.crash.process import Server, furnish

pytestmark = [pytest.mark.crash, pytest.mark.real_time]

# Each is a commit of its own: enough that the kill falls between two.
CHANGES: Final = 400
LOOK_S: Final = 0.001
LOOK_MAX_S: Final = 30
OLD: Final = "eip155:8453:0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
NEW: Final = "eip155:8453:0x90F79bf6EB2c4f870365E785982E1f101E93b906"
ASSET: Final = "eip155:8453/slip44:60"


def fill(tx: Tx) -> None:
    for n in range(CHANGES):
        insert_merchant(tx, Merchant(f"mrch_{n}", "acct_1", "Shop", "a@b.c", None, "active", 0))
        insert_settlement(tx, Settlement(f"crypto_{n}", f"mrch_{n}", ASSET, ASSET, OLD, 0))
        put_change(tx, SettlementChange(f"crypto_{n}", f"mrch_{n}", "acct_1", NEW, "usr_1", 0, 1))


def ask(folder: Path, question: str) -> list[tuple[Any, ...]]:
    """What the live realm's file says now."""
    with closing(sqlite3.connect(f"file:{folder}/data/live.db?mode=ro", uri=True)) as tx:
        return tx.execute(question).fetchall()


async def until_applied(folder: Path, at_least: int) -> None:
    with trio.fail_after(LOOK_MAX_S):
        while len(ask(folder, "SELECT 1 FROM audit WHERE act = 'settlement.change'")) < at_least:
            await trio.sleep(LOOK_S)


async def test_changes_that_a_kill_interrupts_all_happen_and_none_twice(tmp_path: Path) -> None:
    await furnish(tmp_path, None)
    async with open_database(tmp_path / "data" / "live.db", "realm", inline=True) as db:
        await db.write(fill)
    server = Server(tmp_path)
    try:
        await server.spawn()
        await until_applied(tmp_path, 1)
        os.kill(server.pid, signal.SIGKILL)
        await server.kill()
        [(left,)] = ask(tmp_path, "SELECT count(*) FROM settlement_changes")
        assert 0 < left < CHANGES
        await server.start()
        await until_applied(tmp_path, CHANGES)
    finally:
        await server.put_away()
    subjects = ask(tmp_path, "SELECT subject, count(*) FROM audit WHERE act = 'settlement.change' GROUP BY 1")
    assert [count for _, count in subjects] == [1] * CHANGES
    assert ask(tmp_path, "SELECT DISTINCT destination FROM settlements") == [(NEW,)]
    assert ask(tmp_path, "SELECT count(*) FROM settlement_changes") == [(0,)]
