"""Paying for real inside a shop's page: the shop hears how it goes, and a modal that was closed pays once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from playwright.sync_api import FrameLocator, Page, expect

from tests.browser.conftest import Watch
from tests.browser.page_wallets import PAID_MS, SEND, THEY_SAY, Wallets, sends
from tests.browser.shop_page import ShopPage, open_shop_page
from tests.browser.wallet_shop import WalletShop

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]

LAST: Final = "(status) => heard.at(-1)?.status === status"


@pytest.fixture
def cart(shop: WalletShop, watch: Watch) -> Iterator[ShopPage]:
    """A page of the shop, whose origin the merchant listed."""
    with open_shop_page(shop.server.url) as opened:
        allowed = {"checkoutOrigins": [opened.origin]}
        shop.call("PATCH", f"/v1/merchants/{shop.headers['merchant-id']}", allowed)
        watch.expected = (f"request: {opened.origin}/", *THEY_SAY)
        yield opened


def visit(page: Page, cart: ShopPage, wallets: Wallets, wallet: str, link: str) -> None:
    """The cart, with a wallet in each of its frames, as wallets are."""
    cart.body = f'<button id="pay" data-payd="{link.rpartition("/")[2]}">Pay</button>'
    wallets.install(page, wallet)
    page.goto(cart.origin)


def checkout(page: Page) -> FrameLocator:
    return page.frame_locator("dialog iframe")


def press_pay(page: Page, wallet: str) -> None:
    """Choose the wallet in the frame, and what to pay with, and pay."""
    frame = checkout(page)
    frame.get_by_role("button", name=wallet).click()
    expect(frame.locator("#paying")).to_have_text("Check and pay")
    frame.get_by_role("button", name="Change").click()
    frame.locator("#pay .options label", has_text="DAI").click()
    frame.locator("#pay-now").click()


def heard(page: Page) -> list[Any]:
    """What the shop's page was told, each status once."""
    told = page.evaluate("heard")
    assert [one["version"] for one in told] == sorted(one["version"] for one in told)
    return list(dict.fromkeys(one["status"] for one in told))


def test_the_shop_hears_each_status_of_what_a_wallet_pays_in_the_frame(
    shop: WalletShop, wallets: Wallets, open_page: OpenPage, cart: ShopPage, still: Callable[[], None]
) -> None:
    page = open_page()
    visit(page, cart, wallets, "viem", link := shop.pay())
    page.get_by_role("button", name="Pay").click()
    still()
    press_pay(page, "Client Wallet")
    expect(checkout(page).locator("#heading")).to_have_text("Payment sent", timeout=PAID_MS)
    page.wait_for_function(LAST, arg="processing")
    shop.anvil.ask("evm_setIntervalMining", 1)
    expect(checkout(page).locator("#heading")).to_have_text("Paid", timeout=PAID_MS)
    page.wait_for_function(LAST, arg="succeeded")
    assert heard(page) == ["requires_action", "processing", "succeeded"]
    assert sends(wallets) == 1
    assert shop.transfers(link) == [("matched", "DAI")]


@pytest.mark.parametrize("answers", ["while it is closed", "once it is open again"])
def test_who_closes_the_modal_while_the_wallet_asks_and_opens_it_again_pays_once(
    shop: WalletShop, wallets: Wallets, open_page: OpenPage, cart: ShopPage, answers: str
) -> None:
    page = open_page()
    visit(page, cart, wallets, "headless", link := shop.pay())
    page.get_by_role("button", name="Pay").click()
    press_pay(page, "Headless Wallet")
    expect(checkout(page).locator("#paying")).to_have_text("Approve in Headless Wallet…")
    wallets.wait_for(page, SEND)
    page.get_by_role("button", name="Close").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    if answers == "while it is closed":
        wallets.do("authorize", SEND)
        page.wait_for_function(LAST, arg="succeeded", timeout=PAID_MS)
    page.get_by_role("button", name="Pay").click()
    if answers == "once it is open again":  # this browser keeps nothing for frames: the frame itself was kept
        expect(checkout(page).locator("#paying")).to_have_text("Approve in Headless Wallet…")
        for place in ("#pay-now", "#pay .wallet"):
            expect(checkout(page).locator(place)).to_have_count(0)
        expect(checkout(page).locator(".qr")).to_be_hidden()
        wallets.do("authorize", SEND)
    expect(checkout(page).locator("#heading")).to_have_text("Paid", timeout=PAID_MS)
    page.wait_for_function(LAST, arg="succeeded")
    assert sends(wallets) == 1
    assert shop.transfers(link) == [("matched", "DAI")]
