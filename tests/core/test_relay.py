"""When a call is tried again that the chain refused."""

from __future__ import annotations

from payd.core.relay import REFUSALS_MAX, retry_delay_ms


def test_the_delay_doubles_from_half_a_minute_to_eight_minutes() -> None:
    delays_s = [retry_delay_ms(tries) // 1000 for tries in range(1, 8)]
    assert delays_s == [30, 60, 120, 240, 480, 480, 480]
    assert retry_delay_ms(10_000) == 480_000


def test_a_call_is_not_refused_for_good_within_two_minutes() -> None:
    assert sum(retry_delay_ms(tries) for tries in range(1, REFUSALS_MAX)) >= 120_000
