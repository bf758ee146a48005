"""Bar charts: where each bar is in an SVG, what it says, and the same numbers as a table.

Geometry only, in the units of the chart's own `viewBox`; a template draws it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

WIDTH: Final = 640.0
HEIGHT: Final = 160.0
# Room for the numbers of the axis, and for the labels below.
LEFT: Final = 56.0
BOTTOM: Final = 20.0
TOP: Final = 8.0
# Of a bar's place, what stays empty beside it.
GAP_SHARE: Final = 0.25
BAR_WIDTH_MAX: Final = 48.0
# A bar for something is seen, however small it is beside the largest.
HEIGHT_MIN: Final = 1.5
LABELS_MAX: Final = 8
TICKS: Final = 4
# A bar that lies below its own words, and the number behind it.
ROW_HEIGHT: Final = 36.0
ROW_BAR: Final = 10.0
ROW_NUMBER: Final = 64.0
# So many letters fit above a bar; the whole text is in the bar's title and in the table.
ROW_LETTERS: Final = 76

# What is said of a point without a value, and of a chart without points.
NO_DATA: Final = "no data"


class Point(msgspec.Struct, frozen=True):
    """One value; None where there is nothing to say, which is not zero."""

    label: str
    value: int | None


class Bar(msgspec.Struct, frozen=True):
    """A bar, and what it says to who points at it or hears it."""

    x: float
    y: float
    width: float
    height: float
    title: str


class Tick(msgspec.Struct, frozen=True):
    """A line across the chart, or a label below it, at `at`."""

    at: float
    label: str


class BarChart(msgspec.Struct, frozen=True):
    """A whole chart.

    Attributes:
        title: What it shows.
        summary: The same in a sentence, with the largest value, for who does not see it.
        ticks: Lines across, with `at` from the top.
        labels: Below the bars, with `at` from the left; not every bar has one.
        rows: The table: a label and a value each, for every point.
    """

    title: str
    summary: str
    width: float
    height: float
    left: float
    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    labels: tuple[Tick, ...]
    rows: tuple[tuple[str, str], ...]


class Row(msgspec.Struct, frozen=True):
    """A bar that lies: its words are above it, its number is behind it; `title` says both whole."""

    words_y: float
    bar_y: float
    width: float
    words: str
    number: str
    title: str


class RowChart(msgspec.Struct, frozen=True):
    """Things that are counted, one below the other; without `rows` there is nothing to draw."""

    title: str
    summary: str
    width: float
    height: float
    thick: float
    rows: tuple[Row, ...]
    table: tuple[tuple[str, str], ...]


def row_chart(title: str, counts: Sequence[tuple[str, int]]) -> RowChart:
    """A chart of what has names that are sentences, in the order in which it is given.

    Args:
        title: What it shows.
        counts: Names, and how often; none is negative.
    """
    assert all(count >= 0 for _, count in counts), "bars begin at the left"
    largest = max((count for _, count in counts), default=0)
    if not largest:
        return RowChart(title, f"{title}: {NO_DATA}.", WIDTH, 0, ROW_BAR, (), ())
    first, most = max(counts, key=lambda one: one[1])
    return RowChart(
        title=title,
        summary=f"{title}. Most often: {first}, {most}.",
        width=WIDTH,
        height=ROW_HEIGHT * len(counts),
        thick=ROW_BAR,
        rows=tuple(_row(n, words, count, largest) for n, (words, count) in enumerate(counts)),
        table=tuple((words, str(count)) for words, count in counts),
    )


def _row(n: int, words: str, count: int, largest: int) -> Row:
    top = ROW_HEIGHT * n
    width = max(HEIGHT_MIN, count * 1_000_000 // largest / 1_000_000 * (WIDTH - ROW_NUMBER)) if count else 0.0
    shown = words if len(words) <= ROW_LETTERS else f"{words[: ROW_LETTERS - 1]}…"
    return Row(top + 14, top + 20, _near(width), shown, str(count), f"{words}: {count}")


def bar_chart(
    title: str,
    points: Sequence[Point],
    show: Callable[[int], str],
    *,
    highest: int | None = None,
    axis: Callable[[int], str] | None = None,
) -> BarChart:
    """A chart of values that are not negative.

    Args:
        title: What it shows.
        points: From left to right.
        show: A value in words, such as `12.50 USD`.
        highest: Where the axis ends; None: at a round number above the largest value.
        axis: A value beside the axis, where there is room for a few letters; None: as `show`.
    """
    values = [point.value or 0 for point in points]
    assert all(value >= 0 for value in values), "bars stand on the baseline"
    largest = max(values, default=0)
    top = round_above(largest) if highest is None else max(highest, largest)
    rows = tuple((point.label, NO_DATA if point.value is None else show(point.value)) for point in points)
    place = (WIDTH - LEFT) / max(1, len(points))
    return BarChart(
        title=title,
        summary=_summary(title, points, show),
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        bars=tuple(
            _bar(n, value, top, place, f"{label}: {words}")
            for n, (value, (label, words)) in enumerate(zip(values, rows, strict=True))
            if value
        ),
        ticks=tuple(_tick(n, top, axis or show) for n in range(TICKS + 1) if top * n % TICKS == 0),
        labels=_labels(points, place),
        rows=rows,
    )


def round_above(largest: int) -> int:
    """The first of 4, 8, 12, 20, 40, 80, 120, 200 … that is not below: a quarter of it is whole and short."""
    power = 1
    while True:
        for digits in (4, 8, 12, 20):
            if digits * power >= largest:
                return digits * power
        power *= 10


def _bar(n: int, value: int, top: int, place: float, title: str) -> Bar:
    width = min(BAR_WIDTH_MAX, place * (1 - GAP_SHARE))
    height = max(HEIGHT_MIN, _tall(value, top))
    x = LEFT + place * n + (place - width) / 2
    return Bar(_near(x), _near(HEIGHT - BOTTOM - height), _near(width), _near(height), title)


def _tick(n: int, top: int, show: Callable[[int], str]) -> Tick:
    value = top * n // TICKS
    return Tick(_near(HEIGHT - BOTTOM - _tall(value, top)), show(value))


def _labels(points: Sequence[Point], place: float) -> tuple[Tick, ...]:
    """Under every so manieth bar, counted from the last one: that is today."""
    step = -(-len(points) // LABELS_MAX) or 1
    shown = range(len(points) - 1, -1, -step)
    return tuple(Tick(_near(LEFT + place * (n + 0.5)), points[n].label) for n in reversed(shown))


def _summary(title: str, points: Sequence[Point], show: Callable[[int], str]) -> str:
    known = [point for point in points if point.value]
    if not known:
        return f"{title}: {NO_DATA}."
    most = max(known, key=lambda point: point.value or 0)
    assert most.value is not None
    return f"{title}, {points[0].label} to {points[-1].label}. Highest: {show(most.value)} on {most.label}."


def _tall(value: int, top: int) -> float:
    # In integers first: amounts of a coin with 18 decimals are larger than a float is exact.
    return value * 1_000_000 // top / 1_000_000 * (HEIGHT - BOTTOM - TOP)


def _near(length: float) -> float:
    return round(length, 2)
