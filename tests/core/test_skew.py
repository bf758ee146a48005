"""What other clocks say of ours, and which of them have a say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.core.skew import FITS_S, agreed_skew_s, side, skew_to_node_s

NOW_S = 1_780_000_000


@pytest.mark.parametrize(
    ("skews_s", "agreed_s"),
    [
        ((), None),
        ((90.0,), 90.0),
        ((90.0, 100.0), 90.0),
        ((-90.0, -100.0), -90.0),
        ((90.0, 0.5), 0.5),
        ((90.0, -90.0), 0.0),
        ((1.0, 90.0, 91.0), 90.0),
        ((1.0, 2.0, 90.0, 91.0), 2.0),
    ],
)
def test_the_middle_holds(skews_s: tuple[float, ...], agreed_s: float | None) -> None:
    assert agreed_skew_s(skews_s) == agreed_s


@given(st.lists(st.floats(80.0, 100.0), min_size=2, max_size=9), st.floats(-1e9, 1e9))
def test_one_that_lies_hides_nothing_from_two_that_do_not(honest_s: list[float], lie_s: float) -> None:
    agreed_s = agreed_skew_s([*honest_s, lie_s])
    assert agreed_s is not None
    assert 80.0 <= agreed_s <= 100.0


@pytest.mark.parametrize(
    ("off_s", "age_s", "skew_s"),
    [
        (0, 3, 0),
        (100, 3, 100),
        (-100, 3, -100),
        (100, FITS_S, 100),
        # It lags, or its clock is as wrong as ours, or it is wrong alone.
        (100, FITS_S + 1, None),
        (0, 103, None),
        (0, -97, None),
    ],
)
def test_a_node_has_a_say_where_its_newest_block_fits_its_clock(
    off_s: int, age_s: float, skew_s: float | None
) -> None:
    node_s = NOW_S - off_s
    assert skew_to_node_s(NOW_S, node_s, round(node_s - age_s)) == skew_s


def test_a_block_of_the_future_shows_that_we_are_behind_and_an_old_one_nothing() -> None:
    assert skew_to_node_s(NOW_S, None, NOW_S + 90) == -90
    assert skew_to_node_s(NOW_S, None, NOW_S) is None
    assert skew_to_node_s(NOW_S, None, NOW_S - 90) is None


def test_the_side_is_a_word() -> None:
    assert (side(5), side(-5)) == ("ahead", "behind")
