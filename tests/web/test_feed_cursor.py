"""A place in the feed: what is shown is read again, and what an older payd handed out is one, too."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.core.errors import InvalidParams
from payd.web.cursor import encode_cursor
from payd.web.feed_cursor import FeedCursor, read_feed_cursor


@given(st.integers(0, 2**63 - 1), st.none() | st.integers(0, 2**63 - 1))
def test_a_place_that_was_shown_is_read_again(seq: int, at_ms: int | None) -> None:
    place = FeedCursor(seq, at_ms)
    assert read_feed_cursor(str(place)) == place


def test_a_cursor_of_an_older_payd_is_a_place_without_a_time() -> None:
    assert read_feed_cursor(encode_cursor(7)) == FeedCursor(7, None)


@pytest.mark.parametrize(
    "text", ["", "x", encode_cursor("7"), encode_cursor(7, "8"), encode_cursor(7, 8, 9), "W10"]
)
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(InvalidParams, match=r"^after is none .* begin with what is new\.$"):
        read_feed_cursor(text)
