"""The API's short way: answered on ASGI, before Quart makes a request of it.

Making Quart's request and response costs more than all that payd does for an API call. What needs no more
than one body and one answer is taken here; everything else goes on to Quart: pages, HEAD, OPTIONS, what is no
path, and long polls, which end when their client leaves. Both ways call the same `answer` and say the same.

Source: DESIGN.md, "2. The stack".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import unquote

import structlog
import trio

from payd.core.errors import BodyTooLarge, InvalidParams, PaydError
from payd.web.call import JSON_TYPE, Answer, Answering, Request
from payd.web.client import TrustedProxies, client_ip

log = structlog.get_logger("payd.asgi")

Scope = Any
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Larger = Callable[[Request], int]
"""How large a body may be that is over the limit of all others; asked before it is read. Raises PaydError."""

# A body of the largest size needs a moment; who needs longer holds a connection for nothing.
BODY_S: Final = 20
# What is larger comes from known callers, over whatever line they have: a picture at 16 KiB a second.
SLOW_BYTES_PER_S: Final = 16_384
NO_CONTENT: Final = 204
CLOSES: Final = ("connection", "close")
# Where traffic is. Elsewhere a handler may wait for others, and only Quart ends it when its client leaves.
PATHS: Final = ("/v1/payments", "/v1/gateway/", "/v1/merchant")
METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
BROKEN: Final = Answer(
    500,
    b'{"message":"Something broke on our side. Try again.","code":"internal_error"}',
    (CLOSES,),
)


class ShortWay:
    """An ASGI application in front of another.

    Args:
        app: Takes everything that is not for the short way.
        answer: Answers the rest; it does not raise.
        trusted: Whose `X-Forwarded-For` is believed.
        body_max: Bytes of a request's body; over it: 413, and the connection ends.
        larger: Says what may be larger, and how large.
    """

    def __init__(
        self,
        app: App,
        answer: Answering,
        trusted: TrustedProxies,
        body_max: int,
        larger: Larger | None = None,
    ) -> None:
        self._app = app
        self._answer = answer
        self._trusted = trusted
        self._body_max = body_max
        self._larger = larger

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        query = scope["query_string"].decode("latin-1")
        if not (is_short(scope["method"], scope["path"], query) or self._may_be_large(scope)):
            return await self._app(scope, receive, send)
        request = request_of(scope, self._trusted)
        if await self._read_body(request, receive):
            await self._respond(request, send)

    def _may_be_large(self, scope: Scope) -> bool:
        """Whether a body may be over the limit and perhaps is: Quart knows one limit for all."""
        headers = dict(scope["headers"])
        said = headers.get(b"content-length", b"0")
        is_long = b"transfer-encoding" in headers or not said.isdigit() or int(said) > self._body_max
        return is_long and self._allowed(request_of(scope, self._trusted)) > self._body_max

    async def _read_body(self, request: Request, receive: Receive) -> bool:
        """Read the whole body, or find why it is refused. False when the client is gone."""
        said, body_max = request.headers.get("content-length", "0"), self._body_max
        if not said.isdecimal() or int(said) > body_max:
            body_max = self._allowed(request)
            if not said.isdecimal() or int(said) > body_max:
                return self._refuse(request)
        body, began_s = b"", trio.current_time()
        with trio.CancelScope(deadline=began_s + self._patience_s(body_max)) as patience:
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return False
                body += message.get("body", b"")
                if len(body) > body_max:
                    # Who does not say how long it is shows it.
                    body_max = self._allowed(request)
                    if len(body) > body_max:
                        return self._refuse(request)
                    patience.deadline = began_s + self._patience_s(body_max)
                if not message.get("more_body", False):
                    break
        if patience.cancelled_caught:
            request.refusal = late_body(self._patience_s(body_max))
        request.body = body
        return True

    def _patience_s(self, body_max: int) -> int:
        """How long a body may take that may be so large."""
        return BODY_S if body_max <= self._body_max else BODY_S + body_max // SLOW_BYTES_PER_S

    def _allowed(self, request: Request) -> int:
        """How large this one's body may be; -1 where it is refused for something else."""
        if self._larger is None:
            return self._body_max
        try:
            return max(self._body_max, self._larger(request))
        except PaydError as refusal:
            request.refusal = refusal
            return -1

    def _refuse(self, request: Request) -> bool:
        if request.refusal is None:
            request.refusal = BodyTooLarge("The body is larger than this server takes.")
        return True

    async def _respond(self, request: Request, send: Send) -> None:
        try:
            found = await self._answer(request)
        except Exception as bug:
            log.error("app.answer_raised", path=request.path, exc_info=bug)
            found = BROKEN
        whole = whole_headers(found, closes=request.refusal is not None)
        headers = [(name.encode(), value.encode("latin-1")) for name, value in whole]
        await send({"type": "http.response.start", "status": found.status, "headers": headers})
        await send({"type": "http.response.body", "body": found.body})


def request_of(scope: Scope, trusted: TrustedProxies) -> Request:
    """The request behind an ASGI scope, also of a websocket; without its body."""
    method = scope.get("method", "GET")
    request = Request.from_head(method, scope["path"], scope["query_string"], scope["headers"])
    peer = (scope.get("client") or ("",))[0]
    request.client_ip = client_ip(peer, request.headers.get("x-forwarded-for"), trusted)
    return request


def is_short(method: str, path: str, query: str) -> bool:
    """Whether a request needs no more than one body and one answer."""
    asked = unquote(query) if "%" in query else query
    return path.startswith(PATHS) and method in METHODS and "maxPollMs" not in asked


def late_body(within_s: int = BODY_S) -> InvalidParams:
    """Why a request is refused whose body does not come."""
    return InvalidParams(f"The body did not arrive within {within_s} s.")


def whole_headers(answer: Answer, *, closes: bool) -> list[tuple[str, str]]:
    """An answer's headers in lower case, in the order in which Quart says them, with those of its body."""
    headers = [(name.lower(), value) for name, value in answer.headers]
    if closes:
        headers.append(CLOSES)
    if answer.body and "content-type" not in [name for name, _ in headers]:
        headers.append(("content-type", JSON_TYPE))
    if answer.status != NO_CONTENT:
        headers.append(("content-length", str(len(answer.body))))
    return headers
