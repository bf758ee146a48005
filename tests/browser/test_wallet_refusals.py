"""What goes wrong in a wallet is said in the words of the table, and the button works again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Till, Watch
from tests.browser.page_wallets import choices, connect, pay_button, paying
from tests.browser.played import ACCOUNT, HASH, NAME, OTHER, PLAYED, SENT, SIGNED, asked, for_real, play
from tests.browser.test_checkout import PHONE, accessibility_problems, heading
from tests.browser.wallet_shop import WalletShop
from tests.live.chain import BUYER, address

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]

ELSEWHERE: Final = "0x1"
# What wallets pass on of a node that did not answer in time, and may have sent it: as programs in Go say it.
CUT_OFF: Final = (
    'Post "https://a": net/http: request canceled (Client.Timeout exceeded while awaiting headers)'
)


def opened(open_page: OpenPage, link: str, asset: str = "ETH", **options: Any) -> Page:
    """A page with what the played wallet would pay with."""
    page = open_page(**options)
    page.add_init_script(PLAYED)
    page.goto(link)
    for_real(page)
    connect(page, NAME, asset)
    return page


def said(page: Page) -> Any:
    return page.get_by_role("alert").locator("strong")


@pytest.mark.parametrize(
    ("answers", "title", "body"),
    [
        ({SENT: [{"code": 4001, "message": "x"}]}, "You declined the request", "Nothing was sent."),
        (
            {
                SENT: [
                    {"code": -32603, "message": "MetaMask Tx Signature: User denied transaction signature."}
                ]
            },
            "You declined the request",
            "Press the button to try again.",
        ),
        ({SENT: [{"code": -32000, "message": "Request rejected"}]}, "You declined the request", ""),
        (
            {SENT: [{"code": -32603, "message": "x", "data": {"originalError": {"code": 4001}}}]},
            "Look into your wallet first",
            "",
        ),
        ({SENT: [{"code": -32002, "message": "x"}]}, "Your wallet is already asking you something", "finish"),
        ({SENT: [{"code": -32002, "message": "request timed out"}]}, "Look into your wallet first", ""),
        ({SENT: [{"code": -32603, "message": CUT_OFF}]}, "Look into your wallet first", ""),
        ({SENT: [{"code": 4100, "message": "x"}]}, "Your wallet is locked", "Unlock it"),
        ({SENT: [{"code": 4900, "message": "x"}]}, "Look into your wallet first", ""),
        ({"eth_chainId": [{"code": 4900, "message": "x"}]}, "Your wallet lost its connection", "online"),
        ({"eth_chainId": [{"code": 4901, "message": "x"}]}, "Your wallet lost its connection", "online"),
        (
            {"eth_chainId": [ELSEWHERE], "wallet_switchEthereumChain": ["null"]},
            "Your wallet is on another network",
            "Switch it to Base",
        ),
        (
            {"eth_chainId": [ELSEWHERE], "wallet_switchEthereumChain": [{"code": 4001, "message": "x"}]},
            "You declined the request",
            "",
        ),
        (
            {
                "eth_chainId": [ELSEWHERE],
                "wallet_switchEthereumChain": [{"code": 4902, "message": "x"}],
                "wallet_addEthereumChain": [{"code": 4001, "message": "x"}],
            },
            "Your wallet does not have Base",
            "Add it in your wallet, or choose another way to pay.",
        ),
        ({SENT: [{"code": -32000, "message": "insufficient funds for gas"}]}, "Not enough funds", "ETH"),
        ({"eth_chainId": ["0xzz"]}, "Your wallet reported a problem", "Try again"),
        (
            {"eth_chainId": [{"code": -32099, "message": "<b>raw</b>"}]},
            "Your wallet reported a problem",
            "(-32099)",
        ),
    ],
)
def test_each_refusal_has_its_words_and_the_button_pays_after_it(
    till: Till, open_page: OpenPage, answers: dict[str, Any], title: str, body: str
) -> None:
    page = opened(open_page, till.pay())
    play(page, **answers)
    pay_button(page).click()
    if title == "Look into your wallet first":  # nothing says that it was not sent
        expect(paying(page)).to_have_text(title)
        expect(page.get_by_role("alert")).to_be_hidden()  # nobody is told to try again
        page.get_by_role("button", name="Nothing was sent: pay now").click()
    else:
        expect(said(page)).to_have_text(title)
        expect(page.get_by_role("alert")).to_contain_text(body)
        expect(paying(page)).to_be_focused()
    assert "raw" not in page.locator("body").inner_text()
    assert page.evaluate("localStorage.length") == 0
    assert len(asked(page, SENT)) <= 1
    play(page, eth_chainId=["0x2105"], eth_sendTransaction=[HASH])
    expect(pay_button(page)).to_be_enabled()
    pay_button(page).click()
    expect(heading(page)).to_have_text("Paid")
    assert page.evaluate("localStorage.length") == 0


def test_a_network_without_a_public_endpoint_is_to_be_added_in_the_wallet(
    till: Till, open_page: OpenPage
) -> None:
    page = opened(open_page, till.pay())
    page.evaluate(
        "document.getElementById('pay').dataset.chains = JSON.stringify({'eip155:8453': {chainName: 'Base'}})"
    )
    play(page, eth_chainId=[ELSEWHERE], wallet_switchEthereumChain=[{"code": 4902, "message": "x"}])
    pay_button(page).click()
    expect(said(page)).to_have_text("Your wallet does not have Base")
    assert asked(page, "wallet_addEthereumChain") == []


def test_a_payment_that_expires_meanwhile_says_not_to_send(
    till: Till, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = ("status of 410",)
    page = open_page()
    page.add_init_script(PLAYED)
    page.goto(link := till.pay())
    refusal = {"status": 410, "json": {"message": "no", "code": "payment_expired"}}
    page.route("**/options", lambda route: route.fulfill(**refusal))
    page.get_by_role("button", name=NAME).click()
    expect(said(page)).to_have_text("This payment has expired")
    expect(page.get_by_role("alert")).to_contain_text("Do not send money now.")
    till.move(link, "expired")
    expect(heading(page)).to_have_text("This payment has expired")
    expect(page.get_by_role("alert")).to_be_hidden()


@pytest.mark.parametrize("path", ["options", "confirm"])
def test_without_a_network_the_page_tries_until_there_is_one(
    till: Till, open_page: OpenPage, watch: Watch, path: str
) -> None:
    watch.expected = ("ERR_INTERNET_DISCONNECTED", "ERR_FAILED", "WebSocket")
    page = open_page()
    page.add_init_script(PLAYED)
    page.goto(till.pay())
    for_real(page)
    if path == "confirm":
        connect(page, NAME, "ETH")
        play(page, eth_sendTransaction=[None])
        pay_button(page).click()
        page.wait_for_function("() => Boolean(window.done)")
    else:
        page.route("**/options", lambda route: route.abort(), times=1)
        page.get_by_role("button", name=NAME).click()
        expect(paying(page)).to_have_text("Check Played Wallet…")
        page.wait_for_timeout(100)
    page.context.set_offline(True)
    if path == "confirm":
        page.evaluate("(hash) => done(hash)", HASH)
        expect(paying(page)).to_have_text("Your wallet sent the payment")
    expect(said(page)).to_have_text("No connection")
    page.context.set_offline(False)
    if path == "options":
        expect(paying(page)).to_have_text("Check and pay")
        expect(page.get_by_role("alert")).to_be_hidden()
    else:
        expect(heading(page)).to_have_text("Paid")
        assert len(asked(page, SENT)) == 1


def test_what_does_not_suffice_is_greyed_with_the_reason(shop: WalletShop, open_page: OpenPage) -> None:
    page = open_page(**PHONE)
    page.add_init_script(PLAYED)
    page.goto(shop.pay())
    page.get_by_role("button", name=NAME).click()
    expect(said(page)).to_have_text("This wallet cannot pay here")
    expect(page.get_by_role("alert")).to_contain_text("USDC (Base), DAI (Base), ETH (Base), USDC (Solana)")
    expect(paying(page)).to_have_text("Not enough in this account")
    expect(choices(page)).to_have_count(3)
    expect(choices(page).nth(0)).to_contain_text("this account has 0.00 USDC")
    expect(choices(page).locator("input:enabled")).to_have_count(0)
    assert accessibility_problems(page) == []
    page.get_by_role("button", name="Another way to pay").click()
    expect(page.get_by_role("button", name=NAME)).to_be_visible()


def test_a_wallet_that_finds_too_little_is_told_how_much_is_needed_and_there(
    shop: WalletShop, open_page: OpenPage
) -> None:
    page = open_page()
    page.add_init_script(PLAYED)
    page.goto(shop.pay())
    play(page, eth_requestAccounts=[[address(BUYER)]], eth_accounts=[[address(BUYER)]])
    connect(page, NAME, "DAI")
    expect(page.get_by_text("About 0.")).to_be_visible()
    play(page, eth_sendTransaction=[{"code": -32000, "message": "insufficient funds"}])
    pay_button(page).click()
    expect(said(page)).to_have_text("Not enough funds")
    expect(page.get_by_role("alert")).to_contain_text("You need 25.00 DAI and about 0.")
    expect(page.get_by_role("alert")).to_contain_text("This account has ")


def in_two_steps_of(route: Route) -> Any:
    """Options whose payment is an approval, and a signature that uses it."""
    told = route.fetch().json()
    for option in told["options"]:
        chain = "eip155:8453"
        option["actions"] = [
            {"type": "walletRpc", "chain_id": chain, "method": SENT, "params": [{"data": "0x095ea7b3"}]},
            {"type": "walletRpc", "chain_id": chain, "method": SIGNED, "params": [ACCOUNT, "{}"]},
        ]
    return told


def in_two_steps(route: Route) -> None:
    """As such options are answered."""
    route.fulfill(json=in_two_steps_of(route))


@pytest.mark.parametrize("reloaded", [False, True])
def test_what_was_approved_is_not_asked_for_again(till: Till, open_page: OpenPage, reloaded: bool) -> None:
    told: list[Any] = []

    def taken(route: Route) -> None:
        told.append(route.request.post_data_json)
        route.fulfill(json={"status": "succeeded", "isFinal": True})

    page = open_page()
    page.add_init_script(PLAYED)
    page.route("**/options", in_two_steps)
    page.route("**/confirm", taken)
    page.goto(till.pay())
    for_real(page)
    connect(page, NAME, "USDC")
    play(page, eth_signTypedData_v4=[None])
    pay_button(page).click()
    expect(paying(page)).to_have_text("Approve in Played Wallet (2/2)…")
    page.wait_for_function("() => Boolean(window.fail)")
    page.evaluate("fail({ code: 4001 })")
    expect(said(page)).to_have_text("You declined the request")
    if reloaded:
        page.reload()
        for_real(page)
        connect(page, NAME)
        assert asked(page, SENT) == []
    play(page, eth_signTypedData_v4=["0x" + "cd" * 65], eth_sendTransaction=["0x" + "99" * 32])
    pay_button(page).click()
    page.wait_for_function("() => !localStorage.length")
    [confirmed] = told
    assert [one["data"][0] for one in confirmed["results"]] == [HASH, "0x" + "cd" * 65]


def test_what_was_approved_at_another_price_is_asked_for_again(till: Till, open_page: OpenPage) -> None:
    dearer = 0

    def dear(route: Route) -> None:
        told = in_two_steps_of(route)
        for option in told["options"]:
            option["amount"]["value"] = str(int(option["amount"]["value"]) + dearer)
        route.fulfill(json=told)

    page = open_page()
    page.add_init_script(PLAYED)
    page.route("**/options", dear)
    page.route("**/confirm", lambda route: route.fulfill(json={"status": "succeeded", "isFinal": True}))
    page.goto(till.pay())
    for_real(page)
    connect(page, NAME, "USDC")
    play(page, eth_signTypedData_v4=[{"code": 4001, "message": "x"}])
    pay_button(page).click()
    expect(said(page)).to_have_text("You declined the request")
    dearer = 1
    page.reload()
    for_real(page)
    connect(page, NAME)
    pay_button(page).click()
    page.wait_for_function("() => !localStorage.length")
    assert len(asked(page, SENT)) == 1


def test_another_account_begins_anew(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    page.add_init_script(PLAYED)
    page.route("**/options", in_two_steps)
    page.goto(till.pay())
    for_real(page)
    connect(page, NAME, "USDC")
    play(page, eth_signTypedData_v4=[{"code": 4001, "message": "x"}])
    pay_button(page).click()
    expect(said(page)).to_have_text("You declined the request")
    play(page, eth_accounts=[[OTHER]], eth_requestAccounts=[[OTHER]])
    pay_button(page).click()
    expect(said(page)).to_have_text("Your wallet is on another account")
    expect(page.locator(f'#pay [title="{OTHER}"]')).to_be_visible()
    pay_button(page).click()
    expect(said(page)).to_have_text("You declined the request")
    assert len(asked(page, SENT)) == 2
