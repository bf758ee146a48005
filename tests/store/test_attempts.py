"""What follows from the end of one attempt."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import Any

import pytest
import trio

from payd.core.endpoint import DISABLE_AFTER_MS, FAILURE_GAP_MAX_MS, NOTIFY, EndpointState
from payd.core.retry import ATTEMPTS_MAX, next_attempt_at_ms
from payd.entropy import new_id
from payd.store.attempts import (
    LOG_SHOWN_MAX,
    AttemptEnd,
    Recorded,
    attempts_of,
    record_attempt,
    record_successes,
    record_test,
)
from payd.store.db import Database, Tx
from payd.store.deliveries import DeliveryRow, find_delivery, load_work
from payd.store.endpoints import get_endpoint, put_house_endpoint
from payd.store.notices import Notices
from tests.store.test_deliveries import happen, register

FAILED = AttemptEnd("auto", 0, 0, 500, "http_status", 12, "1.1.1.1", b"no")
HOUR_MS = 3600 * 1000
NOTICES = Notices(False, new_id)


@pytest.fixture
async def db(realm_db: Database) -> Database:
    """A realm that owes `dlv_1` to `ep_1`."""
    await register(realm_db, "acct_1", "ep_1")
    await happen(realm_db, 1)
    return realm_db


async def record(db: Database, end: AttemptEnd, delivery_id: str = "dlv_1") -> Recorded:
    return await db.write(record_attempt, delivery_id, end, NOTICES)


def delivery(db: Database, delivery_id: str = "dlv_1") -> DeliveryRow:
    row = db.point(find_delivery, "acct_1", delivery_id)
    assert row is not None
    return row


async def test_a_success_ends_the_delivery(db: Database) -> None:
    recorded = await record(db, FAILED._replace(status=204, error_class=None, ended_at_ms=7))

    assert (recorded.state, recorded.next_at_ms, recorded.n) == ("succeeded", None, 1)
    row = delivery(db)
    assert (row.state, row.next_at_ms, row.last_status) == ("succeeded", None, 204)
    assert db.point(get_endpoint, "acct_1").last_success_at_ms == 7


async def test_a_failure_is_due_again_after_the_schedules_delay_from_its_end(db: Database) -> None:
    recorded = await record(db, FAILED._replace(at_ms=1000, ended_at_ms=16_000))

    assert (recorded.state, recorded.next_at_ms) == ("pending", 21_000)
    assert delivery(db).next_at_ms == 21_000
    [logged] = db.point(attempts_of, "dlv_1")
    assert (logged.next_at_ms, logged.truncated) == (21_000, False)


async def test_it_is_due_later_by_what_the_receiver_asks_for_and_by_chance(db: Database) -> None:
    recorded = await record(db, FAILED._replace(retry_after_s=100, jitter=0.5, is_whole=False))

    assert recorded.next_at_ms == next_attempt_at_ms(1, 0, jitter=0.5, retry_after_s=100)
    assert recorded.next_at_ms != next_attempt_at_ms(1, 0, retry_after_s=100)
    assert recorded.next_at_ms != next_attempt_at_ms(1, 0, jitter=0.5)
    [logged] = db.point(attempts_of, "dlv_1")
    assert (logged.retry_after_s, logged.truncated) == (100, True)


async def test_a_failure_soon_after_a_success_starts_the_clock_and_a_success_soon_after_ends_it(
    db: Database,
) -> None:
    """Of successes that follow each other not each is noted."""
    succeeded = FAILED._replace(status=200, error_class=None, trigger="manual")
    for end, failing_since_ms in (
        (succeeded, None),
        (FAILED._replace(ended_at_ms=10_000), 10_000),
        (succeeded._replace(ended_at_ms=20_000), None),
    ):
        await record(db, end)
        assert db.point(get_endpoint, "acct_1").failing_since_ms == failing_since_ms


async def test_a_copy_that_was_sent_on_purpose_is_logged_and_changes_nothing(db: Database) -> None:
    before = delivery(db)
    copied = await record(db, FAILED._replace(fault="duplicate"))

    assert (copied.state, copied.next_at_ms, copied.n) == ("pending", before.next_at_ms, 1)
    assert [row.fault for row in db.point(attempts_of, "dlv_1")] == ["duplicate"]
    assert delivery(db) == before._replace(attempts=1)
    assert (await record(db, FAILED)).next_at_ms == 5000, "it was the first"


async def test_what_was_cancelled_while_it_was_held_back_is_not_due(db: Database) -> None:
    await db.write(lambda tx: tx.execute("UPDATE deliveries SET state = 'cancelled', next_at_ms = NULL"))
    recorded = await record(db, FAILED._replace(fault="delay", held_until_ms=99))

    assert (recorded.state, recorded.next_at_ms, delivery(db).next_at_ms) == ("cancelled", None, None)


async def test_of_a_log_that_somebody_filled_by_hand_the_newest_are_shown(db: Database) -> None:
    for _ in range(LOG_SHOWN_MAX + 2):
        await record(db, FAILED._replace(trigger="manual"))

    assert [row.n for row in db.point(attempts_of, "dlv_1")] == list(range(3, LOG_SHOWN_MAX + 3))
    assert delivery(db).attempts == LOG_SHOWN_MAX + 2


async def test_the_eighth_failure_is_the_last(db: Database) -> None:
    states = [(await record(db, FAILED)).state for _ in range(ATTEMPTS_MAX)]

    assert states == ["pending"] * 7 + ["failed"]
    assert [row.n for row in db.point(attempts_of, "dlv_1")] == list(range(1, 9))


async def test_a_failure_by_hand_is_logged_and_moves_nothing_but_the_endpoints_clock(db: Database) -> None:
    await record(db, FAILED)
    before = delivery(db)
    await record(db, FAILED._replace(trigger="manual", ended_at_ms=99))
    after = delivery(db)

    assert (after.state, after.next_at_ms, after.attempts) == (before.state, before.next_at_ms, 2)
    assert db.point(get_endpoint, "acct_1").last_failure_at_ms == 99
    [*_, last] = [(await record(db, FAILED)).state for _ in range(ATTEMPTS_MAX - 1)]
    assert last == "failed"


async def test_a_late_success_of_a_cancelled_delivery_counts(db: Database) -> None:
    def cancel(tx: Tx) -> None:
        tx.execute(
            "UPDATE deliveries SET state = 'cancelled', reason = 'endpoint_disabled', next_at_ms = NULL"
        )

    await db.write(cancel)
    late_failure = await record(db, FAILED)
    late_success = await record(db, FAILED._replace(status=200, error_class=None))

    assert (late_failure.state, late_success.state) == ("cancelled", "succeeded")
    assert delivery(db).next_at_ms is None


async def test_five_days_of_failure_disable_the_endpoint_and_cancel_what_it_is_owed(db: Database) -> None:
    await happen(db, 2)
    recorded = await record(db, FAILED)
    at_ms = 0
    while at_ms < DISABLE_AFTER_MS - 12 * HOUR_MS:
        at_ms += 12 * HOUR_MS
        recorded = await record(db, FAILED._replace(trigger="manual", ended_at_ms=at_ms))
        assert recorded.endpoint.state is EndpointState.ENABLED
    recorded = await record(db, FAILED._replace(ended_at_ms=DISABLE_AFTER_MS))

    assert recorded.endpoint.state is EndpointState.DISABLED
    assert recorded.notice == "endpoint.disabled"
    assert recorded.state == "cancelled"
    assert db.point(get_endpoint, "acct_1").state == "disabled"
    assert {delivery(db, name).state for name in ("dlv_1", "dlv_2")} == {"cancelled"}


async def test_silence_is_no_evidence_of_failure(db: Database) -> None:
    await record(db, FAILED)
    recorded = await record(db, FAILED._replace(ended_at_ms=DISABLE_AFTER_MS + FAILURE_GAP_MAX_MS))

    assert recorded.endpoint.state is EndpointState.ENABLED
    assert recorded.endpoint.failing_since_ms == DISABLE_AFTER_MS + FAILURE_GAP_MAX_MS


async def test_a_failed_test_says_nothing_about_the_endpoint_and_a_good_one_clears_its_clock(
    db: Database,
) -> None:
    endpoint = db.point(get_endpoint, "acct_1")
    for number, error_class in ((0, "http_status"), (1, "http_status"), (2, None)):
        await db.write(
            record_test,
            delivery_id=f"dlv_test{number}",
            message_id="msg_test",
            endpoint=endpoint,
            event_type="payment.created",
            body=b"{}",
            end=FAILED._replace(trigger="test", ended_at_ms=50, error_class=error_class),
            notices=NOTICES,
        )
        failing_since_ms = db.point(get_endpoint, "acct_1").failing_since_ms
        assert failing_since_ms == (0 if number == 1 else None)
        if number == 0:
            await record(db, FAILED)

    assert [delivery(db, f"dlv_test{number}").state for number in (1, 2)] == ["failed", "succeeded"]
    assert db.point(load_work, "dlv_test1") is None, "a test is not sent again"
    assert delivery(db, "dlv_test2").event_id is None
    assert [row.trigger for row in db.point(attempts_of, "dlv_test2")] == ["test"]


async def test_successes_of_one_moment_are_recorded_as_one_after_the_other(realm_db: Database) -> None:
    for number in (1, 2, 3):
        await register(realm_db, f"acct_{number}", f"ep_{number}")
    await realm_db.write(put_house_endpoint, NOTIFY, "https://ops.test/", b"sealed", 0)
    for number in range(70):
        await happen(realm_db, number, account_id=f"acct_{1 + number % 3}")
    retried = await record(realm_db, FAILED, "dlv_1")
    assert retried.state == "pending"
    for statement in TANGLED:
        await realm_db.write(Tx.execute, statement)
    ends = [
        (
            f"dlv_{number}",
            FAILED._replace(
                trigger="replay" if number % 7 == 0 else "auto",
                status=200 + number % 3,
                error_class=None,
                ended_at_ms=HOUR_MS * 100 + number,
                headers=b"a: b\r\n" if number % 5 else b"",
                is_whole=number % 11 > 0,
            ),
        )
        for number in range(69)
    ]

    def both(tx: Tx) -> None:
        tx.execute("SAVEPOINT here")
        notices = counted_notices()
        apart = [record_attempt(tx, *one, notices) for one in ends]
        stored = all_rows(tx)
        tx.execute("ROLLBACK TO here")
        recorded = record_successes(tx, ends, notices=counted_notices())
        assert [end.unwrap() for end in recorded] == apart
        assert all_rows(tx) == stored

    before = await realm_db.read(all_rows)
    await realm_db.write(both)
    after = await realm_db.read(all_rows)
    assert {table for table in after if after[table] != before[table]} == {
        "attempts",
        "deliveries",
        "endpoints",
    }
    assert len(after["attempts"]) == 1 + len(ends)
    assert len(after["deliveries"]) == len(before["deliveries"]) + 1, "that one is well again is told"


# What is fresh, comes again, or comes back late; what was cancelled or paused meanwhile; who has failed.
TANGLED = (
    "UPDATE deliveries SET priority = seq % 3, attempts = seq % 4, reason = CASE seq % 5 WHEN 0 THEN 'x' END,"
    " state = CASE seq % 5 WHEN 0 THEN 'cancelled' WHEN 1 THEN 'failed' ELSE state END WHERE kind = 'event'",
    "UPDATE endpoints SET failing_since_ms = 1, last_failure_at_ms = 2, warnings = 1 WHERE id = 'ep_1'",
    "UPDATE endpoints SET state = 'paused', off_since_ms = 9 WHERE id = 'ep_2'",
)


def counted_notices() -> Notices:
    numbers = count(1)
    return Notices(False, lambda prefix, _: f"{prefix}new{next(numbers)}")


def all_rows(tx: Tx) -> dict[str, list[tuple[Any, ...]]]:
    tables = ("attempts", "deliveries", "endpoints", "events")
    return {table: tx.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall() for table in tables}


async def test_a_delivery_that_is_there_twice_is_recorded_twice_and_harms_no_other(db: Database) -> None:
    await happen(db, 2)
    ended = FAILED._replace(status=200, error_class=None)
    together = partial(record_successes, notices=NOTICES)
    async with trio.open_nursery() as nursery:
        for delivery_id in ("dlv_1", "dlv_2", "dlv_1"):
            nursery.start_soon(db.write_together, None, together, (delivery_id, ended))
    assert [row.n for row in db.point(attempts_of, "dlv_1")] == [1, 2]
    assert (delivery(db).state, delivery(db, "dlv_2").state) == ("succeeded", "succeeded")
