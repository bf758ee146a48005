"""What a wallet asks of the gateway, and the shapes without which it cannot go on."""

from __future__ import annotations

from typing import Any

from tests.shop import BUYER, ETH_BASE, SOLANA, SOLANA_WALLET, USDC_SOLANA, USDT_MAINNET, WALLET, Got, Shop

PREVIEW = "2026-02-19.preview"
MAINNET_BUYER = BUYER.replace("eip155:8453", "eip155:1")
STATUSES = {"requires_action", "processing", "succeeded", "failed", "expired", "cancelled"}


async def ask(shop: Shop, payment: str, accounts: Any, query: str = "", **headers: str) -> Got:
    path = f"/v1/gateway/payment/{payment}/options{query}"
    return await shop.call("POST", path, accounts, key=shop.key, raw=None, **headers)


async def get(shop: Shop, payment: str, below: str = "", **headers: str) -> Got:
    return await shop.call("GET", f"/v1/gateway/payment/{payment}{below}", key=shop.key, raw=None, **headers)


async def simulate(shop: Shop, payment: str, to: str) -> None:
    assert (await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": to})).status == 200


def check_amount(amount: Any) -> None:
    assert isinstance(amount["unit"], str)
    assert isinstance(amount["value"], str)
    display = amount["display"]
    assert display.keys() >= {"assetSymbol", "assetName", "decimals"}
    assert type(display["decimals"]) is int
    assert None not in display.values()


def check_option(option: Any) -> None:
    assert option.keys() == {"id", "account", "amount", "etaS", "expiresAt", "actions", "collectData"}
    assert type(option["etaS"]) is int
    assert option["expiresAt"] is None or type(option["expiresAt"]) is int
    assert option["collectData"] is None
    assert {action["type"] for action in option["actions"]} <= {"walletRpc", "build"}
    check_amount(option["amount"])


def check_info(info: Any) -> None:
    assert info.keys() == {"status", "amount", "expiresAt", "merchant", "buyer"}
    assert info["status"] in STATUSES
    assert type(info["expiresAt"]) is int
    assert isinstance(info["merchant"]["name"], str)
    assert None not in info["merchant"].values()
    check_amount(info["amount"])
    if info["buyer"] is not None:
        assert info["buyer"].keys() >= {"accountCaip10", "accountProviderName"}


async def stock(shop: Shop) -> Shop:
    """Let the merchant take a stablecoin, a coin, a token by Permit2 and one on Solana."""
    for asset, destination in (
        (ETH_BASE, f"eip155:8453:{WALLET}"),
        (USDT_MAINNET, f"eip155:1:{WALLET}"),
        (USDC_SOLANA, f"{SOLANA}:{SOLANA_WALLET}"),
    ):
        await shop.register(shop.merchant_id, asset, destination)
    return shop
