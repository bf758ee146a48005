"""Payments as a merchant's backend sees them, on both paths.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"
"""

from __future__ import annotations

import re
import threading
import time
from typing import Any

import pytest

from tests.contract.outside import (
    ID_REST,
    ISO_MS,
    USDC,
    WALLET,
    Server,
    Shop,
    assert_misses_schema,
    assert_refused,
    fresh_buyer,
    magic_buyer,
    ok,
)

BOTH = ["/v1/payments", "/v1/merchant/payment"]
CREATED = {"paymentId", "gatewayUrl", "status", "expiresAt", "isFinal", "pollInMs"}
LIFETIME_S = 900


def good(**changes: Any) -> dict[str, Any]:
    """Return a body that creates a payment, changed at these fields."""
    return {"referenceId": "order-7", "amount": {"unit": "iso4217/USD", "value": "1250"}, **changes}


@pytest.mark.parametrize("path", BOTH)
def test_creation_answers_201_with_the_fields_of_the_pages(
    server: Server, shop: Shop, merchant_id: str, path: str
) -> None:
    now_s = shop.now_s()
    made = ok(shop.api.having(Merchant_Id=merchant_id).post(path, good()), 201)
    assert set(made) == CREATED | ({"id", "url"} if path == "/v1/payments" else set())
    assert re.fullmatch(f"pay_t{ID_REST}", made["paymentId"])
    assert made["gatewayUrl"].startswith(server.url + "/")
    assert made["status"] == ("requires_action" if path == "/v1/payments" else "pending")
    assert type(made["expiresAt"]) is int
    assert abs(made["expiresAt"] - (now_s + LIFETIME_S)) < 5
    assert made["isFinal"] is False
    assert type(made["pollInMs"]) is int
    assert made["pollInMs"] > 0
    if path == "/v1/payments":
        assert (made["id"], made["url"]) == (made["paymentId"], made["gatewayUrl"])


def test_links_begin_with_the_configured_address_whatever_the_host_header_says(
    server: Server, shop: Shop, merchant_id: str
) -> None:
    caller = shop.api.having(
        Merchant_Id=merchant_id,
        Host="evil.example",
        X_Forwarded_Host="evil.example",
        X_Forwarded_Proto="https",
    )
    assert ok(caller.post("/v1/payments", good()), 201)["gatewayUrl"].startswith(server.url + "/")


@pytest.mark.parametrize("path", BOTH)
@pytest.mark.parametrize("field", ["referenceId", "amount", "amount.unit", "amount.value"])
def test_a_missing_field_is_named(shop: Shop, merchant_id: str, path: str, field: str) -> None:
    body = good()
    outer, _, inner = field.partition(".")
    del (body[outer] if inner else body)[inner or outer]
    assert_misses_schema(shop.api.having(Merchant_Id=merchant_id).post(path, body), field.rpartition(".")[2])


@pytest.mark.parametrize(
    "value", ["", "0", "00", "01", "-1", "+1", "1.5", "1e3", " 1", "1 ", "abc", "1" * 19, "١", 1250, None]
)
def test_a_value_is_a_string_of_digits_that_says_something(
    shop: Shop, merchant_id: str, value: object
) -> None:
    body = good(amount={"unit": "iso4217/USD", "value": value})
    assert_misses_schema(shop.api.having(Merchant_Id=merchant_id).post("/v1/payments", body), "value")


@pytest.mark.parametrize("value", ["1", "9" * 18])
def test_a_value_has_up_to_18_digits(shop: Shop, merchant_id: str, value: str) -> None:
    payment_id = shop.payment(merchant_id, value=value)
    assert shop.detail(payment_id)["amount"]["value"] == value


@pytest.mark.parametrize(
    "unit", ["USD", "iso4217/", "iso4217/usd", "iso4217/US", "caip19/" + USDC, "", 7, None]
)
def test_a_unit_is_a_currency(shop: Shop, merchant_id: str, unit: object) -> None:
    body = good(amount={"unit": unit, "value": "100"})
    assert_misses_schema(shop.api.having(Merchant_Id=merchant_id).post("/v1/payments", body), "unit")


def test_a_currency_that_does_not_exist_is_refused(shop: Shop, merchant_id: str) -> None:
    body = good(amount={"unit": "iso4217/ZZZ", "value": "100"})
    answer = shop.api.having(Merchant_Id=merchant_id).post("/v1/payments", body)
    assert answer.status_code == 400
    assert answer.json()["code"] in ("params_validation", "invalid_params")


@pytest.mark.parametrize(("code", "decimals"), [("USD", 2), ("JPY", 0), ("KWD", 3), ("EUR", 2)])
def test_a_value_counts_minor_units_of_its_currency(
    shop: Shop, merchant_id: str, code: str, decimals: int
) -> None:
    payment_id = shop.payment(merchant_id, value="5000", unit=f"iso4217/{code}")
    path = f"/v1/gateway/payment/{payment_id}/options"
    info = ok(shop.api.post(path, [WALLET], includePaymentInfo="true"))["info"]
    assert (info["amount"]["unit"], info["amount"]["value"]) == (f"iso4217/{code}", "5000")
    assert info["amount"]["display"]["decimals"] == decimals
    assert info["amount"]["display"]["assetSymbol"] == code


@pytest.mark.parametrize(
    "reference",
    ["x", "é" * 255, "a b/c?d=é&\"'<>", "0", "\U0001f468\u200d\U0001f33e 7", "注文\u30007", "Nº\u00a07"],
)
def test_a_reference_comes_back_as_it_was_sent(shop: Shop, merchant_id: str, reference: str) -> None:
    for path in BOTH * 2:
        asking = shop.api.having(Merchant_Id=merchant_id)
        payment_id = ok(asking.post(path, good(referenceId=reference)), 201)["paymentId"]
        assert shop.detail(payment_id)["referenceId"] == reference


@pytest.mark.parametrize("reference", ["", "x" * 256, "a\nb", "a\x00b", "\x7f", "a\u202eb", 7, None])
def test_a_reference_has_1_to_255_printable_characters(
    shop: Shop, merchant_id: str, reference: object
) -> None:
    answer = shop.api.having(Merchant_Id=merchant_id).post("/v1/payments", good(referenceId=reference))
    assert_misses_schema(answer, "referenceId")


@pytest.mark.parametrize("path", BOTH)
def test_a_creator_may_choose_the_end_within_a_day(shop: Shop, merchant_id: str, path: str) -> None:
    asking = shop.api.having(Merchant_Id=merchant_id)
    now_s = int(shop.now_s())
    for ahead_s in (60, 24 * 3600 - 10):
        made = ok(asking.post(path, good(expiresAt=now_s + ahead_s)), 201)
        assert made["expiresAt"] == now_s + ahead_s
    for wrong in (now_s - 10, 0, now_s + 24 * 3600 + 60):
        answer = asking.post(path, good(expiresAt=wrong))
        assert (answer.status_code, answer.json()["code"]) in [
            (400, "invalid_params"),
            (400, "params_validation"),
        ]
    for malformed in ("soon", 1.5, str(now_s + 60)):
        assert_misses_schema(asking.post(path, good(expiresAt=malformed)), "expiresAt")


@pytest.mark.parametrize("path", BOTH)
@pytest.mark.parametrize(
    "checkout",
    [
        {"successUrl": "https://shop.example/ok", "errorUrl": "https://shop.example/no"},
        {"successUrl": "http://shop.example/ok", "errorUrl": "https://shop.example/no"},
        {"successUrl": "https://shop.example/ok"},
        {"successUrl": "nonsense", "errorUrl": ""},
        {},
    ],
)
def test_redirects_that_cannot_be_used_are_no_reason_to_refuse(
    shop: Shop, merchant_id: str, path: str, checkout: object
) -> None:
    made = ok(shop.api.having(Merchant_Id=merchant_id).post(path, good(checkout=checkout)), 201)
    assert shop.status_of(made["paymentId"]) == "requires_action"


def test_a_merchant_without_a_destination_is_told_what_to_do(shop: Shop) -> None:
    body = {"merchantName": "Bare", "merchantEmail": "bare@shop.example"}
    bare = ok(shop.api.once("/v1/merchants", body), 201)["merchant"]["id"]
    for path in BOTH:
        answer = shop.api.having(Merchant_Id=bare).post(path, good())
        message = assert_refused(answer, 400, "invalid_params")["message"]
        assert re.search("settlement|destination", message)


@pytest.mark.parametrize("path", BOTH)
def test_an_idempotency_key_is_honoured_though_not_required(shop: Shop, merchant_id: str, path: str) -> None:
    asking = shop.api.having(Merchant_Id=merchant_id)
    key = f"pay {path} {time.time()}"
    first = asking.once(path, good(), key)
    assert asking.once(path, good(), key).content == first.content
    assert first.status_code == 201
    assert_refused(asking.once(path, good(referenceId="another"), key), 409, "idempotency_conflict")
    assert_refused(asking.once(path, good(), "k" * 256), 400, "invalid_params")
    second_merchant = shop.api.having(Merchant_Id=shop.merchant())
    assert ok(second_merchant.once(path, good(), key), 201)["paymentId"] != ok(first, 201)["paymentId"]


def test_one_key_from_many_threads_creates_one_payment(shop: Shop, merchant_id: str) -> None:
    asking, key, seen = shop.api.having(Merchant_Id=merchant_id), f"race {time.time()}", list[Any]()

    def create() -> None:
        seen.append(asking.once("/v1/payments", good(), key))

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({ok(answer, 201)["paymentId"] for answer in seen}) == 1


def test_the_detail_has_the_fields_of_the_pages(shop: Shop, merchant_id: str) -> None:
    detail = shop.detail(shop.payment(merchant_id))
    names = "status isFinal referenceId amount createdAt expiresAt info failureCode settlement transfers"
    assert set(names.split()) <= set(detail)
    assert (detail["status"], detail["isFinal"], detail["referenceId"]) == (
        "requires_action",
        False,
        "order-1",
    )
    assert (detail["amount"]["unit"], detail["amount"]["value"]) == ("iso4217/USD", "1250")
    assert ISO_MS.fullmatch(detail["createdAt"])
    assert type(detail["expiresAt"]) is int
    assert detail["info"] is None
    assert detail["failureCode"] is None
    assert detail["transfers"] == []


def test_status_of_an_open_payment(shop: Shop, merchant_id: str) -> None:
    asking, payment_id = shop.api.having(Merchant_Id=merchant_id), shop.payment(merchant_id)
    body = ok(asking.get(f"/v1/payments/{payment_id}/status"))
    assert (body["status"], body["isFinal"]) == ("requires_action", False)
    assert type(body["pollInMs"]) is int
    assert body.get("info") is None
    older = ok(asking.get(f"/v1/merchant/payment/{payment_id}/status"))
    assert older == {"status": "pending", "isFinal": False}


def test_status_of_a_paid_payment_has_its_transaction(shop: Shop, merchant_id: str) -> None:
    asking, payment_id = shop.api.having(Merchant_Id=merchant_id), shop.payment(merchant_id)
    shop.pay(payment_id, magic_buyer(1))
    processing = ok(asking.get(f"/v1/payments/{payment_id}/status"))
    assert (processing["status"], processing["isFinal"]) == ("processing", False)
    assert type(processing["pollInMs"]) is int
    shop.advance("5s")
    body = ok(asking.get(f"/v1/payments/{payment_id}/status"))
    assert (body["status"], body["isFinal"], body["pollInMs"]) == ("succeeded", True, None)
    assert body["info"]["txId"] == f"test:{payment_id}"
    amount = body["info"]["optionAmount"]
    assert amount["unit"].lower() == f"caip19/{USDC}".lower()
    assert re.fullmatch(r"[1-9]\d*", amount["value"])
    older = ok(asking.get(f"/v1/merchant/payment/{payment_id}/status"))
    assert older == {"status": "succeeded", "isFinal": True}
    detail = shop.detail(payment_id)
    assert (detail["status"], detail["isFinal"]) == ("succeeded", True)
    assert detail["info"]["txId"] == f"test:{payment_id}"
    assert detail["settlement"]


@pytest.mark.parametrize(
    ("to", "word"), [("failed", "failed"), ("expired", "expired"), ("cancelled", "failed")]
)
def test_the_older_path_has_words_of_its_own(shop: Shop, merchant_id: str, to: str, word: str) -> None:
    asking, payment_id = shop.api.having(Merchant_Id=merchant_id), shop.payment(merchant_id)
    shop.simulate(payment_id, to)
    body = ok(asking.get(f"/v1/payments/{payment_id}/status"))
    assert (body["status"], body["isFinal"], body["pollInMs"]) == (to, True, None)
    older = ok(asking.get(f"/v1/merchant/payment/{payment_id}/status"))
    assert older == {"status": word, "isFinal": True}


STATUS_PATHS = ["/v1/payments/{}/status", "/v1/merchant/payment/{}/status", "/v1/gateway/payment/{}/status"]


@pytest.mark.parametrize("path", STATUS_PATHS)
def test_a_long_poll_ends_with_the_change_or_with_its_time(shop: Shop, merchant_id: str, path: str) -> None:
    asking, payment_id = shop.api.having(Merchant_Id=merchant_id), shop.payment(merchant_id)
    began = time.monotonic()
    assert ok(asking.get(path.format(payment_id), maxPollMs=200))["isFinal"] is False
    assert 0.2 <= time.monotonic() - began < 5
    timer = threading.Timer(0.2, shop.simulate, (payment_id, "failed"))
    timer.start()
    began = time.monotonic()
    assert ok(asking.get(path.format(payment_id), maxPollMs=15_000))["status"] == "failed"
    assert time.monotonic() - began < 5
    timer.join()
    began = time.monotonic()
    assert ok(asking.get(path.format(payment_id), maxPollMs=15_000))["isFinal"] is True
    assert time.monotonic() - began < 5


def test_a_payment_holds_four_polls_and_answers_more_at_once(shop: Shop, merchant_id: str) -> None:
    asking, payment_id = shop.api.having(Merchant_Id=merchant_id), shop.payment(merchant_id)
    path, took_s = f"/v1/payments/{payment_id}/status", list[float]()

    def poll() -> None:
        began = time.monotonic()
        ok(asking.get(path, maxPollMs=1500))
        took_s.append(time.monotonic() - began)

    threads = [threading.Thread(target=poll) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(seconds >= 1.5 for seconds in took_s) == 4


def test_a_wait_over_the_limit_is_clamped(shop: Shop, merchant_id: str) -> None:
    asking, payment_id = shop.api.having(Merchant_Id=merchant_id), shop.payment(merchant_id)
    shop.simulate(payment_id, "failed")
    assert ok(asking.get(f"/v1/payments/{payment_id}/status", maxPollMs=10**9))["status"] == "failed"


@pytest.mark.parametrize("path", STATUS_PATHS)
@pytest.mark.parametrize("wait", ["-1", "1.5", "soon", ""])
def test_a_wait_that_is_no_number_is_invalid_params(
    shop: Shop, merchant_id: str, path: str, wait: str
) -> None:
    asking, payment_id = shop.api.having(Merchant_Id=merchant_id), shop.payment(merchant_id)
    assert_refused(asking.get(path.format(payment_id), maxPollMs=wait), 400, "invalid_params")


@pytest.mark.parametrize("door", ["", "gateway/"])
def test_cancelling_answers_who_cancelled_and_when(shop: Shop, merchant_id: str, door: str) -> None:
    payment_id = shop.payment(merchant_id)
    path = f"/v1/{door}payment{'' if door else 's'}/{payment_id}/cancel"
    body = ok(shop.api.post(path))
    assert set(body) == {"paymentId", "status", "cancelledReason", "cancelledAt"}
    assert (body["paymentId"], body["status"]) == (payment_id, "cancelled")
    assert body["cancelledReason"] == ("cancelled_by_user" if door else "cancelled_by_merchant")
    assert ISO_MS.fullmatch(body["cancelledAt"])
    assert_refused(shop.api.post(path), 400, "invalid_state")
    assert shop.status_of(payment_id) == "cancelled"


@pytest.mark.parametrize("to", ["processing", "failed", "expired"])
def test_only_an_untouched_payment_can_be_cancelled(shop: Shop, merchant_id: str, to: str) -> None:
    payment_id = shop.payment(merchant_id)
    shop.simulate(payment_id, to)
    assert_refused(shop.api.post(f"/v1/payments/{payment_id}/cancel"), 400, "invalid_state")
    assert_refused(shop.api.post(f"/v1/gateway/payment/{payment_id}/cancel"), 400, "invalid_state")


def test_a_paid_payment_cannot_be_cancelled(shop: Shop, merchant_id: str) -> None:
    payment_id = shop.payment(merchant_id)
    shop.pay(payment_id, fresh_buyer())
    assert_refused(shop.api.post(f"/v1/payments/{payment_id}/cancel"), 400, "invalid_state")
