"""The buyer's pages in every language, in a real browser: whole, not too wide, numbers as in scripts."""

from __future__ import annotations

import html
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Page, expect

from payd.web.checkout import locale
from payd.web.checkout.words import LANGUAGES, Language, known
from tests.browser.conftest import Till, Watch
from tests.browser.shop_page import open_shop_page
from tests.browser.test_checkout import CHECKOUT, LIGHTS, PHONE, STATUSES, accessibility_problems
from tests.browser.test_collect import offer
from tests.web.asking import FIELDS

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]

SCREENS: Final = Path(__file__).parents[2] / ".cache" / "screens"
ENGLISH: Final = tomllib.loads((files("payd.web.checkout") / "languages" / "en.toml").read_text())
# What stands between the values of a text, if it is so long that it can only be ours.
PARTS: Final = {
    part.strip() for text in ENGLISH.values() for part in re.split(r"{\w+}", text) if len(part.split()) > 2
}
# The spacing that WCAG 1.4.12 asks pages to bear.
SPACING: Final = """() => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(`* { line-height: 1.5 !important; letter-spacing: .12em !important;
        word-spacing: .16em !important } p { margin-block-end: 2em !important }`);
    document.adoptedStyleSheets = [sheet];
}"""
# Those whose numbers differ from what their language's first country writes.
REGIONS: Final = (
    *("de-CH", "de-AT", "fr-CA", "fr-CH", "pt-PT", "es-MX", "en-IN", "en-GB", "ar-EG", "ar-MA", "zh-TW"),
)
TAGS: Final = (*LANGUAGES, *REGIONS)


@dataclass
class Pages:
    """A link for every page that a buyer may see, without a language."""

    statuses: dict[str, str]
    form: str
    nowhere: str

    def all(self) -> dict[str, str]:
        return {**self.statuses, "form": self.form, "nowhere": self.nowhere}


@pytest.fixture(scope="module")
def pages(till: Till) -> Iterator[Pages]:
    path = f"/v1/merchants/{till.merchant_id}"
    till.call("PATCH", path, {"collect": FIELDS})
    _, option = offer(till)
    statuses = {status: till.pay("125000", checkout=CHECKOUT) for status in STATUSES}
    for status in STATUSES[1:]:
        till.move(statuses[status], status)
    yield Pages(statuses, option["collectData"]["url"], f"{till.server.url}/pay/pay_t{'0' * 36}")
    till.call("PATCH", path, {"collect": []})


def in_language(link: str, tag: str) -> str:
    return f"{link}{'&' if '?' in link else '?'}lang={tag}"


def left_in_english(page: Page) -> set[str]:
    source = html.unescape(page.content())
    return {part for part in PARTS if part in source}


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_language_is_whole_and_fits_a_small_phone(
    open_page: OpenPage, pages: Pages, watch: Watch, code: str
) -> None:
    watch.expected = ("status of 404", "status of 422")
    page = open_page(**PHONE)
    SCREENS.mkdir(parents=True, exist_ok=True)
    for name, link in pages.all().items():
        page.goto(in_language(link, code))
        if name == "form":
            page.locator("form button").click()
            expect(page.get_by_role("alert")).to_be_visible()
        if name == "requires_action":
            page.locator(".cancel summary").click()
            page.screenshot(path=SCREENS / f"lang-{code}.png", full_page=True)
        root = page.locator("html")
        expect(root).to_have_attribute("lang", Language(code).tag)
        expect(root).to_have_attribute("dir", Language(code).direction)
        assert (left_in_english(page) == set()) == (code != "en"), name
        page.evaluate(SPACING)
        assert page.evaluate("document.documentElement.scrollWidth") == 320, name


@pytest.mark.parametrize("light", ["light", "dark"])
def test_everybody_can_use_the_page_that_runs_from_right_to_left(
    open_page: OpenPage, pages: Pages, watch: Watch, light: str
) -> None:
    watch.expected = ("status of 404", "status of 422")
    page = open_page(**PHONE, **LIGHTS[light])
    problems = {}
    for name, link in pages.all().items():
        page.goto(in_language(link, "ar"))
        if name == "form":
            page.locator("form button").click()
            expect(page.get_by_role("alert")).to_be_visible()
        problems[name] = accessibility_problems(page)
    assert problems == {name: [] for name in pages.all()}


def test_what_is_foreign_on_a_page_from_right_to_left_runs_as_it_does_elsewhere(
    till: Till, open_page: OpenPage, pages: Pages
) -> None:
    page = open_page(**PHONE)
    link = till.pay("125000", reference="(42) ORDER-1.")
    page.goto(in_language(link, "ar"))
    expect(page.locator("#link")).to_have_css("direction", "ltr")
    expect(page.locator(".order bdi")).to_have_css("direction", "ltr")
    page.locator(".more summary").first.click()
    # The first letter is at the left of the last one, brackets and all.
    for where in (".order bdi", "#link", "#payment"):
        left, right = page.locator(where).evaluate(
            """(one) => [0, one.firstChild.length - 1].map((at) => {
                const range = document.createRange();
                range.setStart(one.firstChild, at);
                range.setEnd(one.firstChild, at + 1);
                return range.getBoundingClientRect().left;
            })"""
        )
        assert left < right, where
    page.goto(in_language(pages.form, "ar"))
    directions = page.locator("form input[type=text]").evaluate_all("(all) => all.map((one) => one.dir)")
    assert directions
    assert set(directions) <= {"auto", "ltr"}
    expect(page.locator("form label").first).to_have_css("direction", "rtl")


def test_a_page_says_amounts_as_its_script_does(open_page: OpenPage, pages: Pages) -> None:
    amounts = [(0, 6), (7, 0), (1, 18), (12_500_000, 6), (999, 0), (1000, 0), (123_456_789, 2)]
    amounts += [(1_234_567_890_123_456, 6), (10**30 + 1, 18), (9_999_500_000_000_000_000, 18)]
    page = open_page()
    page.goto(pages.statuses["processing"])
    for tag in TAGS:
        language = known(tag)
        assert language is not None
        scripted = page.evaluate(
            """async ([sample, amounts]) => {
                document.getElementById('checkout').dataset.number = sample;
                const { money } = await import('/static/choices.js');
                const text = (value, decimals) => money({ value, display: { decimals, assetSymbol: 'X' } });
                return amounts.map((one) => text(...one));
            }""",
            [locale.sample(language), [(str(value), decimals) for value, decimals in amounts]],
        )
        assert scripted == [f"{locale.asset(language, value, decimals)} X" for value, decimals in amounts], (
            tag
        )


def test_a_page_says_dates_as_its_script_does(open_page: OpenPage, pages: Pages) -> None:
    page = open_page(timezone_id="UTC")
    said, drawn = {}, {}
    for tag in TAGS:
        page.goto(in_language(pages.statuses["succeeded"], tag))
        time = page.locator("time")
        expect(time).not_to_contain_text("UTC")
        at = datetime.fromisoformat(time.get_attribute("datetime") or "")
        language = known(tag)
        assert language is not None
        said[tag] = time.inner_text()
        drawn[tag] = locale.instant(language, int(at.timestamp() * 1000)).removesuffix(" UTC")
    assert said == drawn


def test_the_language_follows_the_buyer_everywhere(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    link = till.pay()
    page.goto(link)
    page.get_by_role("link", name="Deutsch").click()
    expect(page.locator("h1")).to_have_text("25,00\xa0€")
    till.move(link, "processing")
    expect(page.locator("#heading")).to_have_text("Zahlung gesendet")
    page.get_by_role("button", name="Erfolg").click()
    expect(page.locator("#heading")).to_have_text("Bezahlt")
    expect(page).to_have_title("Bezahlt · 25,00\xa0€ · Demo Shop")
    page.reload()
    expect(page.locator("#heading")).to_have_text("Bezahlt")
    assert page.url == f"{link}?lang=de"


def test_it_follows_without_scripts_too(till: Till, open_page: OpenPage) -> None:
    page = open_page(java_script_enabled=False)
    for button, said in (("موافقة", "تم الدفع"), ("نعم، إلغاء عملية الدفع", "أُلغيت عملية الدفع")):
        link = till.pay()
        page.goto(in_language(link, "ar"))
        page.locator(".cancel summary").click()
        page.get_by_role("button", name=button, exact=True).click()
        expect(page.locator("#heading")).to_have_text(said)
        assert page.url == f"{link}?lang=ar"


def test_the_browsers_own_language_needs_no_choice(till: Till, open_page: OpenPage, watch: Watch) -> None:
    watch.expected = ("status of 404",)
    page = open_page(locale="fr-CA")
    page.goto(till.pay("125000"))
    expect(page.locator("html")).to_have_attribute("lang", "fr-CA")
    expect(page.locator("h1")).to_have_text("1\xa0250,00\xa0€")
    page.goto(f"{till.server.url}/pay/nonsense")
    expect(page.locator("h1")).to_have_text("Paiement introuvable")


def test_the_form_speaks_its_readers_language_and_so_does_what_is_wrong_with_it(
    open_page: OpenPage, pages: Pages, watch: Watch
) -> None:
    watch.expected = ("status of 422",)
    page = open_page(java_script_enabled=False)
    page.goto(in_language(pages.form, "de"))
    page.get_by_role("button", name="Senden und weiter").click()
    expect(page.get_by_role("alert")).to_contain_text("Bitte prüfen Sie diese Angaben:")
    expect(page.get_by_text("Bitte ausfüllen.").first).to_be_visible()
    assert "lang=de" in page.url


@pytest.mark.parametrize(
    ("attributes", "options", "heading", "close"),
    [
        ("", {"locale": "es"}, "Pay with your wallet", "Cerrar"),
        (' data-payd-lang="de"', {"locale": "de"}, "Mit Ihrer Wallet zahlen", "Schließen"),
        (' data-payd-lang="tlh"', {"locale": "ja"}, "ウォレットで支払う", "閉じる"),
    ],
)
def test_a_shops_page_says_which_language_its_checkout_speaks(
    till: Till,
    open_page: OpenPage,
    watch: Watch,
    attributes: str,
    options: dict[str, Any],
    heading: str,
    close: str,
) -> None:
    with open_shop_page(till.server.url) as shop:
        watch.expected = (f"request: {shop.origin}/",)
        till.call("PATCH", f"/v1/merchants/{till.merchant_id}", {"checkoutOrigins": [shop.origin]})
        shop.body = f'<button data-payd="{till.pay()}"{attributes}>Pay</button>'
        page = open_page(**options)
        page.goto(shop.origin)
        page.get_by_role("button", name="Pay").click()
        frame = page.frame_locator("dialog iframe")
        expect(frame.locator("#heading")).to_have_text(heading)
        expect(page.get_by_role("button", name=close)).to_be_visible()
