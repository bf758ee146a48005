"""The description over HTTP.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import hashlib
from typing import Final

from payd.core.errors import NotFound
from payd.core.version import DEFAULT, VERSIONS
from payd.web.call import JSON_TYPE, Answer, Call
from payd.web.html import HTML, content_security_policy
from payd.web.static import NO_SNIFF

Header = tuple[str, str]

# It changes with the server only; who asks again hears that it did not.
CACHED: Final = ("Cache-Control", "no-cache")


async def page(call: Call) -> Answer:
    """GET /docs and /docs/{version}: the description as a page."""
    from payd.web.openapi.page import page_bytes

    version = call.params.get("version", DEFAULT)
    return _cached(call, page_bytes(_known(version), call.house.base_url), HTML, _safe(call.house.base_url))


async def read(call: Call) -> Answer:
    """GET /openapi/{version}.json."""
    # Here, because the description is made from the table that this handler is in.
    from payd.web.openapi.document import document_bytes

    body = document_bytes(_known(call.params["version"]), call.house.base_url)
    return _cached(call, body, ("Content-Type", JSON_TYPE), (NO_SNIFF,))


def _known(version: str) -> str:
    if version not in VERSIONS:
        raise NotFound(f"There is no such version; there are {', '.join(VERSIONS)}.")
    return version


def _cached(call: Call, body: bytes, kind: Header, more: tuple[Header, ...]) -> Answer:
    tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    headers = (CACHED, ("ETag", tag), *more)
    if call.request.headers.get("if-none-match") == tag:
        return Answer(304, b"", headers)
    return Answer(200, body, (kind, *headers))


def _safe(base_url: str) -> tuple[Header, ...]:
    """Headers of a page on which nothing runs."""
    return (
        ("Content-Security-Policy", content_security_policy(base_url)),
        NO_SNIFF,
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
    )
