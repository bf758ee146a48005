"""The table of pages holds to its own rules."""

from __future__ import annotations

import re

from payd.web.dashboard.dispatch import ROOTS
from payd.web.dashboard.frame import NAVIGATION, SETTINGS
from payd.web.dashboard.routes import PAGES, find_pages
from payd.web.routes import ROUTES


def test_every_path_is_below_a_root_that_the_dashboard_has() -> None:
    for page in PAGES:
        assert any(page.path == root or page.path.startswith(f"{root}/") for root in ROOTS), page.path


def test_forms_post_and_pages_get() -> None:
    assert {page.method for page in PAGES} <= {"GET", "POST"}
    assert len({(page.method, page.path) for page in PAGES}) == len(PAGES)


def test_what_needs_nobody_is_the_door_alone() -> None:
    opened = {page.path.split("/")[1] for page in PAGES if page.may is None}
    assert opened == {"login", "setup", "join", "reset"}


def test_a_form_that_is_shown_again_is_shown_by_a_page_for_the_same_people() -> None:
    pages = {page.handler: page for page in PAGES if page.method == "GET"}
    for page in PAGES:
        if page.shown_by is not None:
            assert page.method == "POST", page.path
            assert page.shown_by in pages, page.path


def test_every_link_of_the_navigation_is_a_page_for_those_who_see_it() -> None:
    for path, _, permission in (*((f"/d/test/{one}", name, may) for one, name, may in NAVIGATION), *SETTINGS):
        page = find_pages(path)[0]["GET"]
        assert page.may == permission, path


def test_no_path_is_both_the_apis_and_the_dashboards() -> None:
    for route in ROUTES:
        assert not find_pages(re.sub(r"\{\w+\}", "x", route.path))[0]
