"""Payments over REST: creation on both paths, status, detail, cancel, refunds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import trio

from payd.core.event import iso_ms
from payd.entropy import new_id
from payd.web.payments import redirects
from payd.web.schema import CheckoutIn
from tests.shop import APPROVES, BUYER, SIGNATURE, USDC_BASE, WALLET, Got, Shop, open_shop

NEW: dict[str, Any] = {"referenceId": "ORDER-1", "amount": {"unit": "iso4217/USD", "value": "2500"}}
NEW_PATH, OLD_PATH = "/v1/payments", "/v1/merchant/payment"
PATHS = (NEW_PATH, OLD_PATH)


async def create(shop: Shop, body: Any = None, path: str = NEW_PATH, merchant: str = "") -> Got:
    return await shop.call("POST", path, body or NEW, merchant_id=merchant or shop.merchant_id)


async def detail(shop: Shop, payment: str) -> Any:
    found = await shop.call("GET", f"/v1/payments/{payment}")
    assert found.status == 200
    return found.body


def issue_of(found: Got) -> str:
    assert (found.status, found.code) == (400, "params_validation"), found.body
    (issue,) = found.body["issues"]
    return str(issue["field"])


# Creation


async def test_the_older_path_answers_in_its_words(shop: Shop) -> None:
    made = await create(shop, path=OLD_PATH)
    assert made.status == 201
    payment = made.body["paymentId"]
    assert re.fullmatch("pay_t[0-9a-z]{36}", payment)
    assert made.body == {
        "paymentId": payment,
        "gatewayUrl": f"https://pay.example/pay/{payment}",
        "status": "pending",
        "expiresAt": shop.realm.clock.now_ms() // 1000 + 900,
        "isFinal": False,
        "pollInMs": 1000,
    }


async def test_the_newer_path_names_id_and_link_twice(shop: Shop) -> None:
    made = await create(shop)
    assert made.status == 201
    assert made.body["status"] == "requires_action"
    assert made.body["id"] == made.body["paymentId"]
    assert made.body["url"] == made.body["gatewayUrl"]
    assert made.body.keys() == {
        "paymentId", "gatewayUrl", "status", "expiresAt", "isFinal", "pollInMs", "id", "url",
    }  # fmt: skip


async def test_links_are_made_from_configuration_and_never_from_a_header(shop: Shop) -> None:
    made = await shop.call(
        "POST",
        NEW_PATH,
        NEW,
        merchant_id=shop.merchant_id,
        host="evil.example",
        x_forwarded_host="evil.example",
        x_forwarded_proto="http",
    )
    assert made.body["gatewayUrl"].startswith("https://pay.example/pay/pay_t")


async def test_ids_are_not_guessable_from_one_another(shop: Shop) -> None:
    made = {(await create(shop)).body["paymentId"] for _ in range(20)}
    assert len({payment[-26:] for payment in made}) == 20


FINE_AMOUNTS = (
    ("iso4217/USD", "1"),
    ("iso4217/USD", "9" * 18),
    ("iso4217/JPY", "500"),
    ("iso4217/KWD", "1234"),
    ("iso4217/XAU", "3"),
)
DECIMALS = {"USD": 2, "JPY": 0, "KWD": 3, "XAU": 0}


async def test_amounts_are_minor_units_and_whole_units_where_a_currency_has_none(shop: Shop) -> None:
    for unit, value in FINE_AMOUNTS:
        payment = await shop.pay(unit=unit, value=value)
        amount = (await detail(shop, payment))["amount"]
        assert (amount["unit"], amount["value"]) == (unit, value)
        assert amount["display"]["decimals"] == DECIMALS[unit[-3:]]


async def test_what_is_asked_for_is_what_an_option_costs(shop: Shop) -> None:
    for unit, value, units in (
        ("iso4217/USD", "2500", 25_000_000),
        ("iso4217/KWD", "1000", 3_250_000),
        ("iso4217/JPY", "1000", 6_500_000),
    ):
        option = (await shop.options(await shop.pay(unit=unit, value=value)))[0]
        assert option["amount"]["value"] == str(units), unit


WRONG_VALUES: tuple[Any, ...] = (
    "0", "00", "01", "", "-1", "+1", "1.0", "1e3", " 1", "1 ", "1\n", "1" * 19, "0x10", "1_000",
    "١٢", "½", "NaN",
)  # fmt: skip
WRONG_UNITS: tuple[Any, ...] = (
    "USD", "iso4217/usd", "iso4217/XYZ", "iso4217/", "ISO4217/USD", "iso4217/USD ", "iso4217/ZWD",
    f"caip19/{USDC_BASE}", "",
)  # fmt: skip


async def test_amounts_that_are_none_are_refused_by_name_on_both_paths(shop: Shop) -> None:
    for path in PATHS:
        for value in WRONG_VALUES:
            found = await create(shop, NEW | {"amount": {"unit": "iso4217/USD", "value": value}}, path)
            assert issue_of(found) == "amount.value", value
        for unit in WRONG_UNITS:
            found = await create(shop, NEW | {"amount": {"unit": unit, "value": "1"}}, path)
            assert issue_of(found) == "amount.unit", unit
    assert (await shop.call("GET", NEW_PATH)).body["data"] == []


async def test_missing_and_mistyped_fields_are_named(shop: Shop) -> None:
    for body, field in (
        ({"amount": NEW["amount"]}, "referenceId"),
        ({"referenceId": "R"}, "amount"),
        (NEW | {"referenceId": None}, "referenceId"),
        (NEW | {"referenceId": 7}, "referenceId"),
        (NEW | {"amount": "25.00"}, "amount"),
        (NEW | {"amount": {"unit": "iso4217/USD"}}, "amount.value"),
        (NEW | {"amount": {"value": "1"}}, "amount.unit"),
        (NEW | {"amount": {"unit": "iso4217/USD", "value": 2500}}, "amount.value"),
        (NEW | {"amount": {"unit": "iso4217/USD", "value": 25.5}}, "amount.value"),
        (NEW | {"checkout": "https://a.example"}, "checkout"),
        (NEW | {"checkout": {"successUrl": 1}}, "checkout.successUrl"),
        (NEW | {"expiresAt": "2026-05-18T09:59:00Z"}, "expiresAt"),
        (NEW | {"expiresAt": 1.5}, "expiresAt"),
        (NEW | {"expiresAt": True}, "expiresAt"),
    ):
        for path in PATHS:
            assert issue_of(await create(shop, body, path)) == field, body


async def test_a_reference_is_returned_as_sent_and_need_not_be_unique(shop: Shop) -> None:
    for reference in (
        "x",
        "x" * 255,
        "Ordre nº 7 – crème brûlée",
        "<b>&'\"",
        "'; DROP TABLE payments",
        "🍰",
        " padded ",
    ):
        for _ in range(2):
            payment = await shop.pay(reference)
            assert (await detail(shop, payment))["referenceId"] == reference


async def test_a_reference_has_1_to_255_printable_characters(shop: Shop) -> None:
    for reference in ("", "x" * 256, "a\nb", "a\tb", "nul\0", "\u202edrowkcab", "\x7f", "a\u200bb"):
        assert issue_of(await create(shop, NEW | {"referenceId": reference})) == "referenceId", reference


async def test_expires_at_is_in_the_future_and_at_most_a_day_away(shop: Shop) -> None:
    now_s = shop.realm.clock.now_ms() // 1000
    for wanted in (now_s + 1, now_s + 24 * 3600):
        made = await create(shop, NEW | {"expiresAt": wanted})
        assert made.body["expiresAt"] == wanted
    for wanted in (now_s, now_s - 1, 0, -1, now_s + 24 * 3600 + 1, now_s * 1000, 10**30):
        for path in PATHS:
            found = await create(shop, NEW | {"expiresAt": wanted}, path)
            assert (found.status, found.code) == (400, "invalid_params"), wanted


async def test_an_end_that_the_test_clock_has_passed_is_refused_with_its_time(shop: Shop) -> None:
    """It stays moved: what is in the future for who asks may be over here."""
    now_s = shop.realm.clock.now_ms() // 1000
    found = await create(shop, NEW | {"expiresAt": now_s - 10})
    assert found.body["message"].endswith(f"; by the test clock it is {now_s}.")


async def test_the_default_lifetime_is_what_is_configured(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", PAYD_PAYMENTS_LIFETIME_S="120") as shop:
        made = await create(shop)
        assert made.body["expiresAt"] == shop.realm.clock.now_ms() // 1000 + 120


async def test_no_payment_lives_shorter_than_is_configured(shop: Shop) -> None:
    await trio.sleep(1 - shop.realm.clock.now_ms() % 1000 / 1000 + 0.5)
    made = await create(shop)
    assert 900_000 <= made.body["expiresAt"] * 1000 - shop.realm.clock.now_ms() < 901_000


GOOD = "https://shop.example/thanks?order=1#top"
NOT_HTTPS = (
    "http://shop.example/", "ftp://shop.example", "//shop.example", "shop.example",
    "javascript:alert(1)", "https:",
    "https://", "https:///x", "https:/shop.example", "HTTPS", "https://user:pw@shop.example/",
    "https://shop.example/a b",
    "https://shop.example\\@evil.example", "https://shop.example/\n", "https://?",
    "https://shop.example/" + "x" * 2048, "",
)  # fmt: skip


@pytest.mark.parametrize("bad", NOT_HTTPS)
def test_a_redirect_that_is_missing_or_not_https_disables_both(bad: str) -> None:
    for success, error in ((GOOD, bad), (bad, GOOD), (bad, bad), (GOOD, None), (None, GOOD), (None, None)):
        assert redirects(CheckoutIn(success, error)) is None


def test_two_https_redirects_are_kept_as_sent() -> None:
    kept = redirects(CheckoutIn(GOOD, "https://shop.example:8443"))
    assert kept is not None
    assert (kept.success_url, kept.error_url) == (GOOD, "https://shop.example:8443")
    assert redirects(None) is None


async def test_a_wrong_redirect_is_no_reason_to_refuse_a_payment(shop: Shop) -> None:
    for path in PATHS:
        for checkout in (
            {},
            {"successUrl": GOOD},
            {"successUrl": GOOD, "errorUrl": "http://x"},
            {"successUrl": None},
        ):
            made = await create(shop, NEW | {"checkout": checkout}, path)
            assert made.status == 201
            assert shop.realm.payments.find(made.body["paymentId"]).checkout is None
        made = await create(shop, NEW | {"checkout": {"successUrl": GOOD, "errorUrl": GOOD}}, path)
        assert shop.realm.payments.find(made.body["paymentId"]).checkout is not None


async def test_only_an_active_merchant_with_a_destination_can_be_paid(shop: Shop) -> None:
    bare = await shop.new_merchant(pays=False)
    found = await create(shop, merchant=bare)
    assert (found.status, found.code) == (400, "invalid_params")
    assert f"POST /v1/merchants/{bare}/settlements/crypto" in found.body["message"]

    for status in ("inactive", "suspended"):
        await shop.call("PATCH", f"/v1/merchants/{shop.merchant_id}", {"status": status})
        for path in PATHS:
            found = await create(shop, path=path)
            assert (found.status, found.code) == (400, "invalid_params")
            assert status in found.body["message"]
    await shop.call("PATCH", f"/v1/merchants/{shop.merchant_id}", {"status": "active"})
    assert (await create(shop)).status == 201


async def test_a_deleted_or_unknown_merchant_is_not_found(shop: Shop) -> None:
    gone = await shop.new_merchant()
    await shop.call("DELETE", f"/v1/merchants/{gone}")
    for merchant in (gone, new_id("mrch_", 0), "x"):
        for path in PATHS:
            found = await create(shop, path=path, merchant=merchant)
            assert (found.status, found.code) == (404, "not_found")
            assert "mode of this key" in found.body["message"]


# Status

WORDS = (
    # what happens, the word of the newer paths, the word of the older one, whether it is final
    (None, "requires_action", "pending", False),
    ("processing", "processing", "processing", False),
    ("succeeded", "succeeded", "succeeded", True),
    ("failed", "failed", "failed", True),
    ("expired", "expired", "expired", True),
    ("cancelled", "cancelled", "failed", True),
)


async def test_each_path_has_its_word_for_each_state(shop: Shop) -> None:
    for to, word, older, final in WORDS:
        payment = await shop.pay()
        if to is not None:
            await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": to})
        newer = await shop.call("GET", f"/v1/payments/{payment}/status", merchant_id=shop.merchant_id)
        old = await shop.call("GET", f"/v1/merchant/payment/{payment}/status", merchant_id=shop.merchant_id)
        assert newer.body.keys() == {"status", "isFinal", "pollInMs", "info"}
        assert (newer.body["status"], newer.body["isFinal"]) == (word, final)
        assert newer.body["pollInMs"] == (None if final else 1000)
        assert (newer.body["info"] is not None) == (to == "succeeded")
        assert old.body == {"status": older, "isFinal": final}
        assert (await detail(shop, payment))["status"] == word


async def test_a_succeeded_payment_says_how_it_was_paid(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    await shop.confirm(payment, option["id"], SIGNATURE, query="?maxPollMs=30000")
    found = await shop.call("GET", f"/v1/payments/{payment}/status", merchant_id=shop.merchant_id)
    assert found.body["info"]["txId"] == f"test:{payment}"
    amount = found.body["info"]["optionAmount"]
    assert (amount["unit"], amount["value"]) == (f"caip19/{USDC_BASE}", "25000000")
    assert amount["display"]["assetSymbol"] == "USDC"


# Detail


async def test_the_detail_has_every_field_from_the_start(shop: Shop) -> None:
    payment = await shop.pay()
    found = await detail(shop, payment)
    assert found.keys() >= {
        "status", "isFinal", "referenceId", "amount", "createdAt", "expiresAt", "info",
        "failureCode", "settlement", "transfers",
    }  # fmt: skip
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found["createdAt"])
    assert isinstance(found["expiresAt"], int)
    assert (found["info"], found["failureCode"], found["settlement"], found["transfers"]) == (
        None,
        None,
        None,
        [],
    )


async def test_the_detail_follows_a_payment_to_its_settlement(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    await shop.confirm(payment, option["id"], SIGNATURE)
    assert (await detail(shop, payment))["settlement"] is None
    await trio.sleep(1.5)
    found = await detail(shop, payment)
    assert found["settlement"] == {"settled": False, "amount": None, "txHash": None}
    (transfer,) = found["transfers"]
    assert transfer["txId"] == f"test:{payment}"
    assert (transfer["kind"], transfer["matched"], transfer["paymentId"]) == ("matched", True, payment)
    assert (transfer["from"], transfer["to"], transfer["chain"]) == (
        BUYER,
        f"eip155:8453:{WALLET}",
        "eip155:8453",
    )
    await trio.sleep(1.5)
    settled = (await detail(shop, payment))["settlement"]
    assert (settled["settled"], settled["txHash"], settled["amount"]["value"]) == (
        True,
        f"test:{payment}",
        "25000000",
    )


async def test_a_failed_payment_says_why(shop: Shop) -> None:
    payment = await shop.pay()
    await shop.call(
        "POST", f"/v1/test/payments/{payment}/simulate", {"to": "failed", "reason": "Node is down"}
    )
    found = await detail(shop, payment)
    assert (found["failureCode"], found["failureReason"]) == ("declined_user", "Node is down")
    assert found["cancellationReason"] is None


async def test_a_cancelled_payment_says_by_whom(shop: Shop) -> None:
    for door, who in (("gateway/payment", "cancelled_by_user"), ("payments", "cancelled_by_merchant")):
        payment = await shop.pay()
        await shop.call("POST", f"/v1/{door}/{payment}/cancel")
        assert (await detail(shop, payment))["cancellationReason"] == who


# Cancel


async def test_a_merchant_cancels_what_still_needs_action(shop: Shop) -> None:
    payment = await shop.pay()
    found = await shop.call("POST", f"/v1/payments/{payment}/cancel", {})
    assert found.status == 200
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found.body["cancelledAt"])
    assert found.body == {
        "paymentId": payment,
        "status": "cancelled",
        "cancelledReason": "cancelled_by_merchant",
        "cancelledAt": found.body["cancelledAt"],
    }


async def test_a_cancel_in_any_other_state_is_an_invalid_state(shop: Shop) -> None:
    for to, word, *_ in WORDS[1:]:
        payment = await shop.pay()
        await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": to})
        for path in (f"/v1/payments/{payment}/cancel", f"/v1/gateway/payment/{payment}/cancel"):
            found = await shop.call("POST", path, {})
            assert (found.status, found.code) == (400, "invalid_state"), word
        assert await shop.status(payment) == word


async def test_a_payment_expires_when_its_window_closes_and_not_before(shop: Shop) -> None:
    payment = await shop.pay()
    await trio.sleep(899)
    assert await shop.status(payment) == "requires_action"
    await trio.sleep(2)
    assert await shop.status(payment) == "expired"
    found = await shop.call("POST", f"/v1/payments/{payment}/cancel", {})
    assert (found.status, found.code) == (400, "invalid_state")


async def test_a_cancelled_payment_does_not_expire(shop: Shop) -> None:
    payment = await shop.pay()
    await shop.call("POST", f"/v1/payments/{payment}/cancel", {})
    await trio.sleep(1000)
    assert await shop.status(payment) == "cancelled"


async def test_a_cancel_at_the_last_moment_ends_in_one_of_the_two(shop: Shop) -> None:
    payment = await shop.pay(expiresAt=shop.realm.clock.now_ms() // 1000 + 10)
    await trio.sleep(10)
    await shop.call("POST", f"/v1/payments/{payment}/cancel", {})
    await trio.sleep(5)
    events = await shop.call("GET", f"/v1/events?paymentId={payment}")
    assert len(events.body["data"]) == 2
    assert events.body["data"][0]["type"] == f"payment.{await shop.status(payment)}"


# Refunds


async def paid(shop: Shop) -> str:
    payment = await shop.pay()
    await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": "succeeded"})
    return payment


async def refund(shop: Shop, body: Any, **more: str) -> Got:
    return await shop.call(
        "POST",
        "/v1/refunds",
        body,
        key=more.get("key", ""),
        merchant_id=more.get("merchant", shop.merchant_id),
    )


async def test_a_refund_is_recorded_once_for_a_payment_and_shown_with_it(shop: Shop) -> None:
    payment = await paid(shop)
    assert (await shop.call("GET", f"/v1/payments/{payment}")).body["refund"] is None
    made = await refund(shop, {"paymentId": payment, "txId": "test:abc", "note": "broken\ncup"})
    assert (made.status, made.body) == (200, {"paymentId": payment})
    again = await refund(shop, {"paymentId": payment})
    assert (again.status, again.code) == (409, "already_refunded")
    # Before a shop sends money back, it can ask whether somebody did.
    shown = (await shop.call("GET", f"/v1/payments/{payment}")).body["refund"]
    recorded_at = iso_ms(shop.realm.clock.now_ms())
    assert shown == {"txId": "test:abc", "note": "broken\ncup", "recordedAt": recorded_at}


async def test_only_a_succeeded_payment_is_refunded(shop: Shop) -> None:
    for to, *_ in WORDS:
        if to == "succeeded":
            continue
        payment = await shop.pay()
        if to is not None:
            await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": to})
        found = await refund(shop, {"paymentId": payment})
        assert (found.status, found.code) == (400, "payment_not_succeeded"), to


async def test_a_refund_names_a_payment_of_this_merchant(shop: Shop) -> None:
    payment, other = await paid(shop), await shop.new_merchant()
    for body, merchant in (
        ({"paymentId": payment}, other),
        ({"paymentId": new_id("pay_t", 0)}, shop.merchant_id),
        ({"paymentId": ""}, shop.merchant_id),
    ):
        found = await refund(shop, body, merchant=merchant)
        assert (found.status, found.code) == (404, "payment_not_found")
    theirs = await shop.new_merchant(key=shop.other_key)
    found = await refund(shop, {"paymentId": payment}, key=shop.other_key, merchant=theirs)
    assert (found.status, found.code) == (404, "payment_not_found")


async def test_a_refunds_fields_are_checked(shop: Shop) -> None:
    payment = await paid(shop)
    for more, field in (
        ({"txId": ""}, "txId"),
        ({"txId": "x" * 129}, "txId"),
        ({"txId": "a\nb"}, "txId"),
        ({"note": "x" * 1001}, "note"),
        ({"note": 1}, "note"),
    ):
        assert issue_of(await refund(shop, {"paymentId": payment} | more)) == field
    assert issue_of(await refund(shop, {})) == "paymentId"


async def test_the_magic_account_pays_as_any_other(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [APPROVES]))[0]
    assert (await shop.confirm(payment, option["id"], SIGNATURE)).body["status"] == "processing"
