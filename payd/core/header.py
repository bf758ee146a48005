"""Headers that a merchant adds to its deliveries, such as what its own gateway asks for.

Source: DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from payd.core.errors import Issue, ParamsValidation

HEADERS_MAX: Final = 20
NAME_MAX: Final = 64
VALUE_MAX: Final = 4096  # bytes
TOTAL_MAX: Final = 8192  # bytes of all names and values: common servers take a head of twice that

_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # RFC 9110, section 5.6.2
_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")

# What frames or routes the request, says who sends it, or is signed: not a merchant's to change.
_RESERVED: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "cookie2",
        "date",
        "dnt",
        "expect",
        "forwarded",
        "host",
        "http2-settings",
        "keep-alive",
        "origin",
        "referer",
        "set-cookie",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "via",
    }
)
_RESERVED_BEGINNINGS: Final = ("access-control-", "proxy-", "sec-", "webhook-", "x-forwarded-")


def check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers as they are sent, names in lower case.

    Raises:
        ParamsValidation: Too many, a name that is none, reserved or there twice, or a value that is empty,
            too long or not visible ASCII; its issue's field is `headers`, and no value is repeated in it.
    """
    checked: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        if words := _problem(key, value) or ("is there twice" if key in checked else None):
            raise ParamsValidation.of(Issue("headers", f"{name[:NAME_MAX]!r} {words}"))
        checked[key] = value
    if sum(len(name) + len(value) for name, value in checked.items()) > TOTAL_MAX:
        raise ParamsValidation.of(Issue("headers", f"must be at most {TOTAL_MAX} bytes together"))
    if len(checked) > HEADERS_MAX:
        raise ParamsValidation.of(Issue("headers", f"must be at most {HEADERS_MAX}"))
    return checked


def _problem(name: str, value: str) -> str | None:
    if len(name) > NAME_MAX or _TOKEN.fullmatch(name) is None:
        return f"is no header name of at most {NAME_MAX} characters"
    if name in _RESERVED or name.startswith(_RESERVED_BEGINNINGS):
        return "is set by payd, or belongs to the connection"
    if len(value) > VALUE_MAX or _VALUE.fullmatch(value) is None:
        return f"must have a value of 1 to {VALUE_MAX} visible ASCII characters"
    return None
