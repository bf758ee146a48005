"""The description over HTTP.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import hashlib
from typing import Final

from payd.core.errors import NotFound
from payd.core.version import VERSIONS
from payd.web.call import JSON_TYPE, Answer, Call
from payd.web.static import NO_SNIFF

# It changes with the server only; who asks again hears that it did not.
CACHED: Final = ("Cache-Control", "no-cache")
# What it says is public: tools in browsers may read it from anywhere.
SHARED: Final = ("Cross-Origin-Resource-Policy", "cross-origin")


async def read(call: Call) -> Answer:
    """GET /openapi/{version}.json."""
    # Here, because the description is made from the table that this handler is in.
    from payd.web.openapi.document import document_bytes

    version = call.params["version"]
    if version not in VERSIONS:
        raise NotFound(f"There is no such version; there are {', '.join(VERSIONS)}.")
    body = document_bytes(version, call.house.base_url)
    tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    headers = (("Content-Type", JSON_TYPE), CACHED, ("ETag", tag), NO_SNIFF, SHARED)
    if call.request.headers.get("if-none-match") == tag:
        return Answer(304, b"", headers[1:])
    return Answer(200, body, headers)
