"""The states of a payment that is paid for real: counted, linked, and the same in every tab."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.page_wallets import PAID_MS
from tests.browser.test_checkout import heading
from tests.browser.wallet_shop import CHAIN, WalletShop
from tests.live.chain import BUYER, address

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]

WINDOW_S = 5


def open_payment(shop: WalletShop, seconds: int = 900) -> str:
    """The link of a payment that is open for so long."""
    body = {
        "referenceId": "ORDER-1042",
        "amount": {"unit": "iso4217/USD", "value": "2500"},
        "expiresAt": int(time.time()) + seconds,
    }
    return f"{shop.server.url}/pay/{shop.call('POST', '/v1/payments', body)['paymentId']}"


def gateway(shop: WalletShop, link: str, what: str, body: Any) -> Any:
    return shop.call("POST", f"/v1/gateway/payment/{link.rpartition('/')[2]}/{what}", body)


def dai_option(shop: WalletShop, link: str) -> Any:
    """What the buyer's wallet is asked to send."""
    options = gateway(shop, link, "options", [f"{CHAIN}:{address(BUYER)}"])["options"]
    return next(one for one in options if one["amount"]["display"]["assetSymbol"] == "DAI")


def send(shop: WalletShop, option: Any) -> str:
    """Have the buyer's wallet send it; the transaction's hash."""
    [action] = option["actions"]
    return str(shop.anvil.ask("eth_sendTransaction", json.loads(action["params"])[0]))


def tell(shop: WalletShop, link: str, option: Any, *results: str) -> None:
    told = [{"type": "walletRpc", "data": [one]} for one in results]
    gateway(shop, link, "confirm", {"optionId": option["id"], "results": told})


def same_in_every_tab(page: Page, open_page: OpenPage) -> None:
    shown = page.locator("#status").inner_text()
    page.reload()
    other = open_page(timezone_id="UTC")
    other.goto(page.url)
    for one in (page, other):
        assert one.locator("#status").inner_text() == shown
    assert other.title() == page.title()


def test_blocks_are_counted_and_the_transaction_is_linked(
    shop: WalletShop, open_page: OpenPage, still: Callable[[], None], snap: Callable[[Page, str], Path]
) -> None:
    page = open_page(timezone_id="UTC")
    link = open_payment(shop)
    page.goto(link)
    still()
    tx_hash = send(shop, option := dai_option(shop, link))
    shop.anvil.ask("evm_mine")
    tell(shop, link, option, tx_hash)
    expect(heading(page)).to_have_text("Payment sent", timeout=PAID_MS)
    expect(page.get_by_text("Confirming (1 of 2)")).to_be_visible(timeout=PAID_MS)
    expect(page.locator("#tx")).to_have_text(tx_hash)
    explorer = page.locator("#explorer")
    expect(explorer).to_have_attribute("href", f"https://basescan.org/tx/{tx_hash}")
    expect(explorer).to_have_attribute("rel", "noopener noreferrer")
    snap(page, "processing live")
    same_in_every_tab(page, open_page)
    explorer.focus()
    shop.anvil.ask("evm_mine")
    expect(heading(page)).to_have_text("Paid", timeout=PAID_MS)
    said = page.locator("#status dl").inner_text()
    buyer = address(BUYER)
    for expected in ("DAI on Base", f"{buyer[:6].lower()}…{buyer[-4:].lower()}", tx_hash.lower()):
        assert expected in said.lower() or expected in said
    expect(page.locator("#explorer")).to_have_text("Show it on basescan.org")
    snap(page, "succeeded live")
    same_in_every_tab(page, open_page)


def test_results_that_do_not_fit_end_it_in_words_of_the_page(shop: WalletShop, open_page: OpenPage) -> None:
    page = open_page(timezone_id="UTC")
    link = open_payment(shop)
    page.goto(link)
    tell(shop, link, dai_option(shop, link), "0x" + "ab" * 32, "0x" + "cd" * 32)
    expect(heading(page)).to_have_text("Payment failed")
    expect(page.get_by_text("The wallet's answer did not fit this payment.")).to_be_visible()
    expect(page.get_by_text("If money left your wallet, keep the transaction id")).to_be_visible()
    same_in_every_tab(page, open_page)


def test_one_that_is_open_and_one_that_is_cancelled_are_the_same_in_every_tab(
    shop: WalletShop, open_page: OpenPage
) -> None:
    page = open_page(timezone_id="UTC")
    page.goto(open_payment(shop))
    expect(page.get_by_text("Test mode")).to_have_count(0)
    expect(page.get_by_role("group", name="Test Console")).to_have_count(0)
    page.get_by_text("Cancel this payment").click()
    page.get_by_role("button", name="Yes, cancel the payment").click()
    expect(heading(page)).to_have_text("Payment cancelled")
    same_in_every_tab(page, open_page)


def test_money_that_comes_after_a_payment_was_cancelled_is_not_denied(
    shop: WalletShop, open_page: OpenPage
) -> None:
    page = open_page(timezone_id="UTC")
    page.goto(link := open_payment(shop))
    option = dai_option(shop, link)
    shop.call("POST", f"/v1/payments/{link.rpartition('/')[2]}/cancel")
    expect(heading(page)).to_have_text("Payment cancelled")
    expect(page.get_by_text("Nothing was charged.")).to_be_visible()
    send(shop, option)
    for _ in range(PAID_MS // 100):
        if shop.transfers(link):
            break
        page.wait_for_timeout(100)
    page.reload()
    expect(page.get_by_text("If you already sent money, keep the transaction id")).to_be_visible()
    expect(page.get_by_text("Nothing was charged.")).to_have_count(0)
    expect(page.get_by_text("new payment link")).to_have_count(0)


def test_money_that_comes_too_late_moves_nothing_and_is_shown_to_the_merchant(
    shop: WalletShop, open_page: OpenPage
) -> None:
    page = open_page(timezone_id="UTC")
    link = open_payment(shop, WINDOW_S)
    option = dai_option(shop, link)
    page.goto(link)
    expect(heading(page)).to_have_text("This payment has expired", timeout=PAID_MS)
    send(shop, option)
    expect(page.get_by_text("If you already sent money, keep the transaction id")).to_be_visible()
    for _ in range(PAID_MS // 100):
        if shop.transfers(link):
            break
        page.wait_for_timeout(100)
    assert shop.transfers(link) == [("late", "DAI")]
    same_in_every_tab(page, open_page)
    assert shop.detail(link)["status"] == "expired"
