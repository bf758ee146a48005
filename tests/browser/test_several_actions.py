"""What takes two signatures: each is asked for by its number, and none a second time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Watch
from tests.browser.page_wallets import (
    NAMES,
    PAID_MS,
    THEY_SAY,
    Wallets,
    connect,
    nothing_to_pay_with,
    pay_button,
    paying,
    running_wallets,
)
from tests.browser.test_checkout import heading
from tests.browser.wallet_shop import CHAIN_ID, WalletShop, open_wallet_shop
from tests.live.chain import BUYER, OPERATOR, address, private_key

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]

SIGN: Final = "eth_signTypedData_v4"
HEADLESS: Final = NAMES["headless"]
FEE: Final = 'percent = "2.5"'
FEE_UNITS: Final = "625000"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WalletShop]:
    """A shop whose operator takes a fee: a second signature."""
    folder = tmp_path_factory.mktemp("fee") / "house"
    with open_wallet_shop(folder, fee=FEE, fee_address=address(OPERATOR)) as opened:
        yield opened


@pytest.fixture(scope="module")
def beside(shop: WalletShop) -> Iterator[Wallets]:
    with running_wallets(shop.anvil.url, CHAIN_ID, private_key(BUYER)) as running:
        yield running


def signings(wallets: Wallets) -> list[str]:
    """To whom money went in what wallets were asked to sign."""
    asked = [params for _, method, params in wallets.asked if method == SIGN]
    return ["operator" if address(OPERATOR).lower() in text.lower() else "merchant" for _, text in asked]


def approves(page: Page, step: str) -> None:
    expect(paying(page)).to_have_text(f"Approve in {HEADLESS} ({step})…")
    nothing_to_pay_with(page)


def decide(page: Page, wallets: Wallets, count: int, kind: str) -> None:
    """Answer the wallet's request, once it was asked so often."""
    for _ in range(PAID_MS // 50):
        if len(signings(wallets)) >= count:
            break
        page.wait_for_timeout(50)
    page.wait_for_timeout(200)
    wallets.do(kind, SIGN)


def is_paid_once(shop: WalletShop, link: str) -> None:
    assert shop.transfers(link) == [("matched", "USDC")]
    [transfer] = shop.detail(link)["transfers"]
    assert int(transfer["amount"]["value"]) == 25_000_000 - int(FEE_UNITS)


def test_both_are_signed_one_after_the_other_and_paid_together(
    shop: WalletShop, wallets: Wallets, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = THEY_SAY
    page = open_page()
    wallets.install(page, "viem")
    page.goto(link := shop.pay())
    connect(page, NAMES["viem"], "USDC")
    pay_button(page).click()
    expect(heading(page)).to_have_text("Paid", timeout=PAID_MS)
    assert signings(wallets) == ["merchant", "operator"]
    is_paid_once(shop, link)


@pytest.mark.parametrize("between", ["nothing", "a reload", "a second tab", "a dead server"])
def test_who_declines_the_second_is_not_asked_for_the_first_again(
    shop: WalletShop, wallets: Wallets, open_page: OpenPage, watch: Watch, between: str
) -> None:
    watch.expected = ("ERR_CONNECTION", "WebSocket", *THEY_SAY)
    page = open_page()
    wallets.install(page, "headless")
    told: list[Any] = []
    page.context.on("request", lambda sent: told.append(sent) if sent.url.endswith("/confirm") else None)
    page.goto(link := shop.pay())
    connect(page, HEADLESS, "USDC")
    pay_button(page).click()
    approves(page, "1/2")
    decide(page, wallets, 1, "authorize")
    approves(page, "2/2")
    decide(page, wallets, 2, "reject")
    expect(page.get_by_role("alert")).to_contain_text("You declined the request")
    assert told == []
    if between == "a dead server":
        shop.server.kill()
        shop.server.start()
    if between == "a reload":
        page.reload()
    if between == "a second tab":
        page = page.context.new_page()
        wallets.install(page, "headless")
        page.goto(link)
    if between in ("a reload", "a second tab"):
        connect(page, HEADLESS, "USDC")
    pay_button(page).click()
    approves(page, "2/2")
    decide(page, wallets, 3, "authorize")
    expect(heading(page)).to_have_text("Paid", timeout=PAID_MS)
    assert signings(wallets) == ["merchant", "operator", "operator"]
    assert page.evaluate("localStorage.length") == 0
    is_paid_once(shop, link)


def test_who_reloads_while_the_second_is_asked_for_goes_on_there(
    shop: WalletShop, wallets: Wallets, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = THEY_SAY
    page = open_page()
    wallets.install(page, "headless")
    page.goto(link := shop.pay())
    connect(page, HEADLESS, "USDC")
    pay_button(page).click()
    decide(page, wallets, 1, "authorize")
    approves(page, "2/2")
    decide(page, wallets, 2, "reject")
    expect(pay_button(page)).to_be_visible()
    pay_button(page).click()
    approves(page, "2/2")
    page.reload()
    wallets.do("reject", SIGN)
    connect(page, HEADLESS, "USDC")
    pay_button(page).click()
    approves(page, "2/2")
    decide(page, wallets, 4, "authorize")
    expect(heading(page)).to_have_text("Paid", timeout=PAID_MS)
    assert signings(wallets) == ["merchant", "operator", "operator", "operator"]
    is_paid_once(shop, link)
