"""The log of requests: filters, pages, keys' names, and forgetting."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from payd.store import api_log
from payd.store.api_log import (
    ERROR_BYTES_MAX,
    SUBJECT_MAX,
    LogFilter,
    Logged,
    insert_logged,
    last_used,
    list_logged,
    prune_logged,
)
from payd.store.db import Database, Tx
from tests.ledger import run_sql, sell


def entry(number: int, **fields: Any) -> Logged:
    known: dict[str, Any] = {
        "at_ms": 1000 + number,
        "account_id": "acct_1",
        "actor": "key_1",
        "request_id": f"req_{number}",
        "method": "GET",
        "route": "/v1/payments/{id}",
        "subject": "pay_t1",
        "status": 200,
        "took_ms": 3,
        "error": None,
    }
    return Logged(**known | fields)


async def shown(db: Database, before: int | None = None, limit: int = 99, **chosen: Any) -> list[str]:
    account = chosen.pop("account_id", "acct_1")
    rows = await db.read(list_logged, LogFilter(account_id=account, **chosen), before, limit)
    return [row.logged.request_id for row in rows]


async def test_each_filter_takes_its_own_and_all_together_what_is_left(realm_db: Database) -> None:
    await realm_db.write(
        insert_logged,
        [
            entry(1),
            entry(2, actor="app_t1"),
            entry(3, method="POST", status=400, error=b"{}"),
            entry(4, route="/v1/payments", subject=""),
            entry(5, account_id="acct_2"),
        ],
    )

    assert await shown(realm_db) == ["req_4", "req_3", "req_2", "req_1"]
    assert await shown(realm_db, actor="app_t1") == ["req_2"]
    assert await shown(realm_db, method="POST") == await shown(realm_db, refused=True) == ["req_3"]
    assert await shown(realm_db, refused=False) == ["req_4", "req_2", "req_1"]
    assert await shown(realm_db, route="/v1/payments") == await shown(realm_db, subject="") == ["req_4"]
    assert await shown(realm_db, request_id="req_1") == ["req_1"]
    assert await shown(realm_db, statuses=(600, 699)) == []
    assert await shown(realm_db, start_ms=1002, end_ms=1004) == ["req_3", "req_2"]
    assert await shown(realm_db, subject="pay_t1", actor="key_1", refused=False) == ["req_1"]
    assert await shown(realm_db, account_id="acct_2") == ["req_5"]
    assert await shown(realm_db, account_id="acct_2", request_id="req_1") == []


async def test_a_merchants_requests_name_it_or_one_of_its_payments(realm_db: Database) -> None:
    await realm_db.write(sell, id="pay_t1")
    await realm_db.write(
        insert_logged,
        [
            entry(1),
            entry(2, subject="pay_t2"),
            entry(3, route="/v1/payments", subject="mrch_1"),
            entry(4, route="/v1/payments", subject=""),
            entry(5, account_id="acct_2"),
        ],
    )

    assert await shown(realm_db, merchant_id="mrch_1") == ["req_3", "req_1"]
    assert await shown(realm_db, merchant_id="mrch_1", route="/v1/payments") == ["req_3"]
    assert await shown(realm_db, merchant_id="mrch_2") == []


async def test_pages_join_to_the_whole_while_requests_arrive(realm_db: Database) -> None:
    await realm_db.write(insert_logged, [entry(number) for number in range(5)])
    first = await realm_db.read(list_logged, LogFilter(account_id="acct_1"), None, 2)
    await realm_db.write(insert_logged, [entry(9)])

    assert await shown(realm_db, first[-1].seq) == ["req_2", "req_1", "req_0"]


async def test_a_row_names_its_key_also_a_revoked_one(realm_db: Database) -> None:
    row = "'key_1', 'acct_1', x'00', 'svc_test_', 'abcd', 'backend', '', NULL, 1, 5"
    await realm_db.write(run_sql, f"INSERT INTO api_keys VALUES ({row})")
    await realm_db.write(insert_logged, [entry(1), entry(2, actor="app_t1")])
    app, key = await realm_db.read(list_logged, LogFilter(account_id="acct_1"), None, 9)

    assert (key.key_name, key.key_last4) == ("backend", "abcd")
    assert (app.key_name, app.key_last4) == (None, None)


async def test_nothing_in_a_row_is_longer_than_its_bound(realm_db: Database) -> None:
    await realm_db.write(insert_logged, [entry(1, subject="x" * 999, error=b"y" * 9999)])
    (row,) = await realm_db.read(list_logged, LogFilter(account_id="acct_1"), None, 9)

    assert row.logged.subject == "x" * SUBJECT_MAX
    assert row.logged.error == b"y" * ERROR_BYTES_MAX


async def test_old_requests_are_forgotten_a_few_at_a_time(realm_db: Database) -> None:
    await realm_db.write(insert_logged, [entry(number) for number in range(5)])

    first = await realm_db.write(prune_logged, 0, 1003, 2)
    second = await realm_db.write(prune_logged, first.after_seq or 0, 1003, 2)
    assert (first.rows, second.rows, second.after_seq) == (2, 1, None)
    assert await shown(realm_db) == ["req_4", "req_3"]


async def test_requests_of_a_time_that_has_not_come_keep_nothing_behind_them(realm_db: Database) -> None:
    await realm_db.write(insert_logged, [entry(number) for number in range(5)])
    await realm_db.write(run_sql, "UPDATE api_log SET at_ms = at_ms + 1000000 WHERE seq IN (1, 2)")

    first = await realm_db.write(prune_logged, 0, 1003, 2, 1004)
    second = await realm_db.write(prune_logged, first.after_seq or 0, 1003, 2, 1004)
    assert (first.rows, second.rows, second.after_seq) == (0, 1, None)


async def test_of_too_many_the_oldest_are_forgotten(
    realm_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_log, "ROWS_MAX", 3)
    await realm_db.write(insert_logged, [entry(number) for number in range(5)])

    assert (await realm_db.write(prune_logged, 0, 0, 99)).rows == 2
    assert await shown(realm_db) == ["req_4", "req_3", "req_2"]


async def test_where_none_is_old_a_long_log_is_not_read_to_its_end(realm_db: Database) -> None:
    """The writer runs it, and every payment waits meanwhile."""

    def steps(tx: Tx) -> int:
        taken = count()
        tx.set_progress_handler(lambda: next(taken) < 0, 1)
        assert prune_logged(tx, 0, 0, 10).rows == 0
        tx.set_progress_handler(None, 0)
        return next(taken)

    await realm_db.write(insert_logged, [entry(number) for number in range(20)])
    few = await realm_db.write(steps)
    await realm_db.write(insert_logged, [entry(number) for number in range(2000)])

    assert await realm_db.write(steps) == few


async def test_what_was_used_lately_is_known_by_its_id(
    realm_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await realm_db.write(
        insert_logged,
        [
            entry(1, actor="key_old"),
            entry(2),
            entry(3),
            entry(4, actor="app_t1"),
            entry(5, account_id="acct_2"),
        ],
    )
    monkeypatch.setattr(api_log, "LOOKED_AT", 3)
    assert await realm_db.read(last_used, "acct_1") == {"key_1": 1003, "app_t1": 1004}
