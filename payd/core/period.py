"""Days as a person counts them: by an offset from UTC, over Unix milliseconds.

An offset and no zone: what a browser says without being asked for a place. Every offset in use is whole
quarters of an hour, so that numbers kept by the quarter add up to anybody's day. Days that somebody names may
be of another season, though, and an offset of today's moves the end of a year: there a place counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta, tzinfo
from typing import Final

import msgspec

from payd.core.errors import InvalidParams

DAY_MS: Final = 86_400_000
QUARTER_MIN: Final = 15
QUARTER_MS: Final = QUARTER_MIN * 60_000
# The furthest that any place is from UTC, west and east.
OFFSET_MIN_LOWEST: Final = -12 * 60
OFFSET_MIN_HIGHEST: Final = 14 * 60

_EPOCH: Final = date(1970, 1, 1)


class Days(msgspec.Struct, frozen=True):
    """Some days in a row, both ends included.

    Attributes:
        offset_min: Minutes that the person's clock is ahead of UTC.
    """

    first: date
    last: date
    offset_min: int = 0

    def __iter__(self) -> Iterator[date]:
        """Each day, oldest first."""
        return (self.first + timedelta(days=n) for n in range((self.last - self.first).days + 1))

    @property
    def start_ms(self) -> int:
        """When the first one begins."""
        return day_start_ms(self.first, self.offset_min)

    @property
    def end_ms(self) -> int:
        """When the last one is over."""
        return day_start_ms(self.last, self.offset_min) + DAY_MS


def check_offset(offset_min: int) -> int:
    """The offset, if a clock somewhere has it.

    Raises:
        InvalidParams: None has.
    """
    if offset_min % QUARTER_MIN or not OFFSET_MIN_LOWEST <= offset_min <= OFFSET_MIN_HIGHEST:
        raise InvalidParams("The offset from UTC must be whole quarters of an hour, from -12:00 to +14:00.")
    return offset_min


def day_of(at_ms: int, offset_min: int) -> date:
    """The day on which it was, by that clock."""
    return _EPOCH + timedelta(days=(at_ms + offset_min * 60_000) // DAY_MS)


def day_start_ms(day: date, offset_min: int) -> int:
    """When a day begins, by that clock."""
    return (day - _EPOCH).days * DAY_MS - offset_min * 60_000


def last_days(now_ms: int, count: int, offset_min: int) -> Days:
    """Today and the days before it, `count` in all."""
    today = day_of(now_ms, offset_min)
    return Days(today - timedelta(days=count - 1), today, offset_min)


def bounds_ms(
    first: str | None, last: str | None, offset_min: int, place: tzinfo | None = None
) -> tuple[int | None, int | None]:
    """From when up to when a filter reaches: the first day's beginning, and the end of the last one.

    Args:
        first: Such as `2026-05-18`; None or empty: no bound.
        last: Likewise; the day belongs to it.
        offset_min: Of the person's clock, today.
        place: Where that clock is, and what it showed on each day; None: nobody knows, and the offset holds.

    Raises:
        InvalidParams: One is no date, or they are the wrong way round.
    """
    check_offset(offset_min)
    start, end = _day(first), _day(last)
    if start is not None and end is not None and end < start:
        raise InvalidParams("The first day is after the last one.")
    return (
        None if start is None else _begins_ms(start, offset_min, place),
        None if end is None else _begins_ms(end + timedelta(days=1), offset_min, place),
    )


def _begins_ms(day: date, offset_min: int, place: tzinfo | None) -> int:
    if place is None:
        return day_start_ms(day, offset_min)
    return round(datetime(day.year, day.month, day.day, tzinfo=place).timestamp() * 1000)


def _day(text: str | None) -> date | None:
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = None
    if day is None or not 1970 <= day.year <= 9000:
        raise InvalidParams("A date is written like 2026-05-18.")
    return day
