"""Days by somebody's clock: each instant is in exactly one of them."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.core.errors import InvalidParams
from payd.core.period import (
    DAY_MS,
    Days,
    bounds_ms,
    day_of,
    day_start_ms,
    last_days,
)

NOON_MS = 1_779_105_600_000  # 2026-05-18T12:00:00Z
OFFSETS = st.integers(-48, 56).map(lambda quarters: quarters * 15)


def test_a_day_begins_and_ends_where_its_person_is() -> None:
    assert day_of(NOON_MS, 0) == date(2026, 5, 18)
    assert day_of(NOON_MS, 12 * 60) == date(2026, 5, 19)
    assert day_of(NOON_MS - 1, 12 * 60) == date(2026, 5, 18)
    assert day_start_ms(date(2026, 5, 19), 12 * 60) == NOON_MS


@given(st.integers(0, 4_000_000_000_000), OFFSETS)
def test_every_instant_is_within_its_own_day(at_ms: int, offset_min: int) -> None:
    day = day_of(at_ms, offset_min)
    start_ms = day_start_ms(day, offset_min)

    assert start_ms <= at_ms < start_ms + DAY_MS
    assert start_ms % (15 * 60_000) == 0


def test_a_filter_takes_both_of_its_days_whole() -> None:
    start_ms, end_ms = bounds_ms("2026-05-18", "2026-05-18", 330)

    assert start_ms == NOON_MS - 12 * 3_600_000 - 330 * 60_000
    assert end_ms == start_ms + DAY_MS
    assert bounds_ms("", None, 0) == (None, None)
    assert bounds_ms("2026-05-18", "", 0) == (NOON_MS - DAY_MS // 2, None)


@pytest.mark.parametrize(
    ("first", "last", "offset_min"),
    [
        ("yesterday", None, 0),
        ("2026-02-30", None, 0),
        ("0001-01-01", None, 0),
        ("2026-05-19", "2026-05-18", 0),
        (None, None, 7),
        (None, None, 15 * 60),
    ],
)
def test_what_is_no_day_or_no_clock_is_refused(first: str | None, last: str | None, offset_min: int) -> None:
    with pytest.raises(InvalidParams):
        bounds_ms(first, last, offset_min)


def test_the_last_days_end_today() -> None:
    days = last_days(NOON_MS, 3, 0)

    assert list(days) == [date(2026, 5, 16), date(2026, 5, 17), date(2026, 5, 18)]
    assert days == Days(date(2026, 5, 16), date(2026, 5, 18))
    assert days.end_ms - days.start_ms == 3 * DAY_MS
