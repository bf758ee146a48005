"""A histogram: how often a value was at most each of some bounds, as monitoring systems take it.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate


class Histogram:
    """How often a value was at most each of some bounds."""

    __slots__ = ("_counts", "bounds", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.total = 0.0
        self._counts = [0] * (len(bounds) + 1)

    @property
    def count(self) -> int:
        """How many values were observed."""
        return sum(self._counts)

    def observe(self, value: float) -> None:
        """Count a value; one below zero, from a clock that was set back, as zero: a sum must not fall."""
        value = max(0.0, value)
        self.total += value
        self._counts[bisect_left(self.bounds, value)] += 1

    def cumulative(self) -> list[tuple[float, int]]:
        """Each bound, and infinity at the end, with the number of values up to and including it."""
        return list(zip((*self.bounds, float("inf")), accumulate(self._counts), strict=True))
