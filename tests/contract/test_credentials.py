"""Who may ask: keys and their scopes, app ids, and the merchant a request is about.

Source: SPEC.md, "Authentication"
"""

from __future__ import annotations

import itertools
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.contract.outside import WALLET, Caller, Server, Shop, assert_refused, ok

PAYMENT = "pay_t" + "0" * 36
GATEWAY = f"/v1/gateway/payment/{PAYMENT}"
# method, path, scope that opens it; "" where the pages name none.
PATHS = [
    ("GET", "/v1/merchants", "merchants:read"),
    ("GET", "/v1/merchants/mrch_x", "merchants:read"),
    ("GET", "/v1/merchants/mrch_x/settlements", "merchants:read"),
    ("POST", "/v1/merchants", "merchants:write"),
    ("PATCH", "/v1/merchants/mrch_x", "merchants:write"),
    ("DELETE", "/v1/merchants/mrch_x", "merchants:write"),
    ("POST", "/v1/merchants/mrch_x/settlements/crypto", "settlements:write"),
    ("PUT", "/v1/merchants/mrch_x/settlements/crypto/crypto_x", "settlements:write"),
    ("DELETE", "/v1/merchants/mrch_x/settlements/crypto/crypto_x", "settlements:write"),
    ("GET", "/v1/payments", "payments:read"),
    ("GET", f"/v1/payments/{PAYMENT}", "payments:read"),
    ("GET", f"/v1/payments/{PAYMENT}/status", "payments:read"),
    ("GET", f"/v1/merchant/payment/{PAYMENT}/status", "payments:read"),
    ("GET", "/v1/transfers?matched=false", "payments:read"),
    ("POST", "/v1/payments", "payments:write"),
    ("POST", "/v1/merchant/payment", "payments:write"),
    ("POST", f"/v1/payments/{PAYMENT}/cancel", "payments:write"),
    ("POST", f"/v1/payments/{PAYMENT}/match", "payments:write"),
    ("POST", "/v1/refunds", "payments:write"),
    ("GET", GATEWAY, "gateway"),
    ("POST", f"{GATEWAY}/options", "gateway"),
    ("POST", f"{GATEWAY}/fetch", "gateway"),
    ("POST", f"{GATEWAY}/confirm", "gateway"),
    ("GET", f"{GATEWAY}/status", "gateway"),
    ("POST", f"{GATEWAY}/cancel", "gateway"),
    ("GET", "/v1/webhooks/endpoint", "webhooks:read"),
    ("GET", "/v1/webhooks/deliveries", "webhooks:read"),
    ("GET", "/v1/webhooks/deliveries/dlv_x", "webhooks:read"),
    ("GET", "/v1/webhooks/jobs/job_x", "webhooks:read"),
    ("GET", "/v1/events", "webhooks:read"),
    ("GET", "/v1/events/evt_x", "webhooks:read"),
    ("PUT", "/v1/webhooks/endpoint", "webhooks:write"),
    ("DELETE", "/v1/webhooks/endpoint", "webhooks:write"),
    ("POST", "/v1/webhooks/endpoint/enable", "webhooks:write"),
    ("POST", "/v1/webhooks/endpoint/disable", "webhooks:write"),
    ("POST", "/v1/webhooks/endpoint/test", "webhooks:write"),
    ("POST", "/v1/webhooks/deliveries/dlv_x/resend", "webhooks:write"),
    ("POST", "/v1/webhooks/recover", "webhooks:write"),
    ("POST", "/v1/webhooks/replay-missing", "webhooks:write"),
    ("POST", "/v1/webhooks/endpoint/reveal", "webhooks:secret"),
    ("POST", "/v1/webhooks/endpoint/rotate", ""),
    ("GET", "/v1/test/clock", "test"),
    ("POST", "/v1/test/clock", "test"),
    ("POST", f"/v1/test/payments/{PAYMENT}/simulate", "test"),
]
SCOPES = [
    "merchants:read",
    "merchants:write",
    "settlements:write",
    "payments:read",
    "payments:write",
    "webhooks:read",
    "webhooks:write",
    "webhooks:secret",
    "gateway",
    "test",
]


def touch(caller: Caller, method: str, path: str, merchant_id: str) -> tuple[int, str]:
    """Call a path with everything but a good body, and return status and code."""
    asking = caller.having(Merchant_Id=merchant_id, Idempotency_Key="touch")
    answer = asking.call(method, path, {} if method in ("POST", "PUT", "PATCH") else ...)
    return answer.status_code, answer.json().get("code", "")


@pytest.mark.parametrize(("method", "path", "scope"), PATHS)
def test_no_credential_is_missing_api_key_on_every_path(
    nobody: Caller, method: str, path: str, scope: str
) -> None:
    assert_refused(nobody.call(method, path), 401, "missing_api_key")
    assert_refused(nobody.call(method, path, {}), 401, "missing_api_key")


@pytest.mark.parametrize("key", ["svc_test_" + "0" * 52, "svc_" + "0" * 52, "svc_test_", "svc_", "key", "Ω"])
def test_an_unknown_key_is_invalid_whatever_it_looks_like(nobody: Caller, key: str) -> None:
    answer = nobody.http.get("/v1/merchants", headers=[(b"Api-Key", key.encode())])
    assert_refused(answer, 401, "invalid_api_key")
    answer = nobody.http.get(f"{GATEWAY}/status", headers=[(b"Api-Key", key.encode())])
    assert_refused(answer, 401, "invalid_api_key")


def test_a_revoked_key_is_invalid_at_once(server: Server, shop: Shop) -> None:
    made = server.cli_json("key", "create", "--mode", "test", "--account", shop.account_id)
    caller = shop.api.having(Api_Key=made["apiKey"])
    ok(caller.get("/v1/merchants"))
    assert server.cli("key", "revoke", made["id"], "--account", shop.account_id).returncode == 0
    assert_refused(caller.get("/v1/merchants"), 401, "invalid_api_key")


def test_test_keys_are_told_by_their_prefix(shop: Shop) -> None:
    assert re.fullmatch(r"svc_test_[A-Za-z0-9]{22,}", shop.api.headers["Api-Key"])


@pytest.fixture(scope="module")
def narrow_keys(server: Server, shop: Shop) -> dict[str, list[str]]:
    """Five keys and the scopes of each.

    Each scope is in a pair of keys of its own: a path that asks for the wrong scope opens to the wrong pair.
    """
    pairs = dict(zip(SCOPES, itertools.combinations(range(5), 2), strict=True))
    owned = [[scope for scope, pair in pairs.items() if number in pair] for number in range(5)]
    with ThreadPoolExecutor(2) as pool:
        keys = pool.map(lambda scopes: server.key(shop.account_id, *scopes), owned)
        return dict(zip(keys, owned, strict=True))


@pytest.mark.parametrize(("method", "path", "scope"), [row for row in PATHS if row[2]])
def test_a_path_opens_to_keys_with_its_scope_and_to_no_other(
    shop: Shop, merchant_id: str, narrow_keys: dict[str, list[str]], method: str, path: str, scope: str
) -> None:
    for key, scopes in narrow_keys.items():
        status, code = touch(shop.api.having(Api_Key=key), method, path, merchant_id)
        if scope in scopes:
            assert status not in (401, 403), (scopes, status, code)
        else:
            assert (status, code) == (403, "forbidden"), scopes


def test_a_merchant_outside_the_keys_list_is_forbidden(server: Server, shop: Shop, merchant_id: str) -> None:
    outside = shop.merchant("Outside")
    caller = shop.api.having(Api_Key=server.key(shop.account_id, merchants=[merchant_id]))
    ok(caller.get(f"/v1/merchants/{merchant_id}"))
    assert_refused(caller.get(f"/v1/merchants/{outside}"), 403, "forbidden")
    body = {"referenceId": "r", "amount": {"unit": "iso4217/USD", "value": "100"}}
    ok(caller.having(Merchant_Id=merchant_id).post("/v1/payments", body), 201)
    assert_refused(caller.having(Merchant_Id=outside).post("/v1/payments", body), 403, "forbidden")
    theirs = shop.payment(outside)
    assert theirs not in [item["paymentId"] for item in ok(caller.get("/v1/payments", limit=200))["data"]]
    assert outside not in [item["id"] for item in ok(caller.get("/v1/merchants", limit=100))["data"]]


def test_an_app_id_and_a_client_id_open_the_gateway_together(
    nobody: Caller, shop: Shop, merchant_id: str, app_id: str
) -> None:
    payment_id = shop.payment(merchant_id)
    wallet = nobody.having(App_Id=app_id, Client_Id="any")
    path = f"/v1/gateway/payment/{payment_id}"
    assert ok(wallet.get(path))["status"] == "requires_action"
    assert ok(wallet.post(f"{path}/options", [WALLET]))["options"]
    assert ok(wallet.get(f"{path}/status"))["status"] == "requires_action"
    assert re.fullmatch(r"app_t[A-Za-z0-9]{22,}", app_id)


@pytest.mark.parametrize(("method", "path", "scope"), [row for row in PATHS if row[2] == "gateway"])
def test_half_a_wallet_credential_is_named(
    nobody: Caller, app_id: str, method: str, path: str, scope: str
) -> None:
    assert_refused(nobody.having(App_Id=app_id).call(method, path), 401, "missing_client_id")
    assert_refused(nobody.having(Client_Id="any").call(method, path), 401, "missing_app_id")
    unknown = nobody.having(App_Id="app_t" + "0" * 36, Client_Id="any")
    assert_refused(unknown.call(method, path), 401, "invalid_app_id")


def test_a_key_and_an_app_id_at_once_conflict(shop: Shop, merchant_id: str, app_id: str) -> None:
    path = f"/v1/gateway/payment/{shop.payment(merchant_id)}/status"
    both = shop.api.having(App_Id=app_id, Client_Id="any")
    assert_refused(both.get(path), 400, "conflicting_auth_headers")


def test_an_app_id_opens_nothing_but_the_gateway(nobody: Caller, app_id: str) -> None:
    wallet = nobody.having(App_Id=app_id, Client_Id="any")
    for path in ("/v1/merchants", "/v1/payments", "/v1/events", "/v1/test/clock"):
        assert_refused(wallet.get(path), 401, "missing_api_key")


def test_a_key_of_another_account_may_act_on_a_payment_through_the_gateway(
    shop: Shop, other: Shop, merchant_id: str
) -> None:
    payment_id = shop.payment(merchant_id)
    assert ok(other.api.get(f"/v1/gateway/payment/{payment_id}/status"))["status"] == "requires_action"
    assert_refused(other.api.get(f"/v1/payments/{payment_id}"), 404, "payment_not_found")


@pytest.mark.parametrize("path", ["/v1/payments", "/v1/merchant/payment", "/v1/refunds"])
def test_a_body_needs_its_merchant_header(shop: Shop, other: Shop, path: str) -> None:
    body = {"referenceId": "r", "amount": {"unit": "iso4217/USD", "value": "100"}, "paymentId": PAYMENT}
    assert_refused(shop.api.post(path, body), 400, "missing_merchant_id")
    for stranger in ("mrch_" + "0" * 36, "nonsense", other.merchant()):
        assert_refused(shop.api.having(Merchant_Id=stranger).post(path, body), 404, "not_found")


@pytest.mark.parametrize("path", ["/v1/payments/{}/status", "/v1/merchant/payment/{}/status"])
def test_a_status_needs_the_merchant_of_its_payment(
    shop: Shop, other: Shop, merchant_id: str, path: str
) -> None:
    asked = path.format(shop.payment(merchant_id))
    assert_refused(shop.api.get(asked), 400, "missing_merchant_id")
    assert_refused(shop.api.having(Merchant_Id="mrch_" + "0" * 36).get(asked), 404, "not_found")
    assert_refused(shop.api.having(Merchant_Id=other.merchant()).get(asked), 404, "not_found")
    second = shop.merchant("Second")
    assert_refused(shop.api.having(Merchant_Id=second).get(asked), 404, "payment_not_found")


def test_a_merchant_header_where_it_is_optional_must_match(shop: Shop, merchant_id: str) -> None:
    payment_id = shop.payment(merchant_id)
    ok(shop.api.having(Merchant_Id=merchant_id).get(f"/v1/payments/{payment_id}"))
    second = shop.api.having(Merchant_Id=shop.merchant("Second"))
    assert_refused(second.get(f"/v1/payments/{payment_id}"), 404, "payment_not_found")
    assert_refused(second.post(f"/v1/payments/{payment_id}/cancel"), 404, "payment_not_found")
    assert shop.status_of(payment_id) == "requires_action"


@pytest.mark.parametrize("payment_id", [PAYMENT, "pay_tx", "pay_x", "nonsense", "pay_l" + "0" * 36])
def test_unknown_payments_cannot_be_told_from_malformed_ones(
    shop: Shop, merchant_id: str, payment_id: str
) -> None:
    asking = shop.api.having(Merchant_Id=merchant_id)
    for path in (f"/v1/payments/{payment_id}", f"/v1/payments/{payment_id}/status"):
        body = assert_refused(asking.get(path), 404, "payment_not_found")
        assert payment_id not in body["message"]
    assert_refused(asking.get(f"/v1/merchant/payment/{payment_id}/status"), 404, "payment_not_found")
    assert_refused(shop.api.get(f"/v1/gateway/payment/{payment_id}"), 404, "payment_not_found")
    assert_refused(shop.api.get(f"/v1/gateway/payment/{payment_id}/status"), 404, "payment_not_found")
    assert_refused(shop.api.post(f"/v1/gateway/payment/{payment_id}/options", []), 404, "payment_not_found")
