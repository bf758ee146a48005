"""The payments' pages in a real browser: live without a row that moves, dark, narrow, without a script."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Till, Watch

pytestmark = [pytest.mark.browser, pytest.mark.real_time]

LIST = "/d/test/payments"
SCREENS = Path(__file__).parents[2] / ".cache" / "screens"


def picture(page: Page, name: str) -> None:
    SCREENS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENS / f"dash-{name}.png", full_page=True)


def at(link: str) -> str:
    return f"{LIST}/{link.rpartition('/')[2]}"


def references(page: Page) -> list[str]:
    return page.locator("tbody th").all_inner_texts()


def test_a_payment_from_its_form_to_its_timeline(open_desk: Callable[..., Page]) -> None:
    page = open_desk()
    page.goto(LIST)
    page.get_by_role("link", name="Create payment").first.click()
    page.get_by_label("Amount").fill("12.50")
    page.get_by_label("Reference").fill("BY-HAND-1")
    page.get_by_role("button", name="Create payment").click()
    expect(page.get_by_role("heading", name="12.50 USD BY-HAND-1")).to_be_visible()
    expect(page.get_by_role("button", name="Copy link")).to_be_visible()
    expect(page.get_by_text("sends payment.processing, then payment.succeeded")).to_be_visible()
    page.get_by_role("button", name="Succeed").click()
    expect(page.locator("#status")).to_contain_text("Succeeded")
    story = page.locator("#timeline .title").all_inner_texts()
    assert [one for one in story if one in ("Created", "Processing", "Succeeded")] == [
        "Created",
        "Processing",
        "Succeeded",
    ]
    picture(page, "payment")
    page.get_by_role("link", name="Refund").click()
    page.get_by_label("Note").fill("broken cup")
    page.get_by_role("button", name="Record refund").click()
    expect(page.get_by_text("The refund is recorded.")).to_be_visible()
    expect(page.locator("#timeline")).to_contain_text("broken cup")


def test_rows_change_in_place_new_ones_wait_and_it_can_be_paused(
    open_desk: Callable[..., Page], till: Till
) -> None:
    link = till.pay(reference="LIVE-1")
    payment = link.rpartition("/")[2]
    page = open_desk()
    page.goto(LIST)
    before, row = references(page), page.get_by_role("row").filter(has_text="LIVE-1")
    place = row.bounding_box()
    till.pay(reference="LIVE-2")
    till.move(link, "processing")
    expect(page.locator(f"#status-{payment}")).to_have_text("Processing")
    expect(page.get_by_role("link", name="1 new — Show")).to_be_visible()
    assert references(page) == before
    assert place == row.bounding_box()
    picture(page, "payments")
    page.get_by_role("button", name="Pause live updates").click()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    till.move(link, "succeeded")
    page.wait_for_timeout(3500)
    assert asked == []
    expect(page.locator(f"#status-{payment}")).to_have_text("Processing")
    page.get_by_role("button", name="Go on with live updates").click()
    expect(page.locator(f"#status-{payment}")).to_have_text("Succeeded")
    page.get_by_role("link", name="1 new — Show").click()
    assert references(page) == ["LIVE-2", *before]


def test_a_payments_page_follows_it(open_desk: Callable[..., Page], till: Till) -> None:
    link = till.pay(reference="FOLLOW-1")
    page = open_desk()
    page.goto(at(link))
    page.get_by_role("button", name="Pause live updates").click()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    till.move(link, "failed")
    page.wait_for_timeout(3500)
    assert asked == []
    expect(page.locator("#status")).to_contain_text("Waiting for the buyer")
    page.get_by_role("button", name="Go on with live updates").click()
    expect(page.locator("#status")).to_contain_text("Failed")
    expect(page.locator("#timeline")).to_contain_text("Failed")
    expect(page.locator("#acts")).to_be_hidden()


@pytest.mark.parametrize("why", ["offline", "refused"])
def test_who_follows_a_page_is_told_while_no_answer_comes(
    open_desk: Callable[..., Page], till: Till, watch: Watch, why: str
) -> None:
    watch.expected = ("ERR_INTERNET_DISCONNECTED", "Bad Gateway", "htmx.min.js")
    link = till.pay(reference="GONE-1")
    page = open_desk()
    page.goto(at(link))
    if why == "offline":
        page.context.set_offline(True)
    else:
        page.route("**/payments/**", lambda route: route.fulfill(status=502, body="Bad Gateway"))
    told = page.get_by_text("No fresh answer from the server: what is shown may have changed.")
    expect(told).to_be_visible(timeout=10_000)
    till.move(link, "failed")
    expect(page.locator("#status")).to_contain_text("Waiting for the buyer")
    page.context.set_offline(False)
    page.unroute_all()
    expect(page.locator("#status")).to_contain_text("Failed", timeout=10_000)
    expect(told).to_be_hidden()


def test_the_export_is_the_list(open_desk: Callable[..., Page], till: Till) -> None:
    for number in range(3):
        till.pay(reference=f"CSV-{number}")
    page = open_desk()
    page.goto(f"{LIST}?q=CSV-&status=requires_action")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export CSV").click()
    with Path(download.value.path()).open(newline="") as file:
        assert [row["reference_id"] for row in csv.DictReader(file)] == references(page)
    assert len(references(page)) == 3


def test_a_rows_triangle_stands_before_its_word_and_not_above_it(
    open_desk: Callable[..., Page], till: Till
) -> None:
    till.pay(reference="https://shop.example/orders/2026/11/30/a-long-reference-with-slashes")
    page = open_desk()
    page.goto(LIST)
    one = page.locator("summary", has_text="Simulate").first
    lines = "one => one.getBoundingClientRect().height / parseFloat(getComputedStyle(one).lineHeight)"
    assert one.evaluate(lines) < 2


def test_a_row_is_simulated_by_the_keyboard(open_desk: Callable[..., Page], till: Till) -> None:
    till.pay(reference="KEYS-1")
    page = open_desk()
    page.goto(f"{LIST}?q=KEYS&status=requires_action")
    page.locator("summary", has_text="Simulate").first.focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name=re.compile("^Expire")).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("KEYS-1: Simulated. The payment is expired.")).to_be_visible()


def test_all_of_it_works_without_a_script(open_desk: Callable[..., Page], till: Till) -> None:
    link = till.pay(reference="PLAIN-1")
    page = open_desk(java_script_enabled=False)
    page.goto(LIST)
    page.get_by_label("Search").fill(link.rpartition("/")[2])
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("heading", name="PLAIN-1")).to_be_visible()
    page.get_by_role("button", name="Cancel payment").click()
    expect(page.get_by_text("The payment is cancelled.")).to_be_visible()
    page.goto(f"{LIST}?q=PLAIN&status=cancelled&since=2020-01-01")
    assert references(page) == ["PLAIN-1"]
