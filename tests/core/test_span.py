"""Spans of time in words."""

from __future__ import annotations

import pytest

from payd.core.span import span

S, MIN, H, D = 1000, 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (-5, "0 s"),
        (999, "0 s"),
        (5 * S, "5 s"),
        (59 * S + 999, "59 s"),
        (MIN, "1 min"),
        (MIN + S, "1 min 1 s"),
        (24 * H - 1, "23 h 59 min"),
        (3 * D + 4 * H + 59 * MIN, "3 d 4 h"),
        (D + 59 * MIN, "1 d"),
        (400 * D, "400 d"),
    ],
)
def test_a_span_has_its_two_largest_units(ms: int, words: str) -> None:
    assert span(ms) == words
