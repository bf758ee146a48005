"""Counters of deliveries: nothing is lost, nothing grows, and one lying receiver moves nothing."""

from __future__ import annotations

import re
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.actors.webhook_stats import (
    ERROR_CLASSES,
    OTHER,
    SKEW_HOSTS_MAX,
    WebhookStats,
)
from payd.core.histogram import Histogram
from payd.net.http import Reply


def skewed(*skews_s: float) -> WebhookStats:
    """Numbers after one answer from each of some hosts."""
    stats = WebhookStats()
    for number, skew_s in enumerate(skews_s):
        stats.clock_skew(f"host{number}.example", skew_s)
    return stats


def test_attempts_are_counted_by_how_they_ended() -> None:
    stats = WebhookStats()
    stats.attempt("auto", None, 40)
    stats.attempt("replay", None, 40)
    stats.attempt("manual", "http_status", 20)

    assert stats.ok == 2
    assert stats.failed == dict.fromkeys((*ERROR_CLASSES, OTHER), 0) | {"http_status": 1}
    assert stats.attempt_s.count == 3
    assert stats.attempt_s.total == pytest.approx(0.1)


def test_error_classes_without_a_name_share_one_counter() -> None:
    stats = WebhookStats()
    for number in range(100):
        stats.attempt("auto", f"surprise_{number}", 1)

    assert stats.failed[OTHER] == 100
    assert len(stats.failed) == len(ERROR_CLASSES) + 1


def test_every_error_class_that_a_request_can_end_in_has_its_counter() -> None:
    words = re.search(r"else one of ([a-z_,\s]+)\.", Reply.__doc__ or "")
    assert words is not None
    documented = set(re.split(r",\s+", words[1]))

    assert "timeout_connect" in documented
    assert documented | {"http_status", "redirect"} <= set(ERROR_CLASSES)


def test_a_test_delivery_says_nothing_about_deliveries() -> None:
    stats = WebhookStats()
    stats.attempt("test", "dns_error", 3)
    stats.attempt("test", None, 3)

    assert (stats.ok, sum(stats.failed.values()), stats.attempt_s.count) == (0, 0, 0)


def test_the_time_to_the_first_attempt_is_kept_in_seconds() -> None:
    stats = WebhookStats()
    stats.first_attempt(20)
    stats.first_attempt(7_200_000)

    within = dict(stats.first_attempt_s.cumulative())
    assert (within[0.01], within[0.025], within[3600.0], within[inf]) == (0, 1, 1, 2)


def test_a_value_on_a_bound_is_within_it() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (1.0, 1.1, 2.0, 2.1):
        histogram.observe(value)

    assert histogram.cumulative() == [(1.0, 1), (2.0, 3), (inf, 4)]


@given(st.lists(st.floats(min_value=-1e6, max_value=1e6)))
def test_a_histogram_never_falls(values: list[float]) -> None:
    histogram = Histogram((0.1, 1.0, 10.0))
    before = histogram.total
    for value in values:
        histogram.observe(value)
        assert histogram.total >= before
        before = histogram.total

    counts = [count for _, count in histogram.cumulative()]
    assert counts == sorted(counts)
    assert counts[-1] == histogram.count == len(values)


def test_notices_are_counted_by_kind_and_kinds_do_not_grow() -> None:
    stats = WebhookStats()
    assert stats.notices == {"warning": 0, "disabled": 0, "recovered": 0}
    for kind in ("warning", "warning", "disabled", "new", "newer"):
        stats.noticed(kind)

    assert stats.notices == {"warning": 2, "disabled": 1, "recovered": 0, OTHER: 2}


@pytest.mark.parametrize(
    ("skews_s", "expected_s"),
    [
        ((), None),
        ((1.0, 90.0, 91.0), 90.0),
    ],
)
def test_the_skew_is_what_the_middle_of_the_hosts_says(
    skews_s: tuple[float, ...], expected_s: float | None
) -> None:
    assert skewed(*skews_s).skew_s == expected_s


@given(st.lists(st.floats(-2.0, 2.0), min_size=1, max_size=19), st.floats(-1e9, 1e9))
def test_one_lying_receiver_moves_the_skew_of_no_honest_one(honest_s: list[float], lie_s: float) -> None:
    stats = skewed(*honest_s)
    for _ in range(50):
        stats.clock_skew("liar.example", lie_s)

    assert stats.skew_s is not None
    assert -2.0 <= stats.skew_s <= 2.0


def test_a_host_has_one_word_and_it_is_its_last() -> None:
    stats = skewed(300.0, 300.0, 300.0)
    for number in range(3):
        stats.clock_skew(f"host{number}.example", 1.0)

    assert stats.skew_s == 1.0


def test_only_the_hosts_that_answered_last_are_asked() -> None:
    stats = skewed(*[300.0] * SKEW_HOSTS_MAX)
    stats.clock_skew("host0.example", 300.0)
    for number in range(SKEW_HOSTS_MAX - 1):
        stats.clock_skew(f"later{number}.example", 0.0)
        assert len(stats._skews) <= SKEW_HOSTS_MAX

    assert stats._skews.pop("host0.example") == 300.0
    assert set(stats._skews.values()) == {0.0}


def test_the_canarys_age_runs_from_the_last_that_arrived() -> None:
    stats = WebhookStats()
    assert stats.canary_age_s(50.0) is None
    stats.canary(True, 12, 100.0)
    stats.canary(False, 15_000, 160.0)

    assert stats.canary_age_s(170.0) == 70.0
    assert (stats.canary_ok_at_s, stats.canary_took_s) == (100.0, 0.012)
    assert stats.canaries == {True: 1, False: 1}


def test_a_canary_that_never_arrived_grows_old_too() -> None:
    stats = WebhookStats()
    stats.canary(False, 15_000, 100.0)
    stats.canary(False, 15_000, 160.0)

    assert stats.canary_age_s(190.0) == 90.0
    assert stats.canary_ok_at_s is None
