"""Feeds over websockets: one task a socket, no buffer but the newest snapshot, and one heartbeat for all.

A push is one non-blocking write of a frame that all readers share. A socket whose buffer is full keeps the
newest snapshot, and its own task sends that when it can: nobody else waits, and who takes nothing for
`STUCK_S` is dropped.

Source: DESIGN.md, "8. Feed".
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final, Protocol

import msgspec
import trio
from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection, Ping, Pong
from wsproto.utilities import generate_accept_token

from payd.actors.feed import AccountFeed, Listener, PaymentFeed, Update, text_frame
from payd.core.errors import InvalidParams, PaydError, PaymentNotFound, RateLimited, UpgradeRequired
from payd.web.call import Answer, Answering, Request
from payd.web.client import TrustedProxies
from payd.web.limits import Slots
from payd.web.wire import linger, send_now

# Below what common proxies give an idle connection.
PING_S: Final = 25.0
# The pings of one period leave in as many groups, so that ten thousand sockets are no burst.
BEATS: Final = 25
# A client that leaves so many pings without an answer is gone.
UNANSWERED_MAX: Final = 2
# A client that takes nothing for this long is dropped; it reconnects and gets the newest snapshot.
STUCK_S: Final = 10.0
# What a client may send from one ping to the next. All it has to say is pong.
INBOUND_BYTES_MAX: Final = 16_384
RECEIVE_BYTES: Final = 2_048
# Events read and sent at once to an account's listener: some 100 kB, which 10 kB/s takes within `STUCK_S`.
BATCH_MAX: Final = 50
# Feeds open at once in all, and from one address: a shop's network full of phones.
FEEDS_MAX: Final = 20_000
FEEDS_PER_IP_MAX: Final = 200
# Pages that are turned away come back after this long.
RETRY_S: Final = 5

NORMAL: Final = 1000
POLICY: Final = 1008
INTERNAL: Final = 1011
RESTART: Final = 1012

VERSION: Final = "13"
KEY_BYTES: Final = 16

_FEED = re.compile(r"/v1/(?:payments/(?P<payment_id>[^/]+)/)?feed")
_PING_FRAME: Final = bytes(Connection(ConnectionType.SERVER).send(Ping()))

_SWITCHING: Final = (
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
    b"sec-websocket-accept: %b\r\n%b\r\n"
)

Pull = Callable[[], Awaitable[list[bytes]]]
Headers = tuple[tuple[str, str], ...]


class AccountSource(Protocol):
    """An account's events, for one authenticated listener."""

    account_id: str
    feed: AccountFeed

    async def start(self, after: str | None) -> Any:
        """The cursor to read on from: `after`, or the newest event. Raises PaydError if it is none."""

    async def greeting(self, cursor: Any) -> Headers:
        """What the handshake's answer tells: where the feed begins, and how much waits there."""

    async def events_after(self, cursor: Any, limit: int) -> list[tuple[Any, bytes]]:
        """The next events: cursor and message of each. Raises PaydError when the caller may no more."""

    async def events_again(self, seqs: list[int]) -> list[bytes]:
        """The messages of events that are sent once more."""


class FeedSocket(Protocol):
    """A websocket that is not accepted yet, whatever carries it. Only the last three wait."""

    def push(self, update: Update) -> None:
        """See `payd.actors.feed.Reader`."""

    def close(self, code: int) -> None:
        """See `payd.actors.feed.Reader`."""

    def wake(self) -> None:
        """Have its task pull."""

    def ping(self) -> None:
        """Ask whether the client is there; give it up if it did not answer before."""

    async def refuse(self, answer: Answer) -> None:
        """Answer with plain HTTP instead of a websocket."""

    async def open(self, first: Update | None, headers: Headers = ()) -> None:
        """Accept the websocket, with these headers, and send the first message."""

    async def run(self, pull: Pull | None) -> None:
        """Serve until one side ends it. `pull` is asked for messages at the start and after each wake."""


def is_feed(path: str) -> bool:
    """Whether a path is one of a feed."""
    return _FEED.fullmatch(path) is not None


def wants_upgrade(request: Request) -> bool:
    """Whether a request asks for a websocket."""
    tokens = request.headers.get("connection", "").lower().split(",")
    upgrade = request.headers.get("upgrade", "").strip().lower()
    return request.method == "GET" and upgrade == "websocket" and any(t.strip() == "upgrade" for t in tokens)


class Sockets:
    """All open feeds.

    Args:
        answer: Words every refusal: it is given the request with its `refusal`.
        feed_of: The feed of the realm that a payment id names, or None.
        snapshot: A payment's snapshot and whether it is final, or None if there is no such payment.
        authenticate: Who is asking for the account feed. Raises PaydError.
        trusted: The proxies, whose address stands for many clients.
        feeds_max: Open at once in all.
        feeds_per_ip: Open at once from one address; 0 is no limit.
    """

    def __init__(
        self,
        *,
        answer: Answering,
        feed_of: Callable[[str], PaymentFeed | None],
        snapshot: Callable[[str], Awaitable[tuple[bytes, bool] | None]],
        authenticate: Callable[[Request], Awaitable[AccountSource]],
        trusted: TrustedProxies,
        feeds_max: int = FEEDS_MAX,
        feeds_per_ip: int = FEEDS_PER_IP_MAX,
    ) -> None:
        self._answer = answer
        self._feed_of = feed_of
        self._snapshot = snapshot
        self._authenticate = authenticate
        self._trusted = trusted
        self._slots = Slots(feeds_max, feeds_per_ip)
        self._groups: list[set[FeedSocket]] = [set() for _ in range(BEATS)]
        self._opened = 0
        self._stopping = False

    def __len__(self) -> int:
        """How many are open."""
        return sum(map(len, self._groups))

    async def heartbeat(self) -> None:
        """Ping every socket once in `PING_S`; runs until cancelled."""
        while True:
            for group in self._groups:
                await trio.sleep(PING_S / BEATS)
                for socket in tuple(group):
                    socket.ping()

    def close_all(self, code: int = RESTART) -> None:
        """Close every socket, and from now on each new one as soon as it is open."""
        self._stopping = True
        for group in self._groups:
            for socket in tuple(group):
                socket.close(code)

    async def serve_stream(self, stream: trio.SocketStream, request: Request, early: bytes) -> None:
        """Serve a feed on a connection that has sent an upgrade and, after it, `early`. Does not close it."""
        key = request.headers.get("sec-websocket-key", "")
        socket = StreamSocket(stream, key.encode("latin-1"), early)
        if request.headers.get("sec-websocket-version") != VERSION:
            request.refusal = UpgradeRequired(
                f"This server speaks version {VERSION} of the websocket protocol."
            )
            answer = await self._answer(request)
            headers = (*answer.headers, ("sec-websocket-version", VERSION))
            await socket.refuse(Answer(answer.status, answer.body, headers))
        elif not _is_key(key):
            error = InvalidParams("Sec-WebSocket-Key is not 16 bytes in base64.")
            await self._refuse(socket, request, error)
        else:
            await self.serve(socket, request)

    async def serve(self, socket: FeedSocket, request: Request) -> None:
        """Serve the feed that `request` names, from the handshake to the end."""
        match = _FEED.fullmatch(request.path)
        assert match is not None, "only feed paths come here"
        key = self._trusted.slot_key(request.client_ip)
        if not self._slots.try_take(key):
            error = RateLimited("Too many open feeds.", details={"retryAfterS": RETRY_S})
            return await self._refuse(socket, request, error)
        try:
            if match["payment_id"] is not None:
                await self._serve_payment(socket, request, match["payment_id"])
            else:
                await self._serve_account(socket, request)
        finally:
            self._slots.release(key)

    async def _serve_payment(self, socket: FeedSocket, request: Request, payment_id: str) -> None:
        feed = self._feed_of(payment_id)
        if feed is None:
            return await self._refuse(socket, request, PaymentNotFound("No such payment."))
        # First the subscription, then the state: what changes in between is not lost.
        feed.subscribe(payment_id, socket)
        try:
            snapshot = await self._snapshot(payment_id)
            if snapshot is None:
                return await self._refuse(socket, request, PaymentNotFound("No such payment."))
            await self._run(socket, Update(*snapshot), None)
        finally:
            feed.unsubscribe(payment_id, socket)

    async def _serve_account(self, socket: FeedSocket, request: Request) -> None:
        try:
            source = await self._authenticate(request)
            cursor = await source.start(request.query.get("after", [None])[-1])
        except PaydError as error:
            return await self._refuse(socket, request, error)
        listener = Listener(socket.wake)

        async def pull() -> list[bytes]:
            nonlocal cursor
            try:
                events = await source.events_after(cursor, BATCH_MAX)
            except PaydError:
                socket.close(POLICY)
                return []
            if events:
                cursor = events[-1][0]
            # Behind what is new, so that nothing comes again before it came.
            again = listener.take_resends(BATCH_MAX - len(events))
            return [message for _, message in events] + (await source.events_again(again) if again else [])

        source.feed.subscribe(source.account_id, listener)
        try:
            await self._run(socket, None, pull, await source.greeting(cursor))
        finally:
            source.feed.unsubscribe(source.account_id, listener)

    async def _run(
        self, socket: FeedSocket, first: Update | None, pull: Pull | None, headers: Headers = ()
    ) -> None:
        group = self._groups[self._opened % BEATS]
        self._opened += 1
        group.add(socket)
        try:
            if self._stopping:
                socket.close(RESTART)
            await socket.open(first, headers)
            await socket.run(pull)
        finally:
            group.discard(socket)

    async def _refuse(self, socket: FeedSocket, request: Request, error: PaydError) -> None:
        request.refusal = error
        await socket.refuse(await self._answer(request))


class StreamSocket:
    """A websocket straight on a connection. Its task waits for the client; others leave things and go on."""

    __slots__ = (
        "_close_code", "_early", "_gone", "_inbound", "_key", "_latest", "_parser", "_ping_due", "_pong",
        "_scope", "_stream", "_tail", "_unanswered", "_woken",
    )  # fmt: skip

    def __init__(self, stream: trio.SocketStream, key: bytes, early: bytes) -> None:
        self._stream = stream
        self._key = key
        self._early = early
        self._parser: Connection | None = None
        # Set while the task waits for the client, and nobody is in the middle of a write.
        self._scope: trio.CancelScope | None = None
        self._tail = b""
        self._pong = b""
        self._ping_due = False
        self._latest: Update | None = None
        self._close_code: int | None = None
        self._unanswered = 0
        self._inbound = 0
        self._woken = True
        self._gone = False

    def push(self, update: Update) -> None:
        """Write the frame if the kernel takes it, else keep it as the newest."""
        if self._close_code is not None:
            return
        if not self._is_free():
            self._latest = update
        elif (sent := self._write(update.frame)) == 0:
            self._latest = update
            self._call_task()
        elif sent < len(update.frame):
            self._tail = update.frame[sent:]
            self._call_task()
        if update.final:
            self.close(NORMAL)

    def ping(self) -> None:
        """Send a ping, or give the client up."""
        if self._unanswered >= UNANSWERED_MAX:
            self._gone = True
            return self._call_task()
        self._unanswered += 1
        self._inbound = 0
        if not self._is_free():
            self._ping_due = True
        elif (sent := self._write(_PING_FRAME)) < len(_PING_FRAME):
            self._tail = _PING_FRAME[sent:]
            self._call_task()

    def close(self, code: int) -> None:
        """Send a close frame after what waits to be sent; only the first code counts."""
        if self._close_code is None:
            self._close_code = code
            self._call_task()

    def wake(self) -> None:
        """Have the task pull."""
        self._woken = True
        self._call_task()

    async def refuse(self, answer: Answer) -> None:
        """Answer with plain HTTP and end the connection."""
        try:
            with trio.move_on_after(STUCK_S):
                await self._stream.send_all(encode_answer(answer))
                await linger(self._stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    async def open(self, first: Update | None, headers: Headers = ()) -> None:
        """Send the handshake's answer and the first frame in one go."""
        if first is not None and self._latest is not None and not is_newer(self._latest, first):
            self._latest = None
        told = "".join(f"{name}: {value}\r\n" for name, value in headers).encode("latin-1")
        self._tail = _SWITCHING % (generate_accept_token(self._key), told) + (first.frame if first else b"")
        if first is not None and first.final:
            self.close(NORMAL)

    async def run(self, pull: Pull | None) -> None:
        """Serve until one side ends it; an error of `pull` closes with 1011 and is raised."""
        try:
            await self._run(pull)
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            return  # the client is gone, or as good as gone
        except Exception:
            self._write(close_frame(INTERNAL))
            raise

    async def _run(self, pull: Pull | None) -> None:
        early, self._early = self._early, b""
        self._take(early)
        while not self._gone:
            await self._flush()
            if self._close_code is not None:
                return await linger(self._stream)
            if pull is not None and self._woken:
                self._woken = False
                messages = await pull()
                self._woken = self._woken or bool(messages)
                self._tail = b"".join(map(text_frame, messages))
            else:
                await self._listen()

    async def _listen(self) -> None:
        """Wait for the client, or until somebody calls."""
        data: bytes | bytearray | None = None
        with trio.CancelScope() as self._scope:
            try:
                data = await self._stream.receive_some(RECEIVE_BYTES)
            finally:
                self._scope = None
        if data:
            self._take(bytes(data))
        elif data is not None:
            self._gone = True

    async def _flush(self) -> None:
        """Send all that waits, the close frame last."""
        while data := self._next_bytes():
            with trio.fail_after(STUCK_S):
                await self._stream.send_all(data)
            self._unanswered = 0
        if self._close_code is not None:
            with trio.fail_after(STUCK_S):
                await self._stream.send_all(close_frame(self._close_code))

    def _next_bytes(self) -> bytes:
        data = b""
        if self._tail:
            data, self._tail = self._tail, b""
        elif self._pong:
            data, self._pong = self._pong, b""
        elif self._ping_due:
            data, self._ping_due = _PING_FRAME, False
        elif self._latest is not None:
            data, self._latest = self._latest.frame, None
        return data

    def _take(self, data: bytes) -> None:
        """What the client sent: pong, ping or close; anything else is against the rules."""
        if not data:
            return
        self._inbound += len(data)
        if self._inbound > INBOUND_BYTES_MAX:
            return self.close(POLICY)
        if self._parser is None:
            self._parser = Connection(ConnectionType.SERVER)
        self._parser.receive_data(data)
        for event in self._parser.events():
            if isinstance(event, Pong):
                self._unanswered = 0
            elif isinstance(event, Ping):
                self._pong = bytes(self._parser.send(event.response()))
            else:
                # A close is echoed; broken frames come as a close with the code that says how.
                return self.close(event.code if isinstance(event, CloseConnection) else POLICY)

    def _is_free(self) -> bool:
        """Whether others may write: the task waits for the client and was not called."""
        return self._scope is not None and not self._scope.cancel_called

    def _call_task(self) -> None:
        if self._scope is not None:
            self._scope.cancel()

    def _write(self, frame: bytes) -> int:
        try:
            return send_now(self._stream.socket, frame)
        except trio.BrokenResourceError:
            self._gone = True
            self._call_task()
            return len(frame)


def close_frame(code: int) -> bytes:
    """A close frame; `CloseReason.NO_STATUS_RCVD` is sent without a code."""
    return bytes(Connection(ConnectionType.SERVER).send(CloseConnection(code=code)))


def encode_answer(answer: Answer) -> bytes:
    """An answer in HTTP/1.1 that ends its connection."""
    head = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
    headers = {name.lower(): value for name, value in answer.headers}
    if answer.body:
        headers.setdefault("content-type", "application/json")
    headers |= {"content-length": str(len(answer.body)), "connection": "close"}
    head += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*head, "", ""]).encode("latin-1") + answer.body


class _Versioned(msgspec.Struct):
    version: int = -1


def is_newer(update: Update, than: Update) -> bool:
    """Whether a pushed snapshot is newer than one that was read while it came."""
    version, read = (msgspec.json.decode(each.payload, type=_Versioned).version for each in (update, than))
    return version > read


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == KEY_BYTES
    except (binascii.Error, ValueError):
        return False
