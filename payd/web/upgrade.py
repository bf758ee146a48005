"""A feed that is asked for on hypercorn's connection: it is served straight on that, as on a fresh one.

Hypercorn's own websockets compress on demand, unpack a few kB to any size, keep what comes after a message
that was too long, and say no code to what breaks the protocol. None is ever accepted.

Source: DESIGN.md, "8. Feed".
"""

from __future__ import annotations

from typing import Any

from payd.web.call import Request
from payd.web.client import TrustedProxies, client_ip


def upgrade_request(scope: Any, trusted: TrustedProxies) -> Request:
    """The request behind an ASGI websocket scope."""
    request = Request.from_head("GET", scope["path"], scope["query_string"], scope["headers"])
    peer = (scope.get("client") or ("",))[0]
    request.client_ip = client_ip(peer, request.headers.get("x-forwarded-for"), trusted)
    return request
