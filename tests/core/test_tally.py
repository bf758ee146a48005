"""Tallies: what is counted when a payment ends, and what many counts come to."""

from __future__ import annotations

from datetime import date
from statistics import median_low

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.core.payment import open_payment, transition
from payd.core.period import Days
from payd.core.tally import (
    REASON_MAX,
    SECONDS_END,
    Counted,
    Tally,
    added_up,
    median_s,
    numbers_by_day,
    numbers_of,
    rounded_s,
    tallies_of,
)
from tests.ledger import triggers_to
from tests.store.test_payments import payment


def counted(state: str, *, reason: str = "no", took_ms: int = 5000) -> list[tuple[Tally, ...]]:
    """What each transition on the way to a state adds."""
    draft = payment(1, currency="EUR", value=1250)
    moved = open_payment(draft)
    added = [tallies_of(moved)]
    for trigger in triggers_to(state, tx_id="0x1", reason=reason):
        moved = transition(moved.payment, trigger, draft.created_at_ms + took_ms)
        added.append(tallies_of(moved))
    return added


@pytest.mark.parametrize(
    ("state", "tallies"),
    [
        ("requires_action", ()),
        ("processing", ()),
        ("succeeded", (Tally("succeeded", "EUR", value=1250), Tally("took", "5"))),
        ("failed", (Tally("failed", "no"),)),
        ("failed_after", (Tally("failed", "no"),)),
        ("expired", (Tally("expired", ""),)),
        ("cancelled", (Tally("cancelled", "no"),)),
    ],
)
def test_a_payment_is_counted_where_it_ends_and_only_there(state: str, tallies: tuple[Tally, ...]) -> None:
    *before, last = counted(state)

    assert last == tallies
    assert not any(before)


def test_a_settlement_counts_nothing_again() -> None:
    assert [bool(added) for added in counted("settled")] == [False, False, True, False]


def test_a_reason_is_kept_to_a_length() -> None:
    assert counted("failed", reason="x" * 999)[-1][0].name == "x" * REASON_MAX


@given(st.integers(0, 10**7))
def test_seconds_are_counted_to_an_eighth_or_better(seconds: int) -> None:
    start = rounded_s(seconds)

    assert start <= seconds
    assert rounded_s(start) == start
    assert start == SECONDS_END or seconds - start < max(1, seconds / 8)


@given(st.lists(st.integers(0, SECONDS_END - 1), min_size=1))
def test_the_median_is_near_the_true_one(seconds: list[int]) -> None:
    steps: dict[int, int] = {}
    for one in seconds:
        steps[rounded_s(one)] = steps.get(rounded_s(one), 0) + 1
    true = sorted(seconds)[len(seconds) // 2]

    found = median_s(steps)
    assert found is not None
    assert abs(found - true) <= true / 8
    assert rounded_s(median_low(seconds)) <= rounded_s(true)


def test_numbers_keep_currencies_apart_and_say_nothing_of_nothing() -> None:
    none = numbers_of([])
    assert (none.ended, none.success_permille, none.median_s, none.volume) == (0, None, None, {})
    some = numbers_of(
        [
            Tally("succeeded", "USD", 2, 500),
            Tally("succeeded", "EUR", 1, 10**20),
            Tally("succeeded", "USD", 1, 1),
            Tally("took", "4", 3),
            Tally("failed", "a", 1),
            Tally("failed", "b", 2),
            Tally("expired", "", 1),
            Tally("cancelled", "cancelled_by_user", 1),
        ]
    )

    assert some.volume == {"EUR": 10**20, "USD": 501}
    assert list(some.reasons.items()) == [("b", 2), ("a", 1)]
    assert (some.succeeded, some.failed, some.expired, some.cancelled, some.ended) == (4, 3, 1, 1, 9)
    assert some.success_permille == 444
    assert some.median_s == 4


def test_a_day_without_payments_is_there() -> None:
    days = Days(date(2026, 5, 17), date(2026, 5, 18))
    numbers = numbers_by_day(days, [Counted(date(2026, 5, 18), Tally("expired", ""))])

    assert [(day, one.ended) for day, one in numbers.items()] == [
        (date(2026, 5, 17), 0),
        (date(2026, 5, 18), 1),
    ]


def test_the_same_thing_is_added_up_and_different_things_are_not() -> None:
    tallies = [Tally("succeeded", "EUR", 1, 5), Tally("failed", "EUR"), Tally("succeeded", "EUR", 2, 7)]

    assert added_up(tallies) == (Tally("succeeded", "EUR", 3, 12), Tally("failed", "EUR"))
    assert numbers_of(added_up(tallies)) == numbers_of(tallies)
