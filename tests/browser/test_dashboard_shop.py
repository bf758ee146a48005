"""Merchants, money and keys in a real browser: by the words on the screen, by keys, without a script."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Till, Watch
from tests.pictures import plain
from tests.shop import WALLET

pytestmark = [pytest.mark.browser, pytest.mark.real_time]

HOME = "/d/test/"
OTHER = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"

OpenDesk = Callable[..., Page]
Snap = Callable[[Page, str], Path]


def press(page: Page, name: str, role: Literal["button", "link"] = "button") -> None:
    page.get_by_role(role, name=name, exact=True).first.click()


def create_merchant(page: Page, name: str) -> None:
    """From any page to the new merchant's own, by words."""
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Merchants").click()
    form = page.get_by_role("region", name="Create a merchant")
    form.get_by_label("Name").fill(name)
    form.get_by_label("E-mail").fill("ada@example.com")
    press(page, "Create merchant")
    expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()


def add_money(page: Page, address: str = WALLET) -> None:
    press(page, "Add where money goes", "link")
    page.get_by_label("What is paid with").select_option(label="USDC (USD Coin) on Base")
    page.get_by_label("Your address on that network").fill(address)
    press(page, "Save")
    expect(page.get_by_text("Saved: this is where the money goes.")).to_be_visible()


def test_from_a_merchant_to_a_paid_test_payment_by_the_words_on_the_screen(
    open_desk: OpenDesk, till: Till, snap: Snap
) -> None:
    page = open_desk()
    page.goto(HOME)
    create_merchant(page, "First Shop")
    add_money(page)
    snap(page, "dash-merchant")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Keys").click()
    page.get_by_label("Name", exact=True).fill("Backend")
    press(page, "Create key")
    expect(page.get_by_role("heading", name="Save the key now")).to_be_visible()
    snap(page, "dash-key-made")
    sample = page.locator("pre").inner_text()
    done = subprocess.run(["bash", "-c", sample], capture_output=True, timeout=30, check=True)
    page.get_by_label("I saved it").check()
    press(page, "Done")
    page.goto(json.loads(done.stdout)["gatewayUrl"])
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_role("heading", name="Paid")).to_be_visible()


def test_a_key_is_shown_until_it_is_saved_and_never_again(open_desk: OpenDesk, till: Till) -> None:
    page = open_desk()
    page.goto("/d/test/keys")
    page.get_by_label("Name", exact=True).fill("Short-lived")
    press(page, "Create key")
    key = page.locator(".copy code").inner_text()
    assert till.server.request("GET", "/v1/merchants", headers={"Api-Key": key})[0] == 200
    press(page, "Done")
    expect(page.get_by_text(key, exact=True)).to_be_visible()
    page.get_by_label("I saved it").check()
    press(page, "Done")
    expect(page.get_by_role("heading", name="Keys", level=1)).to_be_visible()
    assert key not in page.content()
    row = page.get_by_role("row").filter(has_text="Short-lived")
    row.get_by_text("Revoke", exact=True).click()
    press(page, "Revoke Short-lived")
    expect(page.get_by_text("is revoked and opens nothing from now on.")).to_be_visible()
    assert till.server.request("GET", "/v1/merchants", headers={"Api-Key": key})[0] == 401


@pytest.mark.parametrize("scripted", [True, False], ids=["with a script", "without one"])
def test_money_is_sent_elsewhere_only_after_both_addresses_were_seen(
    open_desk: OpenDesk, watch: Watch, snap: Snap, scripted: bool
) -> None:
    watch.expected = ("400",)
    page = open_desk(java_script_enabled=scripted)
    page.goto(HOME)
    create_merchant(page, "Moving Shop")
    add_money(page)
    page.get_by_role("link", name="Change where USDC on Base goes").click()
    page.get_by_label("New address").fill(OTHER)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Compare the addresses")).to_be_visible()
    expect(page.get_by_text(OTHER)).to_be_visible()
    expect(page.get_by_text(WALLET)).to_be_visible()
    snap(page, "dash-destination-compare")
    page.get_by_label("Type the last 6 characters").fill("999999")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Nothing was changed.")
    press(page, "Compare")
    page.get_by_label("Type the last 6 characters").fill(OTHER[-6:])
    page.keyboard.press("Enter")
    expect(page.get_by_text(f"The money goes to …{OTHER[-6:]} from now on.")).to_be_visible()
    expect(page.get_by_text(OTHER)).to_be_visible()


def test_a_logo_is_sent_from_this_machine_and_shown(open_desk: OpenDesk, till: Till) -> None:
    page = open_desk()
    page.goto(f"/d/test/merchants/{till.merchant_id}")
    picture = {"name": "logo.png", "mimeType": "image/png", "buffer": plain()}
    page.get_by_label("Logo", exact=True).set_input_files(picture)  # type: ignore[arg-type]
    press(page, "Send picture")
    expect(page.get_by_text("This is the logo from now on.")).to_be_visible()
    assert page.locator(".preview img").evaluate("one => one.naturalWidth") > 0


def test_a_merchants_preview_reads_and_looks_as_its_checkout_does(open_desk: OpenDesk, till: Till) -> None:
    till.call("DELETE", f"/v1/merchants/{till.merchant_id}/logo")
    page = open_desk()

    def seen(top: str) -> tuple[str, list[str]]:
        looks = "one => ['textAlign', 'borderRadius', 'color'].map(name => getComputedStyle(one)[name])"
        initial = page.locator(f"{top} .initial")
        return " ".join(page.locator(top).inner_text().split()), initial.evaluate(looks)

    page.goto(f"/d/test/merchants/{till.merchant_id}")
    preview = seen(".preview")
    page.goto(till.pay("2500", "EUR", "ORDER-1042"))
    assert preview == seen("main header")


def test_the_status_page_keeps_itself_up_to_date_until_it_is_paused(open_desk: OpenDesk) -> None:
    page = open_desk()
    page.goto("/status")
    with page.expect_response(lambda got: got.request.headers.get("hx-request") == "true"):
        expect(page.get_by_role("button", name="Pause live updates")).to_be_visible()
    expect(page.get_by_role("heading", name="Database")).to_be_visible()
    press(page, "Pause live updates")
    expect(page.get_by_role("button", name="Go on with live updates")).to_be_visible()
