"""When sources agree: the median of two or more that are close to each other, and no jump on one word."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.chains.market.agreement import (
    JUMP_WINDOW_MS,
    PAR_BAND,
    SPREAD_MAX,
    STABLE_SPREAD_MAX,
    Accepted,
    Agreed,
    Problem,
    agree,
    are_close,
    at_par,
    median,
)
from payd.chains.market.source import PRICE_MAX, PRICE_MIN, Spot
from tests.chains.market.exchanges import NOW_MS, spot

PRICES = st.fractions(min_value=PRICE_MIN, max_value=PRICE_MAX, max_denominator=10**12)


def heard(**values: str) -> dict[str, Spot]:
    return {provider: spot(value) for provider, value in values.items()}


def outcome(last: Accepted | None = None, **values: str) -> Fraction | Problem:
    decided = agree(heard(**values), SPREAD_MAX, last, NOW_MS)
    return decided.value if isinstance(decided, Agreed) else decided


def test_two_that_are_close_make_a_price_and_it_lies_between() -> None:
    assert outcome(a="2500", b="2510") == 2505


def test_of_three_it_is_the_one_in_the_middle() -> None:
    assert outcome(a="2500", b="2510", c="2501") == 2501


def test_one_is_not_enough_and_none_is_none() -> None:
    assert outcome(a="2500") is Problem.ALONE
    assert outcome() is Problem.SILENT


@pytest.mark.parametrize(
    ("spread_max", "low", "high", "agrees"),
    [
        (SPREAD_MAX, "199", "201", True),
        (SPREAD_MAX, "199", "201.000001", False),
        (STABLE_SPREAD_MAX, "399", "401", True),
        (STABLE_SPREAD_MAX, "399", "401.000001", False),
    ],
)
def test_they_may_be_a_hundredth_apart_and_stables_half_of_that(
    spread_max: Fraction, low: str, high: str, agrees: bool
) -> None:
    decided = agree(heard(a=high, b=low), spread_max, None, NOW_MS)

    assert isinstance(decided, Agreed) is agrees
    if not agrees:
        assert decided is Problem.SPREAD


def test_one_of_three_that_is_far_off_leaves_no_price() -> None:
    assert outcome(a="2500", b="2501", c="2600") is Problem.SPREAD


def test_a_price_is_as_old_as_its_oldest_source_and_names_them_all() -> None:
    spots = {"kraken": spot("2500", NOW_MS - 1000), "coinbase": spot("2501", NOW_MS - 9000)}

    decided = agree(spots, SPREAD_MAX, None, NOW_MS)

    assert isinstance(decided, Agreed)
    assert decided.at_ms == NOW_MS - 9000
    assert decided.providers == ("coinbase", "kraken")


LAST = Accepted(Fraction(2500), NOW_MS - 60_000)


@pytest.mark.parametrize("jumped", ["1249", "3751", "0.0004", "2500000000"])
def test_a_source_that_jumps_alone_is_not_heard(jumped: str) -> None:
    assert outcome(LAST, a="2500", b="2501", c=jumped) == Fraction(5001, 2)
    assert outcome(LAST, a="2500", b=jumped) is Problem.ALONE


@pytest.mark.parametrize("moved", ["1250", "3750"])
def test_half_up_or_down_is_no_jump_yet(moved: str) -> None:
    assert outcome(LAST, a="2500", b="2501", c=moved) is Problem.SPREAD


def test_a_jump_that_a_second_source_shares_is_a_price() -> None:
    assert outcome(LAST, a="1000", b="1001") == Fraction(2001, 2)


def test_two_that_jump_apart_are_not_heard() -> None:
    assert outcome(LAST, a="1000", b="1200") is Problem.ALONE


def test_two_that_jump_together_are_heard_against_one_that_stays() -> None:
    assert outcome(LAST, a="1000", b="1001", c="2500") is Problem.SPREAD


def test_ten_minutes_after_the_last_price_any_source_is_heard_again() -> None:
    within = Accepted(Fraction(2500), NOW_MS - JUMP_WINDOW_MS)
    after = Accepted(Fraction(2500), NOW_MS - JUMP_WINDOW_MS - 1)

    assert outcome(within, a="2500", b="2501", c="1000") == Fraction(5001, 2)
    assert outcome(after, a="2500", b="2501", c="1000") is Problem.SPREAD
    ahead = Accepted(Fraction(2500), NOW_MS + JUMP_WINDOW_MS + 1)
    assert outcome(ahead, a="2500", b="2501", c="1000") is Problem.SPREAD, "the clock was set back"


@pytest.mark.parametrize(
    ("value", "is_par"), [("1", True), ("0.995", True), ("1.005", True), ("0.9949", False), ("1.0051", False)]
)
def test_par_holds_within_half_a_hundredth(value: str, is_par: bool) -> None:
    decided = at_par(heard(a=value))

    if is_par:
        assert isinstance(decided, Agreed)
        assert decided.value == 1
    else:
        assert decided is Problem.OFF_PAR


def test_one_source_that_says_otherwise_ends_the_par() -> None:
    assert at_par(heard(a="1", b="1.0001", c="0.98")) is Problem.OFF_PAR


def test_par_needs_somebody_to_be_heard() -> None:
    assert at_par({}) is Problem.SILENT


def test_par_is_as_old_as_its_oldest_source() -> None:
    decided = at_par({"a": spot("1", NOW_MS - 3), "b": spot("1", NOW_MS - 7)})

    assert decided == Agreed(Fraction(1), NOW_MS - 7, ("a", "b"))


@given(st.lists(PRICES, min_size=1, max_size=7))
def test_a_median_lies_between_and_does_not_depend_on_the_order(values: list[Fraction]) -> None:
    middle = median(values)

    assert min(values) <= middle <= max(values)
    assert median(reversed(values)) == middle
    assert sum(value <= middle for value in values) * 2 >= len(values)
    assert sum(value >= middle for value in values) * 2 >= len(values)


@given(st.lists(PRICES, min_size=2, max_size=2), PRICES)
def test_a_single_liar_cannot_move_the_price_past_the_spread(honest: list[Fraction], lie: Fraction) -> None:
    spots = {name: spot(value) for name, value in zip("abc", [*honest, lie], strict=True)}

    decided = agree(spots, SPREAD_MAX, None, NOW_MS)

    if isinstance(decided, Agreed):
        assert min(honest) <= decided.value <= max(honest)
        assert max(honest) - min(honest) <= SPREAD_MAX * decided.value


@given(PRICES, PRICES)
def test_two_sources_that_are_read_the_wrong_way_round_never_agree(value: Fraction, other: Fraction) -> None:
    inverted = 1 / value

    decided = agree({"a": spot(value), "b": spot(inverted)}, SPREAD_MAX, None, NOW_MS)

    assert isinstance(decided, Agreed) is are_close((value, inverted), SPREAD_MAX)
    if abs(value - 1) > Fraction(2, 100):
        assert decided is Problem.SPREAD


def test_the_band_of_par_is_not_wider_than_the_spread_of_stables() -> None:
    assert PAR_BAND <= STABLE_SPREAD_MAX
