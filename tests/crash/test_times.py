"""What falls due by a clock that is set, in houses that die: never too early, certain where one was up."""

from __future__ import annotations

from math import inf

from payd.clock import RECHECK_S
from tests.crash.times import SOON_S, Times


def lived(*lives: tuple[float, float]) -> Times:
    """A clock that nobody sets, and houses."""
    times = Times()
    for up_s, down_s in lives:
        times.up(up_s)
        times.down(down_s)
    return times


def test_what_is_due_is_done_soon_in_a_house_that_is_up() -> None:
    times = lived((0.0, 100.0))

    assert times.first(20_000, 5.0) == 20.0
    assert times.certain(20_000, 5.0) == 20.0 + SOON_S
    assert times.certain(98_000, 5.0) == inf, "it died"


def test_what_falls_due_while_no_house_is_up_is_done_after_the_next_start() -> None:
    times = lived((0.0, 10.0), (50.0, 52.0), (60.0, 99.0))

    assert times.first(20_000, 5.0) == 20.0
    assert times.certain(20_000, 5.0) == 60.0 + SOON_S


def test_a_clock_that_is_set_ahead_shows_it_sooner_and_who_sleeps_wakes_up_later() -> None:
    times = lived((0.0, 100.0))
    times.set_clock(12_000, 7.0)

    assert times.first(20_000, 5.0) == 8.0
    assert times.certain(20_000, 5.0) == 7.0 + RECHECK_S + SOON_S
    assert times.shown_ms(5.0, 8.0) == (5000, 20_001)


def test_a_clock_that_is_set_back_may_have_shown_it_or_not() -> None:
    times = lived((0.0, 100.0))
    times.set_clock(12_000, 7.0)
    times.set_clock(0, 9.0)

    assert times.first(20_000, 5.0) == 8.0
    assert times.certain(20_000, 5.0) == 9.0 + RECHECK_S + SOON_S
    assert times.first(25_000, 5.0) == 25.0


def test_setting_it_while_it_shows_that_anyway_changes_nothing() -> None:
    times = lived((0.0, 100.0))
    times.set_clock(2000, 21.0)

    assert times.certain(20_000, 5.0) == 20.0 + SOON_S
