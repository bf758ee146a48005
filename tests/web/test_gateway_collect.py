"""What options say of the details that a merchant asks for, and who sees what was answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import structlog

from payd.entropy import system_entropy
from payd.store.seal import KEY_BYTES, Seal
from tests.shop import BUYER, SIGNATURE, USDC_BASE, USDT_MAINNET, WALLET, Shop, open_shop
from tests.web.asking import ANSWERS, FIELDS, SECRET, SHOWN, ask_for, confirm, shown
from tests.web.wallet import MAINNET_BUYER, PREVIEW, ask

ASKING = "eip155:8453:0x0000000000000000000000000000000000000006"


async def test_an_option_says_what_is_asked_as_fields_as_a_schema_and_as_a_page(shop: Shop) -> None:
    await ask_for(shop)
    payment = await shop.pay()
    found = await ask(shop, payment, [BUYER], service_version=PREVIEW)
    [option] = found.body["options"]
    asked = option["collectData"]
    assert asked.keys() == {"fields", "schema", "url"}
    assert asked["fields"] == FIELDS
    assert asked["schema"]["required"] == ["fullName", "dob", "tosConfirmed"]
    assert asked["url"] == f"https://pay.example/collect/{payment}?accounts={BUYER}"
    assert found.body["collectData"] == asked


async def test_the_three_answers_of_the_specification(shop: Shop) -> None:
    """Present and present; present and null; null and null.

    Source: SPEC.md, "POST /v1/gateway/payment/{id}/options".
    """
    payment = await shop.pay()
    nobody = (await ask(shop, payment, [BUYER])).body
    assert (nobody["collectData"], nobody["options"][0]["collectData"]) == (None, None)

    mixed = (await ask(shop, payment, [BUYER, ASKING])).body
    by_account = {one["account"]: one["collectData"] for one in mixed["options"]}
    assert by_account[BUYER] is None
    assert by_account[ASKING]["url"].endswith(f"?accounts={ASKING}")
    assert mixed["collectData"] == by_account[ASKING]


async def test_the_page_of_all_options_names_each_address_once_and_each_options_own_its_own(
    shop: Shop,
) -> None:
    await ask_for(shop)
    await shop.register(shop.merchant_id, USDT_MAINNET, f"eip155:1:{WALLET}")
    payment, other = await shop.pay(), f"eip155:8453:{WALLET}"
    found = (await ask(shop, payment, [BUYER, MAINNET_BUYER, other])).body
    assert found["collectData"]["url"].endswith(f"?accounts={BUYER},{other}")
    for option in found["options"]:
        assert option["collectData"]["url"].endswith(f"?accounts={option['account']}")


async def test_who_has_answered_is_not_asked_again_and_others_are(shop: Shop) -> None:
    await ask_for(shop)
    payment, other = await shop.pay(), f"eip155:8453:{WALLET}"
    options = (await ask(shop, payment, [BUYER, other])).body["options"]
    unusable = await confirm(shop, payment, options[0]["id"], ANSWERS, data="0x12")
    assert unusable.status in (400, 422)
    found = (await ask(shop, payment, [BUYER, other])).body
    assert [one["collectData"] is None for one in found["options"]] == [True, False]
    assert found["collectData"]["url"].endswith(f"?accounts={other}")


async def test_the_merchant_sees_the_answers_in_the_payment_itself_and_nowhere_else(shop: Shop) -> None:
    await ask_for(shop)
    payment = await shop.pay()
    [option] = await shop.options(payment, [BUYER])
    with structlog.testing.capture_logs() as logged:
        await confirm(shop, payment, option["id"], ANSWERS)
        found = await shown(shop, payment)
    assert found["fields"] == SHOWN
    assert found.keys() == {"fields", "collectedAt"}

    simulated = await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": "succeeded"})
    others = [
        simulated,
        await shop.call("GET", "/v1/payments"),
        await shop.call("GET", f"/v1/payments/{payment}/status", merchant_id=shop.merchant_id),
        await shop.call("GET", "/v1/events"),
        await shop.call("GET", "/v1/transfers"),
        await shop.call("GET", f"/v1/gateway/payment/{payment}"),
        await shop.call("GET", f"/v1/gateway/payment/{payment}/status"),
        await shop.call("POST", f"/v1/gateway/payment/{payment}/options?includePaymentInfo=true", [BUYER]),
        await shop.call("GET", f"/pay/{payment}", key=None, accept="text/html"),
        await shop.call("GET", f"/pay/{payment}/status", key=None),
        await shop.call("GET", f"/collect/{payment}?accounts={BUYER}", key=None, accept="text/html"),
    ]
    for answer in others:
        assert answer.status in (200, 303), answer
        assert SECRET not in answer.raw.decode()
        assert "1815-12-10" not in answer.raw.decode()
    bodies = shop.realm.db.point(lambda tx: tx.execute("SELECT body FROM events").fetchall())
    assert bodies
    assert not [body for (body,) in bodies if SECRET.encode() in body]
    assert SECRET not in str(logged)


async def test_the_file_holds_nothing_that_can_be_read_without_the_key(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data") as shop:
        await ask_for(shop)
        payment = await shop.pay()
        [option] = await shop.options(payment, [BUYER])
        await confirm(shop, payment, option["id"], ANSWERS)
        assert (await shown(shop, payment))["fields"] == SHOWN
    stored = b"".join(file.read_bytes() for file in (tmp_path / "data").iterdir() if "test.db" in file.name)
    assert USDC_BASE.encode() in stored, "this is where it would be"
    assert SECRET.encode() not in stored


async def test_another_accounts_key_and_one_without_the_scope_see_nothing(shop: Shop) -> None:
    await ask_for(shop)
    payment = await shop.pay()
    [option] = await shop.options(payment, [BUYER])
    await confirm(shop, payment, option["id"], ANSWERS)
    path = f"/v1/payments/{payment}"
    second = await shop.new_merchant()
    for key, status in (
        (shop.other_key, 404),
        (await shop.new_key(scopes=["gateway", "payments:write"]), 403),
        (await shop.new_key(merchants=[second]), 403),
    ):
        found = await shop.call("GET", path, key=key)
        assert found.status == status
        assert SECRET not in found.raw.decode()


async def test_answers_under_a_lost_seal_key_leave_the_rest_of_the_payment_to_be_read(shop: Shop) -> None:
    await ask_for(shop)
    payment = await shop.pay()
    [option] = await shop.options(payment, [BUYER])
    await confirm(shop, payment, option["id"], ANSWERS)
    shop.realm.seal = Seal(system_entropy(KEY_BYTES))
    found = await shop.call("GET", f"/v1/payments/{payment}")
    assert (found.status, found.body["status"]) == (200, "processing")
    assert found.body["collectedData"]["fields"] is None


async def test_a_payment_that_nobody_was_asked_for_says_null(shop: Shop) -> None:
    payment = await shop.pay()
    assert await shown(shop, payment) is None
    [option] = await shop.options(payment, [BUYER])
    await shop.confirm(payment, option["id"], SIGNATURE)
    assert await shown(shop, payment) is None


WRONG: tuple[tuple[str, Any], ...] = (
    ("collect", "x"),
    ("collect", None),
    ("collect[0]", [7]),
    ("collect[0].name", [{"id": "a", "type": "text"}]),
    ("collect[0].type", [{"id": "a", "type": "number", "name": "A"}]),
    ("collect[0].required", [{"id": "a", "type": "text", "name": "A", "required": "yes"}]),
    ("collect[0].id", [{"id": "a b", "type": "text", "name": "A"}]),
    ("collect[0].name", [{"id": "a", "type": "text", "name": ""}]),
    ("collect[1].id", [FIELDS[0], FIELDS[0]]),
    ("collect", [{"id": f"f{n}", "type": "text", "name": "F"} for n in range(13)]),
)


@pytest.mark.parametrize(("field", "value"), WRONG)
async def test_a_wrong_question_is_named_on_creation_and_on_change(
    shop: Shop, field: str, value: Any
) -> None:
    new = {"merchantName": "New", "merchantEmail": "new@example.com", "collect": value}
    made = await shop.call("POST", "/v1/merchants", new, idempotency_key="k")
    changed = await shop.call("PATCH", f"/v1/merchants/{shop.merchant_id}", {"collect": value})
    for found in (made, changed):
        assert (found.status, found.code) == (400, "params_validation"), found.body
        assert found.body["issues"][0]["field"] == field
    assert (await shop.call("GET", f"/v1/merchants/{shop.merchant_id}")).body["collect"] == []


async def test_questions_are_kept_shown_changed_and_taken_back(shop: Shop) -> None:
    new = {"merchantName": "New", "merchantEmail": "new@example.com"}
    short = {"id": "fullName", "type": "text", "name": "Full name"}
    made = await shop.call("POST", "/v1/merchants", new | {"collect": [short]}, idempotency_key="k")
    assert made.status == 201
    assert made.body["merchant"]["collect"] == [short | {"required": True}]
    path = f"/v1/merchants/{made.body['merchant']['id']}"
    assert (await shop.call("GET", path)).body["collect"] == [FIELDS[0]]
    assert (await shop.call("PATCH", path, {"collect": FIELDS})).body["collect"] == FIELDS
    assert (await shop.call("PATCH", path, {"merchantName": "Other"})).body["collect"] == FIELDS
    listed = (await shop.call("GET", "/v1/merchants")).body["data"]
    assert {one["id"]: one["collect"] for one in listed} == {shop.merchant_id: [], path[14:]: FIELDS}
    assert (await shop.call("PATCH", path, {"collect": []})).body["collect"] == []


async def test_every_change_of_questions_is_audited_and_no_other(shop: Shop) -> None:
    await ask_for(shop)
    await ask_for(shop)
    await shop.call("PATCH", f"/v1/merchants/{shop.merchant_id}", {"merchantName": "Other"})
    await ask_for(shop, [])
    new = {"merchantName": "New", "merchantEmail": "new@example.com", "collect": FIELDS[:1]}
    await shop.call("POST", "/v1/merchants", new, idempotency_key="k")
    rows = shop.realm.db.point(
        lambda tx: tx.execute(
            "SELECT subject, details FROM audit WHERE act = 'merchant.collect' ORDER BY seq"
        ).fetchall()
    )
    assert [json.loads(details)["fields"] for _, details in rows] == [
        [field["id"] for field in FIELDS],
        [],
        ["fullName"],
    ]
    assert rows[0][0] == shop.merchant_id
