"""Options: for which accounts, how many, for how long, and to which destination."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from payd.web.limits import SIGN_REQUESTS_AT_ONCE, sign_request_limit
from tests.shop import (
    APPROVES,
    BUYER,
    ETH_BASE,
    SIGNATURE,
    SOLANA,
    SOLANA_WALLET,
    USDC_BASE,
    WALLET,
    Shop,
)
from tests.web.wallet import (
    MAINNET_BUYER,
    ask,
    check_info,
    check_option,
    get,
    simulate,
    stock,
)


@pytest.fixture
async def rich(shop: Shop) -> Shop:
    """A shop that takes a stablecoin, a coin, a token by Permit2 and one on Solana."""
    return await stock(shop)


async def test_accounts_come_as_a_bare_list_or_under_their_name(shop: Shop) -> None:
    payment = await shop.pay()
    bodies: tuple[Any, ...] = (
        [BUYER],
        {"accounts": [BUYER]},
        {"accounts": [BUYER], "refresh": None},
        {"accounts": [BUYER], "refresh": ["x"]},
    )
    answers = [await ask(shop, payment, body) for body in bodies]
    assert {answer.status for answer in answers} == {200}
    assert len({answer.raw for answer in answers}) == 1
    assert answers[0].body.keys() == {"options", "info", "collectData"}
    assert (answers[0].body["info"], answers[0].body["collectData"]) == (None, None)


async def test_a_stranger_with_an_apps_id_does_not_keep_the_nodes_busy(shop: Shop) -> None:
    """Of a hundred accounts that have nothing no option is stored, and no payment has its fill of them."""
    stopped_s = 1000.0
    shop.house.limits.sign_requests = sign_request_limit(lambda: stopped_s)
    path = f"/v1/gateway/payment/{await shop.pay()}"
    app: dict[str, Any] = {"key": None, "app_id": shop.realm.checkout_app_id, "client_id": "client-1"}
    strangers = [f"eip155:8453:0x{number:040x}" for number in range(1000, 1100)]
    body = {"optionId": "opt_1", "data": "permit2:"}
    for below, asked in (("options", strangers), ("fetch", body)):
        for _ in range(SIGN_REQUESTS_AT_ONCE // 2):
            assert (await shop.call("POST", f"{path}/{below}", asked, **app)).status in (200, 400)
    for below, asked in (("options", strangers), ("fetch", body)):
        refused = await shop.call("POST", f"{path}/{below}", asked, **app)
        assert (refused.status, refused.code, refused.headers["retry-after"]) == (429, "rate_limited", "1")
        assert (await shop.call("POST", f"{path}/{below}", asked)).status != 429, "a key has its own limit"
    assert (await shop.call("GET", f"{path}/status", **app)).status == 200


async def test_a_wallet_is_told_what_its_chain_expects_to_success(rich: Shop) -> None:
    found = await ask(rich, await rich.pay(), [BUYER, f"{SOLANA}:{SOLANA_WALLET}"])
    assert [option["etaS"] for option in found.body["options"]] == [1, 1, 1], "[test] confirm_after_ms"


async def test_options_have_the_exact_shape(rich: Shop) -> None:
    payment = await rich.pay()
    accounts = [BUYER, MAINNET_BUYER, f"{SOLANA}:{SOLANA_WALLET}"]
    found = await ask(rich, payment, accounts, "?includePaymentInfo=true")
    assert len(found.body["options"]) == 4
    for option in found.body["options"]:
        check_option(option)
        assert option["account"] in accounts
    check_info(found.body["info"])


async def test_payment_info_is_there_when_asked_for(shop: Shop) -> None:
    payment = await shop.pay()
    for query, there in (
        ("", False),
        ("?includePaymentInfo=false", False),
        ("?includePaymentInfo=true", True),
    ):
        found = await ask(shop, payment, [BUYER], query)
        assert (found.body["info"] is not None) == there
    wrong = await ask(shop, payment, [BUYER], "?includePaymentInfo=yes")
    assert (wrong.status, wrong.code) == (400, "invalid_params")


async def test_a_stablecoin_quote_has_no_end_of_its_own_and_a_coin_has(rich: Shop) -> None:
    payment = await rich.pay(expiresAt=rich.realm.clock.now_ms() // 1000 + 7200)
    by_asset = {option["amount"]["unit"]: option for option in await rich.options(payment, [BUYER])}
    assert by_asset[f"caip19/{USDC_BASE}"]["expiresAt"] is None
    assert by_asset[f"caip19/{ETH_BASE}"]["expiresAt"] == rich.realm.clock.now_ms() // 1000 + 600


async def test_unknown_chains_are_ignored(shop: Shop) -> None:
    payment = await shop.pay()
    others = ["cosmos:cosmoshub-3:cosmos1abc", "eip155:999999:" + WALLET, "tron:0x2b6653dc:TXYZ"]
    found = await ask(shop, payment, [*others, BUYER])
    assert [option["account"] for option in found.body["options"]] == [BUYER]
    assert (await ask(shop, payment, others)).body["options"] == []
    assert (await ask(shop, payment, [])).body["options"] == []


async def test_malformed_accounts_are_refused_by_their_place(shop: Shop) -> None:
    payment = await shop.pay()
    for account, code in (
        ("", "params_validation"),
        (WALLET, "params_validation"),
        ("eip155:8453", "params_validation"),
        (f"eip155:8453:{'x' * 129}", "params_validation"),
        (f"eip155:8453:{WALLET}\n", "params_validation"),
        ("eip155:8453:0x12", "invalid_params"),
        (f"eip155:8453:{WALLET.replace('C5', 'c5')}", "invalid_params"),
        (f"{SOLANA}:0OIl", "invalid_params"),
    ):
        found = await ask(shop, payment, [BUYER, account])
        assert (found.status, found.code) == (400, code), account
        named = (
            found.body["issues"][0]["field"]
            if code == "params_validation"
            else found.body["details"]["field"]
        )
        assert named == "accounts[1]"
    for body in ({}, {"accounts": None}, {"accounts": BUYER}, {"accounts": [1]}, [None], [[BUYER]]):
        found = await ask(shop, payment, body)
        assert (found.status, found.code) == (400, "params_validation"), body


async def test_a_hundred_accounts_and_not_one_more(shop: Shop) -> None:
    payment = await shop.pay()
    many = [f"eip155:8453:0x{number:040x}" for number in range(0x10000, 0x10000 + 101)]
    assert (await ask(shop, payment, many[:100])).status == 200
    found = await ask(shop, payment, many)
    assert (found.status, found.code) == (400, "params_validation")
    assert found.body["issues"][0]["field"] == "accounts"


async def test_fifty_options_an_answer_and_the_same_account_once(shop: Shop) -> None:
    payment = await shop.pay()
    many = [f"eip155:8453:0x{number:040x}" for number in range(0x10000, 0x10000 + 60)]
    assert len(await shop.options(payment, many)) == 50
    spellings = [f"eip155:8453:{WALLET}", f"eip155:8453:{WALLET.lower()}"]
    for same in ([BUYER] * 3, spellings, spellings[::-1]):
        assert [option["account"] for option in await shop.options(payment, same)] == same[:1]


async def test_two_hundred_options_are_stored_and_then_it_is_too_many(shop: Shop) -> None:
    payment = await shop.pay()
    kept = (await shop.options(payment, [BUYER]))[0]
    for block in range(4):
        accounts = [
            f"eip155:8453:0x{number:040x}"
            for number in range(0x10000 + block * 50, 0x10000 + block * 50 + 50)
        ]
        found = await ask(shop, payment, accounts[:49] if block == 0 else accounts)
        assert found.status == 200
    refused = await ask(shop, payment, [f"eip155:8453:0x{0x20000:040x}"])
    assert (refused.status, refused.code) == (429, "rate_limited")
    assert int(refused.headers["retry-after"]) > 0
    assert await shop.options(payment, [BUYER]) == [kept]
    assert (await shop.confirm(payment, kept["id"], SIGNATURE)).status == 200


async def test_ids_are_stable_and_differ_by_payment_asset_and_account(rich: Shop) -> None:
    one, two = await rich.pay(), await rich.pay()
    first = await rich.options(one, [BUYER, MAINNET_BUYER])
    assert await rich.options(one, [BUYER, MAINNET_BUYER]) == first
    await trio.sleep(500)
    assert [option["id"] for option in await rich.options(one, [BUYER, MAINNET_BUYER])] == [
        option["id"] for option in first
    ]
    others = [option["id"] for option in await rich.options(two, [BUYER, MAINNET_BUYER, APPROVES])]
    ids = [option["id"] for option in first] + others
    assert len(set(ids)) == len(ids) == 3 + 5


async def test_a_destination_is_frozen_when_it_was_first_offered(shop: Shop) -> None:
    offered, fresh = await shop.pay(), await shop.pay()
    before = await shop.options(offered, [BUYER])
    settlement = (await shop.call("GET", f"/v1/merchants/{shop.merchant_id}/settlements")).body["crypto"][0][
        "id"
    ]
    other = "0x8626f6940e2eb28930efb4cef49b2d1f2c9c1199"
    await shop.call(
        "PUT",
        f"/v1/merchants/{shop.merchant_id}/settlements/crypto/{settlement}",
        {"destination": f"eip155:8453:{other}"},
    )
    assert await shop.options(offered, [BUYER]) == before
    assert WALLET in str(await shop.options(offered, [APPROVES]))
    assert other in str(await shop.options(fresh, [BUYER]))


async def test_on_a_payment_that_is_final_for_another_reason_there_are_no_options(shop: Shop) -> None:
    for to in ("succeeded", "failed", "cancelled", "processing"):
        payment = await shop.pay()
        await simulate(shop, payment, to)
        for query in ("", "?includePaymentInfo=true"):
            found = await ask(shop, payment, [BUYER], query)
            assert (found.status, found.body["options"], found.body["info"]["status"]) == (200, None, to)
            check_info(found.body["info"])


async def test_an_expired_payment_is_gone_on_options_fetch_and_confirm_and_still_shown(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    await trio.sleep(901)
    body = {"optionId": option["id"], "data": ""}
    for found in (
        await ask(shop, payment, [BUYER]),
        await shop.call("POST", f"/v1/gateway/payment/{payment}/fetch", body),
        await shop.confirm(payment, option["id"], SIGNATURE),
    ):
        assert (found.status, found.code) == (410, "payment_expired")
    assert (await get(shop, payment)).body["status"] == "expired"
    status = await get(shop, payment, "/status")
    assert status.body == {"status": "expired", "isFinal": True}
