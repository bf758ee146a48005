"""One connection to the account's feed: dialed, upgraded, read, and noticed when it is dead.

Source: DESIGN.md, "8. Feed".
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import msgspec
import trio
import trio_websocket
from wsproto.utilities import ProtocolError

from payd.net.dial import connect_any, dial_from
from payd.net.dns import DnsFailed, Resolver
from payd.net.http import Target, tls_context

# Name, TCP, TLS and upgrade together.
CONNECT_S: Final = 10.0
# A connection is asked whether it is alive this often, and given up when it does not say so in time.
PING_S: Final = 15.0
PONG_S: Final = 10.0
MESSAGE_BYTES_MAX: Final = 1 << 20

CLOSED: Final = {
    1000: "the server closed it",
    1006: "it was cut off",
    1008: "the server takes the key no more",
    1011: "something broke in the server",
    1012: "the server stops",
}


class Message(msgspec.Struct, frozen=True):
    """What the feed sends: an event's bytes, and where to go on after it."""

    cursor: str
    event: msgspec.Raw
    resent: bool = False


@dataclass(frozen=True, slots=True)
class SecretNews:
    """The feed says that the endpoint's secret is another one from here on."""


class Unanswered(Exception):
    """There is no connection now; the message says why, in words that follow a colon."""


class TurnedAway(Exception):
    """The server answered, but with no websocket.

    Attributes:
        status: Of its answer.
        words: What it said, for people.
    """

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.words = words


@dataclass(frozen=True, slots=True)
class Place:
    """Where the feed is.

    Attributes:
        url: The server's, without a slash at its end.
        api_key: That may read events.
        who: Whose events, for people.
        cursor: Where to begin if nobody said; None: behind what is newest when the connection stands.
    """

    url: str
    api_key: str
    who: str
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Greeting:
    """What the handshake told: the cursor before the first event, and how many wait; None: it did not."""

    cursor: str | None = None
    behind: int | None = None


Greet = Callable[[Greeting], None]
Take = Callable[[Message | SecretNews], bool]


async def read_feed(place: Place, after: str | None, greet: Greet, take: Take) -> str | None:
    """One connection to the feed, from the dialing to its end.

    Args:
        place: Where it is.
        after: The cursor behind which it begins; None: behind what is newest.
        greet: Told once the websocket is open.
        take: Given each message; it says whether it has room for more.

    Returns:
        Why it ended, or did not come to a websocket; None when there was no more room.

    Raises:
        TurnedAway: The server does not want it.
    """
    begins = f"&after={quote(after, safe='')}" if after else ""
    target = Target.of(f"{place.url}/v1/feed?tell=secret{begins}")
    rejected: list[object] = []
    reason: str | None = None
    deadline_s = trio.current_time() + CONNECT_S
    try:
        async with _dialed(target, deadline_s) as stream, trio.open_nursery() as nursery:
            socket = await _upgraded(nursery, stream, target, place.api_key, deadline_s)
            greet(_greeting(socket))
            reason = await _read(nursery, socket, take)
            nursery.cancel_scope.cancel()
    except* trio_websocket.ConnectionRejected as group:
        rejected.extend(group.exceptions)
    except* Unanswered as group:
        reason = str(group.exceptions[0])
    except* ProtocolError:
        reason = CLOSED[1006]
    for one in rejected:
        assert isinstance(one, trio_websocket.ConnectionRejected), "one nursery, one level"
        raise TurnedAway(one.status_code, _refusal(one))
    return reason


class _Watched(trio.abc.Stream):
    """A stream that says when it has ended: the library's handshake would wait on for ever."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self.ended = trio.Event()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        sent = False
        try:
            await self._stream.send_all(data)
            sent = True
        finally:
            if not sent:
                self.ended.set()

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data: bytes | bytearray = b""
        try:
            data = await self._stream.receive_some(max_bytes)
        finally:
            if not data:
                self.ended.set()
        return data

    async def aclose(self) -> None:
        self.ended.set()
        await self._stream.aclose()


@asynccontextmanager
async def _dialed(target: Target, deadline_s: float) -> AsyncIterator[_Watched]:
    """A connection, verified where it is TLS; closed at the end, whoever closed the websocket."""
    stream: trio.abc.Stream | None = None
    try:
        with trio.CancelScope(deadline=deadline_s):
            stream = await _dial(target)
    except DnsFailed as error:
        raise Unanswered(f"there is no host {target.host}") from error
    except OSError as error:
        # Of the number: what a connection adds to the words is an address in brackets and quotes.
        raise Unanswered((os.strerror(error.errno) if error.errno else str(error)).lower()) from error
    if stream is None:
        raise Unanswered(f"no connection within {CONNECT_S:g} s")
    try:
        yield _Watched(stream)
    finally:
        await trio.aclose_forcefully(stream)


async def _dial(target: Target) -> trio.abc.Stream:
    tcp, _ = await connect_any(await Resolver()(target.host), target.port, dial_from())
    if target.scheme == "http":
        return tcp
    stream = trio.SSLStream(tcp, tls_context(), server_hostname=target.host, https_compatible=True)
    try:
        await stream.do_handshake()
    except trio.BrokenResourceError as error:
        await trio.aclose_forcefully(tcp)
        if isinstance(error.__cause__, ssl.SSLCertVerificationError):
            words = f"its certificate was not accepted ({error.__cause__.verify_message})"
            raise Unanswered(words) from error
        raise Unanswered("no TLS connection") from error
    except BaseException:
        await trio.aclose_forcefully(tcp)
        raise
    return stream


async def _upgraded(
    nursery: trio.Nursery, stream: _Watched, target: Target, api_key: str, deadline_s: float
) -> trio_websocket.WebSocketConnection:
    """The websocket. Raises Unanswered when the server goes away before it stands, or keeps silent."""
    socket: trio_websocket.WebSocketConnection | None = None
    with trio.CancelScope(deadline=deadline_s) as patience:
        nursery.start_soon(_cancel_after, stream.ended, patience)
        socket = await trio_websocket.wrap_client_stream(
            nursery,
            stream,  # type: ignore[arg-type]  # any stream does
            target.authority,
            target.path,
            extra_headers=[(b"Api-Key", api_key.encode("latin-1"))],
            max_message_size=MESSAGE_BYTES_MAX,
        )
    if socket is None:
        silent = f"no answer within {CONNECT_S:g} s"
        raise Unanswered("it was cut off before an answer" if stream.ended.is_set() else silent)
    return socket


async def _cancel_after(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    # What the other side said before it left is read first.
    await trio.lowlevel.checkpoint()
    scope.cancel()


def _greeting(socket: trio_websocket.WebSocketConnection) -> Greeting:
    told = {name.lower(): value.decode("latin-1") for name, value in socket.handshake_headers}
    behind = told.get(b"feed-behind", "")
    return Greeting(told.get(b"feed-cursor"), int(behind) if behind.isdecimal() else None)


async def _read(nursery: trio.Nursery, socket: trio_websocket.WebSocketConnection, take: Take) -> str | None:
    """Read to the end, and ask from time to time whether the other side is there."""
    with trio.CancelScope() as reading:
        nursery.start_soon(_ping, socket, reading)
        try:
            while take(_decoded(await socket.get_message())):
                pass
        except trio_websocket.ConnectionClosed as closed:
            code = 1006 if closed.reason is None else closed.reason.code
            return CLOSED.get(code, f"the server closed it with code {code}")
        except msgspec.DecodeError:
            return "what came is no event"
        return None
    return f"no answer to a ping within {PONG_S:g} s"


class _Frame(msgspec.Struct):
    cursor: str | None = None
    event: msgspec.Raw = msgspec.Raw(b"")
    resent: bool = False
    secret: str | None = None


def _decoded(text: str | bytes) -> Message | SecretNews:
    frame = msgspec.json.decode(text, type=_Frame)
    if frame.secret is not None:
        return SecretNews()
    if frame.cursor is None or not bytes(frame.event):
        raise msgspec.DecodeError("neither an event nor news")
    return Message(frame.cursor, frame.event, frame.resent)


async def _ping(socket: trio_websocket.WebSocketConnection, reading: trio.CancelScope) -> None:
    """Cancel `reading` once a ping has no answer: where a cable was pulled, nothing else says so."""
    while True:
        await trio.sleep(PING_S)
        try:
            with trio.move_on_after(PONG_S) as patience:
                await socket.ping()
        except trio_websocket.ConnectionClosed:
            return
        if patience.cancelled_caught:
            return reading.cancel()


class _Refusal(msgspec.Struct):
    message: str = ""


def _refusal(rejected: trio_websocket.ConnectionRejected) -> str:
    """What the server said, where it is payd."""
    try:
        words = msgspec.json.decode(rejected.body or b"{}", type=_Refusal).message
    except msgspec.DecodeError:
        words = ""
    return words or f"it answered {rejected.status_code}, not with a websocket. Is the URL right?"
