"""What comes of an attempt besides its delivery: the log, the notices, the numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from structlog.testing import capture_logs

from payd.actors.lane import IN_FLIGHT_MAX
from payd.core.endpoint import NOTIFY
from payd.core.signature import make_secret
from payd.store.attempts import AttemptEnd
from payd.store.bridge import bridge
from payd.store.db import Database, open_database
from payd.store.deliveries import list_deliveries
from payd.store.endpoints import delete_endpoint, put_house_endpoint
from tests.outbox import ACCOUNT, Outbox, open_outbox, verifies
from tests.receiver import Does, Receiver, always, in_turn

HOUR_S = 3600
# Nothing here takes a second; what hangs is red, not stuck.
PATIENCE_S = 20
NOTIFY_SECRET = make_secret(bytes(32))


async def listen_to_notices(outbox: Outbox, does: Does | None = None) -> Receiver:
    """Have notices sent to a receiver."""
    receiver = outbox.host("ops.test", always(does or Does()))
    sealed = outbox.seal.seal(NOTIFY_SECRET.encode(), NOTIFY)
    await outbox.db.write(put_house_endpoint, NOTIFY, "http://ops.test/alert", sealed, outbox.clock.now_ms())
    return receiver


async def fail_for(outbox: Outbox, hours: int) -> None:
    """An event every second hour, each of which fails."""
    for _ in range(hours // 2):
        await outbox.happen()
        await outbox.advance(2 * HOUR_S)


def kinds(receiver: Receiver) -> list[str]:
    return [msgspec.json.decode(received.body)["type"] for received in receiver.received]


async def test_the_operator_is_warned_three_times_and_told_when_it_is_disabled(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        outbox.host("a.test", always(Does(status=500)))
        notices = await listen_to_notices(outbox)
        await outbox.register("a.test")
        with capture_logs() as lines:
            await fail_for(outbox, 124)

        assert kinds(notices) == ["endpoint.warning"] * 3 + ["endpoint.disabled"]
        assert all(verifies(NOTIFY_SECRET, received) for received in notices.received)
        first = msgspec.json.decode(notices.received[0].body)
        assert first["text"].startswith("Webhooks to http://a.test/hook have failed for 24 hours")
        assert (first["data"]["account_id"], first["data"]["last_status"]) == (ACCOUNT, 500)
        told = [line for line in lines if line["event"].startswith("endpoint.")]
        assert [line["event"] for line in told] == ["endpoint.warning"] * 3 + ["endpoint.disabled"]
        assert {line["host"] for line in told} == {"a.test"}, "a path or a query may hold a secret"
        assert {line["log_level"] for line in told} == {"warning"}
        counted = outbox.deliveries.stats.notices
        assert (counted["warning"], counted["disabled"]) == (3, 1)


async def test_a_notice_is_retried_like_everything_that_is_owed(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        outbox.host("a.test", always(Does(status=500)))
        notices = await listen_to_notices(outbox, Does(status=503))
        await outbox.register("a.test")
        await fail_for(outbox, 26)
        await outbox.switch("disable")
        await outbox.advance(40 * HOUR_S)

        assert len(notices.received) == 8
        assert len({received.headers["webhook-id"] for received in notices.received}) == 1
        [row] = realm_db.point(lambda tx: list_deliveries(tx, NOTIFY, limit=10))
        assert (row.state, row.event_type) == ("failed", "endpoint.warning")


async def test_without_an_address_nothing_is_owed_and_the_log_says_it(
    realm_db: Database,
) -> None:
    async with open_outbox(realm_db) as outbox:
        outbox.host("a.test", always(Does(status=500)))
        await outbox.register("a.test")
        with capture_logs() as lines:
            await fail_for(outbox, 26)

        assert realm_db.point(lambda tx: list_deliveries(tx, NOTIFY, limit=10)) == []
        assert [line["event"] for line in lines if line["event"].startswith("endpoint.")] == [
            "endpoint.warning"
        ]


async def test_an_endpoint_that_recovers_is_told_of(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test", always(Does(status=500)))
        notices = await listen_to_notices(outbox)
        await outbox.register("a.test")
        await fail_for(outbox, 26)
        receiver.script = always(Does())
        await outbox.happen()
        await outbox.drained()

        assert kinds(notices) == ["endpoint.warning", "endpoint.recovered"]


async def test_each_attempt_is_one_line_with_its_place_in_the_schedule(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        outbox.host("a.test", always(Does(status=500, delay_s=2)))
        _, secret = await outbox.register("a.test")
        with capture_logs() as lines:
            await outbox.happen()
            await trio.sleep(10)

        attempts = [line for line in lines if line["event"] == "webhook.attempt"]
        [row] = outbox.rows()
        assert [(line["n"], line["of"], line["status"], line["state"]) for line in attempts] == [
            (1, 8, 500, "pending"),
            (2, 8, 500, "pending"),
        ]
        assert {line["delivery_id"] for line in attempts} == {row.id}
        assert {line["error_class"] for line in attempts} == {"http_status"}
        assert [line["duration_ms"] for line in attempts] == [2000, 2000]
        assert attempts[0]["next_at"] < attempts[1]["next_at"]
        assert secret not in str(lines)


async def test_the_log_keeps_what_the_receiver_said_and_what_the_time_went_to(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        answer = Does(
            status=503, headers=(("Retry-After", "60"), ("X-Why", "tired")), body=b"\xff" * 20_000, delay_s=1
        )
        outbox.host("a.test", always(answer))
        await outbox.register("a.test")
        await outbox.happen()
        await outbox.drained()

        [row] = outbox.rows()
        [attempt] = outbox.log(row)
        assert attempt.headers is not None
        assert b"x-why: tired\r\n" in attempt.headers
        assert (len(attempt.body), attempt.truncated) == (16 * 1024, True)
        assert attempt.retry_after_s == 60
        assert attempt.next_at_ms == row.next_at_ms == attempt.at_ms + 1000 + 60_000
        assert (attempt.dns_ms, attempt.connect_ms, attempt.tls_ms) == (0, 0, None)


async def test_headers_are_kept_to_a_whole_line_within_four_kibibytes(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        many = tuple((f"x-{number}", "v" * 1000) for number in range(10))
        outbox.host("a.test", always(Does(headers=many)))
        await outbox.register("a.test")
        await outbox.happen()
        await outbox.drained()

        [attempt] = outbox.log(outbox.rows()[0])
        assert attempt.headers is not None
        assert 3000 < len(attempt.headers) <= 4096
        assert attempt.headers.endswith(b"v" * 1000)


async def test_what_a_network_did_is_kept_in_words(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        await outbox.register("gone.test")
        await outbox.happen()
        await outbox.drained()

        [attempt] = outbox.log(outbox.rows()[0])
        assert (attempt.status, attempt.error_class, attempt.error) == (None, "dns_error", "gone.test")


async def test_a_request_that_a_deletion_cuts_off_is_in_the_log_and_not_in_the_budget(
    realm_db: Database,
) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test", always(Does(hangs=True)))
        endpoint, _ = await outbox.register("a.test")
        await outbox.happen()
        while not receiver.received:
            await trio.sleep(0.1)
        await realm_db.write(delete_endpoint, account_id=ACCOUNT, now_ms=outbox.clock.now_ms(), actor="test")
        outbox.deliveries.drop(endpoint.id)
        outbox.deliveries.wake(endpoint.id)
        await outbox.drained()

        [row] = outbox.rows()
        [attempt] = outbox.log(row)
        assert (row.state, row.reason) == ("cancelled", "endpoint_deleted")
        assert (attempt.error_class, attempt.status) == ("interrupted", None)
        assert realm_db.point(lambda tx: tx.execute("SELECT attempts FROM deliveries").fetchone()) == (0,)


async def test_an_answer_that_comes_as_a_deletion_cuts_it_off_counts(
    realm_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_outbox(realm_db) as outbox:
        outbox.host("a.test", always(Does()))
        endpoint, _ = await outbox.register("a.test")
        poster = outbox.deliveries._attempts._poster
        post = poster.post

        async def cut_off(*asked: Any) -> AttemptEnd:
            end = await post(*asked)
            with trio.CancelScope(shield=True):
                now_ms = outbox.clock.now_ms()
                await realm_db.write(delete_endpoint, account_id=ACCOUNT, now_ms=now_ms, actor="test")
            outbox.deliveries.drop(endpoint.id)
            return end

        monkeypatch.setattr(poster, "post", cut_off)
        await outbox.happen()
        await outbox.drained()

        [row] = outbox.rows()
        [attempt] = outbox.log(row)
        assert (row.state, row.reason) == ("succeeded", None)
        assert (attempt.error_class, attempt.status) == (None, 200)


async def test_attempts_are_counted_and_first_ones_by_their_delay(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        outbox.host("a.test", always(Does(status=500)))
        endpoint, _ = await outbox.register("a.test")
        await outbox.happen()
        await outbox.advance(6)
        await outbox.deliveries.send_test(endpoint, "payment.created")

        stats = outbox.deliveries.stats
        assert (stats.ok, stats.failed["http_status"]) == (0, 2)
        assert (stats.attempt_s.count, stats.first_attempt_s.count) == (2, 1)


@pytest.mark.parametrize("act", ["pause", "disable"])
async def test_an_endpoint_that_is_switched_off_while_it_fails_is_not_told_of(
    realm_db: Database, act: str
) -> None:
    async with open_outbox(realm_db) as outbox:
        outbox.host("a.test", always(Does(status=500)))
        notices = await listen_to_notices(outbox)
        await outbox.register("a.test")
        await fail_for(outbox, 4)
        await outbox.switch("pause" if act == "pause" else "disable")
        await outbox.advance(200 * HOUR_S)

        assert notices.received == []


async def test_a_slow_body_counts_in_the_whole_time_and_not_in_the_verdicts(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        outbox.host("a.test", always(Does(delay_s=1, drips=True)))
        await outbox.register("a.test")
        await outbox.happen()
        await outbox.drained()

        [attempt] = outbox.log(outbox.rows()[0])
        assert (attempt.status, attempt.duration_ms, attempt.total_ms) == (200, 1000, 3000)


@pytest.mark.real_time
async def test_answers_that_come_close_together_are_recorded_in_one_commit(tmp_path: Path) -> None:
    most, last = trio.Event(), trio.Event()
    script = in_turn(*[Does(until=most)] * (IN_FLIGHT_MAX - 1), Does(until=last))
    with bridge(), trio.fail_after(PATIENCE_S):
        async with open_database(tmp_path / "test.db", "realm") as db, open_outbox(db) as outbox:
            receiver = outbox.host("a.test", script)
            await outbox.register("a.test")
            for _ in range(IN_FLIGHT_MAX):
                await outbox.happen()
            await receiver.count(IN_FLIGHT_MAX)
            before, db._company_s = db.stats(), 3600
            most.set()
            await trio.testing.wait_all_tasks_blocked()
            last.set()
            await outbox.drained()

            after = db.stats()
            assert (after.steps - before.steps, after.commits - before.commits) == (IN_FLIGHT_MAX, 1)


@pytest.mark.real_time
async def test_an_answer_is_recorded_though_another_request_hangs(tmp_path: Path) -> None:
    hang = trio.Event()
    with bridge(), trio.fail_after(PATIENCE_S):
        async with open_database(tmp_path / "test.db", "realm") as db, open_outbox(db) as outbox:
            receiver = outbox.host("a.test", in_turn(Does(until=hang), Does()))
            await outbox.register("a.test")
            await outbox.happen()
            await receiver.count(1)
            await outbox.happen()
            while outbox.rows()[1].state != "succeeded":
                await trio.lowlevel.checkpoint()

            assert outbox.rows()[0].state == "pending"


@pytest.mark.real_time
async def test_the_next_are_sent_before_the_disk_has_what_was_taken(tmp_path: Path) -> None:
    most, last = trio.Event(), trio.Event()
    script = in_turn(*[Does(until=most)] * (IN_FLIGHT_MAX - 1), Does(until=last), *[Does()] * IN_FLIGHT_MAX)
    with bridge(), trio.fail_after(PATIENCE_S):
        async with open_database(tmp_path / "test.db", "realm") as db, open_outbox(db) as outbox:
            receiver = outbox.host("a.test", script)
            await outbox.register("a.test")
            for _ in range(2 * IN_FLIGHT_MAX):
                await outbox.happen()
            await receiver.count(IN_FLIGHT_MAX)
            db._company_s = 3600
            most.set()
            await receiver.count(2 * IN_FLIGHT_MAX)

            assert {row.state for row in outbox.rows()} == {"pending"}
            last.set()
            await outbox.drained()
            assert {row.state for row in outbox.rows()} == {"succeeded"}
