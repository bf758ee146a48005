"""The little Markdown that descriptions are written in, as HTML: paragraphs, lists, code and bold.

Everything else stays as it is, escaped.
"""

from __future__ import annotations

import re
from typing import Final

from markupsafe import Markup, escape

_FENCE: Final = "```"
_CODE: Final = re.compile(r"`([^`]+)`")
_BOLD: Final = re.compile(r"\*\*([^*]+)\*\*")


def html_of(text: str) -> Markup:
    """A description as HTML."""
    blocks = re.split(r"\n{2,}", text.strip())
    return Markup("").join(_block(block) for block in blocks if block)


def inline(text: str) -> Markup:
    """One line of it, without a paragraph."""
    parts = _CODE.split(str(escape(" ".join(text.split()))))
    shown = [
        f"<code>{part}</code>" if place % 2 else _BOLD.sub(r"<strong>\1</strong>", part)
        for place, part in enumerate(parts)
    ]
    return Markup("".join(shown))  # every part was escaped, and the tags are ours


def _block(block: str) -> Markup:
    if block.startswith(_FENCE):
        _, _, code = block.partition("\n")
        return Markup("<pre><code>{}</code></pre>").format(code.removesuffix(_FENCE).rstrip("\n"))
    if block.startswith("* "):
        items = re.split(r"^\* ", block, flags=re.M)[1:]
        return Markup("<ul>{}</ul>").format(
            Markup("").join(Markup("<li>{}</li>").format(inline(item)) for item in items)
        )
    return Markup("<p>{}</p>").format(inline(block))
