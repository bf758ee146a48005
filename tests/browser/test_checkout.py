"""The buyer's page in a real browser: what it shows, how it follows its payment, who can use it."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Callable
from typing import Any, Final

import pytest
import zxingcpp
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from PIL import Image
from playwright.sync_api import Frame, Page, Route, WebSocketRoute, expect

from tests.browser.conftest import Till, Watch

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]

STATUSES: Final = ("requires_action", "processing", "succeeded", "failed", "expired", "cancelled")
PHONE: Final[dict[str, Any]] = {
    "viewport": {"width": 320, "height": 640},
    "is_mobile": True,
    "has_touch": True,
}
SHOP: Final = "https://shop.example"
CHECKOUT: Final = {"successUrl": f"{SHOP}/thanks?order=7#top", "errorUrl": f"{SHOP}/cart"}
RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
LIGHTS: Final[dict[str, dict[str, Any]]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "forced colours": {"forced_colors": "active"},
}


def heading(page: Page) -> Any:
    return page.locator("#heading")


def accessibility_problems(page: Page | Frame) -> list[Any]:
    found = Axe().run(page, options={"runOnly": RULES}).response["violations"]
    return [(one["id"], [node["target"] for node in one["nodes"]][:4]) for one in found]


def mark(page: Page) -> None:
    """Leave something that a reload would take away."""
    page.evaluate("window.unloaded = false")


def is_marked(page: Page) -> bool:
    return bool(page.evaluate("window.unloaded === false"))


def test_it_shows_amount_order_and_countdown_before_any_scrolling(till: Till, open_page: OpenPage) -> None:
    page = open_page(**PHONE)
    page.goto(till.pay("250000"))
    expect(page.get_by_role("heading", level=1)).to_have_text("€2,500.00")
    expect(page).to_have_title("Pay €2,500.00 to Demo Shop")
    expect(page.get_by_role("timer")).to_have_text(re.compile(r"14:5\d"))
    for seen in (page.locator("h1"), page.get_by_text("ORDER-1042"), page.get_by_role("timer")):
        expect(seen).to_be_in_viewport(ratio=1)
    expect(page.get_by_text("Test mode. No real funds move.")).to_be_visible()


@pytest.mark.parametrize("light", LIGHTS)
def test_the_code_reads_as_the_pages_own_link(till: Till, open_page: OpenPage, light: str) -> None:
    page = open_page(**PHONE, **LIGHTS[light])
    link = till.pay()
    page.goto(link)
    picture = Image.open(io.BytesIO(page.screenshot(full_page=True)))
    found = zxingcpp.read_barcode(picture)
    assert found is not None
    assert found.text == link


def test_the_link_is_copied_exactly_and_the_buyer_is_told(till: Till, open_page: OpenPage) -> None:
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    link = till.pay()
    page.goto(link)
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    expect(page.get_by_role("status")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == link


def test_approving_in_one_tab_is_seen_in_both_without_a_reload(till: Till, open_page: OpenPage) -> None:
    acting, watching = open_page(), open_page()
    link = till.pay()
    polls: list[str] = []
    watching.on("request", lambda request: polls.append(request.url) if "/status" in request.url else None)
    with watching.expect_websocket() as socket:
        watching.goto(link)
    socket.value.wait_for_event("framereceived")
    acting.goto(link)
    for page in (acting, watching):
        mark(page)
    acting.get_by_role("button", name="Approve").press("Enter")
    for page in (acting, watching):
        expect(heading(page)).to_have_text("Paid")
        expect(heading(page)).to_be_focused()
        expect(page.get_by_role("status")).to_have_text("Paid")
        expect(page).to_have_title("Paid · €25.00 · Demo Shop")
        assert is_marked(page)
    assert polls == []
    expect(watching.locator("#tx")).to_have_text("test:" + link.rpartition("/")[2])
    expect(watching.get_by_role("group", name="Test Console")).to_have_count(0)


@pytest.mark.parametrize(
    ("move", "said"), [("Fail", "Payment failed"), ("Expire", "expired"), ("Cancel", "cancelled")]
)
def test_the_console_plays_every_other_end_too(till: Till, open_page: OpenPage, move: str, said: str) -> None:
    page = open_page()
    page.goto(till.pay())
    page.get_by_role("button", name=move, exact=True).click()
    expect(heading(page)).to_contain_text(said)


def test_only_possible_moves_can_be_chosen(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    link = till.pay()
    page.goto(link)
    till.move(link, "processing")
    expect(heading(page)).to_have_text("Payment sent")
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_be_disabled()
    expect(page.get_by_role("button", name="Approve")).to_be_enabled()


def test_without_a_websocket_the_page_polls(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    page.route_web_socket("**/feed", lambda socket: socket.close())
    link = till.pay()
    page.goto(link)
    mark(page)
    till.move(link, "processing")
    expect(heading(page)).to_have_text("Payment sent")
    till.move(link, "succeeded")
    expect(heading(page)).to_have_text("Paid")
    assert is_marked(page)


def test_a_websocket_that_keeps_failing_does_not_put_off_the_polls(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    page.add_init_script(
        "WebSocket = class { static OPEN = 1; constructor() { queueMicrotask(() => this.onclose()); } }"
    )
    begun_s = time.time()
    page.clock.install(time=begun_s)
    page.clock.pause_at(begun_s + 1)
    link = till.pay()
    page.goto(link)
    with page.expect_request("**/status", timeout=3_000) as poll:
        page.clock.run_for(2_100)
    assert poll.value.url == f"{link}/status"


def test_an_older_version_never_takes_the_place_of_a_newer_one(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    link = till.pay()
    sockets: list[WebSocketRoute] = []
    page.route_web_socket("**/feed", lambda socket: sockets.append(socket))
    page.goto(link)
    old_page = page.content()
    old = {"version": 0, "status": "requires_action", "isFinal": False, "pollInMs": 100, "info": None}
    old |= {"expiresAt": int(time.time()) + 900, "serverTime": int(time.time() * 1000)}
    till.move(link, "processing")
    page.route("**/status", lambda route: route.fulfill(json=old))
    sockets[0].send(json.dumps(old | {"version": 1, "status": "processing"}))
    expect(heading(page)).to_have_text("Payment sent")

    # An old snapshot, an old answer to a poll, and an old page, each after the newer one.
    stale: list[str] = []

    def answer_stale(route: Route) -> None:
        stale.append(route.request.url)
        route.fulfill(body=old_page, content_type="text/html")

    page.route(link, answer_stale)
    sockets[0].send(json.dumps(old))
    with page.expect_response("**/status"):
        page.evaluate("dispatchEvent(new Event('online'))")
    with page.expect_response(link):
        sockets[0].send(json.dumps(old | {"version": 2, "status": "succeeded"}))
    expect(heading(page)).to_have_text("Payment sent")
    assert stale

    # It still knows that there is something newer, and gets it as soon as it can.
    page.unroute(link, answer_stale)
    till.move(link, "succeeded")
    expect(heading(page)).to_have_text("Paid")


def test_a_server_that_restarts_is_found_again(till: Till, open_page: OpenPage, watch: Watch) -> None:
    watch.expected = ("ERR_CONNECTION_REFUSED", "WebSocket connection to")
    page = open_page()
    link = till.pay()
    page.goto(link)
    mark(page)
    assert till.server.stop() == 0
    expect(page.get_by_role("alert")).to_have_text("No connection We keep trying. Your payment is safe.")
    till.server.start()
    till.move(link, "succeeded")
    expect(heading(page)).to_have_text("Paid")
    expect(page.get_by_role("alert")).to_be_hidden()
    assert is_marked(page)


def test_losing_the_network_is_said_and_taken_back(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    link = till.pay()
    with page.expect_websocket() as socket:
        page.goto(link)
    socket.value.wait_for_event("framereceived")  # one that comes later says that there is a network
    page.context.set_offline(True)
    expect(page.get_by_role("alert")).to_contain_text("No connection")
    page.context.set_offline(False)
    expect(page.get_by_role("alert")).to_be_hidden()


def test_the_countdown_is_the_servers_and_only_the_server_ends_it(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    page.add_init_script("window.ethereum = { request: async () => [] }")
    # A buyer's clock that is two hours wrong.
    begun_s = time.time()
    page.clock.install(time=begun_s + 7200)
    link = till.pay()
    passed_s = 0

    def later(route: Route) -> None:
        told = route.fetch().json()
        route.fulfill(json=told | {"serverTime": told["serverTime"] + passed_s * 1000})

    page.route("**/status", later)
    page.goto(link)
    expect(page.get_by_role("timer")).to_have_text(re.compile(r"14:5\d"))
    for step_s, shown, said in ((599, r"4:5\d", "5 minutes left"), (240, r"0:5\d", "1 minute left")):
        passed_s += step_s
        page.clock.fast_forward(step_s * 1000)
        expect(page.get_by_role("timer")).to_have_text(re.compile(shown))
        expect(page.get_by_role("status")).to_have_text(said)
    passed_s += 100
    page.clock.fast_forward(100_000)
    expect(page.get_by_role("timer")).to_have_text("Checking…")
    expect(page.get_by_role("status")).to_have_text("The time is over")
    expect(page.get_by_role("button", name="Browser wallet")).to_be_disabled()
    expect(page.locator("#status")).to_have_attribute("data-over", "")
    expect(heading(page)).to_have_text("Pay with your wallet")


def test_a_payment_whose_time_is_over_says_so_and_what_to_do(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(till.pay())
    till.call("POST", "/v1/test/clock", {"advance": "16m"})
    expect(heading(page)).to_have_text("This payment has expired")
    expect(page.get_by_text("Do not send money now.")).to_be_visible()
    expect(page.get_by_text("If you already sent money, keep the transaction id")).to_be_visible()


def test_the_buyer_cancels_after_being_asked(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    link = till.pay()
    page.goto(link)
    sure = page.get_by_role("button", name="Yes, cancel the payment")
    expect(sure).to_be_hidden()
    page.get_by_text("Cancel this payment").click()
    sure.click()
    expect(heading(page)).to_have_text("Payment cancelled")
    assert till.status(link) == "cancelled"


def test_without_scripts_everything_works_but_live_updates(till: Till, open_page: OpenPage) -> None:
    page = open_page(java_script_enabled=False)
    link = till.pay()
    page.goto(link)
    expect(page.locator(".qr svg")).to_be_visible()
    expect(page.locator("#link")).to_have_text(link)
    expect(page.get_by_role("button", name="Copy link")).to_be_hidden()
    expect(page.locator("noscript p")).to_contain_text("cannot ask a wallet in this browser, and reloads")
    expect(page.locator("noscript p")).to_be_visible()
    assert page.locator("meta[http-equiv=refresh]").get_attribute("content") == "15"
    page.get_by_role("button", name="Approve").click()
    assert page.url == link
    expect(heading(page)).to_have_text("Paid")
    page.goto(other := till.pay())
    page.get_by_text("Cancel this payment").click()
    page.get_by_role("button", name="Yes, cancel the payment").click()
    assert page.url == other
    expect(heading(page)).to_have_text("Payment cancelled")


def at_the_shop(page: Page) -> None:
    page.route(
        f"{SHOP}/**", lambda route: route.fulfill(body="<title>Shop</title>", content_type="text/html")
    )


@pytest.mark.parametrize(
    ("to", "there"),
    [("succeeded", f"{SHOP}/thanks?order=7&payment_id=ID#top"), ("failed", f"{SHOP}/cart?payment_id=ID")],
)
def test_the_buyer_is_taken_back_to_the_shop_with_the_payments_id(
    till: Till, open_page: OpenPage, watch: Watch, to: str, there: str
) -> None:
    watch.expected = (f"request: {SHOP}/",)
    page = open_page()
    at_the_shop(page)
    page.clock.install()
    link = till.pay(checkout=CHECKOUT)
    page.goto(link)
    till.move(link, to)
    expect(page.get_by_role("link", name=" to shop.example")).to_be_visible()
    expect(page.get_by_text("Taking you there in 5 s")).to_be_visible()
    page.clock.run_for(4_000)
    assert page.url == link
    page.clock.run_for(1_500)
    page.wait_for_url(there.replace("ID", link.rpartition("/")[2]))


def test_who_would_rather_stay_stays(till: Till, open_page: OpenPage, watch: Watch) -> None:
    watch.expected = (f"request: {SHOP}/",)
    page = open_page()
    at_the_shop(page)
    page.clock.install()
    link = till.pay(checkout=CHECKOUT)
    till.move(link, "succeeded")
    page.goto(link)
    page.get_by_role("button", name="Stay on this page").click()
    back = page.get_by_role("link", name="Return to shop.example")
    expect(back).to_be_focused()
    page.clock.run_for(20_000)
    assert page.url == link
    back.click()
    page.wait_for_url(f"{SHOP}/thanks?**")


def test_who_comes_back_from_the_shop_is_not_sent_there_again(
    till: Till, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = (f"request: {SHOP}/",)
    page = open_page()
    at_the_shop(page)
    link = till.pay(checkout=CHECKOUT)
    till.move(link, "succeeded")
    page.goto(link)
    expect(page.get_by_text("Taking you there")).to_be_visible()
    page.get_by_role("link", name="Return to shop.example").click()
    page.wait_for_url(f"{SHOP}/thanks?**")
    page.go_back()
    # The script ran: it says times in the buyer's zone.
    expect(page.locator("time")).not_to_contain_text("UTC")
    expect(page.get_by_text("Taking you there")).to_be_hidden()


@pytest.mark.parametrize("light", LIGHTS)
def test_every_status_can_be_used_by_anyone(till: Till, open_page: OpenPage, light: str) -> None:
    page = open_page(**LIGHTS[light])
    problems = {}
    for status in STATUSES:
        link = till.pay()
        if status != "requires_action":
            till.move(link, status)
        page.goto(link)
        if status == "requires_action":
            page.get_by_text("Cancel this payment").click()
        problems[status] = accessibility_problems(page)
    assert problems == {status: [] for status in STATUSES}


def test_nothing_is_wider_than_a_small_phone(till: Till, open_page: OpenPage) -> None:
    page = open_page(**PHONE)
    for status in STATUSES:
        far = f"https://{'far-away' * 7}.example:8443/x"
        link = till.pay("9" * 18, "KWD", "X" * 255, checkout={"successUrl": far, "errorUrl": far})
        if status != "requires_action":
            till.move(link, status)
        page.goto(link)
        # The spacing that WCAG 1.4.12 asks pages to bear.
        page.evaluate("""() => {
            const sheet = new CSSStyleSheet();
            sheet.replaceSync(`* { line-height: 1.5 !important; letter-spacing: .12em !important;
                word-spacing: .16em !important } p { margin-block-end: 2em !important }`);
            document.adoptedStyleSheets = [sheet];
        }""")
        assert page.evaluate("document.documentElement.scrollWidth") == 320, status


def test_a_second_tab_and_a_reload_show_the_same(till: Till, open_page: OpenPage) -> None:
    followed, opened = open_page(timezone_id="UTC"), open_page(timezone_id="UTC")
    for status in STATUSES[1:]:
        link = till.pay()
        followed.goto(link)
        till.move(link, status)
        expect(followed.locator("#status")).to_have_attribute("data-status", status)
        opened.goto(link)
        expect(opened.get_by_text("UTC")).to_have_count(0)  # until its script says a time as the buyer does
        shown = opened.locator("#status").inner_text()
        expect(followed.locator("#status")).to_have_text(shown, use_inner_text=True)
        assert opened.title() == followed.title()


def test_a_visit_is_small_and_stays_here(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    sizes: dict[str, int] = {}
    page.on("response", lambda answer: sizes.update({answer.url: len(answer.body())}))
    page.goto(till.pay(), wait_until="networkidle")
    assert sum(sizes.values()) < 40_000
    assert len(sizes) <= 6
    assert len(sizes) >= 3


def test_a_link_that_leads_nowhere_says_so(till: Till, open_page: OpenPage, watch: Watch) -> None:
    watch.expected = ("status of 404",)
    page = open_page()
    for name in ("pay_t" + "0" * 36, "nonsense"):
        answer = page.goto(f"{till.server.url}/pay/{name}")
        assert answer is not None
        assert answer.status == 404
        expect(page.get_by_role("heading", level=1)).to_have_text("No such payment")
        assert accessibility_problems(page) == []
