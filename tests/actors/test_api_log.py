"""The log's writer: off the requests' way, bounded, and its troubles are nobody else's."""

from __future__ import annotations

from typing import Any

import trio

from payd.actors.api_log import FLUSH_S, QUEUE_MAX, READS_MAX, ApiLog
from payd.core.errors import StoreUnavailable
from payd.store.api_log import LogFilter, list_logged
from payd.store.db import Database
from tests.store.test_api_log import entry


async def logged(db: Database) -> list[str]:
    rows = await db.read(list_logged, LogFilter(account_id="acct_1"), None, 9999)
    return [row.logged.request_id for row in rows][::-1]


async def test_what_is_noted_is_written_in_one_commit_a_second_later(realm_db: Database) -> None:
    log = ApiLog(realm_db)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.run)
        await trio.sleep(10)
        commits = realm_db.stats().commits
        for number in range(5):
            log.note(entry(number))
        assert await logged(realm_db) == []
        await trio.sleep(FLUSH_S + 0.1)

        assert await logged(realm_db) == [f"req_{number}" for number in range(5)]
        assert realm_db.stats().commits == commits + 1
        await trio.sleep(60)
        assert realm_db.stats().commits == commits + 1
        nursery.cancel_scope.cancel()


async def test_the_last_ones_are_written_at_the_end(realm_db: Database) -> None:
    log = ApiLog(realm_db)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.run)
        await trio.sleep(0.1)
        log.note(entry(1))
        nursery.cancel_scope.cancel()

    assert await logged(realm_db) == ["req_1"]


async def test_a_flood_is_dropped_and_counted_and_errors_outlive_polls(realm_db: Database) -> None:
    log = ApiLog(realm_db)
    for number in range(QUEUE_MAX * 2):
        log.note(entry(number))
    log.note(entry(77_777, status=404))
    log.note(entry(88_888, method="POST"))
    assert log.dropped == QUEUE_MAX * 2 - READS_MAX
    for number in range(QUEUE_MAX):
        log.note(entry(100_000 + number, status=500))

    assert await log.run_once() == QUEUE_MAX
    assert log.dropped == QUEUE_MAX * 2 - READS_MAX + READS_MAX + 2
    assert {"req_77777", "req_88888"} <= set(await logged(realm_db))
    log.note(entry(5))
    assert await log.run_once() == 1


class Full:
    """A store on a full disk."""

    async def write(self, *_: Any) -> None:
        await trio.lowlevel.checkpoint()
        raise StoreUnavailable("no space")


async def test_a_store_that_takes_nothing_costs_the_log_only() -> None:
    log = ApiLog(Full())  # type: ignore[arg-type]
    log.note(entry(1))

    assert await log.run_once() == 0
    assert log.dropped == 1
