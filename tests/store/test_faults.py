"""Faults in the store: each is taken as often as it was asked for, whatever crashes in between."""

from __future__ import annotations

import msgspec
import pytest

from payd.core.errors import InvalidState, NotFound
from payd.core.fault import Fault, FaultKind
from payd.entropy import new_id
from payd.store.attempts import AttemptEnd, attempts_of, record_attempt
from payd.store.db import Database, Tx
from payd.store.deliveries import find_delivery, postpone
from payd.store.endpoints import get_endpoint
from payd.store.faults import (
    ACTIVE_MAX,
    KEPT_MAX,
    add_fault,
    end_faults,
    endpoints_with_faults,
    list_faults,
    release_held,
    take_fault,
)
from payd.store.notices import Notices
from tests.store.test_deliveries import happen, register

NOTICES = Notices(False, new_id)
MINUTE_MS = 60_000


@pytest.fixture
async def db(realm_db: Database) -> Database:
    """A realm that owes `dlv_1` to `ep_1`."""
    await register(realm_db, "acct_1", "ep_1")
    await happen(realm_db, 1)
    return realm_db


def fault(number: int, kind: FaultKind = "drop", **more: object) -> Fault:
    plain = Fault(f"flt_{number}", "ep_1", kind, None, (), None, 1, 1, None, number)
    return msgspec.structs.replace(plain, **more)


def ended(kind: FaultKind, **more: object) -> AttemptEnd:
    end = AttemptEnd("auto", 5, 5, None, "injected_fault", 0, None, b"", fault=kind)
    return end._replace(**more)  # type: ignore[arg-type]


async def test_what_is_stored_comes_back_newest_first(db: Database) -> None:
    first = fault(1, "delay", delay_ms=7, events=("payment.created", "payment.settled"), payment_id="pay_t1")
    await db.write(add_fault, first)
    await db.write(add_fault, fault(2, until_ms=9, deliveries=None, left=None))
    assert [one.id for one in db.point(list_faults, "ep_1")] == ["flt_2", "flt_1"]
    assert db.point(list_faults, "ep_1")[1] == first


async def test_the_oldest_is_taken_first_and_each_as_often_as_asked(db: Database) -> None:
    await happen(db, 2)
    await db.write(add_fault, fault(1))
    await db.write(add_fault, fault(2, "bad_signature", deliveries=3, left=3))
    assert db.point(endpoints_with_faults, 5) == {"ep_1"}
    taken = []
    for delivery_id in ("dlv_1", "dlv_2", "dlv_2"):
        one = await db.write(take_fault, delivery_id, 5)
        taken.append(None if one is None else one.id)
        if one is not None:
            await db.write(record_attempt, delivery_id, ended(one.kind), NOTICES)
    # The second is not given to the same delivery twice, though it has some left.
    assert taken == ["flt_1", "flt_2", None]
    assert [(one.left, one.injected) for one in db.point(list_faults, "ep_1")] == [(2, 1), (0, 1)]


async def test_one_whose_attempt_was_never_logged_is_given_again_and_counted_once(db: Database) -> None:
    await db.write(add_fault, fault(1))
    first = await db.write(take_fault, "dlv_1", 5)
    again = await db.write(take_fault, "dlv_1", 5)
    assert first is not None
    assert again is not None
    assert (first.id, again.id, again.left, again.injected) == ("flt_1", "flt_1", 0, 1)
    await db.write(record_attempt, "dlv_1", ended("drop"), NOTICES)
    assert await db.write(take_fault, "dlv_1", 5) is None


async def test_what_was_done_on_purpose_tells_nothing_about_the_endpoint(db: Database) -> None:
    for kind, status in (("drop", None), ("bad_signature", 400), ("wrong_secret", 200)):
        end = ended(kind, status=status)  # type: ignore[arg-type]
        recorded = await db.write(record_attempt, "dlv_1", end, NOTICES)
        assert recorded.state == "pending"
    endpoint = db.point(get_endpoint, "acct_1")
    assert (endpoint.failing_since_ms, endpoint.last_success_at_ms) == (None, None)
    log = db.point(attempts_of, "dlv_1")
    assert [one.fault for one in log] == ["drop", "bad_signature", "wrong_secret"]
    # They are steps of the schedule: 5 s, 5 min, 30 min.
    assert [one.next_at_ms for one in log] == [5_005, 300_005, 1_800_005]


async def test_a_copy_changes_nothing_whatever_it_is_answered(db: Database) -> None:
    await db.write(record_attempt, "dlv_1", ended("drop", fault=None, error_class=None, status=200), NOTICES)
    before = db.point(find_delivery, "acct_1", "dlv_1")
    recorded = await db.write(record_attempt, "dlv_1", ended("duplicate", status=500), NOTICES)
    after = db.point(find_delivery, "acct_1", "dlv_1")
    assert before is not None
    assert after is not None
    assert (recorded.state, recorded.n) == ("succeeded", 2)
    assert after._replace(attempts=0) == before._replace(attempts=0)


async def test_what_is_held_back_has_used_no_attempt_and_is_due_when_another_went(db: Database) -> None:
    await happen(db, 2)
    await db.write(add_fault, fault(1, "reorder"))
    taken = await db.write(take_fault, "dlv_1", 5)
    assert taken is not None
    await db.write(record_attempt, "dlv_1", ended("reorder", held_until_ms=MINUTE_MS), NOTICES)
    assert await db.write(take_fault, "dlv_2", 5) is None
    assert due(db, "dlv_1") == (MINUTE_MS, 0)
    assert db.point(endpoints_with_faults, 5) == {"ep_1"}
    assert await db.write(release_held, "ep_1", "dlv_1", 6) is False
    await db.write(postpone, "dlv_2", 900)
    assert await db.write(release_held, "ep_1", "dlv_2", 6) is True
    assert (due(db, "dlv_1"), due(db, "dlv_2")) == ((6, 0), (900, 0))
    assert db.point(endpoints_with_faults, 7) == set()


async def test_what_nothing_overtakes_goes_when_its_minute_is_over(db: Database) -> None:
    await db.write(add_fault, fault(1, "reorder", deliveries=2, left=2))
    await db.write(take_fault, "dlv_1", 5)
    await db.write(record_attempt, "dlv_1", ended("reorder", held_until_ms=MINUTE_MS), NOTICES)
    assert await db.write(take_fault, "dlv_1", MINUTE_MS) is None
    [kept] = db.point(list_faults, "ep_1")
    assert (kept.held, kept.left) == (None, 1)


async def test_one_or_all_are_ended_and_let_go_what_they_hold(db: Database) -> None:
    await db.write(add_fault, fault(1, "reorder"))
    await db.write(add_fault, fault(2))
    await db.write(add_fault, fault(3))
    await db.write(take_fault, "dlv_1", 5)
    await db.write(record_attempt, "dlv_1", ended("reorder", held_until_ms=MINUTE_MS), NOTICES)
    assert [one.id for one in await db.write(end_faults, "ep_1", "flt_2", 6)] == ["flt_2"]
    assert [one.id for one in await db.write(end_faults, "ep_1", None, 7)] == ["flt_3"]
    assert due(db, "dlv_1") == (7, 0)
    assert db.point(endpoints_with_faults, 8) == set()
    with pytest.raises(NotFound):
        await db.write(end_faults, "ep_2", "flt_1", 8)


async def test_another_endpoints_faults_and_what_they_hold_stay_as_they_are(db: Database) -> None:
    await register(db, "acct_2", "ep_2")
    await happen(db, 2, account_id="acct_2")
    held = fault(9, "reorder", endpoint_id="ep_2", deliveries=2, left=2)
    await db.write(add_fault, held)
    await db.write(take_fault, "dlv_2", 5)
    await db.write(record_attempt, "dlv_2", ended("reorder", held_until_ms=MINUTE_MS), NOTICES)
    before = db.point(list_faults, "ep_2")

    await db.write(add_fault, fault(1, "reorder", deliveries=2, left=2))
    await db.write(take_fault, "dlv_1", 5)
    await db.write(record_attempt, "dlv_1", ended("reorder", held_until_ms=MINUTE_MS), NOTICES)
    await db.write(take_fault, "dlv_1", MINUTE_MS)
    await db.write(end_faults, "ep_1", None, MINUTE_MS)
    for number in range(100, 101 + KEPT_MAX):
        await db.write(add_fault, fault(number, left=0))
    assert (before[0].held, db.point(list_faults, "ep_2")) == ("dlv_2", before)
    assert due(db, "dlv_2") == (MINUTE_MS, 0)


async def test_there_is_a_bound_to_how_many_and_old_ones_are_forgotten(db: Database) -> None:
    for number in range(ACTIVE_MAX):
        await db.write(add_fault, fault(number))
    with pytest.raises(InvalidState, match="end some first"):
        await db.write(add_fault, fault(99))
    await db.write(end_faults, "ep_1", None, 100)
    for number in range(200, 200 + KEPT_MAX + 30):
        await db.write(add_fault, fault(number, left=0))
    assert len(db.point(list_faults, "ep_1")) <= KEPT_MAX


def due(db: Database, delivery_id: str) -> tuple[int | None, int]:
    """When it is due, and how many attempts the schedule has made."""

    def row(tx: Tx) -> tuple[int | None, int]:
        found: tuple[int | None, int] = tx.execute(
            "SELECT next_at_ms, attempts FROM deliveries WHERE id = ?", (delivery_id,)
        ).fetchone()
        return found

    return db.point(row)
