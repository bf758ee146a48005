"""When transactions that were read past are read again: after growing pauses, for a day.

No node could tell of them when it was their turn, and everybody else's payments were behind them. A node that
has them later is asked for them alone.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
import trio

# What a node has to catch up with it has by then; each pause is twice the one before.
FIRST_S: Final = 300.0
# Tries of one transaction, which end after 21 hours.
TRIES_MAX: Final = 8
# Begun in one tick; the others' turn is in the next one.
AT_ONCE_MAX: Final = 8


class _Turn(msgspec.Struct):
    """When a transaction is to be read again, and how often it was already."""

    due_s: float
    tries: int = 0


class SkippedTurns:
    """Those of one chain. A restart forgets them; the log has named each as it was read past."""

    def __init__(self) -> None:
        self._turns: dict[str, _Turn] = {}

    def due(self, skipped: Iterable[str]) -> list[str]:
        """Those whose turn it is now, of all that were read past; their next one is later."""
        now_s = trio.current_time()
        self._turns = {one: self._turns.get(one) or _Turn(now_s + FIRST_S) for one in skipped}
        ready = [one for one, turn in self._turns.items() if turn.due_s <= now_s and turn.tries < TRIES_MAX][
            :AT_ONCE_MAX
        ]
        for one in ready:
            turn = self._turns[one]
            turn.tries += 1
            turn.due_s = now_s + FIRST_S * 2**turn.tries
        return ready
