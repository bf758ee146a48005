"""Solana Pay through the door: what a wallet gets that follows the specification, and why it gets nothing."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import unquote

import msgspec
import pytest
import trio

from payd.chains.simulated_actions import binding
from payd.store.logos import put_picture
from payd.store.options import quotes_in
from payd.store.watches import known_bindings
from payd.web.limits import SIGN_REQUESTS_AT_ONCE, sign_request_limit
from payd.web.solana_pay import TEST_WORDS, transaction_request
from tests.shop import SOLANA, SOLANA_WALLET, USDC_BASE, USDC_SOLANA, WALLET, Got, Shop
from tests.web.solana import BUYER, SOL, SolanaShop, open_solana_shop

ORIGIN = {"origin": "https://wallet.example"}


@pytest.fixture
async def solana(tmp_path: Path) -> AsyncIterator[SolanaShop]:
    async with open_solana_shop(tmp_path / "data") as opened:
        yield opened


async def ask(solana: SolanaShop, payment: str, account: str = BUYER, query: str = "") -> Got:
    return await solana.call("POST", f"/v1/solana-pay/{payment}{query}", {"account": account}, **ORIGIN)


async def links(solana: SolanaShop, payment: str) -> Got:
    return await solana.call("GET", f"/v1/solana-pay/{payment}/links", **ORIGIN)


async def test_a_wallet_is_told_who_asks(solana: SolanaShop) -> None:
    found = await solana.call("GET", f"/v1/solana-pay/{await solana.pay()}", **ORIGIN)
    assert (found.status, found.body["label"]) == (200, "Café Größe")
    assert found.body.keys() == {"label", "icon"}
    assert found.headers["access-control-allow-origin"] == "*"
    assert found.headers["cache-control"] == "no-store"
    origin, _, path = found.body["icon"].partition("/static/")
    assert origin == "https://pay.example"
    icon = await solana.call("GET", f"/static/{path}")
    assert (icon.status, icon.headers["content-type"]) == (200, "image/png")
    assert icon.raw.startswith(b"\x89PNG")
    assert icon.headers["cross-origin-resource-policy"] == "cross-origin"
    assert "immutable" in icon.headers["cache-control"]


@pytest.mark.parametrize(
    ("icon_url", "is_shown"),
    [
        ("https://shop.example/logo.svg", True),
        ("https://shop.example/logo.PNG?size=200", True),
        ("https://shop.example/logo.webp", True),
        ("https://shop.example/logo.jpeg", False),
        ("https://shop.example/logo?as=.png", False),
    ],
)
async def test_the_merchants_picture_is_shown_when_wallets_can_show_it(
    solana: SolanaShop, icon_url: str, is_shown: bool
) -> None:
    path = f"/v1/merchants/{solana.merchant_id}"
    assert (await solana.call("PATCH", path, {"iconUrl": icon_url}, key=solana.key)).status == 200
    found = await solana.call("GET", f"/v1/solana-pay/{await solana.pay()}")
    assert (found.body["icon"] == icon_url) is is_shown
    assert found.body["icon"].startswith("https://")


async def test_a_logo_that_is_here_goes_before_the_address_it_came_from(solana: SolanaShop) -> None:
    path = f"/v1/merchants/{solana.merchant_id}"
    await solana.call("PATCH", path, {"iconUrl": "https://shop.example/logo.png"}, key=solana.key)
    db = solana.shop.house.realms["live"].db
    digest = await db.write(put_picture, solana.merchant_id, b"RIFFxxxxWEBP")
    found = await solana.call("GET", f"/v1/solana-pay/{await solana.pay()}")
    assert found.body["icon"] == f"https://pay.example/logo/{digest}.webp"


async def test_a_wallet_gets_a_transaction_and_what_it_is_for(solana: SolanaShop) -> None:
    payment = await solana.pay()
    found = await ask(solana, payment)
    assert found.status == 200
    assert found.body.keys() == {"transaction", "message"}
    assert found.body["message"] == "25.00 USDC to Café Größe, order ORDER-7"
    assert len(base64.b64decode(found.body["transaction"], validate=True)) <= 1232
    assert found.headers["access-control-allow-origin"] == "*"
    assert found.headers["cache-control"] == "no-store"


async def test_what_is_handed_out_is_quoted_and_watched_for_first(solana: SolanaShop) -> None:
    payment = await solana.pay()
    await ask(solana, payment)
    db = solana.shop.house.realms["live"].db
    quotes = db.point(quotes_in, payment, USDC_SOLANA)
    assert {(quote.account, quote.amount, quote.resolved) for quote in quotes} == {
        (f"{SOLANA}:{BUYER}", 25_000_000, resolved) for resolved in (True, False)
    }
    reference = binding(payment, "reference")
    assert (reference, USDC_SOLANA) in db.point(known_bindings, [reference], SOLANA)


async def test_the_first_asset_that_the_wallet_holds_is_asked_for_unless_one_is_named(
    solana: SolanaShop,
) -> None:
    payment = await solana.pay()
    assert (await ask(solana, payment)).body["message"].startswith("25.00 USDC ")
    for query in (f"?asset={SOL}", "?asset=solana:mainnet/slip44:501"):
        assert (await ask(solana, payment, query=query)).body["message"].startswith("0.1713 SOL ")
    solana.chain.holdings[BUYER] = {SOL}
    assert (await ask(solana, payment)).body["message"].startswith("0.1713 SOL ")


async def test_the_merchants_order_counts(tmp_path: Path) -> None:
    async with open_solana_shop(tmp_path / "data", SOL, USDC_SOLANA) as solana:
        assert (await ask(solana, await solana.pay())).body["message"].startswith("0.1713 SOL ")


async def test_a_destination_under_an_alias_of_the_chain_is_paid_all_the_same(tmp_path: Path) -> None:
    asset = USDC_SOLANA.replace(SOLANA, "solana:mainnet").replace("/token:", "/spl:")
    async with open_solana_shop(tmp_path / "data", asset) as solana:
        payment = await solana.pay()
        assert (await ask(solana, payment)).body["message"].startswith("25.00 USDC ")
        assert (await links(solana, payment)).body["links"][0]["assetSymbol"] == "USDC"


async def test_a_wallet_of_the_gateway_may_name_the_chain_by_its_alias_too(solana: SolanaShop) -> None:
    path = f"/v1/gateway/payment/{await solana.pay()}"
    key = await solana.shop.new_key(realm="live")
    offered = await solana.call("POST", f"{path}/options", [f"solana:mainnet:{BUYER}"], key=key)
    option = offered.body["options"][0]
    asked = {"optionId": option["id"], "data": option["actions"][0]["data"]}
    fetched = await solana.call("POST", f"{path}/fetch", asked, key=key)
    assert fetched.status == 200, fetched.body
    transaction = msgspec.json.decode(fetched.body["actions"][0]["params"])[0]["transaction"]
    results = {"optionId": option["id"], "results": [{"type": "walletRpc", "data": [transaction]}]}
    confirmed = await solana.call("POST", f"{path}/confirm", results, key=key)
    assert (confirmed.status, confirmed.body.get("status")) == (200, "processing"), confirmed.body


async def test_whose_wallet_holds_too_little_is_told_of_what(solana: SolanaShop) -> None:
    payment = await solana.pay()
    refused = await ask(solana, payment, SOLANA_WALLET)
    assert (refused.status, refused.code) == (400, "invalid_params")
    assert refused.body["message"] == "This wallet cannot pay: it holds too little USDC or SOL."
    assert refused.headers["access-control-allow-origin"] == "*"
    refused = await ask(solana, payment, SOLANA_WALLET, f"?asset={SOL}")
    assert refused.body["message"] == "This wallet cannot pay: it holds too little SOL."
    refused = await ask(solana, payment, SOLANA_WALLET, f"?asset={USDC_SOLANA}")
    words = "This wallet cannot pay: it holds too little USDC, or SOL for the network fee."
    assert refused.body["message"] == words
    assert len(words) <= 80, "wallets show no more"


@pytest.mark.parametrize("account", ["", "abc", "0OIl", f"{SOLANA}:{BUYER}", WALLET, "1" * 33])
async def test_an_account_that_is_none_is_refused(solana: SolanaShop, account: str) -> None:
    refused = await ask(solana, await solana.pay(), account)
    assert (refused.status, refused.code) == (400, "invalid_params")
    assert refused.body["message"].startswith("account: a Solana address is")


async def test_a_body_without_an_account_is_refused_and_more_in_it_is_passed_over(solana: SolanaShop) -> None:
    path = f"/v1/solana-pay/{await solana.pay()}"
    for body in ({}, {"account": 1}, {"account": None}):
        assert (await solana.call("POST", path, body)).code == "params_validation"
    assert (await solana.call("POST", path, {"account": BUYER, "later": [1]})).status == 200


async def test_an_asset_that_the_shop_does_not_take_on_solana_is_refused(solana: SolanaShop) -> None:
    payment = await solana.pay()
    for asset in (USDC_BASE, f"{SOLANA}/token:{BUYER}"):
        for found in (
            await ask(solana, payment, query=f"?asset={asset}"),
            await solana.call("GET", f"/v1/solana-pay/{payment}?asset={asset}"),
        ):
            assert (found.status, found.code) == (400, "invalid_params")
            assert f"asset can be: {USDC_SOLANA}, {SOL}." in found.body["message"]
    assert (await ask(solana, payment, query="?asset=USDC")).body["message"].startswith("asset: must be")


async def everything(solana: SolanaShop, payment: str) -> list[Got]:
    """Both halves of a transaction request, and the links."""
    path = f"/v1/solana-pay/{payment}"
    return [await solana.call("GET", path), await ask(solana, payment), await links(solana, payment)]


async def test_a_payment_that_is_over_is_refused_in_words(solana: SolanaShop) -> None:
    payment = await solana.pay()
    cancelled = await solana.call("POST", f"/v1/payments/{payment}/cancel", key=solana.key)
    assert cancelled.status == 200
    for found in await everything(solana, payment):
        assert (found.status, found.code) == (400, "invalid_state")
        assert found.body["message"].startswith("This payment was cancelled.")


async def test_a_payment_that_expired_is_gone(solana: SolanaShop) -> None:
    expires_s = solana.now_ms() // 1000 + 60
    payment = await solana.pay(expiresAt=expires_s)
    await trio.sleep(61)
    for found in await everything(solana, payment):
        assert (found.status, found.code) == (410, "payment_expired")
        assert found.body["message"].startswith("This payment has expired. Do not send money now;")


async def test_a_shop_without_solana_says_so(tmp_path: Path) -> None:
    async with open_solana_shop(tmp_path / "data") as solana:
        kept = await solana.call("GET", f"/v1/merchants/{solana.merchant_id}/settlements", key=solana.key)
        payment = await solana.pay()
        for settlement in kept.body["crypto"]:
            path = f"/v1/merchants/{solana.merchant_id}/settlements/crypto/{settlement['id']}"
            assert (await solana.call("DELETE", path, key=solana.key)).status == 200
        for found in await everything(solana, payment):
            assert (found.status, found.code) == (404, "not_found")
            assert found.body["message"] == "The shop takes nothing on Solana for this payment."


async def test_an_unknown_payment_is_not_there(solana: SolanaShop) -> None:
    for payment in ("pay_l" + "0" * 36, "pay_t" + "0" * 36, "nonsense"):
        for found in await everything(solana, payment):
            assert (found.status, found.code) == (404, "payment_not_found")


async def test_while_no_node_answers_a_wallet_is_told_to_come_back(solana: SolanaShop) -> None:
    payment = await solana.pay()
    solana.chain.is_down = True
    for found in (await ask(solana, payment), await links(solana, payment)):
        assert (found.status, found.headers["retry-after"]) == (503, "5")
    assert (await solana.call("GET", f"/v1/solana-pay/{payment}")).status == 200


async def test_a_test_payment_is_shown_and_never_handed_out(shop: Shop) -> None:
    """Its transaction is unsigned: a wallet would give it a real blockhash and send real funds."""
    await shop.register(shop.merchant_id, USDC_SOLANA, f"{SOLANA}:{SOLANA_WALLET}")
    path = f"/v1/solana-pay/{await shop.pay()}"
    shown = await shop.call("GET", path, key=None)
    assert (shown.status, shown.body["label"]) == (200, "Café Größe")
    for refused in (
        await shop.call("POST", path, {"account": BUYER}, key=None),
        await shop.call("GET", f"{path}/links", key=None),
    ):
        assert (refused.status, refused.body["message"]) == (400, TEST_WORDS)
        assert "transaction" not in refused.body


async def test_pages_of_any_origin_may_ask(solana: SolanaShop) -> None:
    path = f"/v1/solana-pay/{await solana.pay()}"
    asked = {"access_control_request_headers": "content-type, cache-control", **ORIGIN}
    found = await solana.call("OPTIONS", path, access_control_request_method="POST", **asked)
    assert found.status == 204
    assert found.headers["access-control-allow-origin"] == "*"
    assert "POST" in found.headers["access-control-allow-methods"]
    assert found.headers["access-control-allow-headers"] == "content-type, cache-control"


async def test_an_address_is_handed_so_many_transactions_and_no_more(solana: SolanaShop) -> None:
    stopped_s = 1000.0
    solana.shop.house.limits.sign_requests = sign_request_limit(lambda: stopped_s)
    payment = await solana.pay()
    statuses = [(await ask(solana, payment)).status for _ in range(SIGN_REQUESTS_AT_ONCE)]
    assert statuses == [200] * SIGN_REQUESTS_AT_ONCE
    refused = await ask(solana, payment)
    assert (refused.status, refused.code, refused.headers["retry-after"]) == (429, "rate_limited", "1")


async def test_who_switches_the_limit_of_addresses_off_has_none_here_either(tmp_path: Path) -> None:
    for per_ip, expected in (("0", 0), ("200", 1)):
        async with open_solana_shop(tmp_path / per_ip, PAYD_RATE_LIMITS_PER_IP=per_ip) as solana:
            limit = solana.shop.house.limits.sign_requests
            waits = [limit.take("203.0.113.7") for _ in range(SIGN_REQUESTS_AT_ONCE + 20)]
            assert (max(waits) > 0) == expected


async def test_the_limit_of_open_doors_counts_here_too(tmp_path: Path) -> None:
    async with open_solana_shop(tmp_path / "data", PAYD_RATE_LIMITS_PER_IP="1") as solana:
        path = f"/v1/solana-pay/{await solana.pay()}"
        statuses = [(await solana.call("GET", path)).status for _ in range(3)]
        assert statuses == [200, 200, 429]


async def test_there_is_a_link_for_each_asset_and_what_it_asks_is_quoted_first(solana: SolanaShop) -> None:
    payment = await solana.pay()
    found = await links(solana, payment)
    assert found.status == 200
    usdc, sol = found.body["links"]
    assert (usdc["asset"], usdc["assetSymbol"]) == (USDC_SOLANA, "USDC")
    assert usdc["amount"]["unit"] == f"caip19/{USDC_SOLANA}"
    assert usdc["amount"]["value"] == "25000000"
    assert usdc["amount"]["display"]["decimals"] == 6
    assert usdc["url"].startswith(f"solana:{SOLANA_WALLET}?amount=25&spl-token=EPjF")
    assert usdc["expiresAt"] == solana.now_ms() // 1000 + 900
    assert (sol["assetSymbol"], sol["expiresAt"]) == ("SOL", (solana.now_ms() + 90_000) // 1000)
    assert sol["url"].startswith(f"solana:{SOLANA_WALLET}?amount=0.1713&label=Caf%C3%A9%20Gr%C3%B6%C3%9Fe")
    db = solana.shop.house.realms["live"].db
    for asset, value in ((USDC_SOLANA, 25_000_000), (SOL, 171_300_000)):
        [quote] = db.point(quotes_in, payment, asset)
        assert (quote.amount, quote.account) == (value, f"{SOLANA}:{'1' * 32}")


async def test_a_link_names_the_transaction_request_for_the_same_asset(solana: SolanaShop) -> None:
    payment = await solana.pay()
    found = (await links(solana, payment)).body["links"]
    for link in found:
        scheme, _, url = link["transactionRequest"].partition(":")
        assert scheme == "solana"
        assert "?" not in url
        path = unquote(url).removeprefix("https://pay.example")
        asked = await solana.call("POST", path, {"account": BUYER})
        assert asked.body["message"].startswith(amount_of(link))
    solana.shop.house.base_url = "http://192.168.1.7:8700"
    again = (await links(solana, payment)).body["links"]
    assert [link["transactionRequest"] for link in again] == [None, None]


def amount_of(link: dict[str, str]) -> str:
    return {"USDC": "25.00 USDC ", "SOL": "0.1713 SOL "}[link["assetSymbol"]]


def test_only_a_url_with_a_query_is_encoded_and_only_https_is_asked_for() -> None:
    plain = transaction_request("https://pay.example/below", "pay_l1")
    assert plain == "solana:https://pay.example/below/v1/solana-pay/pay_l1"
    for_sol = transaction_request("https://pay.example", "pay_l1", SOL) or ""
    assert for_sol.startswith("solana:https%3A%2F%2Fpay.example%2Fv1%2Fsolana-pay%2Fpay_l1%3Fasset%3D")
    assert unquote(for_sol).endswith(f"?asset={SOL}")
    assert transaction_request("http://pay.example", "pay_l1") is None
