"""The dashboard by keys alone: a payment is created, found and simulated, and focus is always seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Watch
from tests.browser.dashboard import EMAIL, PASSWORD, Desk, set_up
from tests.shop import WALLET

pytestmark = [pytest.mark.browser, pytest.mark.real_time]

STOPS_MAX: Final = 60
# What has the focus: whether it is seen, in the window and on top.
FOCUS: Final = """() => {
    if (document.activeElement === document.body) return []; // between the last and the first
    const one = document.activeElement, box = one.getBoundingClientRect(), style = getComputedStyle(one);
    const wrong = [];
    if (style.outlineStyle === 'none' || parseFloat(style.outlineWidth) < 2) wrong.push('no outline');
    if (box.bottom <= 0 || box.top >= innerHeight) wrong.push('above or below the window');
    if (box.right <= 0 || box.left >= innerWidth) wrong.push('beside the window');
    if (!one.checkVisibility({ opacityProperty: true, visibilityProperty: true })) wrong.push('hidden');
    return wrong.map((words) => `${words}: ${one.outerHTML.slice(0, 120)}`);
}"""


@pytest.fixture
def desk(tmp_path: Path, watch: Watch) -> Iterator[Desk]:
    opened = Desk.open(tmp_path)
    watch.expected = (f"request: {opened.url}", f"request: ws://localhost:{opened.server.port}")
    try:
        yield opened
    finally:
        opened.server.kill()


def tab_to(page: Page, wanted: Locator) -> None:
    """Press Tab until it has the focus; all that has it on the way is seen."""
    expect(wanted).to_be_visible()
    for _ in range(STOPS_MAX):
        page.keyboard.press("Tab")
        assert page.evaluate(FOCUS) == []
        if wanted.evaluate("(one) => one === document.activeElement"):
            return
    pytest.fail(f"{wanted} is not reached by {STOPS_MAX} presses of Tab")


def write(page: Page, label: str, text: str) -> None:
    """Go to a field and write into it."""
    tab_to(page, page.get_by_label(label, exact=True))
    page.keyboard.type(text)


def test_a_payment_is_created_found_and_simulated_without_a_mouse(
    open_page: Callable[..., Page], desk: Desk
) -> None:
    before = open_page()
    set_up(before, desk)
    before.goto(f"{desk.url}/d/test/merchants")
    before.get_by_label("Name", exact=True).fill("Ada's Shop")
    before.get_by_label("E-mail", exact=True).fill(EMAIL)
    before.get_by_role("button", name="Create merchant").click()
    before.get_by_role("link", name="Add where money goes").click()
    before.get_by_label("Your address on that network").fill(WALLET)
    before.get_by_role("button", name="Save").click()
    expect(before.get_by_text("Saved: this is where the money goes.")).to_be_visible()

    page = open_page(viewport={"width": 1280, "height": 700})
    page.goto(f"{desk.url}/login")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.evaluate("document.activeElement.blur()")
    write(page, "E-mail", EMAIL)
    write(page, "Password", PASSWORD)
    page.keyboard.press("Enter")

    tab_to(page, page.get_by_role("navigation", name="Pages").get_by_role("link", name="Payments"))
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_role("main").get_by_role("link", name="Create payment").first)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Create payment")).to_be_visible()
    write(page, "Amount", "12.50")
    tab_to(page, page.get_by_label("Currency"))
    page.keyboard.press("ArrowDown")
    write(page, "Reference", "BY-KEYS-1")
    tab_to(page, page.get_by_role("button", name="Create payment"))
    page.keyboard.press("Space")
    expect(page.get_by_role("heading", name="12.50 EUR BY-KEYS-1")).to_be_visible()

    page.goto(f"{desk.url}/d/test/")
    write(page, "Search payments", "BY-KEYS")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="12.50 EUR BY-KEYS-1")).to_be_visible()
    tab_to(page, page.get_by_role("main").get_by_role("link", name="Payments", exact=True))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Payments", exact=True)).to_be_visible()
    tab_to(page, page.locator("summary", has_text="Simulate"))
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_role("button", name="Succeed"))
    page.keyboard.press("Space")
    expect(page.get_by_role("status").first).to_contain_text("BY-KEYS-1: Simulated.")
    tab_to(page, page.get_by_role("link", name="BY-KEYS-1"))
    page.keyboard.press("Enter")
    expect(page.locator("#status")).to_contain_text("Succeeded")

    tab_to(page, page.locator(".menu summary"))
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_role("button", name="Sign out"))
    page.keyboard.press("Enter")
    expect(page.get_by_text("You are signed out.")).to_be_visible()
