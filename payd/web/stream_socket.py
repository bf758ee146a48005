"""A websocket straight on a connection: one task, no buffer but the newest snapshot, a few kB.

What others leave is written at once where the kernel takes it; the task wakes for what it does not take, and
for what the client says.

Source: DESIGN.md, "8. Feed".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

import msgspec
import trio
from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection, Ping, Pong
from wsproto.utilities import generate_accept_token

from payd.actors.feed import Update, text_frame
from payd.clock import http_date
from payd.web.call import Answer
from payd.web.wire import linger, receive_now, write_now

# A client that leaves so many pings without an answer is gone.
UNANSWERED_MAX: Final = 2
# A client that takes nothing for this long is dropped; it reconnects and gets the newest snapshot.
STUCK_S: Final = 10.0
# What a client may send from one ping to the next. All it has to say is pong.
INBOUND_BYTES_MAX: Final = 16_384
RECEIVE_BYTES: Final = 2_048

NORMAL: Final = 1000
POLICY: Final = 1008
INTERNAL: Final = 1011
RESTART: Final = 1012

# The first bytes of two control frames, the bit that says masked, and the size of one without payload.
CLOSE: Final = 0x88
PONG: Final = 0x8A
MASK_BIT: Final = 0x80
MASKED_BYTES: Final = 6

_PING_FRAME: Final = bytes(Connection(ConnectionType.SERVER).send(Ping()))

_SWITCHING: Final = (
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
    b"sec-websocket-accept: %b\r\n%b\r\n"
)

Pull = Callable[[], Awaitable[list[bytes]]]
Headers = tuple[tuple[str, str], ...]


class StreamSocket:
    """A websocket straight on a connection. Its task waits for the client; others leave things and go on."""

    __slots__ = (
        "_bade_farewell", "_close_code", "_early", "_gone", "_inbound", "_key", "_latest", "_number",
        "_parser", "_ping_due", "_pong", "_scope", "_stream", "_tail", "_unanswered", "_woken",
    )  # fmt: skip

    def __init__(self, stream: trio.SocketStream, key: bytes, early: bytes) -> None:
        self._stream = stream
        # Nobody but its own task closes a feed's connection, after `run`: until then this names it.
        self._number = stream.socket.fileno()
        self._key = key
        self._early = early
        self._parser: Connection | None = None
        # Set while the task waits for the client, was not called, and nobody is in the middle of a write.
        self._scope: trio.CancelScope | None = None
        self._tail = b""
        self._pong = b""
        self._ping_due = False
        self._latest: Update | None = None
        self._close_code: int | None = None
        # Whether a close frame is among what was written or waits in `_tail`.
        self._bade_farewell = False
        self._unanswered = 0
        self._inbound = 0
        self._woken = True
        self._gone = False

    def push(self, update: Update) -> None:
        """Write the frame if the kernel takes it, else keep it as the newest.

        After the last one the task sleeps on, until the client says goodbye too: thousands that were told at
        once do not all run at once.
        """
        if self._close_code is not None:
            return
        if update.final:
            self._close_code = NORMAL
        if self._scope is None:
            self._latest = update
            return
        frame = update.frame
        sent = self._write(frame)
        if sent == 0:
            self._latest = update
            return self._call_task()
        self._bade_farewell = update.final
        if sent < len(frame):
            self._tail = frame[sent:]
            self._call_task()

    def ping(self) -> None:
        """Send a ping, or give the client up. Who was told goodbye and said nothing since is hung up on."""
        if self._bade_farewell:
            return self._call_task()
        if self._unanswered >= UNANSWERED_MAX:
            self._gone = True
            return self._call_task()
        self._unanswered += 1
        self._inbound = 0
        if self._scope is None:
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
        self._tail = _SWITCHING % (generate_accept_token(self._key), told)
        self._key = b""
        if first is not None:
            self._tail += text_frame(first.payload)
            if first.final:
                self.close(NORMAL)

    async def run(self, pull: Pull | None) -> None:
        """Serve until one side ends it; an error of `pull` closes with 1011 and is raised."""
        early, self._early = self._early, b""
        try:
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
                    self._hear()
                else:
                    await self._listen()
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            return  # the client is gone, or as good as gone
        except Exception:
            self._write(close_frame(INTERNAL))
            raise

    async def _flush(self) -> None:
        """Send all that waits, the close frame last."""
        while data := self._next_bytes():
            with trio.fail_after(STUCK_S):
                await self._stream.send_all(data)
            self._unanswered = 0
        if self._close_code is not None and not self._bade_farewell:
            with trio.fail_after(STUCK_S):
                await self._stream.send_all(close_frame(self._close_code))

    async def _listen(self) -> None:
        """Wait for the client, or until somebody calls.

        Not by `receive_some`, whose frames and buffer are a fifth of what an idle page costs.
        """
        with trio.CancelScope() as scope:
            self._scope = scope
            try:
                await trio.lowlevel.wait_readable(self._stream.socket)
            finally:
                self._scope = None
        if not scope.cancelled_caught:
            self._hear()

    def _hear(self) -> None:
        """Take what has come from the client, without waiting."""
        data = receive_now(self._stream.socket, RECEIVE_BYTES)
        if data:
            self._take(data)
        elif data is not None:
            self._gone = True

    def _next_bytes(self) -> bytes:
        data = b""
        if self._tail:
            data, self._tail = self._tail, b""
        elif self._pong:
            data, self._pong = self._pong, b""
        elif self._ping_due:
            data, self._ping_due = _PING_FRAME, False
        elif self._latest is not None:
            data, self._bade_farewell = self._latest.frame, self._latest.final
            self._latest = None
        return data

    def _take(self, data: bytes) -> None:
        """What the client sent: pong, ping or close; anything else is against the rules."""
        if not data:
            return
        if self._bade_farewell:
            self._gone = is_whole(data, CLOSE)
            return
        self._inbound += len(data)
        if self._inbound > INBOUND_BYTES_MAX:
            return self.close(POLICY)
        if self._parser is None:
            if is_whole(data, PONG):  # all that most clients ever say; a parser is 3 kB
                self._unanswered = 0
                return
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

    def _call_task(self) -> None:
        scope, self._scope = self._scope, None
        if scope is not None:
            scope.cancel()

    def _write(self, frame: bytes) -> int:
        try:
            return write_now(self._number, frame)
        except trio.BrokenResourceError:
            self._gone = True
            self._call_task()
            return len(frame)


def close_frame(code: int) -> bytes:
    """A close frame; `CloseReason.NO_STATUS_RCVD` is sent without a code."""
    return bytes(Connection(ConnectionType.SERVER).send(CloseConnection(code=code)))


def is_whole(data: bytes, first: int) -> bool:
    """Whether this is one control frame of a client with this first byte, the whole of it and no more."""
    return len(data) >= MASKED_BYTES and data[0] == first and len(data) == MASKED_BYTES + (data[1] ^ MASK_BIT)


def encode_answer(answer: Answer) -> bytes:
    """An answer in HTTP/1.1 that ends its connection."""
    head = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
    headers = {name.lower(): value for name, value in answer.headers}
    if answer.body:
        headers.setdefault("content-type", "application/json")
    headers |= {"content-length": str(len(answer.body)), "connection": "close", "date": http_date()}
    head += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*head, "", ""]).encode("latin-1") + answer.body


class _Versioned(msgspec.Struct):
    version: int = -1


def is_newer(update: Update, than: Update) -> bool:
    """Whether a pushed snapshot is newer than one that was read while it came."""
    version, read = (msgspec.json.decode(each.payload, type=_Versioned).version for each in (update, than))
    return version > read
