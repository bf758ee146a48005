"""A wallet that changes its mind, its account or its network, and tabs that pay at the same moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from playwright.sync_api import APIResponse, Page, Route, expect

from tests.browser.conftest import Till, Watch
from tests.browser.page_wallets import connect, nothing_to_pay_with, pay_button, paying
from tests.browser.played import (
    ACCOUNT,
    HASH,
    NAME,
    OTHER,
    PLAYED,
    SENT,
    SIGNED,
    asked,
    for_real,
    opened,
    play,
    tell,
)
from tests.browser.test_checkout import CHECKOUT, heading
from tests.browser.test_late_answers import OPEN

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]

NO_STORAGE: Final = """
const denied = () => { throw new DOMException('denied', 'SecurityError'); };
Object.defineProperty(window, 'localStorage', { get: denied });
"""
WAITS: Final = "() => Boolean(window.done)"


def account(page: Page, address: str) -> Any:
    return page.locator(f'#pay [title="{address}"]')


def test_the_options_are_those_of_the_account_that_is_chosen_in_the_wallet(
    till: Till, open_page: OpenPage
) -> None:
    page = opened(open_page(), till.pay())
    expect(account(page, ACCOUNT)).to_be_visible()
    play(page, eth_accounts=[[OTHER]])
    tell(page, "accountsChanged", [OTHER])
    expect(account(page, OTHER)).to_be_visible()
    expect(account(page, ACCOUNT)).to_have_count(0)
    tell(page, "chainChanged", "0x1")
    expect(pay_button(page)).to_be_enabled()
    pay_button(page).click()
    expect(heading(page)).to_have_text("Paid")
    [[sent]] = asked(page, SENT)
    assert sent["from"].lower() == OTHER


def test_a_wallet_that_writes_its_account_in_its_own_way_pays(
    till: Till, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = ("status of 400",)  # its checksum is wrong
    page = open_page()
    page.add_init_script(PLAYED)
    page.add_init_script("played.eth_requestAccounts = [['0x' + 'aB'.repeat(20)]];")
    page.add_init_script("played.eth_accounts = [['0x' + 'Ab'.repeat(20)]];")
    page.goto(till.pay())
    for_real(page)
    connect(page, NAME, "ETH")
    pay_button(page).click()
    expect(heading(page)).to_have_text("Paid")
    assert len(asked(page, SENT)) == 1


def test_a_wallet_that_leaves_is_chosen_again(till: Till, open_page: OpenPage) -> None:
    page = opened(open_page(), till.pay())
    tell(page, "accountsChanged", [])
    expect(page.get_by_role("alert").locator("strong")).to_have_text("Your wallet is not connected any more")
    expect(page.get_by_role("button", name=NAME)).to_be_visible()
    tell(page, "accountsChanged", [OTHER])  # as nobody asked, nothing happens
    tell(page, "chainChanged", "0x1")
    page.wait_for_timeout(400)
    expect(paying(page)).to_have_count(0)
    connect(page, NAME)


@pytest.mark.parametrize("has", [[OTHER], []])
def test_nothing_is_paid_from_another_account_than_the_one_that_is_shown(
    till: Till, open_page: OpenPage, has: list[str]
) -> None:
    page = opened(open_page(), till.pay())
    play(page, eth_accounts=[has], eth_requestAccounts=[[OTHER]])  # it says nothing by itself
    pay_button(page).click()
    title = "Your wallet is on another account" if has else "Your wallet is locked"
    expect(page.get_by_role("alert").locator("strong")).to_have_text(title)
    assert asked(page, SENT) == []
    if has:
        expect(account(page, OTHER)).to_be_visible()


def test_an_account_that_changes_while_the_wallet_asks_changes_nothing_until_it_is_done(
    till: Till, open_page: OpenPage
) -> None:
    page = opened(open_page(), till.pay())
    play(page, eth_sendTransaction=[None])
    pay_button(page).click()
    page.wait_for_function(WAITS)
    tell(page, "chainChanged", "0x1")
    tell(page, "accountsChanged", [OTHER])
    page.wait_for_timeout(400)
    expect(paying(page)).to_have_text("Approve in Played Wallet…")
    page.evaluate("fail({ code: 4001 })")
    expect(account(page, OTHER)).to_be_visible()
    play(page, eth_accounts=[[OTHER]], eth_sendTransaction=[HASH])
    pay_button(page).click()
    expect(heading(page)).to_have_text("Paid")


def test_what_is_said_after_it_was_sent_changes_nothing(till: Till, open_page: OpenPage) -> None:
    page = opened(open_page(), till.pay())
    page.route(
        "**/confirm", lambda route: route.fulfill(json={"status": "requires_action", "isFinal": False})
    )
    pay_button(page).click()
    expect(paying(page)).to_have_text("Your wallet sent the payment")
    for value in ([OTHER], []):
        tell(page, "accountsChanged", value)
    tell(page, "chainChanged", "0x1")
    page.wait_for_timeout(400)
    expect(paying(page)).to_have_text("Your wallet sent the payment")
    nothing_to_pay_with(page)


def test_a_hash_that_comes_after_the_buyer_stopped_waiting_is_kept(till: Till, open_page: OpenPage) -> None:
    page = opened(open_page(), till.pay())
    play(page, eth_sendTransaction=[None])
    pay_button(page).click()
    page.wait_for_function(WAITS)
    page.get_by_role("button", name="Stop waiting").click()
    expect(paying(page)).to_have_text("Look into your wallet first")
    page.evaluate("(hash) => done(hash)", HASH)
    expect(heading(page)).to_have_text("Paid")
    assert len(asked(page, SENT)) == 1


def test_a_hash_that_comes_after_another_was_sent_does_not_take_its_place(
    till: Till, open_page: OpenPage
) -> None:
    page = opened(open_page(), till.pay())
    page.route(
        "**/confirm", lambda route: route.fulfill(json={"status": "requires_action", "isFinal": False})
    )
    play(page, eth_sendTransaction=[None, later := "0x" + "99" * 32])
    pay_button(page).click()
    page.wait_for_function(WAITS)
    page.get_by_role("button", name="Stop waiting").click()
    page.get_by_role("button", name="Nothing was sent: pay now").click()
    pay_button(page).click()
    expect(page.locator("#pay")).to_contain_text(later)
    page.evaluate("(hash) => done(hash)", HASH)
    page.wait_for_timeout(200)
    page.reload()
    expect(page.locator("#pay")).to_contain_text(later)


def test_a_signature_that_comes_after_the_buyer_stopped_waiting_pays_nothing(
    till: Till, open_page: OpenPage
) -> None:
    page = opened(open_page(), till.pay(), "USDC")
    confirmed: list[str] = []
    page.on("request", lambda sent: confirmed.append(sent.url) if sent.url.endswith("/confirm") else None)
    play(page, eth_signTypedData_v4=[None])
    pay_button(page).click()
    page.wait_for_function(WAITS)
    page.get_by_role("button", name="Stop waiting").click()
    expect(pay_button(page)).to_be_enabled()
    page.evaluate("done('0x' + 'cd'.repeat(65))")
    page.wait_for_timeout(400)
    assert confirmed == []
    play(page, eth_signTypedData_v4=["0x" + "cd" * 65])
    pay_button(page).click()
    expect(heading(page)).to_have_text("Paid")
    assert len(asked(page, SIGNED)) == 2


@pytest.mark.parametrize("asset", ["ETH", "USDC"])
def test_of_two_tabs_that_pay_at_the_same_moment_one_asks_the_wallet(
    till: Till, open_page: OpenPage, asset: str
) -> None:
    first = opened(open_page(), link := till.pay(), asset)
    second = opened(first.context.new_page(), link, asset)
    for page in (first, second):
        play(page, eth_sendTransaction=[None], eth_signTypedData_v4=[None])
    for page in (first, second):
        page.evaluate("void document.getElementById('pay-now')?.click()")
    told = "Another tab is asking your wallet" if asset == "USDC" else "Look into your wallet first"
    first.wait_for_function(f"({WAITS})() || document.body.innerText.includes('{told}')")
    winner, loser = (second, first) if first.get_by_text(told).is_visible() else (first, second)
    winner.wait_for_function(WAITS)
    if asset == "USDC":
        expect(loser.get_by_role("alert").locator("strong")).to_have_text(told)
    else:
        expect(paying(loser)).to_have_text(told)
    assert [len(asked(page, SENT, SIGNED)) for page in (winner, loser)] == [1, 0]
    winner.evaluate("(is_hash) => done('0x' + 'ab'.repeat(is_hash ? 32 : 65))", asset == "ETH")
    for page in (winner, loser):
        expect(heading(page)).to_have_text("Paid")


def test_what_one_tab_asks_the_wallet_the_other_hears_of(till: Till, open_page: OpenPage) -> None:
    first = opened(open_page(), link := till.pay())
    second = opened(first.context.new_page(), link)
    play(first, eth_sendTransaction=[None])
    pay_button(first).click()
    first.wait_for_function(WAITS)
    expect(paying(second)).to_have_text("Look into your wallet first")


def test_who_stopped_waiting_in_one_tab_pays_in_another(till: Till, open_page: OpenPage) -> None:
    first = opened(open_page(), link := till.pay(), "USDC")
    second = opened(first.context.new_page(), link, "USDC")
    play(first, eth_signTypedData_v4=[None])
    pay_button(first).click()
    first.wait_for_function(WAITS)
    first.get_by_role("button", name="Stop waiting").click()
    pay_button(second).click()
    expect(heading(second)).to_have_text("Paid")
    assert len(asked(second, SIGNED)) == 1


def test_two_payments_in_two_tabs_do_not_mix(till: Till, open_page: OpenPage) -> None:
    first = opened(open_page(), till.pay())
    second = opened(first.context.new_page(), till.pay(reference="ORDER-2"))
    for page in (first, second):
        play(page, eth_sendTransaction=[None])
        pay_button(page).click()
        page.wait_for_function(WAITS)
    assert second.evaluate("Object.keys(localStorage).length") == 2
    second.evaluate("fail({ code: 4001 })")
    expect(pay_button(second)).to_be_enabled()
    first.evaluate("(hash) => done(hash)", HASH)
    expect(heading(first)).to_have_text("Paid")
    expect(pay_button(second)).to_be_enabled()
    assert second.evaluate("Object.keys(localStorage).length") == 0


def test_a_browser_that_keeps_nothing_pays_all_the_same(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    page.add_init_script(NO_STORAGE)
    opened(page, till.pay())
    play(page, eth_sendTransaction=[{"code": 4001, "message": "x"}, HASH])
    pay_button(page).click()
    expect(page.get_by_role("alert").locator("strong")).to_have_text("You declined the request")
    pay_button(page).click()
    expect(heading(page)).to_have_text("Paid")
    assert len(asked(page, SENT)) == 2


def test_a_browser_that_keeps_nothing_asks_before_it_leaves_what_a_wallet_may_send(
    till: Till, open_page: OpenPage
) -> None:
    page = open_page()
    page.add_init_script(NO_STORAGE)
    opened(page, till.pay())
    play(page, eth_sendTransaction=[None])
    leaves = "dispatchEvent(new Event('beforeunload', { cancelable: true }))"
    assert page.evaluate(leaves)
    pay_button(page).click()
    page.wait_for_function(WAITS)
    assert not page.evaluate(leaves)
    page.evaluate("(hash) => done(hash)", HASH)
    expect(heading(page)).to_have_text("Paid")
    assert page.evaluate(leaves)


@pytest.mark.parametrize("storage", [True, False])
def test_an_answer_that_comes_after_the_page_was_drawn_as_paid_leaves_nothing_behind(
    till: Till, open_page: OpenPage, storage: bool
) -> None:
    page = open_page()
    page.add_init_script("" if storage else NO_STORAGE)
    opened(page, till.pay())
    held: list[tuple[Route, APIResponse]] = []
    page.route("**/confirm", lambda route: held.append((route, route.fetch())))
    pay_button(page).click()
    expect(heading(page)).to_have_text("Paid")
    [(route, answer)] = held
    with page.expect_response("**/confirm"), page.expect_response(page.url):
        route.fulfill(response=answer)
    assert page.evaluate("dispatchEvent(new Event('beforeunload', { cancelable: true }))")
    assert not storage or page.evaluate("localStorage.length") == 0


def test_a_browser_that_keeps_nothing_leads_nobody_away_from_the_id_of_what_did_not_pay(
    till: Till, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = ("status of 410",)
    page = open_page()
    page.add_init_script(NO_STORAGE)
    page.clock.install()
    opened(page, link := till.pay(checkout=CHECKOUT))
    page.route("**/confirm", lambda route: route.fulfill(json=OPEN), times=1)
    pay_button(page).click()
    expect(paying(page)).to_have_text("Your wallet sent the payment")
    till.move(link, "expired")
    expect(page.locator("#kept")).to_contain_text(HASH)
    page.clock.run_for(20_000)
    assert page.url == link
    expect(page.get_by_text("Taking you there")).to_be_hidden()


@pytest.mark.parametrize("state", ["connecting", "options", "approve"])
def test_a_reload_or_a_second_tab_in_any_state_never_pays_twice(
    till: Till, open_page: OpenPage, state: str
) -> None:
    page = open_page()
    page.add_init_script(PLAYED)
    page.goto(link := till.pay())
    for_real(page)
    if state == "connecting":
        play(page, eth_requestAccounts=[None])
        page.get_by_role("button", name=NAME).click()
        expect(paying(page)).to_have_text("Check Played Wallet…")
    else:
        connect(page, NAME, "ETH")
    if state == "approve":
        play(page, eth_sendTransaction=[None])
        pay_button(page).click()
        page.wait_for_function(WAITS)
    other = page.context.new_page()
    other.add_init_script(PLAYED)
    other.goto(link)
    page.reload()
    for one in (page, other):
        if state == "approve":
            expect(paying(one)).to_have_text("Look into your wallet first")
            nothing_to_pay_with(one)
        else:
            expect(one.get_by_role("button", name=NAME)).to_be_visible()
        assert asked(one, SENT) == []


def test_a_payment_that_ends_while_the_wallet_is_busy_is_not_asked_for_any_more(
    till: Till, open_page: OpenPage
) -> None:
    page = opened(open_page(), link := till.pay())
    play(page, eth_chainId=["0x1", "0x2105"], wallet_switchEthereumChain=[None])
    pay_button(page).click()
    page.wait_for_function(WAITS)
    till.move(link, "succeeded")
    expect(heading(page)).to_have_text("Paid")
    page.evaluate("() => { done(null); return new Promise((passed) => setTimeout(passed)); }")
    assert len(asked(page, "eth_accounts")) == 1, "the wallet has not been brought to the network"
    assert asked(page, SENT) == []
    expect(page.get_by_role("alert")).to_be_hidden()


def test_what_a_wallet_refused_is_not_said_of_a_payment_that_somebody_else_pays(
    till: Till, open_page: OpenPage
) -> None:
    page = opened(open_page(), link := till.pay())
    play(page, eth_sendTransaction=[{"code": 4001, "message": "no"}])
    pay_button(page).click()
    expect(page.get_by_role("alert")).to_contain_text("Press the button to try again")
    till.move(link, "succeeded")
    expect(heading(page)).to_have_text("Paid")
    expect(page.get_by_role("alert")).to_be_hidden()


def test_where_the_server_offers_nothing_any_more_the_page_offers_nothing(
    till: Till, open_page: OpenPage
) -> None:
    page = opened(open_page(), till.pay())
    over = {"options": None, "info": None, "collectData": None}
    page.route("**/options", lambda route: route.fulfill(json=over))
    tell(page, "accountsChanged", [OTHER])
    expect(pay_button(page)).to_have_count(0)
    assert asked(page, SENT) == []
