"""The merchant's logo in a real browser: on the page and the form, in every light, from here alone."""

from __future__ import annotations

import http.client
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from tests.browser.conftest import Till
from tests.browser.test_checkout import LIGHTS, PHONE, accessibility_problems
from tests.browser.test_collect import BUYER
from tests.pictures import BLUE, RED, encoded, near
from tests.web.asking import FIELDS

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]


@pytest.fixture
def shown(till: Till, tmp_path: Path) -> Iterator[str]:
    """The address of the shop's logo, red above blue on a transparent ground, sent by the command line."""
    picture = Image.new("RGBA", (600, 600), (0, 0, 0, 0))
    picture.paste((*RED, 255), (100, 100, 500, 300))
    picture.paste((*BLUE, 255), (100, 300, 500, 500))
    file = tmp_path / "logo.png"
    file.write_bytes(encoded(picture))
    yield str(till.server.payd("merchant", "logo", till.merchant_id, str(file))["url"])
    till.server.payd("merchant", "logo", till.merchant_id, "--remove")


def check_seen(page: Page) -> None:
    """The logo is drawn as it was sent, at its size, and stands for the letter."""
    logo = page.locator("header img")
    expect(logo).to_be_in_viewport(ratio=1)
    assert logo.evaluate("(image) => image.complete && image.naturalWidth") == 256
    seen = Image.open(io.BytesIO(logo.screenshot(scale="css")))
    box = logo.bounding_box()
    assert box is not None
    assert (round(box["width"]), round(box["height"])) == (40, 40)
    assert near(seen, (20, 13), RED, by=40)
    assert near(seen, (20, 27), BLUE, by=40)
    assert near(seen, (20, 3), (255, 255, 255), by=8), "on a plate that any logo is made for"
    expect(page.locator(".initial")).to_have_count(0)


@pytest.mark.parametrize("light", LIGHTS)
def test_the_page_shows_it_in_every_light(till: Till, shown: str, open_page: OpenPage, light: str) -> None:
    page = open_page(**PHONE, **LIGHTS[light])
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(till.pay(), wait_until="networkidle")
    check_seen(page)
    assert asked.count(shown) == 1
    assert len(asked) <= 6
    assert accessibility_problems(page) == []


def test_it_stays_while_the_page_follows_its_payment(till: Till, shown: str, open_page: OpenPage) -> None:
    page = open_page()
    link = till.pay()
    page.goto(link)
    till.move(link, "succeeded")
    expect(page.locator("#status")).to_have_attribute("data-status", "succeeded")
    check_seen(page)


@pytest.mark.parametrize("light", ["light", "dark"])
def test_the_form_shows_it_too(till: Till, shown: str, open_page: OpenPage, light: str) -> None:
    path = f"/v1/merchants/{till.merchant_id}"
    till.call("PATCH", path, {"collect": FIELDS})
    try:
        payment = till.pay().rpartition("/")[2]
        till.call("POST", f"/v1/gateway/payment/{payment}/options", [BUYER])
        page = open_page(**LIGHTS[light])
        page.goto(f"{till.server.url}/collect/{payment}?accounts={quote(BUYER)}", wait_until="networkidle")
        check_seen(page)
    finally:
        till.call("PATCH", path, {"collect": []})


def test_without_one_the_letter_stands_for_it(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(till.pay(), wait_until="networkidle")
    expect(page.locator(".initial")).to_have_text("D")
    expect(page.locator("header img")).to_have_count(0)


def send(till: Till, data: bytes, **headers: Any) -> tuple[int, bytes]:
    """PUT a logo as a client does that sends what it has, whatever it is told meanwhile."""
    connection = http.client.HTTPConnection("127.0.0.1", till.server.port, timeout=30)
    try:
        connection.request("PUT", f"/v1/merchants/{till.merchant_id}/logo", data, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_a_large_picture_is_taken_from_who_has_a_key_and_from_nobody_else(till: Till, shown: str) -> None:
    noise = Image.merge("RGB", [Image.effect_noise((900, 900), 200) for _ in "RGB"])
    data = encoded(noise)
    assert 1_500_000 < len(data) < 2 * 1024 * 1024
    status, said = send(till, data, **{"Api-Key": till.key})
    assert status == 200, said
    connection = http.client.HTTPConnection("127.0.0.1", till.server.port, timeout=30)
    connection.request("GET", urlsplit(shown).path)
    assert connection.getresponse().status == 404, "another one is shown now"
    connection.close()
    try:
        status, said = send(till, data, **{"Api-Key": "svc_test_wrong"})
    except (BrokenPipeError, ConnectionResetError):
        return  # it did not even wait for the answer
    assert status == 401, said
