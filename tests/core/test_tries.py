"""How long who failed has to wait."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from payd.core.tries import ACCOUNT, FORGOTTEN_MS, WAIT_MAX_MS, wait_ms

NOW = 1_780_000_000_000


def test_the_first_tries_are_free_and_each_after_waits_twice_as_long() -> None:
    waits = [wait_ms(ACCOUNT, failures, NOW, NOW) for failures in range(10)]
    assert waits == [0, 0, 0, 0, 0, 1000, 2000, 4000, 8000, 16000]


def test_a_wait_goes_by() -> None:
    assert wait_ms(ACCOUNT, 8, NOW, NOW + 7999) == 1
    assert wait_ms(ACCOUNT, 8, NOW, NOW + 8000) == 0


def test_who_failed_while_the_clock_was_wrong_does_not_wait_until_then() -> None:
    assert wait_ms(ACCOUNT, 99, NOW + 365 * FORGOTTEN_MS, NOW) == 0


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 50))
def test_nobody_waits_for_good(failures: int, since_ms: int) -> None:
    assert 0 <= wait_ms(ACCOUNT, failures, NOW, NOW + since_ms) <= WAIT_MAX_MS
    assert wait_ms(ACCOUNT, failures, NOW, NOW + FORGOTTEN_MS) == 0
