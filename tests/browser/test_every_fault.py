"""In every state, a lost network, a dead server, a reload and a second tab: paid once, and that is said.

One shop, real wallets, a real chain. Each fault meets all the states at once, each in a browser and a payment
of its own, so that it costs one server's death and not eight; no combination is left out. The chain stands
still meanwhile, so that the server finds nothing by itself. Where a page is cut off, wallets answer then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Watch
from tests.browser.page_wallets import (
    PAID_MS,
    SEND,
    THEY_SAY,
    Wallets,
    choose,
    connect,
    nothing_to_pay_with,
    pay_button,
    paying,
    sends,
)
from tests.browser.test_checkout import heading
from tests.browser.wallet_shop import WalletShop

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]

ACCOUNTS: Final = "eth_requestAccounts"
CLIENT: Final = "Client Wallet"
SENT: Final = "Your wallet sent the payment"
ASSET: Final = "DAI"
# In an order in which they can come about: one is paid before the chain stops, what a wallet is slow to
# give to the node comes after what others gave, and who waits for a connection keeps others from connecting.
STATES: Final = (
    "final",
    "processing",
    "untold",
    "options",
    "choose",
    "approve",
    "unseen",
    "connecting",
)
WALLETS: Final = {"approve": "headless", "unseen": "slow"}
NAMES: Final = {"approve": "Headless Wallet", "unseen": "Slow Wallet"}
# What a page says in a state that is kept only by the page, once that page is another one.
ANEW: Final = {"connecting": "choose", "options": "choose", "approve": "maybe"}
CUTS: Final = ("the network is lost", "the server is killed")


@dataclass
class Scene:
    """One shop and its buyers' wallets, and a page in each state.

    Attributes:
        pages: By state.
        links: Of their payments.
    """

    shop: WalletShop
    wallets: Wallets
    pages: dict[str, Page]
    links: dict[str, str]

    def bring(self, state: str, page: Page) -> None:
        """Have a payment's page come to a state."""
        self.pages[state] = page
        self.wallets.install(page, WALLETS.get(state, "viem"))
        if state == "untold":
            page.context.route("**/confirm", lambda route: route.abort())
        page.goto(self.links.setdefault(state, self.shop.pay()))
        if state == "connecting":
            self.wallets.held.add(ACCOUNTS)
            page.get_by_role("button", name=CLIENT).click()
        elif state != "choose":
            connect(page, NAMES.get(state, CLIENT), ASSET)
        if state not in ("choose", "connecting", "options"):
            before = sends(self.wallets)
            pay_button(page).click()
            self.wait_for_sends(page, before + 1)
        if state == "final":
            expect(heading(page)).to_have_text("Paid", timeout=PAID_MS)
            self.shop.anvil.ask("evm_setIntervalMining", 0)
        says(page, state)

    def wait_for_sends(self, page: Page, count: int) -> None:
        """Until wallets were asked so often to send, and those that wait for their users do so."""
        for _ in range(PAID_MS // 50):
            if sends(self.wallets) >= count:
                return page.wait_for_timeout(200)
            page.wait_for_timeout(50)
        pytest.fail(f"no wallet was asked: {page.locator('main').inner_text()}")

    def answer(self) -> None:
        """The wallets do what they were waiting with."""
        self.wallets.broadcast()
        self.wallets.do("authorize", SEND)

    def finish(self, pages: dict[str, Page]) -> None:
        """The buyers do what they have not done yet, in these pages."""
        self.wallets.held.clear()
        for state in ("choose", "connecting", "options"):
            page = pages[state]
            if page.locator("#pay .wallet").count():
                connect(page, CLIENT)
            expect(paying(page)).to_have_text("Check and pay")
            choose(page, ASSET)
            before = sends(self.wallets)
            pay_button(page).click()
            self.wait_for_sends(page, before + 1)
        pages["untold"].context.unroute("**/confirm")
        self.shop.anvil.ask("evm_setIntervalMining", 1)


def says(page: Page, state: str) -> None:
    """The page shows that state: its words, and a way to pay where there is one, and nowhere else."""
    if state == "choose":
        expect(page.get_by_role("button", name=CLIENT)).to_be_visible()
    elif state == "options":
        expect(paying(page)).to_have_text("Check and pay")
        expect(pay_button(page)).to_be_enabled()
    elif state in ("processing", "final"):
        expect(heading(page)).to_have_text(
            "Payment sent" if state == "processing" else "Paid", timeout=PAID_MS
        )
        nothing_to_pay_with(page)
    else:
        words = {
            "connecting": f"Check {CLIENT}…",
            "approve": "Approve in Headless Wallet…",
            "maybe": "Look into your wallet first",
        }
        expect(paying(page)).to_have_text(words.get(state, SENT), timeout=PAID_MS)
        more = {
            "untold": "We are telling the shop. Do not pay again.",
            "unseen": "We wait until the network shows it.",
        }
        if state in more:
            expect(page.get_by_text(more[state]).first).to_be_visible(timeout=PAID_MS)
        nothing_to_pay_with(page)


@pytest.fixture
def scene(shop: WalletShop, wallets: Wallets, open_page: OpenPage, watch: Watch, still: object) -> Scene:
    """A page in each state, on a chain that stands still until the test ends."""
    watch.expected = ("ERR_INTERNET", "ERR_FAILED", "ERR_CONNECTION", "ERR_NETWORK", "WebSocket", *THEY_SAY)
    made = Scene(shop, wallets, {}, {})
    for state in STATES:
        made.bring(state, open_page())
    return made


def expect_paid_once(scene: Scene, *tabs: dict[str, Page]) -> None:
    """Each payment is paid by one transfer, and each wallet was asked once for it."""
    for pages in tabs:
        for page in pages.values():
            expect(heading(page)).to_have_text("Paid", timeout=PAID_MS)
            assert page.evaluate("localStorage.length") == 0
    transfers = {state: scene.shop.transfers(link) for state, link in scene.links.items()}
    assert transfers == {state: [("matched", ASSET)] for state in STATES}
    assert sends(scene.wallets) == len(STATES)


@pytest.mark.parametrize("cut", CUTS)
def test_in_every_state_a_page_that_is_cut_off_says_so_and_pays_once(scene: Scene, cut: str) -> None:
    pages = scene.pages
    if cut == CUTS[0]:
        for page in pages.values():
            page.context.set_offline(True)
    else:
        scene.shop.server.kill()
    for state, page in pages.items():
        if state != "final":
            expect(page.get_by_role("alert")).to_contain_text("No connection", timeout=PAID_MS)
        says(page, state)
    scene.answer()
    says(pages["approve"], "untold")
    if cut == CUTS[0]:
        for page in pages.values():
            page.context.set_offline(False)
    else:
        scene.shop.server.start()
    for state in ("choose", "options", "connecting"):
        expect(pages[state].get_by_role("alert")).to_be_hidden(timeout=PAID_MS)
        says(pages[state], state)
    for state in ("approve", "unseen"):
        says(pages[state], "processing")
    scene.finish(pages)
    expect_paid_once(scene, pages)


def test_in_every_state_a_page_that_is_loaded_again_pays_once(scene: Scene) -> None:
    for state, page in scene.pages.items():
        page.reload()
        says(page, ANEW.get(state, state))
    scene.answer()
    scene.finish(scene.pages)
    expect_paid_once(scene, scene.pages)


def test_in_every_state_a_second_tab_knows_of_it_and_both_pay_once(scene: Scene) -> None:
    others = {}
    for state, page in scene.pages.items():
        others[state] = other = page.context.new_page()
        scene.wallets.install(other, WALLETS.get(state, "viem"))
        other.goto(scene.links[state])
        says(other, ANEW.get(state, state))
        says(page, state)
    scene.answer()
    scene.finish(others)
    expect_paid_once(scene, scene.pages, others)
