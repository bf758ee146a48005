"""A span of time in words for people: its two largest units."""

from __future__ import annotations

from itertools import dropwhile
from typing import Final

_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def span(ms: int) -> str:
    """Such as `3 d 4 h`, `23 h 59 min`, `5 s`; rounded down, never less than `0 s`."""
    counts, left_s = [], max(0, ms) // 1000
    for size_s, name in _UNITS:
        count, left_s = divmod(left_s, size_s)
        counts.append((count, name))
    shown = list(dropwhile(lambda one: not one[0], counts))[:2]
    return " ".join(f"{count} {name}" for count, name in shown if count) or "0 s"
