"""A histogram counts every value once, and its sum never falls."""

from __future__ import annotations

from payd.core.histogram import Histogram


def test_values_are_counted_up_to_and_including_their_bound() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 9.0):
        histogram.observe(value)
    assert histogram.cumulative() == [(1.0, 2), (2.0, 4), (float("inf"), 5)]
    assert (histogram.count, histogram.total) == (5, 14.0)


def test_a_value_below_zero_counts_as_zero() -> None:
    histogram = Histogram((1.0,))
    histogram.observe(-5.0)
    assert (histogram.count, histogram.total) == (1, 0.0)
