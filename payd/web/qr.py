"""QR codes as inline SVG.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

import io
from functools import lru_cache
from typing import Final

# Drawing a code takes 5 ms; buyers reload, and who has one link must not keep the server busy with it.
QR_CACHE_MAX: Final = 512
# Modules of white around a code; scanners need four.
QR_BORDER: Final = 4
# The page's own link has fewer characters, below any shop's name.
QR_SHORT_MAX: Final = 110


@lru_cache(maxsize=QR_CACHE_MAX)
def qr_svg(text: str) -> str:
    """As `draw_qr`, drawn once."""
    return draw_qr(text)


def draw_qr(text: str) -> str:
    """A QR code as inline SVG, black on white in every colour scheme; nothing of it is kept."""
    import segno  # 60 ms that no start should wait for

    out = io.BytesIO()
    # On a screen nothing is torn off: what is long is better drawn in larger squares.
    level = "m" if len(text) <= QR_SHORT_MAX else "l"
    segno.make(text, error=level, micro=False, boost_error=False).save(
        out,
        kind="svg",
        xmldecl=False,
        svgns=False,
        border=QR_BORDER,
        omitsize=True,
        svgclass=None,
        lineclass=None,
    )
    return out.getvalue().decode()
