"""What was changed and told: what may hold while nobody knows, and what holds for certain."""

from __future__ import annotations

from copy import deepcopy
from math import inf

from trio.testing import MockClock

from tests.crash.changes import Changes, Course

FIRST, SECOND, THIRD = "first", "second", "third"
ASSET = "eip155:1/slip44:60"


def changed() -> Course[str | None]:
    """From the first to the second in the fourth second, and to the third from the eighth on, unanswered."""
    course: Course[str | None] = Course(FIRST)
    course.change(SECOND, 3.0)
    course.done(4.0)
    course.change(THIRD, 8.0)
    return course


def test_both_may_hold_while_an_answer_is_awaited_and_one_before_and_after() -> None:
    course = changed()

    assert course.possible(0.0, 2.9) == {FIRST}
    assert course.possible(3.5, 3.6) == {FIRST, SECOND}
    assert course.possible(4.1, 7.9) == {SECOND}
    assert course.possible(9.0, 99.0) == {SECOND, THIRD}


def test_what_was_answered_holds_for_certain_and_what_was_withdrawn_never_did() -> None:
    course = changed()
    assert course.since(THIRD) == inf

    course.withdraw()

    assert (course.now, course.since(SECOND), course.since(FIRST)) == (SECOND, 4.0, inf)
    assert course.possible(9.0, 99.0) == {SECOND}
    assert course.was(SECOND, 3.0, 4.0)
    assert not course.was(SECOND, 3.5, 9.0)


def test_what_is_held_back_holds_from_when_it_is_due_and_is_certain_soon_after() -> None:
    course: Course[str | None] = Course(FIRST)
    course.times.up(0.0)
    course.change(SECOND, 3.0)
    course.changes[-1].due_ms = 20_000

    assert course.possible(4.0, 19.9) == {FIRST}
    assert course.possible(20.1, 20.2) == {FIRST, SECOND}
    assert course.possible(26.0, 99.0) == {SECOND}
    assert course.since(SECOND) == 25.0
    assert course.waiting is course.changes[-1]

    course.change(THIRD, 10.0)
    course.done(11.0)

    assert course.possible(12.0, 99.0) == {THIRD}, "it was taken over before it was due"
    assert course.waiting is None


async def test_money_concerns_somebody_where_a_merchant_is_paid_or_a_buyer_was_told(
    autojump_clock: MockClock,
) -> None:
    changes = Changes()
    changes.course("mrch_1", ASSET).first = FIRST
    assert changes.awaited_since(FIRST) == -inf
    assert changes.awaited_since(SECOND) == inf

    now_s = changes.now_s()
    changes.offer("pay_1", "mrch_1", ASSET, "", now_s)
    changes.offer("pay_1", "mrch_1", ASSET.upper(), SECOND, now_s)

    assert changes.wallet_of("pay_1", ASSET) == SECOND
    assert changes.awaited_since(SECOND) == changes.offered_since(ASSET) == now_s


async def test_a_merchant_may_refuse_while_it_is_closed_or_paid_nowhere(autojump_clock: MockClock) -> None:
    changes = Changes()
    course = changes.course("mrch_1", ASSET)
    course.first = FIRST
    now_s = changes.now_s()
    assert not changes.may_take_nothing("mrch_1", now_s)
    assert not changes.may_lack_routes("mrch_1", now_s)

    course.change(None, now_s)
    assert changes.may_take_nothing("mrch_1", now_s)

    course.withdraw()
    changes.open("mrch_1").change(False, now_s)
    assert changes.may_take_nothing("mrch_1", now_s)
    assert changes.may_lack_routes("mrch_1", now_s)

    changes.open("mrch_1").withdraw()
    changes.served.change(False, now_s)
    assert not changes.may_take_nothing("mrch_1", now_s)
    assert changes.may_be_unserved(now_s)
    assert changes.may_lack_routes("mrch_1", now_s)


async def test_what_came_after_a_backup_is_as_if_it_had_not_been(autojump_clock: MockClock) -> None:
    changes = Changes()
    changes.course("mrch_1", ASSET).first = FIRST
    changes.times.up(changes.now_s())
    then = deepcopy(changes)
    then.times.down(changes.now_s())
    changes.course("mrch_1", ASSET).change(SECOND, changes.now_s())
    changes.course("mrch_2", ASSET).first = SECOND
    changes.open("mrch_1").change(False, changes.now_s())
    changes.offer("pay_1", "mrch_1", ASSET, SECOND, changes.now_s())
    changes.merchants.append("mrch_2")
    changes.delay_s.change(60, changes.now_s())
    times = changes.times

    changes.go_back(then)

    assert changes.course("mrch_1", ASSET).now == FIRST
    assert changes.open("mrch_1").now
    assert (changes.offers, changes.merchants, list(changes.wallets)) == ([], [], [("mrch_1", ASSET)])
    assert changes.delay_s.now == 60, "a backup has no payd.toml"
    assert changes.course("mrch_1", ASSET).times is changes.times is times
    assert times.lives == then.times.lives
