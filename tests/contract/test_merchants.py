"""Merchants, as an account manages them.

Source: SPEC.md, "Merchant"
"""

from __future__ import annotations

import re
from secrets import token_hex
from typing import Any

import pytest

from tests.contract.outside import ID_REST, ISO_MS, Shop, assert_misses_schema, assert_refused, ok

GOOD = {"merchantName": "Kiosk", "merchantEmail": "kiosk@shop.example"}


def one(answer: Any) -> Any:
    """Return the merchant of an answer, which creation wraps in `merchant`."""
    body = ok(answer)
    return body.get("merchant", body)


def test_creation_answers_201_with_the_merchant(shop: Shop) -> None:
    made = ok(shop.api.once("/v1/merchants", GOOD), 201)["merchant"]
    assert re.fullmatch(f"mrch_{ID_REST}", made["id"])
    assert (made["name"], made["email"], made["status"]) == ("Kiosk", "kiosk@shop.example", "active")
    assert ISO_MS.fullmatch(made["createdAt"])


def test_an_icon_must_be_https(shop: Shop) -> None:
    icon = "https://shop.example/icon.png"
    made = ok(shop.api.once("/v1/merchants", {**GOOD, "iconUrl": icon}), 201)["merchant"]
    assert made["iconUrl"] == icon
    for bad in ("http://shop.example/icon.png", "icon.png", 7):
        assert_misses_schema(shop.api.once("/v1/merchants", {**GOOD, "iconUrl": bad}), "iconUrl")


def test_a_name_has_1_to_256_characters(shop: Shop) -> None:
    for name in ("x", "é" * 256):
        body = ok(shop.api.once("/v1/merchants", {**GOOD, "merchantName": name}), 201)
        assert body["merchant"]["name"] == name
    for bad in ("", "x" * 257, 7, None, ["x"]):
        assert_misses_schema(shop.api.once("/v1/merchants", {**GOOD, "merchantName": bad}), "merchantName")


@pytest.mark.parametrize("field", ["merchantName", "merchantEmail"])
def test_a_missing_field_is_named(shop: Shop, field: str) -> None:
    body = {name: value for name, value in GOOD.items() if name != field}
    assert_misses_schema(shop.api.once("/v1/merchants", body), field)


@pytest.mark.parametrize("email", ["", "nobody", "a@", "@b", "a b@c.example", 7, None])
def test_an_address_that_is_no_address_is_refused(shop: Shop, email: object) -> None:
    assert_misses_schema(shop.api.once("/v1/merchants", {**GOOD, "merchantEmail": email}), "merchantEmail")


def test_fields_that_nobody_knows_do_no_harm(shop: Shop) -> None:
    made = ok(shop.api.once("/v1/merchants", {**GOOD, "colour": "red"}), 201)["merchant"]
    assert made["name"] == GOOD["merchantName"]


def test_creation_needs_an_idempotency_key_of_at_most_255_characters(shop: Shop) -> None:
    assert_refused(shop.api.post("/v1/merchants", GOOD), 400, "missing_idempotency_key")
    ok(shop.api.once("/v1/merchants", GOOD, "k" * 255), 201)
    assert_refused(shop.api.once("/v1/merchants", GOOD, "k" * 256), 400, "invalid_params")


def test_the_same_key_and_body_return_the_original_result(shop: Shop) -> None:
    first = shop.api.once("/v1/merchants", GOOD, "again")
    before = ok(shop.api.get("/v1/merchants"))["totalCount"]
    second = shop.api.once("/v1/merchants", GOOD, "again")
    assert ok(second, 201) == ok(first, 201)
    assert second.content == first.content
    assert ok(shop.api.get("/v1/merchants"))["totalCount"] == before


def test_the_same_key_with_another_body_conflicts(shop: Shop) -> None:
    ok(shop.api.once("/v1/merchants", GOOD, "other body"), 201)
    changed = {**GOOD, "merchantName": "Another"}
    assert_refused(shop.api.once("/v1/merchants", changed, "other body"), 409, "idempotency_conflict")


def test_keys_of_two_accounts_do_not_meet(shop: Shop, other: Shop) -> None:
    mine = ok(shop.api.once("/v1/merchants", GOOD, "shared"), 201)
    theirs = ok(other.api.once("/v1/merchants", {**GOOD, "merchantName": "Theirs"}, "shared"), 201)
    assert mine["merchant"]["id"] != theirs["merchant"]["id"]


def test_a_list_has_its_items_twice_and_counts_them(shop: Shop) -> None:
    shop.merchant("Listed")
    body = ok(shop.api.get("/v1/merchants", limit=100))
    assert set(body) == {"data", "merchants", "totalCount", "nextCursor"}
    assert body["data"] == body["merchants"]
    assert isinstance(body["totalCount"], int)
    for item in body["data"]:
        assert {"id", "name", "email", "status", "createdAt"} <= set(item)
        assert ISO_MS.fullmatch(item["createdAt"])


def test_pages_of_merchants_meet_without_gap_or_overlap(shop: Shop) -> None:
    word = f"Paged{token_hex(4)}"  # by another door the same test has the same shop
    made = {shop.merchant(f"{word} {number}") for number in range(5)}
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = ok(shop.api.get("/v1/merchants", search=word, limit=2, **cursor))
        assert len(page["data"]) <= 2
        seen += [item["id"] for item in page["data"]]
        if page["nextCursor"] is None:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert len(seen) == len(set(seen))
    assert set(seen) == made


def test_a_page_has_20_merchants_unless_told(other: Shop) -> None:
    for number in range(21):
        ok(other.api.once("/v1/merchants", {**GOOD, "merchantName": f"Many {number}"}), 201)
    page = ok(other.api.get("/v1/merchants"))
    assert len(page["data"]) == 20
    assert page["totalCount"] >= 21
    assert isinstance(page["nextCursor"], str)


@pytest.mark.parametrize(
    "query", [{"limit": 0}, {"limit": 101}, {"limit": "x"}, {"status": "gone"}, {"cursor": "nonsense"}]
)
def test_a_query_that_makes_no_sense_is_invalid_params(shop: Shop, query: dict[str, Any]) -> None:
    assert_refused(shop.api.get("/v1/merchants", **query), 400, "invalid_params")


def test_merchants_are_found_by_status_and_by_words(shop: Shop) -> None:
    word = f"zanzibar{token_hex(4)}"
    needle = shop.merchant(f"{word.title()} spices")
    found = ok(shop.api.get("/v1/merchants", search=word))["data"]
    assert [item["id"] for item in found] == [needle]
    assert needle in [m["id"] for m in ok(shop.api.get("/v1/merchants", status="active", limit=100))["data"]]
    inactive = ok(shop.api.get("/v1/merchants", status="inactive", limit=100))["data"]
    assert needle not in [m["id"] for m in inactive]


def test_a_merchant_is_read_and_changed_by_its_id(shop: Shop) -> None:
    merchant_id = shop.merchant("Before")
    path = f"/v1/merchants/{merchant_id}"
    assert one(shop.api.get(path))["name"] == "Before"
    changed = one(shop.api.patch(path, {"merchantName": "After"}))
    assert (changed["id"], changed["name"], changed["email"]) == (merchant_id, "After", "till@shop.example")
    assert one(shop.api.patch(path, {"merchantEmail": "new@shop.example"}))["email"] == "new@shop.example"
    assert one(shop.api.get(path))["name"] == "After"


@pytest.mark.parametrize("status", ["inactive", "suspended"])
def test_a_merchant_may_rest_and_come_back(shop: Shop, status: str) -> None:
    merchant_id = shop.merchant("Resting")
    path = f"/v1/merchants/{merchant_id}"
    assert one(shop.api.patch(path, {"status": status}))["status"] == status
    found = ok(shop.api.get("/v1/merchants", status=status, search="Resting"))["data"]
    assert merchant_id in [item["id"] for item in found]
    assert one(shop.api.patch(path, {"status": "active"}))["status"] == "active"
    assert_misses_schema(shop.api.patch(path, {"status": "gone"}), "status")


def test_a_change_has_at_least_one_good_field(shop: Shop) -> None:
    path = f"/v1/merchants/{shop.merchant()}"
    assert_refused(shop.api.patch(path, {}), 400, "params_validation")
    assert_misses_schema(shop.api.patch(path, {"merchantName": ""}), "merchantName")
    assert_misses_schema(shop.api.patch(path, {"merchantEmail": "nobody"}), "merchantEmail")


def test_a_deleted_merchant_is_gone_and_stays_gone(shop: Shop) -> None:
    merchant_id = shop.merchant("Leaving")
    path = f"/v1/merchants/{merchant_id}"
    assert ok(shop.api.delete(path)) == {"id": merchant_id, "deleted": True}
    assert ok(shop.api.delete(path)) == {"id": merchant_id, "deleted": True}
    assert_refused(shop.api.get(path), 404, "not_found")
    assert_refused(shop.api.patch(path, {"merchantName": "Back"}), 404, "not_found")
    assert ok(shop.api.get("/v1/merchants", search="Leaving"))["data"] == []
    body = {"referenceId": "r", "amount": {"unit": "iso4217/USD", "value": "100"}}
    assert_refused(shop.api.having(Merchant_Id=merchant_id).post("/v1/payments", body), 404, "not_found")


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_a_merchant_of_nobody_or_of_another_account_is_not_found(
    shop: Shop, other: Shop, method: str
) -> None:
    body = {"merchantName": "Mine now"} if method == "PATCH" else ...
    for stranger in ("mrch_" + "0" * 36, "nonsense", other.merchant()):
        assert_refused(shop.api.call(method, f"/v1/merchants/{stranger}", body), 404, "not_found")
