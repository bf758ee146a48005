"""What asks hypercorn for a websocket: a feed is served straight on its connection, all else is refused.

Hypercorn's own websockets compress on demand, unpack a few kB to any size, keep what comes after a message
that was too long, and say no code to what breaks the protocol. None is ever accepted.

Source: DESIGN.md, "8. Feed".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from payd.web.call import Answer, Request
from payd.web.client import TrustedProxies, client_ip

Send = Callable[[Any], Awaitable[None]]


def upgrade_request(scope: Any, trusted: TrustedProxies) -> Request:
    """The request behind an ASGI websocket scope."""
    request = Request.from_head("GET", scope["path"], scope["query_string"], scope["headers"])
    peer = (scope.get("client") or ("",))[0]
    request.client_ip = client_ip(peer, request.headers.get("x-forwarded-for"), trusted)
    return request


async def refuse_upgrade(send: Send, answer: Answer) -> None:
    """Answer with plain HTTP, and end the connection."""
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in answer.headers]
    if all(name != b"content-type" for name, _ in headers):
        headers.append((b"content-type", b"application/json"))
    headers += [(b"content-length", b"%d" % len(answer.body)), (b"connection", b"close")]
    await send({"type": "websocket.http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": answer.body})
