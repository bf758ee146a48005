"""Everyone can use every page of the dashboard: in any light, on a phone, and without a script."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser

from payd.web.dashboard.routes import PAGES
from tests.browser.conftest import PATIENCE_MS, SCREENS
from tests.browser.dashboard_stand import open_stand
from tests.browser.dashboard_tour import PHONE, Tour, looks, take

pytestmark = [pytest.mark.browser, pytest.mark.real_time]

# The form that is there before anybody is: test_dashboard_door fills it in without a script.
FIRST = {"/setup"}
# There is no newer version of the API yet.
LATER = {"/settings/account/version"}
# Passkeys are the browser's own, and wallets are in it: only a script can ask them.
SCRIPTED = {
    "/login/passkey",
    "/settings/security/passkeys",
    "/d/{mode}/payments/{payment}/refund/transaction",
    "/d/{mode}/payments/{payment}/refund/send",
}


@pytest.fixture(scope="module")
def tour(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Tour:
    """All pages, seen once."""
    SCREENS.mkdir(parents=True, exist_ok=True)
    with open_stand(tmp_path_factory.mktemp("stand")) as stand:
        taken = Tour(stand)
        scripted = browser.new_context(viewport=PHONE, reduced_motion="reduce", color_scheme="light")
        plain = browser.new_context(viewport=PHONE, java_script_enabled=False)
        for context in (scripted, plain):
            context.set_default_timeout(PATIENCE_MS)
        take(taken, taken.listen(scripted.new_page()), taken.listen(plain.new_page()))
        for context in (scripted, plain):
            context.close()
    return taken


def test_every_page_of_the_table_was_seen(tour: Tour) -> None:
    assert tour.found["status"] == {}
    assert set(tour.seen) == {route.path for route in looks()}


def test_no_page_has_a_barrier(tour: Tour) -> None:
    assert {light: tour.found[light] for light in ("light", "dark")} == {"light": {}, "dark": {}}


def test_no_page_scrolls_sideways_on_a_phone(tour: Tour) -> None:
    assert tour.found["wide"] == {}


def test_no_page_with_its_files_is_heavy(tour: Tour) -> None:
    assert tour.found["weight"] == {}


def test_every_page_has_one_heading_and_a_title_that_says_its_mode(tour: Tour) -> None:
    assert tour.found["titled"] == {}


def test_without_a_script_every_page_shows_what_works(tour: Tour) -> None:
    assert tour.found["plain"] == {}


def test_every_act_has_a_form_that_posts_without_a_script(tour: Tour) -> None:
    acts = {route.path for route in PAGES if route.method == "POST"} - SCRIPTED - FIRST - LATER
    patterns = {path: re.sub(r"\{\w+\}", "[^/]+", path) for path in acts}
    reached = {
        path for path, pattern in patterns.items() if any(re.fullmatch(pattern, one) for one in tour.posts)
    }
    assert sorted(acts - reached) == []


def test_no_page_breaks_the_policy_or_asks_another_machine(tour: Tour) -> None:
    assert tour.complaints == []
