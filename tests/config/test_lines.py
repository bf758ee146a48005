"""The line of a value is found however the value is written."""

from __future__ import annotations

import pytest

from payd.config.keys import Place
from payd.config.lines import line_of


@pytest.mark.parametrize(
    ("text", "place", "line"),
    [
        ("a = 1\nb = 2\n", ("b",), 2),
        ("[s]\n# b = 1\nb = 2\n", ("s", "b"), 3),
        ("s.b = 2\n", ("s", "b"), 1),
        ("x = 1\ns = {a = 1, b = 2}\n", ("s", "b"), 2),
        ("[s]\na = [\n  1,\n  2,\n]\nb = 1\n", ("s", "a"), 2),
        ("[s]\na = [\n  1,\n  2,\n]\nb = 1\n", ("s", "b"), 6),
        ("[[t]]\na = 1\n\n[[t]]\na = 2\n", ("t", 0, "a"), 2),
        ("[[t]]\na = 1\n\n[[t]]\na = 2\n", ("t", 1, "a"), 5),
        ("[[t]]\na = 1\n\n[[t]]\na = 2\n", ("t", 1), 4),
        ("[[t]]\na = 1\n[t.u]\nb = 1\n", ("t", 0, "u", "b"), 4),
        ("'a.b' = 1\n[a]\nb = 2\n", ("a", "b"), 3),
        ("x = 1\n'a.b' = 1\n", ("a.b",), 2),
        ("# one\u2028line\x85\n\na = 1", ("a",), 3),
        ("a = 'one\u2029line'\nb = 1\n", ("b",), 2),
        ("a = 1\r\nb = 2\r\n", ("b",), 2),
    ],
)
def test_a_line_is_where_the_value_begins(text: str, place: Place, line: int) -> None:
    assert line_of(text, place) == line


@pytest.mark.parametrize(
    ("place", "line"), [(("t", 1, "missing"), 3), (("t", 0, "u", "missing"), 1), (("s", "missing"), 5)]
)
def test_the_line_of_what_is_not_set_is_that_of_its_table(place: Place, line: int) -> None:
    assert line_of("[[t]]\na = 1\n[[t]]\na = 2\n[s]\nb = 1\n", place) == line


def test_a_place_in_a_list_that_should_be_tables_is_where_the_list_begins() -> None:
    assert line_of("a = 1\nt = ['x', 'y']\n", ("t", 5)) == 2
    assert line_of("a = 1\nt = 5\n", ("t", 0, "a")) == 2
