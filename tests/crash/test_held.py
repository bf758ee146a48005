"""What an answer tells of a destination, and what it may not say; also after a restore."""

from __future__ import annotations

from collections import Counter

from trio.testing import MockClock

from tests.crash.changes import Changes, Course
from tests.crash.held import Held, Shown, asked_last, shown_in

OLD, NEW, OTHER = "0x01", "0x02", "0x03"
DELAY_S = 60


class Stand:
    """A destination that goes to the old wallet; a change to the new one was asked for in this moment."""

    def __init__(self) -> None:
        self.changes = Changes(delay_s=Course(DELAY_S))
        self.happened: Counter[str] = Counter()
        self.held = Held(self.changes, self.happened)
        self.now_s = self.changes.now_s()
        self.changes.times.up(self.now_s)
        self.course = self.changes.course("mrch_1", "eip155:1/slip44:60")
        self.course.first = OLD
        self.course.change(NEW, self.now_s)
        self.due_ms = round(self.now_s + DELAY_S) * 1000

    def waits(self) -> Shown:
        """The answer that it is held back."""
        shown = Shown(OLD, NEW, self.due_ms)
        assert self.held.changed(self.course, shown, self.now_s) is None
        return shown


async def test_a_change_waits_for_as_long_as_is_set_and_no_answer_says_otherwise(
    autojump_clock: MockClock,
) -> None:
    assert Stand().waits()
    for wrong in (Shown(NEW), Shown(OLD, OTHER, 0), Shown(OTHER, NEW, 0), Shown(OLD, NEW, 0)):
        stand = Stand()
        assert stand.held.changed(stand.course, wrong, stand.now_s), wrong


async def test_what_waits_is_there_until_it_is_due_and_then_made(autojump_clock: MockClock) -> None:
    stand = Stand()
    waits = stand.waits()
    assert stand.held.looked(stand.course, waits, stand.now_s) is None
    assert stand.held.looked(stand.course, Shown(NEW), stand.now_s), "too early"
    assert stand.held.looked(stand.course, Shown(OLD), stand.now_s), "lost"
    assert stand.held.looked(stand.course, waits, stand.now_s + DELAY_S + 9), "overdue"

    stand.changes.began_s -= DELAY_S  # as if that had passed

    assert stand.held.looked(stand.course, Shown(NEW), stand.now_s) is None
    assert stand.course.waiting is None


async def test_what_was_taken_back_is_never_made(autojump_clock: MockClock) -> None:
    stand = Stand()
    stand.waits()

    assert stand.held.taken_back(stand.course, Shown(OLD), stand.now_s) is None
    assert stand.held.looked(stand.course, Shown(OLD), stand.now_s) is None
    assert stand.held.looked(stand.course, Shown(NEW), stand.now_s)


async def test_what_was_not_answered_when_a_backup_was_made_is_in_it_or_not(
    autojump_clock: MockClock,
) -> None:
    for shown, now in ((Shown(OLD), OLD), (Shown(OLD, NEW, Stand().due_ms), NEW)):
        stand = Stand()
        assert stand.held.restored(stand.course, shown) is None
        assert stand.course.now == now
        assert stand.course.unanswered is None
    for shown in (Shown(None), Shown(OTHER), Shown(OLD, OTHER, 0)):
        stand = Stand()
        assert stand.held.restored(stand.course, shown), shown


async def test_what_was_to_be_taken_back_then_waits_still_or_not(autojump_clock: MockClock) -> None:
    for is_taken_back in (True, False):
        stand = Stand()
        waits = stand.waits()
        stand.course.is_taking_back = True
        assert stand.held.restored(stand.course, Shown(OLD) if is_taken_back else waits) is None
        assert (stand.course.waiting is None) is is_taken_back

    stand = Stand()
    stand.waits()
    assert stand.held.restored(stand.course, Shown(OLD)), "nobody asked for that"


def test_what_is_shown_is_read_as_wallets() -> None:
    settlement = {
        "destination": "eip155:1:0xAB",
        "pending": {"destination": "eip155:1:0xCD", "appliesAt": "1970-01-01T00:00:01.500Z"},
    }

    assert shown_in(settlement) == Shown("0xab", "0xcd", 1500)
    assert asked_last(settlement) == "0xcd"
    assert asked_last({"destination": "eip155:1:0xAB"}) == "0xab"
    assert asked_last(None) is None
