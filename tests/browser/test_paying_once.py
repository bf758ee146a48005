"""Nobody pays twice: not by a reload, a second tab, a dead server, a lost page, an old price or a refusal."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest
from playwright.sync_api import Page, Route, expect

from payd.chains.evm.told import PAY_AGAIN, REVERTED
from payd.core.errors import InvalidParams
from tests.browser.conftest import Till, Watch
from tests.browser.page_wallets import (
    PAID_MS,
    SEND,
    THEY_SAY,
    Wallets,
    connect,
    nothing_to_pay_with,
    pay_button,
    paying,
    sends,
)
from tests.browser.played import PLAYED
from tests.browser.played import asked as asked_of
from tests.browser.test_checkout import accessibility_problems, heading
from tests.browser.wallet_shop import WalletShop

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]


def key_of(link: str) -> str:
    """Where a page keeps what a wallet handed out."""
    return f"payd:{link.rpartition('/')[2]}"


def test_a_server_that_dies_between_hash_and_confirm_costs_nobody_twice(
    shop: WalletShop, wallets: Wallets, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = ("ERR_CONNECTION", "WebSocket connection to", *THEY_SAY)
    page = open_page()
    wallets.install(page, "viem")
    page.goto(link := shop.pay())
    connect(page, "Client Wallet", "DAI")
    wallets.answering = lambda method: shop.server.kill() if method == SEND else None
    pay_button(page).click()
    expect(paying(page)).to_have_text("Your wallet sent the payment")
    expect(page.get_by_text("We are telling the shop. Do not pay again.").first).to_be_visible()
    nothing_to_pay_with(page)
    wallets.answering = lambda method: None
    shop.server.start()
    expect(heading(page)).to_have_text("Paid", timeout=PAID_MS)
    assert sends(wallets) == 1
    assert shop.transfers(link) == [("matched", "DAI")]


@pytest.mark.parametrize("asset", ["USDC", "DAI"])
def test_a_second_tab_and_a_reload_know_what_the_wallet_handed_out(
    shop: WalletShop,
    wallets: Wallets,
    open_page: OpenPage,
    watch: Watch,
    still: Callable[[], None],
    asset: str,
) -> None:
    watch.expected = ("ERR_FAILED", *THEY_SAY)
    page = open_page()
    wallets.install(page, "viem")
    page.context.route("**/confirm", lambda route: route.abort())
    page.goto(link := shop.pay())
    still()  # so that the server does not find it by itself
    connect(page, "Client Wallet", asset)
    pay_button(page).click()
    expect(paying(page)).to_have_text("Your wallet sent the payment")
    asked = wallets.methods()
    page.reload()
    other = page.context.new_page()
    other.goto(link)
    for one in (page, other):
        expect(paying(one)).to_have_text("Your wallet sent the payment")
        nothing_to_pay_with(one)
    page.close()
    other.context.unroute("**/confirm")
    expect(heading(other)).to_have_text("Payment sent", timeout=PAID_MS)
    shop.anvil.ask("evm_setIntervalMining", 1)
    expect(heading(other)).to_have_text("Paid", timeout=PAID_MS)
    assert wallets.methods() == asked
    assert shop.transfers(link) == [("matched", asset)]


def test_a_page_that_goes_while_the_wallet_sends_warns_before_it_offers_to_pay_again(
    shop: WalletShop, wallets: Wallets, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = THEY_SAY
    page = open_page()
    wallets.install(page, "headless")
    page.goto(link := shop.pay())
    other = page.context.new_page()
    other.goto(link)
    connect(page, "Headless Wallet", "DAI")
    pay_button(page).click()
    wallets.wait_for(page, SEND)
    page.reload()
    for one in (page, other):
        expect(paying(one)).to_have_text("Look into your wallet first")
        nothing_to_pay_with(one)
    page.get_by_role("button", name="Nothing was sent: pay now").click()
    expect(page.get_by_role("button", name="Headless Wallet")).to_be_visible()
    wallets.do("reject", SEND)


def test_what_the_wallet_sent_after_its_page_had_gone_is_found_by_itself(
    shop: WalletShop, wallets: Wallets, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = THEY_SAY
    page = open_page()
    wallets.install(page, "headless")
    page.goto(link := shop.pay())
    connect(page, "Headless Wallet", "DAI")
    pay_button(page).click()
    wallets.wait_for(page, SEND)
    page.reload()
    expect(paying(page)).to_have_text("Look into your wallet first")
    wallets.do("authorize", SEND)
    expect(heading(page)).to_have_text("Paid", timeout=PAID_MS)
    assert shop.transfers(link) == [("matched", "DAI")]


def test_who_declines_in_the_wallet_pays_with_the_same_button(
    shop: WalletShop, wallets: Wallets, open_page: OpenPage
) -> None:
    page = open_page()
    wallets.install(page, "headless")
    page.goto(link := shop.pay())
    connect(page, "Headless Wallet", "DAI")
    pay_button(page).click()
    expect(paying(page)).to_have_text("Approve in Headless Wallet…")
    wallets.wait_for(page, SEND)
    wallets.do("reject", SEND)
    expect(page.get_by_role("alert")).to_contain_text("You declined the request")
    assert page.evaluate("localStorage.length") == 0
    wallets.asked.clear()
    pay_button(page).click()
    wallets.wait_for(page, SEND)
    wallets.do("authorize", SEND)
    expect(heading(page)).to_have_text("Paid", timeout=PAID_MS)
    assert shop.transfers(link) == [("matched", "DAI")]


def test_a_price_that_changed_is_shown_and_asked_for(
    shop: WalletShop, wallets: Wallets, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = THEY_SAY
    page = open_page()
    wallets.install(page, "viem")
    answers = 0

    def dearer(route: Route) -> None:
        nonlocal answers
        answers += 1
        told = route.fetch().json()
        [option] = [one for one in told["options"] if one["amount"]["display"]["assetSymbol"] == "ETH"]
        option["expiresAt"] = 1 if answers == 1 else None
        option["amount"]["value"] = str(int(option["amount"]["value"]) + answers * 10**15)
        route.fulfill(json=told | {"options": [option]})

    page.route("**/options", dearer)
    page.goto(shop.pay())
    connect(page, "Client Wallet")
    expect(page.get_by_role("alert")).to_have_text(
        "The price changed 0.011 ETH is now 0.012 ETH. Nothing was sent."
    )
    expect(pay_button(page)).to_have_text("Pay 0.012 ETH with Client Wallet")
    assert wallets.methods() == []


def test_a_refused_signature_moves_nothing_and_can_be_given_again(
    shop: WalletShop, wallets: Wallets, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = ("status of 422", *THEY_SAY)
    page = open_page()
    wallets.install(page, "viem")
    refuse = {"status": 422, "json": {"message": "no", "code": "invalid_signature"}}
    page.route("**/confirm", lambda route: route.fulfill(**refuse), times=1)
    page.goto(link := shop.pay())
    connect(page, "Client Wallet", "USDC")
    pay_button(page).click()
    expect(page.get_by_role("alert")).to_contain_text("The approval was not accepted")
    assert page.evaluate("localStorage.length") == 0
    pay_button(page).click()
    expect(heading(page)).to_have_text("Paid", timeout=PAID_MS)
    assert shop.transfers(link) == [("matched", "USDC")]


def test_a_transaction_that_no_node_shows_can_be_given_another_id(
    shop: WalletShop, wallets: Wallets, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = THEY_SAY
    page = open_page()
    page.add_init_script("delete Array.prototype.with")  # as Safari before 16
    page.clock.install()
    page.goto(link := shop.pay())
    lost = {"option": "opt_1", "results": ["0x" + "ab" * 32], "of": 1, "sends": True, "asking": False}
    told: list[Any] = []

    def unseen(route: Route) -> None:
        told.append(json.loads(route.request.post_data or "")["results"][0]["data"][0])
        route.fulfill(json={"status": "requires_action", "isFinal": False, "pollInMs": 1000})

    page.route("**/confirm", unseen)
    page.evaluate("([key, kept]) => localStorage.setItem(key, kept)", [key_of(link), json.dumps(lost)])
    page.reload()
    expect(page.get_by_text("We wait until the network shows it.")).to_be_visible()
    nothing_to_pay_with(page)
    page.clock.run_for(61_000)
    expect(paying(page)).to_have_text("We cannot see your transaction yet")
    expect(page.locator("#pay")).to_contain_text("As long as your wallet shows it, do not pay again.")
    page.get_by_label("New transaction id").fill("0xnothing")
    page.get_by_role("button", name="Use this id").click()
    expect(page.get_by_role("alert")).to_contain_text("That is no transaction id")
    page.get_by_label("New transaction id").fill("0x" + "cd" * 32)
    page.get_by_role("button", name="Use this id").click()
    page.clock.run_for(1_000)
    expect(paying(page)).to_have_text("Your wallet sent the payment")
    assert told[0] == "0x" + "ab" * 32
    assert told[-1] == "0x" + "cd" * 32


def test_who_sent_what_the_chain_reverted_is_told_so_and_pays_again(
    shop: WalletShop, wallets: Wallets, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = ("status of 400", *THEY_SAY)
    page = open_page()
    wallets.install(page, "viem")
    said = {"message": REVERTED, "code": InvalidParams.code, "details": PAY_AGAIN}
    page.route("**/confirm", lambda route: route.fulfill(status=400, json=said), times=1)
    page.goto(link := shop.pay())
    sent = {"option": "opt_1", "results": ["0x" + "ab" * 32], "of": 1, "sends": True, "asking": False}
    page.evaluate("([key, kept]) => localStorage.setItem(key, kept)", [key_of(link), json.dumps(sent)])
    page.reload()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("The network refused the transaction")
    expect(alert).to_contain_text("Your wallet kept the money, less any network fee. You can pay again.")
    assert page.evaluate("localStorage.length") == 0
    connect(page, "Client Wallet", "DAI")
    pay_button(page).click()
    expect(heading(page)).to_have_text("Paid", timeout=PAID_MS)
    assert sends(wallets) == 1


def test_however_many_wallets_there_are_what_pays_is_loaded_once(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    for n in range(8):
        page.add_init_script(PLAYED.replace("'played'", f"'played{n}'").replace("const ", "var "))
    page.goto(link := till.pay())
    asking = {"option": "opt_1", "results": [], "of": 1, "sends": True, "asking": 1}
    page.evaluate("([key, kept]) => localStorage.setItem(key, kept)", [key_of(link), json.dumps(asking)])
    loaded: list[str] = []
    page.on("request", lambda sent: loaded.append(sent.url) if "/static/pay.js" in sent.url else None)
    page.reload()
    expect(paying(page)).to_have_text("Look into your wallet first")
    page.wait_for_load_state("networkidle")
    assert len(loaded) == 1


def test_who_has_sent_is_not_told_to_pay_by_a_page_that_cannot_load_what_to_say(
    till: Till, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = ("ERR_FAILED", "status of 400")
    page = open_page()
    page.add_init_script(PLAYED)
    page.goto(link := till.pay())
    expect(page.locator("#pay .wallet")).to_be_visible()
    page.context.route("**/static/pay.js*", lambda route: route.abort())
    other = page.context.new_page()
    kept = {"option": "opt_1", "results": ["0x" + "ab" * 32], "of": 1, "sends": True, "told": 1}
    other.goto(link)
    other.evaluate("([key, kept]) => localStorage.setItem(key, kept)", [key_of(link), json.dumps(kept)])
    other.reload()
    for one in (page, other):
        nothing_to_pay_with(one)
        expect(one.get_by_text("Cancel this payment")).to_be_hidden()
        expect(one.get_by_role("alert")).to_contain_text("No connection")
    page.context.unroute("**/static/pay.js*")
    for one in (page, other):
        expect(paying(one)).to_have_text("We cannot see your transaction yet")
        expect(one.get_by_role("alert")).to_be_hidden()


def test_who_took_it_back_in_another_tab_is_shown_the_code_again(
    till: Till, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = ("ERR_FAILED",)
    page = open_page()
    page.add_init_script(PLAYED)
    page.goto(link := till.pay())
    expect(page.locator("#pay .wallet")).to_be_visible()
    page.context.route("**/static/pay.js*", lambda route: route.abort())
    other = page.context.new_page()
    other.goto(link)
    kept = {"option": "opt_1", "results": [], "of": 1, "sends": True, "asking": 1}
    other.evaluate("([key, kept]) => localStorage.setItem(key, kept)", [key_of(link), json.dumps(kept)])
    nothing_to_pay_with(page)
    other.evaluate("localStorage.clear()")
    expect(page.locator("#pay .wallet")).to_be_visible()
    expect(page.locator(".qr")).to_be_visible()


def test_an_expired_payment_shows_what_the_wallet_sent_and_tells_the_server(
    till: Till, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = ("status of 410",)
    page = open_page()
    page.goto(link := till.pay())
    sent = "0x" + "ef" * 32
    kept = {"option": "opt_1", "results": [sent], "of": 1, "sends": True, "asking": False}
    till.move(link, "expired")
    page.evaluate("([key, kept]) => localStorage.setItem(key, kept)", [key_of(link), json.dumps(kept)])
    with page.expect_response("**/confirm") as told:
        page.reload()
    assert told.value.status == 410
    expect(page.locator("#kept")).to_contain_text(sent)
    assert accessibility_problems(page) == []


def test_who_sent_money_for_what_was_cancelled_is_not_told_that_nothing_was_charged(
    till: Till, open_page: OpenPage
) -> None:
    page = open_page()
    page.goto(link := till.pay())
    sent = "0x" + "ef" * 32
    kept = {"option": "opt_1", "results": [sent], "of": 1, "sends": True, "asking": False}
    till.move(link, "cancelled")
    expect(page.get_by_text("Nothing was charged.")).to_be_visible()
    page.evaluate("([key, kept]) => localStorage.setItem(key, kept)", [key_of(link), json.dumps(kept)])
    page.reload()
    expect(page.locator("#kept")).to_contain_text(sent)
    expect(page.get_by_text("Nothing was charged.")).to_be_hidden()


WELCOME: Final = ("<p>Welcome to our network</p>", '{"status": "error", "message": "Welcome"}')


@pytest.mark.parametrize(
    ("status", "said"),
    [(200, WELCOME[0]), (404, WELCOME[0]), (200, WELCOME[1]), (403, WELCOME[1]), (200, "null")],
)
def test_what_a_proxy_says_in_the_servers_place_loses_no_signature(
    shop: WalletShop, wallets: Wallets, open_page: OpenPage, watch: Watch, status: int, said: str
) -> None:
    watch.expected = (f"status of {status}", *THEY_SAY)
    page = open_page()
    wallets.install(page, "viem")
    page.route("**/confirm", lambda route: route.fulfill(status=status, body=said))
    page.goto(link := shop.pay())
    connect(page, "Client Wallet", "USDC")
    pay_button(page).click()
    expect(page.get_by_role("alert")).to_contain_text("No connection")
    expect(paying(page)).to_have_text("Your wallet sent the payment")
    nothing_to_pay_with(page)
    asked = wallets.methods()
    page.unroute("**/confirm")
    expect(heading(page)).to_have_text("Paid", timeout=PAID_MS)
    assert wallets.methods() == asked
    assert shop.transfers(link) == [("matched", "USDC")]


def test_a_wallet_that_is_chosen_twice_while_what_pays_is_loaded_is_asked_once(
    till: Till, open_page: OpenPage
) -> None:
    page = open_page()
    page.add_init_script(PLAYED)
    page.goto(till.pay())
    held: list[Route] = []
    page.route("**/static/pay.js*", lambda route: held.append(route))
    page.locator("#pay .wallet").dblclick()
    while not held:
        page.wait_for_timeout(20)
    held[0].continue_()
    expect(page.locator("#pay-now")).to_be_visible()
    assert len(asked_of(page, "eth_requestAccounts")) == 1


def test_who_sent_what_somebody_else_had_paid_by_then_keeps_its_id(
    shop: WalletShop, wallets: Wallets, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = ("status of 400", *THEY_SAY)
    payer, other = open_page(), open_page()
    wallets.install(payer, "viem")
    payer.goto(link := shop.pay())
    other.goto(link)
    sent = {"option": "opt_1", "results": ["0x" + "ab" * 32], "of": 1, "sends": True}
    keep = "([key, kept]) => localStorage.setItem(key, kept)"
    connect(payer, "Client Wallet", "DAI")
    pay_button(payer).click()
    expect(heading(payer)).to_have_text("Paid", timeout=PAID_MS)
    sender = payer.locator("#from").get_attribute("title") or ""
    for account, shown in (("0x" + "11" * 20, 1), (sender.lower(), 0)):  # the second replaced its transaction
        other.evaluate(keep, [key_of(link), json.dumps(sent | {"from": account})])
        other.reload()
        expect(heading(other)).to_have_text("Paid")
        other.wait_for_load_state("networkidle")
        expect(other.locator("#kept")).to_have_count(shown)
        expect(other.get_by_text("0x" + "ab" * 32)).to_have_count(shown)
        assert other.evaluate("localStorage.length") == shown
