"""Which line of a TOML text sets a value.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import tomllib
from typing import Any

from payd.config.keys import Place


def line_of(text: str, place: Place) -> int:
    """The line where `place` is set: the first one after the longest beginning of `text` that lacks it.

    Parsing beginnings finds it however it is written: section, dotted key, inline table, list over lines,
    the second of two tables in an array. For a key that is not set it is the line of its table.

    Args:
        text: TOML that can be parsed.
        place: What is asked for.
    """
    whole = tomllib.loads(text)
    while place and not _has(whole, place):
        place = place[:-1]
    # Not `splitlines`, which takes more for the end of a line than TOML and editors do.
    lines = [line + "\n" for line in text.split("\n")]
    lacking = 0
    for count in range(1, len(lines) + 1):
        try:
            tree = tomllib.loads("".join(lines[:count]))
        except tomllib.TOMLDecodeError:
            continue
        if _has(tree, place):
            break
        lacking = count
    return lacking + 1


def _has(tree: Any, place: Place) -> bool:
    for part in place:
        try:
            tree = tree[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True
