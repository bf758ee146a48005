"""URLs that somebody gives us to show or to send people to, and origins: https, whole, and of bounded length.

Webhook endpoints have stricter rules; they stand in `core/endpoint.py`.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

URL_MAX: Final = 2048

# What no browser takes in a host, or reads as something else than is shown, such as `%2e`.
_HTTPS: Final = re.compile(
    r"https://(?P<host>[^\s\x00-\x1f\x7f/@\\?#%<>\"^|`{};]+)([/?#][^\s\x00-\x1f\x7f]*)?", re.IGNORECASE
)

_LABEL: Final = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_ORIGIN: Final = re.compile(rf"(https://{_LABEL}(\.{_LABEL})*|http://localhost)(:(?P<port>[1-9]\d{{0,4}}))?")
_HOST_MAX: Final = 253
_PORT_MAX: Final = 65_535


def is_https_url(text: str) -> bool:
    """Whether text is an https URL with a host and no user name, of at most `URL_MAX` characters.

    A host is shown to people: characters that nobody sees are in none, as some turn the text around them.
    """
    match = _HTTPS.fullmatch(text) if len(text) <= URL_MAX else None
    if match is None or not match["host"].isprintable():
        return False
    try:
        url = urlsplit(text)
        return bool(url.hostname) and url.port != 0
    except ValueError:  # such as an IPv6 address that does not end, or a port that is none
        return False


def is_origin(text: str) -> bool:
    """Whether text is an https origin, or one of this machine, exactly as a browser names it.

    It goes into a header and is compared with what browsers say: lower case, Punycode, no slash at its end,
    no port that goes without saying.
    """
    match = _ORIGIN.fullmatch(text)
    if match is None:
        return False
    scheme, _, host = match[1].partition("://")
    port = match["port"]
    said_for_nothing = port == ("443" if scheme == "https" else "80")
    return len(host) <= _HOST_MAX and not said_for_nothing and int(port or 0) <= _PORT_MAX
