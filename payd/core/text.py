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


def on_one_line(text: str) -> str:
    """A text that a stranger may have chosen, as it can be shown on one line: what steers is a space."""
    return text if is_one_line(text) else "".join(char if _is_shown(char) else " " for char in text)


def is_seen(text: str) -> bool:
    """Whether a reader sees anything of it: blanks and joiners alone are no name to press or to read out."""
    return any(not char.isspace() and char not in _JOINERS for char in text)


def _is_shown(char: str) -> bool:
    return char.isprintable() or char in _JOINERS or unicodedata.category(char) == "Zs"
