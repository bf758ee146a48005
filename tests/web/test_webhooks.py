"""The webhook endpoint, its deliveries and replay jobs, as a client of the API sees them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from payd.core.endpoint import EVENT_TYPES
from payd.core.event import iso_ms
from payd.net.dns import DnsFailed
from payd.store.webhook_jobs import running_jobs
from tests.outbox import advance
from tests.receiver import Does, Receiver, Script, always
from tests.shop import Got, Shop, open_shop

ENDPOINT = "/v1/webhooks/endpoint"
HOOK = "http://a.test/hook"


@dataclass
class Hooked:
    """A shop, and a receiver that every host name leads to."""

    shop: Shop
    receiver: Receiver

    async def register(self, **more: Any) -> dict[str, Any]:
        """Register the endpoint; the answer."""
        made = await self.shop.call("PUT", ENDPOINT, {"url": HOOK, **more})
        assert made.status == 200, made.body
        return dict(made.body)

    async def advance(self, seconds: float) -> None:
        """Move the clock, and let every delivery that falls due on the way happen in order."""
        await advance(self.shop.realm.deliveries, self.shop.realm.clock, seconds)

    async def drained(self) -> None:
        """Return when what is due now has had its attempt."""
        await self.shop.realm.deliveries.drained(self.shop.realm.clock.now_ms())

    async def deliveries(self, query: str = "") -> list[dict[str, Any]]:
        """One page of deliveries."""
        return list((await self.shop.call("GET", f"/v1/webhooks/deliveries{query}")).body["data"])

    async def job(self, kind: str, since: str | int) -> dict[str, Any]:
        """Run a job to its end; its last state."""
        started = await self.shop.call("POST", f"/v1/webhooks/{kind}", {"since": since})
        assert started.status == 202, started.body
        assert started.body["state"] == "running"
        await self.drained()
        return dict((await self.shop.call("GET", f"/v1/webhooks/jobs/{started.body['id']}")).body)


async def resolve(host: str) -> list[str]:
    """Every name is public but `inside.test`; `gone.test` is none."""
    await trio.lowlevel.checkpoint()
    if host == "gone.test":
        raise DnsFailed(host)
    if host[0].isdigit() or ":" in host:
        return [host]
    return ["93.184.216.34", "10.0.0.1"] if host == "inside.test" else ["93.184.216.34"]


@asynccontextmanager
async def open_hooked(
    folder: Path, script: Script | None = None, *, live: bool = False, allow_http: str = "true"
) -> AsyncIterator[Hooked]:
    opened = open_shop(folder, live=live, PAYD_WEBHOOKS_TEST_ALLOW_HTTP=allow_http)
    async with trio.open_nursery() as nursery, opened as shop:
        receiver = Receiver(nursery, script or always(Does()))
        for realm in shop.house.realms.values():
            realm.deliveries.http.resolve, realm.deliveries.http.dial = resolve, receiver.dial
        yield Hooked(shop, receiver)
        nursery.cancel_scope.cancel()


async def test_an_endpoint_is_registered_shown_and_changed(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        made = await hooked.register()
        shown = (await hooked.shop.call("GET", ENDPOINT)).body
        changed = await hooked.shop.call(
            "PUT", ENDPOINT, {"url": "http://b.test/x?y=1", "events": ["payment.settled", "payment.failed"]}
        )

        assert made["secret"].startswith("whsec_")
        assert made["events"] == list(EVENT_TYPES)
        assert (made["url"], made["state"], made["failingSince"]) == (HOOK, "enabled", None)
        assert shown == {name: value for name, value in made.items() if name != "secret"}
        assert changed.body["id"] == made["id"]
        assert changed.body["url"] == "http://b.test/x?y=1"
        assert changed.body["events"] == ["payment.settled", "payment.failed"]
        assert "secret" not in changed.body


async def test_without_an_endpoint_everything_about_it_is_not_found(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        calls: list[tuple[str, str, Any]] = [
            ("GET", ENDPOINT, None),
            ("DELETE", ENDPOINT, None),
            *(("POST", f"{ENDPOINT}/{act}", None) for act in ("rotate", "reveal", "enable", "disable")),
            ("POST", f"{ENDPOINT}/test", {"type": "payment.created"}),
            ("POST", "/v1/webhooks/recover", {"since": iso_ms(hooked.shop.realm.clock.now_ms())}),
            ("POST", "/v1/webhooks/replay-missing", {"since": iso_ms(hooked.shop.realm.clock.now_ms())}),
            ("GET", "/v1/webhooks/deliveries/dlv_1", None),
            ("POST", "/v1/webhooks/deliveries/dlv_1/resend", None),
            ("GET", "/v1/webhooks/jobs/job_1", None),
        ]
        for method, path, body in calls:
            found = await hooked.shop.call(method, path, body)
            assert (path, found.status, found.code) == (path, 404, "not_found")


REFUSED_URLS = [
    ("ftp://a.test/", "https"),
    ("https://user:pass@a.test/", "user name"),
    ("https://", "host"),
    ("https://a.test:0/", "port"),
    ("https://a.test\\@b.test/", "backslash"),
    ("https://127.0.0.1/hook", "allow_networks in [webhooks.test]"),
    ("https://[::1]/hook", "allow_networks in [webhooks.test]"),
    ("https://169.254.169.254/latest", "allow_networks in [webhooks.test]"),
    ("https://inside.test/hook", "allow_networks in [webhooks.test]"),
]


async def test_a_url_that_may_not_be_called_is_refused_with_words(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        for url, says in REFUSED_URLS:
            refused = await hooked.shop.call("PUT", ENDPOINT, {"url": url})
            assert (url, refused.status, refused.code) == (url, 400, "invalid_params")
            assert says in refused.body["message"]

        assert (await hooked.shop.call("GET", ENDPOINT)).status == 404


async def test_plain_http_is_refused_unless_the_test_realm_opens_it(tmp_path: Path) -> None:
    async with open_hooked(tmp_path, live=True, allow_http="false") as hooked:
        refused = await hooked.shop.call("PUT", ENDPOINT, {"url": HOOK})
        live = await hooked.shop.call("PUT", ENDPOINT, {"url": HOOK}, key=hooked.shop.keys["live.one"])

        assert (refused.status, refused.code) == (400, "invalid_params")
        assert "allow_http = true in [webhooks.test]" in refused.body["message"]
        assert (live.status, live.code) == (400, "invalid_params")
        assert "allow_http" not in live.body["message"]


async def test_a_name_that_does_not_resolve_now_is_asked_about_at_every_attempt(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        made = await hooked.shop.call("PUT", ENDPOINT, {"url": "http://gone.test/hook"})
        tested = await hooked.shop.call("POST", f"{ENDPOINT}/test", {"type": "payment.created"})

        assert made.status == 200
        assert (tested.status, tested.body["status"], tested.body["errorClass"]) == (200, None, "dns_error")


WRONG_BODIES: list[Any] = [
    {},
    {"url": 1},
    {"url": HOOK, "events": "payment.created"},
    {"url": HOOK, "events": []},
    {"url": HOOK, "events": ["payment.exploded"]},
    {"url": HOOK, "events": ["payment.failed", "payment.failed"]},
]


async def test_a_body_that_misses_the_schema_is_refused(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        for body in WRONG_BODIES:
            refused = await hooked.shop.call("PUT", ENDPOINT, body)
            assert (body, refused.status, refused.code) == (body, 400, "params_validation")
            assert refused.body["issues"]


async def test_realms_and_accounts_have_endpoints_of_their_own(tmp_path: Path) -> None:
    async with open_hooked(tmp_path, live=True) as hooked:
        await hooked.register()
        keys = (hooked.shop.other_key, hooked.shop.keys["live.one"])

        assert [(await hooked.shop.call("GET", ENDPOINT, key=key)).status for key in keys] == [404, 404]


async def test_the_secret_can_be_revealed_and_rotated_and_both_are_audited(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        made = await hooked.register()
        revealed = await hooked.shop.call("POST", f"{ENDPOINT}/reveal")
        rotated = await hooked.shop.call("POST", f"{ENDPOINT}/rotate")
        again = await hooked.shop.call("POST", f"{ENDPOINT}/reveal")

        assert revealed.body["secret"] == made["secret"]
        assert rotated.body["secret"] != made["secret"]
        assert again.body["secret"] == rotated.body["secret"]
        acts = hooked.shop.realm.db.point(
            lambda tx: [
                act for (act,) in tx.execute("SELECT act FROM audit WHERE act LIKE 'endpoint.%' ORDER BY seq")
            ]
        )
        assert acts == ["endpoint.register", "endpoint.reveal", "endpoint.rotate", "endpoint.reveal"]


async def test_six_secrets_at_once_are_too_many(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        answers = [await hooked.shop.call("POST", f"{ENDPOINT}/rotate") for _ in range(5)]
        await hooked.advance(24 * 3600 + 1)

        assert [one.status for one in answers] == [200, 200, 200, 200, 400]
        assert answers[-1].code == "invalid_state"
        assert (await hooked.shop.call("POST", f"{ENDPOINT}/rotate")).status == 200


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
                "eventId",
                "eventType",
                "paymentId",
                "state",
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
            "durationMs": 0,
            "remoteIp": "93.184.216.34",
            "body": "café \ufffd",
        }


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
        await hooked.register()
        await hooked.shop.pay()
        await hooked.drained()
        [row] = await hooked.deliveries()
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


async def test_a_resend_answers_with_the_delivery_after_it(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        await hooked.shop.pay()
        await hooked.drained()
        [row] = await hooked.deliveries()
        sent = await hooked.shop.call("POST", f"/v1/webhooks/deliveries/{row['id']}/resend")

        assert (sent.status, sent.body["state"], sent.body["attempts"]) == (200, "succeeded", 2)
        assert [one["trigger"] for one in sent.body["attemptLog"]] == ["auto", "manual"]


async def test_a_test_event_of_each_type_is_sent_and_its_end_told(tmp_path: Path) -> None:
    async with open_hooked(tmp_path, always(Does(status=418, body=b"teapot"))) as hooked:
        await hooked.register(events=["payment.created"])
        for event_type in EVENT_TYPES:
            sent = await hooked.shop.call("POST", f"{ENDPOINT}/test", {"type": event_type})
            row = (await hooked.deliveries())[0]

            assert sent.status == 200
            assert sent.body == {
                "deliveryId": row["id"],
                "status": 418,
                "errorClass": "http_status",
                "durationMs": 0,
                "body": "teapot",
            }
            assert (row["eventType"], row["state"], row["eventId"]) == (event_type, "failed", None)
        last = (await hooked.deliveries())[0]["id"]
        resent = await hooked.shop.call("POST", f"/v1/webhooks/deliveries/{last}/resend")
        assert (resent.status, resent.code) == (404, "not_found")


async def test_a_test_event_of_an_unknown_type_is_refused(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        refused = await hooked.shop.call("POST", f"{ENDPOINT}/test", {"type": "payment.exploded"})

        assert (refused.status, refused.code) == (400, "params_validation")
        assert refused.body["issues"][0]["field"] == "type"


async def test_a_disabled_endpoint_gets_nothing_but_tests_until_it_is_enabled(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        since = iso_ms(hooked.shop.realm.clock.now_ms())
        disabled = await hooked.shop.call("POST", f"{ENDPOINT}/disable")
        missed = await hooked.shop.pay()
        jobs: list[Got] = [
            await hooked.shop.call("POST", f"/v1/webhooks/{kind}", {"since": since})
            for kind in ("recover", "replay-missing")
        ]
        tested = await hooked.shop.call("POST", f"{ENDPOINT}/test", {"type": "payment.created"})
        enabled = await hooked.shop.call("POST", f"{ENDPOINT}/enable")
        job = await hooked.job("replay-missing", since)

        assert (disabled.body["state"], enabled.body["state"]) == ("disabled", "enabled")
        assert [(one.status, one.code) for one in jobs] == [(409, "endpoint_disabled")] * 2
        assert tested.body["status"] == 200
        assert job == {
            "id": job["id"],
            "kind": "replay-missing",
            "since": since,
            "state": "done",
            "matched": 1,
            "queued": 1,
            "done": 1,
            "failed": 0,
        }
        assert [row["paymentId"] for row in await hooked.deliveries()] == [missed, None]


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
        assert "14 days" in answers[1].body["message"]


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


async def test_a_deleted_endpoint_is_gone_and_the_next_one_has_another_secret(tmp_path: Path) -> None:
    async with open_hooked(tmp_path, always(Does(status=500))) as hooked:
        made = await hooked.register()
        await hooked.shop.pay()
        await hooked.drained()
        deleted = await hooked.shop.call("DELETE", ENDPOINT)
        await hooked.advance(3600)
        requests = len(hooked.receiver.received)
        states = {row["state"] for row in await hooked.deliveries()}
        again = await hooked.register()

        assert deleted.body == {"id": made["id"], "deleted": True}
        assert requests == 1
        assert states == {"cancelled"}
        assert again["id"] != made["id"]
        assert again["secret"] != made["secret"]


async def test_a_key_for_some_merchants_cannot_lead_the_events_of_all_elsewhere(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        await hooked.shop.pay()
        await hooked.drained()
        other = await hooked.shop.new_merchant()
        theirs = await hooked.shop.new_key(merchants=[hooked.shop.merchant_id])
        others = await hooked.shop.new_key(merchants=[other])
        refused = [
            await hooked.shop.call("PUT", ENDPOINT, {"url": "http://b.test/"}, key=theirs),
            await hooked.shop.call("DELETE", ENDPOINT, key=theirs),
            await hooked.shop.call("POST", f"{ENDPOINT}/reveal", key=theirs),
            await hooked.shop.call("POST", f"{ENDPOINT}/rotate", key=theirs),
        ]
        path = "/v1/webhooks/deliveries"
        [row] = (await hooked.shop.call("GET", path, key=theirs)).body["data"]

        assert [(one.status, one.code) for one in refused] == [(403, "forbidden")] * 4
        assert (await hooked.shop.call("GET", f"{path}/{row['id']}", key=theirs)).status == 200
        assert (await hooked.shop.call("GET", path, key=others)).body["data"] == []
        assert (await hooked.shop.call("GET", f"{path}/{row['id']}", key=others)).status == 404


async def test_a_client_that_leaves_does_not_take_its_job_along(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        since = iso_ms(hooked.shop.realm.clock.now_ms())
        await hooked.shop.leave("POST", "/v1/webhooks/recover", {"since": since})
        await trio.sleep(1)

        assert hooked.shop.realm.db.point(running_jobs) == []


async def test_what_is_in_flight_is_dropped_also_when_who_deleted_the_endpoint_leaves(
    tmp_path: Path,
) -> None:
    async with open_hooked(tmp_path, always(Does(hangs=True))) as hooked:
        await hooked.register()
        await hooked.shop.pay()
        await trio.sleep(1)
        assert hooked.shop.realm.deliveries.in_flight == 1
        await hooked.shop.leave("DELETE", ENDPOINT)
        await trio.sleep(1)

        assert hooked.shop.realm.deliveries.in_flight == 0


async def test_a_key_for_some_merchants_cannot_send_test_events_to_the_endpoint_of_all(
    tmp_path: Path,
) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        key = await hooked.shop.new_key(merchants=[hooked.shop.merchant_id])
        sent = await hooked.shop.call("POST", f"{ENDPOINT}/test", {"type": "payment.created"}, key=key)

        assert (sent.status, sent.code) == (403, "forbidden")
        assert hooked.receiver.received == []
