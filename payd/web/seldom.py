"""What happens all the time is logged now and then: strangers can bring it about, and would fill the disk."""

from __future__ import annotations

from math import inf
from typing import Final

import trio

COMPLAINTS_S: Final = 10.0


class Seldom:
    """Says when something may be logged again that strangers can bring about as often as they like."""

    def __init__(self) -> None:
        self._quiet_until_s = -inf

    def is_due(self) -> bool:
        """True once, and then not for `COMPLAINTS_S`."""
        now_s = trio.current_time()
        if now_s < self._quiet_until_s:
            return False
        self._quiet_until_s = now_s + COMPLAINTS_S
        return True
