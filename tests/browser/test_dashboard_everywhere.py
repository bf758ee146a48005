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


def test_everyone_can_use_every_page(tour: Tour, subtests: pytest.Subtests) -> None:
    """One test: beside others a second one would run elsewhere, and tour again."""
    with subtests.test("every page of the table was seen"):
        assert tour.found["status"] == {}
        assert set(tour.seen) == {route.path for route in looks()}
    for light in ("light", "dark"):
        with subtests.test("no page has a barrier", light=light):
            assert tour.found[light] == {}
    with subtests.test("no page scrolls sideways on a phone"):
        assert tour.found["wide"] == {}
    with subtests.test("no text sticks out of what it is in on a phone"):
        assert tour.found["outside"] == {}
    with subtests.test("no page with its files is heavy"):
        assert tour.found["weight"] == {}
    with subtests.test("every page has one heading and a title that says its mode"):
        assert tour.found["titled"] == {}
    with subtests.test("without a script every page shows what works"):
        assert tour.found["plain"] == {}
    with subtests.test("every act has a form that posts without a script"):
        assert _formless(tour.posts) == []
    with subtests.test("no page breaks the policy or asks another machine"):
        assert tour.complaints == []


def _formless(posts: set[str]) -> list[str]:
    """The acts of the table to which nothing posts without a script."""
    acts = {route.path for route in PAGES if route.method == "POST"} - SCRIPTED - FIRST - LATER
    patterns = {path: re.sub(r"\{\w+\}", "[^/]+", path) for path in acts}
    reached = {path for path, pattern in patterns.items() if any(re.fullmatch(pattern, one) for one in posts)}
    return sorted(acts - reached)
