"""Charts: every bar is inside its picture, as tall as its value, and in the table as well."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.web.dashboard.charts import (
    BOTTOM,
    HEIGHT,
    HEIGHT_MIN,
    LABELS_MAX,
    LEFT,
    ROW_LETTERS,
    ROW_NUMBER,
    TOP,
    WIDTH,
    Point,
    bar_chart,
    round_above,
    row_chart,
)

VALUES = st.lists(st.one_of(st.none(), st.integers(0, 10**24)), max_size=100)


def days(*values: int | None) -> list[Point]:
    return [Point(f"{n + 1} May", value) for n, value in enumerate(values)]


def test_a_bar_is_as_tall_as_its_value_and_says_it() -> None:
    chart = bar_chart("Payments a day", days(4, 0, 2, None), str)

    assert [bar.title for bar in chart.bars] == ["1 May: 4", "3 May: 2"]
    assert chart.bars[0].height == HEIGHT - BOTTOM - TOP
    assert chart.bars[1].height == chart.bars[0].height / 2
    assert chart.bars[0].y == TOP
    assert chart.rows == (("1 May", "4"), ("2 May", "0"), ("3 May", "2"), ("4 May", "no data"))
    assert chart.summary == "Payments a day, 1 May to 4 May. Highest: 4 on 1 May."
    assert [tick.label for tick in chart.ticks] == ["0", "1", "2", "3", "4"]


def test_nothing_at_all_is_said_and_not_drawn() -> None:
    for points in ([], days(0, None, 0)):
        chart = bar_chart("Volume in EUR", points, str)
        assert chart.bars == ()
        assert chart.summary == "Volume in EUR: no data."


def test_an_axis_can_end_where_it_must() -> None:
    chart = bar_chart("Success rate", days(50), "{}%".format, highest=100)

    assert chart.bars[0].height == (HEIGHT - BOTTOM - TOP) / 2
    assert chart.ticks[-1].label == "100%"


@given(VALUES)
def test_every_bar_is_inside_and_none_touches_the_next(values: list[int | None]) -> None:
    chart = bar_chart("Any", days(*values), str)

    assert len(chart.bars) == sum(1 for value in values if value)
    assert len(chart.rows) == len(values)
    assert len(chart.labels) <= LABELS_MAX
    for bar in chart.bars:
        assert LEFT <= bar.x <= bar.x + bar.width <= WIDTH + 0.01
        assert TOP - 0.01 <= bar.y <= HEIGHT - BOTTOM
        assert bar.height >= HEIGHT_MIN
        assert bar.y + bar.height == pytest.approx(HEIGHT - BOTTOM, abs=0.02)
    for left, right in zip(chart.bars, chart.bars[1:], strict=False):
        assert left.x + left.width < right.x
    if values:
        assert chart.labels[-1].label == f"{len(values)} May"


@given(st.integers(0, 10**24))
def test_an_axis_ends_at_a_short_number_not_far_above(largest: int) -> None:
    top = round_above(largest)

    assert top >= largest
    assert top <= max(4, 2 * largest)
    assert top % 4 == 0
    assert len(str(top).rstrip("0")) <= 2


def test_a_bar_that_lies_is_as_long_as_its_count_and_says_its_words_whole() -> None:
    long = "x" * (ROW_LETTERS + 1)
    chart = row_chart("Failures", [("Refused", 4), (long, 2), ("Never", 0)])

    assert [row.width for row in chart.rows] == [WIDTH - ROW_NUMBER, (WIDTH - ROW_NUMBER) / 2, 0]
    assert [row.words for row in chart.rows] == ["Refused", f"{long[: ROW_LETTERS - 1]}…", "Never"]
    assert [row.title for row in chart.rows] == ["Refused: 4", f"{long}: 2", "Never: 0"]
    assert chart.table == (("Refused", "4"), (long, "2"), ("Never", "0"))
    assert chart.summary == "Failures. Most often: Refused, 4."
    for nothing in ([], [("Never", 0)]):
        empty = row_chart("Failures", nothing)
        assert (empty.rows, empty.summary) == ((), "Failures: no data.")


@given(st.lists(st.tuples(st.text(max_size=200), st.integers(0, 10**24)), max_size=30))
def test_every_bar_that_lies_is_inside_below_the_one_before_and_leaves_room_for_its_number(
    counts: list[tuple[str, int]],
) -> None:
    chart = row_chart("Any", counts)

    ends = [0.0]
    for row in chart.rows:
        assert 0 <= row.width <= WIDTH - ROW_NUMBER
        assert ends[-1] < row.words_y < row.bar_y
        ends.append(row.bar_y + chart.thick)
    assert ends[-1] <= chart.height
    assert all(row.width > 0 for row, (_, count) in zip(chart.rows, counts, strict=False) if count)
