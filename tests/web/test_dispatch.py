"""The life of a request: ids, versions, limits, methods, bodies, browsers, and bugs that tell nothing."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from payd.core.errors import BodyTooLarge, InvalidApiKey, MissingApiKey, OutcomeUnknown, StoreUnavailable
from payd.core.version import DEFAULT
from payd.store.accounts import Account
from payd.web.call import Request
from payd.web.dispatch import answer, body_max_of
from payd.web.limits import RateLimit
from payd.web.routes import ROUTES, Route
from tests.shop import APPROVES, Got, Shop, got

PREVIEW = "2026-02-19.preview"
NEW_PAYMENT = {"referenceId": "R", "amount": {"unit": "iso4217/USD", "value": "100"}}
REQUEST_ID = re.compile("req_[0-9a-z]{36}")


async def plain(shop: Shop, method: str, path: str, client_ip: str = "198.51.100.1", **headers: str) -> Got:
    """A request as a stranger sends it."""
    head = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    request = Request.from_head(method, path, b"", head)
    request.client_ip = client_ip
    return got(await answer(shop.house, request))


# Ids


async def test_every_answer_has_its_own_request_id_and_a_refusal_repeats_it(shop: Shop) -> None:
    seen = set()
    for method, path, key in (
        ("GET", "/livez", None),
        ("GET", "/v1/merchants", ""),
        ("GET", "/v1/merchants", None),
        ("GET", "/nowhere", None),
        ("DELETE", "/livez", None),
        ("OPTIONS", "/v1/gateway/payment/x", None),
        ("GET", "/v1/payments?limit=x", ""),
        ("POST", "/v1/gateway/payment/x/options", ""),
    ):
        found = await shop.call(method, path, key=key)
        assert REQUEST_ID.fullmatch(found.headers["request-id"])
        seen.add(found.headers["request-id"])
        if found.status >= 400:
            assert found.body["details"]["requestId"] == found.headers["request-id"]
            assert found.body["message"]
            assert found.body["code"]
    assert len(seen) == 8


# Versions


async def test_the_resolved_version_is_echoed_by_whatever_name_it_was_asked(shop: Shop) -> None:
    for header in ("service_version", "api_version", "wcp_version"):
        for version in (DEFAULT, PREVIEW):
            found = await shop.call("GET", "/v1/merchants", key=shop.key, raw=None, **{header: version})
            assert (found.status, found.headers["service-version"]) == (200, version)


async def test_without_a_header_the_accounts_version_is_used(shop: Shop) -> None:
    found = await shop.call("GET", "/v1/merchants")
    assert found.headers["service-version"] == DEFAULT


async def test_the_neutral_name_goes_before_its_aliases(shop: Shop) -> None:
    found = await shop.call("GET", "/v1/merchants", service_version=DEFAULT, api_version=PREVIEW)
    assert found.headers["service-version"] == DEFAULT


WRONG_VERSIONS = (
    ("2026-01-01", "unknown_api_version"),
    ("2030-12-31.preview", "unknown_api_version"),
    ("2026-02-18.preview", "unknown_api_version"),
    ("2026-02-19", "unknown_api_version"),
    ("latest", "invalid_api_version"),
    ("2026-2-18", "invalid_api_version"),
    ("2026-02-18, 2026-02-18", "invalid_api_version"),
    ("", "invalid_api_version"),
)


async def test_a_version_that_is_none_is_refused_and_nothing_is_done(shop: Shop) -> None:
    for header, code in WRONG_VERSIONS:
        found = await shop.call(
            "POST", "/v1/payments", NEW_PAYMENT, merchant_id=shop.merchant_id, service_version=header
        )
        assert (found.status, found.code) == (400, code), header
    assert (await shop.call("GET", "/v1/payments")).body["data"] == []


async def test_a_header_may_not_go_back_behind_the_accounts_version(shop: Shop) -> None:
    newer = "2027-01-01"
    shop.house.versions = (DEFAULT, newer)
    shop.house.accounts[shop.account_id] = Account(shop.account_id, "one", newer, 0)

    found = await shop.call("GET", "/v1/merchants", service_version=DEFAULT)

    assert (found.status, found.code) == (400, "api_version_downgrade")
    assert (await shop.call("GET", "/v1/merchants")).headers["service-version"] == newer


# Methods and paths


ALLOWED = (
    ("PUT", "/v1/merchants", "GET, POST"),
    ("POST", "/v1/merchants/mrch_1", "DELETE, GET, PATCH"),
    ("GET", "/v1/merchants/mrch_1/settlements/crypto", "POST"),
    ("DELETE", "/v1/payments/pay_1", "GET"),
    ("OPTIONS", "/v1/payments", "GET, POST"),
    ("GET", "/v1/gateway/payment/x/confirm", "POST"),
    ("TRACE", "/livez", "GET"),
)


async def test_a_method_that_a_path_has_not_is_told_which_it_has(shop: Shop) -> None:
    for method, path, allowed in ALLOWED:
        found = await shop.call(method, path)
        assert (found.status, found.code, found.headers["allow"]) == (405, "method_not_allowed", allowed)


async def test_a_path_that_is_none_is_not_found(shop: Shop) -> None:
    for path in ("/v1", "/v2/payments", "/v1/payment", "/v1/gateway/payment"):
        found = await shop.call("GET", path)
        assert (found.status, found.code) == (404, "not_found")
        assert found.body["message"].endswith(". /docs has every path; the dashboard is at /.")


async def test_a_path_with_a_slash_behind_it_is_told_to_leave_it_out(shop: Shop) -> None:
    found = await shop.call("POST", "/v1/payments/", NEW_PAYMENT)
    assert (found.status, found.code) == (404, "not_found")
    assert found.body["message"] == "There is nothing at /v1/payments/. Leave out the slash at its end."


# Bodies


BODIES = {
    "broken": b'{"merchantName":',
    "NaN": b'{"merchantName": NaN}',
    "infinity": b'{"merchantName": Infinity}',
    "a comment": b'{} // "merchantName"',
    "two values": b"{}{}",
    "a byte order mark": b"\xef\xbb\xbf{}",
    "bytes that are no UTF-8": b'{"merchantName":"\xff\xfe"}',
    "half a surrogate": b'{"merchantName":"\\ud800"}',
    "ten thousand brackets": b"[" * 10_000,
    "UTF-16": '{"merchantName":"x"}'.encode("utf-16"),
}


def bodied() -> list[Route]:
    """The routes that read a JSON body."""
    return [route for route in ROUTES if route.method in ("POST", "PUT", "PATCH") and route.family != "open"]


SILENT = (
    "/rotate",
    "/reveal",
    "/enable",
    "/disable",
    "/pause",
    "/resume",
    "/resend",
    "/jobs/{id}/cancel",
    "/canary/{realm}",
    "/logo",  # takes a picture
)


async def test_what_is_no_json_is_invalid_on_every_path_that_takes_a_body(shop: Shop) -> None:
    payment = await shop.pay()
    for route in bodied():
        if route.path.endswith(SILENT):
            continue
        path = route.path.replace("{merchantId}", shop.merchant_id).replace("{id}", payment)
        for name, raw in BODIES.items():
            found = await shop.call(
                route.method, path, raw=raw, merchant_id=shop.merchant_id, idempotency_key="k"
            )
            assert (found.status, found.code) == (400, "invalid_params"), (route.path, name, found.body)
    assert await shop.status(payment) == "requires_action"


async def test_no_body_at_all_is_invalid_where_one_is_needed(shop: Shop) -> None:
    found = await shop.call("POST", "/v1/payments", merchant_id=shop.merchant_id)
    assert (found.status, found.code) == (400, "invalid_params")


async def test_another_type_than_json_is_415(shop: Shop) -> None:
    payment = await shop.pay()
    for path in ("/v1/payments", f"/v1/payments/{payment}/cancel", f"/v1/gateway/payment/{payment}/cancel"):
        for said in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
            found = await shop.call(
                "POST", path, NEW_PAYMENT, merchant_id=shop.merchant_id, content_type=said
            )
            assert (found.status, found.code) == (415, "unsupported_media_type"), path
    assert await shop.status(payment) == "requires_action"


async def test_json_that_is_no_object_misses_the_schema(shop: Shop) -> None:
    payment = await shop.pay()
    for path in ("/v1/payments", f"/v1/payments/{payment}/cancel", f"/v1/gateway/payment/{payment}/cancel"):
        for raw in (b"[]", b"1", b'"x"', b"null", b"true"):
            found = await shop.call("POST", path, raw=raw, merchant_id=shop.merchant_id)
            assert (found.status, found.code) == (400, "params_validation"), path
            assert found.body["issues"][0]["field"] == "body"
    assert await shop.status(payment) == "requires_action"


async def test_of_a_name_that_stands_twice_the_last_value_counts(shop: Shop) -> None:
    raw = b'{"referenceId":"first","referenceId":"last","amount":{"unit":"iso4217/USD","value":"1"}}'
    made = await shop.call("POST", "/v1/payments", raw=raw, merchant_id=shop.merchant_id)
    detail = await shop.call("GET", f"/v1/payments/{made.body['paymentId']}")
    assert detail.body["referenceId"] == "last"


async def test_a_number_of_five_thousand_digits_is_a_wrong_number(shop: Shop) -> None:
    for digits in (30, 5000):
        raw = msgspec.json.encode(NEW_PAYMENT)[:-1] + b',"expiresAt":' + b"9" * digits + b"}"
        found = await shop.call("POST", "/v1/payments", raw=raw, merchant_id=shop.merchant_id)
        assert found.status == 400


async def test_unknown_fields_are_no_matter(shop: Shop) -> None:
    body = NEW_PAYMENT | {"metadata": {"a": [1, 2]}}
    made = await shop.call("POST", "/v1/payments", body, merchant_id=shop.merchant_id)
    assert made.status == 201


async def test_what_the_door_refused_is_answered_like_every_refusal(shop: Shop) -> None:
    head = [(b"api-key", shop.key.encode())]
    request = Request.from_head("POST", "/v1/gateway/payment/x/options", b"", head)
    request.refusal = BodyTooLarge("The body is larger than this server takes.")
    found = got(await answer(shop.house, request))
    assert (found.status, found.code) == (413, "body_too_large")
    assert found.body["details"]["requestId"] == found.headers["request-id"]
    assert found.headers["access-control-allow-origin"] == "*"


# Problem details


PROBLEM = "application/problem+json"


async def test_a_refusal_is_told_as_problem_details_to_who_asks_for_them(shop: Shop) -> None:
    payment = await shop.pay()
    for method, path, key, code in (
        ("GET", "/v1/payments/pay_t1", "", "payment_not_found"),
        ("POST", "/v1/payments", "", "missing_merchant_id"),
        ("GET", "/v1/merchants", None, "missing_api_key"),
        ("GET", "/v1/gateway/payment/x", "", "payment_not_found"),
        ("GET", "/nowhere", None, "not_found"),
        ("DELETE", "/livez", None, "method_not_allowed"),
        ("GET", f"/pay/{payment}x", None, "payment_not_found"),
    ):
        plain = await shop.call(method, path, key=key, accept="application/problem+json;q=0.5, */*")
        found = await shop.call(method, path, key=key, accept=PROBLEM)
        assert plain.code == code
        assert "content-type" not in plain.headers, "the door says that it is JSON"
        assert found.headers["content-type"] == PROBLEM
        assert found.body["status"] == found.status == plain.status
        assert (found.body["code"], found.body["detail"]) == (code, plain.body["message"])
        assert found.body["type"] == plain.body["details"]["docUrl"]
        assert found.body["instance"] == found.headers["request-id"]


async def test_a_success_is_json_whatever_errors_would_be(shop: Shop) -> None:
    found = await shop.call("GET", "/v1/merchants", accept=PROBLEM)
    assert found.status == 200
    assert "content-type" not in found.headers


async def test_who_likes_pages_better_than_problems_gets_a_page(shop: Shop) -> None:
    found = await plain(shop, "GET", "/pay/pay_t1", "198.51.100.1", accept=f"text/html, {PROBLEM};q=0.5")
    assert found.headers["content-type"].startswith("text/html")
    assert found.status == 404


# Browsers


async def test_a_preflight_on_gateway_paths_allows_what_was_asked_for(shop: Shop) -> None:
    asked = "content-type, api-key, app-id, client-id, api-version, wcp-version, sdk-name"
    for path in ("/v1/gateway/payment/x/options", "/v1/gateway/payment/x", "/v1/payments/x/feed"):
        found = await shop.call(
            "OPTIONS",
            path,
            key=None,
            origin="https://wallet.example",
            access_control_request_method="POST",
            access_control_request_headers=asked,
        )
        assert (found.status, found.raw) == (204, b"")
        assert found.headers["access-control-allow-origin"] == "*"
        assert found.headers["access-control-allow-headers"] == asked
        assert "POST" in found.headers["access-control-allow-methods"]
        assert "access-control-allow-credentials" not in found.headers


async def test_every_answer_of_the_gateway_may_be_read_by_any_page(shop: Shop) -> None:
    payment = await shop.pay()
    for method, path, key in (
        ("GET", f"/v1/gateway/payment/{payment}", ""),
        ("GET", f"/v1/gateway/payment/{payment}", None),
        ("GET", "/v1/gateway/payment/nobody", ""),
        ("GET", f"/v1/gateway/payment/{payment}/options", ""),
    ):
        found = await shop.call(method, path, key=key, origin="https://wallet.example")
        assert found.headers["access-control-allow-origin"] == "*"
        assert "Request-Id" in found.headers["access-control-expose-headers"]


async def test_paths_with_a_secret_key_may_be_read_by_no_page(shop: Shop) -> None:
    for route in ROUTES:
        if route.open_to_browsers:
            continue
        for method in (route.method, "OPTIONS"):
            found = await shop.call(method, route.path, origin="https://evil.example")
            assert not [name for name in found.headers if name.startswith("access-control")], route.path
            assert method != "OPTIONS" or found.status == 405


async def test_no_cache_keeps_what_a_credential_opened(shop: Shop) -> None:
    payment = await shop.pay()
    for path in ("/v1/merchants", f"/v1/payments/{payment}/status", f"/v1/gateway/payment/{payment}"):
        for _ in range(2):  # the second time the door knows it
            assert (await shop.call("GET", path)).headers["cache-control"] == "no-store"


# Limits


async def test_a_key_has_its_rate_and_others_theirs(shop: Shop) -> None:
    shop.house.limits.per_key = RateLimit(2, now_s=lambda: 0.0)
    statuses = [(await shop.call("GET", "/v1/merchants")).status for _ in range(5)]
    found = await shop.call("GET", "/v1/merchants")
    assert statuses == [200, 200, 200, 200, 429]
    assert (found.code, found.headers["retry-after"]) == ("rate_limited", "1")
    assert found.body["details"]["retryAfterS"] == 1
    assert (await shop.call("GET", "/v1/merchants", key=shop.other_key)).status == 200


async def test_who_has_no_key_is_counted_by_address(shop: Shop) -> None:
    shop.house.limits.per_ip = RateLimit(1, now_s=lambda: 0.0)
    app = shop.realm.checkout_app_id
    payment = await shop.pay()

    async def from_address(address: str) -> list[int]:
        path = f"/v1/gateway/payment/{payment}"
        by_app = await plain(shop, "GET", path, address, app_id=app, client_id="c")
        return [by_app.status, *[(await plain(shop, "GET", "/livez", address)).status for _ in range(2)]]

    assert await from_address("198.51.100.1") == [200, 200, 429]
    assert await from_address("198.51.100.2") == [200, 200, 429]
    assert (await shop.call("GET", "/v1/merchants")).status == 200


async def test_who_has_a_wrong_key_is_counted_by_address_too(shop: Shop) -> None:
    shop.house.limits.failed_auth = RateLimit(0)
    shop.house.limits.per_ip = RateLimit(1, now_s=lambda: 0.0)
    statuses = [(await shop.call("GET", "/v1/merchants", key="svc_test_wrong")).status for _ in range(3)]
    assert statuses == [401, 401, 429]


async def test_who_shows_nothing_where_a_key_belongs_is_counted_by_address(shop: Shop) -> None:
    shop.house.limits.per_ip = RateLimit(1, now_s=lambda: 0.0)
    statuses = [(await shop.call("GET", "/v1/merchants", key=None)).status for _ in range(3)]
    assert statuses == [401, 401, 429]


async def test_an_ipv6_customer_is_counted_by_the_network_he_has(shop: Shop) -> None:
    shop.house.limits.per_ip = RateLimit(1, now_s=lambda: 0.0)
    statuses = [(await plain(shop, "GET", "/livez", f"2001:db8:1:1::{host}")).status for host in range(3)]
    assert statuses == [200, 200, 429]
    assert (await plain(shop, "GET", "/livez", "2001:db8:1:2::1")).status == 200


async def test_wrong_keys_slow_down_wrong_keys_and_never_the_right_one(shop: Shop) -> None:
    shop.house.limits.failed_auth = RateLimit(1, burst=3, now_s=lambda: 0.0)
    wrong = [await shop.call("GET", "/v1/merchants", key="svc_test_wrong") for _ in range(5)]
    assert [found.status for found in wrong] == [401, 401, 401, 429, 429]
    assert int(wrong[-1].headers["retry-after"]) >= 1
    assert (await shop.call("GET", "/v1/merchants")).status == 200


async def test_wrong_app_ids_are_slowed_down_too(shop: Shop) -> None:
    shop.house.limits.failed_auth = RateLimit(1, burst=1, now_s=lambda: 0.0)
    statuses = [
        (await shop.call("GET", "/v1/gateway/payment/x", key=None, app_id="app_t", client_id="c")).status
        for _ in range(2)
    ]
    assert statuses == [401, 429]


# What breaks on this side


class Boom(Exception):
    """A bug."""


async def test_a_bug_is_a_500_with_nothing_inside(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def boom(version: str) -> bool:
        raise Boom("secret words")

    monkeypatch.setattr("payd.web.health.is_preview", boom)
    found = await shop.call("GET", "/versions")
    assert (found.status, found.code) == (500, "internal_error")
    assert b"secret" not in found.raw
    assert b"Boom" not in found.raw
    assert found.body["details"] == {
        "requestId": found.headers["request-id"],
        "docUrl": f"{shop.house.base_url}/docs#error-internal_error",
    }
    assert (await shop.call("GET", "/livez")).status == 200


@pytest.mark.parametrize(
    ("broken", "status"), [(StoreUnavailable("disk full"), 503), (OutcomeUnknown("unknown"), 500)]
)
async def test_a_store_that_cannot_write_says_so(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, broken: Exception, status: int
) -> None:
    async def refuse(*_: Any, **__: Any) -> Any:
        raise broken

    monkeypatch.setattr(type(shop.realm.db), "write", refuse)
    body = {"merchantName": "x", "merchantEmail": "x@example.com"}
    found = await shop.call("POST", "/v1/merchants", body, idempotency_key="k")
    assert (found.status, found.code) == (status, "internal_error")
    assert found.headers.get("retry-after") == ("5" if status == 503 else None)


async def test_accounts_of_others_are_untouched_by_ones_own_payments(shop: Shop) -> None:
    payment = await shop.pay()
    await shop.options(payment, [APPROVES])
    for path in ("/v1/payments", "/v1/events", "/v1/merchants", "/v1/transfers"):
        assert (await shop.call("GET", path, key=shop.other_key)).body["data"] == []


# A merchant that was deleted


async def test_what_a_deleted_merchant_has_is_still_answered_and_nothing_new_is_made(shop: Shop) -> None:
    headers: dict[str, Any] = {"merchant_id": shop.merchant_id}
    made = await shop.call("POST", "/v1/payments", NEW_PAYMENT, idempotency_key="k", **headers)
    await shop.call("DELETE", f"/v1/merchants/{shop.merchant_id}")
    again = await shop.call("POST", "/v1/payments", NEW_PAYMENT, idempotency_key="k", **headers)
    payment = made.body["paymentId"]
    statuses = [
        await shop.call("GET", f"/v1/{path}/{payment}/status", **headers)
        for path in ("payments", "merchant/payment")
    ]
    new = await shop.call("POST", "/v1/payments", NEW_PAYMENT, **headers)
    theirs = await shop.call("GET", f"/v1/payments/{payment}/status", key=shop.other_key, **headers)

    assert (again.status, again.raw) == (201, made.raw)
    assert again.headers["idempotent-replayed"] == "true"
    assert [found.status for found in statuses] == [200, 200]
    assert (new.status, new.code) == (404, "not_found")
    assert theirs.status == 404


async def test_only_a_known_callers_picture_may_be_larger_than_other_bodies(shop: Shop) -> None:
    def most(method: str, path: str, **headers: str) -> int:
        head = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        return body_max_of(shop.house, Request.from_head(method, path, b"", head))

    logo = f"/v1/merchants/{shop.merchant_id}/logo"
    assert most("PUT", logo, api_key=shop.key) == 2 * 1024 * 1024
    for method, path in (("POST", "/v1/payments"), ("DELETE", logo), ("PUT", "/nowhere/logo")):
        assert most(method, path, api_key=shop.key) == shop.house.body_max
    with pytest.raises(MissingApiKey):
        most("PUT", logo)
    with pytest.raises(InvalidApiKey):
        most("PUT", logo, api_key="svc_test_wrong")
