"""Merchants over REST: every rule of creating, listing, changing and taking away."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from typing import Any
from urllib.parse import quote

import pytest
import trio

from payd.entropy import new_id
from payd.store.audit import list_audit
from payd.store.db import Tx
from payd.store.origins import list_origins, replace_origins
from tests.shop import ETH_BASE, WALLET, Got, Shop

NEW = {"merchantName": "Café Größe", "merchantEmail": "shop@example.com"}
ISO_MS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


async def create(shop: Shop, body: Any = None, *, key: str = "") -> Got:
    return await shop.call("POST", "/v1/merchants", body or NEW, key=key, idempotency_key=new_id("k", 0))


def issues_of(found: Got) -> set[str]:
    assert (found.status, found.code) == (400, "params_validation"), found.body
    return {issue["field"] for issue in found.body["issues"]}


async def test_a_new_merchant_is_active_and_echoes_what_was_sent(shop: Shop) -> None:
    made = await create(shop, NEW | {"iconUrl": "https://shop.example/icon.png"})
    assert made.status == 201
    merchant = made.body["merchant"]
    assert re.fullmatch("mrch_[0-9a-z]{36}", merchant["id"])
    assert ISO_MS.fullmatch(merchant["createdAt"])
    assert merchant == {
        "id": merchant["id"],
        "name": NEW["merchantName"],
        "email": NEW["merchantEmail"],
        "status": "active",
        "iconUrl": "https://shop.example/icon.png",
        "createdAt": merchant["createdAt"],
        "collect": [],
        "checkoutOrigins": [],
        "logo": {"state": "copying", "url": None, "problem": None},
    }


async def test_a_merchant_without_an_icon_says_null(shop: Shop) -> None:
    assert (await create(shop)).body["merchant"]["iconUrl"] is None


async def test_creation_needs_an_idempotency_key_before_anything_else_is_looked_at(shop: Shop) -> None:
    for body in (NEW, {}, {"merchantName": 1}):
        found = await shop.call("POST", "/v1/merchants", body)
        assert (found.status, found.code) == (400, "missing_idempotency_key")
    found = await shop.call("POST", "/v1/merchants", NEW, idempotency_key="k" * 256)
    assert (found.status, found.code) == (400, "invalid_params")


WRONG: tuple[tuple[str, str, Any], ...] = (
    ("merchantName", "merchantName", ""),
    ("merchantName", "merchantName", "   "),
    ("merchantName", "merchantName", "x" * 257),
    ("merchantName", "merchantName", "line\nbreak"),
    ("merchantName", "merchantName", "nul\0"),
    ("merchantName", "merchantName", "\u202eright to left"),
    ("merchantName", "merchantName", None),
    ("merchantName", "merchantName", 7),
    ("merchantEmail", "merchantEmail", "nobody"),
    ("merchantEmail", "merchantEmail", "a@b@c"),
    ("merchantEmail", "merchantEmail", "a b@example.com"),
    ("merchantEmail", "merchantEmail", "a@" + "b" * 260),
    ("merchantEmail", "merchantEmail", "a@example.com\n"),
    ("merchantEmail", "merchantEmail", None),
    ("iconUrl", "iconUrl", "http://shop.example/icon.png"),
    ("iconUrl", "iconUrl", "javascript:alert(1)"),
    ("iconUrl", "iconUrl", "https://"),
    ("iconUrl", "iconUrl", "https://user@shop.example/"),
    ("iconUrl", "iconUrl", "https://shop.example/ x"),
    ("iconUrl", "iconUrl", "https://shop.example/" + "x" * 2048),
    ("checkoutOrigins", "checkoutOrigins", ["https://shop.example/"]),
    ("checkoutOrigins", "checkoutOrigins", ["http://shop.example"]),
    ("checkoutOrigins", "checkoutOrigins", ["https://shop.example; script-src *"]),
    ("checkoutOrigins", "checkoutOrigins", ["*"]),
    ("checkoutOrigins", "checkoutOrigins", ["https://shop.example", "https://shop.example"]),
    ("checkoutOrigins", "checkoutOrigins", [f"https://{n}.example" for n in range(11)]),
    ("checkoutOrigins", "checkoutOrigins", "https://shop.example"),
    ("checkoutOrigins", "checkoutOrigins[0]", [None]),
    ("checkoutOrigins", "checkoutOrigins", None),
)


async def test_each_wrong_field_is_named_on_creation_and_on_change(shop: Shop) -> None:
    for field, issue, value in WRONG:
        assert issues_of(await create(shop, NEW | {field: value})) == {issue}, value
        changed = await shop.call("PATCH", f"/v1/merchants/{shop.merchant_id}", {field: value})
        assert issues_of(changed) == {issue}, value
    shown = await shop.call("GET", f"/v1/merchants/{shop.merchant_id}")
    assert shown.body["name"] == NEW["merchantName"]
    assert (await shop.call("GET", "/v1/merchants")).body["totalCount"] == 1


async def test_missing_fields_are_named_and_wrong_ones_all_at_once(shop: Shop) -> None:
    assert issues_of(await create(shop, {"merchantEmail": "a@b.c"})) == {"merchantName"}
    assert issues_of(await create(shop, {"merchantName": "x"})) == {"merchantEmail"}
    everything = {"merchantName": "", "merchantEmail": "x", "iconUrl": "x"}
    assert issues_of(await create(shop, everything)) == {"merchantName", "merchantEmail", "iconUrl"}


async def test_the_bounds_themselves_are_allowed(shop: Shop) -> None:
    for name in ("x", "x" * 256, "日本の店", "O'Brien; DROP TABLE merchants --", "<script>"):
        made = await create(shop, NEW | {"merchantName": name})
        assert made.body["merchant"]["name"] == name


# Lists


async def test_both_names_of_the_list_hold_the_same(shop: Shop) -> None:
    found = await shop.call("GET", "/v1/merchants")
    assert found.body.keys() == {"data", "merchants", "totalCount", "nextCursor"}
    assert found.body["data"] == found.body["merchants"]
    assert [one["id"] for one in found.body["data"]] == [shop.merchant_id]
    assert (found.body["totalCount"], found.body["nextCursor"]) == (1, None)


async def test_an_account_without_merchants_has_an_empty_list(shop: Shop) -> None:
    found = await shop.call("GET", "/v1/merchants", key=shop.other_key)
    assert (found.status, found.body["data"], found.body["totalCount"]) == (200, [], 0)


async def test_pages_join_to_the_whole_while_merchants_are_added(shop: Shop) -> None:
    made = [shop.merchant_id]
    for _ in range(4):
        made.append((await create(shop)).body["merchant"]["id"])
    seen: list[str] = []
    cursor = ""
    while True:
        page = await shop.call("GET", f"/v1/merchants?limit=2{cursor}")
        seen += [one["id"] for one in page.body["data"]]
        if page.body["nextCursor"] is None:
            break
        cursor = f"&cursor={page.body['nextCursor']}"
        if len(made) < 7:
            # Later than those of the first pages: within one millisecond ids have no order.
            await trio.sleep(0.01)
            made.append((await create(shop)).body["merchant"]["id"])
    assert sorted(seen) == sorted(made)


async def test_twenty_a_page_unless_asked_and_at_most_a_hundred(shop: Shop) -> None:
    for _ in range(20):
        await create(shop)
    assert len((await shop.call("GET", "/v1/merchants")).body["data"]) == 20
    assert len((await shop.call("GET", "/v1/merchants?limit=100")).body["data"]) == 21
    for limit in ("0", "101", "-1", "1.5", "x", "1&limit=2", "٣"):
        found = await shop.call("GET", f"/v1/merchants?limit={limit}")
        assert (found.status, found.code) == (400, "invalid_params"), limit


async def test_the_list_is_searched_by_part_of_name_or_id_in_any_case(shop: Shop) -> None:
    other = (await create(shop, NEW | {"merchantName": "100% Tea_House"})).body["merchant"]["id"]
    for search, expected in (
        ("café", [shop.merchant_id]),
        ("CAFÉ GRÖSSE", [shop.merchant_id]),
        ("tea_h", [other]),
        ("%", [other]),
        ("_", [shop.merchant_id, other]),
        (other[:41].upper(), [other]),
        ("nobody", []),
    ):
        found = await shop.call("GET", f"/v1/merchants?search={quote(search)}")
        assert {one["id"] for one in found.body["data"]} == set(expected), search
        assert found.body["totalCount"] == len(expected)
    too_long = await shop.call("GET", f"/v1/merchants?search={'x' * 257}")
    assert (too_long.status, too_long.code) == (400, "invalid_params")


async def test_the_list_is_filtered_by_status(shop: Shop) -> None:
    other = (await create(shop)).body["merchant"]["id"]
    await shop.call("PATCH", f"/v1/merchants/{other}", {"status": "suspended"})
    for status, expected in (("active", [shop.merchant_id]), ("suspended", [other]), ("inactive", [])):
        found = await shop.call("GET", f"/v1/merchants?status={status}")
        assert [one["id"] for one in found.body["data"]] == expected
    wrong = await shop.call("GET", "/v1/merchants?status=deleted")
    assert (wrong.status, wrong.code) == (400, "invalid_params")


async def test_a_cursor_that_was_never_handed_out_is_refused(shop: Shop) -> None:
    for cursor in ("x", "WzFd", "W10", "eyJ9", "é", "A" * 600, "WyJ4IiwieCJd"):
        found = await shop.call("GET", f"/v1/merchants?cursor={cursor}")
        assert (found.status, found.code) == (400, "invalid_params"), cursor


async def test_a_limited_key_lists_its_merchants_only(shop: Shop) -> None:
    await create(shop)
    key = await shop.new_key(merchants=[shop.merchant_id])
    found = await shop.call("GET", "/v1/merchants", key=key)
    assert [one["id"] for one in found.body["data"]] == [shop.merchant_id]
    assert found.body["totalCount"] == 1
    assert (await create(shop, key=key)).status == 403


# One merchant


async def test_one_merchant_is_shown_with_its_settlements(shop: Shop) -> None:
    found = await shop.call("GET", f"/v1/merchants/{shop.merchant_id}")
    alone = await shop.call("GET", f"/v1/merchants/{shop.merchant_id}/settlements")
    assert found.body["settlements"] == alone.body
    assert found.body["settlements"]["fiat"] == []
    assert found.body["settlements"]["crypto"][0].keys() == {"id", "asset", "destination"}


async def test_a_change_touches_only_what_it_names(shop: Shop) -> None:
    path = f"/v1/merchants/{shop.merchant_id}"
    before = (await shop.call("GET", path)).body
    changed = await shop.call("PATCH", path, {"merchantName": "Other"})
    assert changed.status == 200
    assert (await shop.call("GET", path)).body == before | {"name": "Other"}

    changed = await shop.call(
        "PATCH",
        path,
        {"merchantEmail": "other@example.com", "iconUrl": "https://a.example/i", "status": "inactive"},
    )
    assert changed.body["iconUrl"] == "https://a.example/i"
    assert (changed.body["email"], changed.body["status"]) == ("other@example.com", "inactive")
    changed = await shop.call("PATCH", path, {"iconUrl": None})
    assert changed.body["iconUrl"] is None


async def test_a_change_names_at_least_one_field_and_a_known_status(shop: Shop) -> None:
    path = f"/v1/merchants/{shop.merchant_id}"
    for body in ({}, {"id": "mrch_x"}, {"createdAt": "now"}):
        assert issues_of(await shop.call("PATCH", path, body)) == {"body"}
    for status in ("closed", "", "ACTIVE", None):
        assert issues_of(await shop.call("PATCH", path, {"status": status})) == {"status"}


async def test_a_merchant_that_is_deleted_while_nodes_are_asked_takes_no_destination(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def deleting(*_: object) -> None:
        assert (await shop.call("DELETE", f"/v1/merchants/{shop.merchant_id}")).status == 200

    monkeypatch.setattr(shop.realm.payments.chains[0], "destination_problem", deleting)
    body = {"settlements": [{"asset": ETH_BASE, "destination": f"eip155:8453:{WALLET}"}]}
    path = f"/v1/merchants/{shop.merchant_id}/settlements/crypto"
    found = await shop.call("POST", path, body, idempotency_key=new_id("k", 0))
    assert (found.status, found.code) == (404, "not_found")


async def test_a_deleted_merchant_is_gone_and_its_payments_stay(shop: Shop) -> None:
    payment = await shop.pay()
    path = f"/v1/merchants/{shop.merchant_id}"
    for _ in range(2):
        deleted = await shop.call("DELETE", path)
        assert (deleted.status, deleted.body) == (200, {"id": shop.merchant_id, "deleted": True})
    acts = shop.realm.db.point(list_audit, shop.account_id, None, 10)
    assert [one.act for one in acts].count("merchant.delete") == 1
    for method, sub_path, body in (
        ("GET", "", None),
        ("GET", "/settlements", None),
        ("PATCH", "", {"merchantName": "x"}),
        ("POST", "/settlements/crypto", {"settlements": []}),
    ):
        found = await shop.call(method, path + sub_path, body, idempotency_key="k")
        assert (found.status, found.code) == (404, "not_found")
    assert (await shop.call("GET", "/v1/merchants")).body["totalCount"] == 0
    assert (await shop.call("GET", f"/v1/payments/{payment}")).status == 200
    listed = await shop.call("GET", "/v1/payments")
    assert listed.body["data"][0]["merchant"]["name"] == NEW["merchantName"]
    refused = await shop.call(
        "POST",
        "/v1/payments",
        {"referenceId": "R", "amount": {"unit": "iso4217/USD", "value": "1"}},
        merchant_id=shop.merchant_id,
    )
    assert (refused.status, refused.code) == (404, "not_found")


async def test_deleting_what_never_was_or_is_anothers_is_not_found(shop: Shop) -> None:
    for merchant, key in ((new_id("mrch_", 0), ""), (shop.merchant_id, shop.other_key)):
        found = await shop.call("DELETE", f"/v1/merchants/{merchant}", key=key)
        assert (found.status, found.code) == (404, "not_found")
    assert (await shop.call("GET", f"/v1/merchants/{shop.merchant_id}")).status == 200


# Origins that may show the checkout in a frame

ORIGINS = ["https://shop.example", "http://localhost:3000"]


def audited(shop: Shop, act: str) -> list[tuple[str, str, Any]]:
    rows = shop.realm.db.point(
        lambda tx: tx.execute("SELECT actor, subject, details FROM audit WHERE act = ?", (act,)).fetchall()
    )
    return [(actor, subject, json.loads(details)) for actor, subject, details in rows]


async def test_origins_are_echoed_wherever_a_merchant_is_shown(shop: Shop) -> None:
    made = (await create(shop, NEW | {"checkoutOrigins": ORIGINS})).body["merchant"]
    assert made["checkoutOrigins"] == ORIGINS
    assert (await shop.call("GET", f"/v1/merchants/{made['id']}")).body["checkoutOrigins"] == ORIGINS
    listed = (await shop.call("GET", "/v1/merchants")).body["data"]
    assert {one["id"]: one["checkoutOrigins"] for one in listed} == {
        made["id"]: ORIGINS,
        shop.merchant_id: [],
    }


async def test_a_merchant_is_shown_as_it_was_at_one_moment(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/v1/merchants/{shop.merchant_id}"
    before = (await shop.call("GET", path)).body

    def a_little_later(tx: Tx, merchant_id: str) -> tuple[str, ...]:
        with closing(sqlite3.connect(shop.folder / "test.db")) as other, other:
            other.execute("UPDATE merchants SET name = 'later' WHERE id = ?", (merchant_id,))
            replace_origins(other, merchant_id, ("https://later.example",))
        return list_origins(tx, merchant_id)

    monkeypatch.setattr("payd.web.merchants.list_origins", a_little_later)
    assert (await shop.call("GET", path)).body == before
    monkeypatch.undo()
    after = (await shop.call("GET", path)).body
    assert (after["name"], after["checkoutOrigins"]) == ("later", ["https://later.example"])


async def test_origins_stay_until_they_are_replaced_as_a_whole(shop: Shop) -> None:
    path = f"/v1/merchants/{shop.merchant_id}"
    assert (await shop.call("PATCH", path, {"checkoutOrigins": ORIGINS})).body["checkoutOrigins"] == ORIGINS
    assert (await shop.call("PATCH", path, {"merchantName": "x"})).body["checkoutOrigins"] == ORIGINS
    many = [f"https://{n}.example" for n in range(10)]
    assert (await shop.call("PATCH", path, {"checkoutOrigins": many})).body["checkoutOrigins"] == many
    assert (await shop.call("PATCH", path, {"checkoutOrigins": []})).body["checkoutOrigins"] == []


async def test_the_audit_says_who_let_which_origins_in(shop: Shop) -> None:
    path = f"/v1/merchants/{shop.merchant_id}"
    made = (await create(shop, NEW | {"checkoutOrigins": ORIGINS})).body["merchant"]["id"]
    for body in ({"checkoutOrigins": ORIGINS}, {"checkoutOrigins": ORIGINS}, {"merchantName": "x"}):
        await shop.call("PATCH", path, body)
    await shop.call("PATCH", path, {"checkoutOrigins": []})
    entries = audited(shop, "merchant.origins")
    assert {actor[:4] for actor, _, _ in entries} == {"key_"}
    assert [(subject, details) for _, subject, details in entries] == [
        (made, {"from": [], "to": ORIGINS}),
        (shop.merchant_id, {"from": [], "to": ORIGINS}),
        (shop.merchant_id, {"from": ORIGINS, "to": []}),
    ]


async def test_a_change_that_is_refused_leaves_the_origins(shop: Shop) -> None:
    path = f"/v1/merchants/{shop.merchant_id}"
    await shop.call("PATCH", path, {"checkoutOrigins": ORIGINS})
    both = {"checkoutOrigins": [], "merchantName": ""}
    assert issues_of(await shop.call("PATCH", path, both)) == {"merchantName"}
    assert (await shop.call("GET", path)).body["checkoutOrigins"] == ORIGINS
