"""Limits: tokens come back at their rate, slots when they are released, and memory stays bounded."""

from __future__ import annotations

import pytest

from payd.core.errors import RateLimited
from payd.web.limits import (
    FILES_BESIDES,
    POLLS_MAX,
    POLLS_PER_PAYMENT_MAX,
    RateLimit,
    Slots,
    connections_for,
    failed_auth_limit,
    poll_slots,
    refuse_for,
)


class Seconds:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


def test_twice_the_rate_goes_at_once_then_the_rate(seconds: Seconds) -> None:
    limit = RateLimit(10, now_s=seconds)
    assert [limit.take("a") for _ in range(20)] == [0.0] * 20
    assert limit.take("a") == pytest.approx(0.1)
    seconds.now += 1

    assert [limit.take("a") == 0 for _ in range(11)] == [True] * 10 + [False]


def test_who_is_refused_loses_nothing_by_asking(seconds: Seconds) -> None:
    limit = RateLimit(10, now_s=seconds)
    while not limit.take("a"):
        pass
    for _ in range(1000):
        limit.take("a")
    seconds.now += 0.1001

    assert limit.take("a") == 0


def test_each_key_has_its_own_bucket(seconds: Seconds) -> None:
    limit = RateLimit(1, now_s=seconds)
    while not limit.take("a"):
        pass

    assert limit.take("b") == 0


def test_silence_fills_a_bucket_and_not_more(seconds: Seconds) -> None:
    limit = RateLimit(1, now_s=seconds)
    limit.take("a")
    seconds.now += 3600

    assert [limit.take("a") == 0 for _ in range(3)] == [True, True, False]


def test_nought_is_off(seconds: Seconds) -> None:
    limit = RateLimit(0, now_s=seconds)
    assert not any(limit.take("a") for _ in range(10_000))
    assert len(limit) == 0


def test_keys_are_bounded_and_the_silent_one_makes_room(seconds: Seconds) -> None:
    limit = RateLimit(1, now_s=seconds, keys_max=3)
    for key in "abc":
        limit.take(key)
        limit.take(key)
    limit.take("a")  # refused: does not count as being there
    limit.take("d")

    assert len(limit) == 3
    assert limit.take("b") > 0, "still empty"
    assert limit.take("a") == 0, "forgotten, and with it what it had taken"


def test_who_asks_often_is_not_the_one_to_make_room(seconds: Seconds) -> None:
    limit = RateLimit(1, now_s=seconds, keys_max=2)
    for key in "abac":
        assert limit.take(key) == 0

    assert limit.take("a") > 0, "still empty"


def test_ten_failures_a_minute(seconds: Seconds) -> None:
    limit = failed_auth_limit(10, seconds)
    for _ in range(10):
        assert limit.take("ip") == 0

    assert limit.take("ip") == pytest.approx(6)
    seconds.now += 6.001
    assert limit.take("ip") == 0


def test_slots_are_limited_by_key_and_in_all() -> None:
    slots = Slots(total_max=3, per_key_max=2)
    assert [slots.try_take(key) for key in ("a", "a", "a", "b", "c")] == [True, True, False, True, False]
    slots.release("a")
    assert slots.try_take("c")


def test_released_slots_leave_nothing() -> None:
    slots = Slots(total_max=3, per_key_max=2)
    for key in "ab":
        slots.try_take(key)
    for key in "ab":
        slots.release(key)

    assert (slots.held, len(slots)) == (0, 0)


def test_a_refused_slot_is_not_held() -> None:
    slots = Slots(total_max=1, per_key_max=1)
    slots.try_take("a")
    slots.try_take("a")
    slots.release("a")

    assert slots.try_take("b")


def test_a_wait_is_told_in_whole_seconds_after_which_there_is_a_token() -> None:
    for wait_s, told_s in ((0.2, 1), (1.0, 1), (1.2, 2)):
        with pytest.raises(RateLimited) as refused:
            refuse_for(wait_s)
        assert refused.value.details == {"retryAfterS": told_s}


@pytest.mark.parametrize(("per_key_max", "key"), [(0, "a"), (1, "")])
def test_some_keys_have_no_limit_of_their_own(per_key_max: int, key: str) -> None:
    slots = Slots(total_max=5, per_key_max=per_key_max)
    assert [slots.try_take(key) for _ in range(6)] == [True] * 5 + [False]


def test_polls_are_held_four_a_payment() -> None:
    slots = poll_slots()
    assert [slots.try_take("pay_t1") for _ in range(5)] == [True] * POLLS_PER_PAYMENT_MAX + [False]
    assert slots.try_take("pay_t2")
    assert slots.total_max == POLLS_MAX


def test_slots_say_whose_fill_it_is() -> None:
    slots, filled = Slots(3, 2), []
    for key in ("a", "a", "b"):
        filled.append((slots.is_full, slots.has_its_fill("a")))
        slots.try_take(key)

    assert [*filled, (slots.is_full, slots.has_its_fill("a"))] == [
        (False, False),
        (False, False),
        (False, True),
        (True, True),
    ]
    assert [slots.has_its_fill(key) for key in ("b", "c", "")] == [False, False, False]


@pytest.mark.parametrize(
    ("files", "connections"),
    [(100_000, 100_000 - FILES_BESIDES), (1024, 512), (2 * FILES_BESIDES, FILES_BESIDES)],
)
def test_connections_leave_files_for_the_rest(files: int, connections: int) -> None:
    assert connections_for(files) == connections


def test_where_files_have_no_limit_connections_have_none_of_theirs() -> None:
    assert connections_for(-1) > 10**9
