"""The languages of the buyer's pages: their texts, and which one a buyer reads.

Each language is a file of texts in `languages/`, all with the same keys: templates and scripts have no text
of their own. Numbers, dates and currencies are `locale.py`'s.

Source: DESIGN.md, "11. Pages"; RFC 9110, "12.5.4. Accept-Language".
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final

import msgspec

from payd.web.accept import weights

ENGLISH: Final = "en"
"""What is spoken to those who read none of the others."""

LANGUAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        ENGLISH: "English",
        "de": "Deutsch",
        "fr": "Français",
        "es": "Español",
        "pt": "Português",
        "ar": "العربية",
        "ja": "日本語",
        "zh": "中文",
    }
)
"""Each language's own name, by its code. Chinese is in simplified characters."""

RIGHT_TO_LEFT: Final = frozenset({"ar"})

SCRIPTS: Final = {"zh": "Hans"}
"""In which script a language is written here, where a region would say another."""

# Longer tags are nobody's.
TAG_MAX: Final = 35
REGION_LETTERS: Final = 2

PAYING: Final = "pay."
"""What the keys of texts begin with that scripts say only once a wallet of the browser pays."""

SHOP: Final = "shop."
"""What those begin with that `payd.js` says on a shop's own page."""

# What can turn the direction of the text around it: letters of such scripts, and marks that say so.
_TURNING: Final = re.compile(
    "[\u0590-\u08ff\u200f\u202a-\u202e\u2066-\u2069\ufb1d-\ufdff\ufe70-\ufefe"
    "\U00010800-\U00010fff\U0001e800-\U0001efff]"
)


class Language(msgspec.Struct, frozen=True):
    """One that a buyer reads.

    Attributes:
        code: One of `LANGUAGES`.
        region: ISO 3166 of the buyer, which changes how numbers look; None where it is not said.
    """

    code: str
    region: str | None = None

    @property
    def tag(self) -> str:
        """For HTML's `lang`, as in BCP 47: `de`, `de-AT`, `zh-Hans-HK`."""
        return "-".join(filter(None, (self.code, SCRIPTS.get(self.code), self.region)))

    @property
    def direction(self) -> str:
        """For HTML's `dir`."""
        return "rtl" if self.code in RIGHT_TO_LEFT else "ltr"

    def has(self, key: str) -> bool:
        """Whether there is such a text; if one language has it, all do."""
        return key in _texts(self.code)

    def say(self, key: str, **values: object) -> str:
        """The text of `key` with its values put in: plain text, not HTML.

        Between texts that run to the other side, a value is isolated as Unicode has it (FSI and PDI), since
        not all of them end in HTML. The page's scripts do the same (`fill`).

        Raises:
            KeyError: There is no such text, or a value is missing.
        """
        said = {name: self.isolated(str(value)) for name, value in values.items()}
        return _texts(self.code)[key].format(**said)

    def isolated(self, value: str) -> str:
        """A foreign text as it may stand in one of this language without turning it."""
        turns = self.code in RIGHT_TO_LEFT or _TURNING.search(value)
        return f"\u2068{value}\u2069" if turns else value

    def below(self, prefix: str) -> dict[str, str]:
        """The texts whose key begins so, as they are, by the rest of their key."""
        texts = _texts(self.code).items()
        return {key.removeprefix(prefix): text for key, text in texts if key.startswith(prefix)}


def words_file(code: str) -> str:
    """The name of the file with what the page says while a wallet of the browser pays."""
    return f"words.{code}.json"


def choose(asked: str | None, accept_language: str) -> Language:
    """The language of a page: the one that was asked for, else the one that the browser likes best.

    Args:
        asked: A tag out of `?lang=`; one that there is no language for says nothing.
        accept_language: The header, empty where there is none.
    """
    liked = weights(accept_language)
    wanted = sorted((tag for tag in liked if liked[tag] > 0), key=lambda tag: -liked[tag])
    spoken = map(known, [asked or "", *wanted])
    return next((one for one in spoken if one is not None), Language(ENGLISH))


def known(tag: str) -> Language | None:
    """The language of a tag, with its region if one is said; None if it is no tag, or of another language."""
    code, *more = tag[:TAG_MAX].replace("_", "-").split("-")
    if code.lower() not in LANGUAGES:
        return None
    regions = (part.upper() for part in more if len(part) == REGION_LETTERS and part.isascii())
    return Language(code.lower(), next(filter(str.isalpha, regions), None))


@cache
def _texts(code: str) -> Mapping[str, str]:
    file = files("payd.web.checkout") / "languages" / f"{code}.toml"
    return MappingProxyType(tomllib.loads(file.read_text(encoding="utf-8")))
