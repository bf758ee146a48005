"""Links that open the page in wallets on phones: where there is a finger, and no wallet in the page yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Till
from tests.browser.played import NAME, PLAYED
from tests.browser.test_checkout import accessibility_problems
from tests.process import Server
from tests.visitor import seat

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]

BASE_URL: Final = "https://pay.example"
FINGER: Final[dict[str, Any]] = {
    "has_touch": True,
    "is_mobile": True,
    "viewport": {"width": 390, "height": 844},
}
PHONES: Final = {
    "iPhone": "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like"
    " Gecko) Version/18.5 Mobile/15E148 Safari/604.1",
    "Android": "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko)"
    " Chrome/139.0.0.0 Mobile Safari/537.36",
}


@pytest.fixture(scope="module")
def till(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Till]:
    """A server that buyers reach by https, as its configuration says."""
    server = Server(tmp_path_factory.mktemp("phones") / "data", {"PAYD_BASE_URL": BASE_URL})
    made = server.init()
    session = seat(server.folder, made["accountId"])
    try:
        server.start()
        yield Till(server, made["apiKey"], made["merchantId"], session)
    finally:
        if server.process is not None and server.process.poll() is None:
            server.kill()


def here(till: Till, link: str) -> str:
    """The same page on this machine."""
    assert link.startswith(f"{BASE_URL}/pay/")
    return link.replace(BASE_URL, till.server.url)


def links(page: Page) -> Locator:
    return page.locator(".phones a")


@pytest.mark.parametrize("phone", PHONES)
def test_a_phone_opens_the_pages_own_link_in_a_wallet(till: Till, open_page: OpenPage, phone: str) -> None:
    page = open_page(user_agent=PHONES[phone], **FINGER)
    page.goto(here(till, link := till.pay()))
    whole = quote(link, safe="")
    expected = {
        "Open in MetaMask": f"https://link.metamask.io/dapp/{link.removeprefix('https://')}",
        "Open in Coinbase Wallet": f"https://go.cb-w.com/dapp?cb_url={whole}",
        "Open in Trust Wallet": f"https://link.trustwallet.com/open_url?coin_id=60&url={whole}",
        "Open in Phantom": f"https://phantom.app/ul/browse/{whole}?ref={quote(BASE_URL, safe='')}",
    }
    shown = {one.inner_text(): one.get_attribute("href") for one in links(page).all() if one.is_visible()}
    assert shown == {name: expected[name] for name in shown}
    assert len(shown) >= 3
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert accessibility_problems(page) == []


def test_a_desktop_shows_no_links_to_apps(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(here(till, till.pay()))
    expect(links(page).first).to_be_hidden()
    expect(page.locator(".qr")).to_be_visible()


def test_the_browser_of_a_wallet_shows_its_button_in_place_of_links(till: Till, open_page: OpenPage) -> None:
    page = open_page(user_agent=PHONES["Android"], **FINGER)
    page.add_init_script(PLAYED)
    page.goto(here(till, till.pay()))
    expect(page.get_by_role("button", name=NAME)).to_be_visible()
    expect(links(page).first).to_be_hidden()


def test_a_phone_without_scripts_has_the_links(till: Till, open_page: OpenPage) -> None:
    page = open_page(java_script_enabled=False, **FINGER)
    page.goto(here(till, till.pay()))
    expect(links(page).first).to_be_visible()
