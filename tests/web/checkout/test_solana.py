"""The code of Solana Pay on the page: where there is one, what it says, and what if there are no prices."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from payd.web.checkout.render import WITH_PAGE
from payd.web.checkout.solana import PRICES_S, RETRY_MS
from payd.web.qr import qr_svg
from payd.web.static import ASSETS
from tests.shop import SOLANA, SOLANA_WALLET, USDC_SOLANA, Got, Shop
from tests.web.solana import SOL, SolanaShop, open_solana_shop

ACCEPT = "text/html"
LABEL = "&label=Caf%C3%A9%20Gr%C3%B6%C3%9Fe"


@pytest.fixture
async def solana(tmp_path: Path) -> AsyncIterator[SolanaShop]:
    async with open_solana_shop(tmp_path / "data") as opened:
        yield opened


async def page(solana: SolanaShop, payment: str, query: str = "") -> str:
    found: Got = await solana.call("GET", f"/pay/{payment}{query}", accept=ACCEPT)
    assert found.status == 200
    return found.raw.decode()


def links_of(body: str) -> dict[str, str]:
    """The links of a page by their texts."""
    found = re.findall(r'<a [^>]*?href="([^"]*)"[^>]*>(?:<bdi>)?([^<]*)', body)
    return {text: html.unescape(href) for href, text in found}


def code_of(body: str) -> str:
    """The text beside the code, which the code is of."""
    shown = re.search(r'<span id="link"[^>]*>([^<]*)</span>', body)
    assert shown is not None
    text = html.unescape(shown[1])
    assert qr_svg(text) in body
    return text


async def test_the_page_offers_the_way_and_asks_no_chain_before_it_is_taken(solana: SolanaShop) -> None:
    payment = await solana.pay()
    body = await page(solana, payment)
    assert links_of(body)["Solana Pay"] == f"/pay/{payment}?way=solana"
    assert code_of(body) == f"https://pay.example/pay/{payment}"
    assert solana.chain.asked == 0


async def test_the_code_is_the_transaction_request_with_what_it_costs_beside_it(solana: SolanaShop) -> None:
    payment = await solana.pay()
    body = await page(solana, payment, "?way=solana")
    request = f"solana:https://pay.example/v1/solana-pay/{payment}"
    assert code_of(body) == request
    found = links_of(body)
    assert found["Open a wallet on this device"] == request
    assert found["Payment link"] == f"/pay/{payment}"
    assert "Scan this code with a Solana wallet." in body
    chosen = await page(solana, payment, found["0.1713 SOL"].partition(payment)[2])
    assert code_of(chosen).startswith("solana:https%3A%2F%2Fpay.example%2Fv1%2Fsolana-pay%2F")
    assert code_of(chosen).endswith("%2Fslip44%3A501")
    assert re.findall(r'aria-current="true"><bdi>([^<]*)', chosen) == ["0.1713 SOL"]
    assert "25.00 USDC" in found


async def test_without_https_the_code_is_a_transfer_request_of_one_asset(solana: SolanaShop) -> None:
    solana.shop.house.base_url = "http://192.168.1.7:8700"
    payment = await solana.pay()
    body = await page(solana, payment, "?way=solana")
    assert code_of(body).startswith(f"solana:{SOLANA_WALLET}?amount=25&spl-token=")
    assert re.findall(r'aria-current="true"><bdi>([^<]*)', body) == ["25.00 USDC"]
    chosen = await page(solana, payment, links_of(body)["0.1713 SOL"].partition(payment)[2])
    assert code_of(chosen) == f"solana:{SOLANA_WALLET}?amount=0.1713{LABEL}"
    assert await page(solana, payment, "?way=solana&asset=nonsense") == body


async def test_what_no_link_can_ask_for_is_there_by_request_alone(tmp_path: Path) -> None:
    pyusd = f"{SOLANA}/token:2b1kV6DkPAnxd5ixfnxCpjxmKwqjjaYmCZfHsFu24GXo"
    async with open_solana_shop(tmp_path / "data", pyusd, SOL) as solana:
        solana.chain.unlinked = {pyusd}
        payment = await solana.pay()
        found = links_of(await page(solana, payment, "?way=solana"))
        assert {"PYUSD", "0.1713 SOL"} <= found.keys()
        chosen = await page(solana, payment, found["PYUSD"].partition(payment)[2])
        assert code_of(chosen).endswith("2b1kV6DkPAnxd5ixfnxCpjxmKwqjjaYmCZfHsFu24GXo")
        solana.shop.house.base_url = "http://192.168.1.7:8700"
        body = await page(solana, payment, f"?way=solana&asset={pyusd}")
        assert code_of(body).startswith(f"solana:{SOLANA_WALLET}?amount=0.1713")
        assert "PYUSD" not in links_of(body)


async def test_a_moving_price_is_renewed_while_a_scanned_code_can_still_be_paid(solana: SolanaShop) -> None:
    solana.shop.house.base_url = "http://192.168.1.7:8700"
    payment = await solana.pay()
    path = f"?way=solana&asset={SOL}"
    body = await page(solana, payment, path)
    renew = re.search(r'data-renew="(\d+)"', body)
    assert renew is not None
    assert int(renew[1]) == solana.now_ms() + 45_000
    solana.chain.lamports = 180_000_000
    await trio.sleep(int(renew[1]) / 1000 - solana.now_ms() / 1000)
    assert code_of(await page(solana, payment, path)) == f"solana:{SOLANA_WALLET}?amount=0.18{LABEL}"


async def test_a_steady_price_is_not_renewed(tmp_path: Path) -> None:
    async with open_solana_shop(tmp_path / "data", USDC_SOLANA) as solana:
        assert "data-renew" not in await page(solana, await solana.pay(), "?way=solana")


async def test_without_prices_a_wallet_can_still_ask_and_a_page_without_https_says_why_there_is_no_code(
    solana: SolanaShop,
) -> None:
    solana.chain.is_down = True
    payment = await solana.pay()
    body = await page(solana, payment, "?way=solana")
    assert code_of(body) == f"solana:https://pay.example/v1/solana-pay/{payment}"
    assert {"USDC", "SOL"} <= links_of(body).keys()
    solana.shop.house.base_url = "http://192.168.1.7:8700"
    body = await page(solana, payment, "?way=solana")
    assert "There are no prices on Solana at the moment." in body
    assert "<svg class" not in body
    assert 'class="qr"' not in body
    assert links_of(body)["Payment link"] == f"/pay/{payment}"


@pytest.mark.parametrize("fails", ["down", "silent"])
async def test_a_code_whose_price_cannot_be_renewed_stays_while_it_pays_and_no_longer(
    solana: SolanaShop, fails: str
) -> None:
    solana.shop.house.base_url = "http://192.168.1.7:8700"
    payment = await solana.pay()
    path = f"?way=solana&asset={SOL}"
    old = code_of(await page(solana, payment, path))

    async def later(ms: int) -> tuple[str, int]:
        """The code so much later, and when a page that shows it asks again."""
        await trio.sleep(ms / 1000)
        if fails == "down":
            solana.chain.is_down = True
        else:
            solana.chain.meanwhile = trio.sleep_forever
        body = await page(solana, payment, path)
        renew = re.search(r'data-renew="(\d+)"', body)
        assert renew is not None, "a page asks on"
        return code_of(body), int(renew[1]) - solana.now_ms()

    code, in_ms = await later(46_000)
    assert code == old, "it pays for as long again"
    assert 0 < in_ms <= RETRY_MS
    code, in_ms = await later(45_000)
    assert code == f"solana:{SOLANA_WALLET}?amount=25&spl-token={USDC_SOLANA.partition('token:')[2]}{LABEL}"
    assert 0 < in_ms <= RETRY_MS
    solana.chain.is_down, solana.chain.meanwhile = False, None
    solana.chain.lamports = 180_000_000
    assert code_of(await page(solana, payment, path)) == f"solana:{SOLANA_WALLET}?amount=0.18{LABEL}"


async def test_a_page_without_a_code_asks_for_one_again(tmp_path: Path) -> None:
    async with open_solana_shop(tmp_path / "data", SOL) as solana:
        solana.shop.house.base_url = "http://192.168.1.7:8700"
        solana.chain.is_down = True
        body = await page(solana, payment := await solana.pay(), "?way=solana")
        assert "There are no prices on Solana at the moment." in body
        renew = re.search(r'data-renew="(\d+)"', body)
        assert renew is not None
        assert int(renew[1]) == solana.now_ms() + RETRY_MS
        solana.chain.is_down = False
        assert "amount=0.1713" in code_of(await page(solana, payment, "?way=solana"))


async def test_nobody_waits_for_a_chain_that_says_nothing(solana: SolanaShop) -> None:
    solana.chain.meanwhile = trio.sleep_forever
    payment = await solana.pay()
    begun_s = trio.current_time()
    assert payment in await page(solana, payment, "?way=solana")
    assert trio.current_time() - begun_s <= PRICES_S + 0.001


async def test_what_needs_no_action_has_no_way_to_pay(solana: SolanaShop) -> None:
    payment = await solana.pay()
    await solana.call("POST", f"/v1/payments/{payment}/cancel", key=solana.key)
    assert "solana" not in (await page(solana, payment, "?way=solana")).lower()


async def test_a_test_payment_has_no_code_that_moves_funds(shop: Shop) -> None:
    await shop.register(shop.merchant_id, USDC_SOLANA, f"{SOLANA}:{SOLANA_WALLET}")
    payment = await shop.pay()
    found = await shop.call("GET", f"/pay/{payment}?way=solana", key=None, accept=ACCEPT)
    body = re.sub(r"data-chains='[^']*'", "", found.raw.decode())  # what wallets here are asked for
    assert (found.status, "solana:" in body) == (200, False)


async def test_a_shop_that_takes_nothing_on_solana_has_none(tmp_path: Path) -> None:
    async with open_solana_shop(tmp_path / "data") as solana:
        kept = await solana.call("GET", f"/v1/merchants/{solana.merchant_id}/settlements", key=solana.key)
        payment = await solana.pay()
        for settlement in kept.body["crypto"]:
            path = f"/v1/merchants/{solana.merchant_id}/settlements/crypto/{settlement['id']}"
            await solana.call("DELETE", path, key=solana.key)
        body = await page(solana, payment, "?way=solana")
        assert code_of(body) == f"https://pay.example/pay/{payment}"
        assert "Solana" not in body


async def test_page_script_style_and_code_stay_small(solana: SolanaShop) -> None:
    payment = await solana.pay()
    files = sum(len(ASSETS[name].body) for name in WITH_PAGE)
    for query in ("?way=solana", f"?way=solana&asset={USDC_SOLANA}"):
        assert len((await page(solana, payment, query)).encode()) + files < 40_000
