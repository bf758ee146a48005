"""kill -9 while many payments that fell due together are looked after: each ends, and is told of once."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from payd.clock import system_wall_ms
from tests.bench.opened import fill_open
from tests.bench.realm import account_of
from tests.crash.process import Server, furnish

pytestmark = [pytest.mark.crash, pytest.mark.real_time]

# More than a few commits: half wait for their buyers, whose time is up, half for a confirmation that is due.
PAYMENTS: Final = 3000
LOOK_S: Final = 0.001
LOOK_MAX_S: Final = 60
OVER: Final = "type IN ('payment.expired', 'payment.settled')"


def ask(folder: Path, question: str) -> list[tuple[Any, ...]]:
    """What the test realm's file says now."""
    with closing(sqlite3.connect(f"file:{folder}/data/test.db?mode=ro", uri=True)) as tx:
        return tx.execute(question).fetchall()


async def until_over(folder: Path, at_least: int) -> None:
    with trio.fail_after(LOOK_MAX_S):
        while ask(folder, f"SELECT count(*) FROM events WHERE {OVER}") < [(at_least,)]:
            await trio.sleep(LOOK_S)


async def test_payments_that_a_kill_interrupts_all_end_and_none_twice(tmp_path: Path) -> None:
    at = await furnish(tmp_path, "http://127.0.0.1:9/hook")
    path = tmp_path / "data" / "test.db"
    with closing(sqlite3.connect(path)) as tx, tx:
        tx.execute("UPDATE endpoints SET state = 'paused'")  # it is owed all of it, and sent nothing
    fill_open(
        path,
        PAYMENTS,
        account_id=account_of(at),
        merchant_id=at.merchant_id,
        now_ms=system_wall_ms(),
        overdue=True,
    )
    server = Server(tmp_path)
    try:
        await server.spawn()
        await until_over(tmp_path, 1)
        os.kill(server.pid, signal.SIGKILL)
        await server.kill()
        [(over,)] = ask(tmp_path, f"SELECT count(*) FROM events WHERE {OVER}")
        assert 0 < over < PAYMENTS
        await server.start()
        await until_over(tmp_path, PAYMENTS)
    finally:
        await server.put_away()

    told = "SELECT payment_id, group_concat(version || type, ' ') FROM (SELECT * FROM events ORDER BY seq)"
    histories = Counter(history for _, history in ask(tmp_path, f"{told} GROUP BY payment_id"))
    assert histories == {
        "0payment.created 1payment.expired": PAYMENTS // 2,
        "0payment.created 1payment.processing 2payment.succeeded 3payment.settled": PAYMENTS // 2,
    }
    each = "SELECT count(d.id) AS owed FROM events e LEFT JOIN deliveries d ON d.event_seq = e.seq"
    owed = f"{each} GROUP BY e.seq"
    assert ask(tmp_path, f"SELECT owed, count(*) FROM ({owed}) GROUP BY 1") == [(1, 3 * PAYMENTS)]
    assert ask(tmp_path, "SELECT count(*) FROM payments WHERE due_at_ms IS NOT NULL") == [(0,)]
    counted = "SELECT what, sum(count) FROM tallies WHERE what IN ('expired', 'succeeded') GROUP BY 1"
    assert ask(tmp_path, counted) == [("expired", PAYMENTS // 2), ("succeeded", PAYMENTS // 2)]
