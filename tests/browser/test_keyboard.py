"""Without a pointer and without eyes: from open to paid by keys alone, and what a screen reader is told."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from PIL import Image, ImageChops
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Till, Watch
from tests.browser.scenes import CHECKOUT, PLAYED, SHOP
from tests.browser.test_solana_pay import SolanaTill, serving

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]

BASE_URL: Final = "https://pay.example"
TABS_MAX: Final = 40
OUTLINE_MIN_PX: Final = 2

# Notes what gets the focus and whether that is seen; and what there is to be reached, in the page's order.
WALK: Final = """() => {
    const named = (one) => (one.labels?.[0] ?? one).innerText?.trim() || one.value || one.id;
    const can = 'a[href], button, input, select, textarea, summary, [tabindex="0"]';
    window.walked = [];
    document.activeElement.blur();
    document.removeEventListener('focusin', window.walking);
    window.walking = ({ target }) => {
        const { outlineStyle, outlineWidth } = getComputedStyle(target);
        walked.push([named(target), outlineStyle === 'none' ? 0 : parseFloat(outlineWidth)]);
    };
    document.addEventListener('focusin', window.walking);
    return [...document.querySelectorAll(can)].filter((one) => !one.disabled
        && one.checkVisibility({ visibilityProperty: true })).map(named);
}"""

# Every text that the live regions have had, in order.
LISTEN: Final = """() => {
    window.said = [];
    for (const id of ['live', 'alert']) {
        const region = document.getElementById(id);
        new MutationObserver(() => {
            if (!region.hidden && region.textContent) said.push(region.textContent);
        }).observe(region, { childList: true, characterData: true, subtree: true, attributes: true });
    }
}"""


@pytest.fixture(scope="module")
def solana(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SolanaTill]:
    yield from serving(tmp_path_factory.mktemp("keyboard") / "solana", BASE_URL)


def tab_to(page: Page, wanted: Locator) -> None:
    """Press Tab until it has the focus, as somebody who sees only the outline."""
    for _ in range(TABS_MAX):
        page.keyboard.press("Tab")
        if wanted.evaluate("(one) => one === document.activeElement"):
            return
    raise AssertionError(f"no key leads to {wanted}")


def walk(page: Page) -> tuple[list[str], list[tuple[str, float]]]:
    """What there is to be reached, and what Tab reaches, until it has left the page."""
    there = page.evaluate(WALK)
    for _ in range(len(there) + 1):
        page.keyboard.press("Tab")
    return there, [(name, width) for name, width in page.evaluate("() => walked")][: len(there)]


@pytest.mark.parametrize("locale", ["en", "ar"])
def test_tab_reaches_everything_in_the_order_of_the_page_and_it_is_seen_where_it_is(
    till: Till, open_page: OpenPage, solana: SolanaTill, watch: Watch, locale: str
) -> None:
    watch.expected = (f"request: {SHOP}/",)

    def pages() -> Iterator[Page]:
        for link in (till.pay(checkout=CHECKOUT), solana.pay()):
            page = open_page(locale=locale)
            page.add_init_script(PLAYED)
            page.goto(link)
            expect(page.locator("#pay .wallet")).to_have_count(2)
            yield page
            page.locator(".cancel summary").click()
            yield page
            if page.locator(".console").count():
                page.locator("#pay .wallet").first.click()
                expect(page.locator("#pay-now")).to_be_visible()
                yield page
        link = till.pay(checkout=CHECKOUT)
        till.move(link, "succeeded")
        page = open_page(locale=locale)
        page.route(f"{SHOP}/**", lambda route: route.fulfill(status=204))
        page.goto(link)
        expect(page.locator("#leaving")).to_be_visible()
        yield page

    count = 0
    for page in pages():
        there, reached = walk(page)
        names = [name for name, _ in reached]
        start = there.index(names[0])
        assert names == there[start:] + there[:start], "from where the focus was, to there again: no trap"
        assert min(width for _, width in reached) >= OUTLINE_MIN_PX, reached
        count += len(there)
    assert count > 60


def test_the_outline_can_be_seen_in_a_picture(till: Till, open_page: OpenPage) -> None:
    for scheme in ("light", "dark"):
        page = open_page(color_scheme=scheme)
        page.goto(till.pay())
        button = page.locator("[data-copy=link]")
        area = button.bounding_box()
        assert area is not None
        around = {"x": area["x"] - 8, "y": area["y"] - 8} | {
            "width": area["width"] + 16,
            "height": area["height"] + 16,
        }

        def picture(page: Page = page, clip: Any = around) -> Image.Image:
            return Image.open(io.BytesIO(page.screenshot(clip=clip))).convert("L")

        before = picture()
        tab_to(page, button)
        page.evaluate("() => scrollTo(0, 0)")
        changed = ImageChops.difference(before, picture()).point(lambda depth: 255 if depth > 60 else 0)
        edge = 2 * (area["width"] + area["height"])
        assert changed.histogram()[255] > OUTLINE_MIN_PX * edge


def test_keys_alone_pay_from_open_to_paid_and_copy_and_print_the_receipt(
    till: Till, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = (f"request: {SHOP}/",)
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    page.add_init_script(PLAYED)
    page.add_init_script("window.print = () => { window.printed = true; }")
    page.route(f"{SHOP}/**", lambda route: route.fulfill(status=204))
    page.clock.install()
    link = till.pay(checkout=CHECKOUT)
    page.goto(link)
    page.evaluate(f"() => {{ played.personal_sign = '0x{'11' * 65}' }}")
    tab_to(page, page.locator("#pay .wallet").first)
    page.keyboard.press("Enter")
    expect(page.locator("#paying")).to_be_focused()
    tab_to(page, page.locator("#pay-now"))
    page.keyboard.press("Space")
    expect(page.locator("#status[data-status=succeeded] #heading")).to_be_focused()
    tab_to(page, page.get_by_role("button", name="Stay on this page"))
    page.keyboard.press("Enter")
    expect(page.locator("#back")).to_be_focused()
    tab_to(page, page.locator("[data-copy=tx]"))
    page.keyboard.press("Enter")
    expect(page.locator("[data-copy=tx]")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.locator("#tx").inner_text()
    if (printing := page.locator("[data-print]")).count():
        tab_to(page, printing)
        page.keyboard.press("Enter")
        assert page.evaluate("window.printed")


def test_keys_alone_choose_another_way_cancel_play_the_console_and_read_another_language(
    till: Till, open_page: OpenPage, solana: SolanaTill
) -> None:
    page = open_page()
    page.goto(solana.pay().partition("?")[0])
    for press in (".ways a >> nth=1", ".choices a >> nth=0"):
        tab_to(page, page.locator(press))
        with page.expect_navigation():
            page.keyboard.press("Enter")
    expect(page.locator(".choices [aria-current]")).to_be_visible()
    tab_to(page, page.locator(".cancel summary"))
    page.keyboard.press("Space")
    tab_to(page, page.locator(".cancel .danger"))
    page.keyboard.press("Enter")
    expect(page.locator("#status[data-status=cancelled] #heading")).to_be_focused()

    page.goto(till.pay())
    tab_to(page, page.locator(".languages a[lang=ar]"))
    page.keyboard.press("Enter")
    expect(page.locator("html[dir=rtl]")).to_have_count(1)
    tab_to(page, page.locator(".console button[value=failed]"))
    page.keyboard.press("Enter")
    expect(page.locator("#status[data-status=failed] #heading")).to_be_focused()


def test_each_change_is_said_once(till: Till, open_page: OpenPage) -> None:
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    link = till.pay()
    with page.expect_websocket() as socket:
        page.goto(link)
    socket.value.wait_for_event("framereceived")
    page.evaluate(LISTEN)
    page.locator("[data-copy=link]").press("Enter")
    expect(page.locator("#live")).to_have_text("Copied")
    till.move(link, "processing")
    expect(page.locator("#live")).to_have_text("Payment sent")
    page.evaluate("() => dispatchEvent(new Event('online'))")
    with page.expect_response("**/status"):
        page.evaluate("() => dispatchEvent(new Event('visibilitychange'))")
    till.move(link, "succeeded")
    expect(page.locator("#live")).to_have_text("Paid")
    assert page.evaluate("() => said") == ["Copied", "Payment sent", "Paid"]


def test_a_lost_network_and_what_a_wallet_refused_are_said_once(
    till: Till, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = ("ERR_INTERNET_DISCONNECTED", "WebSocket connection")
    page = open_page()
    page.add_init_script(PLAYED)
    with page.expect_websocket() as socket:
        page.goto(till.pay())
    socket.value.wait_for_event("framereceived")
    page.evaluate(LISTEN)
    page.evaluate("() => { played.eth_requestAccounts = { code: 4001, message: 'User rejected' } }")
    page.locator("#pay .wallet").first.press("Enter")
    expect(page.locator("#alert")).to_be_visible()
    expect(page.locator("#live")).to_be_empty()
    page.context.set_offline(True)
    expect(page.locator("#alert")).to_contain_text("No connection")
    for _ in range(3):
        page.evaluate("() => dispatchEvent(new Event('offline'))")
    said = page.evaluate("() => said")
    assert sum(text.startswith("You declined the request") for text in said) == 1
    assert sum(text.startswith("No connection") for text in said) == 1
