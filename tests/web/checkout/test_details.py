"""What a buyer reads below "Details" of an open payment: rates, and where the money goes."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
import trio

from payd.chains.simulated import SimulatedChain
from payd.core.money import Rate
from payd.web.checkout.details import RATES_S
from payd.web.checkout.wallets import NAMED_MAX
from payd.web.checkout.words import LANGUAGES, Language
from tests.shop import ETH_BASE, SOLANA, SOLANA_WALLET, USDC_BASE, USDC_SOLANA, WALLET, Shop

OPTIMISM = "eip155:10/erc20:0x0b2C639c533813f4Aa9D7837CAf62653d097Ff85"
OTHER_WALLET = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"


class Silent(SimulatedChain):
    """A chain whose prices of anything but USDC do not come."""

    async def rate(self, currency: str, asset: Any, now_ms: int) -> Rate:
        if str(asset) == ETH_BASE:
            await trio.sleep_forever()
        return await super().rate(currency, asset, now_ms)


class Unpriced(SimulatedChain):
    """A chain for which nobody knows a price."""

    async def rate(self, *_: Any) -> None:  # type: ignore[override]
        return None


async def details(shop: Shop, payment: str, lang: str = "en") -> dict[str, list[str]]:
    """The rows of the page's first details, each a name and its lines."""
    found = await shop.call("GET", f"/pay/{payment}?lang={lang}", key=None, accept="text/html")
    [part] = re.findall(r"<details>(.*?)</details>", found.raw.decode(), re.DOTALL)
    rows = re.findall(r"<dt[^>]*>(.*?)</dt><dd>(.*?)</dd>", part, re.DOTALL)
    return {
        name: [html.unescape(re.sub("<[^>]*>", "", line)) for line in value.split("<br>")]
        for name, value in rows
    }


async def test_an_open_payment_says_its_rates_its_fee_and_where_the_money_goes(shop: Shop) -> None:
    await shop.register(shop.merchant_id, ETH_BASE, f"eip155:8453:{WALLET}")
    rows = await details(shop, await shop.pay(unit="iso4217/EUR"))
    assert list(rows) == ["Accepted", "Rate", "Network fee", "Settles to", "Payment"]
    # What the test realm's fixed table says: a euro is 1.10 dollars, an ether 3,000.
    assert {"1 USDC = 0.909091 EUR", "1 ETH = 2,727.27 EUR"} <= set(rows["Rate"])
    assert "0x7099…79C8 (Base)" in rows["Settles to"]


async def test_one_asset_on_two_networks_has_one_rate_and_one_account_names_both(shop: Shop) -> None:
    before = await details(shop, await shop.pay())
    await shop.register(shop.merchant_id, OPTIMISM, f"eip155:10:{WALLET}")
    await shop.register(shop.merchant_id, USDC_SOLANA, f"{SOLANA}:{SOLANA_WALLET}")
    rows = await details(shop, await shop.pay())
    assert rows["Rate"] == before["Rate"]
    assert "0x7099…79C8 (Base, OP Mainnet)" in rows["Settles to"]
    assert "7EcDhS…FLtV (Solana)" in rows["Settles to"]


async def test_a_payment_that_was_offered_says_where_its_own_money_goes(shop: Shop) -> None:
    offered = await shop.pay()
    await shop.options(offered)
    kept = await shop.call("GET", f"/v1/merchants/{shop.merchant_id}/settlements")
    [settlement] = [one["id"] for one in kept.body["crypto"] if one["asset"] == USDC_BASE]
    path = f"/v1/merchants/{shop.merchant_id}/settlements/crypto/{settlement}"
    moved = await shop.call("PUT", path, {"destination": f"eip155:8453:{OTHER_WALLET}"})
    assert moved.status == 200, moved.body
    assert "0x7099…79C8 (Base)" in (await details(shop, offered))["Settles to"]
    assert "0x3C44…93BC (Base)" in (await details(shop, await shop.pay()))["Settles to"]


async def test_nobody_can_copy_an_address_to_send_to_by_hand(shop: Shop) -> None:
    found = await shop.call("GET", f"/pay/{await shop.pay()}", key=None, accept="text/html")
    body = found.raw.decode().lower()
    assert WALLET[:6].lower() in body
    assert WALLET.lower() not in body
    assert WALLET[2:].lower() not in body


async def test_what_nobody_can_price_in_time_is_left_out_and_the_page_comes(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.register(shop.merchant_id, ETH_BASE, f"eip155:8453:{WALLET}")
    for chain in shop.realm.payments.chains:
        monkeypatch.setattr(chain, "__class__", Silent)
    payment, before = await shop.pay(), trio.current_time()
    assert (await details(shop, payment))["Rate"] == ["1 USDC = 1.00 USD"]
    assert trio.current_time() - before == pytest.approx(RATES_S)


async def test_without_any_price_there_is_no_rate_and_all_else_is_said(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for chain in shop.realm.payments.chains:
        monkeypatch.setattr(chain, "__class__", Unpriced)
    assert list(await details(shop, await shop.pay())) == ["Accepted", "Network fee", "Settles to", "Payment"]


async def test_no_more_is_said_than_anybody_reads(shop: Shop) -> None:
    for number in range(9_000, 9_000 + NAMED_MAX + 1):
        chain, token, account = f"eip155:{number}", f"0x{number:040x}", f"0x{2 * number:040x}"
        await shop.register(shop.merchant_id, f"{chain}/erc20:{token}", f"{chain}:{account}")
    rows = await details(shop, await shop.pay())
    assert len(rows["Settles to"]) == NAMED_MAX
    assert 0 < len(rows["Rate"]) <= NAMED_MAX


@pytest.mark.parametrize("code", LANGUAGES)
async def test_rates_and_accounts_are_said_in_every_language(shop: Shop, code: str) -> None:
    rows = await details(shop, await shop.pay(unit="iso4217/EUR"), code)
    language = Language(code)
    assert rows[language.say("settles")][0].startswith("0x7099…79C8")
    [rate] = [line for line in rows[language.say("rate")] if "USDC" in line]
    assert re.search(r"0[.,]909091", rate)


async def test_a_payment_that_is_over_has_no_details(shop: Shop) -> None:
    payment = await shop.pay()
    moved = await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": "cancelled"})
    assert moved.status == 200
    found = await shop.call("GET", f"/pay/{payment}", key=None, accept="text/html")
    assert "<details" not in found.raw.decode()
