"""Days that are over are added up once: what is kept is what the rows say, for these days and this clock."""

from __future__ import annotations

import pytest

from payd.core.period import DAY_MS, Days, day_of, last_days
from payd.core.tally import Counted, Tally, numbers_by_day
from payd.web.dashboard.home_numbers import DAYS, home_numbers
from payd.web.ended_days import GRACE_MS, KEPT_MS, EndedDays, block_of, split
from tests.shop import START_MS, Shop
from tests.statements import overheard
from tests.web.dashboard.test_home_numbers import fill
from tests.web.dashboard.test_visit import visit

MIDNIGHT_MS = START_MS // DAY_MS * DAY_MS
WEEK = last_days(MIDNIGHT_MS, 7, 0)


def block(days: Days = WEEK, now_ms: int = MIDNIGHT_MS) -> EndedDays:
    kept = EndedDays()
    kept.keep("acct_1", block_of(days, (), now_ms))
    return kept


@pytest.mark.parametrize(
    ("now_ms", "over"),
    [
        (MIDNIGHT_MS + GRACE_MS, 6),
        (MIDNIGHT_MS + GRACE_MS - 1, 5),
        (MIDNIGHT_MS, 5),
        (MIDNIGHT_MS + DAY_MS - 1, 6),
    ],
)
def test_yesterday_is_over_once_its_last_payments_are_written_down(now_ms: int, over: int) -> None:
    ended, rest = split(WEEK, now_ms)

    assert [*ended, *rest] == [*WEEK]
    assert len([*ended]) == over


@pytest.mark.parametrize("offset_min", [-720, 345, 840])
def test_days_end_by_the_clock_of_who_looks(offset_min: int) -> None:
    days = last_days(START_MS, 7, offset_min)
    ended, rest = split(days, START_MS)

    assert ended.offset_min == rest.offset_min == offset_min
    assert ended.end_ms == rest.start_ms <= START_MS
    assert rest.last == day_of(START_MS, offset_min)


def test_what_is_kept_is_found_for_the_same_days_account_and_clock_and_not_for_ever() -> None:
    kept = block()

    assert kept.find("acct_1", WEEK, MIDNIGHT_MS) is not None
    assert kept.find("acct_1", WEEK, MIDNIGHT_MS + KEPT_MS - 1) is not None
    assert kept.find("acct_1", WEEK, MIDNIGHT_MS + KEPT_MS) is None
    assert kept.find("acct_1", WEEK, MIDNIGHT_MS - 1) is None, "the wall clock was set back"
    assert kept.find("acct_2", WEEK, MIDNIGHT_MS) is None
    assert kept.find("acct_1", Days(WEEK.first, WEEK.last, 60), MIDNIGHT_MS) is None
    assert kept.find("acct_1", last_days(MIDNIGHT_MS + DAY_MS, 7, 0), MIDNIGHT_MS) is None


def test_who_was_looked_at_longest_ago_makes_room() -> None:
    kept = EndedDays(blocks_max=2)
    for account_id in ("acct_1", "acct_2", "acct_1", "acct_3"):
        kept.keep(account_id, block_of(WEEK, (), MIDNIGHT_MS))

    assert len(kept) == 2
    assert kept.find("acct_1", WEEK, MIDNIGHT_MS) is not None
    assert kept.find("acct_2", WEEK, MIDNIGHT_MS) is None


def test_a_block_has_each_days_numbers_and_what_all_came_to() -> None:
    counted = [
        Counted(WEEK.first, Tally("succeeded", "EUR", 2, 700)),
        Counted(WEEK.last, Tally("succeeded", "EUR", 1, 50)),
        Counted(WEEK.last, Tally("failed", "reverted")),
    ]
    made = block_of(WEEK, iter(counted), MIDNIGHT_MS)

    assert made.by_day == numbers_by_day(WEEK, counted)
    assert made.tallies == (Tally("succeeded", "EUR", 3, 750), Tally("failed", "reverted"))


async def test_a_second_look_at_home_adds_up_today_alone_and_says_the_same(shop: Shop) -> None:
    for days_ago in range(4):
        await fill(shop, "succeeded", "failed", "expired", days_ago=days_ago)
    first = await home_numbers(visit(shop))

    with overheard(shop.realm.db) as heard:
        second = await home_numbers(visit(shop))

    (today,) = [one for one in heard if "tallies" in one]
    start_ms = last_days(shop.realm.clock.now_ms(), 1, 0).start_ms
    assert f"at_ms >= {start_ms}" in today
    assert second == first
    assert first.reasons.rows[0].number == "4"


async def test_what_ends_after_a_look_is_in_the_next_one(shop: Shop) -> None:
    await fill(shop, "failed", days_ago=2)
    await home_numbers(visit(shop))
    await fill(shop, "failed", reason="reverted")
    numbers = await home_numbers(visit(shop))

    assert dict(numbers.reasons.table) == {"cancelled_by_user": "1", "reverted": "1"}


async def test_the_kept_days_are_of_one_account(shop: Shop) -> None:
    await fill(shop, "failed", days_ago=2)
    now_ms = shop.realm.clock.now_ms()
    over, _ = split(last_days(now_ms, DAYS, 0), now_ms)
    shop.realm.ended_days.keep("acct_other", block_of(over, (), now_ms))

    assert (await home_numbers(visit(shop))).reasons.rows[0].number == "1"
