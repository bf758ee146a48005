"""The dashboard's pages as HTML, with their headers.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import jinja2
from markupsafe import Markup, escape

from payd.core.event import iso_ms
from payd.web.call import Answer
from payd.web.html import HTML, NO_STORE, content_security_policy, environment
from payd.web.static import NO_SNIFF

if TYPE_CHECKING:
    from payd.web.dashboard.frame import Frame

PACKAGE: Final = "payd.web.dashboard"

SAFE: Final[tuple[tuple[str, str], ...]] = (
    NO_STORE,
    NO_SNIFF,
    # Our own forms say where they come from; links to others do not.
    ("Referrer-Policy", "same-origin"),
    ("X-Robots-Tag", "noindex, nofollow"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=()"),
    # The same address is a whole page or a part of one.
    ("Vary", "HX-Request, Cookie"),
)
"""Headers of every page."""


def html(template: str, base_url: str, frame: Frame, values: Mapping[str, Any], status: int = 200) -> Answer:
    """A page with its headers."""
    body = _environment().get_template(template).render(frame=frame, root=frame.root, **values).encode()
    policy = ("Content-Security-Policy", content_security_policy(base_url))
    return Answer(status, body, (HTML, policy, *SAFE))


@cache
def _environment() -> jinja2.Environment:
    made = environment(PACKAGE)
    made.filters["iso"] = iso_ms
    made.filters["utc"] = utc
    made.filters["labelled"] = labelled
    return made


_CELLS: Final = re.compile(r"<(tr|t[dh])\b")


def labelled(rows: str, columns: Sequence[str]) -> Markup:
    """The rows of a table, each cell with the name of its column: a phone shows no head of a table."""
    place = 0

    def label(found: re.Match[str]) -> str:
        nonlocal place
        if found[1] == "tr":
            place = 0
            return found[0]
        name = columns[place] if place < len(columns) else ""
        place += 1
        return f'{found[0]} data-label="{escape(name)}"'

    return Markup(_CELLS.sub(label, rows))


def utc(at_ms: int) -> str:
    """`2026-11-22 20:41:05 UTC`: what is read without a script; a script shows it in the user's own zone."""
    return f"{iso_ms(at_ms)[:19].replace('T', ' ')} UTC"
