"""Hypercorn as it runs behind the front: its settings and its log, HTTP/1.1 alone, and no timers of its own.

Source: DESIGN.md, "2. The stack".
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

import h11
import hypercorn.protocol
import structlog
from hypercorn.config import Config
from hypercorn.protocol.h11 import H11Protocol

from payd.clock import http_date
from payd.core.errors import InvalidParams
from payd.web.call import JSON_TYPE, Answering, Request
from payd.web.seldom import Seldom
from payd.web.sockets import VERSION, is_feed
from payd.web.wire import HEAD_BYTES_MAX


class Dated(Config):
    """Settings by which each answer has the date that the lane's have, and nothing about the server."""

    def response_headers(self, protocol: str) -> list[tuple[bytes, bytes]]:
        """What hypercorn adds to an answer."""
        return [(b"date", http_date().encode())]


def hypercorn_config() -> Config:
    """Hypercorn as it runs behind the front."""
    config = Dated()
    config.keep_alive_max_requests = 10**6  # its default ends a good client's connection every 1000 requests
    config.h11_max_incomplete_size = HEAD_BYTES_MAX
    config.logger_class = HypercornLog  # type: ignore[assignment]
    return config


UNREADABLE_HEAD: Final = "This cannot be read as a request of HTTP/1.1."
# By the status that h11 gives it.
UNREADABLE: Final = {
    431: f"The request's first line and headers are longer than {HEAD_BYTES_MAX} bytes.",
    501: "A body comes with Content-Length, or with Transfer-Encoding: chunked and no other.",
}


class Http1(H11Protocol):
    """Hypercorn's HTTP/1.1, which never becomes HTTP/2.

    A proxy that passes an upgrade on carries bytes from then on that it does not look at: whoever asked for
    HTTP/2 would speak past it, from a trusted address. And who speaks it and takes nothing holds answers back
    without end. Proxies speak HTTP/1.1 to what is behind them.
    """

    async def _check_protocol(self, event: h11.Request) -> None:
        """What asks for another protocol is a request as all others."""

    async def _create_stream(self, request: h11.Request) -> None:
        """Only a feed becomes a websocket; what asks for one elsewhere is a plain request as well."""
        if not self._is_a_feeds(request):
            kept = [(name, value) for name, value in request.headers if name != b"upgrade"]
            request = h11.Request(
                method=request.method,
                target=request.target,
                headers=kept,
                http_version=request.http_version,
            )
        await super()._create_stream(request)

    async def _send_error_response(self, status_code: int) -> None:
        """What is no request is refused in the words of all refusals; hypercorn's own has none."""
        answer: Answering = self.connection_state["answer"]
        refusal = InvalidParams(UNREADABLE.get(status_code, UNREADABLE_HEAD))
        found = await answer(Request("GET", "", refusal=refusal))
        headers = [(name.lower(), value) for name, value in found.headers]
        headers += [
            ("content-type", JSON_TYPE),
            ("content-length", str(len(found.body))),
            ("connection", "close"),
            ("date", http_date()),
        ]
        await self._send_h11_event(h11.Response(status_code=status_code, headers=headers))
        await self._send_h11_event(h11.Data(data=found.body))
        await self._send_h11_event(h11.EndOfMessage())

    def _is_a_feeds(self, request: h11.Request) -> bool:
        """Whether a request may become a feed: it is for one, whole, and nothing came behind it.

        Hypercorn refuses a handshake that misses something without a word, and stumbles over what comes
        before its answer (RFC 6455, section 4.1).
        """
        headers = dict(request.headers)
        return (
            is_feed(unquote(request.target.partition(b"?")[0].decode("latin-1")))
            and request.http_version == b"1.1"
            and headers.get(b"sec-websocket-version") == VERSION.encode()
            and b"sec-websocket-key" in headers
            and headers.keys().isdisjoint({b"content-length", b"transfer-encoding"})
            and not self.connection.trailing_data[0]
        )


# Where hypercorn looks its protocols up; there is no other way to choose.
hypercorn.protocol.H11Protocol = Http1  # type: ignore[attr-defined]


class NoTimer:
    """Stands for hypercorn's idle timer, a task for every request: the wire has deadlines of its own."""

    async def restart(self, task_group: object, action: object) -> None:
        """Nothing."""

    async def stop(self) -> None:
        """Nothing."""


NO_TIMER: Final = NoTimer()


class HypercornLog:
    """Hypercorn's log, as events of ours. No access log: requests are logged where they are answered."""

    def __init__(self, config: Config) -> None:
        self._log = structlog.get_logger("payd.hypercorn")
        self._lines = Seldom()

    async def access(self, *_: object, **__: object) -> None:
        """Nothing."""

    debug = info = access

    async def warning(self, message: str, *args: object, **_: object) -> None:
        """Something odd."""
        if self._lines.is_due():
            self._log.warning("hypercorn", said=message % args)

    async def error(self, message: str, *args: object, **_: object) -> None:
        """Something wrong."""
        if self._lines.is_due():
            self._log.error("hypercorn", said=message % args)

    critical = error

    async def exception(self, message: str, *args: object, **_: object) -> None:
        """Something wrong, while an exception is handled."""
        if self._lines.is_due():
            self._log.error("hypercorn", said=message % args, exc_info=True)
