"""Whether a figure that was sampled for long grows: by a slope that single samples cannot bend."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from statistics import median
from typing import Final, Literal, NamedTuple

from tests.bench.table import NONE, Line

BARS: Final = "▁▂▃▄▅▆▇█"
BARS_MAX: Final = 32
HEADER: Final = (
    "what",
    "half-way",
    "at the end",
    "highest",
    "grew in the second half",
    "at most",
    "",
    "from 0",
)


class Watched(NamedTuple):
    """A figure and what it may do in the second half of a run, however long that is.

    Attributes:
        what: The figure, with its unit.
        at_s: When each sample was taken.
        values: The samples.
        digits: To show.
        bound: Of what `most` is: the growth, the growth as a share of the median, or the highest value.
        most: None: it is shown, and nobody judges it.
    """

    what: str
    at_s: Sequence[float]
    values: Sequence[float]
    digits: int
    bound: Literal["growth", "share", "highest"]
    most: float | None

    @property
    def second_half(self) -> tuple[Sequence[float], Sequence[float]]:
        """Times and samples after the middle of the time; before it, caches fill."""
        middle_s = (self.at_s[0] + self.at_s[-1]) / 2
        first = next(number for number, at_s in enumerate(self.at_s) if at_s >= middle_s)
        return self.at_s[first:], self.values[first:]

    @property
    def growth(self) -> float:
        """In the second half, in the unit of the samples."""
        at_s, values = self.second_half
        return slope(at_s, values) * (at_s[-1] - at_s[0])

    @property
    def measured(self) -> float:
        """What `most` bounds."""
        _, values = self.second_half
        match self.bound:
            case "growth":
                return self.growth
            case "share":
                return self.growth / (median(values) or 1)
            case "highest":
                return max(values)

    @property
    def holds(self) -> bool:
        """Whether it keeps within its bound."""
        return self.most is None or self.measured <= self.most


def slope(at_s: Sequence[float], values: Sequence[float]) -> float:
    """Growth a second: the median of the slopes between all pairs of samples; 0 of a single one.

    Source: Theil, "A rank-invariant method of linear and polynomial regression analysis" (1950); Sen (1968).
    """
    points = list(zip(at_s, values, strict=True))
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x2 > x1]
    return median(slopes) if slopes else 0.0


def sparkline(values: Sequence[float]) -> str:
    """The samples as bars that start at 0, so that what is flat looks flat."""
    count = min(BARS_MAX, len(values))
    edges = [number * len(values) // count for number in range(count + 1)]
    shown = [median(values[start:end]) for start, end in pairwise(edges)]
    top = max(shown) or 1
    return "".join(BARS[min(len(BARS) - 1, int(value / top * len(BARS)))] for value in shown)


def trend_line(watched: Watched) -> Line:
    """One figure with its verdict."""
    _, values = watched.second_half
    tenth = max(1, len(values) // 10)
    shown = [f"{value:,.{watched.digits}f}" for value in (median(values[:tenth]), median(values[-tenth:]))]
    return (
        watched.what,
        *shown,
        f"{max(values):,.{watched.digits}f}",
        f"{watched.growth:+,.{watched.digits}f}",
        _bound(watched),
        "" if watched.holds else "**grows**",
        sparkline(watched.values),
    )


def _bound(watched: Watched) -> str:
    if watched.most is None:
        return NONE
    match watched.bound:
        case "growth":
            return f"{watched.most:+,.{watched.digits}f}"
        case "share":
            return f"{watched.most:+.0%}"
        case "highest":
            return f"{watched.most:,.{watched.digits}f} at any time"
