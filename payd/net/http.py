"""One small HTTP/1.1 client, the only way out: vetted address, one deadline, bounded everything.

A request never raises for what a network or a peer does: it ends in a `Reply` whose `error_class` says how.
It follows no redirect, reads no proxy from the environment and decompresses nothing.

Source: SPEC.md, "Delivery rules"; DESIGN.md, "2. The stack".
"""

from __future__ import annotations

import contextlib
import errno
import ssl
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import h11
import msgspec
import trio

from payd.core.endpoint import DEFAULT_PORTS, RESPONSE_DEADLINE_S, check_url
from payd.net.addresses import OUT_OF_ROOM
from payd.net.connection import Connection, Failed, Stale, exchange, read_body, start_tls, take_body
from payd.net.dial import Dial, connect_any, dial_from, reason_of
from payd.net.dns import DNS_DEADLINE_S, DnsFailed, Resolve, Resolver
from payd.net.proxy import Proxy, ProxyFailed, dial_through

IDLE_PER_ORIGIN_MAX: Final = 10
IDLE_MAX: Final = 256
# With a proxy, its answer is within this too.
CONNECT_DEADLINE_S: Final = 5.0
BODY_BYTES_MAX: Final = 16 * 1024
BODY_WAIT_S: Final = 2.0

# Of this machine, which makes no connection to anybody or is not allowed to.
_OWN: Final = OUT_OF_ROOM | {errno.EPERM, errno.EACCES}

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


class Timing(msgspec.Struct, frozen=True):
    """What a new connection took, in whole milliseconds; None: that phase did not happen, or not end.

    Attributes:
        dns_ms: Name to addresses; 0 where they were known.
        connect_ms: Addresses to a connection, through the proxy if there is one.
        tls_ms: The handshake.
    """

    dns_ms: int | None = None
    connect_ms: int | None = None
    tls_ms: int | None = None


class Reply(msgspec.Struct, frozen=True):
    """How a request ended.

    Attributes:
        status: Of the final status line; None when there was none in time.
        error_class: None exactly when there is a status; else one of dns_error, blocked_address,
            connection_refused, connection_reset, network_unreachable, tls_error, timeout_connect,
            timeout_response, protocol_error, proxy_error, system_error.
        detail: What happened, for a log; nothing that the peer sent.
        headers: As they came, names in lower case.
        body: At most as much as was asked for.
        is_whole: Whether `body` is all of the body.
        remote_ip: The address that was called; None when it did not come to that.
        duration_ms: Until the final status line or the failure.
        timing: What of that its connection took; nothing of one that is used again.
    """

    status: int | None
    error_class: str | None
    detail: str
    headers: tuple[Header, ...]
    body: bytes
    is_whole: bool
    remote_ip: str | None
    duration_ms: int
    timing: Timing = Timing()

    def header(self, name: str) -> str | None:
        """The first header of this lower-case name."""
        wanted = name.encode("ascii")
        return next((value.decode("latin-1") for key, value in self.headers if key == wanted), None)


class Greeting(msgspec.Struct, frozen=True):
    """How far a host was reached without a request.

    Attributes:
        error_class: None when the connection stood, with TLS where the target has it; else as in `Reply`.
        detail: What happened, for a log; nothing that the peer sent.
        remote_ip: The address that was called; None when it did not come to that.
        certificate: The Unix seconds from and to which the peer's certificate holds; None without TLS.
    """

    error_class: str | None
    detail: str
    remote_ip: str | None
    certificate: tuple[int, int] | None = None


class _Progress:
    """How far a request has come, for whoever must say how it ended."""

    __slots__ = ("connected", "phases", "remote_ip", "started_s")

    def __init__(self) -> None:
        self.started_s = trio.current_time()
        self.connected = False
        self.remote_ip: str | None = None
        self.phases: dict[str, int] = {}

    def reached(self, connection: Connection) -> None:
        """The request is now up to the peer."""
        self.connected, self.remote_ip = True, connection.remote_ip

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measures what is done within; a phase that raises has not ended."""
        started_s = trio.current_time()
        yield
        self.phases[name] = _ms_since(started_s)


@cache
def tls_context(ca_file: Path | None = None) -> ssl.SSLContext:
    """Verifies always, TLS 1.2 at least; `ca_file` adds authorities to the system's.

    Reading the system's authorities takes some 30 ms: clients share what was made, and change nothing in it.
    """
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
        proxy: Through which every connection goes; the addresses are still looked up and vetted here.
    """

    def __init__(
        self,
        *,
        may_call: MayCall,
        tls: ssl.SSLContext | None = None,
        resolve: Resolve | None = None,
        dial: Dial | None = None,
        proxy: Proxy | None = None,
    ) -> None:
        self._may_call = may_call
        self._tls = tls or tls_context()
        self.resolve: Resolve = resolve or Resolver()
        self.dial: Dial = dial or dial_from()
        self._proxy = proxy
        self._idle: dict[tuple[str, str, int], list[Connection]] = {}

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
        answered: tuple[Connection, h11.Response] | None = None
        try:
            with trio.CancelScope(deadline=progress.started_s + deadline_s):
                answered = await self._answered(target, head, body, progress)
        except Failed as failed:
            return _failure(failed.error_class, failed.detail, progress)
        if answered is None:
            error_class = "timeout_response" if progress.connected else "timeout_connect"
            return _failure(error_class, f"no answer within {deadline_s:g} s", progress)
        connection, response = answered
        duration_ms = _ms_since(progress.started_s)
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
            Timing(**progress.phases),
        )

    async def greet(self, target: Target, *, deadline_s: float = RESPONSE_DEADLINE_S) -> Greeting:
        """Connect, and close without a request; never raises for what the network or the peer does.

        Args:
            target: Where to; its path is not looked at.
            deadline_s: Real seconds for name, connection and TLS together.
        """
        progress = _Progress()
        connection: Connection | None = None
        try:
            with trio.move_on_after(deadline_s):
                connection = await self._open(target, progress)
        except Failed as failed:
            return Greeting(failed.error_class, failed.detail, progress.remote_ip)
        if connection is None:
            return Greeting("timeout_connect", f"no connection within {deadline_s:g} s", progress.remote_ip)
        certificate = _certificate_of(connection.stream)
        await connection.aclose()
        return Greeting(None, "", connection.remote_ip, certificate)

    async def aclose(self) -> None:
        """Close every idle connection."""
        idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                await connection.aclose()

    async def close_unfit(self) -> None:
        """Close idle connections that are too old or that their peer closed."""
        for key, connections in list(self._idle.items()):
            unfit = [one for one in connections if not one.is_fit()]
            for connection in unfit:
                connections.remove(connection)
            if not connections:
                self._idle.pop(key, None)
            for connection in unfit:
                await connection.aclose()

    async def _answered(
        self, target: Target, head: h11.Request, body: bytes, progress: _Progress
    ) -> tuple[Connection, h11.Response]:
        """A connection and the final response's head; once more at once where a kept connection was stale."""
        connection = await self._take_idle(target)
        if connection is not None:
            progress.reached(connection)
            try:
                return connection, await exchange(connection, head, body, reused=True)
            except Stale:
                progress.connected = False
        connection = await self._open(target, progress)
        progress.reached(connection)
        return connection, await exchange(connection, head, body, reused=False)

    async def _open(self, target: Target, progress: _Progress) -> Connection:
        addresses = await self._vetted(target.host, progress)
        with progress.phase("connect_ms"):
            stream, remote_ip = await self._connect(addresses, target.port)
        progress.remote_ip = remote_ip
        if target.scheme == "https":
            with progress.phase("tls_ms"):
                stream = await start_tls(stream, self._tls, target.host)
        return Connection(stream, remote_ip)

    async def _vetted(self, host: str, progress: _Progress) -> list[str]:
        addresses: list[str] = []
        try:
            with trio.move_on_after(DNS_DEADLINE_S), progress.phase("dns_ms"):
                addresses = await self.resolve(host)
            may_call = all(self._may_call(address) for address in addresses)
        except DnsFailed as error:
            raise Failed("dns_error", str(error)) from error
        except OSError as error:
            raise Failed(_os_class(error), reason_of(error)) from error
        if not addresses:
            raise Failed("dns_error", f"no name server answered within {DNS_DEADLINE_S:g} s")
        if not may_call:
            raise Failed("blocked_address", "the host has an address that may not be called")
        return addresses

    async def _connect(self, addresses: list[str], port: int) -> tuple[trio.abc.Stream, str]:
        dial = self.dial if self._proxy is None else dial_through(self._proxy, self.resolve, self.dial)
        try:
            with trio.move_on_after(CONNECT_DEADLINE_S):
                return await connect_any(addresses, port, dial)
        except ProxyFailed as failed:
            raise Failed("proxy_error", failed.detail) from failed
        except OSError as error:
            raise Failed(_os_class(error), reason_of(error)) from error
        raise Failed("timeout_connect", f"no connection within {CONNECT_DEADLINE_S:g} s")

    async def _take_idle(self, target: Target) -> Connection | None:
        connections = self._idle.get((target.scheme, target.host, target.port), [])
        while connections:
            connection = connections.pop()
            if connection.is_fit():
                return connection
            await connection.aclose()
        return None

    async def _body(
        self, target: Target, connection: Connection, bytes_max: int, wait_s: float
    ) -> tuple[bytes, bool]:
        """What came of the body, and whether that is all; the connection is kept if it can be used again."""
        body, ended, is_clean = bytearray(), False, False
        try:
            came = take_body(connection, body, bytes_max)
            if came is not None:
                ended = came
            else:
                with trio.move_on_after(wait_s):
                    ended = await read_body(connection, body, bytes_max)
            is_clean = ended and await connection.next_cycle()
        except (trio.BrokenResourceError, h11.RemoteProtocolError):
            pass
        except BaseException:
            await connection.aclose()
            raise
        if not (is_clean and self._keep(target, connection)):
            await connection.aclose()
        return bytes(body[:bytes_max]), ended

    def _keep(self, target: Target, connection: Connection) -> bool:
        connections = self._idle.setdefault((target.scheme, target.host, target.port), [])
        if len(connections) >= IDLE_PER_ORIGIN_MAX or sum(map(len, self._idle.values())) >= IDLE_MAX:
            return False
        connections.append(connection)
        return True


def _headers(target: Target, headers: Iterable[tuple[str, str]], body: bytes) -> list[tuple[str, str]]:
    # Some receivers want the host first.
    return [
        ("host", target.authority),
        ("content-length", str(len(body))),
        ("accept-encoding", "identity"),
        *headers,
    ]


def _failure(error_class: str, detail: str, progress: _Progress) -> Reply:
    duration_ms = _ms_since(progress.started_s)
    timing = Timing(**progress.phases)
    return Reply(None, error_class, detail, (), b"", False, progress.remote_ip, duration_ms, timing)


def _os_class(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection_refused"
    if isinstance(error, (ConnectionResetError, ConnectionAbortedError, BrokenPipeError)):
        return "connection_reset"
    if error.errno == errno.ETIMEDOUT:
        return "timeout_connect"
    return "system_error" if error.errno in _OWN else "network_unreachable"


def _ms_since(started_s: float) -> int:
    return round((trio.current_time() - started_s) * 1000)


def _certificate_of(stream: trio.abc.Stream) -> tuple[int, int] | None:
    if not isinstance(stream, trio.SSLStream):
        return None
    verified = stream.getpeercert()
    begins, ends = (ssl.cert_time_to_seconds(verified[key]) for key in ("notBefore", "notAfter"))
    return int(begins), int(ends)
