"""A wallet may announce, answer and say anything: nobody is harmed, nothing counts as sent that was not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Till, Watch
from tests.browser.page_wallets import connect, nothing_to_pay_with, pay_button, paying
from tests.browser.played import ACCOUNT, HASH, NAME, PLAYED, SENT, asked, opened, play, tell
from tests.browser.test_checkout import PHONE, heading
from tests.browser.wallet_shop import WalletShop
from tests.live import solana

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]

HARMED: Final = "<img src=x onerror='harmed = 1'>"
# Names that turn the text around them, pictures that are too large, the same wallet again and again.
CROWD: Final = """
const provider = { request: async () => [] };
const announce = (info, by = provider) => dispatchEvent(
    new CustomEvent('eip6963:announceProvider', { detail: { info, provider: by } }));
const traps = new Proxy({}, { get() { throw new Error('no'); } });
addEventListener('eip6963:requestProvider', () => {
    const large = 'data:image/png;base64,' + 'A'.repeat(5e6);
    announce({ uuid: 'a', name: 'Left\\u202eRight\\u2067\\u0000', icon: large });
    announce({ uuid: 'b', name: 'Twin', icon: '', rdns: 'io.metamask' });
    const svg = 'data:image/svg+xml,<svg onload="harmed = 1">';
    announce({ uuid: 'c', name: 'Twin', icon: svg, rdns: 'io.metamask' });
    announce(traps);
    announce({ uuid: 'd', name: 'Trap' }, traps);
    for (let n = 0; n < 10_000; n++) announce({ uuid: 'b', name: 'Other ' + n });
    for (let n = 0; n < 10_000; n++) announce({ uuid: 'many' + n, name: 'Zz ' + 'z'.repeat(1000) });
    const standard = { name: 'x', get features() { throw new Error('no'); } };
    const detail = (api) => api.register(standard, null);
    dispatchEvent(new CustomEvent('wallet-standard:register-wallet', { detail }));
});
"""

SOLANA: Final = """
const chains = ['solana:mainnet'];
const account = { address: '@address', chains, features: [], publicKey: new Uint8Array(32) };
const bad = ['short', '1'.repeat(90), 7, '0'.repeat(40)].map((address) => ({ address, chains }));
const accounts = [account, ...bad, ...Array(100_000).fill(bad[0])];
const signTransaction = async ({ transaction }) => [{ signedTransaction: window.sign(transaction) }];
const wallet = { name: 'Odd Wallet', icon: '', version: '1.0.0', chains, accounts, features: {
    'standard:connect': { connect: async () => ({ accounts }) },
    'standard:events': { on(_, hear) { window.change = hear; } },
    'solana:signTransaction': { signTransaction },
} };
addEventListener('wallet-standard:app-ready', ({ detail }) => detail.register(wallet));
"""


def test_a_crowd_of_wallets_fills_no_page(till: Till, open_page: OpenPage) -> None:
    page = open_page(**PHONE)
    page.add_init_script(CROWD)
    page.goto(till.pay())
    buttons = page.locator("#pay button")
    expect(buttons).to_have_count(20)
    names = buttons.all_inner_texts()
    assert names[0] == "LeftRight"
    assert names.count("Twin") == 2
    assert max(map(len, names)) <= 40
    assert page.locator("#pay img").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") == 320
    assert page.evaluate("window.harmed === undefined")
    assert len(page.locator("#pay").inner_html()) < 20_000


@pytest.mark.parametrize(
    "answer",
    [
        HARMED,
        "0x" + "ab" * 33,
        "0x" + "ab" * 500_000,
        {"hash": HASH},
        [HASH],
        7,
        "null",
    ],
)
def test_what_is_no_hash_is_not_taken_for_one(till: Till, open_page: OpenPage, answer: Any) -> None:
    page = opened(open_page(), till.pay())
    play(page, eth_sendTransaction=[answer])
    pay_button(page).click()
    expect(paying(page)).to_have_text("Look into your wallet first")
    nothing_to_pay_with(page)
    assert page.evaluate("window.harmed === undefined")
    assert HARMED not in page.content()
    page.get_by_role("button", name="Nothing was sent: pay now").click()
    play(page, eth_sendTransaction=[HASH])
    pay_button(page).click()
    expect(heading(page)).to_have_text("Paid")


@pytest.mark.parametrize("signature", [HARMED, "0x", "0xabc", {"r": 1}, "0x" + "ab" * 500_000, "null"])
def test_what_is_no_signature_is_not_told(till: Till, open_page: OpenPage, signature: Any) -> None:
    page = opened(open_page(), till.pay(), "USDC")
    confirmed: list[str] = []
    page.on("request", lambda sent: confirmed.append(sent.url) if sent.url.endswith("/confirm") else None)
    play(page, eth_signTypedData_v4=[signature])
    pay_button(page).click()
    expect(page.get_by_role("alert").locator("strong")).to_have_text("Your wallet reported a problem")
    expect(pay_button(page)).to_be_enabled()
    assert confirmed == []
    assert page.evaluate("localStorage.length") == 0


@pytest.mark.parametrize(
    "accounts",
    [
        [{"toString": 1}, None, 7, "0x1", HARMED],
        "0x" + "11" * 20,
        ["0x" + "11" * 20] * 5000,
        ["0x" + f"{n:040x}" for n in range(1, 3000)],
    ],
)
def test_accounts_of_any_shape_and_number_leave_the_page_usable(
    till: Till, open_page: OpenPage, accounts: Any
) -> None:
    page = open_page()
    page.add_init_script(PLAYED)
    page.goto(till.pay())
    asked_for: list[Any] = []
    page.on(
        "request",
        lambda sent: asked_for.append(sent.post_data_json) if sent.url.endswith("/options") else None,
    )
    play(page, eth_requestAccounts=[accounts], eth_accounts=[accounts])
    page.get_by_role("button", name=NAME).click()
    usable = page.get_by_role("alert").or_(pay_button(page))
    expect(usable.first).to_be_visible()
    assert all(len(one["accounts"]) <= 100 for one in asked_for)
    assert page.evaluate("window.harmed === undefined")


def test_a_wallet_that_fails_with_anything_is_a_wallet_with_a_problem(
    till: Till, open_page: OpenPage
) -> None:
    page = opened(open_page(), till.pay(), "USDC")
    said = page.get_by_role("alert").locator("strong")
    for failure in (
        "null",
        "undefined",
        "7",
        "{ get code() { throw 1; } }",
        "{ toString() { throw 1; } }",
        "{ code: '<b>4001</b>', message: { a: 1 } }",
        "{ kind: 'moved', offline: 0 }",
    ):
        play(page, eth_signTypedData_v4=[None])
        pay_button(page).click()
        expect(paying(page)).to_have_text("Approve in Played Wallet…")
        page.wait_for_function("() => Boolean(window.fail)")
        page.evaluate(f"() => {{ const f = fail; window.fail = null; f({failure}); }}")
        expect(said).to_have_text("Your wallet reported a problem")
        expect(page.get_by_role("alert")).not_to_contain_text("4001")
        expect(pay_button(page)).to_be_enabled()


def test_a_flood_of_events_asks_the_server_for_little(till: Till, open_page: OpenPage) -> None:
    page = opened(open_page(), till.pay())
    asked_for: list[str] = []
    page.on("request", lambda sent: asked_for.append(sent.url) if sent.url.endswith("/options") else None)
    page.evaluate(
        """() => { for (let n = 0; n < 5000; n++) {
            tell('accountsChanged', ['0x' + String(n % 7 + 1).repeat(40)]);
            tell('chainChanged', '0x' + n);
        } }"""
    )
    tell(page, "accountsChanged", [ACCOUNT])
    page.wait_for_timeout(600)
    assert len(asked_for) <= 2
    pay_button(page).click()
    expect(heading(page)).to_have_text("Paid")
    assert len(asked(page, SENT)) == 1


@pytest.mark.parametrize(
    ("late", "names"),
    [
        ("window.ethereum = new Proxy({ request: async () => [] }, {});", ["Browser wallet"]),
        ("window.ethereum = new Proxy({}, { get() { throw new Error('no'); } });", []),
        (
            "setTimeout(() => { window.ethereum = { request: async () => [] };"
            " dispatchEvent(new Event('ethereum#initialized')); }, 900);",
            ["Browser wallet"],
        ),
        (
            PLAYED + "window.ethereum = provider; dispatchEvent(new Event('ethereum#initialized'));"
            " addEventListener('load', () => dispatchEvent(new Event('ethereum#initialized')));",
            [NAME],
        ),
        (
            "window.ethereum = { request: async () => [] }; setTimeout(() => dispatchEvent("
            "new CustomEvent('eip6963:announceProvider', "
            "{ detail: { info: { uuid: '1', name: 'Slow' }, provider: ethereum } })), 900);",
            ["Slow"],
        ),
    ],
)
def test_the_oldest_kind_of_wallet_is_there_when_no_other_is(
    till: Till, open_page: OpenPage, late: str, names: list[str]
) -> None:
    page = open_page()
    page.add_init_script(late)
    page.goto(till.pay())
    page.wait_for_timeout(1_200)
    expect(page.locator("#pay button")).to_have_text(names)


@pytest.mark.parametrize(
    ("signs", "said"),
    [
        ("(transaction) => transaction", "The approval was not accepted"),
        ("() => new Uint8Array(200)", "The approval was not accepted"),
        ("() => new Uint8Array(4_097)", "Your wallet reported a problem"),
        ("() => new Uint8Array(10_000_000)", "Your wallet reported a problem"),
        ("() => undefined", "Your wallet reported a problem"),
        ("() => ({ length: NaN })", "Your wallet reported a problem"),
        ("() => { throw { code: 4001 }; }", "You declined the request"),
    ],
)
def test_a_wallet_of_solana_that_returns_something_else_pays_nothing(
    shop: WalletShop, open_page: OpenPage, watch: Watch, signs: str, said: str
) -> None:
    watch.expected = ("status of 4",)
    page = open_page()
    page.add_init_script(SOLANA.replace("@address", solana.address(solana.BUYER)) + f"window.sign = {signs};")
    page.goto(link := shop.pay())
    connect(page, "Odd Wallet")
    pay_button(page).click()
    expect(page.get_by_role("alert").locator("strong")).to_have_text(said)
    expect(pay_button(page)).to_be_enabled()
    assert page.evaluate("localStorage.length") == 0
    assert shop.detail(link)["status"] == "requires_action"
