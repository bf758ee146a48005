"""The webhook endpoint, as a client of the API sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from payd.core.advice import advice
from payd.core.endpoint import EVENT_TYPES
from payd.core.event import iso_ms
from tests.receiver import Does, always
from tests.shop import START_MS, Got
from tests.web.hooked import ENDPOINT, HOOK, open_hooked


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
    ("https://169.254.169.254/latest", "payd never calls, such as cloud metadata"),
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
        assert made["oldSecretsUntil"] is None
        assert rotated.body["oldSecretsUntil"] == iso_ms(START_MS + 24 * 3_600_000)
        acts = hooked.shop.realm.db.point(
            lambda tx: [
                act for (act,) in tx.execute("SELECT act FROM audit WHERE act LIKE 'endpoint.%' ORDER BY seq")
            ]
        )
        assert acts == ["endpoint.register", "endpoint.reveal", "endpoint.rotate", "endpoint.reveal"]


async def test_a_secret_that_is_stored_is_told_though_nothing_can_be_read_right_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_hooked(tmp_path) as hooked:
        feed, store = hooked.shop.realm.account_feed, hooked.shop.realm.db._connections
        for method, path in (("PUT", ENDPOINT), ("POST", f"{ENDPOINT}/rotate")):
            with monkeypatch.context() as broken:
                broken.setattr(feed, "secret_changed", lambda _: broken.setattr(store, "point", None))
                answer = await hooked.shop.call(method, path, {"url": HOOK} if method == "PUT" else None)

            assert answer.status == 200
            assert (
                answer.body["secret"] == (await hooked.shop.call("POST", f"{ENDPOINT}/reveal")).body["secret"]
            )


async def test_six_secrets_at_once_are_too_many(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        answers = [await hooked.shop.call("POST", f"{ENDPOINT}/rotate") for _ in range(5)]
        await hooked.advance(24 * 3600 + 1)

        assert [one.status for one in answers] == [200, 200, 200, 200, 400]
        assert answers[-1].code == "invalid_state"
        assert (await hooked.shop.call("POST", f"{ENDPOINT}/rotate")).status == 200


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
                "error": None,
                "advice": advice(418, "http_status"),
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
            "takenBack": 0,
            "retrying": 0,
        }
        assert [row["paymentId"] for row in await hooked.deliveries()] == [missed, None]


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


async def test_a_paused_endpoint_keeps_its_events_and_gets_them_when_it_goes_on(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register(events=["payment.created"])
        paused = await hooked.shop.call("POST", f"{ENDPOINT}/pause")
        payment_id = await hooked.shop.pay()
        await hooked.advance(3600)
        assert (paused.body["state"], paused.body["offSince"]) == ("paused", iso_ms(START_MS))
        assert hooked.receiver.received == []
        assert [row["state"] for row in await hooked.deliveries()] == ["pending"]
        resumed = await hooked.shop.call("POST", f"{ENDPOINT}/resume")
        await hooked.drained()

        assert (resumed.body["state"], resumed.body["offSince"]) == ("enabled", None)
        [received] = hooked.receiver.received
        assert payment_id.encode() in received.body
        again = await hooked.shop.call("POST", f"{ENDPOINT}/resume")
        assert again.body == resumed.body


async def test_a_disabled_endpoint_is_neither_paused_nor_resumed(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        await hooked.shop.call("POST", f"{ENDPOINT}/disable")
        for act in ("pause", "resume"):
            refused = await hooked.shop.call("POST", f"{ENDPOINT}/{act}")
            assert (refused.status, refused.code) == (409, "endpoint_disabled")


async def test_enabling_counts_what_was_missed_and_a_replay_sends_exactly_that(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.shop.pay()  # before there was an endpoint: nobody missed it
        await hooked.advance(60)
        await hooked.register(events=["payment.created", "payment.succeeded"])
        await hooked.shop.call("POST", f"{ENDPOINT}/disable")
        for _ in range(3):
            await hooked.shop.pay()
        enabled = (await hooked.shop.call("POST", f"{ENDPOINT}/enable")).body
        job = await hooked.job("replay-missing", enabled["missedSince"])

        assert enabled["missedEvents"] == 3
        assert (job["matched"], job["done"], job["state"]) == (3, 3, "done")
        assert len(hooked.receiver.received) == 3
        assert (await hooked.shop.call("POST", f"{ENDPOINT}/enable")).body["missedEvents"] == 0


async def test_what_it_was_owed_is_missed_to_the_last_of_it_though_it_is_enabled_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("payd.store.endpoints.CANCEL_BATCH_MAX", 1)
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        await hooked.shop.call("POST", f"{ENDPOINT}/pause")
        for _ in range(9):
            await hooked.shop.pay()
        await hooked.shop.call("POST", f"{ENDPOINT}/disable")
        enabled = (await hooked.shop.call("POST", f"{ENDPOINT}/enable")).body
        await hooked.advance(60)

        assert enabled["missedEvents"] == 9
        assert hooked.receiver.received == []


async def test_what_was_missed_is_counted_also_where_a_clock_ahead_dated_the_registration(
    tmp_path: Path,
) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        await hooked.shop.call("POST", f"{ENDPOINT}/disable")
        ahead_ms = hooked.shop.realm.clock.now_ms() + 86_400_000
        await hooked.shop.realm.db.write(
            lambda tx: tx.execute("UPDATE endpoints SET created_at_ms = ?", (ahead_ms,)).rowcount
        )
        await hooked.shop.pay()
        enabled = (await hooked.shop.call("POST", f"{ENDPOINT}/enable")).body

        assert enabled["missedEvents"] == 1
        job = await hooked.job("replay-missing", enabled["missedSince"])
        assert (job["matched"], job["done"]) == (1, 1)


async def test_headers_of_the_merchant_go_along_and_only_their_names_are_shown(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        made = await hooked.register(headers={"Authorization": "Bearer s3cret", "X-Shop": "1"})
        await hooked.shop.pay()
        await hooked.drained()
        [received] = hooked.receiver.received
        assert made["headers"] == ["authorization", "x-shop"]
        assert (received.headers["authorization"], received.headers["x-shop"]) == ("Bearer s3cret", "1")

        kept = await hooked.register(url="http://b.test/")
        assert kept["headers"] == ["authorization", "x-shop"]
        cleared = await hooked.register(headers={})
        await hooked.shop.pay()
        await hooked.drained()
        assert cleared["headers"] == []
        assert "authorization" not in hooked.receiver.received[-1].headers
        audit = hooked.shop.realm.db.point(lambda tx: str(tx.execute("SELECT * FROM audit").fetchall()))
        rows = hooked.shop.realm.db.point(lambda tx: str(tx.execute("SELECT * FROM endpoints").fetchall()))
        assert "endpoint.headers" in audit
        assert "s3cret" not in audit + rows


async def test_a_header_that_is_not_the_merchants_to_set_registers_nothing(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        for headers in ({"webhook-id": "x"}, {"a": "b\r\nc: d"}, {"Host": "other"}):
            refused = await hooked.shop.call("PUT", ENDPOINT, {"url": HOOK, "headers": headers})
            assert (refused.status, refused.code) == (400, "params_validation")
            assert refused.body["issues"][0]["field"] == "headers"
        assert (await hooked.shop.call("GET", ENDPOINT)).status == 404


async def test_while_it_fails_it_says_when_it_is_given_up(tmp_path: Path) -> None:
    async with open_hooked(tmp_path, always(Does(status=500))) as hooked:
        await hooked.register()
        await hooked.shop.pay()
        await hooked.drained()
        shown = (await hooked.shop.call("GET", ENDPOINT)).body

        assert shown["failingSince"] == iso_ms(START_MS)
        assert shown["disablesAt"] == iso_ms(START_MS + 5 * 24 * 3_600_000)
        await trio.sleep(3 * 24 * 3600)  # a day after the last attempt: a failure now would be the first
        shown = (await hooked.shop.call("GET", ENDPOINT)).body
        assert (shown["state"], shown["failingSince"]) == ("enabled", iso_ms(START_MS))
        assert shown["disablesAt"] is None


async def test_where_deliveries_come_from_is_shown(tmp_path: Path) -> None:
    async with open_hooked(tmp_path, PAYD_WEBHOOKS_BIND="203.0.113.7,2001:db8::7") as hooked:
        assert (await hooked.register())["sourceAddresses"] == ["203.0.113.7", "2001:db8::7"]
