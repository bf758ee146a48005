"""Destinations that change later than they were asked to: what each answer may say, and what it tells.

Who changes destinations is the only one who does, and knows by its answers what waits. What an answer may not
say is given in words.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from math import inf
from typing import Any, Final, NamedTuple

from tests.crash.changes import Change, Changes, Course, Vacated

HELD_CHANGES: Final = frozenset(
    {
        "change is held back",
        "held change is made",
        "held change is taken back",
        "held change is replaced",
        "held change is asked for again",
        "another destination comes too soon",
    }
)
"""All that happens, by name."""

To = Course[str | None]


class Shown(NamedTuple):
    """A destination as an answer shows it: where the money goes, and where it is to go from when on."""

    wallet: str | None
    pending: str | None = None
    due_ms: int | None = None


class Held:
    """Judges the answers about all destinations.

    Args:
        changes: What is known.
        happened: Counts it, by name.
    """

    def __init__(self, changes: Changes, happened: Counter[str]) -> None:
        self._changes = changes
        self._happened = happened

    def looked(self, course: To, shown: Shown, asked_s: float) -> str | None:
        """It was read."""
        waiting = course.waiting
        if waiting is None:
            return None if shown == Shown(course.now) else f"{shown}, and was told to be {course.now}"
        if shown.pending is None:
            return self._made(course, waiting, shown)
        if shown != Shown(course.before, waiting.value, waiting.due_ms):
            return f"{shown}, and {waiting} was told to wait after {course.before}"
        return self._unless_overdue(course, waiting, asked_s)

    def changed(self, course: To, shown: Shown, asked_s: float) -> str | None:
        """The last change was answered: it is made, or waits."""
        change, now_s = course.changes.pop(), self._changes.now_s()
        possible, waiting = course.possible(asked_s, now_s), course.waiting
        if shown.pending is None:
            is_right = shown.wallet == change.value and (
                shown.wallet in possible or self._least_ms(asked_s) <= self._span_ms(asked_s)
            )
            self._drop(course)
            change.done_s = now_s
        else:
            is_right = (shown.pending, shown.wallet in possible) == (change.value, True)
            is_right = is_right and self._may_be_due(waiting, shown, asked_s)
            if waiting is not None and shown.wallet == waiting.value:
                self._made(course, waiting, shown)
            elif waiting is not None:
                is_same = waiting.value == shown.pending
                self._happened[f"held change is {'asked for again' if is_same else 'replaced'}"] += 1
                course.withdraw()
            self._happened["change is held back"] += 1
            change.due_ms = shown.due_ms
        course.changes.append(change)
        return None if is_right else f"{shown} was answered to {change} after {waiting}"

    def removed(self, course: To, asked_s: float) -> None:
        """It was answered that the destination is no more."""
        gone, now_s = course.changes.pop(), self._changes.now_s()
        delays = self._changes.delay_s.possible(asked_s, now_s)
        shown_ms = self._changes.times.shown_ms(asked_s, now_s)
        course.vacated = Vacated(
            course.possible(asked_s, now_s),
            shown_ms[0] + 1000 * min(delays),
            shown_ms[1] + 1000 * max(delays),
        )
        self._drop(course)
        gone.done_s = now_s
        course.changes.append(gone)

    def registered(self, course: To, asked_s: float) -> str | None:
        """It was answered that it is there, for the last change's wallet."""
        vacated, course.vacated, change = course.vacated, None, course.changes[-1]
        change.done_s = self._changes.now_s()
        if vacated is None or change.value in vacated.values:
            return None
        _, latest_ms = self._changes.times.shown_ms(asked_s, change.done_s)
        return f"{change} was registered too soon: {vacated}" if latest_ms < vacated.from_ms else None

    def comes_too_soon(self, courses: list[To], asked_s: float) -> bool:
        """Whether another destination than the one that was deleted may be refused, for what is wanted."""
        earliest_ms, _ = self._changes.times.shown_ms(asked_s, self._changes.now_s())
        left = [(course.now, course.vacated) for course in courses]
        too_soon = any(
            vacated is not None and vacated.values != {wallet} and earliest_ms < vacated.until_ms
            for wallet, vacated in left
        )
        if too_soon:
            self._happened["another destination comes too soon"] += 1
        return too_soon

    def restored(self, course: To, shown: Shown) -> str | None:
        """It is read after a restore: what was not answered when the backup was made is in it or is not."""
        asked, asked_s = course.unanswered, self._changes.now_s()
        if course.is_taking_back:
            course.is_taking_back = False
            if course.waiting is not None and shown == Shown(course.before):
                course.withdraw()
        elif asked is not None and asked.value != (shown.wallet if shown.pending is None else shown.pending):
            course.withdraw()
        elif asked is not None and asked.value is None:
            self.removed(course, asked.asked_s)
        elif asked is not None and course.before is None:
            return self.registered(course, asked.asked_s)
        elif asked is not None:
            return self.changed(course, shown, asked.asked_s)
        return self.looked(course, shown, asked_s)

    def taken_back(self, course: To, shown: Shown, asked_s: float) -> str | None:
        """It was answered that nothing waits any more."""
        waiting = course.waiting
        if waiting is None or shown.pending is not None:
            return f"{shown}, and {waiting} was taken back"
        if shown.wallet == waiting.value:
            return self._made(course, waiting, shown)
        course.withdraw()
        self._happened["held change is taken back"] += 1
        if shown.wallet != course.now:
            return f"{shown}, and {waiting} was taken back after {course.now}"
        return self._unless_overdue(course, waiting, asked_s)

    def _made(self, course: To, waiting: Change[str | None], shown: Shown) -> str | None:
        """What waited waits no more."""
        now_s = self._changes.now_s()
        if shown.wallet != waiting.value:
            return f"{shown}, and {waiting} is nowhere"
        if course.begins(waiting) > now_s:
            return f"{shown} before {waiting} was due"
        waiting.done_s = now_s
        self._happened["held change is made"] += 1
        return None

    def _drop(self, course: To) -> None:
        """Another change took the place of what waited, unless that may have been made before."""
        waiting = course.waiting
        if waiting is not None and course.begins(waiting) > self._changes.now_s():
            course.withdraw()
            self._happened["held change is replaced"] += 1

    def _unless_overdue(self, course: To, waiting: Change[str | None], asked_s: float) -> str | None:
        return f"{waiting} waited still" if course.ends(waiting) < asked_s else None

    def _may_be_due(self, waiting: Change[str | None] | None, shown: Shown, asked_s: float) -> bool:
        """What waits already does not wait anew; all else waits as long as changes are held back now."""
        now_s, due_ms = self._changes.now_s(), shown.due_ms or 0
        latest_ms: float = inf
        if waiting is not None and waiting.value == shown.pending and shown.wallet != waiting.value:
            assert waiting.due_ms is not None, "it waits"
            if waiting.due_ms == due_ms:
                return True
            latest_ms = waiting.due_ms
        from_ms, to_ms = self._changes.times.shown_ms(asked_s, now_s)
        longest_ms = 1000 * max(self._changes.delay_s.possible(asked_s, now_s))
        return from_ms + self._least_ms(asked_s) <= due_ms <= min(to_ms + longest_ms, latest_ms)

    def _least_ms(self, asked_s: float) -> int:
        return 1000 * min(self._changes.delay_s.possible(asked_s, self._changes.now_s()))

    def _span_ms(self, asked_s: float) -> int:
        """What the clock went through since: what was held back by a first request may be made by now."""
        first, last = self._changes.times.shown_ms(asked_s, self._changes.now_s())
        return last - first if last - first > 1 else 0


def shown_in(settlement: dict[str, Any] | None) -> Shown:
    """What is shown of one."""
    if settlement is None:
        return Shown(None)
    pending = settlement.get("pending")
    wallet = wallet_in(settlement["destination"])
    if pending is None:
        return Shown(wallet)
    due = datetime.fromisoformat(pending["appliesAt"])
    return Shown(wallet, wallet_in(pending["destination"]), round(due.timestamp() * 1000))


def asked_last(settlement: dict[str, Any] | None) -> str | None:
    """The wallet that was asked for last, by what is shown."""
    shown = shown_in(settlement)
    return shown.wallet if shown.pending is None else shown.pending


def wallet_in(account: str) -> str:
    """The address of a CAIP-10 account, in lower case."""
    return account.rpartition(":")[2].lower()
