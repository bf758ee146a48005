"""What an operator is told of a chain, one thing at a time.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from typing import Literal

import msgspec

Level = Literal["ok", "warn", "error"]


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at; `what_to_do` is empty where nothing is to be done."""

    level: Level
    subject: str
    words: str
    what_to_do: str = ""
