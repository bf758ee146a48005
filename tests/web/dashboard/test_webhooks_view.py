"""Words and times on the pages about webhooks."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from payd.core.errors import InvalidParams
from payd.core.event import iso_ms
from payd.web.dashboard.webhooks_view import (
    EXCERPT_BYTES,
    excerpt,
    host_of,
    instant_ms,
    last_word,
    pretty,
    shown_url,
    zone_word,
)


def clock(offset_min: int, place: str = "") -> dict[str, str]:
    """What the page's script says of the user's clock."""
    return {"cookie": f"payd-zone={offset_min}; payd-place={place}"}


@pytest.fixture
def in_tokyo() -> Iterator[None]:
    """The server's own zone, which says nothing of its user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_tokyo")
@pytest.mark.parametrize(
    ("text", "offset_min", "utc"),
    [
        ("2026-11-18T09:00", 0, "2026-11-18T09:00:00.000Z"),
        ("2026-11-18T09:00", 330, "2026-11-18T03:30:00.000Z"),
        ("2026-11-18T20:30:05", -480, "2026-11-19T04:30:05.000Z"),
        ("2026-11-18", 330, "2026-11-17T18:30:00.000Z"),
    ],
)
def test_a_local_time_is_told_by_the_users_clock(text: str, offset_min: int, utc: str) -> None:
    assert iso_ms(instant_ms(clock(offset_min), text, "since")) == utc


@pytest.mark.usefixtures("in_tokyo")
@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-10-23T09:00", "2026-10-23T07:00:00.000Z"),
        ("2026-10-26T09:00", "2026-10-26T08:00:00.000Z"),
        ("2026-10-25T02:30", "2026-10-25T00:30:00.000Z"),
    ],
)
@pytest.mark.parametrize("today_min", [60, 120])
def test_before_the_clocks_were_changed_it_is_told_by_what_they_showed(
    text: str, utc: str, today_min: int
) -> None:
    assert iso_ms(instant_ms(clock(today_min, "Europe/Berlin"), text, "since")) == utc


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-13-01T00:00", "0001-01-01T00:00", "2026-11-18T09:00Z"]
)
def test_what_is_no_time_is_refused_by_the_fields_name(text: str) -> None:
    with pytest.raises(InvalidParams, match="since must be a date"):
        instant_ms({}, text, "since")


def test_zones_have_names() -> None:
    named = [zone_word(clock(one)) for one in (0, 60, 330, -210)]
    assert named == ["UTC", "UTC+01:00", "UTC+05:30", "UTC-03:30"]
    assert zone_word(clock(0, "Asia/Kolkata")) == "Asia/Kolkata"


def test_an_attempt_ends_with_a_code_or_with_words() -> None:
    assert (last_word(503, "http_status"), last_word(None, "dns_error"), last_word(None, None)) == (
        "503",
        "its name does not resolve",
        "",
    )


def test_a_query_is_for_those_who_may_change_it() -> None:
    assert shown_url("https://a.test/x?key=1", whole=False) == "https://a.test/x?…"
    assert shown_url("https://a.test/x?key=1", whole=True) == "https://a.test/x?key=1"
    assert shown_url("https://a.test/x", whole=False) == "https://a.test/x"
    assert host_of("https://A.test:8443/x") == "a.test"


def test_bytes_become_text_and_events_readable() -> None:
    assert excerpt(b"ab\xffcd") == ("ab\ufffdcd", False)
    assert excerpt(b"\xff" * (EXCERPT_BYTES + 1)) == ("\ufffd" * EXCERPT_BYTES, True)
    assert pretty(b'{"a":1}') == '{\n  "a": 1\n}'
    assert pretty(b"\xff<") == "\ufffd<"
