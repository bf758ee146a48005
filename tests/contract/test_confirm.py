"""Confirming a payment: what a wallet sends, and what it must not be able to break.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"
"""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tests.contract.outside import (
    ETHER,
    NESTED,
    SOLANA,
    SOLANA_USDC,
    SOLANA_WALLET,
    USDC,
    WALLET,
    Shop,
    assert_misses_schema,
    assert_refused,
    fresh_buyer,
    magic_buyer,
    ok,
)

SOLANA_BUYER = f"{SOLANA}:9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM"


def offer(shop: Shop, payment_id: str, account: str = "") -> tuple[str, list[Any]]:
    """Return an option's id and good results for it."""
    option = shop.options(payment_id, account or fresh_buyer())[0]
    return option["id"], shop.results(payment_id, option)


def test_good_results_start_processing(shop: Shop, merchant_id: str) -> None:
    payment_id = shop.payment(merchant_id)
    body = ok(shop.confirm(payment_id, *offer(shop, payment_id, magic_buyer(1))))
    assert (body["status"], body["isFinal"]) == ("processing", False)
    assert type(body["pollInMs"]) is int
    assert body["pollInMs"] > 0
    assert body.get("info") is None
    shop.advance("2s")
    assert shop.status_of(payment_id) == "succeeded"


@pytest.mark.parametrize(
    ("asset", "destination", "buyer"),
    [(USDC, WALLET, ""), (ETHER, WALLET, ""), (SOLANA_USDC, SOLANA_WALLET, SOLANA_BUYER)],
)
@pytest.mark.parametrize("unit", ["iso4217/USD", "iso4217/JPY", "iso4217/EUR"])
def test_every_kind_of_destination_can_be_paid(
    shop: Shop, asset: str, destination: str, buyer: str, unit: str
) -> None:
    payment_id = shop.payment(shop.merchant("Kind", (asset, destination)), unit=unit)
    assert ok(shop.confirm(payment_id, *offer(shop, payment_id, buyer)))["status"] == "processing"
    shop.advance("3s")
    assert shop.status_of(payment_id) == "succeeded"


def test_an_asset_of_no_table_has_6_decimals_and_can_be_paid(shop: Shop) -> None:
    asset = f"eip155:8453/erc20:0x{'ab' * 20}"
    payment_id = shop.payment(shop.merchant("Unknown", (asset, WALLET)))
    option = shop.options(payment_id, fresh_buyer())[0]
    assert option["amount"]["display"]["decimals"] == 6
    body = ok(shop.confirm(payment_id, option["id"], shop.results(payment_id, option)))
    assert body["status"] == "processing"


def test_a_long_poll_returns_with_what_comes_after_its_own_effect(shop: Shop, merchant_id: str) -> None:
    payment_id = shop.payment(merchant_id)
    option_id, results = offer(shop, payment_id)
    began = time.monotonic()
    # The simulated chain needs a second of its own time from the results to success.
    body = ok(shop.confirm(payment_id, option_id, results, maxPollMs=15_000))
    assert (body["status"], body["isFinal"]) == ("succeeded", True)
    assert body.get("pollInMs") is None
    assert body["info"]["txId"] == f"test:{payment_id}"
    assert 0.5 < time.monotonic() - began < 8


@pytest.mark.parametrize("wait", ["-1", "1.5", "soon"])
def test_a_wait_that_is_no_number_is_refused_before_anything_happens(
    shop: Shop, merchant_id: str, wait: str
) -> None:
    payment_id = shop.payment(merchant_id)
    assert_refused(shop.confirm(payment_id, *offer(shop, payment_id), maxPollMs=wait), 400, "invalid_params")
    assert shop.status_of(payment_id) == "requires_action"


def test_the_same_results_again_are_answered_with_the_current_status(shop: Shop, merchant_id: str) -> None:
    payment_id = shop.payment(merchant_id)
    option_id, results = offer(shop, payment_id)
    assert ok(shop.confirm(payment_id, option_id, results))["status"] == "processing"
    assert ok(shop.confirm(payment_id, option_id, results))["status"] in ("processing", "succeeded")
    shop.advance("5s")
    body = ok(shop.confirm(payment_id, option_id, results))
    assert (body["status"], body["isFinal"]) == ("succeeded", True)


def test_the_same_results_at_once_are_one_payment(shop: Shop, merchant_id: str) -> None:
    payment_id = shop.payment(merchant_id)
    option_id, results = offer(shop, payment_id)
    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda: answers.append(shop.confirm(payment_id, option_id, results)))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {ok(answer)["status"] for answer in answers} <= {"processing", "succeeded"}


def test_other_results_while_processing_or_succeeded_are_invalid_state(shop: Shop, merchant_id: str) -> None:
    payment_id = shop.payment(merchant_id)
    first, second = offer(shop, payment_id), offer(shop, payment_id)
    changed = [{"type": "walletRpc", "data": ["0x" + "22" * 64 + "1c"]}]
    ok(shop.confirm(payment_id, *first))
    for _ in range(2):
        assert_refused(shop.confirm(payment_id, *second), 400, "invalid_state")
        assert_refused(shop.confirm(payment_id, first[0], changed), 400, "invalid_state")
        shop.advance("5s")
    assert shop.status_of(payment_id) == "succeeded"


@pytest.mark.parametrize("to", ["cancelled", "failed"])
def test_confirming_a_closed_payment_tells_its_status(shop: Shop, merchant_id: str, to: str) -> None:
    payment_id = shop.payment(merchant_id)
    offered = offer(shop, payment_id)
    shop.simulate(payment_id, to)
    body = ok(shop.confirm(payment_id, *offered))
    assert (body["status"], body["isFinal"]) == (to, True)


@pytest.mark.parametrize("extra", [-1, 1])
def test_results_of_another_length_fail_the_payment(shop: Shop, merchant_id: str, extra: int) -> None:
    payment_id = shop.payment(merchant_id)
    option_id, results = offer(shop, payment_id)
    misaligned = results + results[:1] if extra > 0 else results[:-1]
    body = ok(shop.confirm(payment_id, option_id, misaligned))
    assert (body["status"], body["isFinal"]) == ("failed", True)
    assert shop.status_of(payment_id) == "failed"


def test_nobody_can_fail_a_payment_with_an_option_that_was_not_handed_out(
    shop: Shop, merchant_id: str
) -> None:
    payment_id, second = shop.payment(merchant_id), shop.payment(merchant_id)
    elsewhere = offer(shop, second)
    for option_id in ("opt_" + "0" * 36, "nonsense", elsewhere[0]):
        assert_refused(shop.confirm(payment_id, option_id, []), 400, "invalid_params")
        assert_refused(shop.confirm(payment_id, option_id, elsewhere[1] * 2), 400, "invalid_params")
    assert shop.status_of(payment_id) == "requires_action"


def test_a_refused_signature_leaves_the_payment_open(shop: Shop, merchant_id: str) -> None:
    payment_id = shop.payment(merchant_id)
    assert_refused(
        shop.confirm(payment_id, *offer(shop, payment_id, magic_buyer(2))), 422, "invalid_signature"
    )
    assert shop.status_of(payment_id) == "requires_action"
    assert ok(shop.confirm(payment_id, *offer(shop, payment_id)))["status"] == "processing"


@pytest.mark.parametrize(
    ("asset", "destination", "buyer", "datum"),
    [
        *[(USDC, WALLET, "", bad) for bad in ("0x1234", "0x" + "11" * 64, "0x" + "11" * 66, "", "zz")],
        *[(ETHER, WALLET, "", bad) for bad in ("0x" + "11" * 31, "0x" + "11" * 33, "0x" + "zz" * 32, "")],
        *[(SOLANA_USDC, SOLANA_WALLET, SOLANA_BUYER, bad) for bad in ("", "!!!!", "0x" + "11" * 65)],
    ],
)
def test_results_of_a_wrong_shape_leave_the_payment_open(
    shop: Shop, asset: str, destination: str, buyer: str, datum: str
) -> None:
    payment_id = shop.payment(shop.merchant("Shapes", (asset, destination)))
    option_id, results = offer(shop, payment_id, buyer)
    answer = shop.confirm(payment_id, option_id, [{"type": "walletRpc", "data": [datum]} for _ in results])
    assert (answer.status_code, answer.json().get("code")) in [
        (400, "invalid_params"),
        (422, "invalid_signature"),
    ]
    assert shop.status_of(payment_id) == "requires_action"


def test_a_body_that_misses_its_schema_leaves_the_payment_open(shop: Shop, merchant_id: str) -> None:
    payment_id = shop.payment(merchant_id)
    option_id, results = offer(shop, payment_id)
    path = f"/v1/gateway/payment/{payment_id}/confirm"
    assert_misses_schema(shop.api.post(path, {"results": results}), "optionId")
    assert_misses_schema(shop.api.post(path, {"optionId": option_id}), "results")
    malformed: list[Any] = [None, "x", {}, [7], [{"type": "walletRpc"}], [{"type": "other", "data": ["0x"]}]]
    for wrong in malformed:
        answer = shop.api.post(path, {"optionId": option_id, "results": wrong})
        assert_refused(answer, 400, "params_validation")
    assert shop.status_of(payment_id) == "requires_action"


def test_confirm_accepts_both_versions(shop: Shop, merchant_id: str) -> None:
    payment_id = shop.payment(merchant_id)
    option_id, results = offer(shop, payment_id)
    preview = shop.api.having(Service_Version=NESTED)
    body = {"optionId": option_id, "results": results, "collectedData": None}
    answer = preview.post(f"/v1/gateway/payment/{payment_id}/confirm", body)
    assert ok(answer)["status"] == "processing"


def test_a_stale_quote_is_refused_until_asked_again(shop: Shop) -> None:
    merchant_id = shop.merchant("Volatile", (ETHER, WALLET))
    payment_id = shop.payment(merchant_id, expiresAt=int(shop.now_s()) + 20 * 3600)
    buyer = fresh_buyer()
    option = shop.options(payment_id, buyer)[0]
    assert type(option["expiresAt"]) is int
    results = shop.results(payment_id, option)
    shop.advance(f"{int(option['expiresAt'] - shop.now_s()) + 300}s")
    assert_refused(shop.confirm(payment_id, option["id"], results), 400, "quote_expired")
    assert shop.status_of(payment_id) == "requires_action"
    again = shop.options(payment_id, buyer)[0]
    assert again["id"] == option["id"]
    assert again["expiresAt"] > option["expiresAt"]
    body = ok(shop.confirm(payment_id, again["id"], shop.results(payment_id, again)))
    assert body["status"] == "processing"


def test_a_route_that_is_gone_is_refused_as_expired(shop: Shop) -> None:
    merchant_id = shop.merchant("Moving")
    payment_id = shop.payment(merchant_id)
    offered = offer(shop, payment_id)
    path = f"/v1/merchants/{merchant_id}/settlements"
    gone = ok(shop.api.get(path))["crypto"][0]["id"]
    ok(shop.api.delete(f"{path}/crypto/{gone}"))
    assert_refused(shop.confirm(payment_id, *offered), 409, "route_expired")
    assert shop.status_of(payment_id) == "requires_action"
    assert not shop.options(payment_id, fresh_buyer())


def test_buyer_4_stays_processing_until_its_window_closes(shop: Shop, merchant_id: str) -> None:
    payment_id, simulated = shop.payment(merchant_id), shop.payment(merchant_id)
    for number in (payment_id, simulated):
        assert shop.pay(number, magic_buyer(4))["status"] == "processing"
    shop.advance("29m")
    assert shop.status_of(payment_id) == "processing"
    shop.simulate(simulated, "succeeded")
    assert shop.status_of(simulated) == "succeeded"
    shop.advance("2m")
    assert shop.status_of(payment_id) == "expired"


def test_buyer_5_settles_a_minute_late(shop: Shop, merchant_id: str) -> None:
    payment_id = shop.payment(merchant_id)
    shop.pay(payment_id, magic_buyer(5))
    shop.advance("30s")
    assert shop.detail(payment_id)["status"] == "succeeded"
    reference = {"merchantId": merchant_id, "limit": 1}
    assert ok(shop.api.get("/v1/payments", **reference))["data"][0]["settledAt"] is None
    shop.advance("60s")
    assert ok(shop.api.get("/v1/payments", **reference))["data"][0]["settledAt"] is not None


def test_a_solana_twin_is_magic_too(shop: Shop) -> None:
    payment_id = shop.payment(shop.merchant("Twin", (SOLANA_USDC, SOLANA_WALLET)))
    twin = f"{SOLANA}:{'1' * 31}3"
    assert_refused(shop.confirm(payment_id, *offer(shop, payment_id, twin)), 422, "invalid_signature")
    assert shop.status_of(payment_id) == "requires_action"
