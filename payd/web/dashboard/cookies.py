"""The dashboard's cookies: session, door, known browser, a word to show once, and the clock of who looks.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from typing import Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import msgspec

from payd.core.ids import ENTROPY_BYTES, make_id
from payd.entropy import Entropy
from payd.store.sessions import LIFETIME_MS

FLASH_MAX: Final = 600
FLASH_S: Final = 60
ZONE_MAX_MIN: Final = 14 * 60

_TOKEN: Final = re.compile("[0-9a-z]{36}")
_PLACE: Final = re.compile("[A-Za-z0-9_+-]{1,32}(/[A-Za-z0-9_+-]{1,32}){0,2}")

Header = tuple[str, str]


class Cookies(msgspec.Struct, frozen=True):
    """Names and attributes, by where payd is reached.

    Over https the names begin with `__Host-`, so that no other host and no plain page sets them. Cookies know
    no ports: over plain http, which is for this machine, the port is in the name.
    """

    secure: bool
    suffix: str

    @classmethod
    def at(cls, base_url: str) -> Cookies:
        """Those of a server at `base_url`."""
        url = urlsplit(base_url)
        return cls(True, "") if url.scheme == "https" else cls(False, f"-{url.port or 80}")

    def name(self, what: str) -> str:
        """The full name of `session`, `door`, `known` or `flash`."""
        return f"{'__Host-' if self.secure else ''}payd-{what}{self.suffix}"

    def set(self, what: str, value: str, max_age_s: int) -> Header:
        """The header that sets one; scripts never see it, and other sites' forms do not bring it."""
        secure = "; Secure" if self.secure else ""
        text = f"{self.name(what)}={value}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Lax{secure}"
        return ("Set-Cookie", text)

    def drop(self, what: str) -> Header:
        """The header that takes one back."""
        return self.set(what, "", 0)

    def session(self, token: str) -> Header:
        """The header that hands out a session."""
        return self.set("session", token, LIFETIME_MS // 1000)

    def read(self, headers: dict[str, str], what: str) -> str:
        """The value that a request brings, empty where there is none."""
        return read_cookie(headers, self.name(what))


def read_cookie(headers: dict[str, str], name: str) -> str:
    """The value of a cookie that a request brings, empty where there is none.

    A comma divides nothing: it may be in a value that another host set, before a name that it may not set.
    Nor is anything but a blank left off a name: browsers take one with U+00A0 before it for another name, and
    let any host set that.
    """
    for pair in headers.get("cookie", "").split(";"):
        found, _, value = pair.strip(" \t").partition("=")
        if found == name:
            return value
    return ""


def zone_offset_min(headers: dict[str, str]) -> int:
    """How far the user's clock is ahead of UTC, as the page's own script says; 0 where it says nothing."""
    try:
        offset = int(read_cookie(headers, "payd-zone"))
    except ValueError:
        return 0
    return offset if -ZONE_MAX_MIN <= offset <= ZONE_MAX_MIN else 0


def zone_place(headers: dict[str, str]) -> ZoneInfo | None:
    """Where the user's clock is, as the page's own script says; None where that says nothing known here."""
    name = read_cookie(headers, "payd-place")
    try:
        return ZoneInfo(name) if _PLACE.fullmatch(name) else None
    except (KeyError, ValueError, OSError):  # there is none of this name, a file of another kind, or a folder
        return None


def new_token(entropy: Entropy, now_ms: int) -> str:
    """A fresh token: 130 random bits behind the time."""
    return make_id("", now_ms, entropy(ENTROPY_BYTES))


def is_token(text: str) -> bool:
    """Whether `new_token` could have made it."""
    return _TOKEN.fullmatch(text) is not None


def token_hash(token: str) -> bytes:
    """What is stored instead of a token, which has too many random bits to be guessed from it."""
    return hashlib.sha256(token.encode()).digest()


def form_token(key: bytes, subject: str) -> str:
    """What every form carries: nobody else can make it for this subject."""
    return hmac.digest(key, subject.encode(), "sha256").hex()


def is_form_token(said: str, own: str) -> bool:
    """Whether a form carries the visit's own token; how long that takes tells nothing of it."""
    return hmac.compare_digest(said.encode("utf-8", "surrogatepass"), own.encode())


def pack_flash(text: str) -> str:
    """A sentence as a cookie's value."""
    return base64.urlsafe_b64encode(text[:FLASH_MAX].encode()).decode("ascii").rstrip("=")


def unpack_flash(value: str) -> str:
    """The sentence of `pack_flash`; empty for anything else. Templates escape it as they do everything."""
    try:
        padded = value + "=" * (-len(value) % 4)
        return base64.urlsafe_b64decode(padded.encode("ascii", "strict")).decode()[:FLASH_MAX]
    except ValueError:
        return ""
