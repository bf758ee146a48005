"""No option goes on without the answers that its merchant requires, and what was answered is kept safe."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from payd.actors.collecting import take_form
from payd.actors.pay_requests import sign_request
from payd.chains.simulated import TEST_FIELDS, Magic, magic_account
from payd.core.caip import parse_account, parse_chain
from payd.core.errors import InvalidState, NotFound
from payd.store.collected import holders_of
from tests.shop import (
    BUYER,
    SIGNATURE,
    SOLANA,
    SOLANA_WALLET,
    TX_HASH,
    USDC_SOLANA,
    USDT_MAINNET,
    WALLET,
    Shop,
)
from tests.web.asking import ANSWERS, FIELDS, SHOWN, VALUES, ask_for, confirm, shown

MAINNET_BUYER = BUYER.replace("eip155:8453", "eip155:1")
ASKING = "eip155:8453:0x0000000000000000000000000000000000000006"


async def offered(shop: Shop, account: str = BUYER) -> tuple[str, str]:
    """A payment and an option of it."""
    payment = await shop.pay()
    return payment, str((await shop.options(payment, [account]))[0]["id"])


async def test_a_confirm_without_the_answers_is_refused_in_words_and_the_payment_stays_open(
    shop: Shop,
) -> None:
    await ask_for(shop)
    payment, option = await offered(shop)
    refused = await confirm(shop, payment, option)
    assert (refused.status, refused.code) == (400, "invalid_params")
    assert "asks for details first" in refused.body["message"]
    assert await shop.status(payment) == "requires_action"
    assert (await confirm(shop, payment, option, ANSWERS)).body["status"] == "processing"
    assert (await shown(shop, payment))["fields"] == SHOWN


async def test_of_two_confirms_at_once_the_merchant_sees_the_answers_of_the_one_that_counts(
    shop: Shop,
) -> None:
    await ask_for(shop)
    payment, option = await offered(shop)
    told = {}

    async def pay(name: str, signature: str) -> None:
        told[name] = (await confirm(shop, payment, option, VALUES | {"fullName": name}, signature)).status

    async with trio.open_nursery() as nursery:
        nursery.start_soon(pay, "Ada", SIGNATURE)
        nursery.start_soon(pay, "Eve", SIGNATURE.replace("11", "22"))
    assert sorted(told.values()) == [200, 400]
    [accepted] = (name for name, status in told.items() if status == 200)
    assert (await shown(shop, payment))["fields"][0]["value"] == accepted


async def test_the_object_that_the_schema_describes_is_taken_as_it_is(shop: Shop) -> None:
    """Source: SPEC.md, "POST /v1/gateway/payment/{id}/confirm"."""
    fields = [*FIELDS, {"id": "fields", "type": "text", "name": "Fields of work", "required": False}]
    await ask_for(shop, fields)
    payment = await shop.pay()
    [option] = await shop.options(payment, [BUYER])
    answers = VALUES | {"fields": "mathematics"}
    assert jsonschema_rs.is_valid(option["collectData"]["schema"], answers)
    assert (await confirm(shop, payment, option["id"], answers)).body["status"] == "processing"
    found = (await shown(shop, payment))["fields"]
    assert {one["id"]: one["value"] for one in found} == answers


async def test_what_nobody_knows_beside_a_list_of_answers_is_passed_over(shop: Shop) -> None:
    await ask_for(shop)
    payment, option = await offered(shop)
    answers = {**ANSWERS, "schemaVersion": 2}
    assert (await confirm(shop, payment, option, answers)).body["status"] == "processing"
    assert (await shown(shop, payment))["fields"] == SHOWN


async def test_a_refused_confirm_keeps_its_transaction_for_matching(shop: Shop) -> None:
    await ask_for(shop)
    await shop.register(shop.merchant_id, "eip155:8453/slip44:60", f"eip155:8453:{WALLET}")
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[-1]["id"]
    for answers in (None, {"fields": [{"id": "iban", "value": "x"}]}):
        assert (await confirm(shop, payment, option, answers, TX_HASH)).status == 400
        hints = shop.realm.db.point(lambda tx: tx.execute("SELECT hash FROM hints").fetchall())
        assert hints == [(TX_HASH,)]
        await shop.realm.db.write(lambda tx: tx.execute("DELETE FROM hints"))


@pytest.mark.parametrize(
    "answers",
    [
        {"fields": []},
        {"fields": ANSWERS["fields"][:2]},
        {"fields": [*ANSWERS["fields"], {"id": "iban", "value": "DE"}]},
        {"fields": [*ANSWERS["fields"], {"id": "dob", "value": "1990-01-01"}]},
        {"fields": [*ANSWERS["fields"][1:], {"id": "fullName", "value": "x" * 201}]},
        {"fields": [*ANSWERS["fields"][:2], {"id": "tosConfirmed", "value": "false"}]},
        {"fields": [{"id": "note", "value": "x"}] * 13},
        {"fields": [{"id": "fullName"}]},
        {"fields": [{"id": "fullName", "value": 7}]},
        {"fields": ["Ada"]},
        {},
        VALUES | {"dob": 18151210},
        VALUES | {"dob": "10.12.1815"},
        VALUES | {"fields": None},
        VALUES | {"iban": "DE"},
        {"fullName": "Ada Lovelace-Byron"},
        dict.fromkeys(map(str, range(13)), "x"),
    ],
)
async def test_answers_that_are_not_what_is_asked_change_nothing(shop: Shop, answers: Any) -> None:
    await ask_for(shop)
    payment, option = await offered(shop)
    refused = await confirm(shop, payment, option, answers)
    assert (refused.status, refused.code) == (400, "params_validation")
    assert refused.body["issues"][0]["field"].startswith("collectedData")
    assert await shop.status(payment) == "requires_action"
    assert shop.realm.db.point(holders_of, payment) == frozenset()


async def test_what_may_be_left_out_stops_nobody(shop: Shop) -> None:
    await ask_for(shop, [FIELDS[2]])
    payment, option = await offered(shop)
    assert (await confirm(shop, payment, option)).body["status"] == "processing"
    assert await shown(shop, payment) is None


async def test_a_fetch_without_the_answers_is_refused_and_takes_them(shop: Shop) -> None:
    await ask_for(shop)
    await shop.register(shop.merchant_id, USDT_MAINNET, f"eip155:1:{WALLET}")
    payment = await shop.pay()
    [option] = await shop.options(payment, [MAINNET_BUYER])
    [build] = [action for action in option["actions"] if action["type"] == "build"]
    path, body = f"/v1/gateway/payment/{payment}/fetch", {"optionId": option["id"], "data": build["data"]}
    refused = await shop.call("POST", path, body)
    assert (refused.status, refused.code) == (400, "invalid_params")
    assert "asks for details first" in refused.body["message"]
    fetched = await shop.call("POST", path, body | {"collectedData": ANSWERS})
    assert fetched.status == 200
    assert (await shop.call("POST", path, body)).raw == fetched.raw, "asked once"
    assert (await shop.options(payment, [MAINNET_BUYER]))[0]["collectData"] is None


async def test_the_same_results_again_get_the_status_whatever_comes_with_them(shop: Shop) -> None:
    await ask_for(shop)
    payment, option = await offered(shop)
    await confirm(shop, payment, option, ANSWERS)
    await ask_for(shop, [{"id": "iban", "type": "text", "name": "IBAN"}])
    for answers in (None, ANSWERS, {"fields": [{"id": "fullName", "value": "Somebody Else"}]}):
        again = await confirm(shop, payment, option, answers)
        assert (again.status, again.body["status"]) == (200, "processing")
    assert (await shown(shop, payment))["fields"] == SHOWN


async def test_an_answer_counts_on_every_network_of_the_same_address(shop: Shop) -> None:
    await ask_for(shop)
    await shop.register(shop.merchant_id, USDT_MAINNET, f"eip155:1:{WALLET}")
    payment = await shop.pay()
    options = {one["account"]: one for one in await shop.options(payment, [BUYER, MAINNET_BUYER])}
    wrong = await confirm(shop, payment, options[BUYER]["id"], ANSWERS, "AQ==")
    assert wrong.status in (400, 422)
    again = await shop.options(payment, [BUYER, MAINNET_BUYER])
    assert [one["collectData"] for one in again] == [None, None]
    stranger = await shop.options(payment, [f"eip155:8453:{WALLET}"])
    assert stranger[0]["collectData"] is not None


async def test_a_deleted_question_asks_nobody_any_more(shop: Shop) -> None:
    await ask_for(shop)
    payment, option = await offered(shop)
    await ask_for(shop, [])
    assert (await confirm(shop, payment, option)).body["status"] == "processing"


@pytest.mark.parametrize("chain", ["eip155:8453", "eip155:1"])
async def test_magic_account_six_is_asked_where_the_merchant_asks_nothing(shop: Shop, chain: str) -> None:
    await shop.register(shop.merchant_id, USDT_MAINNET, f"eip155:1:{WALLET}")
    payment = await shop.pay()
    account = str(magic_account(parse_chain(chain), Magic.DATA_COLLECTION))
    [six] = await shop.options(payment, [account])
    assert [field["id"] for field in six["collectData"]["fields"]] == [field.id for field in TEST_FIELDS]
    assert [one["collectData"] for one in await shop.options(payment, [BUYER])] == [None]


async def test_magic_account_six_is_asked_what_the_merchant_asks(shop: Shop) -> None:
    await ask_for(shop)
    payment = await shop.pay()
    [six] = await shop.options(payment, [ASKING])
    assert six["collectData"]["fields"] == FIELDS


async def test_answers_come_after_the_chain_was_first_only_where_they_are_missing(shop: Shop) -> None:
    """A wallet may send its transaction, lose its confirm, and tell all once the chain has shown it."""
    await ask_for(shop)
    payment, option = await offered(shop)
    await ask_for(shop, [])
    await confirm(shop, payment, option)
    await ask_for(shop)
    assert await shown(shop, payment) is None
    refused = await confirm(shop, payment, option, {"fields": []})
    assert (refused.status, refused.code) == (400, "params_validation")
    assert (await confirm(shop, payment, option, ANSWERS)).status == 200
    other = {"fields": [{"id": "fullName", "value": "Somebody Else"}]}
    assert (await confirm(shop, payment, option, other)).status == 200
    assert (await shown(shop, payment))["fields"] == SHOWN


async def test_nobody_but_the_buyer_adds_answers_to_a_paid_payment(shop: Shop) -> None:
    await ask_for(shop)
    payment, option = await offered(shop)
    [other] = await shop.options(payment, [f"eip155:8453:{WALLET}"])
    await confirm(shop, payment, option, ANSWERS)
    await confirm(shop, payment, other["id"], ANSWERS)
    assert len(shop.realm.db.point(holders_of, payment)) == 1


async def test_a_form_that_comes_when_the_payment_has_ended_is_refused(shop: Shop) -> None:
    await ask_for(shop)
    payment, _ = await offered(shop)
    await shop.call("POST", f"/v1/payments/{payment}/cancel", {})
    with pytest.raises(InvalidState):
        await take_form(shop.realm.payments, shop.realm.seal, payment, [parse_account(BUYER)], VALUES)
    assert shop.realm.db.point(holders_of, payment) == frozenset()


async def test_a_form_that_a_merchant_has_changed_meanwhile_is_refused(shop: Shop) -> None:
    await ask_for(shop)
    payment, _ = await offered(shop)
    await ask_for(shop, [*FIELDS, {"id": "iban", "type": "text", "name": "IBAN"}])
    with pytest.raises(InvalidState, match="changed"):
        await take_form(shop.realm.payments, shop.realm.seal, payment, [parse_account(BUYER)], VALUES)
    assert shop.realm.db.point(holders_of, payment) == frozenset()


async def test_answers_are_stored_before_funds_are_committed(shop: Shop) -> None:
    """A stop between the two leaves the answers, and never a payment without them."""
    await ask_for(shop)
    payment, option = await offered(shop)
    seen: list[tuple[str, int]] = []

    async def watch() -> None:
        while not seen or seen[-1][0] == "requires_action":
            found = shop.realm.db.point(
                lambda tx: tx.execute(
                    "SELECT status, (SELECT count(*) FROM collected) FROM payments WHERE id = ?", (payment,)
                ).fetchone()
            )
            seen.append(found)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        assert (await confirm(shop, payment, option, ANSWERS)).status == 200
    await wait_all_tasks_blocked()
    assert set(seen) == {("requires_action", 0), ("requires_action", 1), ("processing", 1)}


async def test_a_person_plays_a_test_payment_through_without_answers(shop: Shop) -> None:
    await ask_for(shop)
    payment = await shop.pay()
    moved = await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": "succeeded"})
    assert moved.status == 200
    assert await shown(shop, payment) is None
    assert SIGNATURE not in str(moved.body)


async def test_a_code_that_asks_nobody_is_not_shown_where_the_merchant_asks(shop: Shop) -> None:
    await shop.register(shop.merchant_id, USDC_SOLANA, f"{SOLANA}:{SOLANA_WALLET}")
    payment = await shop.pay()
    assert (await shop.call("GET", f"/v1/solana-pay/{payment}", key=None)).status == 200
    await ask_for(shop)
    refused = await shop.call("GET", f"/v1/solana-pay/{payment}", key=None)
    assert (refused.status, refused.code) == (404, "not_found")
    assert "asks for details first" in refused.body["message"]
    with pytest.raises(NotFound):
        await sign_request(shop.realm.payments, payment, SOLANA_WALLET)
