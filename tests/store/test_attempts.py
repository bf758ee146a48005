"""What follows from the end of one attempt."""

from __future__ import annotations

import pytest

from payd.core.endpoint import ALL, DISABLE_AFTER_MS, FAILURE_GAP_MAX_MS, EndpointState
from payd.core.retry import ATTEMPTS_MAX
from payd.entropy import new_id
from payd.store.attempts import LOG_SHOWN_MAX, AttemptEnd, Recorded, attempts_of, record_attempt, record_test
from payd.store.db import Database, Tx
from payd.store.deliveries import DeliveryRow, find_delivery
from payd.store.endpoints import get_endpoint, put_endpoint
from payd.store.notices import Notices
from tests.store.test_deliveries import happen

FAILED = AttemptEnd("auto", 0, 0, 500, "http_status", 12, "1.1.1.1", b"no")
HOUR_MS = 3600 * 1000
NOTICES = Notices(False, new_id)


@pytest.fixture
async def db(realm_db: Database) -> Database:
    """A realm that owes `dlv_1` to `ep_1`."""
    await realm_db.write(
        put_endpoint,
        account_id="acct_1",
        url="https://a.test/",
        events=ALL,
        fresh_id="ep_1",
        sealed=b"sealed",
        now_ms=0,
        actor="test",
    )
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
    await record(db, FAILED)
    endpoint = db.point(get_endpoint, "acct_1")
    for number, error_class in ((1, "http_status"), (2, None)):
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
        assert failing_since_ms == (0 if error_class else None)

    assert delivery(db, "dlv_test1").state == "failed"
    assert delivery(db, "dlv_test2").event_id is None
    assert [row.trigger for row in db.point(attempts_of, "dlv_test2")] == ["test"]
