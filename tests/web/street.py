"""A front with a small house behind it, and clients next door: socket pairs, which fit into virtual time."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import h11
import trio
from trio.testing import wait_all_tasks_blocked
from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection, Event, Ping, TextMessage

from payd.actors.feed import AccountFeed, PaymentFeed
from payd.core.errors import InvalidParams, MissingApiKey, StoreUnavailable
from payd.web.app import make_app
from payd.web.call import Answer, Request
from payd.web.client import TrustedProxies
from payd.web.errors import error_answer
from payd.web.front import Front
from payd.web.sockets import AccountSource, Sockets

# How long a body the lane takes; -1, and it takes nothing.
LANE_BODY_MAX = 1000
# Time stands still here, so that answers can be compared to the byte.
WALL_MS = 784_111_777_999
DATE = "Sun, 06 Nov 1994 08:49:37 GMT"  # RFC 9110, section 5.6.7
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
ACCEPTED = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="  # RFC 6455, section 1.3
UPGRADE = (
    "Host: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    f"Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n"
)
PAYMENT_FEED = f"GET /v1/payments/pay_t1/feed HTTP/1.1\r\n{UPGRADE}\r\n".encode()
ACCOUNT_FEED = f"GET /v1/feed?after=0 HTTP/1.1\r\nApi-Key: k\r\n{UPGRADE}\r\n".encode()


@dataclass
class Route:
    method: str
    path: str


ROUTES = (
    Route("GET", "/v1/payments/{id}"),
    Route("POST", "/v1/payments"),
    Route("GET", "/v1/slow"),
    Route("GET", "/v1/payments/{id}/feed"),
)


class Door:
    """A listener whose connections come from `connect`."""

    def __init__(self) -> None:
        self.send, self._receive = trio.open_memory_channel[trio.SocketStream](100)
        self.errors: list[OSError] = []
        self.closed = False

    async def accept(self) -> trio.SocketStream:
        if self.errors:
            await trio.lowlevel.checkpoint()
            raise self.errors.pop()
        return await self._receive.receive()

    async def aclose(self) -> None:
        self.closed = True
        await trio.lowlevel.checkpoint()


trio.abc.Listener.register(Door)


@dataclass
class Account:
    """The events of one account."""

    account_id: str = "acct_1"
    feed: AccountFeed = field(default_factory=AccountFeed)
    events: list[bytes] = field(default_factory=list)
    asked: int = 0
    revoked: bool = False
    unreadable: int = 0
    unreadable_again: int = 0

    async def start(self, after: str | None) -> int:
        await trio.lowlevel.checkpoint()
        if after is None:
            return len(self.events)
        if not after.isdigit():
            raise InvalidParams("after is no cursor")
        return int(after)

    async def events_after(self, cursor: int, limit: int) -> list[tuple[int, bytes]]:
        await trio.lowlevel.checkpoint()
        self.asked += 1
        if self.revoked:
            raise MissingApiKey("no more")
        if self.unreadable:
            self.unreadable -= 1
            raise StoreUnavailable("not now")
        last = min(cursor + limit, len(self.events))
        return [(n + 1, self.events[n]) for n in range(cursor, last)]

    async def greeting(self, cursor: int) -> tuple[tuple[str, str], ...]:
        await trio.lowlevel.checkpoint()
        if self.unreadable:
            raise StoreUnavailable("not now")
        return (("feed-cursor", str(cursor)),)

    async def events_again(self, seqs: list[int]) -> list[bytes]:
        await trio.lowlevel.checkpoint()
        if self.unreadable_again:
            self.unreadable_again -= 1
            raise StoreUnavailable("not now")
        return [b'{"again":%d}' % seq for seq in seqs]


class Street:
    """The front, what it serves, and what came in."""

    def __init__(
        self, *, trusted: tuple[str, ...] = (), body_max: int = 1000, lane: int | None = None, **front: Any
    ) -> None:
        self.feed = PaymentFeed()
        self.account = Account()
        self.snapshots = {"pay_t1": (b'{"version":0}', False)}
        self.requests: list[Request] = []
        self.slow_s = 5.0
        self.known: Any = SimpleNamespace(prompt=True)
        self.streams: list[trio.SocketStream] = []
        self.stop = trio.Event()
        self.returned = trio.Event()
        self.serving = trio.CancelScope()
        self.door = Door()
        proxies = TrustedProxies(trusted)
        self.sockets = Sockets(
            answer=self.answer,
            feed_of=lambda payment_id: self.feed if payment_id.startswith("pay_t") else None,
            snapshot=self.snapshot,
            authenticate=self.authenticate,
            trusted=proxies,
            feeds_per_ip=3,
        )
        self.app = make_app(self.answer, ROUTES, trusted=proxies, body_max=body_max)
        self.handed_on: list[str] = []
        self.front = Front(
            self.through_hypercorn,
            answer=self.answer,
            sockets=self.sockets,
            trusted=proxies,
            body_max=LANE_BODY_MAX if lane is None else lane,
            **front,
        )

    async def answer(self, request: Request) -> Answer:
        self.requests.append(request)
        if request.path.endswith("/known") and request.seen is not None:
            request.seen.known = self.known
        if request.refusal is not None:
            return error_answer(request.refusal, "req_1", "")
        if request.path.endswith("/slow") or "maxPollMs" in request.query:
            await trio.sleep(self.slow_s)
        if request.path == "/v1/big" or "big" in request.query:
            return Answer(200, bytes(8 << 20))
        if request.path.endswith("/bug"):
            raise ZeroDivisionError
        if request.path.endswith("/none"):
            return Answer(204)
        if request.path.endswith("/worded"):
            return Answer(201, b"words", (("Content-Type", "text/plain"), ("Request-Id", "req_1")))
        if request.path.endswith("/closing"):
            return Answer(200, b"{}", (("Connection", "close"), ("Allow", "GET")))
        return Answer.json({"method": request.method, "path": request.path, "body": request.body.decode()})

    async def through_hypercorn(self, scope: Any, receive: Any, send: Any) -> None:
        self.handed_on.append(scope["path"])
        await self.app(scope, receive, send)

    async def snapshot(self, payment_id: str) -> tuple[bytes, bool] | None:
        await trio.lowlevel.checkpoint()
        if self.account.unreadable:
            raise StoreUnavailable("not now")
        return self.snapshots.get(payment_id)

    async def authenticate(self, request: Request) -> AccountSource:
        await trio.lowlevel.checkpoint()
        if "api-key" not in request.headers:
            raise MissingApiKey("Send your API key.")
        return self.account

    async def connect(self) -> Client:
        """A new connection to the front."""
        near, far = stream_pair()
        self.streams += [near, far]
        await self.door.send.send(far)
        return Client(near)


@asynccontextmanager
async def open_street(**options: Any) -> AsyncIterator[Street]:
    """A street whose front serves until the block ends."""
    street = Street(**options)

    async def serve(task_status: trio.TaskStatus[None]) -> None:
        with street.serving:
            await street.front.serve([street.door], street.stop, task_status=task_status)  # type: ignore[list-item]
        street.returned.set()

    with patch("payd.clock.system_wall_ms", lambda: WALL_MS):
        async with trio.open_nursery() as nursery:
            await nursery.start(serve)
            try:
                yield street
            finally:
                nursery.cancel_scope.cancel()
                for stream in street.streams:
                    stream.socket.close()


@asynccontextmanager
async def open_page() -> AsyncIterator[tuple[Street, Socket]]:
    """A payment's page that has its first snapshot."""
    async with open_street() as street:
        client = await street.connect()
        await client.send(PAYMENT_FEED)
        page = await client.opened()
        assert await page.text() == '{"version":0}'
        await wait_all_tasks_blocked()
        yield street, page


def stream_pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    """Two connected streams."""
    near, far = socket.socketpair()
    return (
        trio.SocketStream(trio.socket.from_stdlib_socket(near)),
        trio.SocketStream(trio.socket.from_stdlib_socket(far)),
    )


def shrink(street: Street) -> None:
    """Give the server's ends the smallest send buffers, so that little fills them."""
    for stream in street.streams:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)


def eventually(is_so: Callable[[], bool]) -> bool:
    """Whether something becomes so within a few seconds, in a thread that is not Trio's."""
    deadline_s = time.monotonic() + 5
    while not is_so() and time.monotonic() < deadline_s:
        time.sleep(0.02)
    return is_so()


class Client:
    """The other end of a connection."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._buffer = b""

    async def send(self, data: bytes | str) -> None:
        await self.stream.send_all(data.encode() if isinstance(data, str) else data)

    async def get(self, path: str, headers: str = "") -> Received:
        await self.send(f"GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n")
        return await self.answer()

    async def answer(self, method: str = "GET") -> Received:
        """The next answer on the connection."""
        parser = h11.Connection(h11.CLIENT)
        parser.send(h11.Request(method=method, target="/", headers=[("host", "x")]))
        parser.send(h11.EndOfMessage())
        if self._buffer:
            parser.receive_data(self._buffer)
        found, body = None, b""
        while True:
            event = parser.next_event()
            if event is h11.NEED_DATA:
                parser.receive_data(await self.stream.receive_some())
            elif isinstance(event, h11.Response):
                found = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                assert found is not None
                self._buffer = parser.trailing_data[0]
                headers = {name.decode(): value.decode() for name, value in found.headers}
                assert headers.get("date") == DATE, "RFC 9110, section 6.6.1: an answer has its date"
                return Received(found.status_code, headers, body)
            elif isinstance(event, h11.ConnectionClosed):
                raise EOFError
            else:
                assert isinstance(event, h11.InformationalResponse)

    async def rest(self) -> bytes:
        """Everything to the end of the connection."""
        data, self._buffer = self._buffer, b""
        try:
            while more := await self.stream.receive_some():
                data += more
        except trio.BrokenResourceError:
            pass  # reset: the end all the same
        return data

    async def opened(self) -> Socket:
        """The websocket that this connection becomes; fails unless the upgrade is accepted."""
        while b"\r\n\r\n" not in self._buffer:
            more = await self.stream.receive_some()
            assert more, self._buffer
            self._buffer += more
        head, _, early = self._buffer.partition(b"\r\n\r\n")
        self._buffer = b""
        assert head.startswith(b"HTTP/1.1 101 "), head
        assert ACCEPTED.encode() in head
        return Socket(self.stream, early)


@dataclass
class Received:
    """An answer as the client got it."""

    status: int
    headers: dict[str, str]
    body: bytes


class Socket:
    """The client's end of a websocket."""

    def __init__(self, stream: trio.SocketStream, early: bytes) -> None:
        self.stream = stream
        self.protocol = Connection(ConnectionType.CLIENT, trailing_data=early)
        self._events = self.protocol.events()

    async def send(self, event: Event) -> None:
        await self.stream.send_all(self.protocol.send(event))

    async def next(self) -> Event:
        """The next event; the end of the connection is a close with 1006."""
        while True:
            for event in self._events:
                return event
            data = await self.stream.receive_some()
            self.protocol.receive_data(data or None)
            self._events = self.protocol.events()

    async def _next_but_ping(self) -> Event:
        while isinstance(event := await self.next(), Ping):
            pass
        return event

    async def text(self) -> str:
        """The next message."""
        text = ""
        while True:
            event = await self._next_but_ping()
            assert isinstance(event, TextMessage), event
            text += event.data
            if event.message_finished:
                return text

    async def closed(self) -> int:
        """The code of the close that comes next."""
        event = await self._next_but_ping()
        assert isinstance(event, CloseConnection), event
        return int(event.code)
