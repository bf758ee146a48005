"""The page keeps up with its payment: websockets that lie, clocks that jump, networks that come and go."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, WebSocketRoute, expect

from tests.browser.conftest import Till, Watch
from tests.browser.page_wallets import pay_button
from tests.browser.played import opened
from tests.browser.test_checkout import CHECKOUT, at_the_shop, heading, is_marked, mark

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]

HOURS: tuple[float, ...] = (-2, 2)


@pytest.mark.parametrize("hours", HOURS)
def test_a_clock_that_jumps_while_the_page_is_open_moves_no_countdown(
    till: Till, open_page: OpenPage, hours: float
) -> None:
    page = open_page()
    page.clock.install()
    page.goto(till.pay())
    expect(page.get_by_role("timer")).to_have_text(re.compile(r"14:5\d"))
    with page.expect_request("**/status"):  # it asks at once what time it is
        page.clock.set_system_time(time.time() + hours * 3600)
    page.clock.run_for(2_000)
    expect(page.get_by_role("timer")).to_have_text(re.compile(r"14:[45]\d"))


def test_hours_are_counted_too(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(till.pay(expiresAt=int(time.time()) + 7_200))
    expect(page.get_by_role("timer")).to_have_text(re.compile(r"1:59:5\d"))


@pytest.mark.parametrize("event", ["visibilitychange", "online"])
def test_a_tab_that_wakes_up_asks_at_once(till: Till, open_page: OpenPage, event: str) -> None:
    page = open_page()
    page.goto(till.pay())
    page.wait_for_load_state("networkidle")
    with page.expect_request("**/status"):
        page.evaluate(f"dispatchEvent(new Event('{event}'))")


def test_a_websocket_that_opens_and_says_nothing_is_not_relied_on(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    page.route_web_socket("**/feed", lambda socket: None)
    link = till.pay()
    page.goto(link)
    mark(page)
    till.move(link, "processing")
    expect(heading(page)).to_have_text("Payment sent")
    assert is_marked(page)


def test_a_browser_without_websockets_follows_by_polls(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    page.add_init_script("delete window.WebSocket")
    page.goto(link := till.pay())
    mark(page)
    till.move(link, "succeeded")
    expect(heading(page)).to_have_text("Paid")
    assert is_marked(page)


def test_a_browser_that_cannot_give_up_on_an_answer_follows_and_pays(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    page.add_init_script(
        "delete AbortSignal.timeout"
    )  # as Safari before 16, for phones that get no newer one
    page.route_web_socket("**/feed", lambda socket: socket.close())
    opened(page, till.pay(), "USDC")
    pay_button(page).click()
    expect(heading(page)).to_have_text("Paid")
    expect(page.get_by_role("alert")).to_be_hidden()


@pytest.mark.parametrize("said", ["{}", "null", '{"status": "welcome"}'])
def test_a_poll_that_some_proxy_answers_stops_neither_the_clock_nor_the_page(
    till: Till, open_page: OpenPage, said: str
) -> None:
    page = open_page()
    page.route_web_socket("**/feed", lambda socket: socket.close())
    with page.expect_response("**/status"):
        page.route("**/status", lambda route: route.fulfill(body=said), times=1)
        page.goto(link := till.pay())
    expect(page.get_by_role("alert")).to_contain_text("No connection")
    page.wait_for_timeout(600)
    expect(page.get_by_role("timer")).to_have_text(re.compile(r"14:5\d"))
    till.move(link, "succeeded")
    expect(heading(page)).to_have_text("Paid")
    expect(page.get_by_role("alert")).to_be_hidden()


def test_a_websocket_that_has_fallen_silent_is_replaced(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    sockets: list[WebSocketRoute] = []

    def half_open(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        server = socket.connect_to_server()
        if len(sockets) > 1:
            return
        first: list[str | bytes] = []

        def once(text: str | bytes) -> None:
            if not first:
                first.append(text)
                socket.send(text)

        server.on_message(once)

    page.route_web_socket("**/feed", half_open)
    link = till.pay()
    with page.expect_websocket() as opened:
        page.goto(link)
    opened.value.wait_for_event("framereceived")
    till.move(link, "processing")
    page.wait_for_timeout(300)
    expect(heading(page)).to_have_text("Pay with your wallet")
    with page.expect_websocket() as second:
        page.evaluate("dispatchEvent(new Event('online'))")
    second.value.wait_for_event("framereceived")
    expect(heading(page)).to_have_text("Payment sent")
    till.move(link, "succeeded")
    expect(heading(page)).to_have_text("Paid")
    assert len(sockets) == 2


def test_while_nothing_answers_the_page_asks_less_and_less_often(
    till: Till, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = ("ERR_FAILED",)
    page = open_page()
    page.route_web_socket("**/feed", lambda socket: socket.close())
    asked: list[str] = []

    def fail(route: Route) -> None:
        asked.append(route.request.url)
        route.abort()

    page.route("**/status", fail)
    page.clock.install()
    page.goto(link := till.pay())
    for _ in range(60):
        page.clock.run_for(2_000)
    assert 3 <= len(asked) <= 20
    expect(page.get_by_role("alert")).to_contain_text("We keep trying. Your payment is safe.")
    page.unroute("**/status")
    till.move(link, "succeeded")
    page.evaluate("dispatchEvent(new Event('online'))")
    expect(heading(page)).to_have_text("Paid")
    expect(page.get_by_role("alert")).to_be_hidden()


def test_who_sent_money_that_did_not_pay_is_not_taken_away_from_its_id(
    till: Till, open_page: OpenPage
) -> None:
    page = open_page()
    page.clock.install()
    link = till.pay(checkout=CHECKOUT)
    payment_id = link.rpartition("/")[2]
    kept = {"option": "opt_1", "results": ["0x" + "ab" * 32], "of": 1, "sends": True, "told": 1}
    page.goto(link)
    page.evaluate(
        "([key, text]) => localStorage.setItem(key, text)", [f"payd:{payment_id}", json.dumps(kept)]
    )
    till.move(link, "expired")
    page.goto(link)
    expect(page.get_by_text("0x" + "ab" * 32)).to_be_visible()
    page.clock.run_for(20_000)
    assert page.url == link
    expect(page.get_by_role("link", name="Back to shop.example")).to_be_visible()
    expect(page.get_by_text("Taking you there")).to_be_hidden()


def test_who_loads_a_paid_page_again_is_taken_to_the_shop(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    page.clock.install()
    page.goto(link := till.pay(checkout=CHECKOUT))
    till.move(link, "succeeded")
    sender = page.locator("#from").get_attribute("title")
    kept = {"option": "opt_1", "from": sender, "results": ["0x" + "ab" * 32], "of": 1, "sends": True}
    text = [f"payd:{link.rpartition('/')[2]}", json.dumps(kept | {"told": 1})]
    page.evaluate("([key, text]) => localStorage.setItem(key, text)", text)
    page.reload()
    expect(page.get_by_text("Taking you there")).to_be_visible()
    assert page.evaluate("localStorage.length") == 0


def test_an_open_page_leads_back_to_the_shop_and_cancels_nothing(
    till: Till, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = ("request: https://shop.example/",)
    page = open_page()
    at_the_shop(page)
    link = till.pay(checkout=CHECKOUT)
    page.goto(link)
    page.get_by_role("link", name="Back to shop.example").click()
    page.wait_for_url(f"https://shop.example/cart?payment_id={link.rpartition('/')[2]}")
    assert till.status(link) == "requires_action"


@pytest.mark.parametrize("lost", ["the request", "the answer"])
def test_who_cancels_without_a_connection_is_not_left_to_believe_that_it_is_done(
    till: Till, open_page: OpenPage, watch: Watch, lost: str
) -> None:
    watch.expected = ("ERR_FAILED",)
    page = open_page()

    def cut(route: Route) -> None:
        if lost == "the answer":
            route.fetch(max_redirects=0)
        route.abort()

    page.route("**/cancel", cut)
    page.goto(link := till.pay())
    page.get_by_text("Cancel this payment").click()
    page.get_by_role("button", name="Yes, cancel the payment").click()
    if lost == "the answer":
        expect(heading(page)).to_have_text("Payment cancelled")
        expect(page.get_by_role("alert")).to_be_hidden()
    else:
        expect(page.get_by_role("alert")).to_contain_text("That did not work")
        page.wait_for_timeout(500)
        expect(page.get_by_role("alert")).to_contain_text("Look at the payment and try again.")
        assert till.status(link) == "requires_action"
        page.unroute("**/cancel")
        page.get_by_role("button", name="Yes, cancel the payment").click()
        expect(heading(page)).to_have_text("Payment cancelled")
