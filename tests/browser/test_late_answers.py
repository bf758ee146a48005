"""What comes late, from a wallet or the server, pays nothing twice and draws over nothing that is newer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Till, Watch
from tests.browser.page_wallets import choose, connect, nothing_to_pay_with, pay_button, paying
from tests.browser.played import (
    ACCOUNT,
    HASH,
    NAME,
    PLAYED,
    SENT,
    SIGNATURE,
    SIGNED,
    asked,
    for_real,
    opened,
    play,
)
from tests.browser.test_checkout import heading
from tests.browser.test_wallet_refusals import in_two_steps_of
from tests.web.asking import FIELDS

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]

WAITS: Final = "() => Boolean(window.done)"
HOLDS_S: Final = 3
OPEN: Final = {"status": "requires_action", "isFinal": False}


def left_while_sending(page: Page) -> None:
    """The wallet was asked to send, and its user went on without it: `sent` and `unsent` answer for it."""
    play(page, eth_sendTransaction=[None])
    pay_button(page).click()
    page.wait_for_function(WAITS)
    page.evaluate("Object.assign(window, { sent: done, unsent: fail, done: null, fail: null })")
    page.get_by_role("button", name="Stop waiting").click()
    page.get_by_role("button", name="Nothing was sent: pay now").click()
    expect(pay_button(page)).to_be_enabled()


def confirmed(page: Page) -> list[str]:
    """What the server is told from now on, and that it sees no transaction yet."""
    told: list[str] = []

    def open_still(route: Route) -> None:
        body: Any = route.request.post_data_json
        told.extend(one["data"][0] for one in body["results"])
        route.fulfill(json=OPEN)

    page.route("**/confirm", open_still)
    return told


def is_sent(page: Page) -> None:
    expect(paying(page)).to_have_text("Your wallet sent the payment")
    nothing_to_pay_with(page)


@pytest.mark.parametrize("signs", ["before", "after"])
def test_who_sent_after_all_while_something_else_is_signed_pays_by_what_was_sent(
    till: Till, open_page: OpenPage, signs: str
) -> None:
    page = opened(open_page(), till.pay())
    told = confirmed(page)
    left_while_sending(page)
    choose(page, "USDC")
    play(page, eth_signTypedData_v4=[None])
    if signs == "after":
        play(page, eth_chainId=["0x1", "0x2105"], wallet_switchEthereumChain=[None])
    pay_button(page).click()
    page.wait_for_function(WAITS)
    page.evaluate("(hash) => sent(hash)", HASH)
    is_sent(page)
    page.evaluate("(signature) => done(signature)", SIGNATURE if signs == "before" else None)
    page.wait_for_timeout(500)
    is_sent(page)
    assert len(asked(page, SIGNED)) == (signs == "before")
    assert set(told) == {HASH}
    page.reload()
    expect(page.locator("#pay")).to_contain_text(HASH)


def test_who_sent_after_all_while_the_wallet_changes_networks_is_not_asked_to_send_again(
    till: Till, open_page: OpenPage
) -> None:
    page = opened(open_page(), till.pay())
    confirmed(page)
    left_while_sending(page)
    play(page, eth_chainId=["0x1", "0x2105"], wallet_switchEthereumChain=[None])
    pay_button(page).click()
    page.wait_for_function(WAITS)
    page.evaluate("(hash) => sent(hash)", HASH)
    is_sent(page)
    page.evaluate("done(null)")
    page.wait_for_timeout(500)
    is_sent(page)
    assert len(asked(page, SENT)) == 1
    expect(page.get_by_role("alert")).to_be_hidden()


def test_a_refusal_of_what_nobody_waits_for_leaves_what_the_wallet_is_asked_now(
    till: Till, open_page: OpenPage
) -> None:
    page = opened(open_page(), till.pay())
    left_while_sending(page)
    choose(page, "USDC")
    play(page, eth_signTypedData_v4=[None])
    pay_button(page).click()
    page.wait_for_function(WAITS)
    page.evaluate("unsent({ code: 4001 })")
    page.wait_for_timeout(300)
    expect(paying(page)).to_have_text("Approve in Played Wallet…")
    page.evaluate("(signature) => done(signature)", SIGNATURE)
    expect(heading(page)).to_have_text("Paid")


def test_a_wallet_that_connects_after_another_tab_has_paid_is_offered_nothing(
    till: Till, open_page: OpenPage
) -> None:
    first = opened(open_page(), link := till.pay())
    second = first.context.new_page()
    second.add_init_script(PLAYED)
    second.goto(link)
    for_real(second)
    play(second, eth_requestAccounts=[None])
    second.get_by_role("button", name=NAME).click()
    second.wait_for_function(WAITS)
    for page in (first, second):
        page.route("**/confirm", lambda route: None)  # no answer draws it anew
    pay_button(first).click()
    for page in (first, second):
        is_sent(page)
    second.evaluate("(account) => done([account])", ACCOUNT)
    second.wait_for_timeout(500)
    is_sent(second)
    assert asked(second, SENT) == []


class Prices:
    """The options of an asset: the first price holds for `HOLDS_S`; what comes later waits in `held`."""

    def __init__(self, page: Page, asset: str, *, holds: int = 1) -> None:
        self.asset, self.holds, self.answers = asset, holds, 0
        self.held: list[Route] = []
        page.route("**/options", self._answer)

    def _answer(self, route: Route) -> None:
        self.answers += 1
        if self.answers == self.holds + 1:
            self.held.append(route)
        else:
            self.give(route)

    def give(self, route: Route) -> None:
        """Answer with the asset's option, which costs more each time."""
        told = route.fetch().json()
        [option] = [one for one in told["options"] if one["amount"]["display"]["assetSymbol"] == self.asset]
        option["expiresAt"] = int(time.time()) + HOLDS_S if self.answers <= self.holds else None
        option["amount"]["value"] = str(int(option["amount"]["value"]) + self.answers)
        route.fulfill(json=told | {"options": [option]})

    def wait(self, page: Page) -> Route:
        """Until the page asks for a new price, which it is not given."""
        for _ in range(200):
            if self.held:
                return self.held[0]
            page.wait_for_timeout(50)
        raise AssertionError("it never asked")


def test_who_pays_while_a_price_is_renewed_is_asked_for_the_new_one(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    prices = Prices(page, "USDC")
    opened(page, till.pay(), "USDC")
    route = prices.wait(page)
    pay_button(page).click()
    page.wait_for_timeout(300)
    prices.give(route)
    expect(page.get_by_role("alert")).to_contain_text("The price changed")
    assert asked(page, SIGNED) == []
    pay_button(page).click()
    expect(heading(page)).to_have_text("Paid")


def test_a_price_that_cannot_be_renewed_for_who_has_left_it_changes_nothing(
    till: Till, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = ("ERR_FAILED",)
    page = open_page()
    prices = Prices(page, "ETH")
    opened(page, till.pay())
    route = prices.wait(page)
    page.get_by_role("button", name="Another way to pay").click()
    connect(page, NAME, "ETH")
    route.abort()
    page.wait_for_timeout(500)
    expect(pay_button(page)).to_be_enabled()
    expect(page.get_by_role("alert")).to_be_hidden()


def test_a_price_that_is_renewed_leaves_the_choice_of_who_has_approved_something_else(
    till: Till, open_page: OpenPage
) -> None:
    page = open_page()
    answers = 0

    def told(route: Route) -> None:
        nonlocal answers
        answers += 1
        said = in_two_steps_of(route)
        for option in said["options"]:
            is_eth = option["amount"]["display"]["assetSymbol"] == "ETH"
            option["expiresAt"] = int(time.time()) + HOLDS_S if is_eth and answers == 1 else None
        route.fulfill(json=said)

    page.route("**/options", told)
    opened(page, till.pay(), "USDC")
    play(page, eth_signTypedData_v4=[{"code": 4001, "message": "x"}])
    pay_button(page).click()
    expect(page.get_by_role("alert")).to_contain_text("You declined the request")
    choose(page, "ETH")
    while answers < 2:
        page.wait_for_timeout(50)
    page.wait_for_timeout(300)
    expect(pay_button(page)).to_contain_text("ETH")
    expect(page.get_by_role("alert")).to_be_hidden()


def test_a_payment_that_ended_while_what_pays_was_loaded_asks_no_wallet(
    till: Till, open_page: OpenPage
) -> None:
    page = open_page()
    page.add_init_script(PLAYED)
    page.goto(link := till.pay())
    held: list[Route] = []
    page.route("**/static/pay.js*", lambda route: held.append(route))
    page.get_by_role("button", name=NAME).click()
    while not held:
        page.wait_for_timeout(20)
    till.move(link, "succeeded")
    expect(heading(page)).to_have_text("Paid")
    held[0].continue_()
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(300)
    assert asked(page, "eth_requestAccounts") == []


@pytest.fixture
def questions(till: Till) -> Any:
    """Has the merchant ask its buyers for something, until the test ends."""
    path = f"/v1/merchants/{till.merchant_id}"
    yield lambda: till.call("PATCH", path, {"collect": FIELDS})
    till.call("PATCH", path, {"collect": []})


def test_who_signs_while_the_shop_begins_to_ask_is_led_to_its_questions(
    till: Till, open_page: OpenPage, watch: Watch, questions: Callable[[], None]
) -> None:
    watch.expected = ("status of 400",)
    page = opened(open_page(), till.pay(), "USDC")
    questions()
    pay_button(page).click()
    expect(page.get_by_role("alert")).to_contain_text("The approval was not accepted")
    expect(page.get_by_role("link", name="Answer the shop's questions first")).to_be_visible()
    expect(pay_button(page)).to_have_count(0)
    assert page.evaluate("localStorage.length") == 0


def test_who_pays_at_an_old_price_is_told_of_the_new_one_before_anybody_knows_what_the_account_has(
    till: Till, open_page: OpenPage
) -> None:
    page = open_page()
    prices = Prices(page, "USDC")
    opened(page, till.pay(), "USDC")
    page.route("**/funds", lambda route: None)
    route = prices.wait(page)
    pay_button(page).click()
    prices.give(route)
    expect(page.get_by_role("alert")).to_contain_text("The price changed")
    assert asked(page, SIGNED) == []
    pay_button(page).click()
    expect(heading(page)).to_have_text("Paid")
    assert len(asked(page, SIGNED)) == 1


def test_who_has_paid_is_not_told_of_a_price_that_changed_before(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    prices = Prices(page, "ETH")
    opened(page, till.pay())
    funds: list[Route] = []
    page.route("**/funds", lambda route: funds.append(route))
    confirmed(page)
    route = prices.wait(page)
    prices.give(route)
    expect(page.get_by_role("alert")).to_contain_text("The price changed")
    pay_button(page).click()
    is_sent(page)
    funds[0].fulfill(json={"funds": []})
    page.wait_for_timeout(300)
    expect(page.get_by_role("alert")).to_be_hidden()
    is_sent(page)
