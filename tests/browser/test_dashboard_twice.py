"""A form that is sent twice by a double click does once what it does, and what it shows is seen."""

from __future__ import annotations

from collections.abc import Callable

import pyotp
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Till

pytestmark = [pytest.mark.browser, pytest.mark.real_time]

OpenDesk = Callable[..., Page]

# So that the second click comes before the first one's answer, as it does where the server is far away.
LATENCY_MS = 300


def click_twice(page: Page, name: str) -> None:
    far = {"offline": False, "latency": LATENCY_MS, "downloadThroughput": -1, "uploadThroughput": -1}
    page.context.new_cdp_session(page).send("Network.emulateNetworkConditions", far)
    page.get_by_role("button", name=name).dblclick(delay=20)


@pytest.mark.parametrize("scripted", [True, False], ids=["with a script", "without one"])
def test_a_key_is_shown_to_who_clicks_twice(open_desk: OpenDesk, till: Till, scripted: bool) -> None:
    page = open_desk(java_script_enabled=scripted)
    page.goto("/d/test/keys")
    name = f"Twice {scripted}"
    page.get_by_label("Name", exact=True).fill(name)
    click_twice(page, "Create key")
    expect(page.get_by_role("heading", name="Save the key now")).to_be_visible()
    key = page.locator(".copy code").inner_text()
    assert till.server.request("GET", "/v1/merchants", headers={"Api-Key": key})[0] == 200
    page.goto("/d/test/keys")
    expect(page.get_by_role("row").filter(has_text=name)).to_have_count(1)


def test_an_invitation_is_made_once_by_who_clicks_twice(open_desk: OpenDesk) -> None:
    page = open_desk()
    page.goto("/settings/users")
    page.get_by_label("E-mail").fill("twice@example.com")
    click_twice(page, "Make a link")
    expect(page.get_by_role("heading", name="Send this link")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="twice@example.com")).to_have_count(1)


def test_recovery_codes_are_shown_to_who_clicks_twice(open_desk: OpenDesk) -> None:
    page = open_desk()
    page.goto("/settings/security/app")
    app = pyotp.TOTP((page.locator("#secret").text_content() or "").replace(" ", ""))
    page.get_by_label("Code", exact=True).fill(app.now())
    click_twice(page, "Turn it on")
    expect(page.get_by_role("heading", name="Keep these recovery codes")).to_be_visible()
