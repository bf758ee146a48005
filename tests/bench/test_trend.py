"""What grows is seen in any noise, what is flat is let be, and what fills first is let fill."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Literal

import pytest

from tests.bench.trend import BARS, HEADER, Watched, slope, sparkline, trend_line

AT_S = [2.0 * number for number in range(450)]
"""A quarter of an hour."""
MIB = 100.0


def noisy(
    value: Callable[[float], float], seed: int, noise: float = 2.0, spikes: float = 40.0
) -> list[float]:
    """Samples with noise on each and a spike on one of twenty, such as a backup makes."""
    dice = Random(seed)
    return [
        value(at_s) + dice.gauss(0, noise) + (spikes * dice.random() if dice.random() < 0.05 else 0)
        for at_s in AT_S
    ]


def watched(
    values: list[float],
    bound: Literal["growth", "share", "highest"] = "share",
    most: float | None = 0.05,
    at_s: list[float] = AT_S,
) -> Watched:
    """A figure with this bound."""
    return Watched("memory (MiB)", at_s, values, 1, bound, most)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_flat_and_noisy_holds(seed: int) -> None:
    flat = watched(noisy(lambda _at_s: MIB, seed))

    assert flat.holds
    assert trend_line(flat)[6] == ""


@pytest.mark.parametrize("seed", range(20))
def test_a_leak_in_the_noise_is_seen(seed: int) -> None:
    """A MiB a minute: 7.5 in the second half."""
    leaking = watched(noisy(lambda at_s: MIB + at_s / 60, seed))

    assert not leaking.holds
    assert leaking.growth == pytest.approx(7.5, rel=0.25)
    assert trend_line(leaking)[6] == "**grows**"


def test_a_leak_of_one_descriptor_a_minute_is_seen() -> None:
    some = noisy(lambda at_s: 60 + at_s // 60, 3, noise=3.0, spikes=20.0)
    none = noisy(lambda _at_s: 60, 3, noise=3.0, spikes=20.0)

    assert not watched(some, "growth", 4).holds
    assert watched(none, "growth", 4).holds


def test_what_fills_in_the_first_half_may() -> None:
    filling = watched(noisy(lambda at_s: min(MIB, MIB * at_s / 400), 5))

    assert filling.holds


def test_what_shrinks_holds() -> None:
    assert watched(noisy(lambda at_s: MIB - at_s / 30, 6)).holds


def test_one_sample_of_the_second_half_breaks_a_bound_of_all_and_none_of_the_first_does() -> None:
    log = [1.0] * len(AT_S)
    log[10] = 50.0
    assert watched(log, "highest", 32.0).holds

    log[-10] = 50.0
    assert not watched(log, "highest", 32.0).holds


def test_what_nobody_judges_holds_and_is_shown() -> None:
    free = watched([at_s for at_s in AT_S], most=None)

    assert free.holds
    assert len(trend_line(free)) == len(HEADER)
    assert trend_line(free)[4] == "+448.0"


def test_a_slope_is_that_of_most_samples() -> None:
    values = [3 * at_s for at_s in AT_S]
    values[::10] = [1e6] * len(values[::10])

    assert slope(AT_S, values) == pytest.approx(3, rel=0.1)
    assert slope([1.0], [5.0]) == 0


def test_a_sparkline_begins_at_nothing() -> None:
    assert sparkline([10.0] * 64) == BARS[-1] * 32
    assert sparkline([0.0, 1.0, 2.0]) == "▁▅█"
    assert sparkline([0.0]) == BARS[0]
