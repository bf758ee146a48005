"""The Quart door: the route table as Quart routes, a Quart request as a `Request`.

The body is always read before anybody answers, or the connection is closed after the answer: an answer that
overtakes its request's body leaves hypercorn's connection hanging.

Source: DESIGN.md, "2. The stack"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import structlog
from quart import has_request_context
from quart import request as quart_request
from quart.sessions import SessionInterface
from quart_trio import QuartTrio
from quart_trio.wrappers import TrioResponse
from werkzeug.datastructures import Headers
from werkzeug.exceptions import (
    HTTPException,
    MethodNotAllowed,
    NotFound,
    RequestEntityTooLarge,
    RequestTimeout,
)

from payd.core.errors import BodyTooLarge
from payd.web.asgi import BODY_S, BROKEN, CLOSES, NO_CONTENT, Larger, ShortWay, late_body, request_of
from payd.web.call import JSON_TYPE, Answer, Answering, Request
from payd.web.client import TrustedProxies
from payd.web.route_table import Routed

log = structlog.get_logger("payd.app")

BODY_BYTES_MAX: Final = 65_536
# An answer that the client takes more slowly than this is cut off; one in parts is long.
ANSWER_S: Final = 60
PARTS_S: Final = 3600

_PARAMETER: Final = re.compile(r"\{(\w+)\}")


class NoSession(SessionInterface):
    """Requests of the API have no session; pages that need one keep their own."""

    async def open_session(self, app: Any, request: Any) -> None:
        """None."""
        return


class Door:
    """Turns Quart's request into ours and our answer into Quart's."""

    def __init__(self, answer: Answering, trusted: TrustedProxies) -> None:
        self._answer = answer
        self._trusted = trusted

    async def __call__(self, **_: str) -> TrioResponse:
        """Answer the current request."""
        request = await self._read()
        if request.method == "HEAD":
            request.method = "GET"
        try:
            answer = await self._answer(request)
        except Exception as bug:
            log.error("app.answer_raised", path=request.path, exc_info=bug)
            answer = BROKEN
        return respond(answer, closes=request.refusal is not None)

    async def _read(self) -> Request:
        request = request_of(quart_request.scope, self._trusted)
        request.path = quart_request.path
        try:
            request.body = bytes(await quart_request.get_data(cache=False, as_text=False))  # type: ignore[arg-type]
        except RequestEntityTooLarge:
            request.refusal = BodyTooLarge("The body is larger than this server takes.")
        except RequestTimeout:
            request.refusal = late_body()
        return request


def respond(answer: Answer, *, closes: bool = False) -> TrioResponse:
    """An answer as Quart's response; `closes` ends the connection after it."""
    headers = [*answer.headers, CLOSES] if closes else list(answer.headers)
    response = TrioResponse(answer.parts or answer.body, answer.status, Headers(headers))
    if answer.parts is not None:
        response.timeout = PARTS_S
        return response
    if answer.body:
        if not any(name.lower() == "content-type" for name, _ in answer.headers):
            response.headers["content-type"] = JSON_TYPE
    else:
        response.headers.pop("content-type", None)
        if answer.status == NO_CONTENT:
            response.headers.pop("content-length", None)
    return response


def make_app(
    answer: Answering,
    routes: Iterable[Routed],
    *,
    trusted: TrustedProxies,
    body_max: int = BODY_BYTES_MAX,
    larger: Larger | None = None,
) -> QuartTrio:
    """The ASGI application.

    Args:
        answer: Answers every request; it does not raise.
        routes: The route table. Paths and methods that are not in it go to `answer` too.
        trusted: Whose `X-Forwarded-For` is believed.
        body_max: Bytes of a request's body; over it: 413.
        larger: Says what may be larger, and how large.
    """
    app = QuartTrio("payd", static_folder=None)
    app.config.update(
        MAX_CONTENT_LENGTH=body_max,
        BODY_TIMEOUT=BODY_S,
        RESPONSE_TIMEOUT=ANSWER_S,
        PROVIDE_AUTOMATIC_OPTIONS=False,
        BACKGROUND_TASK_SHUTDOWN_TIMEOUT=0,
    )
    app.session_interface = NoSession()  # type: ignore[assignment]
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    door = Door(answer, trusted)
    for number, route in enumerate(routes):
        rule = _PARAMETER.sub(r"<\1>", route.path)
        app.add_url_rule(
            rule, f"api{number}", door.__call__, methods=[route.method], provide_automatic_options=False
        )

    async def unrouted(error: HTTPException) -> TrioResponse | HTTPException:
        return await door() if has_request_context() else error  # else it is a websocket's

    app.register_error_handler(NotFound, unrouted)
    app.register_error_handler(MethodNotAllowed, unrouted)
    app.asgi_app = ShortWay(app.asgi_app, answer, trusted, body_max, larger)  # type: ignore[method-assign]
    return app
