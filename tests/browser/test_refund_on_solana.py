"""A refund that the merchant's wallet signs for a played Solana: brought once, until it lands or cannot."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from playwright.sync_api import Locator, Page, expect

from payd.chains.solana.keys import SYSTEM
from tests.browser.conftest import Watch
from tests.browser.dashboard import violations, width
from tests.browser.page_wallets import PAID_MS, SOLANA_SIGN, THEY_SAY, Wallets, connect, pay_button
from tests.browser.test_checkout import heading
from tests.browser.wallet_shop import WalletShop, open_wallet_shop
from tests.live import solana
from tests.live.solana import BUYER, LAMPORTS, MERCHANT, MERCHANT_2, STRANGER, USDC_MINT, LocalSolana, pubkey
from tests.visitor import seat

pytestmark = [pytest.mark.browser, pytest.mark.real_time]

OpenPage = Callable[..., Page]
Snap = Callable[[Page, str], Path]

BURNER: Final = "Burner Wallet"
SIGNED: Final = "Your wallet signed it"
SHOWN: Final = "The chain shows it"
# Of blocks: so many a blockhash serves, and some until the last of them is final.
LIFE: Final = 160


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WalletShop]:
    folder = tmp_path_factory.mktemp("refunds") / "house"
    with open_wallet_shop(folder, on_solana=(solana.USDC, solana.SOL)) as opened:
        for place in (MERCHANT, MERCHANT_2, STRANGER):
            opened.svm.ask("payd_put", str(pubkey(place)), 10 * LAMPORTS, str(SYSTEM))
        trio.run(LocalSolana(opened.svm).give, pubkey(MERCHANT_2), USDC_MINT, 10**10)
        yield opened


@pytest.fixture
def desk(shop: WalletShop, session: str, wallets: Wallets, open_page: OpenPage, watch: Watch) -> OpenPage:
    """Opens a page of the shop's dashboard, signed in, with a burner wallet that has somebody's key."""
    watch.expected = THEY_SAY

    def open_one(link: str, place: int = MERCHANT, *others: str, **options: Any) -> Page:
        page = open_page(base_url=shop.server.url, **options)
        name = f"payd-session-{shop.server.port}"
        page.context.add_cookies([{"name": name, "value": session, "url": shop.server.url}])
        wallets.install(page, "burner", *others, solana=place)
        page.goto(at(link))
        return page

    return open_one


@pytest.fixture(scope="module")
def session(shop: WalletShop) -> str:
    """The token of the shop's owner, who is signed in to its dashboard."""
    with closing(sqlite3.connect(shop.server.folder / "office.db")) as tx:
        [(account_id,)] = tx.execute("SELECT id FROM accounts").fetchall()
    return seat(shop.server.folder, account_id)


@pytest.fixture
def pay(shop: WalletShop, wallets: Wallets, open_page: OpenPage) -> Callable[[str], str]:
    """Has a buyer make a payment for real; gives the link to its page."""

    def paid(asset: str) -> str:
        page = open_page()
        wallets.install(page, "burner")
        page.goto(link := shop.pay())
        connect(page, BURNER, asset)
        pay_button(page).click()
        expect(heading(page)).to_have_text("Paid", timeout=PAID_MS)
        page.close()
        wallets.asked.clear()
        return link

    return paid


def at(link: str) -> str:
    return f"/d/live/payments/{link.rpartition('/')[2]}/refund"


def has(shop: WalletShop, asset: str, place: int) -> int:
    """What somebody has, smallest units."""
    chain = LocalSolana(shop.svm)
    if asset == "SOL":
        return trio.run(chain.lamports, pubkey(place))
    return trio.run(chain.tokens, pubkey(place), USDC_MINT)


def worth(shop: WalletShop, link: str) -> int:
    """What was paid, smallest units."""
    return int(shop.detail(link)["transfers"][0]["amount"]["value"])


def wallet(page: Page, name: str = BURNER) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


def said(page: Page) -> Locator:
    return page.locator("#said")


def told(page: Page) -> Locator:
    """What the page says of what a wallet gave."""
    return page.locator("#first")


def signed(wallets: Wallets) -> int:
    """How often a wallet was asked to sign."""
    return wallets.methods().count(SOLANA_SIGN)


def wait_for_signing(page: Page, wallets: Wallets) -> None:
    expect(said(page)).to_contain_text("Look at your wallet.")
    while not signed(wallets):
        page.wait_for_timeout(20)


def record(page: Page) -> None:
    page.get_by_role("button", name="Record refund").click()
    expect(page.get_by_text("The refund is recorded.")).to_be_visible()


@pytest.mark.parametrize("asset", ["USDC", "SOL"])
def test_a_wallet_signs_once_the_buyer_has_it_back_and_it_is_recorded(
    shop: WalletShop,
    wallets: Wallets,
    desk: OpenPage,
    pay: Callable[[str], str],
    watch: Watch,
    asset: str,
) -> None:
    link = pay(asset)
    before, amount = has(shop, asset, BUYER), worth(shop, link)
    wallets.held.add(SOLANA_SIGN)
    page = desk(link)
    wallet(page).click()
    wait_for_signing(page, wallets)
    # It pays from the account that was paid.
    expect(said(page)).to_have_text("Look at your wallet.")
    other = page.context.new_page()
    wallets.install(other, "burner", solana=MERCHANT)
    other.goto(at(link))
    wallet(other).click()
    expect(said(other)).to_have_text("Another tab is asking a wallet.")
    wallets.held.clear()
    for one in (page, other):
        expect(told(one)).to_have_text(SHOWN)
        expect(wallet(one)).to_have_count(0)
    tx = page.get_by_label("Transaction id").input_value()
    assert other.get_by_label("Transaction id").input_value() == tx
    # Another browser, which knows nothing of it, hears of it from the chain.
    watch.expected = ("status of 400", *THEY_SAY)
    elsewhere = desk(link)
    wallet(elsewhere).click()
    expect(said(elsewhere)).to_contain_text("The chain shows a refund of this payment already.")
    expect(said(elsewhere)).to_contain_text(tx)
    record(page)
    expect(page.locator("#timeline")).to_contain_text(tx[-4:])
    assert has(shop, asset, BUYER) - before == amount
    assert signed(wallets) == 1
    assert page.evaluate("localStorage.length") == 0
    page.goto(at(link))
    expect(page.get_by_text("recorded already")).to_be_visible()


def test_a_signature_that_the_server_has_not_is_known_to_a_reload_and_a_second_tab(
    shop: WalletShop,
    wallets: Wallets,
    desk: OpenPage,
    pay: Callable[[str], str],
    watch: Watch,
    snap: Snap,
) -> None:
    link = pay("USDC")
    before, amount = has(shop, "USDC", BUYER), worth(shop, link)
    page = desk(link)
    watch.expected = ("ERR_FAILED", *THEY_SAY)
    page.context.route("**/refund/send", lambda route: route.abort())
    wallet(page).click()
    expect(told(page)).to_have_text(SIGNED)
    expect(said(page)).to_contain_text("The server does not answer.")
    other = page.context.new_page()
    wallets.install(other, "burner", solana=MERCHANT)
    other.goto(at(link))
    page.reload()
    for one in (page, other):
        expect(told(one)).to_have_text(SIGNED)
        expect(wallet(one)).to_have_count(0)
        # Nothing on the page has a wallet sign it again.
        expect(one.locator("#wallets button")).to_have_count(0)
    assert has(shop, "USDC", BUYER) == before
    assert violations(page) == []
    snap(page, "dash-refund-solana")
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 360, "height": 720})
    assert width(page) == 360
    assert violations(page) == []
    snap(page, "dash-refund-solana-dark-phone")
    page.context.unroute("**/refund/send")
    for one in (page, other):
        expect(told(one)).to_have_text(SHOWN)
    record(page)
    assert signed(wallets) == 1
    assert has(shop, "USDC", BUYER) - before == amount


def test_what_never_lands_may_be_signed_anew_once_it_cannot_any_more(
    shop: WalletShop, wallets: Wallets, desk: OpenPage, pay: Callable[[str], str]
) -> None:
    link = pay("USDC")
    before, amount = has(shop, "USDC", BUYER), worth(shop, link)
    page = desk(link)
    shop.svm.ask("payd_mode", "blackhole")
    wallet(page).click()
    expect(told(page)).to_have_text(SIGNED)
    expect(page.get_by_label("Transaction id")).not_to_have_value("")
    lost = page.get_by_label("Transaction id").input_value()
    expect(wallet(page)).to_have_count(0)
    shop.svm.ask("payd_slot", LIFE)
    shop.svm.ask("payd_mode", "normal")
    expect(said(page)).to_contain_text("It did not come to the chain in time")
    expect(page.get_by_label("Transaction id")).to_have_value("")
    assert page.evaluate("localStorage.length") == 0
    wallet(page).click()
    expect(told(page)).to_have_text(SHOWN)
    assert page.get_by_label("Transaction id").input_value() != lost
    record(page)
    assert signed(wallets) == 2
    assert has(shop, "USDC", BUYER) - before == amount


def test_who_says_no_or_leaves_while_the_wallet_asks_may_try_again(
    shop: WalletShop, wallets: Wallets, desk: OpenPage, pay: Callable[[str], str]
) -> None:
    link = pay("USDC")
    before, amount = has(shop, "USDC", BUYER), worth(shop, link)
    page = desk(link)

    def decline(method: str) -> None:
        raise RuntimeError("User rejected the request.")

    wallets.answering = decline
    wallet(page).click()
    expect(said(page)).to_have_text("You said no in the wallet.")
    assert page.evaluate("localStorage.length") == 0
    wallets.answering = lambda method: None
    wallets.asked.clear()
    wallets.held.add(SOLANA_SIGN)
    wallet(page).click()
    wait_for_signing(page, wallets)
    page.reload()
    wallets.held.clear()  # what is signed now reaches nobody
    wallet(page).click()
    expect(told(page)).to_have_text(SHOWN)
    record(page)
    assert has(shop, "USDC", BUYER) - before == amount


def test_another_account_is_named_and_one_that_cannot_pay_is_asked_for_nothing(
    shop: WalletShop, wallets: Wallets, desk: OpenPage, pay: Callable[[str], str], watch: Watch
) -> None:
    link = pay("USDC")
    page = desk(link, STRANGER, "headless")
    watch.expected = ("status of 400", "status of 409", *THEY_SAY)
    wallet(page).click()
    expect(said(page)).to_have_text("This account does not hold enough of what was paid with.")
    wallet(page, "Headless Wallet").click()
    expect(said(page)).to_have_text("This wallet does not send on Solana.")
    assert signed(wallets) == 0
    page = desk(link, MERCHANT_2)
    watch.expected = ("status of 409", "status of 400", *THEY_SAY)
    wallets.held.add(SOLANA_SIGN)
    wallet(page).click()
    wait_for_signing(page, wallets)
    theirs, paid = (solana.address(place) for place in (MERCHANT_2, MERCHANT))
    expect(said(page)).to_contain_text(f"from {theirs[:6]}…{theirs[-4:]}, which is not the account that was")
    expect(said(page)).to_contain_text(f"{paid[:6]}…{paid[-4:]}")
    # What somebody recorded meanwhile is not brought.
    before = has(shop, "USDC", BUYER)
    shop.call("POST", "/v1/refunds", {"paymentId": link.rpartition("/")[2], "note": "by bank"})
    wallets.held.clear()
    expect(page.get_by_text("recorded already")).to_be_visible()
    assert has(shop, "USDC", BUYER) == before
    page.wait_for_function("localStorage.length === 0")  # it may be loaded anew just now
