"""The pay button on a shop's own page, in a real browser: modal and tab, who may frame, who is believed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import FrameLocator, Locator, Page, expect

from tests.browser.conftest import Till, Watch
from tests.browser.played import NAME, PLAYED
from tests.browser.shop_page import ShopPage, open_shop_page
from tests.browser.test_checkout import LIGHTS, PHONE, accessibility_problems

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]

README: Final = Path(__file__).parents[2] / "README.md"
REFUSED: Final = ("frame-ancestors", "target origin provided", "chrome-error")

FRAMED: Final = "(src) => Object.assign(document.body.appendChild(document.createElement('iframe')), { src })"


@pytest.fixture
def shop(till: Till, watch: Watch) -> Iterator[ShopPage]:
    """A shop whose origin the merchant listed."""
    with open_shop_page(till.server.url) as opened:
        allow(till, opened.origin)
        watch.expected = (f"request: {opened.origin}/",)
        yield opened
        allow(till)


@pytest.fixture
def stranger(till: Till, shop: ShopPage, watch: Watch) -> Iterator[ShopPage]:
    """Somebody else's page, which the merchant did not list."""
    with open_shop_page(till.server.url) as opened:
        watch.expected += (f"request: {opened.origin}/",)
        yield opened


def allow(till: Till, *origins: str) -> None:
    till.call("PATCH", f"/v1/merchants/{till.merchant_id}", {"checkoutOrigins": origins})


def id_of(link: str) -> str:
    return link.rpartition("/")[2]


def button(link: str, attributes: str = "") -> str:
    return f'<p><button id="pay" data-payd="{link}"{attributes}>Pay</button> <button>Terms</button></p>'


def ad_of(stranger: ShopPage) -> str:
    return f'<iframe title="Ad" name="ad" src="{stranger.origin}"></iframe>'


def visit(open_page: OpenPage, shop: ShopPage, body: str, **options: Any) -> Page:
    shop.body = body
    page = open_page(**options)
    page.goto(shop.origin)
    return page


def dialog(page: Page) -> Locator:
    return page.get_by_role("dialog", name="Payment")


def checkout(page: Page) -> FrameLocator:
    return page.frame_locator("dialog iframe")


def told_in_the_end(page: Page, status: str) -> Any:
    """The last that the shop's page was told, once it is this."""
    page.wait_for_function("(status) => heard.at(-1)?.status === status", arg=status)
    return page.evaluate("heard.at(-1)")


def heard(page: Page, *statuses: str) -> list[Any]:
    """What the shop's page was told, once it was told all of these."""
    page.wait_for_function("(n) => heard.length >= n", arg=len(statuses))
    told = page.evaluate("heard")
    assert [one["status"] for one in told] == list(statuses)
    return list(told)


def test_the_button_opens_the_checkout_over_the_page_and_tells_it_everything_to_the_end(
    till: Till, open_page: OpenPage, shop: ShopPage
) -> None:
    link = till.pay()
    page = visit(open_page, shop, button(id_of(link)))
    page.get_by_role("button", name="Pay").click()
    expect(dialog(page)).to_be_visible()
    expect(checkout(page).locator("h1")).to_have_text("€25.00")
    heard(page, "requires_action")
    till.move(link, "processing")
    expect(checkout(page).locator("#heading")).to_have_text("Payment sent")
    checkout(page).get_by_role("button", name="Approve").click()
    expect(checkout(page).locator("#heading")).to_have_text("Paid")
    told = heard(page, "requires_action", "processing", "succeeded")
    assert [one["version"] for one in told] == [0, 1, 2]
    assert [one["isFinal"] for one in told] == [False, False, True]
    assert {(one["paymentId"], one["on"]) for one in told} == {(id_of(link), "pay")}


@pytest.mark.parametrize("by", ["id", "link"])
def test_a_shops_script_opens_it_and_is_called_back(
    till: Till, open_page: OpenPage, shop: ShopPage, by: str
) -> None:
    link = till.pay()
    page = visit(open_page, shop, "<p>No button.</p>")
    page.evaluate(
        "(target) => Payd.open(target, { onStatus: (one) => (window.told ??= []).push(one) })",
        link if by == "link" else id_of(link),
    )
    checkout(page).get_by_text("Cancel this payment").click()
    checkout(page).get_by_role("button", name="Yes, cancel the payment").click()
    told = heard(page, "requires_action", "cancelled")
    assert [one.pop("on") for one in told] == ["document", "document"]
    assert page.evaluate("told") == told
    page.evaluate("Payd.close()")
    expect(dialog(page)).to_have_count(0)


def test_a_wallet_pays_inside_the_frame_and_the_shop_hears_each_status(
    till: Till, open_page: OpenPage, shop: ShopPage
) -> None:
    link = till.pay()
    shop.body = button(id_of(link))
    page = open_page()
    page.add_init_script(PLAYED)  # in every frame, as wallets are
    page.goto(shop.origin)
    page.get_by_role("button", name="Pay").click()
    checkout(page).get_by_role("button", name=NAME).click()
    checkout(page).locator("#pay-now").click()
    expect(checkout(page).locator("#heading")).to_have_text("Paid")
    page.wait_for_function("() => heard.at(-1)?.status === 'succeeded'")
    statuses = [one["status"] for one in page.evaluate("heard")]
    assert statuses in (
        ["requires_action", "processing", "succeeded"],
        ["requires_action", "succeeded"],  # a change that was over before it was told
    )


def test_a_link_to_somewhere_else_opens_this_payd_all_the_same(
    till: Till, open_page: OpenPage, shop: ShopPage
) -> None:
    link = till.pay()
    page = visit(open_page, shop, button(f"https://evil.example/pay/{id_of(link)}"))
    page.get_by_role("button", name="Pay").click()
    expect(checkout(page).locator("h1")).to_have_text("€25.00")
    assert page.locator("dialog iframe").get_attribute("src") == f"{link}?lang=en"


def test_what_a_stranger_wrote_on_the_shops_page_leads_the_script_nowhere_else(
    till: Till, open_page: OpenPage, shop: ShopPage
) -> None:
    """Such as a review with a picture: elements with a name stand in for what a document has."""
    link = till.pay()
    review = '<img name="currentScript" src="/elsewhere/static/payd.png" alt="">'
    script = f'<script src="{shop.payd}/static/payd.js"></script>'
    shop.whole = f'<html lang="en"><link rel="icon" href="data:,">{review}{script}{button(id_of(link))}'
    page = open_page()
    page.goto(shop.origin)
    page.get_by_role("button", name="Pay").click()
    expect(checkout(page).locator("h1")).to_have_text("€25.00")
    assert page.locator("dialog iframe").get_attribute("src") == f"{link}?lang=en"


def test_in_a_tab_it_is_cut_off_from_the_shop_which_hears_everything_all_the_same(
    till: Till, open_page: OpenPage, shop: ShopPage, watch: Watch
) -> None:
    link = till.pay()
    page = visit(open_page, shop, button(id_of(link), ' data-payd-mode="tab"'))
    with page.expect_popup() as opened:
        page.get_by_role("button", name="Pay").click()
    tab = opened.value
    expect(tab.locator("h1")).to_have_text("€25.00")
    assert tab.url == f"{link}?lang=en"
    assert tab.evaluate("opener") is None
    expect(dialog(page)).to_have_count(0)
    till.move(link, "processing")
    heard(page, "requires_action", "processing")
    tab.get_by_role("button", name="Approve").click()
    told = heard(page, "requires_action", "processing", "succeeded")
    assert told[-1] == {
        "on": "pay",
        "paymentId": id_of(link),
        "status": "succeeded",
        "isFinal": True,
        "version": 2,
    }


def test_a_browser_that_cannot_style_the_modal_opens_a_tab(
    till: Till, open_page: OpenPage, shop: ShopPage
) -> None:
    shop.body = button(id_of(link := till.pay()))
    page = open_page()
    page.add_init_script(  # as Safari before 16.4, for phones that get no newer one
        "delete Document.prototype.adoptedStyleSheets; delete CSSStyleSheet.prototype.replaceSync;"
        " CSSStyleSheet = function () { throw new TypeError('Illegal constructor'); };"
    )
    page.goto(shop.origin)
    with page.expect_popup() as opened:
        page.get_by_role("button", name="Pay").click()
    expect(opened.value.locator("h1")).to_have_text("€25.00")
    till.move(link, "failed")
    heard(page, "requires_action", "failed")


def test_where_tabs_are_blocked_the_page_itself_goes_there(
    till: Till, open_page: OpenPage, shop: ShopPage
) -> None:
    link = till.pay()
    page = visit(open_page, shop, button(id_of(link), ' data-payd-mode="tab"'))
    page.evaluate("window.open = () => null")
    page.get_by_role("button", name="Pay").click()
    page.wait_for_url(f"{link}?lang=en")
    expect(page.locator("h1")).to_have_text("€25.00")


def test_a_shop_that_puts_another_body_into_its_page_opens_it_again(
    till: Till, open_page: OpenPage, shop: ShopPage
) -> None:
    page = visit(open_page, shop, button(id_of(till.pay())))
    page.get_by_role("button", name="Pay").click()
    expect(checkout(page).locator("h1")).to_have_text("€25.00")
    page.get_by_role("button", name="Close").click()
    # As Turbo and htmx do where a link is followed.
    page.evaluate("document.body = document.body.cloneNode(true)")
    page.get_by_role("button", name="Pay").click()
    expect(checkout(page).locator("h1")).to_have_text("€25.00")
    page.get_by_role("button", name="Close").click()
    assert page.evaluate("document.documentElement.style.overflow") == ""


def test_a_frame_never_leaves_alone_and_its_way_back_takes_the_whole_page(
    till: Till, open_page: OpenPage, shop: ShopPage
) -> None:
    there = {"successUrl": "https://shop.example/thanks", "errorUrl": "https://shop.example/cart"}
    link = till.pay(checkout=there)
    page = visit(open_page, shop, button(id_of(link)))
    page.route("https://shop.example/**", lambda route: route.fulfill(body="Thanks"))
    page.clock.install()
    page.get_by_role("button", name="Pay").click()
    till.move(link, "succeeded")
    back = checkout(page).get_by_role("link", name="Return to shop.example")
    expect(back).to_be_visible()
    page.clock.run_for(20_000)
    expect(checkout(page).get_by_text("Taking you there")).to_be_hidden()
    expect(back).to_be_visible()
    assert page.url == f"{shop.origin}/"
    assert back.get_attribute("target") == "_top"


def test_a_page_that_is_not_listed_is_refused_by_the_browser_and_offers_a_tab(
    till: Till, open_page: OpenPage, stranger: ShopPage, watch: Watch
) -> None:
    watch.expected += REFUSED
    link = till.pay()
    page = visit(open_page, stranger, button(id_of(link)) + f'<iframe title="Prize" src="{link}"></iframe>')
    page.get_by_role("button", name="Pay").click()
    expect(page.get_by_role("alert")).to_have_text("It cannot be shown here. Open in a new tab")
    expect(page.locator("dialog iframe")).to_be_hidden()
    assert [frame.url for frame in page.frames if "/pay/" in frame.url] == []
    assert any("frame-ancestors" in one for one in watch.complaints)
    assert accessibility_problems(page) == []
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Open in a new tab").click()
    expect(opened.value.locator("h1")).to_have_text("€25.00")
    expect(dialog(page)).to_have_count(0)
    till.move(link, "succeeded")
    assert told_in_the_end(page, "succeeded")["paymentId"] == id_of(link)


def test_a_wrong_payment_is_said_in_words(
    till: Till, open_page: OpenPage, shop: ShopPage, watch: Watch
) -> None:
    watch.expected += (*REFUSED, "404", "WebSocket")
    for wrong in ("pay_t" + "0" * 36, "nonsense", ""):
        page = visit(open_page, shop, button(wrong))
        page.get_by_role("button", name="Pay").click()
        expect(page.get_by_role("alert")).to_contain_text("It cannot be shown here.")
        with page.expect_popup() as opened:
            page.get_by_role("link", name="Open in a new tab").click()
        expect(opened.value.get_by_role("heading", level=1)).to_have_text("No such payment")


def forgery(link: str) -> dict[str, Any]:
    return {"payd": id_of(link), "status": "succeeded", "isFinal": True, "version": 9}


def wait_for_forgeries(page: Page, origin: str, count: int) -> None:
    counted = "([by, count]) => messages.filter((one) => one.by === by && one.version === 9).length === count"
    page.wait_for_function(counted, arg=[origin, count])


def test_the_shop_believes_no_other_frame_and_not_itself(
    till: Till, open_page: OpenPage, shop: ShopPage, stranger: ShopPage
) -> None:
    link, other = till.pay(), till.pay()
    page = visit(
        open_page,
        shop,
        button(id_of(link)) + ad_of(stranger) + f'<iframe title="Other" name="other" src="{other}"></iframe>',
    )
    page.get_by_role("button", name="Pay").click()
    heard(page, "requires_action")
    page.evaluate("(forged) => postMessage(forged, '*')", forgery(link))
    # The other frame is of payd as well, and has payd's origin.
    for name in ("ad", "other"):
        frame = page.frame(name)
        assert frame is not None
        for forged in (forgery(link), forgery(link) | {"close": True}):
            frame.evaluate("(forged) => parent.postMessage(forged, '*')", forged)
    wait_for_forgeries(page, stranger.origin, 2)
    wait_for_forgeries(page, till.server.url, 2)
    heard(page, "requires_action")
    expect(dialog(page)).to_be_visible()


def test_the_shop_believes_its_frame_only_while_payd_is_in_it(
    till: Till, open_page: OpenPage, shop: ShopPage, stranger: ShopPage, watch: Watch
) -> None:
    watch.expected += REFUSED
    link = till.pay()
    page = visit(open_page, shop, button(id_of(link)))
    page.get_by_role("button", name="Pay").click()
    heard(page, "requires_action")
    page.locator("dialog iframe").evaluate("(frame, src) => { frame.src = src; }", stranger.origin)
    expect(checkout(page).locator("h1")).to_have_text("Cart")
    checkout(page).locator("h1").evaluate("(_, forged) => parent.postMessage(forged, '*')", forgery(link))
    wait_for_forgeries(page, stranger.origin, 1)
    heard(page, "requires_action")


def test_the_checkout_answers_the_page_that_holds_it_and_no_other_frame(
    till: Till, open_page: OpenPage, shop: ShopPage, stranger: ShopPage
) -> None:
    link = till.pay()
    allow(till, shop.origin, stranger.origin)
    stranger.scripts = f"""
        window.told = [];
        addEventListener('message', (event) => told.push(event.data));
        window.ask = () => {{
          for (let n = 0; n < parent.length; n++) parent[n].postMessage({{ payd: '{id_of(link)}' }}, '*');
        }};"""
    page = visit(
        open_page,
        shop,
        button(id_of(link)) + ad_of(stranger),
    )
    # In the light, where another frame can find it.
    page.evaluate(
        FRAMED,
        link,
    )
    held = page.frame_locator(f'iframe[src="{link}"]')
    expect(held.locator("time, #left")).to_have_text(re.compile("14:"))
    # Asked until it hears: its script may come after what is seen.
    page.wait_for_function(
        """([id, by]) => {
            frames[1].postMessage({ payd: id }, '*');
            return messages.some((one) => one.by === by);
        }""",
        arg=[id_of(link), till.server.url],
    )
    ad = page.frame("ad")
    assert ad is not None
    ad.evaluate("ask()")
    till.move(link, "processing")
    expect(held.locator("#heading")).to_have_text("Payment sent")
    page.wait_for_function(
        "(by) => messages.some((one) => one.by === by && one.status === 'processing')", arg=till.server.url
    )
    assert [one for one in ad.evaluate("told") if "status" in one] == []


def test_even_where_a_browser_let_it_in_an_origin_that_is_not_listed_is_told_nothing(
    till: Till, open_page: OpenPage, shop: ShopPage
) -> None:
    link = till.pay()
    page = visit(open_page, shop, "<p>Nothing.</p>")
    # The list that the page has is another than the one that the browser was given.
    page.add_init_script("""document.addEventListener('readystatechange', () => {
        const checkout = document.getElementById('checkout');
        if (checkout) checkout.dataset.origins = `https://shop.example ${checkout.dataset.origins}0 http://local`;
    }, { once: true });""")
    page.evaluate(FRAMED, link)
    expect(page.frame_locator(f'iframe[src="{link}"]').locator("#left")).to_have_text(re.compile("14:"))
    page.evaluate("(id) => frames[0].postMessage({ payd: id }, '*')", id_of(link))
    # What was asked before is answered before.
    page.frames[1].evaluate("new Promise((done) => setTimeout(done))")
    page.frames[1].evaluate("parent.postMessage('after', '*')")
    page.wait_for_function("messages.length > 0")
    assert page.evaluate("messages.length") == 1


def test_it_can_be_used_with_the_keyboard_alone(till: Till, open_page: OpenPage, shop: ShopPage) -> None:
    page = visit(open_page, shop, button(id_of(till.pay())))
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Pay")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Close")).to_be_focused()
    heard(page, "requires_action")
    for _ in range(12):
        page.keyboard.press("Tab")
        assert page.evaluate(
            "document.activeElement === document.body || !!document.activeElement.shadowRoot"
        )
    checkout(page).get_by_text("Cancel this payment").focus()
    page.keyboard.press("Escape")
    expect(dialog(page)).to_have_count(0)
    expect(page.get_by_role("button", name="Pay")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Close").press("Escape")
    expect(dialog(page)).to_have_count(0)
    expect(page.get_by_role("button", name="Pay")).to_be_focused()


def test_the_page_behind_stands_still_until_somebody_presses_beside_it(
    till: Till, open_page: OpenPage, shop: ShopPage
) -> None:
    page = visit(open_page, shop, button(id_of(till.pay())))
    page.evaluate("document.documentElement.style.overflow = 'scroll'")
    page.get_by_role("button", name="Pay").click()
    expect(dialog(page)).to_be_visible()
    assert page.evaluate("getComputedStyle(document.documentElement).overflowY") == "hidden"
    page.mouse.click(5, 5)
    expect(dialog(page)).to_have_count(0)
    assert page.evaluate("document.documentElement.style.overflow") == "scroll"


@pytest.mark.parametrize("light", LIGHTS)
def test_the_modal_can_be_used_by_anyone(till: Till, open_page: OpenPage, shop: ShopPage, light: str) -> None:
    page = visit(open_page, shop, button(id_of(till.pay())), **LIGHTS[light])
    page.get_by_role("button", name="Pay").click()
    heard(page, "requires_action")
    assert accessibility_problems(page) == []
    assert accessibility_problems(page.frames[1]) == []
    dark = "matchMedia('(prefers-color-scheme: dark)').matches"
    assert page.frames[1].evaluate(dark) is page.evaluate(dark)
    bar = dialog(page).evaluate("(one) => getComputedStyle(one).backgroundColor.match(/\\d+/g).map(Number)")
    assert (sum(bar[:3]) < 384) is page.evaluate(dark), "the bar is as the frame, whatever the shop's page is"


def test_on_a_small_phone_it_fills_the_screen_and_nothing_is_wider(
    till: Till, open_page: OpenPage, shop: ShopPage
) -> None:
    page = visit(open_page, shop, button(id_of(till.pay())), **PHONE)
    page.get_by_role("button", name="Pay").click()
    heard(page, "requires_action")
    box = dialog(page).bounding_box()
    assert box == {"x": 0, "y": 0, "width": 320, "height": 640}
    assert page.frames[1].evaluate("document.documentElement.scrollWidth") == 320
    assert page.evaluate("document.documentElement.scrollWidth") == 320
    close = page.get_by_role("button", name="Close").bounding_box()
    assert close is not None
    assert min(close["width"], close["height"]) >= 44


def test_a_page_with_the_button_loads_one_file_and_a_checkout_in_it_six_at_most(
    till: Till, open_page: OpenPage, shop: ShopPage
) -> None:
    page = visit(open_page, shop, button(id_of(till.pay())))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.reload(wait_until="networkidle")
    assert [url for url in asked if url.startswith("http://127")] == [f"{till.server.url}/static/payd.js"]
    sizes: dict[str, int] = {}
    page.on("response", lambda answer: sizes.update({answer.url: len(answer.body())}))
    page.get_by_role("button", name="Pay").click()
    heard(page, "requires_action")
    page.wait_for_load_state("networkidle")
    assert 3 <= len(sizes) <= 6
    assert sum(sizes.values()) < 40_000


def test_the_link_can_be_copied_inside_the_frame(till: Till, open_page: OpenPage, shop: ShopPage) -> None:
    page = visit(open_page, shop, button(id_of(till.pay())))
    page.get_by_role("button", name="Pay").click()
    heard(page, "requires_action")  # its script runs
    checkout(page).get_by_role("button", name="Copy link").click()
    expect(checkout(page).get_by_role("button", name="Copied")).to_be_visible()


def test_the_lines_of_the_readme_work_on_a_page(till: Till, open_page: OpenPage, shop: ShopPage) -> None:
    [snippet] = re.findall(r"^```html\n(.*?)^```$", README.read_text(), re.M | re.S)
    link = till.pay()
    page = open_page()
    shop.whole = snippet.replace("https://pay.example", till.server.url).replace("pay_…", id_of(link))
    page.goto(shop.origin)
    page.get_by_role("button").click()
    till.move(link, "succeeded")
    expect(page.locator("body")).to_contain_text("Thank you")
