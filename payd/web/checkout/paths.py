"""The paths of the buyer's pages, for links between them: what the buyer has chosen goes along.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from urllib.parse import urlencode

import msgspec

from payd.web.call import Request
from payd.web.checkout.words import LANGUAGES, Language, choose, known


class Paths(msgspec.Struct, frozen=True):
    """Where the pages are for one buyer.

    Attributes:
        root: What every path begins with.
        language: What the buyer reads.
        asked: The language's tag, if the buyer has asked for it; a browser's own need not be carried on.
    """

    root: str
    language: Language
    asked: str | None

    def to(self, path: str, **query: str | None) -> str:
        """A path below the root, with what its query says and what was asked for."""
        said = {name: value for name, value in ({"lang": self.asked} | query).items() if value is not None}
        return f"{self.root}{path}" + (f"?{urlencode(said, safe=':/,')}" if said else "")

    def payment(self, payment_id: str, below: str = "", **query: str | None) -> str:
        """The page of a payment, or what is below it."""
        return self.to(f"/pay/{payment_id}{below}", **query)

    def languages(self, path: str, **query: str | None) -> list[tuple[str, str, str]]:
        """The same page in each language: its code, its own name, and where."""
        return [(code, name, self.to(path, **query, lang=code)) for code, name in LANGUAGES.items()]


def paths_of(root: str, request: Request) -> Paths:
    """Those of who sent a request."""
    asked = request.query.get("lang", [""])[0]
    language = choose(asked, request.headers.get("accept-language", ""))
    return Paths(root, language, language.tag if known(asked) == language else None)
