"""The door to the street: our own accept loop, a guard around every connection, hypercorn behind it.

A stock hypercorn-trio worker dies whole from one unauthenticated request, so each connection runs in a guard
of ours. Feeds and the API's hot paths are taken off before hypercorn and served straight on the stream;
everything else is replayed to it byte for byte, and it keeps that connection until a feed is asked for on it.

Source: DESIGN.md, "2. The stack"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import h11
import structlog
import trio
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIFramework, LifespanState

from payd.core.errors import InvalidParams, MethodNotAllowed, PaydError, RateLimited
from payd.net.addresses import OUT_OF_ROOM
from payd.web.asgi import request_of
from payd.web.call import Answer, Answering, Request
from payd.web.client import TrustedProxies, client_ip
from payd.web.hypercorn import NO_TIMER, hypercorn_config
from payd.web.lane import Lane
from payd.web.limits import Slots
from payd.web.seldom import Seldom
from payd.web.sockets import Sockets, is_feed, wants_upgrade
from payd.web.stream_socket import encode_answer
from payd.web.wire import CHUNK_BYTES, HEAD_BYTES_MAX, Wire, Wires, accept_now, send_now

log = structlog.get_logger("payd.front")

# Connections that the kernel keeps while the accept loop is busy.
BACKLOG: Final = 2048
# Of those that wait there, so many are taken before it is the turn of those that are in: one alone, and in a
# crowd who has just come would wait for a turn of everybody else's for each who came before.
ACCEPTS_AT_ONCE: Final = 16
# Open connections in all, feeds among them, and of one address.
CONNECTIONS_MAX: Final = 25_000
CONNECTIONS_PER_IP_MAX: Final = 1000
# Requests under way get this long to finish when the server stops.
GRACE_S: Final = 15.0
# When the process or the system is out of file descriptors or memory, it asks for more after this long.
ACCEPT_RETRY_S: Final = 0.1

# Who is turned away comes back after this long.
RETRY_S: Final = 5

Listener = trio.abc.Listener[trio.SocketStream]

_FEED_STARTS: Final = (b"GET /v1/feed", b"GET /v1/payments/")


async def listen(host: str, port: int) -> Sequence[trio.SocketListener]:
    """Listeners on every address of `host`. Raises OSError when the port is taken."""
    return await trio.open_tcp_listeners(port, host=host, backlog=BACKLOG)


class Front:
    """Accepts connections and keeps each from harming the others.

    Args:
        app: The ASGI application for everything but feeds and the lane's.
        answer: Answers the lane's, and words what is refused before the application sees it.
        sockets: The feeds.
        trusted: Whose `X-Forwarded-For` is believed, and whose connections are not counted by address.
        body_max: Bytes of a body that the lane takes.
        connections_max: Open at once; for one more, who has waited for longest is ended.
        connections_per_ip: Of one address; more are turned away. 0 is no limit.
        grace_s: How long requests under way may take at the end.

    Attributes:
        accepted: Connections so far.
        turned_away: Those over the limit of their address.
        displaced: Those ended for others.
        caught: Those ended by an error that the guard caught.
    """

    def __init__(
        self,
        app: ASGIFramework,
        *,
        answer: Answering,
        sockets: Sockets,
        trusted: TrustedProxies,
        body_max: int,
        connections_max: int = CONNECTIONS_MAX,
        connections_per_ip: int = CONNECTIONS_PER_IP_MAX,
        grace_s: float = GRACE_S,
    ) -> None:
        self._app = app
        self._answer = answer
        self._sockets = sockets
        self._trusted = trusted
        self._slots = Slots(connections_max, connections_per_ip)
        # Set when a connection has ended.
        self._room = trio.Event()
        self._complaints = Seldom()
        self._traces = Seldom()
        self._grace_s = grace_s
        self._config = hypercorn_config()
        self._context = WorkerContext(None)
        self._lane = Lane(answer, trusted, body_max, self._context.terminated.is_set)
        self._wires = Wires()
        self.accepted = 0
        self.turned_away = 0
        self.displaced = 0
        self.caught = 0

    def __len__(self) -> int:
        """How many connections are open."""
        return self._slots.held

    async def serve(
        self,
        listeners: Sequence[Listener],
        stop: trio.Event,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until `stop`, then let what is under way finish within the grace. Closes the listeners."""
        async with trio.open_nursery() as chores:
            chores.start_soon(self._sockets.heartbeat)
            chores.start_soon(self._lane.parked.run)
            chores.start_soon(self._lane.driver.run)
            chores.start_soon(self._wires.end_idle)
            async with trio.open_nursery() as connections:
                try:
                    async with trio.open_nursery() as accepting:
                        for listener in listeners:
                            accepting.start_soon(self._accept_all, listener, connections)
                        task_status.started()
                        await stop.wait()
                        accepting.cancel_scope.cancel()
                except BaseException:
                    self._abort_all()
                    raise
                for listener in listeners:
                    await listener.aclose()
                await self._begin_stop()
                chores.start_soon(self._end_grace, connections)
            chores.cancel_scope.cancel()

    async def _begin_stop(self) -> None:
        """Tell feeds to reconnect, close idle connections, and have the others close after their answer."""
        self._sockets.close_all()
        await self._context.terminated.set()
        for wire in self._wires:
            if not wire.active and not wire.ended:
                wire.scope.cancel()

    async def _end_grace(self, connections: trio.Nursery) -> None:
        await trio.sleep(self._grace_s)
        log.warning("front.grace_over", open=len(self))
        self._abort_all()
        connections.cancel_scope.cancel()

    def _abort_all(self) -> None:
        for wire in self._wires:
            wire.abort()

    async def _accept_all(self, listener: Listener, connections: trio.Nursery) -> None:
        at_once = 0
        while True:
            at_once = (at_once + 1) % ACCEPTS_AT_ONCE
            try:
                stream = (accept_now(listener) if at_once else None) or await listener.accept()
            except OSError as error:
                if error.errno not in OUT_OF_ROOM:
                    raise
                await self._get_over(error.errno)
                continue
            try:
                await self._admit(stream, connections)
            except trio.Cancelled:
                stream.socket.close()
                raise

    async def _admit(self, stream: trio.SocketStream, connections: trio.Nursery) -> None:
        """Give the connection a task of its own, or turn it away.

        When all are taken it takes the place of who has waited for longest, and waits itself where nobody
        can be ended.
        """
        try:
            peer = peer_of(stream)
        except OSError:
            return stream.socket.close()  # it is gone already
        self.accepted += 1
        key = self._trusted.slot_key(peer)
        while self._slots.is_full and not self._slots.has_its_fill(key):
            self._complain("front.full")
            await self._make_room()
        if self._slots.try_take(key):
            connections.start_soon(self._guard, stream, peer, key)
        else:
            self.turned_away += 1
            await self._turn_away(stream)

    async def _turn_away(self, stream: trio.SocketStream) -> None:
        """Answer 429 as far as that goes without waiting, and close."""
        refusal = RateLimited("Too many connections.", details={"retryAfterS": RETRY_S})
        found = await self._answer(Request("GET", "", refusal=refusal))
        with suppress(trio.BrokenResourceError):
            send_now(stream.socket, encode_answer(found))
        stream.socket.close()

    async def _get_over(self, number: int) -> None:
        """Wait until accepting may succeed again; where files are ours to give back, end somebody for it."""
        self._complain("front.no_room", error=errno.errorcode[number])
        with trio.move_on_after(ACCEPT_RETRY_S):
            if number == errno.EMFILE:
                return await self._make_room()
            await trio.sleep_forever()

    async def _make_room(self) -> None:
        """End who has waited for longest; returns when somebody has ended."""
        if self._room.is_set():
            self._room = trio.Event()
        room = self._room  # all who wait for room, wait for the same
        self.displaced += self._wires.end_longest()
        await room.wait()

    def _complain(self, event: str, **more: str) -> None:
        if self._complaints.is_due():
            log.error(event, open=len(self), displaced=self.displaced, **more)

    async def _guard(self, stream: trio.SocketStream, peer: str, key: str) -> None:
        """One connection, whatever happens on it. Only cancellation and the end of the process pass."""
        try:
            await self._serve_one(stream, peer)
        except BaseExceptionGroup as group:
            bugs, others = group.split(Exception)
            if bugs is not None:
                self._count(bugs, peer)
            if others is not None:
                raise others from None
        except Exception as bug:  # noqa: BLE001  # counted and logged; the other connections go on
            self._count(bug, peer)
        finally:
            stream.socket.close()
            self._slots.release(key)
            self._room.set()

    def _count(self, bug: BaseException, peer: str) -> None:
        self.caught += 1
        if self._traces.is_due():
            log.error("front.connection_failed", peer=peer, caught=self.caught, exc_info=bug)

    async def _serve_one(self, stream: trio.SocketStream, peer: str) -> None:
        upgrade = await self._serve_wire(stream, peer)
        if upgrade is not None:
            await self._sockets.serve_stream(stream, *upgrade)

    async def _serve_wire(self, stream: trio.SocketStream, peer: str) -> tuple[Request, bytes] | None:
        """Serve all but a feed; return the upgrade to one, and what follows it.

        A feed lives long and holds nothing of what was needed until here.
        """
        wire = self._wires.open(stream)
        try:
            with wire.scope:
                upgrade = await self._serve_http(wire, peer)
                # Who was ended in this moment has given its place away.
                if upgrade is not None and not wire.scope.cancel_called:
                    return upgrade
            if wire.upgrade is not None:
                return wire.upgrade, b""
            if wire.ended:
                await wire.linger()
            return None
        finally:
            self._wires.discard(wire)

    async def _serve_http(self, wire: Wire, peer: str) -> tuple[Request, bytes] | None:
        """Serve the connection, or return the upgrade to a feed that it begins with and what follows that."""
        try:
            data = await read_start(wire)
            if not data:
                return None
            if data.startswith(_FEED_STARTS):
                upgrade, data = await self._read_upgrade(wire, data, peer)
                if upgrade is not None:
                    return upgrade, data
            left = await self._lane.serve(wire, peer, data)
            if left is None:
                return None
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return None  # gone before it said what it wanted
        wire.unread(left)
        state: LifespanState = {"wire": wire, "answer": self._answer}
        server = TCPServer(self._application, self._config, self._context, state, wire)  # type: ignore[arg-type]
        server.idle_task = NO_TIMER  # type: ignore[assignment]
        await server.run()
        return None

    async def _read_upgrade(self, wire: Wire, data: bytes, peer: str) -> tuple[Request | None, bytes]:
        """The upgrade to a feed that `data` begins, and what follows it; or None, and all that was read."""
        if not is_feed(unquote(data[4:].partition(b" ")[0].partition(b"?")[0].decode("latin-1"))):
            return None, data
        parser = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        parser.receive_data(data)
        try:
            while (head := parser.next_event()) is h11.NEED_DATA:
                more = await wire.receive_some(CHUNK_BYTES)
                if not more:
                    return None, data
                data += more
                parser.receive_data(more)
            if not isinstance(head, h11.Request) or not isinstance(parser.next_event(), h11.EndOfMessage):
                return None, data
        except h11.RemoteProtocolError:
            return None, data
        path, _, query = head.target.partition(b"?")
        request = Request.from_head(head.method.decode(), unquote(path.decode()), query, list(head.headers))
        request.client_ip = client_ip(peer, request.headers.get("x-forwarded-for"), self._trusted)
        if not wants_upgrade(request):
            return None, data
        return request, parser.trailing_data[0]

    async def _application(
        self,
        scope: Any,
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
        sync_spawn: Callable[..., Any],
        call_soon: Callable[..., Any],
    ) -> None:
        """The ASGI application behind the connection's book-keeping; hypercorn's `AppWrapper`.

        A feed is served straight on the connection, as on a fresh one. Hypercorn's own websockets compress on
        demand, unpack a few kB to any size, keep what comes after a message that was too long, and say no
        code to what breaks the protocol: none is ever accepted.
        """
        wire: Wire = scope["state"]["wire"]
        wire.begin_request()
        try:
            if scope["type"] == "websocket":
                wire.hand_over(request_of(scope, self._trusted))
                await trio.sleep_forever()  # until hypercorn has ended too
            elif scope["type"] == "http" and (refusal := refusal_of(scope)) is not None:
                request = Request(scope["method"], scope["path"], refusal=refusal)
                await send_answer(send, await self._answer(request))
            else:
                await self._app(scope, receive, send)
        finally:
            wire.end_request()


async def read_start(wire: Wire) -> bytes:
    """Whatever comes first; of what may become the request of a feed, the whole target."""
    data = await wire.receive_some(CHUNK_BYTES)
    while data and _may_become_feed(data):
        more = await wire.receive_some(CHUNK_BYTES)
        if not more:
            break
        data += more
    return data


def _may_become_feed(data: bytes) -> bool:
    if len(data) > HEAD_BYTES_MAX or b" " in data[4:] or b"\n" in data:
        return False
    return any(data.startswith(start) or start.startswith(data) for start in _FEED_STARTS)


def refusal_of(scope: Any) -> PaydError | None:
    """Why a request is not for any application: what proxies and servers may read differently is refused."""
    if scope["method"] == "CONNECT":
        return MethodNotAllowed("This is not a proxy.")
    if not scope["path"].startswith("/") and not _is_url(scope["path"]):
        return InvalidParams("The request target is not a path.")
    names = [name for name, _ in scope["headers"]]
    if b"transfer-encoding" in names and b"content-length" in names:
        return InvalidParams("Send either Content-Length or Transfer-Encoding, not both.")
    return None


def _is_url(target: str) -> bool:
    try:
        return urlsplit(target).scheme in {"http", "https"}
    except ValueError:
        return False


async def send_answer(send: Callable[[Any], Awaitable[None]], answer: Answer) -> None:
    """Send an answer that ends the connection, over ASGI."""
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in answer.headers]
    headers += [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(answer.body)),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


def peer_of(stream: trio.SocketStream) -> str:
    """The address at the other end; "" for a unix socket. Raises OSError when nobody is there any more."""
    name = stream.socket.getpeername()
    return str(name[0]) if isinstance(name, tuple) else ""
