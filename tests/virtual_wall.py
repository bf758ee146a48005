"""The wall clock of tests in virtual time."""

from __future__ import annotations

import trio


class VirtualWall:
    """A wall clock that follows Trio's, so that a mock clock moves both."""

    def __init__(self, start_ms: int = 1_780_000_000_000) -> None:
        self._start_ms = start_ms
        self._start_s = trio.current_time()

    def __call__(self) -> int:
        """Unix milliseconds."""
        return self._start_ms + round((trio.current_time() - self._start_s) * 1000)
