"""One small HTTP/1.1 client, the only way out: vetted address, one deadline, bounded everything.

A request never raises for what a network or a peer does: it ends in a `Reply` whose `error_class` says how.
It follows no redirect, reads no proxy from the environment and decompresses nothing.

Source: SPEC.md, "Delivery rules"; DESIGN.md, "2. The stack".
"""

from __future__ import annotations

import contextlib
import errno
import ssl
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import h11
import msgspec
import trio

from payd.core.endpoint import DEFAULT_PORTS, RESPONSE_DEADLINE_S, check_url
from payd.net.dial import Dial, connect_any, dial_from
from payd.net.dns import DnsFailed, Resolve, Resolver

# A connection is used again only this long, so that a changed DNS record is noticed.
CONNECTION_AGE_MAX_S: Final = 60.0
IDLE_PER_ORIGIN_MAX: Final = 10
IDLE_MAX: Final = 256
# h11 gives up on a status line or header block that is longer.
HEAD_BYTES_MAX: Final = 32 * 1024
INFORMATIONAL_MAX: Final = 16
DNS_DEADLINE_S: Final = 5.0
CONNECT_DEADLINE_S: Final = 5.0
TLS_DEADLINE_S: Final = 5.0
BODY_BYTES_MAX: Final = 16 * 1024
BODY_WAIT_S: Final = 2.0
READ_BYTES: Final = 16 * 1024

_BOTH_DONE: Final = {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}
_UNREACHABLE: Final = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.ENETDOWN})

Header: TypeAlias = tuple[bytes, bytes]
MayCall: TypeAlias = Callable[[str], bool]


class Target(msgspec.Struct, frozen=True):
    """Where a request goes: `path` with its query, `host` without brackets."""

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def of(cls, url: str) -> Target:
        """The target of a URL.

        Raises:
            InvalidParams: As `core.endpoint.check_url` does.
        """
        scheme, host, port = check_url(url, allow_http=True)
        parts = urlsplit(url)
        return cls(scheme, host, port, (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))

    @property
    def authority(self) -> str:
        """The value of the `Host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


class Reply(msgspec.Struct, frozen=True):
    """How a request ended.

    Attributes:
        status: Of the final status line; None when there was none in time.
        error_class: None exactly when there is a status; else one of dns_error, blocked_address,
            connection_refused, connection_reset, network_unreachable, tls_error, timeout_connect,
            timeout_response, protocol_error.
        detail: What happened, for a log; nothing that the peer sent.
        headers: As they came, names in lower case.
        body: At most as much as was asked for.
        is_whole: Whether `body` is all of the body.
        remote_ip: The address that was called; None when it did not come to that.
        duration_ms: Until the final status line or the failure.
    """

    status: int | None
    error_class: str | None
    detail: str
    headers: tuple[Header, ...]
    body: bytes
    is_whole: bool
    remote_ip: str | None
    duration_ms: int

    def header(self, name: str) -> str | None:
        """The first header of this lower-case name."""
        wanted = name.encode("ascii")
        return next((value.decode("latin-1") for key, value in self.headers if key == wanted), None)


class _Failed(Exception):
    def __init__(self, error_class: str, detail: str) -> None:
        super().__init__(detail)
        self.error_class = error_class
        self.detail = detail


class _Stale(Exception):
    """A connection that was used before died without a byte of an answer."""


class _Connection:
    """One connection; belongs to one request at a time, or lies idle."""

    __slots__ = ("answered", "h11", "opened_s", "remote_ip", "socket", "stream")

    def __init__(self, stream: trio.abc.Stream, tcp: trio.abc.Stream, remote_ip: str) -> None:
        self.stream = stream
        self.socket = tcp.socket if isinstance(tcp, trio.SocketStream) else None
        self.remote_ip = remote_ip
        self.opened_s = trio.current_time()
        self.h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
        self.answered = False

    def is_fit(self) -> bool:
        """Whether an idle connection may carry one more request; anything to read is a close, or unasked."""
        young = trio.current_time() - self.opened_s < CONNECTION_AGE_MAX_S
        return young and not (self.socket is not None and self.socket.is_readable())

    def next_cycle(self) -> bool:
        """Make ready for one more request, if the last one ended cleanly on both sides."""
        if self.h11.states != _BOTH_DONE or self.h11.trailing_data[0]:
            return False
        self.h11.start_next_cycle()
        self.answered = False
        return True

    async def read(self) -> None:
        data = await self.stream.receive_some(READ_BYTES)
        self.answered = self.answered or bool(data)
        self.h11.receive_data(bytes(data))


class _Progress:
    """How far a request has come, for whoever must say why it ended."""

    __slots__ = ("connected", "remote_ip")

    def __init__(self) -> None:
        self.connected = False
        self.remote_ip: str | None = None


def tls_context(ca_file: Path | None = None) -> ssl.SSLContext:
    """Verifies always, TLS 1.2 at least; `ca_file` adds authorities to the system's."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return context


class Client:
    """Sends requests over kept-alive connections. Close it with `aclose`.

    Args:
        may_call: Asked about every address of a host; one refusal refuses the host.
        tls: Such as `tls_context` makes.
        resolve: Names to addresses.
        dial: Address to connection.
    """

    def __init__(
        self,
        *,
        may_call: MayCall,
        tls: ssl.SSLContext | None = None,
        resolve: Resolve | None = None,
        dial: Dial | None = None,
    ) -> None:
        self._may_call = may_call
        self._tls = tls or tls_context()
        self.resolve: Resolve = resolve or Resolver()
        self.dial: Dial = dial or dial_from()
        self._idle: dict[tuple[str, str, int], list[_Connection]] = {}

    async def send(
        self,
        method: str,
        target: Target,
        headers: Iterable[tuple[str, str]],
        body: bytes = b"",
        *,
        deadline_s: float = RESPONSE_DEADLINE_S,
        body_bytes_max: int = BODY_BYTES_MAX,
        body_wait_s: float = BODY_WAIT_S,
    ) -> Reply:
        """One request; never raises for what the network or the peer does.

        The deadline covers all up to the final status line, which is the verdict. The body is then read
        for `body_wait_s` at most and changes nothing.

        Args:
            method: Upper case.
            target: Where to.
            headers: Beyond host, content-length and accept-encoding, which are set here.
            body: Sent as it is.
            deadline_s: Real seconds for name, connection, TLS, request and final status line together.
            body_bytes_max: A longer body is cut there, and the connection closed.
            body_wait_s: Seconds for the body.
        """
        head = h11.Request(method=method, target=target.path, headers=_headers(target, headers, body))
        progress = _Progress()
        started_s = trio.current_time()
        try:
            with trio.fail_after(deadline_s):
                connection, response = await self._answered(target, head, body, progress)
        except trio.TooSlowError:
            error_class = "timeout_response" if progress.connected else "timeout_connect"
            return _failure(error_class, f"no answer within {deadline_s:g} s", progress, started_s)
        except _Failed as failed:
            return _failure(failed.error_class, failed.detail, progress, started_s)
        duration_ms = _ms_since(started_s)
        kept, is_whole = await self._body(target, connection, body_bytes_max, body_wait_s)
        return Reply(
            response.status_code,
            None,
            "",
            tuple(response.headers),
            kept,
            is_whole,
            connection.remote_ip,
            duration_ms,
        )

    async def aclose(self) -> None:
        """Close every idle connection."""
        idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                await _close(connection)

    async def close_unfit(self) -> None:
        """Close idle connections that are too old or that their peer closed."""
        for key, connections in list(self._idle.items()):
            unfit = [one for one in connections if not one.is_fit()]
            for connection in unfit:
                connections.remove(connection)
            if not connections:
                self._idle.pop(key, None)
            for connection in unfit:
                await _close(connection)

    async def _answered(
        self, target: Target, head: h11.Request, body: bytes, progress: _Progress
    ) -> tuple[_Connection, h11.Response]:
        """A connection and the final response's head; once more at once where a kept connection was stale."""
        connection = await self._take_idle(target)
        if connection is not None:
            try:
                return connection, await _exchange(connection, head, body, progress, reused=True)
            except _Stale:
                progress.connected = False
        connection = await self._open(target, progress)
        return connection, await _exchange(connection, head, body, progress, reused=False)

    async def _open(self, target: Target, progress: _Progress) -> _Connection:
        tcp = await self._connect(target, progress)
        if target.scheme == "http":
            return _Connection(tcp, tcp, progress.remote_ip or "")
        stream = trio.SSLStream(tcp, self._tls, server_hostname=target.host, https_compatible=True)
        done = False
        try:
            with trio.move_on_after(TLS_DEADLINE_S):
                await stream.do_handshake()
                done = True
        except trio.BrokenResourceError as error:
            raise _Failed("tls_error", _tls_words(error)) from error
        finally:
            if not done:
                await trio.aclose_forcefully(tcp)
        if not done:
            raise _Failed("timeout_connect", f"no TLS handshake within {TLS_DEADLINE_S:g} s")
        return _Connection(stream, tcp, progress.remote_ip or "")

    async def _connect(self, target: Target, progress: _Progress) -> trio.abc.Stream:
        addresses: list[str] = []
        try:
            with trio.move_on_after(DNS_DEADLINE_S):
                addresses = await self.resolve(target.host)
        except DnsFailed as error:
            raise _Failed("dns_error", str(error)) from error
        if not addresses:
            raise _Failed("dns_error", f"no name server answered within {DNS_DEADLINE_S:g} s")
        if not all(self._may_call(address) for address in addresses):
            raise _Failed("blocked_address", "the host has an address that may not be called")
        try:
            with trio.move_on_after(CONNECT_DEADLINE_S):
                tcp, progress.remote_ip = await connect_any(addresses, target.port, self.dial)
                return tcp
        except OSError as error:
            raise _Failed(_os_class(error), error.strerror or type(error).__name__) from error
        raise _Failed("timeout_connect", f"no connection within {CONNECT_DEADLINE_S:g} s")

    async def _take_idle(self, target: Target) -> _Connection | None:
        connections = self._idle.get((target.scheme, target.host, target.port), [])
        while connections:
            connection = connections.pop()
            if connection.is_fit():
                return connection
            await _close(connection)
        return None

    async def _body(
        self, target: Target, connection: _Connection, bytes_max: int, wait_s: float
    ) -> tuple[bytes, bool]:
        """What came of the body, and whether that is all; the connection is kept if it can be used again."""
        body, ended = bytearray(), False
        try:
            with trio.move_on_after(wait_s):
                ended = await _read_body(connection, body, bytes_max)
        except (trio.BrokenResourceError, h11.RemoteProtocolError):
            ended = False
        except BaseException:
            await _close(connection)
            raise
        if not (ended and connection.next_cycle() and self._keep(target, connection)):
            await _close(connection)
        return bytes(body[:bytes_max]), ended

    def _keep(self, target: Target, connection: _Connection) -> bool:
        connections = self._idle.setdefault((target.scheme, target.host, target.port), [])
        if len(connections) >= IDLE_PER_ORIGIN_MAX or sum(map(len, self._idle.values())) >= IDLE_MAX:
            return False
        connections.append(connection)
        return True


async def _exchange(
    connection: _Connection, head: h11.Request, body: bytes, progress: _Progress, *, reused: bool
) -> h11.Response:
    """Send the request and read up to the final response's head; closes the connection on every failure."""
    progress.connected, progress.remote_ip = True, connection.remote_ip
    try:
        parts = (head, h11.Data(data=body), h11.EndOfMessage()) if body else (head, h11.EndOfMessage())
        data = b"".join(connection.h11.send(part) or b"" for part in parts)
        # A peer may have answered before it read everything.
        with contextlib.suppress(trio.BrokenResourceError):
            await connection.stream.send_all(data)
        return await _read_head(connection)
    except (trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError) as error:
        await _close(connection)
        if not connection.answered and reused:
            raise _Stale from error
        raise _exchange_failure(connection, error) from error
    except BaseException:
        await _close(connection)
        raise


async def _read_head(connection: _Connection) -> h11.Response:
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
                raise _Failed("protocol_error", "too many informational responses")
        else:
            raise h11.RemoteProtocolError("the connection was closed")


async def _read_body(connection: _Connection, body: bytearray, bytes_max: int) -> bool:
    """Fill `body`; whether it came to its end within `bytes_max`."""
    while True:
        event = connection.h11.next_event()
        if event is h11.NEED_DATA:
            await connection.read()
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > bytes_max:
                return False
        else:
            return isinstance(event, h11.EndOfMessage)


async def _close(connection: _Connection) -> None:
    with trio.CancelScope(shield=True):
        await trio.aclose_forcefully(connection.stream)


def _headers(target: Target, headers: Iterable[tuple[str, str]], body: bytes) -> list[tuple[str, str]]:
    # Some receivers want the host first.
    return [
        ("host", target.authority),
        ("content-length", str(len(body))),
        ("accept-encoding", "identity"),
        *headers,
    ]


def _failure(error_class: str, detail: str, progress: _Progress, started_s: float) -> Reply:
    return Reply(None, error_class, detail, (), b"", False, progress.remote_ip, _ms_since(started_s))


def _exchange_failure(connection: _Connection, error: Exception) -> _Failed:
    if isinstance(error.__cause__, ssl.SSLError):
        return _Failed("tls_error", _tls_words(error))
    if isinstance(error, h11.RemoteProtocolError) and connection.answered:
        return _Failed("protocol_error", "the answer is not HTTP/1.1")
    return _Failed("connection_reset", "the connection was closed before an answer")


def _tls_words(error: BaseException) -> str:
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"the certificate was not accepted: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f"no TLS connection: {cause.reason}"
    return "the handshake was cut off"


def _os_class(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection_refused"
    if isinstance(error, (ConnectionResetError, ConnectionAbortedError, BrokenPipeError)):
        return "connection_reset"
    if error.errno == errno.ETIMEDOUT:
        return "timeout_connect"
    unreachable = error.errno is None or error.errno in _UNREACHABLE
    return "network_unreachable" if unreachable else "connection_refused"


def _ms_since(started_s: float) -> int:
    return round((trio.current_time() - started_s) * 1000)
