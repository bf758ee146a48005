"""The gateway as wallets see it: exact shapes, both renderings, links as ids, accounts that choose."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
import trio

from payd.chains.simulated import Magic, magic_account
from payd.core.caip import parse_chain
from payd.core.errors import PaymentNotFound
from payd.core.ids import KEY_ENTROPY_BYTES, make_api_key
from payd.entropy import new_id, system_entropy
from payd.web.gateway import RESULTS_MAX, unwrap_payment_id
from tests.shop import (
    BUYER,
    SIGNATURE,
    SOLANA,
    TX_HASH,
    USDC_BASE,
    USDT_MAINNET,
    Got,
    Shop,
    open_shop,
)
from tests.web.wallet import (
    MAINNET_BUYER,
    PREVIEW,
    ask,
    check_amount,
    check_info,
    get,
    stock,
)


@pytest.fixture
async def rich(shop: Shop) -> Shop:
    """A shop that takes a stablecoin, a coin, a token by Permit2 and one on Solana."""
    return await stock(shop)


# What is asked to be paid


async def test_a_payment_is_shown_to_its_buyer(shop: Shop) -> None:
    payment = await shop.pay()
    found = await get(shop, payment)
    assert found.status == 200
    check_info(found.body)
    assert found.body["status"] == "requires_action"
    assert found.body["merchant"] == {"name": "Café Größe"}
    assert found.body["buyer"] is None
    assert found.body["amount"]["value"] == "2500"


async def test_a_payment_with_a_buyer_and_an_icon_is_shown_with_them(shop: Shop) -> None:
    await shop.call("PATCH", f"/v1/merchants/{shop.merchant_id}", {"iconUrl": "https://a.example/i.png"})
    payment = await shop.pay()
    await shop.confirm(payment, (await shop.options(payment, [BUYER]))[0]["id"], SIGNATURE)
    found = await get(shop, payment)
    check_info(found.body)
    assert found.body["buyer"]["accountCaip10"] == BUYER
    assert found.body["merchant"]["iconUrl"] == "https://a.example/i.png"


async def test_nothing_that_a_merchant_keeps_to_itself_is_shown(shop: Shop) -> None:
    payment = await shop.pay("SECRET-REFERENCE")
    for found in (await get(shop, payment), await ask(shop, payment, [BUYER], "?includePaymentInfo=true")):
        for secret in ("SECRET-REFERENCE", "shop@example.com", shop.merchant_id, shop.account_id):
            assert secret not in found.raw.decode()


# Actions in both renderings


async def test_actions_are_flat_unless_the_preview_is_asked_for(shop: Shop) -> None:
    payment = await shop.pay()
    flat = (await ask(shop, payment, [BUYER])).body["options"][0]["actions"][0]
    assert flat.keys() == {"type", "chain_id", "method", "params"}
    assert (flat["type"], flat["chain_id"], flat["method"]) == (
        "walletRpc",
        "eip155:8453",
        "eth_signTypedData_v4",
    )
    for header in ("service_version", "api_version", "wcp_version"):
        found = await ask(shop, payment, [BUYER], "", **{header: PREVIEW})
        assert found.headers["service-version"] == PREVIEW
        nested = found.body["options"][0]["actions"][0]
        assert nested.keys() == {"type", "data"}
        assert nested["data"].keys() == {"chain_id", "method", "params"}
        assert isinstance(nested["data"]["params"], list)
        assert msgspec.json.decode(flat["params"]) == nested["data"]["params"]


async def test_asking_in_both_renderings_gives_the_same_option(shop: Shop) -> None:
    payment = await shop.pay()
    flat = (await ask(shop, payment, [BUYER])).body["options"][0]
    nested = (await ask(shop, payment, [BUYER], service_version=PREVIEW)).body["options"][0]
    assert {**flat, "actions": None} == {**nested, "actions": None}


# Fetch


async def permit2(shop: Shop, payment: str) -> Any:
    options = await shop.options(payment, [MAINNET_BUYER])
    return next(option for option in options if option["actions"][0]["type"] == "build")


async def test_a_build_is_fetched_as_two_calls_in_either_rendering(rich: Shop) -> None:
    payment = await rich.pay()
    option = await permit2(rich, payment)
    data = option["actions"][0]["data"]
    path = f"/v1/gateway/payment/{payment}/fetch"
    for sent in (data, {"data": data}):
        flat = await rich.call("POST", path, {"optionId": option["id"], "data": sent})
        nested = await rich.call(
            "POST", path, {"optionId": option["id"], "data": sent}, service_version=PREVIEW
        )
        assert (flat.status, nested.status) == (200, 200)
        assert [action["method"] for action in flat.body["actions"]] == [
            "eth_sendTransaction",
            "eth_signTypedData_v4",
        ]
        assert [action["data"]["method"] for action in nested.body["actions"]] == [
            "eth_sendTransaction",
            "eth_signTypedData_v4",
        ]
    confirmed = await rich.confirm(payment, option["id"], TX_HASH, SIGNATURE)
    assert (confirmed.status, confirmed.body["status"]) == (200, "processing")


async def test_a_build_that_was_not_fetched_cannot_be_confirmed(rich: Shop) -> None:
    payment = await rich.pay()
    option = await permit2(rich, payment)
    found = await rich.confirm(payment, option["id"], TX_HASH, SIGNATURE)
    assert (found.status, found.code) == (400, "invalid_params")
    assert "/fetch" in found.body["message"]
    assert await rich.status(payment) == "requires_action"


async def test_fetch_refuses_what_it_did_not_hand_out(rich: Shop) -> None:
    payment, other = await rich.pay(), await rich.pay()
    option = await permit2(rich, payment)
    plain = (await rich.options(payment, [BUYER]))[0]
    data = option["actions"][0]["data"]
    for option_id, sent in (
        (option["id"], "x"),
        (option["id"], ""),
        (option["id"], "x" * 65_537),
        (option["id"], (await permit2(rich, other))["actions"][0]["data"]),
        (plain["id"], data),
        ("opt_nobody", data),
        ("", data),
        ("x" * 129, data),
        ((await permit2(rich, other))["id"], data),
    ):
        found = await rich.call(
            "POST", f"/v1/gateway/payment/{payment}/fetch", {"optionId": option_id, "data": sent}
        )
        assert (found.status, found.code) == (400, "invalid_params"), (option_id[:40], sent[:40])
    for body in (
        {"optionId": option["id"]},
        {"data": data},
        {"optionId": 1, "data": data},
        {"optionId": "x", "data": 1},
    ):
        found = await rich.call("POST", f"/v1/gateway/payment/{payment}/fetch", body)
        assert (found.status, found.code) == (400, "params_validation")


async def test_fetch_refuses_a_stale_quote_and_a_route_that_is_gone(rich: Shop) -> None:
    payment = await rich.pay(unit="iso4217/EUR", expiresAt=rich.realm.clock.now_ms() // 1000 + 7200)
    option = await permit2(rich, payment)
    body = {"optionId": option["id"], "data": option["actions"][0]["data"]}
    await trio.sleep(601)
    stale = await rich.call("POST", f"/v1/gateway/payment/{payment}/fetch", body)
    assert (stale.status, stale.code) == (400, "quote_expired")
    await permit2(rich, payment)
    listed = (await rich.call("GET", f"/v1/merchants/{rich.merchant_id}/settlements")).body["crypto"]
    gone = next(one["id"] for one in listed if one["asset"] == USDT_MAINNET)
    await rich.call("DELETE", f"/v1/merchants/{rich.merchant_id}/settlements/crypto/{gone}")
    found = await rich.call("POST", f"/v1/gateway/payment/{payment}/fetch", body)
    assert (found.status, found.code) == (409, "route_expired")


# Confirm


async def test_a_confirm_has_the_exact_shape(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    found = await shop.confirm(payment, option["id"], SIGNATURE)
    assert found.body == {"status": "processing", "isFinal": False, "pollInMs": 1000}
    await trio.sleep(1.5)
    done = await get(shop, payment, "/status")
    assert done.body.keys() == {"status", "isFinal", "info"}
    assert done.body["info"].keys() == {"txId", "optionAmount"}
    check_amount(done.body["info"]["optionAmount"])


async def test_answers_that_nobody_asked_for_are_refused_and_an_empty_list_is_not(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    body = {
        "optionId": option["id"],
        "results": [{"type": "walletRpc", "data": [SIGNATURE]}],
        "collectedData": {"fields": [{"id": "fullName", "value": "A"}]},
    }
    path = f"/v1/gateway/payment/{payment}/confirm"
    found = await shop.call("POST", path, body, service_version=PREVIEW)
    assert (found.status, found.code) == (400, "params_validation")
    assert found.body["issues"][0]["field"] == "collectedData.fields[0].id"
    assert await shop.status(payment) == "requires_action"
    body["collectedData"] = {"fields": []}
    assert (await shop.call("POST", path, body, service_version=PREVIEW)).status == 200


async def test_each_answer_that_is_no_answer_is_named(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    body = {
        "optionId": option["id"],
        "results": [{"type": "walletRpc", "data": [SIGNATURE]}],
        "collectedData": {"fields": [{"id": "fullName"}, {"id": 7, "value": "A"}]},
    }
    found = await shop.call("POST", f"/v1/gateway/payment/{payment}/confirm", body)
    assert (found.status, found.code) == (400, "params_validation")
    assert found.body["issues"] == [
        {"field": "collectedData.fields[0].value", "message": "Required."},
        {"field": "collectedData.fields[1].id", "message": "Expected a string, got a whole number"},
    ]
    assert await shop.status(payment) == "requires_action"


async def test_a_confirm_that_misses_its_schema_changes_nothing(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]["id"]
    good = {"type": "walletRpc", "data": [SIGNATURE]}
    bodies: tuple[Any, ...] = (
        {},
        {"optionId": option},
        {"results": [good]},
        {"optionId": option, "results": None},
        {"optionId": option, "results": good},
        {"optionId": option, "results": [SIGNATURE]},
        {"optionId": option, "results": [{"data": [SIGNATURE]}]},
        {"optionId": option, "results": [{"type": "build", "data": [SIGNATURE]}]},
        {"optionId": option, "results": [{"type": "walletRpc", "data": SIGNATURE}]},
        {"optionId": option, "results": [good] * 17},
        {"optionId": 7, "results": [good]},
        {"optionId": option, "results": [good], "collectedData": "x"},
    )
    for body in bodies:
        found = await shop.call("POST", f"/v1/gateway/payment/{payment}/confirm", body)
        assert (found.status, found.code) == (400, "params_validation"), body
    assert await shop.status(payment) == "requires_action"


async def test_as_many_results_as_there_may_be_are_looked_at(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    await shop.confirm(payment, option["id"], *[SIGNATURE] * RESULTS_MAX)
    assert (await get(shop, payment, "/status")).body["status"] == "failed"


async def test_failed_payments_say_a_code_of_the_closed_list(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    await shop.confirm(payment, option["id"], SIGNATURE, SIGNATURE)
    found = await get(shop, payment, "/status")
    assert found.body == {"status": "failed", "isFinal": True, "failureCode": "declined_user"}


# The accounts that choose


MAGIC_ANSWERS = [
    {"id": "fullName", "value": "Ada Lovelace"},
    {"id": "dob", "value": "1815-12-10"},
    {"id": "tosConfirmed", "value": "true"},
]


async def pay_as(shop: Shop, magic: Magic, chain: str) -> tuple[str, Got | None]:
    payment = await shop.pay()
    account = str(magic_account(parse_chain(chain), magic))
    options = [
        option for option in await shop.options(payment, [account]) if "ETH" not in str(option["amount"])
    ]
    if not options:
        return payment, None
    data = SIGNATURE if chain.startswith("eip155") else "AQ=="
    body: dict[str, Any] = {
        "optionId": options[0]["id"],
        "results": [{"type": "walletRpc", "data": [data]}],
    }
    if magic is Magic.DATA_COLLECTION:
        body["collectedData"] = {"fields": MAGIC_ANSWERS}
    return payment, await shop.call("POST", f"/v1/gateway/payment/{payment}/confirm", body)


@pytest.mark.parametrize("chain", ["eip155:8453", SOLANA])
async def test_magic_accounts_choose_an_outcome_on_evm_and_on_solana(rich: Shop, chain: str) -> None:
    payment, found = await pay_as(rich, Magic.NO_OPTIONS, chain)
    assert found is None
    payment, found = await pay_as(rich, Magic.REFUSED, chain)
    assert found is not None
    assert (found.status, found.code) == (422, "invalid_signature")
    assert await rich.status(payment) == "requires_action"

    made = {}
    for magic in (Magic.APPROVES, Magic.HELD, Magic.SETTLES_LATE, Magic.DATA_COLLECTION):
        payment, found = await pay_as(rich, magic, chain)
        assert found is not None
        assert (found.status, found.body["status"]) == (200, "processing"), magic
        made[magic] = payment

    async def state(magic: Magic) -> tuple[str, bool]:
        shown = (await rich.call("GET", f"/v1/payments/{made[magic]}")).body
        return shown["status"], bool(shown["settlement"] and shown["settlement"]["settled"])

    await trio.sleep(5)
    assert await state(Magic.APPROVES) == await state(Magic.DATA_COLLECTION) == ("succeeded", True)
    assert await state(Magic.SETTLES_LATE) == ("succeeded", False)
    assert await state(Magic.HELD) == ("processing", False)
    await trio.sleep(60)
    assert await state(Magic.SETTLES_LATE) == ("succeeded", True)
    await trio.sleep(900 + 900 - 70)
    assert await state(Magic.HELD) == ("processing", False)
    await trio.sleep(20)
    assert await state(Magic.HELD) == ("expired", False)


# Who may, and by which name


async def test_an_app_with_its_client_uses_the_whole_gateway(shop: Shop) -> None:
    payment, app = await shop.pay(), shop.realm.checkout_app_id

    async def call(method: str, below: str, body: Any = None) -> Got:
        path = f"/v1/gateway/payment/{payment}{below}"
        return await shop.call(method, path, body, key=None, app_id=app, client_id="client-1")

    options = await call("POST", "/options", [BUYER])
    assert (await call("GET", "")).status == 200
    results = [{"type": "walletRpc", "data": [SIGNATURE]}]
    confirmed = await call(
        "POST", "/confirm", {"optionId": options.body["options"][0]["id"], "results": results}
    )
    assert confirmed.body["status"] == "processing"
    assert (await call("GET", "/status?maxPollMs=5000")).body["status"] == "succeeded"
    assert (await call("POST", "/cancel", {})).code == "invalid_state"


async def test_any_key_of_the_realm_may_act_on_a_payment_it_knows_the_id_of(shop: Shop) -> None:
    payment = await shop.pay()
    found = await shop.call("POST", f"/v1/gateway/payment/{payment}/cancel", {}, key=shop.other_key)
    assert found.status == 200
    assert found.body["cancelledReason"] == "cancelled_by_user"
    assert found.body.keys() == {"paymentId", "status", "cancelledReason", "cancelledAt"}


async def test_the_other_realms_payment_is_not_found(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", live=True) as shop:
        payment = await shop.pay()
        for method, below, body in (
            ("GET", "", None),
            ("GET", "/status", None),
            ("POST", "/options", [BUYER]),
            ("POST", "/fetch", {"optionId": "x", "data": "x"}),
            ("POST", "/confirm", {"optionId": "x", "results": []}),
            ("POST", "/cancel", {}),
        ):
            for wanted, key in (
                (payment, shop.keys["live.one"]),
                (payment.replace("pay_t", "pay_l"), shop.key),
            ):
                found = await shop.call(method, f"/v1/gateway/payment/{wanted}{below}", body, key=key)
                assert (found.status, found.code) == (404, "payment_not_found"), below


def link_forms(payment: str) -> list[str]:
    own = (
        f"https://pay.example/pay/{payment}",
        f"https://pay.example/{payment}",
        f"https://pay.example/?pid={payment}",
        f"https://pay.example/pay/{payment}/",
        f"https://pay.example/buy?x=1&pid={payment}",
    )
    return [
        form for link in own for form in (link, quote(link, safe=""), quote(quote(link, safe=""), safe=""))
    ]


def test_a_link_of_this_server_is_unwrapped_however_often_it_was_encoded() -> None:
    payment = new_id("pay_t", 0)
    for form in link_forms(payment):
        assert unwrap_payment_id(form, "https://pay.example") == payment, form
    assert unwrap_payment_id(payment, "https://pay.example") == payment
    assert unwrap_payment_id("https://shop.example/pay/x/pay_1", "https://shop.example/pay") == "pay_1"


def test_a_link_to_somewhere_else_is_no_payment() -> None:
    payment = new_id("pay_t", 0)
    for link in (
        f"https://evil.example/pay/{payment}",
        f"https://pay.example.evil.example/{payment}",
        f"https://pay.example@evil.example/{payment}",
        f"http://pay.example/pay/{payment}",
        f"https://pay.example:8443/pay/{payment}",
        f"https://evil.example/?x=https://pay.example/pay/{payment}",
        f"//pay.example/{payment}",
        f"../{payment}",
    ):
        for form in (link, quote(link, safe="")):
            with pytest.raises(PaymentNotFound):
                unwrap_payment_id(form, "https://pay.example")


async def test_a_link_as_the_id_works_for_a_whole_payment(shop: Shop) -> None:
    for times in range(3):
        payment = await shop.pay()
        link = f"https://pay.example/pay/{payment}"
        for _ in range(times):
            link = quote(link, safe="")
        options = await ask(shop, link, [BUYER], "?includePaymentInfo=true")
        assert options.status == 200, options.body
        confirmed = await shop.confirm(link, options.body["options"][0]["id"], SIGNATURE)
        assert confirmed.body["status"] == "processing"
        assert (await get(shop, link, "/status?maxPollMs=9000")).body["status"] == "succeeded"
        assert (await get(shop, link)).body["status"] == "succeeded"


async def test_a_foreign_link_as_the_id_is_not_found(shop: Shop) -> None:
    payment = await shop.pay()
    for link in (
        f"https://evil.example/pay/{payment}",
        quote(f"https://evil.example/pay/{payment}", safe=""),
    ):
        for found in (
            await ask(shop, link, [BUYER]),
            await get(shop, link),
            await get(shop, link, "/status"),
        ):
            assert (found.status, found.code) == (404, "payment_not_found")


async def test_an_unknown_key_of_a_gateway_caller_says_so(shop: Shop) -> None:
    key = make_api_key("test", system_entropy(KEY_ENTROPY_BYTES))
    found = await shop.call("GET", f"/v1/gateway/payment/{await shop.pay()}", key=key)
    assert (found.status, found.code) == (401, "invalid_api_key")
    assert USDC_BASE not in found.raw.decode()
