"""The code of Solana Pay in a real browser: read by a scanner, used by anyone, renewed as prices move."""

from __future__ import annotations

import http.client
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import zxingcpp
from PIL import Image
from playwright.sync_api import Page, expect

from tests.browser.solana_shop import DOWN
from tests.browser.test_checkout import LIGHTS, PHONE, accessibility_problems, is_marked, mark

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]

BASE_URL: Final = "https://pay.example"
STOP_S: Final = 30.0
# The server says when a price is old; the page looks each half second.
RENEWED_MS: Final = 15_000


@dataclass
class SolanaTill:
    """A shop on a played chain, as its merchant's backend sees it."""

    url: str
    headers: dict[str, str]
    folder: Path

    def pay(self) -> str:
        """Create a payment; the link to its page's Solana way."""
        body = {"referenceId": "ORDER-1042", "amount": {"unit": "iso4217/USD", "value": "2500"}}
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=STOP_S)
        sent = self.headers | {"content-type": "application/json"}
        connection.request("POST", "/v1/payments", json.dumps(body), sent)
        made = json.loads(connection.getresponse().read())
        connection.close()
        return f"{self.url}/pay/{made['paymentId']}?way=solana"


def serving(folder: Path, *base_url: str) -> Iterator[SolanaTill]:
    command = [sys.executable, "-m", "tests.browser.solana_shop", str(folder), *base_url]
    with (
        (folder.parent / f"{folder.name}.log").open("ab") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            yield SolanaTill(**json.loads(process.stdout.readline()), folder=folder)
        finally:
            process.kill()
            process.wait(STOP_S)


@pytest.fixture(scope="module")
def till(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SolanaTill]:
    """Reached by http: its codes are transfer requests."""
    yield from serving(tmp_path_factory.mktemp("solana") / "shop")


@pytest.fixture(scope="module")
def https_till(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SolanaTill]:
    """Reached by https, as its configuration says: its codes are transaction requests."""
    yield from serving(tmp_path_factory.mktemp("solana-https") / "shop", BASE_URL)


def scanned(page: Page) -> str:
    """What a camera reads from the page."""
    found = zxingcpp.read_barcode(Image.open(io.BytesIO(page.screenshot(full_page=True))))
    assert found is not None
    return str(found.text)


@pytest.mark.parametrize("light", LIGHTS)
def test_a_wallet_scans_the_transaction_request(
    https_till: SolanaTill, open_page: OpenPage, light: str
) -> None:
    page = open_page(**PHONE, **LIGHTS[light])
    page.goto(link := https_till.pay())
    payment = link.rpartition("/")[2].partition("?")[0]
    request = f"solana:{BASE_URL}/v1/solana-pay/{payment}"
    assert scanned(page) == request
    expect(page.get_by_role("link", name="Open a wallet on this device")).to_have_attribute("href", request)
    page.get_by_role("link", name="25.00 USDC").click()
    expect(page.locator(".choices [aria-current=true]")).to_have_text("25.00 USDC")
    assert scanned(page).startswith(
        f"solana:https%3A%2F%2Fpay.example%2Fv1%2Fsolana-pay%2F{payment}%3Fasset%3D"
    )


def test_a_wallet_scans_the_transfer_request_of_each_asset(till: SolanaTill, open_page: OpenPage) -> None:
    page = open_page(**PHONE)
    page.goto(till.pay())
    assert "?amount=25&spl-token=" in scanned(page)
    page.get_by_role("link", name="SOL", exact=False).last.click()
    expect(page.locator(".choices [aria-current=true]")).to_contain_text("SOL")
    assert "?amount=0.1" in scanned(page)


def test_both_ways_are_a_press_apart_with_scripts_and_without(till: SolanaTill, open_page: OpenPage) -> None:
    for scripts in (True, False):
        page = open_page(java_script_enabled=scripts)
        page.goto(link := till.pay())
        page.get_by_role("link", name="Payment link").click()
        expect(page.locator("#link")).to_have_text(link.partition("?")[0])
        page.get_by_role("link", name="Solana Pay").click()
        assert page.url == link
        expect(page.locator("#link")).to_contain_text("solana:")
        page.reload()
        expect(page.locator("#link")).to_contain_text("solana:")


def test_a_moving_price_is_renewed_where_it_stands(till: SolanaTill, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(till.pay())
    page.get_by_role("link", name="SOL", exact=False).last.click()
    expect(page.locator(".choices [aria-current=true]")).to_contain_text("SOL")
    mark(page)
    code = page.locator("#link").inner_text()
    amount = page.locator(".choices [aria-current=true]").inner_text()
    expect(page.locator("#link")).not_to_have_text(code, timeout=RENEWED_MS)
    expect(page.locator(".choices [aria-current=true]")).not_to_have_text(amount)
    assert scanned(page) == page.locator("#link").inner_text()
    assert is_marked(page)


def test_a_code_whose_price_is_over_leaves_the_page_until_there_is_a_new_one(
    till: SolanaTill, open_page: OpenPage
) -> None:
    page = open_page()
    page.goto(till.pay())
    page.get_by_role("link", name="SOL", exact=False).last.click()
    expect(page.locator(".choices [aria-current=true]")).to_contain_text("SOL")
    (till.folder / DOWN).touch()
    try:
        expect(page.locator("#link")).to_contain_text("?amount=25&spl-token=", timeout=2 * RENEWED_MS)
        expect(page.get_by_role("link", name="SOL", exact=True)).to_have_count(0)
    finally:
        (till.folder / DOWN).unlink()
    expect(page.locator("#link")).to_contain_text("?amount=0.1", timeout=RENEWED_MS)
    assert scanned(page) == page.locator("#link").inner_text()


@pytest.mark.parametrize("light", LIGHTS)
def test_every_way_can_be_used_by_anyone(
    till: SolanaTill, https_till: SolanaTill, open_page: OpenPage, light: str
) -> None:
    page = open_page(**LIGHTS[light])
    problems = []
    for link in (till.pay(), https_till.pay(), till.pay().partition("?")[0]):
        page.goto(link)
        problems.append(accessibility_problems(page))
    assert problems == [[], [], []]


def weight_of_visit(page: Page, link: str) -> int:
    """Bytes of everything that a visit loads."""
    sizes: list[int] = []
    page.on("response", lambda answer: sizes.append(len(answer.body())))
    page.goto(link, wait_until="networkidle")
    return sum(sizes)


def test_nothing_is_wider_than_a_small_phone_and_a_visit_is_small(
    till: SolanaTill, https_till: SolanaTill, open_page: OpenPage
) -> None:
    for one in (till, https_till):
        page = open_page(**PHONE)
        assert weight_of_visit(page, one.pay()) < 40_000
        assert page.evaluate("document.documentElement.scrollWidth") == 320


def test_a_link_is_copied_exactly(till: SolanaTill, open_page: OpenPage) -> None:
    page: Any = open_page(permissions=["clipboard-read", "clipboard-write"])
    page.goto(till.pay())
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.locator("#link").inner_text()
    assert copied == page.get_by_role("link", name="Open a wallet").get_attribute("href")
