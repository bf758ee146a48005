"""CSV that a spreadsheet opens without running any of it.

A cell that would be read as a formula begins with an apostrophe instead. Some spreadsheets divide at another
sign than the comma, and know no quotes then: what would follow such a sign has one, too.

Source: RFC 4180, "2. Definition of the CSV Format".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

# What begins a formula in some spreadsheet: the signs, their full-width twins, and what a sign hides behind.
FORMULA_SIGNS: Final = frozenset("=+-@\t\r\n＝＋－＠")
_DIVIDED: Final = re.compile(r"""([;|\t\r\n]"*)(?=[=+\-@＝＋－＠])""")
_QUOTED: Final = frozenset('",\r\n')


def cell(text: str) -> str:
    """The text as it stands in a cell: never the beginning of a formula."""
    text = _DIVIDED.sub(r"\1'", text)
    return f"'{text}" if text[:1] in FORMULA_SIGNS else text


def line(cells: Iterable[str]) -> bytes:
    """One record, UTF-8, with its end. Each text is made safe by `cell` first."""
    return (",".join(_escaped(cell(text)) for text in cells) + "\r\n").encode("utf-8", "replace")


def _escaped(text: str) -> str:
    return text if _QUOTED.isdisjoint(text) else '"' + text.replace('"', '""') + '"'
