"""Sending again: one delivery by hand, test events, and jobs over many."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from payd.core.errors import EndpointDisabled, InvalidParams, NotFound, RateLimited
from payd.entropy import new_id
from payd.store.db import Database
from payd.store.endpoints import delete_endpoint, get_endpoint
from payd.store.webhook_jobs import BATCH_ROWS_MAX, find_job, start_job
from tests.outbox import ACCOUNT, Outbox, make_outbox, open_outbox, verifies
from tests.receiver import Does, Receiver, always, in_turn

HOUR_S = 3600


async def test_a_resend_that_succeeds_settles_the_delivery_and_takes_back_its_retry(
    realm_db: Database,
) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test", in_turn(Does(status=500), Does()))
        await outbox.register("a.test")
        await outbox.happen()
        await outbox.drained()
        [row] = outbox.rows()
        await outbox.deliveries.resend(ACCOUNT, row.id)
        await outbox.advance(40 * HOUR_S)

        [row] = outbox.rows()
        assert (row.state, row.attempts, row.next_at_ms) == ("succeeded", 2, None)
        assert [one.trigger for one in outbox.log(row)] == ["auto", "manual"]
        first, second = receiver.received
        assert first.headers["webhook-id"] == second.headers["webhook-id"]
        assert first.body == second.body


async def test_a_resend_that_fails_changes_nothing(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test", always(Does(status=500)))
        await outbox.register("a.test")
        await outbox.happen()
        await outbox.drained()
        [before] = outbox.rows()
        await trio.sleep(2)
        await outbox.deliveries.resend(ACCOUNT, before.id)
        [after] = outbox.rows()

        assert (after.state, after.next_at_ms) == (before.state, before.next_at_ms)
        await outbox.advance(40 * HOUR_S)
        assert len(receiver.received) == 1 + 1 + 7


async def test_a_send_by_hand_that_meets_a_deletion_which_nobody_was_told_of_yet_is_refused(
    realm_db: Database,
) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test")
        endpoint, _ = await outbox.register("a.test")
        await outbox.db.write(delete_endpoint, account_id=ACCOUNT, now_ms=outbox.clock.now_ms(), actor="test")
        with pytest.raises(EndpointDisabled):
            await outbox.deliveries.send_test(endpoint, "payment.created")

        assert receiver.received == []
        assert not outbox.deliveries.busy


async def test_a_send_by_hand_that_meets_a_deletion_while_it_begins_is_refused(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test")
        endpoint, _ = await outbox.register("a.test")

        async def begins() -> None:
            now_ms = outbox.clock.now_ms()
            await outbox.db.write(delete_endpoint, account_id=ACCOUNT, now_ms=now_ms, actor="test")

        with pytest.raises(EndpointDisabled):
            await outbox.deliveries.send_test(endpoint, "payment.created", begins)

        assert receiver.received == []
        assert not outbox.deliveries.busy


async def test_a_test_event_goes_to_where_the_endpoint_moved_while_it_waited(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        before, after = outbox.host("a.test"), outbox.host("b.test")
        endpoint, _ = await outbox.register("a.test")

        async def begins() -> None:
            await outbox.register("b.test")

        await outbox.deliveries.send_test(endpoint, "payment.created", begins)

        assert (len(before.received), len(after.received)) == (0, 1)


async def test_a_deletion_cuts_a_send_by_hand_off(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox, trio.open_nursery() as people:
        receiver = outbox.host("a.test", always(Does(hangs=True)))
        endpoint, _ = await outbox.register("a.test")

        async def send() -> None:
            with pytest.raises(EndpointDisabled):
                await outbox.deliveries.send_test(endpoint, "payment.created")

        people.start_soon(send)
        await receiver.count(1)
        await outbox.db.write(delete_endpoint, account_id=ACCOUNT, now_ms=outbox.clock.now_ms(), actor="test")
        outbox.deliveries.drop(endpoint.id)
        await wait_all_tasks_blocked()

        assert not outbox.deliveries.busy
        assert outbox.rows() == []


async def test_the_end_of_a_send_by_hand_is_told_to_who_waits_for_it(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test", always(Does(delay_s=5)))
        endpoint, _ = await outbox.register("a.test")
        outbox.nursery.start_soon(outbox.deliveries.send_test, endpoint, "payment.created")
        [received] = await receiver.count(1)
        await outbox.drained()

        assert [row.state for row in outbox.rows()] == ["succeeded"]
        assert trio.current_time() == pytest.approx(received.at_s + 5)


async def test_a_resend_of_somebody_elses_or_an_old_delivery_is_refused(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        outbox.host("a.test")
        await outbox.register("a.test")
        await outbox.happen()
        await outbox.drained()
        [row] = outbox.rows()
        with pytest.raises(NotFound):
            await outbox.deliveries.resend("acct_2", row.id)
        await outbox.advance(14 * 24 * HOUR_S + 1)
        with pytest.raises(InvalidParams, match="14 days"):
            await outbox.deliveries.resend(ACCOUNT, row.id)


async def test_a_resend_to_a_disabled_endpoint_is_refused(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        outbox.host("a.test")
        await outbox.register("a.test")
        await outbox.happen()
        await outbox.drained()
        await outbox.switch("disable")
        with pytest.raises(EndpointDisabled):
            await outbox.deliveries.resend(ACCOUNT, outbox.rows()[0].id)


async def test_a_resend_goes_on_when_its_caller_is_gone(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        outbox.host("a.test", always(Does(delay_s=5)))
        await outbox.register("a.test")
        await outbox.happen()
        await outbox.drained()
        [row] = outbox.rows()
        with trio.move_on_after(1) as caller:
            await outbox.deliveries.resend(ACCOUNT, row.id)
        await outbox.drained()

        assert caller.cancelled_caught
        assert [one.trigger for one in outbox.log(row)] == ["auto", "manual"]


async def test_more_than_four_sends_by_hand_at_once_are_refused(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test", always(Does(hangs=True)))
        endpoint, _ = await outbox.register("a.test")
        for _ in range(4):
            outbox.nursery.start_soon(outbox.deliveries.send_test, endpoint, "payment.created")
        await receiver.count(4)
        with pytest.raises(RateLimited):
            await outbox.deliveries.send_test(endpoint, "payment.created")


async def test_a_test_event_is_signed_sent_once_and_says_how_it_ended(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test", always(Does(status=500, body=b"no")))
        endpoint, secret = await outbox.register("a.test", events=("payment.created",))
        result = await outbox.deliveries.send_test(endpoint, "payment.settled")
        await outbox.advance(40 * HOUR_S)

        assert (result.end.status, result.end.error_class, result.end.body) == (500, "http_status", b"no")
        [received] = receiver.received
        assert verifies(secret, received)
        assert b'"live":false' in received.body
        assert b'"type":"payment.settled"' in received.body
        [row] = outbox.rows()
        assert (row.id, row.state, row.attempts) == (result.delivery_id, "failed", 1)
        assert realm_db.point(get_endpoint, ACCOUNT).failing_since_ms is None


async def run_job(outbox: Outbox, kind: str, since_ms: int, account_id: str = ACCOUNT) -> str:
    """Start a job as the API does; its id."""
    now_ms = outbox.clock.now_ms()
    job_id = new_id("job_", now_ms)
    await outbox.db.write(
        start_job,
        job_id=job_id,
        account_id=account_id,
        kind="recover" if kind == "recover" else "replay-missing",
        since_ms=since_ms,
        now_ms=now_ms,
    )
    outbox.deliveries.wake_jobs()
    return job_id


async def test_recover_sends_again_what_failed_for_good_since_then(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test", always(Does(status=500)))
        await outbox.register("a.test")
        await outbox.happen()
        await outbox.advance(29 * HOUR_S)
        since_ms = outbox.clock.now_ms()
        later = [await outbox.happen() for _ in range(3)]
        await outbox.advance(29 * HOUR_S)
        receiver.received.clear()
        receiver.script = always(Does())
        job_id = await run_job(outbox, "recover", since_ms)
        await outbox.drained()

        assert sorted(one.event for one in receiver.received) == sorted(later)
        job = realm_db.point(find_job, ACCOUNT, job_id)
        assert job is not None
        assert (job.state, job.matched, job.queued, job.done, job.failed) == ("done", 3, 3, 3, 0)
        assert [row.state for row in outbox.rows()].count("failed") == 1
        assert {outbox.log(row)[-1].trigger for row in outbox.rows()[1:]} == {"replay"}


async def test_replay_missing_sends_what_was_never_received(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        since_ms = outbox.clock.now_ms()
        receiver = outbox.host("a.test")
        before = await outbox.happen()
        await outbox.register("a.test")
        received = await outbox.happen()
        await outbox.drained()
        job_id = await run_job(outbox, "replay-missing", since_ms)
        await outbox.drained()

        assert [one.event for one in receiver.received] == [received, before]
        job = realm_db.point(find_job, ACCOUNT, job_id)
        assert job is not None
        assert (job.state, job.matched, job.done) == ("done", 1, 1)


async def test_replay_missing_finds_what_was_cancelled_while_the_endpoint_was_disabled(
    realm_db: Database,
) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test", always(Does(status=500)))
        endpoint, _ = await outbox.register("a.test")
        since_ms = outbox.clock.now_ms()
        pending = await outbox.happen()
        await outbox.drained()
        await outbox.switch("disable")
        missed = await outbox.happen()
        await outbox.switch("enable")
        receiver.received.clear()
        receiver.script = always(Does())
        outbox.deliveries.wake(endpoint.id)
        await run_job(outbox, "replay-missing", since_ms)
        await outbox.drained()

        assert {one.event for one in receiver.received} == {pending, missed}


async def test_a_long_job_keeps_no_other_accounts_job_waiting(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        outbox.host("long.test")
        short = outbox.host("short.test")
        since_ms = outbox.clock.now_ms()
        for _ in range(10 * BATCH_ROWS_MAX):
            await outbox.happen(account_id="acct_long")
        event = await outbox.happen(account_id="acct_short")
        for account_id, host in (("acct_long", "long.test"), ("acct_short", "short.test")):
            await outbox.register(host, account_id)
        long_id = await run_job(outbox, "replay-missing", since_ms, "acct_long")
        await run_job(outbox, "replay-missing", since_ms, "acct_short")
        await short.count(1)

        job = realm_db.point(find_job, "acct_long", long_id)
        assert job is not None
        assert job.queued < 10 * BATCH_ROWS_MAX
        assert [one.event for one in short.received] == [event]
        await outbox.drained()
        job = realm_db.point(find_job, "acct_long", long_id)
        assert job is not None
        assert (job.state, job.done) == ("done", 10 * BATCH_ROWS_MAX)


async def test_a_job_that_a_crash_interrupted_is_finished_and_sends_nothing_twice(
    realm_db: Database,
) -> None:
    async with trio.open_nursery() as house:
        receiver = Receiver(house, always(Does(delay_s=0.1)))
        hosts: dict[str, Receiver] = {}
        async with trio.open_nursery() as nursery:
            outbox = make_outbox(realm_db, nursery, hosts=hosts)
            since_ms = outbox.clock.now_ms()
            events = [await outbox.happen() for _ in range(350)]
            hosts["a.test"] = receiver
            await outbox.register("a.test")
            await nursery.start(outbox.deliveries.run)
            job_id = await run_job(outbox, "replay-missing", since_ms)
            await receiver.count(5)
            nursery.cancel_scope.cancel()
        async with trio.open_nursery() as nursery:
            again = make_outbox(realm_db, nursery, hosts=hosts, clock=outbox.clock)
            await nursery.start(again.deliveries.run)
            await trio.testing.wait_all_tasks_blocked()
            await again.drained()
            nursery.cancel_scope.cancel()

        job = realm_db.point(find_job, ACCOUNT, job_id)
        assert job is not None
        assert (job.state, job.matched, job.done) == ("done", 350, 350)
        assert {one.event for one in receiver.received} == set(events)
        assert len(receiver.received) <= 350 + 10
        house.cancel_scope.cancel()
