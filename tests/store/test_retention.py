"""What is forgotten with age goes in small steps, and the file gives back what it does not need."""

from __future__ import annotations

import pytest

from payd.core.payment import transition
from payd.store.db import Database, Tx
from payd.store.deliveries import list_deliveries
from payd.store.endpoints import delete_endpoint, switch_endpoint
from payd.store.events import events_after
from payd.store.retention import (
    FREE_PAGES_KEPT,
    VACUUM_PAGES,
    lacks_events,
    prune_deliveries,
    prune_endpoints,
    prune_events,
    prune_jobs,
    shrink,
)
from tests.inserts import record_transition
from tests.ledger import run_sql
from tests.store.test_deliveries import happen, register
from tests.store.test_payments import event, funds, payment, store


def fill(tx: Tx) -> None:
    tx.execute(
        "INSERT INTO events (id, account_id, payment_id, version, type, created_at_ms, body)"
        " WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)"
        " SELECT 'evt_' || i, 'acct_1', 'pay_' || i, 0, 'payment.created', 0, zeroblob(2000) FROM n"
    )


def settle(tx: Tx) -> None:
    tx.execute("UPDATE deliveries SET state = 'succeeded', next_at_ms = NULL")


def pages(db: Database) -> tuple[int, int]:
    def count(tx: Tx) -> tuple[int, int]:
        (total,) = tx.execute("PRAGMA page_count").fetchone()
        (free,) = tx.execute("PRAGMA freelist_count").fetchone()
        return int(total), int(free)

    return db.point(count)


async def test_what_was_pruned_is_given_back_a_little_at_a_time_and_some_is_kept(realm_db: Database) -> None:
    await realm_db.write(fill)
    assert not await realm_db.write(shrink)
    while (await realm_db.write(prune_events, 0, 1, 500)).rows:
        pass
    before, free = pages(realm_db)
    assert free > FREE_PAGES_KEPT + 2 * VACUUM_PAGES
    assert await realm_db.write(shrink)
    assert pages(realm_db)[1] == free - VACUUM_PAGES
    assert pages(realm_db)[0] < before
    while await realm_db.write(shrink):
        pass

    assert pages(realm_db)[1] == FREE_PAGES_KEPT
    assert realm_db.point(lambda tx: tx.execute("PRAGMA integrity_check").fetchone()) == ("ok",)


async def test_a_prune_looks_at_no_more_rows_than_it_may_and_says_where_to_go_on(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    for number in range(5):
        await happen(realm_db, number, now_ms=number)
    await realm_db.write(settle)

    def use(tx: Tx) -> None:
        tx.execute("INSERT INTO fault_uses SELECT 'flt_1', id, 0 FROM deliveries WHERE created_at_ms < 2")

    await realm_db.write(use)
    first = await realm_db.write(prune_deliveries, 0, 100, 2)
    assert realm_db.point(lambda tx: tx.execute("SELECT count(*) FROM fault_uses").fetchone()) == (0,)
    second = await realm_db.write(prune_deliveries, first.after_seq or 0, 100, 2)
    third = await realm_db.write(prune_deliveries, second.after_seq or 0, 100, 2)
    assert [page.rows for page in (first, second, third)] == [2, 2, 1]
    assert third.after_seq is None


async def test_the_first_young_row_ends_it(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    for number in range(5):
        await happen(realm_db, number, now_ms=number)
    await realm_db.write(settle)

    assert await realm_db.write(prune_deliveries, 0, 2, 500) == (2, None)
    assert await realm_db.write(prune_events, 0, 3, 500) == (2, None)  # those with a delivery stay


async def test_what_was_made_while_the_clock_was_ahead_stays_and_keeps_nothing_behind_it(
    realm_db: Database,
) -> None:
    for number, at_ms in enumerate((10**6, 1, 2, 3, 4)):
        await happen(realm_db, number, now_ms=at_ms)

    assert await realm_db.write(prune_events, 0, 3, 2, 100) == (1, 2)
    assert await realm_db.write(prune_events, 2, 3, 2, 100) == (1, None)
    assert [row.id for row in realm_db.point(events_after, "acct_1", 0, 9)] == ["evt_0", "evt_3", "evt_4"]


@pytest.mark.parametrize(("paused_at_ms", "gone"), [(9, 1), (10, 0)])
async def test_what_an_endpoint_is_owed_goes_only_when_it_was_on_hold_all_that_time(
    realm_db: Database, paused_at_ms: int, gone: int
) -> None:
    for number in (1, 2):
        await register(realm_db, f"acct_{number}", f"ep_{number}")
        await happen(realm_db, number, account_id=f"acct_{number}", now_ms=0)
    await realm_db.write(switch_endpoint, account_id="acct_1", act="pause", now_ms=paused_at_ms, actor="test")

    assert (await realm_db.write(prune_deliveries, 0, 10, 500)).rows == gone
    assert len(realm_db.point(lambda tx: list_deliveries(tx, "acct_2", limit=9))) == 1


async def test_the_newest_event_stays_so_that_no_number_is_given_twice(realm_db: Database) -> None:
    for number in range(3):
        await happen(realm_db, number, now_ms=number)
    assert await realm_db.write(prune_events, 0, 1000, 500) == (2, None)
    await happen(realm_db, 3, now_ms=3)

    seqs = realm_db.point(lambda tx: tx.execute("SELECT seq FROM events ORDER BY seq").fetchall())
    assert seqs == [(3,), (4,)]


async def test_what_is_owed_to_nobody_stays_as_long_as_all_else(realm_db: Database) -> None:
    """Who polls for events needs no endpoint."""
    for number in range(5):
        await happen(realm_db, number, now_ms=number)

    assert await realm_db.write(prune_events, 0, 3, 500) == (3, None)
    assert [row.id for row in realm_db.point(events_after, "acct_1", 0, 9)] == ["evt_3", "evt_4"]


JOB = (
    "INSERT INTO webhook_jobs (id, account_id, endpoint_id, kind, since_ms, until_ms, state, created_at_ms)"
    " VALUES ('job_1', 'acct_1', 'ep_1', 'recover', 0, 0, ?, 10)"
)


@pytest.mark.parametrize(("state", "gone"), [("running", 0), ("done", 1), ("cancelled", 1)])
async def test_a_job_that_is_over_goes_with_its_age_and_its_deliveries_after_it(
    realm_db: Database, state: str, gone: int
) -> None:
    await realm_db.write(run_sql, JOB, state)
    await realm_db.write(run_sql, "INSERT INTO webhook_job_deliveries VALUES ('job_1', 'dlv_1')")

    assert await realm_db.write(prune_jobs, 10, 9) == 0, "it is not old enough"
    assert [await realm_db.write(prune_jobs, 11, 9) for _ in range(3)] == [gone, gone, 0]


async def test_an_endpoint_goes_when_it_was_deleted_and_no_job_names_it(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    assert await realm_db.write(prune_endpoints, 10**9, 9) == 0, "it is in use, however old"
    await realm_db.write(delete_endpoint, account_id="acct_1", now_ms=10, actor="test")
    await realm_db.write(run_sql, JOB, "cancelled")
    assert await realm_db.write(prune_endpoints, 10**9, 9) == 0
    await realm_db.write(run_sql, "DELETE FROM webhook_jobs")
    assert await realm_db.write(prune_endpoints, 10**9, 9) == 1
    assert realm_db.point(lambda tx: tx.execute("SELECT * FROM endpoint_secrets").fetchall()) == []


async def test_a_deleted_endpoint_is_known_until_its_time_has_come(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    await realm_db.write(delete_endpoint, account_id="acct_1", now_ms=10, actor="test")

    assert [await realm_db.write(prune_endpoints, now_ms, 9) for now_ms in (10, 11)] == [0, 1]


async def test_a_prune_goes_on_after_what_stays(realm_db: Database) -> None:
    for number in range(5):
        if number == 2:
            await register(realm_db, "acct_1", "ep_1")
        await happen(realm_db, number, account_id="acct_1" if number < 4 else "acct_2", now_ms=number)
    await realm_db.write(run_sql, "UPDATE deliveries SET state = 'succeeded' WHERE id = 'dlv_3'")

    assert await realm_db.write(prune_deliveries, 0, 100, 1) == (0, 1)
    assert await realm_db.write(prune_deliveries, 1, 100, 1) == (1, 2)
    assert await realm_db.write(prune_events, 0, 100, 2) == (2, 2)
    assert await realm_db.write(prune_events, 2, 100, 2) == (0, 4), "the third waits for its delivery"
    assert await realm_db.write(prune_events, 4, 100, 2) == (0, None), "the last is the newest"


async def test_no_event_goes_before_an_older_one_of_its_account(realm_db: Database) -> None:
    """Who listens and goes on behind that one would not be told that the other is missing."""
    for number in range(8):
        if number == 2:
            await register(realm_db, "acct_1", "ep_1")
        await happen(realm_db, number, account_id=f"acct_{1 + number % 2}", now_ms=number)
    await realm_db.write(run_sql, "UPDATE deliveries SET state = 'succeeded' WHERE id <> 'dlv_2'")
    await realm_db.write(prune_deliveries, 0, 100, 500)

    def left() -> list[str]:
        return realm_db.point(lambda tx: [one for (one,) in tx.execute("SELECT id FROM events ORDER BY seq")])

    assert await realm_db.write(prune_events, 0, 100, 3) == (2, 3)
    assert await realm_db.write(prune_events, 3, 100, 3) == (2, 6)
    assert left() == ["evt_2", "evt_4", "evt_6", "evt_7"], (
        "of the first account all since the one that is owed"
    )

    await realm_db.write(settle)
    await realm_db.write(prune_deliveries, 0, 100, 500)
    await realm_db.write(prune_events, 0, 100, 500)
    assert left() == ["evt_7"]


async def test_a_delivery_stays_as_long_as_a_job_counts_it(realm_db: Database) -> None:
    """Else one that was sent again after a fortnight would count as one that waits, in a job that is over."""
    await register(realm_db, "acct_1", "ep_1")
    for number in (1, 2):
        await happen(realm_db, number, now_ms=0)
    await realm_db.write(settle)
    await realm_db.write(run_sql, JOB, "done")
    await realm_db.write(run_sql, "INSERT INTO webhook_job_deliveries VALUES ('job_1', 'dlv_1')")

    assert await realm_db.write(prune_deliveries, 0, 5, 500) == (1, None)
    while await realm_db.write(prune_jobs, 11, 9):
        pass
    assert await realm_db.write(prune_deliveries, 0, 11, 500) == (1, None)


async def test_events_are_lacking_where_those_of_the_accounts_own_payments_were_forgotten(
    realm_db: Database,
) -> None:
    for number in (1, 2):
        draft = payment(number, account_id=f"acct_{number}")
        await store(realm_db, draft)
        moved = transition(draft, funds(), 6000)
        await realm_db.write(record_transition, moved, event(moved), None)

    def lacking(after_ms: int) -> list[bool]:
        return [realm_db.point(lacks_events, account_id, after_ms) for account_id in ("acct_1", "acct_2")]

    assert [lacking(0), lacking(5999)] == [[False, False]] * 2
    last = "DELETE FROM events WHERE account_id = 'acct_1' AND version = 1"
    gone = "DELETE FROM events WHERE account_id = 'acct_2' AND version = ?"
    await realm_db.write(run_sql, gone, 0)
    assert [lacking(0), lacking(1002), lacking(5999)] == [[False, True], [False, False], [False, False]]
    await realm_db.write(run_sql, gone, 1)
    assert [lacking(1002), lacking(5999), lacking(6000)] == [[False, True], [False, True], [False, False]]
    await realm_db.write(run_sql, last)
    assert [lacking(1002), lacking(6000)] == [[True, True], [False, False]], "the first alone does not tell"
