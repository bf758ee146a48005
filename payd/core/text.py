"""Text of people: names, references and answers that are shown on one line."""

from __future__ import annotations

import unicodedata
from typing import Final

# They shape the words of Persian and of Indian languages, and join emoji.
_JOINERS: Final = "\u200c\u200d"


def is_one_line(text: str) -> bool:
    """Whether it can be shown on one line as it is: spaces of any width, but nothing that steers.

    Controls, breaks of lines, and what turns the direction of the text around it are refused.
    """
    return text.isprintable() or all(map(_is_shown, text))


def _is_shown(char: str) -> bool:
    return char.isprintable() or char in _JOINERS or unicodedata.category(char) == "Zs"
