"""The gateway as a wallet sees it: the payment, its options, and both renderings of actions.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.contract.outside import (
    ETHER,
    ID_REST,
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


@pytest.fixture(scope="module")
def bazaar(shop: Shop) -> str:
    """A merchant that takes a stablecoin, a coin, and a Solana token."""
    return shop.merchant("Bazaar", (USDC, WALLET), (ETHER, WALLET), (SOLANA_USDC, SOLANA_WALLET))


def ask(shop: Shop, payment_id: str, accounts: Any, **params: Any) -> Any:
    return ok(shop.api.post(f"/v1/gateway/payment/{payment_id}/options", accounts, **params))


def assert_amount(amount: Any) -> None:
    """Hold an amount of the gateway to its shape."""
    assert isinstance(amount["unit"], str)
    assert re.fullmatch(r"\d+", amount["value"])
    display = amount["display"]
    assert isinstance(display["assetSymbol"], str)
    assert isinstance(display["assetName"], str)
    assert type(display["decimals"]) is int


def assert_flat(action: Any) -> None:
    """Hold an action to the rendering of SPEC.md."""
    if action["type"] == "build":
        assert isinstance(action["data"], str)
        return
    assert action["type"] == "walletRpc"
    assert re.fullmatch(r"[-a-z0-9]{3,8}:[-_a-zA-Z0-9]{1,32}", action["chain_id"])
    assert isinstance(action["method"], str)
    assert isinstance(action["params"], str)
    json.loads(action["params"])


def test_the_payment_can_be_read(shop: Shop, bazaar: str) -> None:
    payment_id = shop.payment(bazaar)
    body = ok(shop.api.get(f"/v1/gateway/payment/{payment_id}"))
    assert body["status"] == "requires_action"
    assert_amount(body["amount"])
    assert type(body["expiresAt"]) is int
    assert body["merchant"]["name"] == "Bazaar"


def test_an_option_has_the_fields_that_wallets_require(shop: Shop, bazaar: str) -> None:
    buyer = fresh_buyer()
    body = ask(shop, shop.payment(bazaar), [buyer, SOLANA_BUYER])
    assert body["collectData"] is None
    assert body.get("info") is None
    units = {option["amount"]["unit"].lower() for option in body["options"]}
    assert units == {f"caip19/{asset}".lower() for asset in (USDC, ETHER, SOLANA_USDC)}
    for option in body["options"]:
        assert re.fullmatch(f"opt_{ID_REST}", option["id"])
        assert option["account"] == (SOLANA_BUYER if "solana" in option["amount"]["unit"] else buyer)
        assert_amount(option["amount"])
        assert type(option["etaS"]) is int
        assert option["expiresAt"] is None or type(option["expiresAt"]) is int
        assert option["collectData"] is None
        assert option["actions"]
        for action in option["actions"]:
            assert_flat(action)


def test_info_comes_only_when_asked_for(shop: Shop, bazaar: str) -> None:
    payment_id = shop.payment(bazaar)
    assert ask(shop, payment_id, [WALLET], includePaymentInfo="false").get("info") is None
    info = ask(shop, payment_id, [WALLET], includePaymentInfo="true")["info"]
    assert info["status"] == "requires_action"
    assert_amount(info["amount"])
    assert (info["amount"]["unit"], info["amount"]["value"]) == ("iso4217/USD", "1250")
    assert info["expiresAt"] == shop.detail(payment_id)["expiresAt"]
    assert type(info["expiresAt"]) is int
    assert info["merchant"]["name"] == "Bazaar"
    assert info.get("buyer") is None
    answer = shop.api.post(f"/v1/gateway/payment/{payment_id}/options", [WALLET], includePaymentInfo="maybe")
    assert_refused(answer, 400, "invalid_params")


def test_info_names_the_buyer_once_there_is_one(shop: Shop, bazaar: str) -> None:
    payment_id, buyer = shop.payment(bazaar), fresh_buyer()
    shop.pay(payment_id, buyer)
    info = ask(shop, payment_id, [buyer], includePaymentInfo="true")["info"]
    assert info["status"] in ("processing", "succeeded")
    assert info["buyer"]["accountCaip10"].lower() == buyer
    assert isinstance(info["buyer"]["accountProviderName"], str)


def test_both_forms_of_the_body_mean_the_same(shop: Shop, bazaar: str) -> None:
    payment_id = shop.payment(bazaar)
    bare = ask(shop, payment_id, [WALLET])["options"]
    wrapped = ask(shop, payment_id, {"accounts": [WALLET]})["options"]
    assert {option["id"] for option in bare} == {option["id"] for option in wrapped}
    ask(shop, payment_id, {"accounts": [WALLET], "refresh": None})
    ask(shop, payment_id, {"accounts": [WALLET], "refresh": ["x"]})


def test_option_ids_are_of_payment_asset_and_account(shop: Shop, bazaar: str) -> None:
    first, second = shop.payment(bazaar), shop.payment(bazaar)
    buyer, stranger = fresh_buyer(), fresh_buyer()

    def ids(payment_id: str, account: str) -> set[str]:
        return {option["id"] for option in shop.options(payment_id, account)}

    assert ids(first, buyer) == ids(first, buyer)
    assert not ids(first, buyer) & ids(first, stranger)
    assert not ids(first, buyer) & ids(second, buyer)


def test_unknown_chains_are_ignored_and_malformed_accounts_refused(shop: Shop, bazaar: str) -> None:
    payment_id = shop.payment(bazaar)
    known = ask(shop, payment_id, [WALLET])["options"]
    strangers = [WALLET, "eip155:987654:" + WALLET[12:], "cosmos:hub:cosmos1abc"]
    assert [o["id"] for o in ask(shop, payment_id, strangers)["options"]] == [o["id"] for o in known]
    path = f"/v1/gateway/payment/{payment_id}/options"
    for malformed in ("nonsense", "", WALLET[12:], "eip155:8453", "eip155:8453:0x12"):
        answer = shop.api.post(path, {"accounts": [WALLET, malformed]})
        assert answer.status_code == 400, malformed
        assert answer.json()["code"] in ("invalid_params", "params_validation")
    for wrong in ({}, {"accounts": None}, {"accounts": "x"}, {"accounts": [7]}, 7, "x"):
        assert_refused(shop.api.post(path, wrong), 400, "params_validation")


def test_100_accounts_may_be_passed_and_50_options_come_back(shop: Shop, merchant_id: str) -> None:
    payment_id = shop.payment(merchant_id)
    path = f"/v1/gateway/payment/{payment_id}/options"
    assert len(ask(shop, payment_id, [fresh_buyer() for _ in range(100)])["options"]) == 50
    assert_refused(shop.api.post(path, [fresh_buyer() for _ in range(101)]), 400, "params_validation")
    for _ in range(3):
        ask(shop, payment_id, [fresh_buyer() for _ in range(50)])
    answer = shop.api.post(path, [fresh_buyer()])
    assert_refused(answer, 429, "rate_limited")
    assert int(answer.headers["Retry-After"]) > 0


def test_the_preview_version_nests_what_the_stable_one_has_flat(shop: Shop, bazaar: str) -> None:
    payment_id = shop.payment(bazaar)
    accounts = [WALLET, SOLANA_BUYER]
    flat = ask(shop, payment_id, accounts)["options"]
    for header in ("Service-Version", "api-version"):
        preview = shop.api.having(**{header: NESTED})
        nested = ok(preview.post(f"/v1/gateway/payment/{payment_id}/options", accounts))["options"]
        assert [option["id"] for option in nested] == [option["id"] for option in flat]
        for before, after in zip(flat, nested, strict=True):
            for old, new in zip(before["actions"], after["actions"], strict=True):
                assert old["type"] == new["type"]
                if new["type"] == "build":
                    assert new["data"] == {"data": old["data"]}
                    continue
                assert set(new) == {"type", "data"}
                assert set(new["data"]) == {"chain_id", "method", "params"}
                assert isinstance(new["data"]["params"], list)
                assert json.loads(old["params"]) == new["data"]["params"]
                assert (old["chain_id"], old["method"]) == (new["data"]["chain_id"], new["data"]["method"])


def test_fetch_refuses_what_it_does_not_know(shop: Shop, bazaar: str) -> None:
    payment_id = shop.payment(bazaar)
    path = f"/v1/gateway/payment/{payment_id}/fetch"
    assert_refused(shop.api.post(path, {"optionId": "opt_" + "0" * 36, "data": "x"}), 400, "invalid_params")
    assert_misses_schema(shop.api.post(path, {"data": "x"}), "optionId")
    assert_misses_schema(shop.api.post(path, {"optionId": "opt_x"}), "data")
    option = shop.options(payment_id, WALLET)[0]
    assert_refused(shop.api.post(path, {"optionId": option["id"], "data": "nonsense"}), 400, "invalid_params")


def test_status_on_the_gateway(shop: Shop, bazaar: str) -> None:
    payment_id = shop.payment(bazaar)
    path = f"/v1/gateway/payment/{payment_id}/status"
    body = ok(shop.api.get(path))
    assert (body["status"], body["isFinal"]) == ("requires_action", False)
    assert type(body["pollInMs"]) is int
    shop.pay(payment_id, magic_buyer(1))
    shop.advance("5s")
    body = ok(shop.api.get(path))
    assert (body["status"], body["isFinal"]) == ("succeeded", True)
    assert body.get("pollInMs") is None
    assert body["info"]["txId"] == f"test:{payment_id}"
    assert_amount(body["info"]["optionAmount"])


@pytest.mark.parametrize("to", ["failed", "cancelled"])
def test_a_payment_final_for_another_reason_offers_nothing(shop: Shop, bazaar: str, to: str) -> None:
    payment_id = shop.payment(bazaar)
    shop.simulate(payment_id, to)
    body = ask(shop, payment_id, [WALLET], includePaymentInfo="true")
    assert body["options"] is None
    assert body["info"]["status"] == to


def test_a_succeeded_payment_offers_nothing(shop: Shop, bazaar: str) -> None:
    payment_id = shop.payment(bazaar)
    shop.pay(payment_id, fresh_buyer())
    shop.advance("5s")
    body = ask(shop, payment_id, [WALLET], includePaymentInfo="true")
    assert (body["options"], body["info"]["status"]) == (None, "succeeded")


def test_an_expired_payment_is_410_for_who_wants_to_pay(shop: Shop, bazaar: str) -> None:
    payment_id = shop.payment(bazaar)
    option = shop.options(payment_id, WALLET)[0]
    results = shop.results(payment_id, option)
    shop.advance("15m")
    shop.advance("1s")
    path = f"/v1/gateway/payment/{payment_id}"
    assert_refused(shop.api.post(f"{path}/options", [WALLET]), 410, "payment_expired")
    assert_refused(
        shop.api.post(f"{path}/fetch", {"optionId": option["id"], "data": ""}), 410, "payment_expired"
    )
    assert_refused(shop.confirm(payment_id, option["id"], results), 410, "payment_expired")
    body = ok(shop.api.get(f"{path}/status"))
    assert (body["status"], body["isFinal"]) == ("expired", True)
    assert ok(shop.api.get(path))["status"] == "expired"


def test_a_buyer_with_nothing_has_no_option(shop: Shop, bazaar: str) -> None:
    assert ask(shop, shop.payment(bazaar), [magic_buyer(3)])["options"] == []
