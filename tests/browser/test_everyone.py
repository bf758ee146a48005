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
from tests.browser.tour import ADOPT, LIGHTS, MEASURES, SCREENS, Tour, contact_sheet, take, wants_pictures

pytestmark = pytest.mark.browser

BASE_URL: Final = "https://pay.example"
# Read from the left and from the right; and those whose words are longest, or break anywhere.
WHOLE: Final = ("en", "ar")
SQUEEZED: Final = ("de", "ja")
REFUSED: Final = ("status of 422", "status of 404", "status of 429", "status of 500")


@pytest.fixture(scope="module")
def solana(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SolanaTill]:
    yield from serving(tmp_path_factory.mktemp("everyone") / "solana", BASE_URL)


@pytest.fixture(scope="module")
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
    if wants_pictures():
        contact_sheet()
    return taken


# At 400 %, with a buyer's own spacing, at twice the size.
LARGER: Final = ("zoomed", "spaced", "doubled")


@pytest.mark.parametrize("tour", WHOLE, indirect=True)
def test_no_view_has_a_barrier(tour: Tour) -> None:
    """By axe in each light; borders in the buyer's own colours; motion for who wants none, and who does; and
    larger text. One test: beside others a second one would run elsewhere, and tour again.
    """
    looked_at = (*LIGHTS, "borders", "motion", "busy", "flashes", *LARGER)
    assert {what: tour.found[what] for what in looked_at} == {what: {} for what in looked_at}
    assert tour.moving == {"turn", "appear"}, "they are what was measured"
    assert tour.seen == list(SCENES)
    assert tour.watch.surprises() == []


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


@pytest.mark.parametrize("tour", SQUEEZED, indirect=True)
def test_no_view_breaks_when_its_text_is_larger(tour: Tour) -> None:
    """Where words are longest, or break anywhere; and no view was left out."""
    assert {what: tour.found[what] for what in LARGER} == {what: {} for what in LARGER}
    assert tour.seen == list(SCENES)
    assert tour.watch.surprises() == []
