"""What each state of the page looks like, what can be copied from it, and what it prints."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Till, Watch
from tests.browser.test_checkout import CHECKOUT, STATUSES

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]

VIEWS: Final[dict[str, dict[str, Any]]] = {
    "phone light": {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "color_scheme": "light"},
    "desktop dark": {"viewport": {"width": 1000, "height": 900}, "color_scheme": "dark"},
}
CLIPBOARD: Final = ["clipboard-read", "clipboard-write"]


def in_status(till: Till, status: str, **more: Any) -> str:
    """The link of a payment in a status."""
    link = till.pay(**more)
    if status != "requires_action":
        till.move(link, status)
    return link


@pytest.mark.parametrize("view", VIEWS)
def test_every_state_is_seen(
    till: Till, open_page: OpenPage, watch: Watch, snap: Callable[[Page, str], Path], view: str
) -> None:
    watch.expected = ("status of 404",)
    page = open_page(**VIEWS[view])
    for status in STATUSES:
        page.goto(in_status(till, status, checkout=CHECKOUT))
        expect(page.locator("#heading")).to_be_in_viewport(ratio=1)
        assert snap(page, f"{status} {view}").stat().st_size > 10_000
    page.goto(f"{till.server.url}/pay/pay_t1")
    snap(page, f"not found {view}")


def test_the_code_is_above_the_fold_of_a_phone(till: Till, open_page: OpenPage) -> None:
    for height, width, share in ((844, 390, 1.0), (640, 320, 0.9)):
        page = open_page(viewport={"width": width, "height": height}, is_mobile=True, has_touch=True)
        page.goto(till.pay())
        expect(page.locator(".qr svg")).to_be_in_viewport(ratio=share)


def test_details_are_there_for_who_opens_them(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(link := till.pay())
    expect(page.get_by_text("Network fee")).to_be_hidden()
    page.get_by_text("Details", exact=True).click()
    expect(page.get_by_text("Network fee")).to_be_visible()
    expect(page.locator("#payment")).to_have_text(link.rpartition("/")[2])
    expect(page.get_by_text("USDC (Base)")).to_be_visible()
    expect(page.get_by_text("1 USDC = 0.909091 EUR")).to_be_visible()
    settles = page.locator("dt", has_text="Settles to").locator("..").locator("dd")
    expect(settles).to_have_text(re.compile(r"^0x\w{4}…\w{4} \(Base"))


def test_help_leads_to_the_shop_and_leaves_the_page_where_it_is(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(link := till.pay(checkout=CHECKOUT))
    asked = page.locator("footer").get_by_role("link", name="shop.example", exact=True)
    expect(asked).to_have_attribute("href", "https://shop.example/")
    page.context.route("https://shop.example/**", lambda route: route.fulfill(body="The shop"))
    with page.expect_popup() as opened:
        asked.click()
    expect(opened.value.locator("body")).to_have_text("The shop")
    assert opened.value.evaluate("[document.referrer, window.opener]") == ["", None]
    assert page.url == link
    page.goto(till.pay())
    expect(page.locator("footer")).to_contain_text("Questions about this order?")
    expect(page.locator("footer p a")).to_have_count(0)


@pytest.mark.parametrize("permitted", [True, False], ids=["by the clipboard", "by selection"])
def test_what_is_copied_is_exactly_what_is_shown(till: Till, open_page: OpenPage, permitted: bool) -> None:
    page = open_page(permissions=CLIPBOARD)
    if not permitted:
        page.add_init_script("navigator.clipboard.writeText = () => Promise.reject(new Error('not allowed'))")
    link = in_status(till, "succeeded")
    payment_id = link.rpartition("/")[2]
    page.goto(link)
    for place, text in (("tx", f"test:{payment_id}"), ("payment", payment_id)):
        page.locator(f"[data-copy={place}]").click()
        expect(page.locator(f"[data-copy={place}]")).to_have_text("Copied")
        expect(page.get_by_role("status")).to_have_text("Copied")
        assert page.evaluate("navigator.clipboard.readText()") == text
    page.goto(other := till.pay())
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == other


def test_a_receipt_says_how_it_was_paid(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    link = till.pay()
    till.move(link, "processing")
    till.move(link, "succeeded")
    page.goto(link)
    said = page.locator("#status dl").inner_text()
    for expected in (
        "USDC on Base",
        "From",
        "0x0000…0001",
        "1 USDC =",
        "EUR",
        f"test:{link.rpartition('/')[2]}",
    ):
        assert expected in said
    expect(page.get_by_role("link", name="basescan.org")).to_have_count(0)  # no chain has that transaction


@pytest.mark.parametrize("paper", ["A4", "Letter"])
def test_a_receipt_prints_on_one_page_with_what_counts_and_nothing_else(
    till: Till, open_page: OpenPage, snap: Callable[[Page, str], Path], paper: str
) -> None:
    page = open_page(color_scheme="dark")
    page.add_init_script("window.print = () => { window.printed = true; }")
    link = in_status(till, "succeeded", checkout=CHECKOUT)
    page.goto(link)
    page.get_by_role("button", name="Stay on this page").click()
    page.get_by_role("button", name="Print receipt").click()
    assert page.evaluate("window.printed") is True
    page.emulate_media(media="print", color_scheme="dark")
    shown = page.locator("body").inner_text()
    payment_id = link.rpartition("/")[2]
    for expected in (
        "Test mode",
        "Demo Shop",
        "€25.00",
        "ORDER-1042",
        "Paid",
        "USDC on Base",
        f"test:{payment_id}",
    ):
        assert expected in shown, expected
    assert re.search(rf"(?<!test:){payment_id}", shown)
    assert re.search(r"[A-Z][a-z]{2} \d+, 20\d\d", shown)
    for gone in ("Return to", "Print", "Copy", "Deutsch", "recovery phrase", "Stay"):
        assert gone not in shown, gone
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    snap(page, "receipt printed")
    pages = re.findall(rb"/Type\s*/Page\b", page.pdf(format=paper))
    assert len(pages) == 1


def test_the_console_says_which_event_each_move_sends(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(till.pay())
    for name, event in (
        ("Approve", "succeeded"),
        ("Fail", "failed"),
        ("Expire", "expired"),
        ("Cancel", "cancelled"),
    ):
        expect(page.get_by_role("button", name=name, exact=True)).to_contain_text(f"payment.{event}")


def test_without_scripts_every_state_is_told_and_reloads_until_the_end(
    till: Till, open_page: OpenPage
) -> None:
    page = open_page(java_script_enabled=False)
    for status in STATUSES:
        page.goto(in_status(till, status, checkout=CHECKOUT))
        expect(page.locator("h1")).to_have_text("€25.00")
        ends = status not in ("requires_action", "processing")
        expect(page.locator("meta[http-equiv=refresh]")).to_have_count(0 if ends else 1)
        if ends:
            expect(page.locator("#back")).to_be_visible()
        expect(page.get_by_role("button", name="Copy")).to_have_count(0)
        expect(page.get_by_role("button", name="Print receipt")).to_have_count(0)
        page.get_by_role("link", name="Deutsch").click()
        expect(page.locator("html")).to_have_attribute("lang", "de")
