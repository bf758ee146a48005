"""The dashboard's door in a real browser: from the printed link to the checklist, and every way in later."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pyotp
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Watch
from tests.browser.dashboard import (
    EMAIL,
    PASSWORD,
    Desk,
    add_app,
    add_device,
    set_up,
    sign_in,
    violations,
    width,
)

pytestmark = [pytest.mark.browser, pytest.mark.real_time]

# A refusal is an answer with a status, which Chromium says on its console.
REFUSED = "Failed to load resource"


@pytest.fixture
def desk(tmp_path_factory: pytest.TempPathFactory, watch: Watch) -> Iterator[Desk]:
    opened = Desk.open(tmp_path_factory.mktemp("desk"))
    watch.expected = (REFUSED, f"request: {opened.url}", f"request: ws://localhost:{opened.server.port}")
    try:
        yield opened
    finally:
        opened.server.kill()


def next_code(app: pyotp.TOTP, used: str) -> str:
    """A code that was not used: the one of the step after, which counts already."""
    now = app.now()
    return now if now != used else app.generate_otp(int(time.time()) // 30 + 1)


def test_the_first_person_comes_in_by_the_words_on_the_screen(
    open_page: Callable[..., Page], desk: Desk
) -> None:
    page = open_page()
    page.goto(f"{desk.url}/")
    expect(page.get_by_text("There is no user yet.")).to_be_visible()
    set_up(page, desk)
    page.get_by_role("link", name="Later").click()
    expect(page.get_by_role("heading", name="Set up test mode")).to_be_visible()
    expect(page.get_by_text("Your password alone lets you in.")).to_be_visible()
    page.get_by_role("link", name="Set up a second factor").click()
    _, codes = add_app(page, desk)
    assert len(codes) == 10
    page.get_by_role("link", name="I saved them").click()
    expect(page.get_by_role("heading", name="Set up test mode")).to_be_visible()
    expect(page.get_by_text("Your password alone lets you in.")).to_have_count(0)
    page.goto(desk.setup_link())
    expect(page.get_by_text("used already")).to_be_visible()


def test_the_second_factor_and_a_recovery_code_let_in_and_nothing_less(
    open_page: Callable[..., Page], desk: Desk
) -> None:
    page = open_page()
    set_up(page, desk)
    app, codes = add_app(page, desk)
    other = open_page()
    sign_in(other, desk)
    field = other.get_by_label("Code of your authenticator app")
    field.fill("000 000")
    other.get_by_role("button", name="Go on").click()
    expect(other.get_by_text("This code is wrong")).to_be_visible()
    field.fill(next_code(app, app.now()))
    other.get_by_role("button", name="Go on").click()
    expect(other.get_by_role("heading", name="Home")).to_be_visible()
    third = open_page()
    sign_in(third, desk)
    third.get_by_label("Code of your authenticator app").fill(codes[0])
    third.get_by_role("button", name="Go on").click()
    expect(third.get_by_text("9 are left")).to_be_visible()


def test_a_passkey_is_set_up_and_lets_in_without_a_password(
    open_page: Callable[..., Page], desk: Desk
) -> None:
    page = open_page()
    add_device(page)
    set_up(page, desk)
    page.get_by_label("Name of the new passkey").fill("My phone")
    page.get_by_role("button", name="Set up a passkey").click()
    expect(page.get_by_role("heading", name="Keep these recovery codes")).to_be_visible()
    page.goto(f"{desk.url}/settings/security")
    expect(page.get_by_role("cell", name="My phone")).to_be_visible()
    page.get_by_text(EMAIL).first.click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("You are signed out.")).to_be_visible()
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_role("heading", name="Home")).to_be_visible()
    page.get_by_text(EMAIL).first.click()
    page.get_by_role("button", name="Sign out").click()
    sign_in(page, desk)
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_role("heading", name="Home")).to_be_visible()


def test_without_a_device_the_page_says_so_and_goes_on(open_page: Callable[..., Page], desk: Desk) -> None:
    page = open_page()
    set_up(page, desk)
    page.add_init_script("navigator.credentials.get = () => Promise.reject(new Error('none'))")
    page.context.clear_cookies()
    page.goto(f"{desk.url}/login")
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_text("No passkey was used.")).to_be_visible()
    sign_in(page, desk)
    expect(page.get_by_role("heading", name="Home")).to_be_visible()


def test_guessing_is_slowed_down_with_words(open_page: Callable[..., Page], desk: Desk) -> None:
    set_up(open_page(), desk)
    page = open_page()
    for _ in range(5):
        sign_in(page, desk, "wrong")
        expect(page.get_by_text("The e-mail or the password is wrong.")).to_be_visible()
        expect(page.get_by_label("E-mail")).to_have_value(EMAIL)
    sign_in(page, desk, PASSWORD)
    expect(page.get_by_text("Too many tries. Try again in")).to_be_visible()
    page.wait_for_timeout(1100)
    sign_in(page, desk, PASSWORD)
    expect(page.get_by_role("heading", name="Home")).to_be_visible()


def test_a_session_is_ended_from_another_browser(open_page: Callable[..., Page], desk: Desk) -> None:
    here, there = open_page(), open_page()
    set_up(here, desk)
    sign_in(there, desk)
    expect(there.get_by_role("heading", name="Home")).to_be_visible()
    here.goto(f"{desk.url}/settings/sessions")
    expect(here.get_by_role("cell", name="this one")).to_be_visible()
    here.get_by_role("button", name="End", exact=True).click()
    expect(here.get_by_text("The session is ended.")).to_be_visible()
    there.reload()
    expect(there.get_by_role("heading", name="Sign in")).to_be_visible()


def test_what_does_harm_asks_again_and_keeps_what_was_typed(
    open_page: Callable[..., Page], desk: Desk
) -> None:
    page = open_page()
    set_up(page, desk)
    page.goto(f"{desk.url}/settings/users")
    desk.server.stop()
    _age_proofs(desk)
    desk.server.start()
    page.get_by_label("E-mail").fill("new@example.com")
    page.get_by_label("Role", exact=True).select_option("support")
    page.get_by_role("button", name="Make a link").click()
    expect(page.get_by_role("heading", name="Confirm that it is you")).to_be_visible()
    assert violations(page) == []
    page.get_by_label("Your password").fill("wrong")
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_text("The password is wrong.")).to_be_visible()
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_role("heading", name="Send this link")).to_be_visible()
    link = page.locator(".copy code").text_content() or ""
    guest = open_page()
    guest.goto(link)
    expect(guest.get_by_text("You are invited as support.")).to_be_visible()
    guest.get_by_label("A password").fill("another mule battery")
    guest.get_by_role("button", name="Join", exact=True).click()
    expect(guest.get_by_role("heading", name="Protect your login")).to_be_visible()


def _age_proofs(desk: Desk) -> None:
    with closing(sqlite3.connect(desk.server.folder / "office.db")) as tx, tx:
        tx.execute("UPDATE sessions SET proved_at_ms = proved_at_ms - 600000")


def test_the_operator_lets_in_who_is_locked_out(open_page: Callable[..., Page], desk: Desk) -> None:
    page = open_page()
    set_up(page, desk)
    add_app(page, desk)
    link = desk.reset(EMAIL)
    other = open_page()
    other.goto(link)
    other.get_by_label("New password").fill("another mule battery")
    other.get_by_role("button", name="Set the password").click()
    expect(other.get_by_role("heading", name="Protect your login")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_all_of_it_but_passkeys_works_without_a_script(open_page: Callable[..., Page], desk: Desk) -> None:
    page = open_page(java_script_enabled=False)
    set_up(page, desk)
    app, _ = add_app(page, desk)
    used = app.now()
    page.goto(f"{desk.url}/d/test/")
    page.get_by_text(EMAIL).first.click()
    page.get_by_role("button", name="Sign out").click()
    sign_in(page, desk)
    page.get_by_label("Code of your authenticator app").fill(next_code(app, used))
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_role("heading", name="Home")).to_be_visible()


LIGHTS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "forced colours": {"forced_colors": "active"},
}


@pytest.mark.parametrize("light", LIGHTS)
def test_the_first_pages_have_no_barrier_and_do_not_scroll_sideways(
    open_page: Callable[..., Page], desk: Desk, light: str
) -> None:
    page = open_page(viewport={"width": 360, "height": 740}, **LIGHTS[light])
    page.goto(desk.setup_link())
    assert (violations(page), width(page)) == ([], 360)
    set_up(page, desk)
    assert (violations(page), width(page)) == ([], 360)
    page.context.clear_cookies()
    sign_in(page, desk, "wrong")
    expect(page.get_by_role("alert")).to_be_visible()
    assert (violations(page), width(page)) == ([], 360)
