"""Everyone can use every view of the buyer's pages: in any light, colour, language and size of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.conftest import PATIENCE_MS, Till, Watch
from tests.browser.scenes import SCENES, SHOP, Stage
from tests.browser.shop_page import open_shop_page
from tests.browser.test_solana_pay import SolanaTill, serving
from tests.browser.tour import ADOPT, LIGHTS, MEASURES, SCREENS, Tour, contact_sheet, take

pytestmark = pytest.mark.browser

BASE_URL: Final = "https://pay.example"
# Read from the left and from the right; and those whose words are longest, or break anywhere.
WHOLE: Final = ("en", "ar")
SQUEEZED: Final = ("de", "ja")
REFUSED: Final = ("status of 422", "status of 404", "status of 429", "status of 500")


@pytest.fixture(scope="module")
def solana(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SolanaTill]:
    yield from serving(tmp_path_factory.mktemp("everyone") / "solana", BASE_URL)


@pytest.fixture(scope="module", params=[*WHOLE, *SQUEEZED])
def tour(request: pytest.FixtureRequest, browser: Browser, till: Till, solana: SolanaTill) -> Tour:
    """All scenes in a language."""
    code = str(request.param)
    SCREENS.mkdir(parents=True, exist_ok=True)
    with open_shop_page(till.server.url) as shop:
        path = f"/v1/merchants/{till.merchant_id}"
        till.call("PATCH", path, {"checkoutOrigins": [shop.origin], "collect": []})
        # What a wallet is said to have sent was made up: the server may say so before the scene is over.
        expected = (*REFUSED, "/confirm", f"request: {shop.origin}/", f"request: {SHOP}/")
        taken = Tour(code, Watch(expected=expected))
        context = browser.new_context(locale=code, reduced_motion="reduce", color_scheme="light")
        context.set_default_timeout(PATIENCE_MS)
        stage = Stage(context.new_page(), till, solana.pay, shop, code)
        take(taken, stage, whole=code in WHOLE)
        context.close()
        till.call("PATCH", path, {"checkoutOrigins": [], "collect": []})
    contact_sheet()
    return taken


in_both_directions = pytest.mark.parametrize("tour", WHOLE, indirect=True)


@in_both_directions
def test_axe_finds_nothing_in_any_view(tour: Tour) -> None:
    assert {light: tour.found[light] for light in LIGHTS} == {light: {} for light in LIGHTS}


@in_both_directions
def test_in_the_buyers_own_colours_everything_that_can_be_pressed_has_a_border(tour: Tour) -> None:
    assert tour.found["borders"] == {}


@in_both_directions
def test_nothing_moves_for_who_wants_no_motion_and_what_waits_has_a_name(tour: Tour) -> None:
    assert tour.found["motion"] == {}
    assert tour.found["busy"] == {}


@in_both_directions
def test_nothing_flashes_where_motion_is_welcome(tour: Tour) -> None:
    assert tour.found["flashes"] == {}
    assert tour.moving == {"turn", "appear"}, "they are what was measured"


def test_what_flashes_is_found(till: Till, open_page: Callable[..., Page]) -> None:
    page = open_page(reduced_motion="no-preference")
    page.goto(till.pay())
    page.evaluate(MEASURES)
    assert page.evaluate("measure.flashes()") == []
    page.evaluate(
        ADOPT,
        """@keyframes blink { 50% { opacity: 0 } } @keyframes spin { to { rotate: 1turn } }
        h1 { animation: blink 2s infinite } #left { animation: spin .2s infinite, blink 1s }""",
    )
    assert sorted(page.evaluate("measure.flashes()")) == ["blink on h1", "spin on #left"]


def test_at_four_hundred_percent_nothing_is_wider_cut_off_or_on_top_of_something(tour: Tour) -> None:
    assert tour.found["zoomed"] == {}


def test_a_buyers_own_spacing_of_text_breaks_nothing(tour: Tour) -> None:
    assert tour.found["spaced"] == {}


def test_text_of_twice_the_size_breaks_nothing(tour: Tour) -> None:
    assert tour.found["doubled"] == {}


def test_every_view_was_there_and_none_broke_the_policy_or_left_this_machine(tour: Tour) -> None:
    assert tour.seen == list(SCENES)
    assert tour.watch.surprises() == []
