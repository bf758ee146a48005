"""One connection to a peer: TLS, a request and its answer, and whether it may carry another one.

Source: SPEC.md, "Delivery rules"; DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

import contextlib
import ssl
from typing import Final

import h11
import trio

# A connection is used again only this long, so that a changed DNS record is noticed.
CONNECTION_AGE_MAX_S: Final = 60.0
# h11 gives up on a status line or header block that is longer.
HEAD_BYTES_MAX: Final = 32 * 1024
INFORMATIONAL_MAX: Final = 16
TLS_DEADLINE_S: Final = 5.0
READ_BYTES: Final = 16 * 1024

_BOTH_DONE: Final = {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}


class Failed(Exception):
    """What the network or the peer did; `detail` has nothing that the peer sent."""

    def __init__(self, error_class: str, detail: str) -> None:
        super().__init__(detail)
        self.error_class = error_class
        self.detail = detail


class Stale(Exception):
    """A connection that was used before died without a byte of an answer."""


class Connection:
    """One connection; belongs to one request at a time, or lies idle."""

    __slots__ = ("_below", "_socket", "answered", "h11", "opened_s", "remote_ip", "stream")

    def __init__(self, stream: trio.abc.Stream, remote_ip: str) -> None:
        self.stream = stream
        below = stream.transport_stream if isinstance(stream, trio.SSLStream) else None
        self._below = below if isinstance(below, _BelowTls) else None
        tcp = stream if self._below is None else self._below.tcp
        self._socket = tcp.socket if isinstance(tcp, trio.SocketStream) else None
        self.remote_ip = remote_ip
        self.opened_s = trio.current_time()
        self.h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
        self.answered = False

    def is_fit(self) -> bool:
        """Whether an idle connection may carry one more request; anything to read is a close, or unasked."""
        young = trio.current_time() - self.opened_s < CONNECTION_AGE_MAX_S
        return young and not (self._socket is not None and self._socket.is_readable())

    async def next_cycle(self) -> bool:
        """Make ready for one more request, if the last one ended cleanly and nothing came after it."""
        if self.h11.states != _BOTH_DONE or self.h11.trailing_data[0] or await self._has_more():
            return False
        self.h11.start_next_cycle()
        self.answered = False
        return True

    async def read(self) -> None:
        """Give h11 what comes next; the end of the stream too."""
        data = await self.stream.receive_some(READ_BYTES)
        self.answered = self.answered or bool(data)
        self.h11.receive_data(bytes(data))

    async def aclose(self) -> None:
        """Close at once, whatever is under way."""
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(self.stream)

    async def _has_more(self) -> bool:
        """Whether TLS holds what the peer sent after its answer: no socket shows that as readable."""
        if self._below is None:
            return False
        self._below.is_dry = True
        try:
            await self.stream.receive_some(1)
        except _Dry:
            return False
        except trio.BrokenResourceError:
            return True
        finally:
            self._below.is_dry = False
        return True


class _Dry(Exception):
    """Nothing is read from the network now."""


class _BelowTls(trio.abc.Stream):
    """The stream below TLS. While `is_dry` it gives nothing, so that only what TLS already has is seen."""

    def __init__(self, tcp: trio.abc.Stream) -> None:
        self.tcp = tcp
        self.is_dry = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self.tcp.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self.tcp.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        if self.is_dry:
            raise _Dry
        return await self.tcp.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self.tcp.aclose()


async def start_tls(tcp: trio.abc.Stream, context: ssl.SSLContext, host: str) -> trio.abc.Stream:
    """TLS on `tcp` with a peer that proves to be `host`; closes `tcp` on every failure.

    Raises:
        Failed: tls_error, or timeout_connect after `TLS_DEADLINE_S`.
    """
    stream = trio.SSLStream(_BelowTls(tcp), context, server_hostname=host, https_compatible=True)
    done = False
    try:
        with trio.move_on_after(TLS_DEADLINE_S):
            await stream.do_handshake()
            done = True
    except trio.BrokenResourceError as error:
        raise Failed("tls_error", _tls_words(error)) from error
    finally:
        if not done:
            await trio.aclose_forcefully(tcp)
    if not done:
        raise Failed("timeout_connect", f"no TLS handshake within {TLS_DEADLINE_S:g} s")
    return stream


async def exchange(connection: Connection, head: h11.Request, body: bytes, *, reused: bool) -> h11.Response:
    """Send the request and read up to the final response's head; closes the connection on every failure.

    Args:
        connection: Fresh, or made ready by `Connection.next_cycle`.
        head: The request.
        body: Sent as it is.
        reused: Whether the connection carried a request before.

    Raises:
        Stale: The connection is `reused` and died without a byte of an answer.
        Failed: connection_reset, tls_error or protocol_error.
    """
    try:
        parts = (head, h11.Data(data=body), h11.EndOfMessage()) if body else (head, h11.EndOfMessage())
        data = b"".join(connection.h11.send(part) or b"" for part in parts)
        # A peer may have answered before it read everything.
        with contextlib.suppress(trio.BrokenResourceError):
            await connection.stream.send_all(data)
        return await _read_head(connection)
    except (trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError) as error:
        await connection.aclose()
        if not connection.answered and reused:
            raise Stale from error
        raise _failure(connection, error) from error
    except BaseException:
        await connection.aclose()
        raise


def take_body(connection: Connection, body: bytearray, bytes_max: int) -> bool | None:
    """Fill `body` with what is there: most bodies come together with the head.

    Returns:
        Whether it came to its end within `bytes_max`; None when more is to come.
    """
    while (event := connection.h11.next_event()) is not h11.NEED_DATA:
        if not isinstance(event, h11.Data):
            return isinstance(event, h11.EndOfMessage)
        body += event.data
        if len(body) > bytes_max:
            return False
    return None


async def read_body(connection: Connection, body: bytearray, bytes_max: int) -> bool:
    """Fill `body`; whether it came to its end within `bytes_max`."""
    while (ended := take_body(connection, body, bytes_max)) is None:
        await connection.read()
    return ended


async def _read_head(connection: Connection) -> h11.Response:
    informational = 0
    while True:
        event = connection.h11.next_event()
        if event is h11.NEED_DATA:
            await connection.read()
        elif isinstance(event, h11.Response):
            return event
        elif isinstance(event, h11.InformationalResponse):
            informational += 1
            if informational > INFORMATIONAL_MAX:
                raise Failed("protocol_error", "too many informational responses")
        else:
            raise h11.RemoteProtocolError("the connection was closed")


def _failure(connection: Connection, error: Exception) -> Failed:
    if isinstance(error.__cause__, ssl.SSLError):
        return Failed("tls_error", _tls_words(error))
    if isinstance(error, h11.RemoteProtocolError) and connection.answered:
        return Failed("protocol_error", "the answer is not HTTP/1.1")
    return Failed("connection_reset", "the connection was closed before an answer")


def _tls_words(error: BaseException) -> str:
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"the certificate was not accepted: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f"no TLS connection: {cause.reason or cause}"  # older Pythons give an end no reason
    return "the handshake was cut off"
