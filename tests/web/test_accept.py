"""What a header likes, and how much."""

from __future__ import annotations

import pytest

from payd.web.accept import prefers_html, prefers_problem, wants_json, weights


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


@pytest.mark.parametrize(
    ("accept", "problem"),
    [
        ("application/problem+json", True),
        ("Application/Problem+JSON; charset=utf-8", True),
        ("application/json, application/problem+json", True),
        ("application/problem+json, */*;q=0.8", True),
        ("application/problem+json;q=0.4, application/json;q=0.3, */*", True),
        ("application/json, application/problem+json;q=0.9", False),
        ("application/problem+json;q=0.5, */*", False),
        ("application/problem+json;q=0.5, application/*;q=0.6, */*;q=0.1", False),
        ("application/problem+json;q=0", False),
        ("application/problem+json;q=0, */*;q=0", False),
        ("application/problem+json;q=nan", False),
        ("application/problem+xml, application/json", False),
        ("application/*", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_problem_details_are_for_those_who_name_them(accept: str, problem: bool) -> None:
    assert prefers_problem(accept) is problem


@pytest.mark.parametrize(
    ("accept", "json"),
    [
        ("application/json", True),
        ("application/json, text/html;q=0.5", True),
        ("text/html, application/json;q=0.9", False),
        ("application/json;q=0", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_json_is_for_those_who_name_it(accept: str, json: bool) -> None:
    assert wants_json(accept) is json
