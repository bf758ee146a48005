"""What a shop's page hears of a payment whose modal is closed: over a feed of its own, one at a time."""

from __future__ import annotations

from typing import Final

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Till
from tests.browser.shop_page import ShopPage
from tests.browser.test_embed import (
    OpenPage,
    button,
    checkout,
    dialog,
    heard,
    id_of,
    shop,
    told_in_the_end,
    visit,
)

__all__ = ["shop"]

pytestmark = pytest.mark.browser

# Those that the shop's own page opens.
FEEDS: Final = """
window.feeds = [];
window.WebSocket = class extends WebSocket {
  constructor(url) {
    super(url);
    feeds.push(this);
  }
};
"""


def test_a_shop_whose_buyer_closed_the_modal_still_hears_the_end(
    till: Till, open_page: OpenPage, shop: ShopPage
) -> None:
    link = till.pay()
    page = visit(open_page, shop, button(id_of(link)))
    page.get_by_role("button", name="Pay").click()
    heard(page, "requires_action")
    page.get_by_role("button", name="Close").click()
    expect(dialog(page)).to_have_count(0)
    till.move(link, "processing")
    heard(page, "requires_action", "processing")
    page.get_by_role("button", name="Pay").click()
    expect(checkout(page).locator("#heading")).to_have_text("Payment sent")
    heard(page, "requires_action", "processing", "processing")  # who opens it anew is told anew, once
    till.move(link, "failed")
    heard(page, "requires_action", "processing", "processing", "failed")


@pytest.mark.parametrize("connected", [True, False])
def test_who_opens_and_closes_the_modal_again_and_again_leaves_one_feed_open(
    till: Till, open_page: OpenPage, shop: ShopPage, connected: bool
) -> None:
    link = till.pay()
    shop.scripts += FEEDS
    page = visit(open_page, shop, button(id_of(link)))
    page.get_by_role("button", name="Pay").click()
    heard(page, "requires_action")
    for _ in range(3):
        if connected:
            page.get_by_role("button", name="Close").click()
            page.wait_for_function("() => feeds.at(-1).readyState === WebSocket.OPEN")
            page.get_by_role("button", name="Pay").click()
        else:
            page.evaluate("(id) => { Payd.close(); Payd.open(id); }", id_of(link))
    page.evaluate("Payd.close()")
    page.wait_for_function("() => feeds.every((one, at) => one.readyState === (at < 3 ? 3 : 1))")
    assert page.evaluate("feeds.length") == 4
    till.move(link, "processing")
    told_in_the_end(page, "processing")
