"""Wallets that others wrote pay in the page for real, and nothing makes anyone pay twice."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Till, Watch
from tests.browser.page_wallets import (
    PAID_MS,
    SEND,
    THEY_SAY,
    Wallets,
    choices,
    connect,
    pay_button,
    paying,
)
from tests.browser.test_checkout import LIGHTS, PHONE, accessibility_problems, heading
from tests.browser.wallet_shop import WalletShop
from tests.packages import CACHE

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]

SIGN: Final = "eth_signTypedData_v4"
ADD: Final = ["wallet_switchEthereumChain", "wallet_addEthereumChain", "wallet_switchEthereumChain"]

# To look at: each step in each light, on a small phone.
SCREENS: Final = CACHE / "screens"

# A wallet that is played: it answers as window.played says, or fails as it says.
PLAYED: Final = """
window.played = { eth_requestAccounts: ['0x' + '11'.repeat(20)], eth_accounts: { message: 'no' },
    eth_chainId: '0x2105' };
const provider = { on() {}, request: async ({ method }) => {
    const answer = window.played[method];
    if (answer?.message) throw Object.assign(new Error(answer.message), answer);
    if (answer === undefined) return new Promise(() => {});
    return answer;
} };
const detail = { info: { uuid: 'played', name: 'Played Wallet', icon: '', rdns: 'test.played' }, provider };
addEventListener('eip6963:requestProvider', () => {
    dispatchEvent(new CustomEvent('eip6963:announceProvider', { detail }));
});
"""

HOSTILE: Final = """
const script = '<script>parent.harmed = 1</script>';
const svg = encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg">${script}</svg>`);
const empty = (api) => api.register(null, { name: 'Empty' });
const request = async () => { throw { toString() { return '<img src=x onerror="harmed = 1">'; } }; };
const infos = [
    { uuid: '1', name: 'N'.repeat(500), icon: 'http://127.0.0.1:9/icon.png' },
    { uuid: '2', name: '<img src=x onerror="harmed = 1">', icon: 'javascript:harmed = 1' },
    { uuid: '3', name: 'Drawn', icon: 'data:image/svg+xml,' + svg },
    { uuid: '4', name: { toString() { throw 1; } }, icon: 'data:text/html,<script>harmed = 1</script>' },
    { get uuid() { throw new Error('no'); } },
    ...Array.from({ length: 50 }, (_, n) => ({ uuid: 'many' + n, name: 'Zz many', icon: '' })),
];
addEventListener('eip6963:requestProvider', () => {
    for (const detail of [null, 7, { info: null }, { info: { uuid: '9' }, provider: null },
        ...infos.map((info) => ({ info, provider: { request } }))]) {
        dispatchEvent(new CustomEvent('eip6963:announceProvider', { detail }));
    }
    for (const detail of ['nothing', empty]) {
        dispatchEvent(new CustomEvent('wallet-standard:register-wallet', { detail }));
    }
});
"""


def played(page: Page, **answers: Any) -> None:
    page.evaluate("(answers) => Object.assign(window.played, answers)", answers)


@pytest.mark.parametrize(
    ("wallet", "name", "asset", "asked"),
    [
        ("metamask", "MetaMask", "DAI", SEND),
        ("viem", "Client Wallet", "ETH", SEND),
        ("headless", "Headless Wallet", "DAI", SEND),
        ("mock", "Mock Wallet", "ETH", SEND),
    ],
)
def test_a_wallet_of_evm_chains_pays_for_real(
    shop: WalletShop,
    wallets: Wallets,
    open_page: OpenPage,
    watch: Watch,
    wallet: str,
    name: str,
    asset: str,
    asked: str,
) -> None:
    watch.expected = THEY_SAY
    page = open_page()
    wallets.install(page, wallet)
    page.goto(link := shop.pay())
    connect(page, name, asset)
    pay_button(page).click()
    if wallet == "headless":
        wallets.wait_for(page, SEND)
        wallets.do("authorize", SEND)
    expect(heading(page)).to_have_text("Paid", timeout=PAID_MS)
    assert wallets.methods().count(asked) == 1
    assert shop.transfers(link) == [("matched", asset)]
    assert page.evaluate("localStorage.length") == 0


@pytest.mark.parametrize(("wallet", "name"), [("metamask", "MetaMask"), ("viem", "Client Wallet")])
def test_a_network_that_a_wallet_lacks_is_added_first(
    shop: WalletShop, wallets: Wallets, open_page: OpenPage, watch: Watch, wallet: str, name: str
) -> None:
    watch.expected = THEY_SAY
    page = open_page()
    wallets.install(page, wallet)
    page.goto(shop.pay())
    connect(page, name, "USDC")
    pay_button(page).click()
    expect(heading(page)).to_have_text("Paid", timeout=PAID_MS)
    assert wallets.methods() == [*ADD, SIGN]
    [[added]] = [params for _, method, params in wallets.asked if method == ADD[1]]
    assert (added["chainId"], added["chainName"]) == ("0x2105", "Base")


def test_a_wallet_of_solana_pays_for_real(
    shop: WalletShop, wallets: Wallets, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = THEY_SAY
    page = open_page()
    wallets.install(page, "burner")
    page.goto(link := shop.pay())
    connect(page, "Burner Wallet")
    expect(pay_button(page)).to_have_text("Pay 25.00 USDC with Burner Wallet")
    expect(page.get_by_text("None for you").or_(page.get_by_text("Your wallet shows it"))).to_be_visible()
    pay_button(page).click()
    expect(heading(page)).to_have_text("Paid", timeout=PAID_MS)
    assert shop.transfers(link) == [("matched", "USDC")]


def test_every_kind_of_wallet_is_listed_and_the_old_one_only_when_there_is_no_other(
    shop: WalletShop, wallets: Wallets, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = THEY_SAY
    page = open_page()
    wallets.install(page, "metamask", "viem", "mock", "burner")
    page.goto(shop.pay())
    buttons = page.locator("#pay button")
    expect(buttons).to_have_text(["Burner Wallet", "Client Wallet", "MetaMask", "Mock Wallet"])
    page = open_page()
    page.add_init_script("window.ethereum = { request: async () => [] }")
    page.goto(shop.pay())
    expect(page.locator("#pay button")).to_have_text(["Browser wallet"])


def test_a_wallet_may_announce_anything_and_does_no_harm(shop: WalletShop, open_page: OpenPage) -> None:
    page = open_page(**PHONE)
    page.add_init_script(HOSTILE)
    page.goto(shop.pay())
    buttons = page.locator("#pay button")
    expect(buttons).to_have_count(20)
    expect(buttons.filter(has_text="NNNN")).to_have_text("N" * 40)
    expect(buttons.filter(has_text="<img")).to_be_visible()
    assert [str(one.get_attribute("src"))[:19] for one in page.locator("#pay img").all()] == [
        "data:image/svg+xml,"
    ]
    assert page.evaluate("document.documentElement.scrollWidth") == 320
    buttons.filter(has_text="<img").click()
    expect(page.get_by_role("alert")).to_contain_text("Your wallet reported a problem")
    assert page.evaluate("window.harmed === undefined")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ({"code": 4001, "message": "x"}, "You declined the request"),
        ({"code": -32603, "message": "User rejected it"}, "You declined the request"),
        ({"code": -32002, "message": "x"}, "Your wallet is already asking you something"),
        ({"code": 4100, "message": "x"}, "Your wallet is locked"),
        ({"code": 4900, "message": "x"}, "Your wallet lost its connection"),
        ({"code": -32000, "message": "insufficient funds for gas"}, "Not enough funds"),
        ({"code": -32603, "message": "<b>raw</b>"}, "Your wallet reported a problem"),
    ],
)
def test_what_a_wallet_refuses_is_said_in_words_and_can_be_tried_again(
    shop: WalletShop, open_page: OpenPage, error: dict[str, Any], said: str
) -> None:
    page = open_page()
    page.add_init_script(PLAYED)
    page.goto(shop.pay())
    played(page, eth_requestAccounts=error)
    button = page.get_by_role("button", name="Played Wallet")
    button.click()
    expect(page.get_by_role("alert").locator("strong")).to_have_text(said)
    assert "raw" not in page.get_by_role("alert").inner_text()
    expect(heading(page)).to_be_focused()
    expect(button).to_be_enabled()


def test_a_wallet_without_funds_is_told_what_the_shop_accepts(shop: WalletShop, open_page: OpenPage) -> None:
    page = open_page()
    page.add_init_script(PLAYED)
    page.goto(shop.pay())
    page.get_by_role("button", name="Played Wallet").click()
    expect(page.get_by_role("alert")).to_contain_text("This wallet cannot pay here")
    expect(page.get_by_role("alert")).to_contain_text("USDC (Base), DAI (Base), ETH (Base), USDC (Solana)")


def test_what_the_shop_asks_for_comes_before_anything_is_signed(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    page.add_init_script(PLAYED)
    page.goto(link := till.pay())
    played(page, eth_requestAccounts=["0x" + "00" * 19 + "06"])  # the account that is asked in test mode
    connect(page, "Played Wallet")
    form = page.get_by_role("link", name="Answer the shop's questions first")
    expect(form).to_have_attribute("href", re.compile(f"/collect/{link.rpartition('/')[2]}"))
    expect(pay_button(page)).to_have_count(0)
    page.route("**/options", without_questions)
    page.evaluate("dispatchEvent(new Event('visibilitychange'))")
    expect(pay_button(page)).to_be_visible()
    expect(form).to_have_count(0)


def without_questions(route: Route) -> None:
    """What the server says once it has the answers."""
    told = route.fetch().json()
    route.fulfill(json=told | {"options": [one | {"collectData": None} for one in told["options"]]})


def test_who_does_not_want_to_wait_for_a_wallet_chooses_again(shop: WalletShop, open_page: OpenPage) -> None:
    page = open_page()
    page.add_init_script(PLAYED)
    page.goto(shop.pay())
    page.evaluate("delete window.played.eth_requestAccounts")
    page.get_by_role("button", name="Played Wallet").click()
    expect(paying(page)).to_have_text("Check Played Wallet…")
    page.get_by_role("button", name="Stop waiting").click()
    expect(page.get_by_role("button", name="Played Wallet")).to_be_visible()
    expect(page.locator(".qr")).to_be_visible()


@pytest.mark.parametrize(("wallet", "name"), [("viem", "Client Wallet"), ("mock", "Mock Wallet")])
def test_a_test_payment_asks_a_wallet_for_nothing_that_could_move_funds(
    till: Till, wallets: Wallets, open_page: OpenPage, wallet: str, name: str
) -> None:
    page = open_page()
    wallets.install(page, wallet)
    page.goto(till.pay())
    connect(page, name)
    page.get_by_role("button", name="Change").click()
    count = choices(page).count()
    for option in range(count):
        page.goto(till.pay())
        connect(page, name)
        page.get_by_role("button", name="Change").click()
        choices(page).nth(option).click()
        pay_button(page).click()
        expect(heading(page)).to_have_text("Paid", timeout=PAID_MS)
    assert set(wallets.methods()) == {"personal_sign"}
    assert len(wallets.methods()) >= count >= 2


@pytest.mark.parametrize("light", LIGHTS)
def test_every_step_with_a_wallet_can_be_used_by_anyone(
    shop: WalletShop, wallets: Wallets, open_page: OpenPage, watch: Watch, light: str
) -> None:
    watch.expected = THEY_SAY
    page = open_page(**PHONE, **LIGHTS[light])
    wallets.install(page, "headless", "viem")
    page.goto(shop.pay())
    problems: dict[str, Any] = {}

    def look(name: str) -> None:
        page.screenshot(path=SCREENS / f"{name} {light}.png", full_page=True)
        problems[name] = accessibility_problems(page)
        assert page.evaluate("document.documentElement.scrollWidth") == 320, name

    expect(page.locator("#pay button")).to_have_count(2)
    look("choose")
    connect(page, "Headless Wallet", "DAI")
    look("options")
    pay_button(page).click()
    wallets.wait_for(page, SEND)
    look("approve")
    page.reload()
    expect(paying(page)).to_have_text("Look into your wallet first")
    look("maybe")
    wallets.do("reject", SEND)
    assert problems == {name: [] for name in ("choose", "options", "approve", "maybe")}


def test_a_keyboard_is_enough(shop: WalletShop, wallets: Wallets, open_page: OpenPage, watch: Watch) -> None:
    watch.expected = THEY_SAY
    page = open_page()
    wallets.install(page, "viem")
    page.goto(shop.pay())
    expect(page.locator("#pay button")).to_have_count(1)
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Client Wallet")).to_be_focused()
    page.keyboard.press("Enter")
    expect(paying(page)).to_have_text("Check and pay")
    expect(paying(page)).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    expect(pay_button(page)).to_contain_text("DAI")
    expect(choices(page).nth(1).locator("input")).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Change")).to_be_focused()
    page.keyboard.press("Tab")
    expect(pay_button(page)).to_be_focused()
    page.keyboard.press("Enter")
    expect(heading(page)).to_have_text("Paid", timeout=PAID_MS)
    expect(heading(page)).to_be_focused()


def test_a_visit_with_a_wallet_is_small_and_stays_here(
    shop: WalletShop, wallets: Wallets, open_page: OpenPage
) -> None:
    page = open_page()
    wallets.install(page, "metamask")
    sizes: dict[str, int] = {}
    page.on(
        "response",
        lambda answer: sizes.update({answer.url: len(answer.body())}) if "data:" not in answer.url else None,
    )
    page.goto(shop.pay(), wait_until="networkidle")
    expect(page.locator("#pay button")).to_have_count(1)
    assert sum(sizes.values()) < 40_000
    assert len(sizes) <= 6
