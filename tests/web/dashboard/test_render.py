"""Pages as HTML: whole, escaped, and light."""

from __future__ import annotations

import re
from pathlib import Path

from payd.web.dashboard import render
from payd.web.dashboard.render import labelled, utc
from payd.web.static import ASSETS
from tests.shop import Shop
from tests.visitor import sign_in


async def test_a_page_has_no_script_or_style_of_its_own(shop: Shop) -> None:
    page = (await (await sign_in(shop)).get("/d/test/")).html
    assert not re.search(r"<script(?![^>]* src=)[^>]*>|<style|\sstyle=|\son\w+=|javascript:", page)


async def test_a_page_and_its_files_are_light(shop: Shop) -> None:
    page = await (await sign_in(shop)).get("/d/test/")
    loaded = dict(re.findall(r'/static/([^"?]+)\?v=([0-9a-f]{16})"', page.html))
    assert loaded == {name: ASSETS[name].version for name in ("dash.css", "dash.js", "htmx.min.js")}
    assert len(page.got.raw) + sum(len(ASSETS[name].body) for name in loaded) < 150_000


async def test_the_heading_of_amounts_stands_over_them(shop: Shop) -> None:
    await shop.pay()
    page = await (await sign_in(shop)).get("/d/test/payments")
    assert '<th scope="col">Merchant</th><th scope="col" class="number">Amount</th>' in page.html


async def test_names_of_people_are_text(shop: Shop) -> None:
    page = await (await sign_in(shop, email="<b>@example.com")).get("/d/test/")
    assert "&lt;b&gt;@example.com" in page.html
    assert "<b>@" not in page.html


def test_an_instant_reads_without_a_script() -> None:
    assert utc(1_780_000_000_123) == "2026-05-28 20:26:40 UTC"


def test_each_cell_says_its_column_and_typed_markup_stays_text() -> None:
    rows = '<tr><th scope="row">a</th><td class="number">&lt;td&gt;</td></tr>'
    rows += "<tr><th>b</th><td></td><td></td></tr>"
    assert re.findall(r"<(t[hd])([^>]*)>([^<]*)", labelled(rows, ["Name", 'Size "L"'])) == [
        ("th", ' data-label="Name" scope="row"', "a"),
        ("td", ' data-label="Size &#34;L&#34;" class="number"', "&lt;td&gt;"),
        ("th", ' data-label="Name"', "b"),
        ("td", ' data-label="Size &#34;L&#34;"', ""),
        ("td", ' data-label=""', ""),
    ]


def test_what_stands_to_the_right_has_its_heading_there() -> None:
    folder = Path(render.__file__).parent / "templates"
    pages = [one.read_text() for one in sorted(folder.glob("*.html"))]
    with_numbers = [text for text in pages if '<td class="number">' in text]
    assert with_numbers
    for text in with_numbers:
        declared = re.findall(r"{% call ui\.table\(.*\], \['\w+'\]\) %}", text)
        assert len(declared) == text.count('<td class="number">')
