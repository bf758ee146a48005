"""Charts are to scale, well-formed, and for light and dark pages."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from xml.etree.ElementTree import Element

import pytest

from tests.bench.charts import DARK, LIGHT, Bar, Curve, Group, bars, curves, number

SVG = "{http://www.w3.org/2000/svg}"


def drawn(svg: str) -> Element:
    """The picture; fails where it is no XML."""
    return ElementTree.fromstring(svg)


def words(picture: Element) -> list[str]:
    return [text.text or "" for text in picture.iter(f"{SVG}text")]


def test_bars_are_as_long_as_their_values_over_all_groups() -> None:
    picture = drawn(
        bars("a chart", [Group("one", [Bar("a", 100), Bar("b", 25, 1)]), Group("two", [Bar("a", 50)])])
    )

    widths = [float(rect.get("width", "")) for rect in picture.iter(f"{SVG}rect")]
    assert widths[1] / widths[0] == pytest.approx(0.25, abs=0.01)
    assert widths[2] / widths[0] == pytest.approx(0.5, abs=0.01)
    assert [rect.get("class") for rect in picture.iter(f"{SVG}rect")] == ["c0", "c1", "c0"]
    assert words(picture) == ["a chart", "one", "a", "100", "b", "25.0", "two", "a", "50.0"]


def test_a_bar_of_nothing_among_nothing_is_drawn() -> None:
    assert words(drawn(bars("none", [Group("one", [Bar("a", 0)])]))) == ["none", "one", "a", "0"]


def test_curves_go_right_by_magnitudes_and_up_by_values() -> None:
    picture = drawn(curves("a chart", "payments", [Curve("b", [(10, 1), (100, 2), (1000, 4)])]))

    places = [(float(dot.get("cx", "")), float(dot.get("cy", ""))) for dot in picture.iter(f"{SVG}circle")]
    (x0, y0), (x1, y1), (x2, y2) = places
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y1 - y2 == pytest.approx(2 * (y0 - y1), abs=0.3)
    assert "b: 1 → 4" in words(picture)
    assert {"10.0", "100", "1,000"} <= set(words(picture))


def test_one_place_is_a_curve_too() -> None:
    assert "b: 7 → 7" in words(drawn(curves("a chart", "payments", [Curve("b", [(10, 7)])])))


def test_words_of_a_chart_may_be_anything() -> None:
    picture = drawn(bars("p < q & r", [Group("<one>", [Bar('"a"', 1)])]))

    assert words(picture)[:3] == ["p < q & r", "<one>", '"a"']


def test_ink_and_colours_follow_the_reader_and_the_background_is_the_pages() -> None:
    svg = bars("a chart", [Group("one", [Bar("a", 1)])])
    style = drawn(svg).findtext(f"{SVG}style") or ""

    light, _, dark = style.partition("@media(prefers-color-scheme:dark){")
    assert all(colour in light for colour in LIGHT)
    assert all(colour in dark for colour in DARK)
    assert style.count("{") == style.count("}")
    assert len(list(drawn(svg).iter(f"{SVG}rect"))) == 1


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0"), (0.0634, "0.063"), (3.14159, "3.1"), (42.06, "42.1"), (1234.5, "1,234"), (99.96, "100.0")],
)
def test_numbers_have_few_digits(value: float, said: str) -> None:
    assert number(value) == said
