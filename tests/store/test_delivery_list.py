"""Deliveries as a person looks through them."""

from __future__ import annotations

import pytest

from payd.store.db import Database, Tx
from payd.store.delivery_list import (
    DeliveryFilter,
    Owed,
    body_of,
    count_newer,
    deliveries_again,
    endpoints_of,
    one_listed,
    owed_to,
    page_of_deliveries,
)
from payd.store.endpoints import delete_endpoint
from tests.store.test_deliveries import happen, register

MINE = DeliveryFilter(account_id="acct_1")


@pytest.fixture
async def filled(realm_db: Database) -> Database:
    """Four deliveries of one account, one failed, one succeeded after an attempt; one of another account."""
    await register(realm_db, "acct_1", "ep_1")
    await register(realm_db, "acct_2", "ep_2")
    for number in range(1, 5):
        await happen(realm_db, number, now_ms=number * 1000)
    await happen(realm_db, 9, account_id="acct_2", now_ms=9000)

    def step(tx: Tx) -> None:
        tx.execute(
            "UPDATE deliveries SET state = 'failed', attempts = 8, last_status = 500 WHERE id = 'dlv_1'"
        )
        tx.execute("UPDATE deliveries SET state = 'succeeded', last_status = 204 WHERE id = 'dlv_2'")
        for n, (status, error) in enumerate([(503, "http_status"), (204, None)], 1):
            tx.execute(
                "INSERT INTO attempts (delivery_id, n, trigger, at_ms, status, error_class, duration_ms,"
                " body) VALUES ('dlv_2', ?, 'auto', ?, ?, ?, ?, x'')",
                (n, n, status, error, n * 10),
            )

        tx.execute(
            "INSERT INTO attempts (delivery_id, n, trigger, at_ms, status, error_class, duration_ms, body)"
            " VALUES ('dlv_4', 1, 'auto', 3, 500, 'http_status', 99, x'')"
        )
        tx.execute("UPDATE events SET body = x'32' WHERE id = 'evt_2'")
        tx.execute("UPDATE deliveries SET kind = 'test' WHERE id = 'dlv_3'")

    await realm_db.write(step)
    return realm_db


def ids(db: Database, chosen: DeliveryFilter, before_seq: int | None = None, limit: int = 10) -> list[str]:
    return [row.id for row in db.point(page_of_deliveries, chosen, before_seq, limit)]


async def test_filters_combine_and_nothing_of_another_account_is_found(filled: Database) -> None:
    def of(**more: str | int) -> list[str]:
        return ids(filled, DeliveryFilter(account_id="acct_1", **more))  # type: ignore[arg-type]

    assert of() == ["dlv_4", "dlv_3", "dlv_2", "dlv_1"]
    assert of(state="pending") == ["dlv_4", "dlv_3"]
    assert of(state="pending", payment_id="pay_3") == ["dlv_3"]
    assert of(since_ms=3000) == ["dlv_4", "dlv_3"]
    assert of(event_type="payment.settled") == []
    assert of(endpoint_id="ep_1", event_type="payment.created", state="failed") == ["dlv_1"]
    assert of(endpoint_id="ep_2") == of(payment_id="pay_9") == []


async def test_a_page_stays_while_newer_ones_come_and_they_are_counted(filled: Database) -> None:
    first = filled.point(page_of_deliveries, MINE, None, 2)
    await happen(filled, 5, now_ms=5000)
    assert ids(filled, MINE, first[-1].seq) == ["dlv_2", "dlv_1"]
    assert filled.point(count_newer, MINE, first[0].seq) == 1
    assert filled.point(count_newer, DeliveryFilter(account_id="acct_1", state="failed"), 0) == 1


async def test_a_row_tells_its_last_attempt_and_its_tries(filled: Database) -> None:
    row = filled.point(one_listed, "acct_1", "dlv_2")
    assert row is not None
    assert (row.status, row.error_class, row.took_ms, row.logged, row.tries) == (204, None, 20, 2, 0)
    assert (row.event_id, row.endpoint_url, row.endpoint_state) == ("evt_2", "https://a.test/", "enabled")


async def test_rows_are_found_again_by_their_ids_only_by_their_account(filled: Database) -> None:
    again = filled.point(deliveries_again, "acct_1", ["dlv_1", "dlv_3", "dlv_9", "dlv_0"])
    assert sorted(row.id for row in again) == ["dlv_1", "dlv_3"]
    assert filled.point(one_listed, "acct_2", "dlv_1") is None
    assert filled.point(body_of, "acct_1", "dlv_1") == b"{}"
    assert filled.point(body_of, "acct_1", "dlv_2") == b"2"
    assert filled.point(body_of, "acct_2", "dlv_1") == b""


async def test_what_stands_open_is_counted_for_one_endpoint(filled: Database) -> None:
    assert filled.point(owed_to, "acct_1", "ep_1") == Owed(pending=1, failed=1)
    assert filled.point(owed_to, "acct_1", "ep_2") == Owed(0, 0)


async def test_endpoints_of_the_past_are_known(filled: Database) -> None:
    await filled.write(delete_endpoint, account_id="acct_1", now_ms=1, actor="test")
    await register(filled, "acct_1", "ep_3")
    found = filled.point(endpoints_of, "acct_1")
    assert sorted(found) == [("ep_1", "https://a.test/", "deleted"), ("ep_3", "https://a.test/", "enabled")]
