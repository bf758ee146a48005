"""Deliveries, their logs and replay jobs, as a client of the API sees them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio

from payd.actors.deliveries import BY_HAND_MAX
from payd.actors.feed import Listener
from payd.core.advice import advice
from payd.core.event import iso_ms
from payd.store.attempts import AttemptRow, attempts_of
from payd.store.db import Tx
from payd.store.events import get_event
from payd.store.webhook_jobs import running_jobs
from tests.receiver import Does, always
from tests.shop import Got
from tests.web.hooked import ENDPOINT, Hooked, open_hooked


async def delivered(hooked: Hooked) -> dict[str, Any]:
    """The first delivery of a fresh endpoint, once it has arrived, as the list shows it."""
    await hooked.register()
    await hooked.shop.pay()
    await hooked.drained()
    [row] = await hooked.deliveries()
    return row


async def test_a_payment_is_told_of_and_its_delivery_is_in_the_log(tmp_path: Path) -> None:
    async with open_hooked(tmp_path, always(Does(status=500, body=b"caf\xc3\xa9 \xff"))) as hooked:
        await hooked.register()
        payment_id = await hooked.shop.pay()
        await hooked.drained()
        [row] = await hooked.deliveries()
        detail = (await hooked.shop.call("GET", f"/v1/webhooks/deliveries/{row['id']}")).body

        assert row["id"].startswith("dlv_")
        assert row["eventId"].startswith("evt_")
        assert (row["eventType"], row["paymentId"]) == ("payment.created", payment_id)
        assert (row["state"], row["attempts"], row["lastStatus"]) == ("pending", 1, 500)
        assert row["nextAttemptAt"] > row["createdAt"]
        assert set(row) == set(
            [
                "id",
                "messageId",
                "endpointState",
                "eventId",
                "eventType",
                "paymentId",
                "state",
                "reason",
                "attempts",
                "lastStatus",
                "nextAttemptAt",
                "createdAt",
            ]
        )
        assert detail == {**row, "attemptLog": detail["attemptLog"]}
        [attempt] = detail["attemptLog"]
        assert attempt == {
            "n": 1,
            "trigger": "auto",
            "at": attempt["at"],
            "status": 500,
            "errorClass": "http_status",
            "error": None,
            "advice": advice(500, "http_status"),
            "durationMs": 0,
            "timing": {"dnsMs": 0, "connectMs": 0, "tlsMs": None, "totalMs": 0},
            "remoteIp": "93.184.216.34",
            "retryAfterS": None,
            "nextAttemptAt": row["nextAttemptAt"],
            "headers": "content-length: 7\r\n",
            "body": "café \ufffd",
            "truncated": False,
            "fault": None,
        }


async def test_a_delivery_and_its_log_are_of_one_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_hooked(tmp_path, always(Does(status=500))) as hooked:
        row = await delivered(hooked)

        def a_little_later(tx: Tx, delivery_id: str) -> list[AttemptRow]:
            with closing(sqlite3.connect(tmp_path / "test.db")) as other, other:
                other.execute(
                    "INSERT INTO attempts (delivery_id, n, trigger, at_ms, duration_ms, body, truncated)"
                    " SELECT delivery_id, n + 1, trigger, at_ms, duration_ms, body, truncated FROM attempts"
                )
            return attempts_of(tx, delivery_id)

        monkeypatch.setattr("payd.web.deliveries.attempts_of", a_little_later)
        detail = (await hooked.shop.call("GET", f"/v1/webhooks/deliveries/{row['id']}")).body
        assert (detail["attempts"], len(detail["attemptLog"])) == (1, 1)

        monkeypatch.undo()
        detail = (await hooked.shop.call("GET", f"/v1/webhooks/deliveries/{row['id']}")).body
        assert (detail["attempts"], len(detail["attemptLog"])) == (2, 2)


async def test_deliveries_are_filtered_and_paged(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        payments = [await hooked.shop.pay() for _ in range(5)]
        await hooked.drained()
        seen: list[str] = []
        cursor = ""
        while True:
            page = (await hooked.shop.call("GET", f"/v1/webhooks/deliveries?limit=2{cursor}")).body
            seen += [row["paymentId"] for row in page["data"]]
            if page["nextCursor"] is None:
                break
            cursor = f"&cursor={page['nextCursor']}"

        assert seen == payments[::-1]
        assert [row["paymentId"] for row in await hooked.deliveries(f"?paymentId={payments[2]}")] == [
            payments[2]
        ]
        assert len(await hooked.deliveries("?state=succeeded")) == 5
        assert await hooked.deliveries("?state=failed") == []
        for query in ("state=lost", "limit=0", "limit=101", "limit=x", "cursor=x", "cursor=WyJhIl0"):
            refused = await hooked.shop.call("GET", f"/v1/webhooks/deliveries?{query}")
            assert (query, refused.status, refused.code) == (query, 400, "invalid_params")


async def test_a_delivery_of_another_account_is_not_found(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        row = await delivered(hooked)
        path = f"/v1/webhooks/deliveries/{row['id']}"
        answers = [
            await hooked.shop.call("GET", path, key=hooked.shop.other_key),
            await hooked.shop.call("POST", f"{path}/resend", key=hooked.shop.other_key),
        ]

        assert [(one.status, one.code) for one in answers] == [(404, "not_found")] * 2
        assert (await hooked.shop.call("GET", "/v1/webhooks/deliveries", key=hooked.shop.other_key)).body == {
            "data": [],
            "nextCursor": None,
        }


async def test_a_delivery_is_shown_and_sent_again_by_what_its_receiver_knows_of_it(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        row = await delivered(hooked)
        [arrived] = hooked.receiver.received
        assert row["messageId"] == arrived.headers["webhook-id"]
        for name in (row["messageId"], row["eventId"]):
            path = f"/v1/webhooks/deliveries/{name}"
            assert (await hooked.shop.call("GET", path)).body["id"] == row["id"]
            sent = await hooked.shop.call("POST", f"{path}/resend")
            assert (sent.status, sent.body["id"]) == (200, row["id"])
            stranger = await hooked.shop.call("GET", path, key=hooked.shop.other_key)
            assert (stranger.status, stranger.code) == (404, "not_found")
        assert {each.headers["webhook-id"] for each in hooked.receiver.received} == {row["messageId"]}


async def test_a_test_is_not_sent_again_and_says_what_sends_another(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        tested = await hooked.shop.call("POST", f"{ENDPOINT}/test", {"type": "payment.settled"})
        path = f"/v1/webhooks/deliveries/{tested.body['deliveryId']}"
        refused = await hooked.shop.call("POST", f"{path}/resend")
        assert (refused.status, refused.code) == (404, "not_found")
        assert "Tests are not sent again; POST /v1/webhooks/endpoint/test" in refused.body["message"]
        assert len(hooked.receiver.received) == 1


async def test_a_delivery_says_that_its_endpoint_is_on_hold(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        await hooked.shop.call("POST", f"{ENDPOINT}/pause")
        await hooked.shop.pay()
        [row] = await hooked.deliveries()
        assert (row["state"], row["endpointState"]) == ("pending", "paused")
        await hooked.shop.call("DELETE", ENDPOINT)
        [row] = await hooked.deliveries()
        assert (row["state"], row["endpointState"]) == ("cancelled", "deleted")


async def test_a_resend_answers_with_the_delivery_after_it(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        row = await delivered(hooked)
        sent = await hooked.shop.call("POST", f"/v1/webhooks/deliveries/{row['id']}/resend")

        assert (sent.status, sent.body["state"], sent.body["attempts"]) == (200, "succeeded", 2)
        assert [one["trigger"] for one in sent.body["attemptLog"]] == ["auto", "manual"]


async def test_recover_sends_again_what_failed_for_good(tmp_path: Path) -> None:
    async with open_hooked(tmp_path, always(Does(status=500))) as hooked:
        await hooked.register(events=["payment.created"])
        since = hooked.shop.realm.clock.now_ms() // 1000
        await hooked.shop.pay()
        await hooked.advance(30 * 3600)
        assert [row["state"] for row in await hooked.deliveries()] == ["failed"]
        hooked.receiver.script = always(Does())
        job = await hooked.job("recover", since)

        assert (job["state"], job["matched"], job["queued"], job["done"]) == ("done", 1, 1, 1)
        assert [row["state"] for row in await hooked.deliveries()] == ["succeeded"]


async def test_a_replay_reaches_back_fourteen_days_and_five_minutes_of_grace(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        await hooked.advance(20 * 24 * 3600)
        now_s = hooked.shop.realm.clock.now_ms() // 1000
        reach_s = 14 * 24 * 3600
        sinces = [
            now_s - reach_s - 200,
            now_s - reach_s - 301,
            now_s + 60,
            "yesterday",
            "2026-05-18",
            True,
            None,
        ]
        answers = [
            await hooked.shop.call("POST", "/v1/webhooks/recover", {"since": since}) for since in sinces
        ]

        assert [one.status for one in answers] == [202, 400, 400, 400, 400, 400, 400]
        assert [one.code for one in answers[1:5]] == ["invalid_params"] * 4
        assert [one.code for one in answers[5:]] == ["params_validation"] * 2
        earliest = iso_ms((now_s - reach_s) * 1000)
        assert f"the test clock, which was moved, not before {earliest}" in answers[1].body["message"]
        assert "by the test clock, which was moved, it is" in answers[2].body["message"]


async def test_a_job_is_started_once_for_one_idempotency_key(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        since = iso_ms(hooked.shop.realm.clock.now_ms())
        jobs = [
            await hooked.shop.call("POST", "/v1/webhooks/recover", {"since": since}, idempotency_key="k1")
            for _ in range(2)
        ]

        assert jobs[0].raw == jobs[1].raw
        assert jobs[1].headers["idempotent-replayed"] == "true"


async def test_a_repeated_start_is_answered_also_once_its_time_has_aged_out_of_reach(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        await hooked.advance(20 * 24 * 3600)
        since = hooked.shop.realm.clock.now_ms() // 1000 - 14 * 24 * 3600

        async def start(key: str) -> Got:
            return await hooked.shop.call(
                "POST", "/v1/webhooks/recover", {"since": since}, idempotency_key=key
            )

        first = await start("k1")
        await hooked.advance(3600)
        again, other = await start("k1"), await start("k2")

        assert (first.status, again.raw) == (202, first.raw)
        assert (other.status, other.code) == (400, "invalid_params")


async def test_a_client_that_leaves_does_not_take_its_job_along(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        since = iso_ms(hooked.shop.realm.clock.now_ms())
        await hooked.shop.leave("POST", "/v1/webhooks/recover", {"since": since})
        await trio.sleep(1)

        assert hooked.shop.realm.db.point(running_jobs) == []


async def test_a_resend_is_told_to_the_accounts_listeners_and_to_nobody_else(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        shop = hooked.shop
        row = await delivered(hooked)
        mine, other = Listener(lambda: None), Listener(lambda: None)
        shop.realm.account_feed.subscribe(shop.account_id, mine)
        shop.realm.account_feed.subscribe("acct_other", other)
        path = f"/v1/webhooks/deliveries/{row['id']}/resend"
        assert (await shop.call("POST", path, key=shop.other_key)).status == 404
        assert mine.take_resends(10) == [], "refused"

        assert (await shop.call("POST", path)).status == 200

        event = shop.realm.db.point(get_event, shop.account_id, row["eventId"])
        assert event is not None
        assert (mine.take_resends(10), other.take_resends(10)) == ([event.seq], [])


def audited(hooked: Hooked) -> list[str]:
    """The sends by hand that were asked for."""
    query = "SELECT act FROM audit WHERE act IN ('webhook.resend', 'webhook.test') ORDER BY seq"
    return hooked.shop.realm.db.point(lambda tx: [act for (act,) in tx.execute(query)])


async def test_a_send_by_hand_that_is_one_too_many_is_not_audited(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked, trio.open_nursery() as nursery:
        shop = hooked.shop
        row = await delivered(hooked)
        again, test = (
            f"/v1/webhooks/deliveries/{row['id']}/resend",
            (f"{ENDPOINT}/test", {"type": "payment.created"}),
        )
        hooked.receiver.script = always(Does(hangs=True))
        for _ in range(BY_HAND_MAX):
            nursery.start_soon(shop.call, "POST", *test)
        await hooked.receiver.count(1 + BY_HAND_MAX)
        refused = [await shop.call("POST", again), await shop.call("POST", *test)]

        assert [one.status for one in refused] == [429, 429]
        assert audited(hooked) == ["webhook.test"] * BY_HAND_MAX
        nursery.cancel_scope.cancel()


async def test_a_send_by_hand_whose_client_leaves_is_audited_and_made(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        shop = hooked.shop
        row = await delivered(hooked)
        mine = Listener(lambda: None)
        shop.realm.account_feed.subscribe(shop.account_id, mine)
        await shop.leave("POST", f"/v1/webhooks/deliveries/{row['id']}/resend")
        await hooked.drained()
        assert (audited(hooked), len(hooked.receiver.received)) == (["webhook.resend"], 2)
        assert len(mine.take_resends(10)) == 1

        await shop.leave("POST", f"{ENDPOINT}/test", {"type": "payment.created"})
        await hooked.drained()
        assert (audited(hooked), len(hooked.receiver.received)) == (["webhook.resend", "webhook.test"], 3)


async def test_a_send_by_hand_that_cannot_be_audited_is_not_made(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        shop = hooked.shop
        row = await delivered(hooked)
        await shop.realm.db.write(lambda tx: tx.execute("ALTER TABLE audit RENAME TO gone"))
        asked = [
            await shop.call("POST", f"/v1/webhooks/deliveries/{row['id']}/resend"),
            await shop.call("POST", f"{ENDPOINT}/test", {"type": "payment.created"}),
        ]

        assert [one.status for one in asked] == [500, 500]
        assert len(hooked.receiver.received) == 1


async def test_a_resend_is_made_once_for_one_idempotency_key(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        row = await delivered(hooked)
        path = f"/v1/webhooks/deliveries/{row['id']}/resend"
        hooked.receiver.script = always(Does(status=500, delay_s=5))
        answers: list[Got] = []

        async def one() -> None:
            answers.append(await hooked.shop.call("POST", path, idempotency_key="k"))

        with trio.move_on_after(1):
            await one()  # leaves
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(one)
        await hooked.shop.call("POST", f"{ENDPOINT}/disable")
        await one()
        other = await hooked.shop.call("POST", path, idempotency_key="other")
        long = await hooked.shop.call("POST", path, idempotency_key="k" * 256)
        stranger = await hooked.shop.call("POST", path, key=hooked.shop.other_key, idempotency_key="k")

        assert {(one.status, one.raw) for one in answers} == {(200, answers[0].raw)}
        assert {one.headers["idempotent-replayed"] for one in answers} == {"true"}
        assert [one["trigger"] for one in answers[0].body["attemptLog"]] == ["auto", "manual"]
        assert (len(hooked.receiver.received), audited(hooked)) == (2, ["webhook.resend"])
        assert [one.code for one in (other, long, stranger)] == [
            "endpoint_disabled",
            "invalid_params",
            "not_found",
        ]


async def test_a_resend_that_was_made_and_not_logged_is_made_again_under_its_key(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        row = await delivered(hooked)
        path = f"/v1/webhooks/deliveries/{row['id']}/resend"
        async with hooked.shop.after_writes(1):
            lost = await hooked.shop.call("POST", path, idempotency_key="k")
        again = await hooked.shop.call("POST", path, idempotency_key="k")

        assert (lost.status, again.status) == (503, 200)
        assert "idempotent-replayed" not in again.headers
        assert [one["trigger"] for one in again.body["attemptLog"]] == ["auto", "manual"]
        assert {one.headers["webhook-id"] for one in hooked.receiver.received} == {row["messageId"]}
        assert (len(hooked.receiver.received), audited(hooked)) == (3, ["webhook.resend"] * 2)


async def fail_for_good(hooked: Hooked, payments: int) -> str:
    """Payments whose events nobody took; since when."""
    since = iso_ms(hooked.shop.realm.clock.now_ms())
    for _ in range(payments):
        await hooked.shop.pay()
    await hooked.advance(30 * 3600)
    return since


async def test_a_preview_counts_what_a_job_would_send_and_starts_none(tmp_path: Path) -> None:
    async with open_hooked(tmp_path, always(Does(status=500))) as hooked:
        await hooked.register(events=["payment.created"])
        since = await fail_for_good(hooked, 3)
        before = len(hooked.receiver.received)
        seen = await hooked.shop.call("POST", "/v1/webhooks/recover", {"since": since, "preview": True})
        await hooked.drained()

        assert (seen.status, seen.body) == (200, {"kind": "recover", "since": since, "matched": 3})
        assert len(hooked.receiver.received) == before
        assert (await hooked.shop.call("GET", "/v1/webhooks/jobs")).body == {"data": []}
        none = await hooked.shop.call(
            "POST", "/v1/webhooks/replay-missing", {"since": since, "preview": True}
        )
        assert none.body["matched"] == 0


async def test_jobs_are_listed_newest_first(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        since = iso_ms(hooked.shop.realm.clock.now_ms())
        ids = [(await hooked.job("recover", since))["id"] for _ in range(2)]
        await hooked.advance(1)
        ids.append((await hooked.job("replay-missing", since))["id"])

        listed = (await hooked.shop.call("GET", "/v1/webhooks/jobs")).body["data"]
        assert listed[0]["id"] == ids[2]
        assert {job["id"] for job in listed} == set(ids)
        other = await hooked.shop.call("GET", "/v1/webhooks/jobs", key=hooked.shop.other_key)
        assert other.body == {"data": []}


async def test_a_cancelled_job_takes_back_what_was_not_sent_yet(tmp_path: Path) -> None:
    async with open_hooked(tmp_path, always(Does(status=500))) as hooked:
        await hooked.register(events=["payment.created"])
        since = await fail_for_good(hooked, 150)
        hooked.receiver.script = always(Does(hangs=True))
        started = await hooked.shop.call("POST", "/v1/webhooks/recover", {"since": since})
        await trio.sleep(1)
        path = f"/v1/webhooks/jobs/{started.body['id']}/cancel"
        stranger = await hooked.shop.call("POST", path, key=hooked.shop.other_key)
        cancelled = await hooked.shop.call("POST", path)
        await trio.sleep(60)
        rows = await hooked.deliveries("?limit=100")
        job = (await hooked.shop.call("GET", path.removesuffix("/cancel"))).body

        assert (stranger.status, stranger.code) == (404, "not_found")
        assert (cancelled.status, cancelled.body["state"], cancelled.body["matched"]) == (
            200,
            "cancelled",
            150,
        )
        assert {row["state"] for row in rows} == {"failed"}
        assert {row["reason"] for row in rows} == {"job_cancelled"}
        assert (job["state"], job["failed"], job["takenBack"]) == ("cancelled", 0, 150)
        again = await hooked.shop.call("POST", path)
        assert again.body == job

        hooked.receiver.script = always(Does())
        assert (await hooked.job("recover", since))["done"] == 150, "a later job finds them again"


async def test_a_cancelled_replay_leaves_its_events_missing(tmp_path: Path) -> None:
    async with open_hooked(tmp_path, always(Does(hangs=True))) as hooked:
        since = iso_ms(hooked.shop.realm.clock.now_ms())
        await hooked.shop.pay()
        await hooked.register()
        started = await hooked.shop.call("POST", "/v1/webhooks/replay-missing", {"since": since})
        await trio.sleep(1)
        await hooked.shop.call("POST", f"/v1/webhooks/jobs/{started.body['id']}/cancel")
        await trio.sleep(60)
        assert [row["state"] for row in await hooked.deliveries()] == ["cancelled"]
        hooked.receiver.script = always(Does())

        assert (await hooked.job("replay-missing", since))["done"] == 1


async def test_a_replay_to_a_paused_endpoint_is_refused_with_the_way_out(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        await hooked.shop.call("POST", f"{ENDPOINT}/pause")
        since = iso_ms(hooked.shop.realm.clock.now_ms())
        refused = await hooked.shop.call("POST", "/v1/webhooks/recover", {"since": since})
        assert (refused.status, refused.code) == (409, "endpoint_disabled")
        assert "endpoint/resume" in refused.body["message"]
