"""How long is refused what every node says: it may be all of them for a reason.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import trio

from payd.actors.walk import GONE_S


class Patience:
    """It is over once something was refused for `GONE_S`, and nothing else was heard."""

    def __init__(self) -> None:
        self._since_s: float | None = None

    def restore(self) -> None:
        """A node says otherwise."""
        self._since_s = None

    def is_over(self) -> bool:
        """Whether it is refused for so long; asked whenever it is said again."""
        now_s = trio.current_time()
        if self._since_s is None:
            self._since_s = now_s
        return now_s - self._since_s >= GONE_S
