"""A wallet of Solana pays once: its signature moves nothing until the server has it, and is never lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Watch
from tests.browser.page_wallets import (
    PAID_MS,
    SOLANA_SIGN,
    THEY_SAY,
    Wallets,
    connect,
    nothing_to_pay_with,
    pay_button,
    paying,
)
from tests.browser.test_checkout import heading
from tests.browser.wallet_shop import WalletShop

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]

BURNER = "Burner Wallet"
SENT = "Your wallet sent the payment"


def opened(wallets: Wallets, page: Page, link: str) -> Page:
    wallets.install(page, "burner")
    page.goto(link)
    connect(page, BURNER)
    return page


def signed(wallets: Wallets) -> int:
    """How often the wallet was asked to sign."""
    return wallets.methods().count(SOLANA_SIGN)


def wait_for_signing(page: Page, wallets: Wallets, count: int = 1) -> None:
    expect(paying(page)).to_have_text(f"Approve in {BURNER}…")
    for _ in range(PAID_MS // 50):
        if signed(wallets) >= count:
            return
        page.wait_for_timeout(50)


def test_a_signature_whose_server_is_dead_is_told_when_it_is_back(
    shop: WalletShop, wallets: Wallets, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = ("ERR_CONNECTION", "WebSocket", *THEY_SAY)
    page = opened(wallets, open_page(), link := shop.pay())
    wallets.answering = lambda method: shop.server.kill()
    pay_button(page).click()
    expect(paying(page)).to_have_text(SENT)
    expect(page.get_by_role("alert")).to_contain_text("No connection")
    nothing_to_pay_with(page)
    wallets.answering = lambda method: None
    shop.server.start()
    expect(heading(page)).to_have_text("Paid", timeout=PAID_MS)
    assert signed(wallets) == 1
    assert shop.transfers(link) == [("matched", "USDC")]
    assert page.evaluate("localStorage.length") == 0


def test_a_signature_that_is_not_told_yet_is_known_to_a_reload_and_a_second_tab(
    shop: WalletShop, wallets: Wallets, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = ("ERR_FAILED", *THEY_SAY)
    page = open_page()
    page.context.route("**/confirm", lambda route: route.abort())
    opened(wallets, page, link := shop.pay())
    pay_button(page).click()
    expect(paying(page)).to_have_text(SENT)
    other = page.context.new_page()
    wallets.install(other, "burner")
    other.goto(link)
    page.reload()
    for one in (page, other):
        expect(paying(one)).to_have_text(SENT)
        nothing_to_pay_with(one)
    page.context.unroute("**/confirm")
    for one in (page, other):
        expect(heading(one)).to_have_text("Paid", timeout=PAID_MS)
    assert signed(wallets) == 1
    assert shop.transfers(link) == [("matched", "USDC")]


def test_who_reloads_while_the_wallet_signs_signs_again_and_pays_once(
    shop: WalletShop, wallets: Wallets, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = THEY_SAY
    page = opened(wallets, open_page(), link := shop.pay())
    wallets.held.add(SOLANA_SIGN)
    pay_button(page).click()
    wait_for_signing(page, wallets)
    page.reload()
    wallets.held.clear()  # what is signed now reaches nobody
    connect(page, BURNER)
    pay_button(page).click()
    expect(heading(page)).to_have_text("Paid", timeout=PAID_MS)
    assert signed(wallets) == 2
    assert shop.transfers(link) == [("matched", "USDC")]


def test_of_two_tabs_one_asks_the_wallet_to_sign(
    shop: WalletShop, wallets: Wallets, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = THEY_SAY
    page = opened(wallets, open_page(), link := shop.pay())
    other = opened(wallets, page.context.new_page(), link)
    wallets.held.add(SOLANA_SIGN)
    pay_button(page).click()
    wait_for_signing(page, wallets)
    pay_button(other).click()
    expect(other.get_by_role("alert")).to_contain_text("Another tab is asking your wallet")
    wallets.held.clear()
    for one in (page, other):
        expect(heading(one)).to_have_text("Paid", timeout=PAID_MS)
    assert signed(wallets) == 1
    assert shop.transfers(link) == [("matched", "USDC")]
