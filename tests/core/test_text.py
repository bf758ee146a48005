"""What people are called, and what they answer, fits on one line as it is."""

from __future__ import annotations

import pytest

from payd.core.text import is_one_line, is_seen, on_one_line


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Ada",
        "\u0639\u0644\u06cc\u200c\u0631\u0636\u0627",
        "10\u00a0rue de l\u2019\u00c9toile",
        "\u30ab\u30d5\u30a7\u3000\u6771\u4eac",
        "\U0001f468\u200d\U0001f33e",
    ],
)
def test_names_of_all_languages_are_one_line(text: str) -> None:
    assert is_one_line(text)


@pytest.mark.parametrize("char", "\0\t\n\r\x1b\x7f\x85\u061c\u2028\u2029\u202e\u2066\ufeff\ud800\ue000")
def test_what_breaks_or_steers_a_line_is_none(char: str) -> None:
    assert not is_one_line(f"a{char}b")


def test_what_steers_is_a_space_and_the_rest_stays() -> None:
    assert on_one_line("a\x1b[31m\nb\u202ec\x9b") == "a [31m b c "
    assert on_one_line("Käse \u200d東") == "Käse \u200d東"


def test_blanks_and_joiners_alone_are_not_seen() -> None:
    assert is_seen(" \u3000x")
    assert not any(map(is_seen, ("", "  ", "\u00a0\u3000", " \u200d\u200c")))
