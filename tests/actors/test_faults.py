"""What a receiver gets when a fault is injected, and that what is promised of deliveries stays so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count

import msgspec
import pytest
import trio

from payd.clock import Clock
from payd.core.fault import FORGED, REORDER_MAX_MS, Fault, FaultKind
from payd.core.retry import ATTEMPTS_MAX
from payd.core.signature import SignatureMismatch, StaleTimestamp, verify
from payd.store.db import Database, Tx
from payd.store.endpoints import delete_endpoint, endpoint_of_id
from payd.store.faults import add_fault, list_faults
from payd.store.webhook_jobs import start_job
from tests.outbox import ACCOUNT, Outbox, open_outbox
from tests.receiver import Does, Received, Receiver, always
from tests.virtual_wall import VirtualWall

HOUR_S = 3600


@pytest.fixture
async def outbox(realm_db: Database) -> AsyncIterator[Outbox]:
    async with open_outbox(realm_db) as opened:
        yield opened


async def begin(outbox: Outbox, kind: FaultKind, status: int = 200, **more: object) -> tuple[Receiver, str]:
    """A receiver that answers so, its secret, and a fault of its endpoint."""
    receiver = outbox.host("a.test", always(Does(status=status)))
    endpoint, secret = await outbox.register("a.test")
    await inject(outbox, endpoint.id, kind, **more)
    return receiver, secret


async def inject(outbox: Outbox, endpoint_id: str, kind: FaultKind, **more: object) -> None:
    now_ms = outbox.clock.now_ms()
    number = len(outbox.db.point(list_faults, endpoint_id))
    plain = Fault(f"flt_{number}", endpoint_id, kind, None, (), None, 1, 1, None, now_ms)
    await outbox.db.write(add_fault, msgspec.structs.replace(plain, **more))
    assert outbox.deliveries.faults is not None
    outbox.deliveries.faults.forget()


def types(receiver: Receiver) -> list[str]:
    return [msgspec.json.decode(one.body)["type"] for one in receiver.received]


def is_authentic(outbox: Outbox, secret: str, one: Received) -> bool:
    """As a receiver judges it by the wall clock, which tests have stand still."""
    try:
        verify(
            secret,
            message_id=one.headers["webhook-id"],
            timestamp=one.headers["webhook-timestamp"],
            signature=one.headers["webhook-signature"],
            body=one.body,
            now_s=outbox.clock.real_ms() // 1000,
        )
    except (SignatureMismatch, StaleTimestamp):
        return False
    return True


async def test_a_duplicate_is_the_same_message_twice_and_the_delivery_is_done(outbox: Outbox) -> None:
    receiver, _ = await begin(outbox, "duplicate")
    await outbox.happen()
    await outbox.drained()
    await outbox.happen()
    await outbox.drained()
    first, copy, other = receiver.received
    assert first.headers["webhook-id"] == copy.headers["webhook-id"] != other.headers["webhook-id"]
    assert first.body == copy.body
    row = outbox.rows()[0]
    assert (row.state, [one.fault for one in outbox.log(row)]) == ("succeeded", [None, "duplicate"])
    assert "copy" in (outbox.log(row)[1].error or "")
    await outbox.advance(30 * HOUR_S)
    assert len(receiver.received) == 3


async def test_a_drop_makes_no_request_and_the_schedule_goes_on(outbox: Outbox) -> None:
    receiver, _ = await begin(outbox, "drop")
    await outbox.happen()
    await outbox.drained()
    assert receiver.received == []
    await outbox.advance(5)
    assert len(receiver.received) == 1
    row = outbox.rows()[0]
    log = outbox.log(row)
    assert [(one.fault, one.error_class, one.status) for one in log] == [
        ("drop", "injected_fault", None),
        (None, None, 200),
    ]
    assert row.state == "succeeded"


@pytest.mark.parametrize("kind", sorted(FORGED))
@pytest.mark.parametrize("status", [400, 200])
async def test_a_forgery_is_refused_by_who_verifies_and_settles_nothing_where_it_is_taken(
    outbox: Outbox, kind: FaultKind, status: int
) -> None:
    receiver, secret = await begin(outbox, kind, status=status)
    await outbox.happen()
    await outbox.drained()
    [forged] = receiver.received
    assert not is_authentic(outbox, secret, forged)
    [row] = outbox.rows()
    [attempt] = outbox.log(row)
    assert (row.state, attempt.fault, attempt.status) == ("pending", kind, status)
    assert attempt.error_class == ("http_status" if status == 400 else "forgery_accepted")
    await outbox.advance(5)
    assert is_authentic(outbox, secret, receiver.received[1])
    assert receiver.received[1].body == forged.body


async def test_a_delay_holds_back_as_long_as_it_says_and_uses_no_attempt(outbox: Outbox) -> None:
    receiver, _ = await begin(outbox, "delay", delay_ms=90_000)
    await outbox.happen()
    await outbox.advance(89)
    assert receiver.received == []
    await outbox.advance(1)
    assert len(receiver.received) == 1
    assert [one.fault for one in outbox.log(outbox.rows()[0])] == ["delay", None]


@pytest.mark.parametrize("set_back_s", [0, HOUR_S])
async def test_a_restart_sends_nothing_early_that_is_held_back_unless_the_clock_was_wrong(
    set_back_s: int, realm_db: Database
) -> None:
    ahead_s, wall = set_back_s, VirtualWall()
    clock = Clock(lambda: wall() + ahead_s * 1000)
    async with open_outbox(realm_db, clock=clock) as outbox:
        await begin(outbox, "delay", delay_ms=3 * HOUR_S * 1000)
        await outbox.happen()
        await trio.sleep(60)
    ahead_s = 0
    async with open_outbox(realm_db, clock=clock) as outbox:
        receiver = outbox.host("a.test")
        await trio.sleep(2 * HOUR_S)
        assert len(receiver.received) == (1 if set_back_s else 0)
        await trio.sleep(HOUR_S)
        assert len(receiver.received) == 1


async def test_a_reorder_has_the_next_one_go_first(outbox: Outbox) -> None:
    receiver, _ = await begin(outbox, "reorder", deliveries=2, left=2)
    for event_type in ("payment.created", "payment.processing", "payment.succeeded", "payment.settled"):
        await outbox.happen(event_type, payment_id="pay_t1")
        await outbox.drained()
    assert types(receiver) == [
        *("payment.processing", "payment.created", "payment.settled", "payment.succeeded"),
    ]
    # What was overtaken goes at once, and not with the next look into the store.
    assert receiver.received[1].at_s - receiver.received[0].at_s < 1


async def test_a_reorder_that_nothing_follows_waits_a_minute(outbox: Outbox) -> None:
    receiver, _ = await begin(outbox, "reorder")
    await outbox.happen()
    await outbox.advance(REORDER_MAX_MS / 1000 - 1)
    assert receiver.received == []
    await outbox.advance(1)
    assert len(receiver.received) == 1


async def test_an_outage_for_a_time_is_survived_and_never_takes_the_last_attempt(outbox: Outbox) -> None:
    until_ms = outbox.clock.now_ms() + 40 * HOUR_S * 1000
    receiver, _ = await begin(outbox, "drop", deliveries=None, left=None, until_ms=until_ms)
    await outbox.happen()
    await outbox.advance(30 * HOUR_S)
    assert len(receiver.received) == 1
    [row] = outbox.rows()
    log = outbox.log(row)
    assert [one.fault for one in log] == ["drop"] * (ATTEMPTS_MAX - 1) + [None]
    assert row.state == "succeeded"


async def test_a_week_of_faults_does_not_move_the_failure_clock_and_counts_as_no_failure(
    outbox: Outbox,
) -> None:
    until_ms = outbox.clock.now_ms() + 6 * 24 * HOUR_S * 1000
    await begin(outbox, "bad_signature", status=400, deliveries=None, left=None, until_ms=until_ms)
    for _ in range(70):
        await outbox.happen()
        await outbox.advance(2 * HOUR_S)
    endpoint = outbox.db.point(endpoint_of_id, outbox.db.point(endpoint_id_of))
    assert endpoint is not None
    assert endpoint.state == "enabled"
    stats = outbox.deliveries.stats
    assert stats.faults["bad_signature"] > 70
    # What was counted are the last attempts, which are never touched.
    assert stats.failed["http_status"] + stats.ok == sum(
        one.fault is None for row in outbox.rows() for one in outbox.log(row)
    )


def endpoint_id_of(tx: Tx) -> str:
    return str(tx.execute("SELECT id FROM endpoints WHERE account_id = ?", (ACCOUNT,)).fetchone()[0])


async def test_what_is_sent_by_hand_by_replay_or_as_a_test_is_not_touched(outbox: Outbox) -> None:
    receiver, secret = await begin(outbox, "wrong_secret", deliveries=9, left=9)
    await outbox.happen()
    await outbox.drained()
    [row] = outbox.rows()
    await outbox.deliveries.resend(ACCOUNT, row.id)
    endpoint = outbox.db.point(endpoint_of_id, outbox.db.point(endpoint_id_of))
    assert endpoint is not None
    await outbox.deliveries.send_test(endpoint, "payment.created")
    assert [is_authentic(outbox, secret, one) for one in receiver.received] == [False, True, True]
    await outbox.switch("disable")
    await outbox.happen()
    await outbox.switch("enable")
    now_ms = outbox.clock.now_ms()
    await outbox.db.write(
        start_job, job_id="job_1", account_id=ACCOUNT, kind="replay-missing", since_ms=0, now_ms=now_ms
    )
    outbox.deliveries.wake_jobs()
    await outbox.drained()
    assert types(receiver)[3:] == ["payment.created"]
    # A replay has the trigger of its own.
    assert is_authentic(outbox, secret, receiver.received[-1])


async def test_another_endpoint_is_not_touched(outbox: Outbox) -> None:
    await begin(outbox, "drop", deliveries=9, left=9)
    other = outbox.host("b.test")
    await outbox.register("b.test", account_id="acct_2")
    await outbox.happen(account_id="acct_2")
    await outbox.drained()
    assert len(other.received) == 1


async def test_a_restart_keeps_what_is_left(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        await begin(outbox, "drop", deliveries=2, left=2)
        await outbox.happen()
        await outbox.drained()
    async with open_outbox(realm_db, clock=outbox.clock) as again:
        receiver = again.host("a.test")
        for payment_id in ("pay_t8", "pay_t9"):
            again._numbers = count(ord(payment_id[-1]))
            await again.happen(payment_id=payment_id)
        await again.drained()
        assert len(receiver.received) == 1
        assert [[one.fault for one in again.log(row)] for row in again.rows()] == [["drop"], ["drop"], [None]]


async def test_what_was_done_to_a_request_that_a_deletion_cuts_off_is_in_the_log(outbox: Outbox) -> None:
    receiver = outbox.host("a.test", always(Does(hangs=True)))
    endpoint, _ = await outbox.register("a.test")
    await inject(outbox, endpoint.id, "bad_signature")
    await outbox.happen()
    while not receiver.received:
        await trio.sleep(0.1)
    now_ms = outbox.clock.now_ms()
    await outbox.db.write(delete_endpoint, account_id=ACCOUNT, now_ms=now_ms, actor="test")
    outbox.deliveries.drop(endpoint.id)
    await outbox.drained()

    [attempt] = outbox.log(outbox.rows()[0])
    assert (attempt.error_class, attempt.fault) == ("interrupted", "bad_signature")
    assert outbox.db.point(lambda tx: tx.execute("SELECT open FROM fault_uses").fetchall()) == [(0,)]


async def test_where_nothing_is_injected_a_fault_in_the_store_touches_nothing(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        # As in the live realm, which is built without.
        outbox.deliveries._attempts._faults = None
        receiver, secret = await begin(outbox, "wrong_secret", deliveries=9, left=9)
        await outbox.happen()
        await outbox.drained()
        assert [is_authentic(outbox, secret, one) for one in receiver.received] == [True]
