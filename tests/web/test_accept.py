"""What a header likes, and how much."""

from __future__ import annotations

import pytest

from payd.web.accept import prefers_html, weights


@pytest.mark.parametrize(
    ("header", "liked"),
    [
        ("text/html", {"text/html": 1.0}),
        ("fr-CH, fr;q=0.9, *;q=0.5", {"fr-ch": 1.0, "fr": 0.9, "*": 0.5}),
        ("text/html;level=1;q=0.3, a/b ; q=0", {"text/html": 0.3, "a/b": 0.0}),
        ("de;q=much, en", {"en": 1.0}),
        ("de;q=inf, fr;q=nan, es;q=2, ar;q=-1, en;q=0.1", {"en": 0.1}),
        ("", {"": 1.0}),
    ],
)
def test_each_name_has_its_weight(header: str, liked: dict[str, float]) -> None:
    assert weights(header) == liked


@pytest.mark.parametrize(
    ("accept", "html"),
    [
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", True),
        ("text/html", True),
        ("*/*", False),
        ("", False),
        ("application/json, text/html;q=0.5", False),
        ("text/html;q=0", False),
        ("text/html;q=x, application/json", False),
        ("application/json;q=0.2,text/html;charset=utf-8;q=0.3", True),
    ],
)
def test_html_is_for_those_who_ask_for_it(accept: str, html: bool) -> None:
    assert prefers_html(accept) is html
