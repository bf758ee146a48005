"""A refund from the merchant's own wallet, in a real browser on a real chain: sent once, and recorded."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final

import pytest
import trio
from playwright.sync_api import Dialog, Locator, Page, Route, expect

from tests.browser.conftest import Watch
from tests.browser.dashboard import violations, width
from tests.browser.page_wallets import PAID_MS, SEND, Wallets, connect, pay_button, running_wallets, sends
from tests.browser.played import HASH, NAME, PLAYED, SENT, asked, play
from tests.browser.test_checkout import heading
from tests.browser.wallet_shop import CHAIN_ID, WalletShop
from tests.live.chain import BUYER, MERCHANT, LocalChain, address, private_key
from tests.live.street import DAI
from tests.visitor import seat

pytestmark = [pytest.mark.browser, pytest.mark.real_time]

OpenPage = Callable[..., Page]

REJECTED: Final = {"code": 4001, "message": "x"}
UNCLEAR: Final = {"code": -32603, "message": "x"}
FIRST: Final = "Look into your wallet first"
ON: Final = "It sent nothing: choose a wallet"
FORGETFUL: Final = """
Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('no', 'SecurityError'); } });
"""


@pytest.fixture(scope="module")
def session(shop: WalletShop) -> str:
    """The token of the shop's owner, who is signed in to its dashboard."""
    with closing(sqlite3.connect(shop.server.folder / "office.db")) as tx:
        [(account_id,)] = tx.execute("SELECT id FROM accounts").fetchall()
    return seat(shop.server.folder, account_id)


@pytest.fixture(scope="module")
def own_wallets(shop: WalletShop) -> Iterator[Wallets]:
    with running_wallets(shop.anvil.url, CHAIN_ID, private_key(MERCHANT)) as running:
        yield running


@pytest.fixture
def till(own_wallets: Wallets) -> Wallets:
    """The merchant's wallets."""
    own_wallets.forget()
    return own_wallets


@pytest.fixture
def desk(shop: WalletShop, session: str, open_page: OpenPage) -> OpenPage:
    """Opens a page that is signed in to the shop's dashboard."""

    def open_one(**options: Any) -> Page:
        page = open_page(base_url=shop.server.url, **options)
        name = f"payd-session-{shop.server.port}"
        page.context.add_cookies([{"name": name, "value": session, "url": shop.server.url}])
        return page

    return open_one


@pytest.fixture
def paid(shop: WalletShop, wallets: Wallets, open_page: OpenPage) -> str:
    """The page of a payment in DAI that a buyer made for real."""
    page = open_page()
    wallets.install(page, "viem")
    page.goto(link := shop.pay())
    connect(page, "Client Wallet", "DAI")
    pay_button(page).click()
    expect(heading(page)).to_have_text("Paid", timeout=PAID_MS)
    page.close()
    return link


def at(link: str) -> str:
    return f"/d/live/payments/{link.rpartition('/')[2]}/refund"


def held(shop: WalletShop) -> tuple[int, int]:
    """What the buyer and the merchant have."""
    chain, token = LocalChain(shop.anvil), DAI.rpartition(":")[2]
    buyer = trio.run(chain.balance, token, address(BUYER))
    return buyer, trio.run(chain.balance, token, address(MERCHANT))


def moved(shop: WalletShop, before: tuple[int, int]) -> tuple[int, int]:
    """What has changed in it since, once what was sent is in a block."""
    shop.anvil.ask("anvil_mine", "0x2")
    return tuple(now - then for now, then in zip(held(shop), before, strict=True))  # type: ignore[return-value]


def dai(shop: WalletShop, link: str) -> int:
    """What was paid, smallest units."""
    return int(shop.detail(link)["transfers"][0]["amount"]["value"])


def wallet(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


def said(page: Page) -> Locator:
    return page.locator("#said")


def record(shop: WalletShop, page: Page) -> None:
    """Record it, once the chain shows it."""
    shop.anvil.ask("anvil_mine", "0x2")
    page.get_by_role("button", name="Record refund").click()
    expect(page.get_by_text("The refund is recorded.")).to_be_visible()


def opened(desk: OpenPage, link: str, *scripts: str, **answers: Any) -> Page:
    """A refund's page with a played wallet, which answers like this also after a reload."""
    page = desk()
    for script in (PLAYED, f"Object.assign(played, {json.dumps(answers)});", *scripts):
        page.add_init_script(script)
    page.goto(at(link))
    return page


def test_a_wallet_pays_back_once_and_other_tabs_know_of_it(
    shop: WalletShop, till: Wallets, desk: OpenPage, paid: str
) -> None:
    before, amount = held(shop), dai(shop, paid)
    page = desk()
    till.install(page, "headless")
    page.goto(at(paid))
    wallet(page, "Headless Wallet").click()
    till.wait_for(page, SEND)
    other = page.context.new_page()
    till.install(other, "headless")
    other.goto(at(paid))
    expect(other.get_by_text(FIRST)).to_be_visible()
    expect(wallet(other, "Headless Wallet")).to_have_count(0)
    other.get_by_role("button", name=ON).click()
    wallet(other, "Headless Wallet").click()
    expect(said(other)).to_have_text("Another tab is asking a wallet.")
    till.do("authorize", SEND)
    for one in (page, other):
        expect(one.get_by_text("Your wallet sent it")).to_be_visible()
        expect(wallet(one, "Headless Wallet")).to_have_count(0)
    tx = page.get_by_label("Transaction id").input_value()
    assert other.get_by_label("Transaction id").input_value() == tx
    record(shop, page)
    expect(page.locator("#timeline")).to_contain_text("Refund recorded")
    expect(page.locator("#timeline")).to_contain_text(tx[-4:])
    assert moved(shop, before) == (amount, -amount)
    assert sends(till) == 1
    assert page.evaluate("localStorage.length") == 0
    page.goto(at(paid))
    expect(page.get_by_text("recorded already")).to_be_visible()


def test_a_wallet_that_sent_and_did_not_say_so_is_looked_into_first(
    shop: WalletShop, till: Wallets, desk: OpenPage, paid: str
) -> None:
    before, amount = held(shop), dai(shop, paid)
    page = desk()
    till.install(page, "headless")
    page.goto(at(paid))
    till.held.add(SEND)
    wallet(page, "Headless Wallet").click()
    till.wait_for(page, SEND)
    till.do("authorize", SEND)
    till.wait_until_done(SEND)
    page.reload()
    expect(page.get_by_text(FIRST)).to_be_visible()
    expect(wallet(page, "Headless Wallet")).to_have_count(0)
    assert moved(shop, before) == (amount, -amount)
    assert sends(till) == 1


def test_who_says_no_in_the_wallet_may_try_again(
    shop: WalletShop, till: Wallets, desk: OpenPage, paid: str
) -> None:
    before, amount = held(shop), dai(shop, paid)
    page = desk()
    till.install(page, "headless")
    page.goto(at(paid))
    wallet(page, "Headless Wallet").click()
    till.wait_for(page, SEND)
    till.do("reject", SEND)
    expect(said(page)).to_have_text("You said no in the wallet.")
    assert page.evaluate("localStorage.length") == 0
    till.asked.clear()
    wallet(page, "Headless Wallet").click()
    till.wait_for(page, SEND)
    till.do("authorize", SEND)
    expect(page.get_by_text("Your wallet sent it")).to_be_visible()
    record(shop, page)
    assert moved(shop, before) == (amount, -amount)


def test_a_node_that_did_not_answer_in_time_may_have_sent_it(desk: OpenPage, paid_once: str) -> None:
    page = opened(desk, paid_once, **{SENT: [{"code": -32002, "message": "request timed out"}]})
    wallet(page, NAME).click()
    expect(page.get_by_text(FIRST)).to_be_visible()
    expect(wallet(page, NAME)).to_have_count(0)


def test_after_an_unclear_error_nothing_is_sent_by_mistake(desk: OpenPage, paid: str) -> None:
    page = opened(desk, paid, **{SENT: [UNCLEAR]})
    wallet(page, NAME).click()
    expect(page.get_by_text(FIRST)).to_be_visible()
    expect(page.locator("#first")).to_be_focused()
    assert len(asked(page, SENT)) == 1
    page.reload()
    expect(page.get_by_text(FIRST)).to_be_visible()
    expect(wallet(page, NAME)).to_have_count(0)
    assert violations(page) == []
    page.set_viewport_size({"width": 320, "height": 640})
    assert width(page) == 320
    # What was unclear is not made clear by a no to something else.
    page.get_by_role("button", name=ON).click()
    play(page, **{SENT: [REJECTED]})
    wallet(page, NAME).click()
    expect(said(page)).to_have_text("You said no in the wallet.")
    expect(page.get_by_text(FIRST)).to_be_visible()
    page.get_by_role("button", name=ON).click()
    play(page, **{SENT: [HASH]})
    wallet(page, NAME).click()
    expect(page.get_by_text("Your wallet sent it")).to_be_visible()
    page.goto(at(paid))
    expect(page.get_by_text("Your wallet sent it")).to_be_visible()
    expect(page.get_by_label("Transaction id")).to_have_value(HASH)


@pytest.mark.parametrize("code", [4001, 4100, 4200, -32002, -32601, -32602])
def test_what_certainly_sent_nothing_is_forgotten(desk: OpenPage, paid_once: str, code: int) -> None:
    page = opened(desk, paid_once, **{SENT: [{"code": code, "message": "x"}]})
    wallet(page, NAME).click()
    expect(said(page)).not_to_contain_text("Look at your wallet.")
    expect(wallet(page, NAME)).to_be_visible()
    assert len(asked(page, SENT)) == 1
    assert page.evaluate("localStorage.length") == 0


def test_a_wallet_that_stays_on_another_network_is_not_asked_to_send(desk: OpenPage, paid_once: str) -> None:
    page = opened(desk, paid_once, eth_chainId=["0x1"], wallet_switchEthereumChain=["null"])
    wallet(page, NAME).click()
    expect(said(page)).to_have_text("Your wallet is not on Base.")
    assert asked(page, SENT) == []


def test_without_storage_the_page_itself_remembers_and_asks_before_it_is_left(
    desk: OpenPage, paid_once: str
) -> None:
    page = opened(desk, paid_once, FORGETFUL, **{SENT: [UNCLEAR]})
    wallet(page, NAME).click()
    expect(page.get_by_text(FIRST)).to_be_visible()
    expect(wallet(page, NAME)).to_have_count(0)
    questions: list[str] = []

    def leave(dialog: Dialog) -> None:
        questions.append(dialog.type)
        dialog.accept()

    page.on("dialog", leave)
    page.reload()
    assert questions == ["beforeunload"]


def test_without_storage_a_hash_is_in_the_address(desk: OpenPage, paid_once: str, watch: Watch) -> None:
    watch.expected = ("status of 400",)  # no chain knows it
    page = opened(desk, paid_once, FORGETFUL)
    wallet(page, NAME).click()
    expect(page.get_by_label("Transaction id")).to_have_value(HASH)
    assert page.url.endswith(f"?tx={HASH}")
    page.on("dialog", lambda dialog: pytest.fail(dialog.type))
    page.get_by_role("button", name="Record refund").click()
    expect(page.get_by_text("does not show the transaction")).to_be_visible()
    expect(page.get_by_label("Transaction id")).to_have_value(HASH)
    expect(page.locator("#wallet")).to_have_count(0)


def test_what_somebody_else_recorded_meanwhile_is_not_sent(
    shop: WalletShop, desk: OpenPage, paid: str
) -> None:
    page = opened(desk, paid)
    expect(wallet(page, NAME)).to_be_visible()
    shop.call("POST", "/v1/refunds", {"paymentId": paid.rpartition("/")[2], "note": "by bank"})
    wallet(page, NAME).click()
    expect(page.get_by_text("recorded already")).to_be_visible()
    assert page.evaluate("localStorage.length") == 0


@pytest.fixture(scope="module")
def paid_links() -> list[str]:
    return []


@pytest.fixture
def paid_once(paid_links: list[str], request: pytest.FixtureRequest) -> str:
    """A payment that nothing in these tests pays back: it is paid for the first of them."""
    if not paid_links:
        paid_links.append(request.getfixturevalue("paid"))
    return paid_links[0]


def test_a_tab_that_was_slower_asks_its_wallet_for_nothing(desk: OpenPage, paid_once: str) -> None:
    """The other one asked while this one still looked whether the refund is open."""
    page = opened(desk, paid_once, eth_sendTransaction=[HASH])
    key = page.locator("[data-key]").first.get_attribute("data-key")
    other = page.context.new_page()
    other.goto(at(paid_once))
    held_back: list[Route] = []
    page.route("**/refund", lambda route: held_back.append(route))
    with page.expect_request("**/refund"):
        wallet(page, NAME).click()
    page.wait_for_timeout(50)
    [route] = held_back
    kept = json.dumps({"results": [HASH], "of": 1})
    other.evaluate("([key, kept]) => localStorage.setItem(key, kept)", [key, kept])
    route.continue_()
    expect(page.get_by_text("Your wallet sent it")).to_be_visible()
    assert asked(page, SENT) == []
