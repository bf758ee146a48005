"""Replay jobs, batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count

import pytest

from payd.core.errors import EndpointDisabled, NotFound, RateLimited
from payd.store.db import Database, Tx
from payd.store.deliveries import REPLAY, list_deliveries
from payd.store.endpoints import delete_endpoint, switch_endpoint
from payd.store.retention import prune_jobs
from payd.store.webhook_jobs import (
    _NOT_SENT,
    BATCH_ROWS_MAX,
    RUNNING_MAX,
    JobRow,
    Kind,
    advance_job,
    cancel_job,
    find_job,
    preview_job,
    running_jobs,
    start_job,
)
from tests.ledger import run_sql
from tests.store.test_deliveries import happen, register

YEAR_MS = 365 * 86_400_000


def fresh_ids() -> Callable[[str], str]:
    numbers = count(1_000_000)
    return lambda prefix: f"{prefix}{next(numbers)}"


async def start(db: Database, kind: Kind, job_id: str = "job_1", since_ms: int = 0) -> JobRow:
    return await db.write(
        start_job, job_id=job_id, account_id="acct_1", kind=kind, since_ms=since_ms, now_ms=1_000_000
    )


async def advance(db: Database, fresh_id: Callable[[str], str]) -> bool:
    return await db.write(advance_job, "job_1", 1_000_000, fresh_id)


def job(db: Database) -> JobRow:
    row = db.point(find_job, "acct_1", "job_1")
    assert row is not None
    return row


async def fail_all(db: Database) -> None:
    def step(tx: Tx) -> None:
        tx.execute("UPDATE deliveries SET state = 'failed', next_at_ms = NULL, attempts = 8")

    await db.write(step)


async def test_a_long_job_goes_on_where_its_last_batch_ended(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1", ("payment.settled",))
    for number in range(2 * BATCH_ROWS_MAX + 10):
        await happen(realm_db, number)
    await register(realm_db, "acct_1", "ep_1")
    await start(realm_db, "replay-missing")
    fresh_id = fresh_ids()
    more = [await advance(realm_db, fresh_id) for _ in range(4)]

    assert more == [True, True, False, False]
    assert (job(realm_db).matched, job(realm_db).queued) == (210, 210)
    rows = realm_db.point(lambda tx: list_deliveries(tx, "acct_1", limit=1000))
    assert len({row.event_id for row in rows}) == len(rows) == 210
    assert realm_db.point(running_jobs) == []


@pytest.mark.parametrize("first", [0, 1, BATCH_ROWS_MAX, BATCH_ROWS_MAX + 1])
async def test_a_later_look_adds_what_came_since_the_first(realm_db: Database, first: int) -> None:
    await register(realm_db, "acct_1", "ep_1", ("payment.settled",))
    for number in range(first):
        await happen(realm_db, number)
    await register(realm_db, "acct_1", "ep_1")
    look = partial(preview_job, account_id="acct_1", kind="replay-missing", since_ms=0, now_ms=1_000_000)
    before = realm_db.point(look)
    await register(realm_db, "acct_1", "ep_1", ("payment.settled",))
    for number in range(first, first + 3):
        await happen(realm_db, number)
    await register(realm_db, "acct_1", "ep_1")

    assert (before.matched, realm_db.point(look, after=before).matched) == (first, first + 3)
    assert realm_db.point(look) == realm_db.point(look, after=before)


async def test_a_job_runs_until_what_it_queued_has_ended(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    for number in range(3):
        await happen(realm_db, number)
    await fail_all(realm_db)
    await start(realm_db, "recover")
    await advance(realm_db, fresh_ids())
    assert (job(realm_db).state, job(realm_db).queued, job(realm_db).done) == ("running", 3, 0)

    def end(tx: Tx) -> None:
        tx.execute("UPDATE deliveries SET state = 'succeeded', next_at_ms = NULL WHERE id <> 'dlv_2'")
        tx.execute("UPDATE deliveries SET state = 'failed', next_at_ms = NULL WHERE id = 'dlv_2'")

    await realm_db.write(end)
    ended = job(realm_db)
    assert (ended.state, ended.matched, ended.queued, ended.done, ended.failed) == ("done", 3, 3, 2, 1)
    await cancel(realm_db, "job_1")
    assert job(realm_db) == ended, "there is nothing to take back"
    await realm_db.write(switch_endpoint, account_id="acct_1", act="disable", now_ms=1, actor="test")
    assert job(realm_db) == ended


async def test_a_job_sends_nothing_twice_that_fails_again_while_it_looks(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    for number in range(BATCH_ROWS_MAX + 1):
        await happen(realm_db, number)
    await fail_all(realm_db)
    await start(realm_db, "recover")
    assert await advance(realm_db, fresh_ids())
    await fail_all(realm_db)
    assert not await advance(realm_db, fresh_ids())
    assert job(realm_db).queued == BATCH_ROWS_MAX + 1


@pytest.mark.parametrize("kind", ["recover", "replay-missing"])
async def test_a_job_is_over_what_happened_before_it_was_started(realm_db: Database, kind: Kind) -> None:
    await register(realm_db, "acct_1", "ep_1")
    for number in (0, 1):
        await happen(realm_db, number, now_ms=1_000_000 + number)
    state = "failed" if kind == "recover" else "cancelled"
    await realm_db.write(
        lambda tx: tx.execute("UPDATE deliveries SET state = ?, next_at_ms = NULL", (state,)).rowcount
    )
    await start(realm_db, kind)
    await realm_db.write(advance_job, "job_1", 1_000_001, fresh_ids())
    assert [row.state for row in realm_db.point(lambda tx: list_deliveries(tx, "acct_1", limit=9))] == [
        state,
        "pending",
    ]


@pytest.mark.parametrize("kind", ["recover", "replay-missing"])
async def test_a_job_is_also_over_what_a_clock_that_was_set_back_has_in_the_future(
    realm_db: Database, kind: Kind
) -> None:
    await register(realm_db, "acct_1", "ep_1")
    await happen(realm_db, 1, now_ms=1_000_000 + 3_600_000)
    state = "failed" if kind == "recover" else "cancelled"
    await realm_db.write(
        lambda tx: tx.execute("UPDATE deliveries SET state = ?, next_at_ms = NULL", (state,)).rowcount
    )
    look = partial(preview_job, account_id="acct_1", kind=kind, since_ms=0, now_ms=1_000_000)
    assert realm_db.point(look).matched == 1
    await start(realm_db, kind)
    await advance(realm_db, fresh_ids())

    [row] = realm_db.point(lambda tx: list_deliveries(tx, "acct_1", limit=9))
    assert row.state == "pending"


async def test_replay_missing_sends_only_what_the_endpoint_neither_has_nor_is_owed(
    realm_db: Database,
) -> None:
    await register(realm_db, "acct_1", "ep_1")
    states = ("succeeded", "pending", "failed", "cancelled")
    for number, _ in enumerate(states):
        await happen(realm_db, number)

    def end(tx: Tx) -> None:
        tx.executemany(
            "UPDATE deliveries SET state = ? WHERE id = ?",
            [(state, f"dlv_{number}") for number, state in enumerate(states)],
        )

    await realm_db.write(end)
    await start(realm_db, "replay-missing")
    await advance(realm_db, fresh_ids())
    assert (job(realm_db).matched, job(realm_db).done) == (1, 0)
    # What the endpoint before had is another matter.
    await realm_db.write(delete_endpoint, account_id="acct_1", now_ms=1, actor="test")
    await register(realm_db, "acct_1", "ep_2")
    await start(realm_db, "replay-missing", "job_2")
    await realm_db.write(advance_job, "job_2", 1_000_000, fresh_ids())
    later = realm_db.point(find_job, "acct_1", "job_2")
    assert later is not None
    assert later.matched == len(states)


@pytest.mark.parametrize("cancelled", [1, 2])
async def test_a_cancelled_job_takes_back_what_it_queued_itself(realm_db: Database, cancelled: int) -> None:
    await register(realm_db, "acct_1", "ep_1")
    for number in (1, 2):
        await happen(realm_db, number)
        await realm_db.write(
            lambda tx, number=number: (
                tx.execute(  # type: ignore[misc]
                    "UPDATE deliveries SET state = 'failed', next_at_ms = NULL WHERE id = ?",
                    (f"dlv_{number}",),
                ).rowcount
            )
        )
        await start(realm_db, "recover", f"job_{number}")
        await realm_db.write(advance_job, f"job_{number}", 1_000_000, fresh_ids())
    await cancel(realm_db, f"job_{cancelled}")
    rows = realm_db.point(lambda tx: list_deliveries(tx, "acct_1", limit=9))
    assert [row.id for row in rows if row.state == "failed" and row.next_at_ms is None] == [
        f"dlv_{cancelled}"
    ]
    assert [row.id for row in rows if row.state == "pending"] == [f"dlv_{3 - cancelled}"]
    assert realm_db.point(running_jobs) == []


async def test_a_batch_is_of_the_job_that_it_was_asked_for(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    await happen(realm_db, 0)
    await fail_all(realm_db)
    await start(realm_db, "replay-missing")
    await start(realm_db, "recover", "job_2")
    await realm_db.write(advance_job, "job_2", 1_000_000, fresh_ids())
    later = realm_db.point(find_job, "acct_1", "job_2")
    assert later is not None
    assert (job(realm_db).queued, later.queued) == (0, 1)


async def test_a_job_that_still_looks_is_not_forgotten_however_old(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    for number in range(BATCH_ROWS_MAX):
        await happen(realm_db, number)
    await fail_all(realm_db)
    await start(realm_db, "recover")
    await advance(realm_db, fresh_ids())

    assert await realm_db.write(prune_jobs, YEAR_MS, 500) == 0
    assert not await advance(realm_db, fresh_ids())
    assert await realm_db.write(prune_jobs, YEAR_MS, 500) == 1
    assert await realm_db.write(prune_jobs, YEAR_MS, 500) == BATCH_ROWS_MAX


async def test_a_job_counts_all_that_it_queued_until_it_is_forgotten_whenever_the_server_dies(
    realm_db: Database,
) -> None:
    await register(realm_db, "acct_1", "ep_1")
    for number in range(7):
        await happen(realm_db, number)
    await fail_all(realm_db)
    for job_id in ("job_1", "job_2"):
        await start(realm_db, "recover", job_id)
        await realm_db.write(advance_job, job_id, 1_000_000, fresh_ids())
        await fail_all(realm_db)
    await realm_db.write(run_sql, "UPDATE webhook_jobs SET created_at_ms = ? WHERE id = 'job_2'", YEAR_MS)

    rows = list[int]()
    left: list[JobRow | None] = []
    while gone := await realm_db.write(prune_jobs, YEAR_MS, 3):
        rows.append(gone)
        left = [realm_db.point(find_job, "acct_1", job_id) for job_id in ("job_1", "job_2")]
        assert all((one.queued, one.failed) == (7, 7) for one in left if one is not None)

    assert (sum(rows), max(rows)) == (8, 3), "the job, and what it queued"
    assert left[0] is None
    assert left[1] is not None


async def test_a_job_that_is_done_stays_so_when_a_later_one_queues_what_failed_again(
    realm_db: Database,
) -> None:
    await register(realm_db, "acct_1", "ep_1")
    await happen(realm_db, 0)
    await fail_all(realm_db)
    await start(realm_db, "recover")
    await advance(realm_db, fresh_ids())
    await fail_all(realm_db)
    assert job(realm_db).state == "done"

    await start(realm_db, "recover", "job_2")
    await realm_db.write(advance_job, "job_2", 1_000_000, fresh_ids())
    await realm_db.write(lambda tx: tx.execute("UPDATE deliveries SET attempts = 1"))
    later = realm_db.point(find_job, "acct_1", "job_2")
    assert later is not None
    assert (job(realm_db).state, job(realm_db).retrying) == ("done", 0)
    assert (later.state, later.retrying) == ("running", 1)


async def test_what_was_refused_and_is_tried_again_is_counted_apart(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    for number in range(3):
        await happen(realm_db, number)
    await fail_all(realm_db)
    await start(realm_db, "recover")
    await advance(realm_db, fresh_ids())
    assert job(realm_db).retrying == 0, "nothing was tried yet"

    await realm_db.write(lambda tx: tx.execute("UPDATE deliveries SET attempts = 1 WHERE id <> 'dlv_2'"))
    assert (job(realm_db).done, job(realm_db).failed, job(realm_db).retrying) == (0, 0, 2)
    await fail_all(realm_db)
    assert (job(realm_db).failed, job(realm_db).retrying) == (3, 0)


@pytest.mark.parametrize("kind", ["recover", "replay-missing"])
async def test_what_a_cancelled_job_takes_back_did_not_fail(realm_db: Database, kind: Kind) -> None:
    if kind == "recover":
        await register(realm_db, "acct_1", "ep_1")
    for number in range(4):
        await happen(realm_db, number)
    await fail_all(realm_db)
    await register(realm_db, "acct_1", "ep_1")
    await start(realm_db, kind)
    assert realm_db.point(running_jobs) == [("job_1", "ep_1")]
    await advance(realm_db, fresh_ids())

    def end_two(tx: Tx) -> None:
        first, second = tx.execute("SELECT seq FROM deliveries ORDER BY seq LIMIT 2").fetchall()
        tx.execute("UPDATE deliveries SET state = 'succeeded', next_at_ms = NULL WHERE seq = ?", first)
        tx.execute("UPDATE deliveries SET state = 'failed', next_at_ms = NULL WHERE seq = ?", second)

    await realm_db.write(end_two)
    await realm_db.write(cancel_job, "acct_1", "job_1")
    assert (job(realm_db).state, job(realm_db).taken_back) == ("cancelled", 0), "soon"
    assert realm_db.point(running_jobs) == [("job_1", "ep_1")]
    await advance(realm_db, fresh_ids())
    ended = job(realm_db)
    assert (ended.state, ended.done, ended.failed, ended.taken_back) == ("cancelled", 1, 1, 2)


async def test_recover_counts_from_when_a_delivery_failed_for_good(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    for number in range(4):
        await happen(realm_db, number)
    await fail_all(realm_db)

    def log(tx: Tx) -> None:
        tx.executemany(
            "INSERT INTO attempts (delivery_id, n, trigger, at_ms, duration_ms) VALUES (?, 1, 'auto', ?, 10)",
            [("dlv_0", 480), ("dlv_1", 490), ("dlv_2", 100), ("dlv_2", 700), ("dlv_3", 700)],
        )
        tx.execute("UPDATE deliveries SET kind = 'test' WHERE id = 'dlv_3'")

    await realm_db.write(log)
    await start(realm_db, "recover", since_ms=500)
    await advance(realm_db, fresh_ids())

    states = realm_db.point(lambda tx: list_deliveries(tx, "acct_1", limit=9))
    assert [row.state for row in states] == ["failed", "pending", "pending", "failed"]


async def test_replay_missing_keeps_to_its_time_its_account_and_the_wanted_types(realm_db: Database) -> None:
    await happen(realm_db, 1, now_ms=400)
    await happen(realm_db, 2, now_ms=500)
    await happen(realm_db, 3, now_ms=600, account_id="acct_2")
    await register(realm_db, "acct_1", "ep_1", ("payment.settled",))
    await start(realm_db, "replay-missing", since_ms=500)
    await advance(realm_db, fresh_ids())
    assert job(realm_db).matched == 0
    await register(realm_db, "acct_1", "ep_1")
    await start(realm_db, "replay-missing", "job_2", since_ms=500)
    await realm_db.write(advance_job, "job_2", 1_000_000, fresh_ids())

    rows = realm_db.point(lambda tx: list_deliveries(tx, "acct_1", limit=9))
    assert [row.event_id for row in rows] == ["evt_2"]


async def test_a_job_needs_an_enabled_endpoint(realm_db: Database) -> None:
    with pytest.raises(NotFound):
        await start(realm_db, "recover")
    await register(realm_db, "acct_1", "ep_1")
    await realm_db.write(switch_endpoint, account_id="acct_1", act="disable", now_ms=0, actor="test")
    with pytest.raises(EndpointDisabled):
        await start(realm_db, "recover")


async def test_disabling_the_endpoint_cancels_its_jobs(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    await start(realm_db, "recover")
    await realm_db.write(switch_endpoint, account_id="acct_1", act="disable", now_ms=0, actor="test")

    assert job(realm_db).state == "cancelled"
    assert not await advance(realm_db, fresh_ids())


async def cancel(db: Database, job_id: str) -> None:
    await db.write(cancel_job, "acct_1", job_id)
    while await db.write(advance_job, job_id, 1_000_000, fresh_ids()):
        pass


async def test_cancelling_a_job_that_has_ended_leaves_what_a_later_one_queued(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    await happen(realm_db, 1)
    for job_id in ("job_1", "job_2"):
        await fail_all(realm_db)
        await start(realm_db, "recover", job_id)
        await realm_db.write(advance_job, job_id, 1_000_000, fresh_ids())
    await cancel(realm_db, "job_1")
    assert [row.state for row in realm_db.point(lambda tx: list_deliveries(tx, "acct_1", limit=9))] == [
        "pending"
    ]
    await cancel(realm_db, "job_2")
    assert [row.state for row in realm_db.point(lambda tx: list_deliveries(tx, "acct_1", limit=9))] == [
        "failed"
    ]


async def test_what_a_job_takes_back_is_not_looked_for_among_what_it_took_back_before(
    realm_db: Database,
) -> None:
    def plan(tx: Tx) -> str:
        rows = tx.execute(f"EXPLAIN QUERY PLAN {_NOT_SENT}", ("job_1", "ep_1", REPLAY))
        return " ".join(str(row[-1]) for row in rows)

    words = realm_db.point(plan)
    assert words.startswith("SEARCH d USING INDEX deliveries_due (endpoint_id=? AND priority=?)")
    assert "jobs_of_delivery" in words


async def test_the_number_of_running_jobs_is_bounded(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    for number in range(RUNNING_MAX):
        await start(realm_db, "recover", f"job_{number}")
    with pytest.raises(RateLimited):
        await start(realm_db, "recover", "job_more")
    await register(realm_db, "acct_2", "ep_2")
    await realm_db.write(
        start_job, job_id="job_other", account_id="acct_2", kind="recover", since_ms=0, now_ms=1_000_000
    )
    await realm_db.write(advance_job, "job_0", 1_000_000, fresh_ids())
    await start(realm_db, "recover", "job_more")


async def test_a_job_of_another_account_is_not_found(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    await start(realm_db, "recover")

    assert realm_db.point(find_job, "acct_2", "job_1") is None
    with pytest.raises(NotFound):
        await realm_db.write(cancel_job, "acct_2", "job_1")
    assert job(realm_db).state == "running"


async def test_what_failed_at_an_endpoint_that_was_deleted_is_not_recovered_at_the_next(
    realm_db: Database,
) -> None:
    await register(realm_db, "acct_1", "ep_1")
    await happen(realm_db, 1)
    await fail_all(realm_db)
    await realm_db.write(delete_endpoint, account_id="acct_1", now_ms=1, actor="test")
    await register(realm_db, "acct_1", "ep_2")
    await start(realm_db, "recover")
    await advance(realm_db, fresh_ids())

    assert (job(realm_db).state, job(realm_db).matched) == ("done", 0)


@pytest.mark.parametrize("kind", ["recover", "replay-missing"])
async def test_a_job_over_the_last_minute_does_not_walk_through_the_years_before(
    realm_db: Database, kind: Kind
) -> None:
    await register(realm_db, "acct_1", "ep_1")
    for number in range(BATCH_ROWS_MAX + 10):
        await happen(realm_db, number)

    def succeed(tx: Tx) -> None:
        tx.execute("UPDATE deliveries SET state = 'succeeded', next_at_ms = NULL")

    await realm_db.write(succeed)
    await register(realm_db, "acct_1", "ep_1", ("payment.settled",))
    await happen(realm_db, 1000, now_ms=YEAR_MS)
    await register(realm_db, "acct_1", "ep_1")
    await realm_db.write(
        start_job, job_id="job_1", account_id="acct_1", kind=kind, since_ms=YEAR_MS - 60_000, now_ms=YEAR_MS
    )

    assert await advance(realm_db, fresh_ids()) is False
    assert job(realm_db).queued == (1 if kind == "replay-missing" else 0)


async def test_an_event_out_of_the_order_of_times_is_not_missed(realm_db: Database) -> None:
    """The wall clock was set back by an hour, and what came before is the older one by its cursor alone."""
    await happen(realm_db, 1, now_ms=YEAR_MS + 1000)
    await happen(realm_db, 2, now_ms=YEAR_MS - 3_600_000)
    await happen(realm_db, 3, now_ms=YEAR_MS - 3_590_000)
    await register(realm_db, "acct_1", "ep_1")
    await realm_db.write(
        start_job,
        job_id="job_1",
        account_id="acct_1",
        kind="replay-missing",
        since_ms=YEAR_MS,
        now_ms=YEAR_MS + 2000,
    )
    await advance(realm_db, fresh_ids())

    rows = realm_db.point(lambda tx: list_deliveries(tx, "acct_1", limit=9))
    assert [row.event_id for row in rows] == ["evt_1"]
