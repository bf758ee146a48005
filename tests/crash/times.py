"""When something falls due by a machine's clock that is set, in houses that die.

All times are true Unix seconds, but those in milliseconds, which are by the machine's clock.

Source: DESIGN.md, "5. A payment is an actor".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Final

from payd.clock import RECHECK_S

# What is due is done by then, in a house that is up.
SOON_S: Final = 5.0


@dataclass
class Times:
    """What the machine's clock showed, and when a house was up.

    Attributes:
        ahead_ms: Since when the clock was so much ahead, one after the other.
        lives: From when to when each house was up.
    """

    ahead_ms: list[tuple[float, int]] = field(default_factory=lambda: [(-inf, 0)])
    lives: list[tuple[float, float]] = field(default_factory=list)

    def set_clock(self, ahead_ms: int, now_s: float) -> None:
        """From now on it is so much ahead."""
        self.ahead_ms.append((now_s, ahead_ms))

    def up(self, now_s: float) -> None:
        """A house is, from now on."""
        self.lives.append((now_s, inf))

    def down(self, now_s: float) -> None:
        """It is no more; nothing where none was."""
        if self.lives and self.lives[-1][1] == inf:
            self.lives[-1] = (self.lives[-1][0], now_s)

    def shown_ms(self, from_s: float, to_s: float) -> tuple[int, int]:
        """The earliest and the latest that the clock has shown then."""
        shown = [
            ms
            for since_s, until_s, ahead_ms in self._stretches()
            if since_s <= to_s and from_s <= until_s
            for ms in (max(since_s, from_s) * 1000 + ahead_ms, min(until_s, to_s) * 1000 + ahead_ms)
        ]
        return int(min(shown)), int(max(shown)) + 1

    def first(self, due_ms: int, from_s: float) -> float:
        """When the clock first showed this, as far as it is known how it was set."""
        found = (begins for begins, _ in self._shown(due_ms, from_s))
        return next(found, inf)

    def certain(self, due_ms: int, from_s: float) -> float:
        """By when what falls due then was done, as a house was up for long enough."""
        for up_s, down_s in self.lives:
            for begins, ends in self._shown(due_ms, max(from_s, up_s)):
                # Who waits may have fallen asleep by what the clock showed before it was set.
                sets = [at_s for at_s, _ in self.ahead_ms if up_s < at_s <= begins]
                done_s = max([begins, *(at_s + RECHECK_S for at_s in sets)]) + SOON_S
                if done_s <= min(ends, down_s):
                    return done_s
        return inf

    def _shown(self, due_ms: int, from_s: float) -> Iterator[tuple[float, float]]:
        """From when to when it is as late as this, or later."""
        began: float | None = None
        ended = inf
        for since_s, until_s, ahead_ms in self._stretches():
            begins = max(since_s, from_s, (due_ms - ahead_ms) / 1000)
            if begins >= until_s:
                continue
            if began is not None and begins > ended:
                yield began, ended
                began = None
            began = begins if began is None else began
            ended = until_s
        if began is not None:
            yield began, ended

    def _stretches(self) -> Iterator[tuple[float, float, int]]:
        ends = [*(since_s for since_s, _ in self.ahead_ms[1:]), inf]
        for (since_s, ahead_ms), until_s in zip(self.ahead_ms, ends, strict=True):
            yield since_s, until_s, ahead_ms
