"""The dashboard's frame in a real browser: both modes of colour, narrow, without a script, for everyone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Till
from tests.browser.dashboard import violations

pytestmark = [pytest.mark.browser, pytest.mark.real_time]

HOME = "/d/test/"


def test_the_mode_shows_without_colours(open_desk: Callable[..., Page]) -> None:
    page = open_desk(forced_colors="active")
    page.goto(HOME)
    expect(page).to_have_title("[Test] Home · payd")
    expect(page.get_by_text("Test mode.")).to_be_visible()
    assert violations(page) == []


def test_keys_reach_the_page_past_the_frame(open_desk: Callable[..., Page]) -> None:
    page = open_desk()
    page.goto(HOME)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_it_works_without_a_script(open_desk: Callable[..., Page]) -> None:
    page = open_desk(java_script_enabled=False)
    page.goto(HOME)
    page.get_by_text("ada@example.com").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()


def test_times_are_the_users_own_and_the_server_hears_of_the_zone(open_desk: Callable[..., Page]) -> None:
    page = open_desk(timezone_id="Asia/Kolkata")
    page.goto(HOME)
    cookies: list[Any] = page.context.cookies()
    assert [one["value"] for one in cookies if one["name"] == "payd-zone"] == ["330"]
    [place] = [one["value"] for one in cookies if one["name"] == "payd-place"]
    assert place in ("Asia/Kolkata", "Asia/Calcutta")  # browsers keep to old names


def test_the_numbers_of_an_axis_stay_in_their_card_however_much_was_sold(
    open_desk: Callable[..., Page], till: Till
) -> None:
    till.move(till.pay("39000000000", "IDR", "LARGE"), "succeeded")
    page = open_desk(viewport={"width": 360, "height": 740})
    page.goto(HOME)
    expect(page.get_by_role("figure", name="Volume a day, IDR")).to_be_visible()
    outside = """() => [...document.querySelectorAll('.chart text')].filter((one) => {
        return one.getBoundingClientRect().left < one.closest('.card').getBoundingClientRect().left;
    }).map((one) => one.textContent)"""
    assert page.evaluate(outside) == []
