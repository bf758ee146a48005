"""What a doctor finds: how bad, about what, in words, and what to do about it."""

from __future__ import annotations

from typing import Literal

import msgspec

Level = Literal["ok", "warning", "error"]


class Finding(msgspec.Struct, frozen=True, rename="camel"):
    """One thing that was looked at; `what_to_do` is empty where nothing is to be done."""

    level: Level
    subject: str
    words: str
    what_to_do: str = ""


def worst(findings: list[Finding]) -> Level:
    """The worst level among them."""
    levels = {finding.level for finding in findings}
    return "error" if "error" in levels else "warning" if "warning" in levels else "ok"
