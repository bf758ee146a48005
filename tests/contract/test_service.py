"""What every path has in common: errors, bodies, versions, health, documents, origins.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"
"""

from __future__ import annotations

import json
import re

import httpx
import pytest

from tests.contract.outside import FLAT, NESTED, Caller, Server, Shop, assert_refused, ok

BODY_MAX = 64 * 1024
# What the wallet SDK sends in a browser, and what SPEC.md adds.
WALLET_HEADERS = (
    "content-type, api-key, app-id, client-id, api-version, wcp-version, sdk-name, sdk-version, sdk-platform"
)


def test_a_live_process_says_so_without_a_key(nobody: Caller) -> None:
    assert nobody.get("/livez").status_code == 200
    assert nobody.get("/readyz").status_code == 200


def test_metrics_are_told_to_loopback_in_the_exposition_format(nobody: Caller) -> None:
    answer = nobody.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    assert re.search(r"^# TYPE \w+ (counter|gauge|histogram)$", answer.text, re.MULTILINE)


def test_versions_lists_the_stable_and_the_preview_one(nobody: Caller) -> None:
    text = json.dumps(ok(nobody.get("/versions")))
    assert f'"{FLAT}"' in text
    assert f'"{NESTED}"' in text


def test_a_request_without_a_version_is_answered_in_the_accounts_default(shop: Shop) -> None:
    assert shop.api.get("/v1/merchants").headers["Service-Version"] == FLAT


@pytest.mark.parametrize("header", ["Service-Version", "api-version"])
@pytest.mark.parametrize("version", [FLAT, NESTED])
def test_the_resolved_version_is_echoed(shop: Shop, header: str, version: str) -> None:
    answer = shop.api.having(**{header: version}).get("/v1/merchants")
    ok(answer)
    assert answer.headers["Service-Version"] == version


@pytest.mark.parametrize("header", ["Service-Version", "api-version"])
def test_an_unknown_version_and_a_malformed_one_are_refused_apart(shop: Shop, header: str) -> None:
    asking = shop.api
    assert_refused(asking.having(**{header: "2020-01-01"}).get("/v1/merchants"), 400, "unknown_api_version")
    assert_refused(asking.having(**{header: "2030-01-01"}).get("/v1/merchants"), 400, "unknown_api_version")
    for malformed in ("newest", "2026-2-18", "20260218", ""):
        assert_refused(asking.having(**{header: malformed}).get("/v1/merchants"), 400, "invalid_api_version")


def test_a_path_that_does_not_exist_is_not_found(shop: Shop) -> None:
    assert_refused(shop.api.get("/v1/nothing"), 404, "not_found")


@pytest.mark.parametrize(
    ("method", "path"), [("DELETE", "/v1/payments"), ("PUT", "/v1/merchants"), ("GET", "/v1/refunds")]
)
def test_a_wrong_method_is_405_and_says_which_are_right(shop: Shop, method: str, path: str) -> None:
    answer = shop.api.call(method, path)
    assert answer.status_code == 405
    body = answer.json()
    assert body["details"]["requestId"] == answer.headers["Request-Id"]
    assert answer.headers["Allow"]


def test_problem_details_are_the_same_through_both_doors(shop: Shop) -> None:
    asked = {"Accept": "application/json, application/problem+json"}
    found = []
    for more in ({}, {"TE": "trailers"}):
        answer = shop.api.having(**asked, **more).get("/v1/payments/pay_t1")
        assert answer.headers["content-type"] == "application/problem+json"
        body = answer.json()
        assert (answer.status_code, body["status"], body["code"]) == (404, 404, "payment_not_found")
        assert body.pop("instance") == answer.headers["Request-Id"]
        same = [(name, value) for name, value in answer.headers.items() if name not in ("date", "request-id")]
        found.append((body, same))
    assert found[0] == found[1]
    listed = shop.api.having(**asked).get("/v1/payments")
    assert (listed.status_code, listed.headers["content-type"]) == (200, "application/json")


def test_broken_json_is_invalid_params(shop: Shop) -> None:
    for path in ("/v1/merchants", "/v1/payments", "/v1/webhooks/recover"):
        for content in (b"{", b'{"a": 1} x', b"\xff\xfe"):
            answer = shop.api.http.post(
                path,
                content=content,
                headers={
                    **shop.api.headers,
                    "Content-Type": "application/json",
                    "Idempotency-Key": "broken",
                    "Merchant-Id": shop_merchant(shop),
                },
            )
            assert_refused(answer, 400, "invalid_params")


def shop_merchant(shop: Shop) -> str:
    """Return a merchant of the account, made when there is none."""
    listed = ok(shop.api.get("/v1/merchants", limit=1))["data"]
    return str(listed[0]["id"]) if listed else shop.merchant()


@pytest.mark.parametrize("content", [b"[]", b'"text"', b"1", b"null"])
def test_a_body_that_is_no_object_misses_the_schema(shop: Shop, content: bytes) -> None:
    headers = {**shop.api.headers, "Content-Type": "application/json", "Idempotency-Key": "no object"}
    assert_refused(
        shop.api.http.post("/v1/merchants", content=content, headers=headers), 400, "params_validation"
    )


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/xml"])
def test_a_body_of_another_type_is_415(shop: Shop, kind: str) -> None:
    headers = {**shop.api.headers, "Content-Type": kind, "Idempotency-Key": "typed"}
    answer = shop.api.http.post("/v1/merchants", content=b'{"merchantName": "A"}', headers=headers)
    assert answer.status_code == 415
    assert answer.json()["details"]["requestId"] == answer.headers["Request-Id"]
    assert answer.json()["code"]


def test_json_with_a_charset_is_json(shop: Shop) -> None:
    headers = {**shop.api.headers, "Content-Type": "application/json; charset=utf-8"}
    body = {"merchantName": "Charset", "merchantEmail": "till@shop.example"}
    answer = shop.api.http.post(
        "/v1/merchants", content=json.dumps(body), headers={**headers, "Idempotency-Key": "charset"}
    )
    assert ok(answer, 201)["merchant"]["name"] == "Charset"


def test_a_body_over_the_limit_is_413_and_the_server_goes_on(shop: Shop) -> None:
    padding = " " * (BODY_MAX - 2)
    headers = {**shop.api.headers, "Content-Type": "application/json", "Idempotency-Key": "big"}
    fits = shop.api.http.post("/v1/merchants", content=f"{{{padding}}}", headers=headers)
    assert_refused(fits, 400, "params_validation")
    # A connection of its own: the server may close it before the body has been sent.
    with httpx.Client(base_url=shop.api.http.base_url) as client:
        answer = client.post("/v1/merchants", content=f"{{{padding} }}", headers=headers)
        assert answer.status_code == 413
        assert answer.json()["details"]["requestId"] == answer.headers["Request-Id"]
    ok(shop.api.get("/v1/merchants"))


def test_a_chunked_body_over_the_limit_is_413(server: Server, shop: Shop) -> None:
    def pieces() -> list[bytes]:
        return [b" " * 8192] * 9

    headers = {**shop.api.headers, "Content-Type": "application/json", "Idempotency-Key": "chunks"}
    with httpx.Client(base_url=server.url) as client:
        answer = client.post("/v1/merchants", content=iter(pieces()), headers=headers)
    assert answer.status_code == 413
    ok(shop.api.get("/v1/merchants"))


def test_early_refusals_do_not_wedge_a_kept_connection(server: Server) -> None:
    with httpx.Client(base_url=server.url, limits=httpx.Limits(max_connections=1)) as client:
        for _ in range(5):
            answer = client.post("/v1/merchants", json={"merchantName": "A" * 5000})
            assert_refused(answer, 401, "missing_api_key")


def test_any_origin_may_ask_the_gateway_with_the_headers_it_needs(nobody: Caller) -> None:
    asking = nobody.having(
        Origin="https://wallet.example",
        Access_Control_Request_Method="POST",
        Access_Control_Request_Headers=WALLET_HEADERS,
    )
    answer = asking.call("OPTIONS", "/v1/gateway/payment/pay_t1/options")
    assert answer.status_code in (200, 204)
    assert answer.headers["Access-Control-Allow-Origin"] in ("*", "https://wallet.example")
    assert "POST" in answer.headers["Access-Control-Allow-Methods"]
    allowed = {name.strip().lower() for name in answer.headers["Access-Control-Allow-Headers"].split(",")}
    assert set(WALLET_HEADERS.split(", ")) <= allowed


def test_gateway_answers_and_refusals_can_be_read_from_any_origin(shop: Shop, merchant_id: str) -> None:
    asking = shop.api.having(Origin="https://wallet.example")
    payment_id = shop.payment(merchant_id)
    good = asking.get(f"/v1/gateway/payment/{payment_id}/status")
    ok(good)
    bad = asking.get("/v1/gateway/payment/pay_tnothing/status")
    keyless = asking.having(Api_Key=None).get(f"/v1/gateway/payment/{payment_id}/status")
    for answer in (good, bad, keyless):
        assert answer.headers["Access-Control-Allow-Origin"] in ("*", "https://wallet.example")
        assert "Access-Control-Allow-Credentials" not in answer.headers


@pytest.mark.parametrize("path", ["/v1/merchants", "/v1/payments", "/v1/webhooks/endpoint", "/v1/events"])
def test_paths_for_keys_allow_no_origin(shop: Shop, path: str) -> None:
    asking = shop.api.having(Origin="https://wallet.example")
    assert "Access-Control-Allow-Origin" not in asking.get(path).headers
    preflight = asking.having(
        Api_Key=None, Access_Control_Request_Method="POST", Access_Control_Request_Headers="api-key"
    ).call("OPTIONS", path)
    assert "Access-Control-Allow-Origin" not in preflight.headers
