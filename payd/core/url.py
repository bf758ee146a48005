"""URLs that somebody gives us to show or to send people to: https, whole, and of bounded length.

Webhook endpoints have stricter rules; they stand in `core/endpoint.py`.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

URL_MAX: Final = 2048

_HTTPS: Final = re.compile(r"https://[^\s\x00-\x1f\x7f/@\\?#]+([/?#][^\s\x00-\x1f\x7f]*)?", re.IGNORECASE)


def is_https_url(text: str) -> bool:
    """Whether text is an https URL with a host and no user name, of at most `URL_MAX` characters."""
    if len(text) > URL_MAX or not _HTTPS.fullmatch(text):
        return False
    try:
        return bool(urlsplit(text).hostname)
    except ValueError:  # such as an IPv6 address that does not end
        return False
