"""Before a wallet is asked to send, the server says that it is still wanted, whatever the page knows."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import pytest
from playwright.sync_api import Page, Route, WebSocketRoute, expect

from tests.browser.conftest import Till, Watch
from tests.browser.page_wallets import pay_button, paying
from tests.browser.played import ACCOUNT, OTHER, SENT, asked, opened, play
from tests.browser.test_checkout import heading

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]

WAITS: Final = "() => Boolean(window.done)"
HOLDS_S: Final = 5
SLEPT_S: Final = 7_200


@pytest.mark.parametrize("to", ["succeeded", "cancelled", "expired"])
def test_what_somebody_else_ended_is_not_sent_by_a_page_that_heard_nothing_of_it(
    till: Till, open_page: OpenPage, to: str
) -> None:
    page = open_page()
    told: list[str | bytes] = []

    def half_open(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def once(text: str | bytes) -> None:
            if b'"version":0' in (text if isinstance(text, bytes) else text.encode()):
                socket.send(text)
                told.append(text)

        server.on_message(once)

    page.route_web_socket("**/feed", half_open)
    opened(page, link := till.pay())
    while not told:
        page.wait_for_timeout(20)
    till.move(link, to)
    page.wait_for_timeout(300)
    expect(pay_button(page)).to_be_enabled()  # it is not told
    pay_button(page).click()
    expect(page.locator(f"#status[data-status={to}]")).to_be_visible()
    assert asked(page, SENT) == []
    assert page.evaluate("localStorage.length") == 0


@pytest.mark.parametrize("cost", ["dearer", "the same"])
def test_a_price_that_grew_old_while_the_wallet_changed_networks_is_not_sent(
    till: Till, open_page: OpenPage, cost: str
) -> None:
    page = open_page()
    answers = 0

    def dear(route: Route) -> None:
        nonlocal answers
        answers += 1
        told = route.fetch().json()
        [option] = [one for one in told["options"] if one["amount"]["display"]["assetSymbol"] == "ETH"]
        option["expiresAt"] = int(time.time()) + HOLDS_S if answers == 1 else None
        if answers > 1 and cost == "dearer":
            option["amount"]["value"] = str(int(option["amount"]["value"]) + 10**15)
        route.fulfill(json=told | {"options": [option]})

    page.route("**/options", dear)
    opened(page, till.pay())
    play(page, eth_chainId=["0x1", "0x2105"], wallet_switchEthereumChain=[None])
    pay_button(page).click()
    page.wait_for_function(WAITS)
    page.wait_for_timeout(HOLDS_S * 1_000)
    page.evaluate("done(null)")
    if cost == "dearer":
        expect(page.get_by_role("alert")).to_contain_text("The price changed")
        expect(pay_button(page)).to_be_enabled()
        assert asked(page, SENT) == []
        pay_button(page).click()
    expect(heading(page)).to_have_text("Paid")
    assert len(asked(page, SENT)) == 1
    assert answers == 2


def test_a_price_that_grew_old_while_the_page_slept_is_not_sent(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    answers = 0

    def dear(route: Route) -> None:
        nonlocal answers
        answers += 1
        told = route.fetch().json()
        [option] = [one for one in told["options"] if one["amount"]["display"]["assetSymbol"] == "ETH"]
        option["expiresAt"] = int(time.time()) + SLEPT_S // 2 if answers == 1 else None
        option["amount"]["value"] = str(int(option["amount"]["value"]) + answers)
        route.fulfill(json=told | {"options": [option]})

    def later(route: Route) -> None:
        told = route.fetch().json()
        told["serverTime"] += SLEPT_S * 1_000
        told["expiresAt"] += SLEPT_S
        route.fulfill(json=told)

    page.route("**/options", dear)
    page.route("**/status", later)
    opened(page, till.pay())
    pay_button(page).click()
    expect(page.get_by_role("alert")).to_contain_text("The price changed")
    assert asked(page, SENT) == []
    assert answers == 2


def lasting(route: Route) -> None:
    """The option in ETH, whose price holds as long as the payment."""
    told = route.fetch().json()
    [option] = [one for one in told["options"] if one["amount"]["display"]["assetSymbol"] == "ETH"]
    option["expiresAt"] = None
    route.fulfill(json=told | {"options": [option]})


def test_what_is_over_by_the_servers_clock_is_not_sent(till: Till, open_page: OpenPage) -> None:
    page = open_page()

    def over(route: Route) -> None:
        told = route.fetch().json()
        route.fulfill(json=told | {"serverTime": told["expiresAt"] * 1_000})

    page.route("**/options", lasting)
    opened(page, till.pay())
    page.route("**/status", over)
    pay_button(page).click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert asked(page, SENT) == []


def test_a_wallet_that_changes_accounts_while_the_server_is_asked_sends_nothing(
    till: Till, open_page: OpenPage
) -> None:
    page = opened(open_page(), till.pay())
    play(page, eth_accounts=[[ACCOUNT], [OTHER]], eth_requestAccounts=[[OTHER]])
    pay_button(page).click()
    expect(page.get_by_role("alert")).to_contain_text("Your wallet is on another account")
    assert asked(page, SENT) == []


def test_without_a_server_no_wallet_is_asked_to_send(till: Till, open_page: OpenPage, watch: Watch) -> None:
    watch.expected = ("ERR_FAILED",)
    page = opened(open_page(), till.pay())
    page.route("**/status", lambda route: route.abort())
    pay_button(page).click()
    expect(page.get_by_role("alert")).to_contain_text("No connection")
    expect(paying(page)).to_have_text("Approve in Played Wallet…")
    assert asked(page, SENT) == []
    page.unroute("**/status")
    expect(heading(page)).to_have_text("Paid")
    assert len(asked(page, SENT)) == 1
