"""A feed over an upgrade that hypercorn accepted, after a plain request or over HTTP/2.

Rare, so it is simple: hypercorn speaks the protocol and pings, one task sends and listens.

Source: DESIGN.md, "8. Feed".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from payd.actors.feed import Update
from payd.web.call import Answer, Request
from payd.web.client import TrustedProxies, client_ip
from payd.web.sockets import Sockets
from payd.web.stream_socket import NORMAL, POLICY, STUCK_S, Headers, Pull, is_newer

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


async def serve_upgrade(
    sockets: Sockets, trusted: TrustedProxies, scope: Any, receive: Receive, send: Send
) -> None:
    """Serve the feed that an ASGI websocket scope names."""
    await sockets.serve(UpgradeSocket(scope, receive, send), upgrade_request(scope, trusted))


def upgrade_request(scope: Any, trusted: TrustedProxies) -> Request:
    """The request behind an ASGI websocket scope."""
    request = Request.from_head("GET", scope["path"], scope["query_string"], scope["headers"])
    peer = (scope.get("client") or ("",))[0]
    request.client_ip = client_ip(peer, request.headers.get("x-forwarded-for"), trusted)
    return request


class UpgradeSocket:
    """A websocket behind ASGI."""

    def __init__(self, scope: Any, receive: Receive, send: Send) -> None:
        self._is_http1 = str(scope["http_version"]).startswith("1")
        self._receive = receive
        self._send = send
        self._scope: trio.CancelScope | None = None
        self._latest: Update | None = None
        self._close_code: int | None = None
        self._woken = True
        self._gone = False

    def push(self, update: Update) -> None:
        """Keep it as the newest and call the task."""
        if self._close_code is None:
            self._latest = update
            self._call_task()
            if update.final:
                self.close(NORMAL)

    def ping(self) -> None:
        """Nothing: hypercorn pings."""

    def close(self, code: int) -> None:
        """Close after what waits to be sent; only the first code counts."""
        if self._close_code is None:
            self._close_code = code
            self._call_task()

    def wake(self) -> None:
        """Have the task pull."""
        self._woken = True
        self._call_task()

    async def refuse(self, answer: Answer) -> None:
        """Answer with plain HTTP, and end an HTTP/1.1 connection."""
        headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in answer.headers]
        if all(name != b"content-type" for name, _ in headers):
            headers.append((b"content-type", b"application/json"))
        headers.append((b"content-length", b"%d" % len(answer.body)))
        if self._is_http1:
            headers.append((b"connection", b"close"))
        await self._send(
            {"type": "websocket.http.response.start", "status": answer.status, "headers": headers}
        )
        await self._send({"type": "websocket.http.response.body", "body": answer.body})

    async def open(self, first: Update | None, headers: Headers = ()) -> None:
        """Accept, and send the first message."""
        told = [(name.encode(), value.encode("latin-1")) for name, value in headers]
        await self._send({"type": "websocket.accept", "subprotocol": None, "headers": told})
        if first is None:
            return
        await self._send_text(first.payload)
        if self._latest is not None and not is_newer(self._latest, first):
            self._latest = None
        if first.final:
            self.close(NORMAL)

    async def run(self, pull: Pull | None) -> None:
        """Serve until one side ends it."""
        while not self._gone:
            if self._latest is not None:
                update, self._latest = self._latest, None
                await self._send_text(update.payload)
            elif self._close_code is not None:
                return await self._send({"type": "websocket.close", "code": self._close_code})
            elif pull is not None and self._woken:
                self._woken = False
                messages = await pull()
                self._woken = self._woken or bool(messages)
                for message in messages:
                    await self._send_text(message)
            else:
                await self._listen()

    async def _listen(self) -> None:
        event: Any = None
        with trio.CancelScope() as self._scope:
            try:
                event = await self._receive()
            finally:
                self._scope = None
        if event is None or event["type"] == "websocket.connect":
            return
        if event["type"] == "websocket.receive":
            self.close(POLICY)
        else:
            self._gone = True

    async def _send_text(self, payload: bytes) -> None:
        with trio.move_on_after(STUCK_S) as scope:
            await self._send({"type": "websocket.send", "text": payload.decode()})
        self._gone = self._gone or scope.cancelled_caught

    def _call_task(self) -> None:
        if self._scope is not None:
            self._scope.cancel()
