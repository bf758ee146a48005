"""What wallets are told of a payment: the networks that can pay it, nothing of the merchant's own nodes."""

from __future__ import annotations

import html
import json
import re
from typing import Any

from payd.web.checkout.wallets import PUBLIC_RPC, phone_links
from tests.shop import SOLANA, SOLANA_WALLET, USDC_SOLANA, WALLET, Shop

LINK = "https://pay.example/pay/pay_l1"
OPTIMISM = "eip155:10/erc20:0x0b2C639c533813f4Aa9D7837CAf62653d097Ff85"


async def page(shop: Shop, payment: str) -> str:
    found = await shop.call("GET", f"/pay/{payment}", key=None, accept="text/html")
    return found.raw.decode()


def data(body: str, name: str) -> str:
    found = re.search(rf"data-{name}=(?:\"([^\"]*)\"|'([^']*)')", body)
    assert found is not None
    return html.unescape(found[1] or found[2])


async def test_wallets_are_told_the_networks_of_what_the_shop_takes(shop: Shop) -> None:
    await shop.register(shop.merchant_id, OPTIMISM, f"eip155:10:{WALLET}")
    await shop.register(shop.merchant_id, USDC_SOLANA, f"{SOLANA}:{SOLANA_WALLET}")
    body = await page(shop, await shop.pay())
    chains: dict[str, Any] = json.loads(data(body, "chains"))
    assert chains["eip155:10"] == {
        "chainName": "OP Mainnet",
        "nativeCurrency": {"name": "Ether", "symbol": "ETH", "decimals": 18},
        "rpcUrls": [PUBLIC_RPC["eip155:10"]],
    }
    assert chains[SOLANA] == {"chainName": "Solana"}
    assert "USDC (OP Mainnet)" in data(body, "accepted")
    assert "USDC (Solana)" in data(body, "accepted")
    assert data(body, "app") == shop.realm.checkout_app_id
    assert "data-rehearsal" in body


async def test_a_payment_that_is_over_asks_no_wallet(shop: Shop) -> None:
    payment = await shop.pay()
    assert 'id="pay"' in await page(shop, payment)
    await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": "cancelled"})
    assert 'id="pay"' not in await page(shop, payment)


async def test_a_shop_that_takes_nothing_asks_no_wallet(shop: Shop) -> None:
    kept = await shop.call("GET", f"/v1/merchants/{shop.merchant_id}/settlements")
    payment = await shop.pay()
    for settlement in kept.body["crypto"]:
        path = f"/v1/merchants/{shop.merchant_id}/settlements/crypto/{settlement['id']}"
        assert (await shop.call("DELETE", path)).status == 200
    assert 'id="pay"' not in await page(shop, payment)


def test_phones_open_the_page_in_a_wallet_for_a_network_that_pays() -> None:
    both = {one.name: one.href for one in phone_links(LINK, {"eip155:1", SOLANA})}
    assert both == {
        "MetaMask": "https://link.metamask.io/dapp/pay.example/pay/pay_l1",
        "Coinbase Wallet": "https://go.cb-w.com/dapp?cb_url=https%3A%2F%2Fpay.example%2Fpay%2Fpay_l1",
        "Trust Wallet": "https://link.trustwallet.com/open_url?coin_id=60"
        "&url=https%3A%2F%2Fpay.example%2Fpay%2Fpay_l1",
        "Phantom": "https://phantom.app/ul/browse/https%3A%2F%2Fpay.example%2Fpay%2Fpay_l1"
        "?ref=https%3A%2F%2Fpay.example",
    }
    assert [one.name for one in phone_links(LINK, {SOLANA})] == ["Phantom"]
    assert phone_links("http://127.0.0.1:8420/pay/pay_l1", {"eip155:1", SOLANA}) == ()
