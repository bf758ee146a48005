"""A webhook receiver that does what a script says: a real HTTP/1.1 peer, on loopback or in memory.

In memory it runs in virtual time: the client under test dials it, and nothing else is different. The
certificates in `tests/tls` are of an authority that nobody trusts but `tests/tls/ca.pem`, for tests alone.
"""

from __future__ import annotations

import ssl
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET
from typing import Final

import h11
import msgspec
import trio
from trio.testing import memory_stream_pair

TLS_FOLDER: Final = Path(__file__).parent / "tls"
CA_FILE: Final = TLS_FOLDER / "ca.pem"


@dataclass(frozen=True)
class Does:
    """What the receiver does with one request; by default it answers 200 at once.

    Attributes:
        status: Of the answer.
        delay_s: Before the status line.
        hangs: Never answers.
        resets: Closes without an answer, with a TCP reset where there is TCP.
        raw: Sent instead of an answer, byte for byte; then the connection is closed.
        drips: Sends `body` again and again, one a second, and never ends it.
        closes: Ends the connection after the answer.
        until: Waits for this before the status line.
    """

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b"ok"
    delay_s: float = 0.0
    hangs: bool = False
    resets: bool = False
    raw: bytes | None = None
    drips: bool = False
    closes: bool = False
    until: trio.Event | None = None


@dataclass(frozen=True)
class Received:
    """One request, when its body had arrived, in Trio's time."""

    at_s: float
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> str:
        """The id of the event in the body."""
        found: str = msgspec.json.decode(self.body)["id"]
        return found


Script = Callable[[Received], Does]


def always(does: Does) -> Script:
    """The same for every request."""
    return lambda _received: does


def in_turn(*acts: Does) -> Script:
    """One after the other; the last one for all that follow."""
    left = list(acts)
    return lambda _received: left.pop(0) if len(left) > 1 else left[0]


def server_tls(name: str = "receiver") -> ssl.SSLContext:
    """A server's side with the certificate `tests/tls/<name>.pem`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS_FOLDER / f"{name}.pem")
    return context


@dataclass
class Receiver:
    """Serves connections by its script and keeps what it received."""

    nursery: trio.Nursery
    script: Script = field(default_factory=lambda: always(Does()))
    tls: ssl.SSLContext | None = None
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    open: int = 0
    most_open: int = 0
    _news: trio.Event = field(default_factory=trio.Event)

    async def dial(self, _address: str, _port: int) -> trio.abc.Stream:
        """A connection in memory; pass it to the client instead of the network."""
        await trio.lowlevel.checkpoint()
        ours, theirs = memory_stream_pair()
        self.nursery.start_soon(self.serve, theirs)
        return ours

    async def listen(self) -> int:
        """Listen on a free port of 127.0.0.1 and give it back."""
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port: int = listeners[0].socket.getsockname()[1]
        self.nursery.start_soon(trio.serve_listeners, self.serve, listeners)
        return port

    async def count(self, number: int) -> list[Received]:
        """Return when that many requests have come, within two days."""
        with trio.fail_after(48 * 3600):
            while len(self.received) < number:
                await self._news.wait()
        return self.received

    async def serve(self, tcp: trio.abc.Stream) -> None:
        """Serve one connection until either side ends it."""
        self.connections += 1
        stream = (
            tcp
            if self.tls is None
            else trio.SSLStream(tcp, self.tls, server_side=True, https_compatible=True)
        )
        try:
            connection = h11.Connection(h11.SERVER)
            while await self._one(connection, stream, tcp):
                connection.start_next_cycle()
        except (trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError):
            return
        finally:
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)

    async def _one(self, connection: h11.Connection, stream: trio.abc.Stream, tcp: trio.abc.Stream) -> bool:
        received = await _read(connection, stream)
        if received is None:
            return False
        self.received.append(received)
        news, self._news = self._news, trio.Event()
        news.set()
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            return await self._act(self.script(received), connection, stream, tcp)
        finally:
            self.open -= 1

    async def _act(
        self, does: Does, connection: h11.Connection, stream: trio.abc.Stream, tcp: trio.abc.Stream
    ) -> bool:
        if does.hangs:
            # Until the other side gives up.
            while await stream.receive_some():
                pass
            return False
        if does.until is not None:
            await does.until.wait()
        await trio.sleep(does.delay_s)
        if does.resets:
            if isinstance(tcp, trio.SocketStream):
                tcp.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
            return False
        if does.raw is not None:
            await stream.send_all(does.raw)
            return False
        await _answer(does, connection, stream)
        return not does.closes and connection.our_state is not h11.MUST_CLOSE


async def _read(connection: h11.Connection, stream: trio.abc.Stream) -> Received | None:
    request: h11.Request | None = None
    body = b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(bytes(await stream.receive_some()))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            assert request is not None
            headers = {name.decode(): value.decode() for name, value in request.headers}
            return Received(
                trio.current_time(), request.method.decode(), request.target.decode(), headers, body
            )
        else:
            return None


async def _answer(does: Does, connection: h11.Connection, stream: trio.abc.Stream) -> None:
    length = () if does.drips else (("content-length", str(len(does.body))),)
    ends = (("connection", "close"),) if does.closes else ()
    head = h11.Response(status_code=does.status, headers=[*length, *ends, *does.headers])
    await stream.send_all(connection.send(head) or b"")
    while does.drips:
        await stream.send_all(connection.send(h11.Data(data=does.body)) or b"")
        await trio.sleep(1)
    rest = connection.send(h11.Data(data=does.body)) or b"" if does.body else b""
    await stream.send_all(rest + (connection.send(h11.EndOfMessage()) or b""))
