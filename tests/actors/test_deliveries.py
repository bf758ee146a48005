"""Deliveries as receivers see them: on schedule, signed, isolated, and never lost."""

from __future__ import annotations

import errno
import os
import socket
from itertools import pairwise

import pytest
import trio
from standardwebhooks import Webhook, WebhookVerificationError

from payd.actors.lane import TURNS
from payd.clock import Clock
from payd.core.endpoint import DISABLE_AFTER_MS
from payd.core.errors import InvalidParams, NotFound
from payd.store.db import Database, Tx
from payd.store.endpoints import delete_endpoint, get_endpoint
from payd.store.events import get_event
from payd.store.webhook_jobs import running_jobs, start_job
from tests.outbox import ACCOUNT, make_outbox, open_outbox, verifies
from tests.receiver import Does, Received, Receiver, always, in_turn

HOUR_S = 3600
GAPS_S = [5, 5 * 60, 30 * 60, 2 * HOUR_S, 5 * HOUR_S, 10 * HOUR_S, 10 * HOUR_S]


def gaps_s(received: list[Received], answer_s: float = 0) -> list[float]:
    """Seconds from the end of one attempt to the start of the next."""
    return [b.at_s - a.at_s - answer_s for a, b in pairwise(received)]


async def test_an_event_is_posted_at_once_with_its_frozen_bytes(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test")
        await outbox.register("a.test")
        event_id = await outbox.happen()
        [received] = await receiver.count(1)
        await outbox.drained()

        event = realm_db.point(get_event, ACCOUNT, event_id)
        assert event is not None
        assert received.body == event.body
        assert (received.method, received.path) == ("POST", "/hook")
        assert received.headers["content-type"] == "application/json"
        [row] = outbox.rows()
        assert (row.state, row.attempts, row.last_status, row.next_at_ms) == ("succeeded", 1, 200, None)


async def test_a_receiver_that_never_succeeds_gets_eight_attempts_on_schedule(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test", always(Does(status=500)))
        await outbox.register("a.test")
        await outbox.happen()
        await trio.sleep(40 * HOUR_S)

        assert gaps_s(receiver.received) == pytest.approx(GAPS_S, abs=0.01)
        assert all(got >= want for got, want in zip(gaps_s(receiver.received), GAPS_S, strict=True))
        assert len({one.headers["webhook-id"] for one in receiver.received}) == 1
        assert len({one.body for one in receiver.received}) == 1
        [row] = outbox.rows()
        assert (row.state, row.attempts, row.next_at_ms) == ("failed", 8, None)
        assert [one.n for one in outbox.log(row)] == [1, 2, 3, 4, 5, 6, 7, 8]


async def test_a_receiver_that_never_answers_is_left_after_fifteen_seconds_each_time(
    realm_db: Database,
) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test", always(Does(hangs=True)))
        await outbox.register("a.test")
        await outbox.happen()
        await trio.sleep(40 * HOUR_S)

        assert gaps_s(receiver.received, 15) == pytest.approx(GAPS_S, abs=0.01)
        [row] = outbox.rows()
        assert row.state == "failed"
        assert {one.error_class for one in outbox.log(row)} == {"timeout_response"}
        assert {one.duration_ms for one in outbox.log(row)} == {15_000}


async def test_an_answer_in_the_fifteenth_second_is_a_success(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        outbox.host("a.test", always(Does(delay_s=14.9)))
        await outbox.register("a.test")
        await outbox.happen()
        await outbox.drained()

        assert [row.state for row in outbox.rows()] == ["succeeded"]


async def test_a_redirect_is_a_failure_and_is_not_followed(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        outbox.host("a.test", always(Does(status=307, headers=(("location", "http://b.test/hook"),))))
        elsewhere = outbox.host("b.test")
        await outbox.register("a.test")
        await outbox.happen()
        await outbox.drained()

        [row] = outbox.rows()
        assert (row.state, row.last_status) == ("pending", 307)
        assert [one.error_class for one in outbox.log(row)] == ["redirect"]
        assert elsewhere.received == []


async def test_retry_after_lengthens_a_step_by_ten_minutes_at_most(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        patience = Does(status=503, headers=(("retry-after", "3600"),))
        receiver = outbox.host("a.test", in_turn(patience, Does()))
        await outbox.register("a.test")
        await outbox.happen()
        await receiver.count(2)

        assert gaps_s(receiver.received) == pytest.approx([605], abs=0.01)


async def test_an_unwanted_type_is_not_owed(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test")
        await outbox.register("a.test", events=("payment.succeeded",))
        await outbox.happen("payment.created")
        await outbox.happen("payment.succeeded")
        await outbox.drained()

        assert [row.event_type for row in outbox.rows()] == ["payment.succeeded"]
        assert len(receiver.received) == 1


@pytest.mark.real_time
async def test_standardwebhooks_accepts_every_delivery_during_a_rotation(realm_db: Database) -> None:
    async with open_outbox(realm_db, clock=Clock()) as outbox:
        receiver = outbox.host("a.test")
        endpoint, old = await outbox.register("a.test")
        await outbox.happen()
        await receiver.count(1)
        new = await outbox.rotate(endpoint.id)
        await outbox.happen()
        before, during = await receiver.count(2)

        assert Webhook(old).verify(before.body, before.headers)["type"] == "payment.created"
        assert Webhook(old).verify(during.body, during.headers)
        assert Webhook(new).verify(during.body, during.headers)
        with pytest.raises(WebhookVerificationError):
            Webhook(new).verify(before.body, before.headers)


async def test_both_secrets_sign_for_a_day_after_a_rotation_and_then_one(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test")
        endpoint, old = await outbox.register("a.test")
        new = await outbox.rotate(endpoint.id)
        await trio.sleep(24 * HOUR_S - 1)
        await outbox.happen()
        await trio.sleep(2)
        await outbox.happen()
        during, after = await receiver.count(2)

        assert verifies(new, during)
        assert verifies(old, during)
        assert verifies(new, after)
        assert not verifies(old, after)
        assert during.headers["webhook-signature"].count("v1,") == 2


async def test_a_hanging_receiver_does_not_delay_another_endpoint(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        outbox.host("tarpit.test", always(Does(hangs=True)))
        healthy = outbox.host("healthy.test")
        await outbox.register("tarpit.test", "acct_2")
        await outbox.register("healthy.test")
        for _ in range(50):
            await outbox.happen(account_id="acct_2")
        started_s = trio.current_time()
        for _ in range(50):
            await outbox.happen()
        await healthy.count(50)

        assert trio.current_time() - started_s < 1


async def test_an_endpoint_gets_ten_requests_at_once_and_no_more(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test", always(Does(delay_s=1)))
        await outbox.register("a.test")
        for _ in range(35):
            await outbox.happen()
        await receiver.count(35)

        assert receiver.most_open == 10


async def test_after_three_timeouts_it_is_one_request_at_a_time_until_a_success(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test", always(Does(hangs=True)))
        await outbox.register("a.test")
        for _ in range(40):
            await outbox.happen()
        await trio.sleep(14)
        assert receiver.open == 10
        await trio.sleep(20)
        assert receiver.open == 1
        receiver.script = always(Does(delay_s=1))
        receiver.most_open = 0
        await trio.sleep(60)

        assert receiver.most_open == 10
        assert {row.state for row in outbox.rows()} == {"succeeded"}


async def test_fresh_events_go_before_all_retries_but_those_whose_turn_it_is(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test", always(Does(status=500)))
        await outbox.register("a.test")
        old = [await outbox.happen() for _ in range(30)]
        await receiver.count(30)
        await outbox.drained()
        receiver.received.clear()
        receiver.script = always(Does(delay_s=1))
        await trio.sleep(4.99)
        fresh = [await outbox.happen() for _ in range(30)]
        await receiver.count(60)

        order = [one.event for one in receiver.received]
        assert len(set(order[:30]) & set(fresh)) >= 30 - 30 / len(TURNS)
        assert sorted(order) == sorted(fresh + old)


async def test_the_next_event_of_a_payment_waits_for_the_first_attempt_of_the_one_before(
    realm_db: Database,
) -> None:
    async with open_outbox(realm_db) as outbox:
        answer = trio.Event()
        receiver = outbox.host("a.test", in_turn(Does(until=answer, status=500), Does()))
        await outbox.register("a.test")
        first = await outbox.happen(payment_id="pay_t1")
        await receiver.count(1)
        second = await outbox.happen("payment.processing", payment_id="pay_t1")
        other = await outbox.happen(payment_id="pay_t2")
        await receiver.count(2)
        await trio.sleep(1)
        assert [one.event for one in receiver.received] == [first, other]
        answer.set()
        await receiver.count(3)
        assert receiver.received[2].event == second
        await receiver.count(4)

        assert receiver.received[3].event == first


async def test_what_was_in_flight_in_a_crash_is_sent_again_with_the_same_ids_and_budget(
    realm_db: Database,
) -> None:
    async with trio.open_nursery() as house:
        receiver = Receiver(house, in_turn(Does(hangs=True), Does(status=500)))
        hosts = {"a.test": receiver}
        async with trio.open_nursery() as nursery:
            outbox = make_outbox(realm_db, nursery, hosts=hosts)
            await nursery.start(outbox.deliveries.run)
            await outbox.register("a.test")
            await outbox.happen()
            await receiver.count(1)
            nursery.cancel_scope.cancel()
        async with trio.open_nursery() as nursery:
            again = make_outbox(realm_db, nursery, hosts=hosts, clock=outbox.clock)
            await nursery.start(again.deliveries.run)
            await trio.sleep(40 * HOUR_S)
            nursery.cancel_scope.cancel()

        assert len(receiver.received) == 1 + 8
        assert len({one.headers["webhook-id"] for one in receiver.received}) == 1
        house.cancel_scope.cancel()


async def test_stop_lets_what_is_in_flight_end_and_starts_nothing_more(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test", always(Does(delay_s=10)))
        await outbox.register("a.test")
        for _ in range(20):
            await outbox.happen()
        await receiver.count(10)
        started_s = trio.current_time()
        await outbox.deliveries.stop()

        assert trio.current_time() - started_s == pytest.approx(10, abs=0.1)
        assert [row.state for row in outbox.rows()].count("succeeded") == 10
        assert len(receiver.received) == 10


async def test_an_endpoint_that_fails_for_five_days_is_disabled_and_owed_nothing_more(
    realm_db: Database,
) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test", always(Does(status=500)))
        await outbox.register("a.test")
        for _ in range(11):
            await outbox.happen()
            await outbox.advance(12 * HOUR_S)
        endpoint = realm_db.point(get_endpoint, ACCOUNT)

        assert endpoint.state == "disabled"
        assert endpoint.failing_since_ms is not None
        assert endpoint.last_failure_at_ms is not None
        assert endpoint.last_failure_at_ms - endpoint.failing_since_ms >= DISABLE_AFTER_MS
        assert "pending" not in {row.state for row in outbox.rows()}
        assert "cancelled" in {row.state for row in outbox.rows()}
        owed, seen = len(outbox.rows()), len(receiver.received)
        await outbox.happen()
        await outbox.advance(12 * HOUR_S)
        assert (len(outbox.rows()), len(receiver.received)) == (owed, seen)


async def test_one_success_in_between_keeps_an_endpoint_enabled(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test", always(Does(status=500)))
        await outbox.register("a.test")
        for day in range(14):
            receiver.script = always(Does(status=200 if day == 6 else 500))
            await outbox.happen()
            await outbox.advance(12 * HOUR_S)

        assert realm_db.point(get_endpoint, ACCOUNT).state == "enabled"


async def test_a_disabled_endpoint_that_is_owed_much_is_swept_to_the_last_row(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        outbox.host("a.test", always(Does(hangs=True)))
        endpoint, _ = await outbox.register("a.test")
        for _ in range(1100):
            await outbox.happen()
        await outbox.switch("disable")
        outbox.deliveries.wake(endpoint.id)
        await outbox.drained()

        assert {row.state for row in outbox.rows()} == {"cancelled"}
        assert outbox.deliveries.next_due_ms() is None


async def test_deleting_an_endpoint_cancels_what_is_in_flight(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test", always(Does(hangs=True)))
        endpoint, _ = await outbox.register("a.test")
        await outbox.happen()
        await receiver.count(1)
        await realm_db.write(delete_endpoint, account_id=ACCOUNT, now_ms=outbox.clock.now_ms(), actor="test")
        outbox.deliveries.drop(endpoint.id)
        started_s = trio.current_time()
        await outbox.drained()

        assert trio.current_time() - started_s < 1
        assert [row.state for row in outbox.rows()] == ["cancelled"]
        with pytest.raises(NotFound):
            realm_db.point(get_endpoint, ACCOUNT)


async def test_what_breaks_on_our_side_is_put_off_and_harms_no_other_endpoint(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test")
        healthy = outbox.host("b.test")
        await outbox.register("a.test", "acct_2")
        await outbox.register("b.test")

        def spoil(tx: Tx) -> None:
            tx.execute("UPDATE endpoint_secrets SET sealed = x'00' WHERE seq = 1")

        await realm_db.write(spoil)
        await outbox.happen(account_id="acct_2")
        await outbox.happen()
        await trio.sleep(60)

        assert len(healthy.received) == 1
        assert receiver.received == []
        [row] = outbox.rows("acct_2")
        assert (row.state, row.attempts) == ("pending", 0)


async def test_a_host_with_a_private_address_is_refused_with_the_key_to_set(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        with pytest.raises(InvalidParams, match=r"allow_networks in \[webhooks\.test\]"):
            await outbox.deliveries.check_address("https://127.0.0.1/hook")


async def test_without_a_socket_to_ask_with_a_host_passes_until_it_is_called(
    realm_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> socket.socket:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async with open_outbox(realm_db) as outbox:
        monkeypatch.setattr(socket, "socket", refuse)
        await outbox.deliveries.check_address("https://8.8.8.8/hook")
        with pytest.raises(InvalidParams, match="not public"):
            await outbox.deliveries.check_address("https://127.0.0.1/hook")


async def test_a_job_whose_wake_up_was_missed_is_found(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        await outbox.register("a.test")
        now_ms = outbox.clock.now_ms()
        await realm_db.write(
            start_job, job_id="job_1", account_id=ACCOUNT, kind="recover", since_ms=now_ms, now_ms=now_ms
        )
        await trio.sleep(31)

        assert realm_db.point(running_jobs) == []
