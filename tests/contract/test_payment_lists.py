"""Finding payments again, transfers that belong to none, and refunds.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.contract.outside import (
    ETHER,
    ISO_MS,
    USDC,
    WALLET,
    Shop,
    assert_misses_schema,
    assert_refused,
    magic_buyer,
    ok,
)

ITEM = {
    "paymentId",
    "merchant",
    "referenceId",
    "status",
    "isTerminal",
    "createdAt",
    "lastUpdatedAt",
    "fiatAmount",
    "tokenAmount",
    "buyer",
    "transaction",
    "fees",
    "settlement",
    "settledAt",
}


@pytest.fixture(scope="module")
def stock(shop: Shop) -> dict[str, str]:
    """Payments of one merchant in every state, by name; `settled` is the oldest."""
    merchant_id = shop.merchant("Stock", (USDC, WALLET), (ETHER, WALLET))
    names = ["settled", "failed", "expired", "cancelled", "processing", "open"]
    made = {"merchant": merchant_id}
    for number, name in enumerate(names):
        value = str(100 * (number + 1))
        made[name] = shop.payment(merchant_id, value=value, referenceId=f"stock/{name}")
        shop.advance("1s")
        if name == "settled":
            offered = [o for o in shop.options(made[name], magic_buyer(1)) if "erc20" in o["amount"]["unit"]]
            results = shop.results(made[name], offered[0])
            ok(shop.confirm(made[name], offered[0]["id"], results))
            shop.advance("5s")
        elif name == "processing" or name != "open":
            shop.simulate(made[name], name)
    return made


def listed(shop: Shop, stock: dict[str, str], **query: Any) -> list[str]:
    """Return the names of the stock's payments that a query finds, in its order."""
    page = ok(shop.api.get("/v1/payments", **{"merchantId": stock["merchant"], "limit": 200, **query}))
    assert set(page) == {"data", "nextCursor"}
    names = {payment_id: name for name, payment_id in stock.items()}
    return [names[item["paymentId"]] for item in page["data"]]


def item_of(shop: Shop, stock: dict[str, str], name: str) -> Any:
    page = ok(shop.api.get("/v1/payments", referenceId=f"stock/{name}", merchantId=stock["merchant"]))
    return page["data"][0]


def test_an_item_has_the_fields_of_the_pages(shop: Shop, stock: dict[str, str]) -> None:
    item = item_of(shop, stock, "open")
    assert set(item) >= ITEM
    assert item["merchant"] == {"id": stock["merchant"], "name": "Stock", "iconUrl": None}
    assert (item["referenceId"], item["status"]) == ("stock/open", "requires_action")
    assert item["isTerminal"] is False
    assert ISO_MS.fullmatch(item["createdAt"])
    assert ISO_MS.fullmatch(item["lastUpdatedAt"])
    assert (item["fiatAmount"]["unit"], item["fiatAmount"]["value"]) == ("iso4217/USD", "600")
    for name in ("tokenAmount", "buyer", "transaction", "settledAt"):
        assert item[name] is None


def test_a_settled_item_says_what_arrived(shop: Shop, stock: dict[str, str]) -> None:
    item = item_of(shop, stock, "settled")
    assert (item["status"], item["isTerminal"]) == ("succeeded", True)
    assert item["tokenAmount"]["unit"].lower() == f"caip19/{USDC}".lower()
    assert item["buyer"]
    assert item["transaction"]
    assert {"settled", "amount", "txHash"} <= set(item["settlement"])
    assert item["settlement"]["settled"] is True
    assert item["settlement"]["txHash"] == f"test:{stock['settled']}"
    assert item["settlement"]["amount"]["unit"].lower() == f"caip19/{USDC}".lower()
    assert ISO_MS.fullmatch(item["settledAt"])
    assert item["lastUpdatedAt"] >= item["createdAt"]


@pytest.mark.parametrize("name", ["failed", "expired", "cancelled"])
def test_a_final_item_says_so(shop: Shop, stock: dict[str, str], name: str) -> None:
    item = item_of(shop, stock, name)
    assert (item["status"], item["isTerminal"], item["settledAt"]) == (name, True, None)


def test_the_newest_come_first_unless_told(shop: Shop, stock: dict[str, str]) -> None:
    newest = ["open", "processing", "cancelled", "expired", "failed", "settled"]
    assert listed(shop, stock) == newest
    assert listed(shop, stock, sortBy="date", sortDir="desc") == newest
    assert listed(shop, stock, sortBy="date", sortDir="asc") == newest[::-1]


def test_amounts_of_one_currency_can_be_sorted(shop: Shop, stock: dict[str, str]) -> None:
    rising = ["settled", "failed", "expired", "cancelled", "processing", "open"]
    assert listed(shop, stock, sortBy="amount", currency="USD", sortDir="asc") == rising
    assert listed(shop, stock, sortBy="amount", currency="USD", sortDir="desc") == rising[::-1]
    assert listed(shop, stock, sortBy="amount", currency="JPY") == []
    assert_refused(shop.api.get("/v1/payments", sortBy="amount"), 400, "invalid_params")


def test_statuses_and_merchants_can_be_named_more_than_once(shop: Shop, stock: dict[str, str]) -> None:
    assert listed(shop, stock, status="failed") == ["failed"]
    assert listed(shop, stock, status=["failed", "expired"]) == ["expired", "failed"]
    assert listed(shop, stock, status="succeeded") == ["settled"]
    assert listed(shop, stock, status="requires_action") == ["open"]
    second = shop.merchant("Second stock")
    extra = shop.payment(second)
    page = ok(shop.api.get("/v1/payments", merchantId=[second, stock["merchant"]], limit=200))
    assert page["data"][0]["paymentId"] == extra
    assert len(page["data"]) == len(stock)


def test_payments_are_found_by_what_they_were_paid_with(shop: Shop, stock: dict[str, str]) -> None:
    assert "settled" in listed(shop, stock, asset=USDC)
    assert "settled" not in listed(shop, stock, asset=ETHER)
    assert "settled" in listed(shop, stock, network="eip155:8453")
    assert listed(shop, stock, network="eip155:1") == []


def test_a_reference_is_found_by_how_it_begins(shop: Shop, stock: dict[str, str]) -> None:
    assert listed(shop, stock, referenceId="stock/e") == ["expired"]
    assert len(listed(shop, stock, referenceId="stock/")) == 6
    assert listed(shop, stock, referenceId="%") == []
    assert listed(shop, stock, referenceId="tock/") == []


def test_a_span_includes_its_start_and_excludes_its_end(shop: Shop, stock: dict[str, str]) -> None:
    created = {name: item_of(shop, stock, name)["createdAt"] for name in ("failed", "cancelled")}
    span = {"startTs": created["failed"], "endTs": created["cancelled"]}
    assert listed(shop, stock, **span) == ["expired", "failed"]


@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize("order", [{"sortBy": "date"}, {"sortBy": "amount", "currency": "USD"}])
def test_pages_meet_without_gap_or_overlap(
    shop: Shop, stock: dict[str, str], direction: str, order: dict[str, str]
) -> None:
    whole = listed(shop, stock, sortDir=direction, **order)
    query: dict[str, Any] = {"merchantId": stock["merchant"], "sortDir": direction, **order, "limit": 2}
    seen: list[str] = []
    while True:
        page = ok(shop.api.get("/v1/payments", **query))
        seen += [item["paymentId"] for item in page["data"]]
        if page["nextCursor"] is None:
            break
        query["cursor"] = page["nextCursor"]
    assert seen == [stock[name] for name in whole]


def test_a_page_has_50_payments_unless_told(other: Shop) -> None:
    merchant_id = other.merchant()
    for _ in range(51):
        other.payment(merchant_id)
    page = ok(other.api.get("/v1/payments", merchantId=merchant_id))
    assert len(page["data"]) == 50
    assert isinstance(page["nextCursor"], str)
    rest = ok(other.api.get("/v1/payments", merchantId=merchant_id, cursor=page["nextCursor"]))
    assert (len(rest["data"]), rest["nextCursor"]) == (1, None)


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 0},
        {"limit": 201},
        {"limit": "x"},
        {"status": "settled"},
        {"sortBy": "name"},
        {"sortDir": "up"},
        {"cursor": "nonsense"},
        {"startTs": "yesterday"},
        {"asset": "usdc"},
        {"network": "base"},
    ],
)
def test_a_query_that_makes_no_sense_is_invalid_params(shop: Shop, query: dict[str, Any]) -> None:
    assert_refused(shop.api.get("/v1/payments", **query), 400, "invalid_params")


def test_payments_of_another_account_are_not_listed(shop: Shop, other: Shop, stock: dict[str, str]) -> None:
    seen = ok(other.api.get("/v1/payments", limit=200))["data"]
    assert not set(stock.values()) & {item["paymentId"] for item in seen}
    answer = other.api.get("/v1/payments", merchantId=stock["merchant"])
    assert answer.status_code == 404 or ok(answer)["data"] == []


def test_transfers_that_match_nothing_are_listed(shop: Shop) -> None:
    assert ok(shop.api.get("/v1/transfers", matched="false"))["data"] == []


def test_a_refund_is_recorded_once(shop: Shop, merchant_id: str) -> None:
    payment_id = shop.payment(merchant_id)
    shop.simulate(payment_id, "processing")
    shop.simulate(payment_id, "succeeded")
    asking = shop.api.having(Merchant_Id=merchant_id)
    body = {"paymentId": payment_id, "note": "came back"}
    assert ok(asking.post("/v1/refunds", body)) == {"paymentId": payment_id}
    assert_refused(asking.post("/v1/refunds", body), 409, "already_refunded")
    assert shop.status_of(payment_id) == "succeeded"


def test_a_refund_that_names_a_transaction_is_checked_on_chain(shop: Shop, merchant_id: str) -> None:
    payment_id = shop.payment(merchant_id)
    shop.pay(payment_id, magic_buyer(1))
    shop.advance("5s")
    body = {"paymentId": payment_id, "txId": "no transaction of any chain"}
    answer = shop.api.having(Merchant_Id=merchant_id).post("/v1/refunds", body)
    assert 400 <= answer.status_code < 500


@pytest.mark.parametrize("name", ["open", "processing", "failed", "expired", "cancelled"])
def test_only_a_succeeded_payment_can_be_refunded(shop: Shop, stock: dict[str, str], name: str) -> None:
    asking = shop.api.having(Merchant_Id=stock["merchant"])
    assert_refused(asking.post("/v1/refunds", {"paymentId": stock[name]}), 400, "payment_not_succeeded")


def test_a_refund_names_a_payment_of_its_merchant(shop: Shop, stock: dict[str, str]) -> None:
    asking = shop.api.having(Merchant_Id=stock["merchant"])
    assert_misses_schema(asking.post("/v1/refunds", {}), "paymentId")
    assert_misses_schema(asking.post("/v1/refunds", {"paymentId": 7}), "paymentId")
    assert_refused(asking.post("/v1/refunds", {"paymentId": "pay_t" + "0" * 36}), 404, "payment_not_found")
    elsewhere = shop.api.having(Merchant_Id=shop.merchant())
    assert_refused(elsewhere.post("/v1/refunds", {"paymentId": stock["settled"]}), 404, "payment_not_found")
    ghost = f"pay_t{os.urandom(18).hex()}"
    assert_refused(asking.post("/v1/refunds", {"paymentId": ghost}), 404, "payment_not_found")
