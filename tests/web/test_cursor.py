"""Cursors: what goes in comes out, and what is none of ours is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.core.errors import InvalidParams
from payd.web.cursor import LENGTH_MAX, decode_cursor, encode_cursor


@given(st.integers(-(2**63) + 1, 2**63 - 1), st.text(max_size=60))
def test_what_goes_in_comes_out(number: int, text: str) -> None:
    cursor = encode_cursor(number, text)

    assert decode_cursor(cursor, (int, str)) == (number, text)
    assert cursor.replace("-", "").replace("_", "").isalnum()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "????",
        "bm90IGpzb24",
        encode_cursor("text"),
        encode_cursor(1, 2),
        encode_cursor(2**63),
        encode_cursor(1) + "A",
        "é",
        "A" * (LENGTH_MAX + 1),
    ],
)
def test_what_is_none_of_ours_is_refused(text: str) -> None:
    with pytest.raises(InvalidParams, match="cursor"):
        decode_cursor(text, (int,))


@given(st.text(max_size=40))
def test_no_text_breaks_it(text: str) -> None:
    try:
        (number,) = decode_cursor(text, (int,))
    except InvalidParams:
        return
    assert isinstance(number, int)
