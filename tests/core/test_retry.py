"""When a delivery is tried again."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.core.retry import (
    ATTEMPTS_MAX,
    JITTER_MAX_S,
    RETRY_AFTER_EXTRA_MAX_S,
    RETRY_DELAYS_S,
    next_attempt_at_ms,
    read_date_s,
    read_retry_after_s,
)

NOW_MS = 1_780_000_000_000
attempts = st.integers(0, ATTEMPTS_MAX - 1)
jitters = st.floats(0, 1)
hints = st.none() | st.integers(0, 10**7)


def due_ms(made: int, jitter: float = 0.0, retry_after_s: int | None = None) -> int:
    at_ms = next_attempt_at_ms(made, NOW_MS, jitter=jitter, retry_after_s=retry_after_s)
    assert at_ms is not None
    return at_ms - NOW_MS


def test_without_jitter_the_attempts_keep_to_the_schedule_to_the_millisecond() -> None:
    gaps_s = [due_ms(made) / 1000 for made in range(ATTEMPTS_MAX)]

    assert gaps_s == [0, 5, 300, 1800, 7200, 18000, 36000, 36000]


@pytest.mark.parametrize("made", [8, 9, 1000])
def test_after_eight_attempts_there_is_no_next(made: int) -> None:
    assert next_attempt_at_ms(made, NOW_MS) is None


@given(attempts, jitters, hints)
def test_an_attempt_is_never_early_and_at_most_jitter_and_ten_minutes_late(
    made: int, jitter: float, retry_after_s: int | None
) -> None:
    step_ms = RETRY_DELAYS_S[made] * 1000
    late_ms = due_ms(made, jitter, retry_after_s) - step_ms

    assert 0 <= late_ms <= min(step_ms / 10, JITTER_MAX_S * 1000) + RETRY_AFTER_EXTRA_MAX_S * 1000


@given(attempts, jitters)
def test_jitter_is_a_tenth_of_the_step_but_at_most_a_minute(made: int, jitter: float) -> None:
    step_ms = RETRY_DELAYS_S[made] * 1000

    assert due_ms(made, jitter) - step_ms == int(jitter * min(step_ms / 10, 60_000))


@pytest.mark.parametrize(("made", "largest_ms"), [(0, 0), (1, 500), (2, 30_000), (3, 60_000), (7, 60_000)])
def test_the_largest_jitter_of_a_step(made: int, largest_ms: int) -> None:
    assert due_ms(made, jitter=1.0) - due_ms(made) == largest_ms


@pytest.mark.parametrize(
    ("made", "asked_s", "wait_s"),
    [
        (1, 0, 5),
        (1, -7, 5),
        (1, 3, 5),
        (1, 60, 60),
        (1, 605, 605),
        (1, 606, 605),
        (1, 86400, 605),
        (6, 60, 36000),
        (6, 36100, 36100),
        (6, 99999, 36600),
    ],
)
def test_retry_after_lengthens_a_step_by_at_most_ten_minutes_and_never_shortens_it(
    made: int, asked_s: int, wait_s: int
) -> None:
    assert due_ms(made, retry_after_s=asked_s) == wait_s * 1000


def test_jitter_comes_on_top_of_what_the_receiver_asked_for() -> None:
    assert due_ms(1, jitter=1.0, retry_after_s=60) == 60_500


@pytest.mark.parametrize(("made", "jitter"), [(-1, 0.0), (1, -0.1), (1, 1.1), (1, float("nan"))])
def test_a_count_below_zero_and_jitter_outside_zero_to_one_are_refused(made: int, jitter: float) -> None:
    with pytest.raises(ValueError, match="jitter goes from 0 to 1"):
        next_attempt_at_ms(made, NOW_MS, jitter=jitter)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120),
        (" 120\t", 120),
        ("0", 0),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 37),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 37),
        ("Sun Nov  6 08:49:37 1994", 37),
        ("Sun, 06 Nov 1994 08:48:00 GMT", 0),
        (None, None),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("１２０", None),
        ("9" * 11, None),
        ("Sun, 99 Nov 1994 08:49:37 GMT", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(header: str | None, seconds: int | None) -> None:
    assert read_retry_after_s(503, header, now_s=784_111_740) == seconds


def test_a_date_without_a_zone_is_in_gmt_wherever_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        found = [read_date_s(f"Sun, 06 Nov 1994 08:49:37 {zone}") for zone in ("-0000", "GMT", "-0100")]
    time.tzset()

    assert found == [784_111_777, 784_111_777, 784_115_377]


@pytest.mark.parametrize(("status", "seconds"), [(429, 9), (503, 9), (500, None), (200, None), (301, None)])
def test_only_429_and_503_can_ask_for_patience(status: int, seconds: int | None) -> None:
    assert read_retry_after_s(status, "9", now_s=0) == seconds


@given(st.text(max_size=60))
def test_no_header_breaks_the_reading(header: str) -> None:
    seconds = read_retry_after_s(429, header, now_s=784_111_740)

    assert seconds is None or seconds >= 0
