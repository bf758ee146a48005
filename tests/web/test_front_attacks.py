"""What a stranger can send: each attack five times against a real server, which answers afterwards and lives.

A stock hypercorn-trio worker dies from some of these; the guard counts what it catches.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import suppress
from typing import Any

import h11
import pytest
import structlog
import trio
from quart import Response, abort, request, websocket
from quart_trio import QuartTrio

from payd.actors.feed import PaymentFeed
from payd.web import asgi, lane
from payd.web.asgi import METHODS
from payd.web.call import Answer, Request
from payd.web.client import TrustedProxies
from payd.web.errors import error_answer
from payd.web.front import Front, listen
from payd.web.hypercorn import Http1
from payd.web.sockets import Sockets
from tests.web.street import PAYMENT_FEED, UPGRADE, eventually

pytestmark = pytest.mark.real_time

TIMES = 5
PER_IP = 50
GET_OK = b"GET /ok HTTP/1.1\r\nHost: x\r\n\r\n"
WEBSOCKET = b" HTTP/1.1\r\n" + UPGRADE.encode() + b"\r\n"
MASK = b"aaaa"
HELLO = b"\x81\x85aaaa\x09\x04\x0d\x0d\x0e"

Attack = Callable[["Server"], None]
ATTACKS: list[Attack] = []


def attack(function: Attack) -> Attack:
    ATTACKS.append(function)
    return function


def small_app() -> QuartTrio:
    """A Quart application with the things that break: sockets, streams, bodies, and an error."""
    app = QuartTrio("small")

    @app.get("/ok")
    async def ok() -> dict[str, int]:
        return {"ok": 1}

    @app.post("/echo")
    async def echo() -> Response:
        return Response(await request.get_data(cache=False))

    @app.post("/slow")
    async def slow() -> dict[str, int]:
        await trio.sleep(1)
        return {"ok": 1}

    @app.websocket("/ws")
    async def ws() -> None:
        while True:
            await websocket.send(await websocket.receive())

    @app.websocket("/wsdeny")
    async def wsdeny() -> None:
        abort(403)

    @app.get("/sse")
    async def sse() -> Response:
        async def lines() -> Any:
            for n in range(1000):
                yield f"data: {n}\n\n".encode()
                await trio.sleep(0.05)

        return Response(lines(), content_type="text/event-stream")

    return app


class Server:
    """A front in a thread of its own."""

    def __init__(self, logged: list[str]) -> None:
        self.port = 0
        self.logged = logged
        self._ready = threading.Event()
        self.thread = threading.Thread(target=lambda: trio.run(self._serve))
        self.thread.start()
        assert self._ready.wait(10)

    async def _serve(self) -> None:
        async def answer(request: Request) -> Answer:
            await trio.lowlevel.checkpoint()
            return error_answer(request.refusal, "req_1", "") if request.refusal else Answer.json({})

        async def snapshot(payment_id: str) -> tuple[bytes, bool] | None:
            await trio.lowlevel.checkpoint()
            return (b'{"version":0}', False) if payment_id == "pay_t1" else None

        async def authenticate(request: Request) -> Any:
            raise AssertionError("nobody asks for the account feed here")

        feed, trusted = PaymentFeed(), TrustedProxies()
        self.sockets = Sockets(
            answer=answer,
            feed_of=lambda _: feed,
            snapshot=snapshot,
            authenticate=authenticate,
            trusted=trusted,
        )
        self.front = Front(
            small_app(),
            answer=answer,
            sockets=self.sockets,
            trusted=trusted,
            body_max=1000,
            connections_per_ip=PER_IP,
            grace_s=1,
        )
        listeners = await listen("127.0.0.1", 0)
        self.port = listeners[0].socket.getsockname()[1]
        self._stop = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        self._ready.set()
        await self.front.serve(listeners, self._stop)

    def end(self) -> None:
        self._token.run_sync_soon(self._stop.set)
        self.thread.join(10)

    def connect(self) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.port))
        client.settimeout(1)
        return client

    def send(self, *pieces: bytes, pause_s: float = 0.01, reset: bool = False) -> None:
        """Send pieces with pauses, take what comes meanwhile, and go away, politely or not."""
        with self.connect() as client:
            for piece in pieces:
                client.sendall(piece)
                time.sleep(pause_s)
            if reset:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def upgraded(self, path: bytes, *pieces: bytes, reset: bool = False) -> None:
        """Send pieces after an upgrade that was answered."""
        with self.connect() as client:
            client.sendall(b"GET " + path + WEBSOCKET)
            client.recv(999)
            for piece in pieces:
                client.sendall(piece)
                time.sleep(0.01)
            if reset:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def answers(self) -> bool:
        """Whether an honest client is served."""
        return eventually(self._answers_once)

    def _answers_once(self) -> bool:
        with suppress(OSError), self.connect() as client:
            client.sendall(GET_OK)
            return b" 200 " in client.recv(999)
        return False


@pytest.fixture(scope="module", params=["hypercorn", "lane"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A front whose lane takes nothing of what is sent here, and one whose lane takes all that it can."""
    patch = pytest.MonkeyPatch()
    if request.param == "lane":
        patch.setattr(asgi, "PATHS", ("/",))
        patch.setattr(lane, "STARTS", tuple(f"{method} /".encode() for method in METHODS))
    logged: list[str] = []

    def count(_: Any, __: str, event: MutableMapping[str, Any]) -> str:
        logged.append(event["event"])
        raise structlog.DropEvent

    configured = structlog.get_config()
    structlog.configure(processors=[count])
    running = Server(logged)
    yield running
    running.end()
    structlog.configure(**configured)
    patch.undo()


@attack
def reset_in_a_body(server: Server) -> None:
    server.send(b"POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nab", reset=True)


@attack
def reset_at_once(server: Server) -> None:
    server.send(reset=True)


@attack
def websocket_reset(server: Server) -> None:
    server.upgraded(b"/ws", reset=True)


@attack
def websocket_garbage(server: Server) -> None:
    server.upgraded(b"/ws", os.urandom(200))


@attack
def websocket_trailing_bytes(server: Server) -> None:
    server.send(b"GET /ws" + WEBSOCKET + b"trailing-not-a-frame", pause_s=0.03)


@attack
def websocket_data_after_close(server: Server) -> None:
    server.upgraded(b"/ws", b"\x88\x80aaaa" + HELLO + GET_OK)


@attack
def websocket_bad_utf8(server: Server) -> None:
    server.upgraded(b"/ws", b"\x81\x82\0\0\0\0\xff\xfe")


@attack
def websocket_denied_then_data(server: Server) -> None:
    server.send(b"GET /wsdeny" + WEBSOCKET, HELLO, pause_s=0.03)


@attack
def websocket_nowhere_then_data(server: Server) -> None:
    server.send(b"GET /nope" + WEBSOCKET, b"xx", pause_s=0.03)


@attack
def websocket_over_http10(server: Server) -> None:
    server.send(b"GET /ws" + WEBSOCKET.replace(b"HTTP/1.1", b"HTTP/1.0"))


@attack
def pipeline_then_reset(server: Server) -> None:
    server.send(GET_OK * 50, pause_s=0.05, reset=True)


@attack
def tls_hello(server: Server) -> None:
    server.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc" + os.urandom(100))


@attack
def http2_garbage(server: Server) -> None:
    server.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + os.urandom(300), pause_s=0.03)


@attack
def h2c_without_settings(server: Server) -> None:
    server.send(
        b"GET /ok HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nHTTP2-Settings: !!!!\r\nConnection: Upgrade\r\n\r\n"
    )


@attack
def h2c_bad_settings(server: Server) -> None:
    server.send(
        b"GET /ok HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nHTTP2-Settings: A\r\nConnection: Upgrade\r\n\r\n"
    )


@attack
def h2c_then_reset(server: Server) -> None:
    head = b"GET /ok HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
    server.send(head + b"Connection: Upgrade, HTTP2-Settings\r\n\r\n", reset=True)


@attack
def latin_path(server: Server) -> None:
    server.send("GET /é?x=\xff HTTP/1.1\r\nHost: x\r\n\r\n".encode("latin-1"))


@attack
def broken_percent(server: Server) -> None:
    server.send(b"GET /%ff%fe HTTP/1.1\r\nHost: x\r\n\r\n")


@attack
def absolute_url(server: Server) -> None:
    server.send(b"GET http://evil/ok HTTP/1.1\r\nHost: x\r\n\r\n")


@attack
def connect_method(server: Server) -> None:
    server.send(b"CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n")


@attack
def options_star(server: Server) -> None:
    server.send(b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")


@attack
def stream_reset(server: Server) -> None:
    server.send(b"GET /sse HTTP/1.1\r\nHost: x\r\n\r\n", pause_s=0.05, reset=True)


@attack
def half_close(server: Server) -> None:
    with server.connect() as client:
        client.sendall(b"POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        time.sleep(0.02)


@attack
def head_with_garbage(server: Server) -> None:
    server.send(b"HEAD /ok HTTP/1.1\r\nHost: x\r\n\r\nGARBAGE\r\n\r\n", pause_s=0.03)


@attack
def expect_then_reset(server: Server) -> None:
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    server.send(head, pause_s=0.03, reset=True)


@attack
def empty_path(server: Server) -> None:
    server.send(b"GET ? HTTP/1.1\r\nHost: x\r\n\r\n")


@attack
def two_lengths(server: Server) -> None:
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    server.send(head + b"0\r\n\r\n" + GET_OK)


@attack
def dripping_head(server: Server) -> None:
    server.send(*(bytes([byte]) for byte in GET_OK[:20]), pause_s=0.002)


@attack
def dripping_body(server: Server) -> None:
    server.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n", *[b"x"] * 20, pause_s=0.002)


@attack
def huge_head(server: Server) -> None:
    server.send(b"GET /ok HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 100_000 + b"\r\n\r\n")


@attack
def huge_feed_head(server: Server) -> None:
    server.send(PAYMENT_FEED[:-2] + b"X: " + b"x" * 100_000 + b"\r\n\r\n")


@attack
def endless_chunks(server: Server) -> None:
    with server.connect() as client:
        client.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(400):
            client.sendall(b"10000\r\n" + bytes(65_536) + b"\r\n")


@attack
def half_open(server: Server) -> None:
    """Take nothing of what is answered."""
    with server.connect() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        client.sendall(GET_OK * 100)
        time.sleep(0.05)


@attack
def two_hundred_at_once(server: Server) -> None:
    clients = [server.connect() for _ in range(200)]
    time.sleep(0.02)
    for client in clients:
        client.close()


@attack
def feed_trailing_bytes(server: Server) -> None:
    server.send(PAYMENT_FEED + b"trailing-not-a-frame")


@attack
def feed_garbage(server: Server) -> None:
    server.upgraded(b"/v1/payments/pay_t1/feed", os.urandom(200))


@attack
def feed_data_after_close(server: Server) -> None:
    server.upgraded(b"/v1/payments/pay_t1/feed", b"\x88\x80aaaa" + HELLO + GET_OK)


@attack
def feed_huge_frame(server: Server) -> None:
    head = b"\x82\xff" + (2**62).to_bytes(8, "big") + MASK
    server.upgraded(b"/v1/payments/pay_t1/feed", head, bytes(2000), bytes(2000))


@attack
def feed_flood_of_pings(server: Server) -> None:
    server.upgraded(b"/v1/payments/pay_t1/feed", *[b"\x89\x80aaaa" * 5_000] * 5)


@attack
def feed_reset(server: Server) -> None:
    server.upgraded(b"/v1/payments/pay_t1/feed", reset=True)


@attack
def feed_of_nobody(server: Server) -> None:
    server.upgraded(b"/v1/payments/pay_t2/feed", HELLO)


@attack
def feed_on_a_used_connection(server: Server) -> None:
    server.send(GET_OK, PAYMENT_FEED + b"trailing-not-a-frame", HELLO, pause_s=0.03)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_the_server_survives(server: Server, attack: Attack) -> None:
    for _ in range(TIMES):
        with suppress(OSError):
            attack(server)

    assert server.answers()
    assert server.thread.is_alive()


def test_the_limit_of_an_address_turns_connections_away(server: Server) -> None:
    before = server.front.turned_away
    clients = [server.connect() for _ in range(200)]

    assert eventually(lambda: server.front.turned_away - before >= 200 - PER_IP)
    assert len(server.front) <= PER_IP
    for client in clients:
        client.close()
    assert server.answers()


def test_only_one_of_the_servers_has_a_lane_for_this(server: Server, request: pytest.FixtureRequest) -> None:
    by_lane = request.node.callspec.params["server"] == "lane"
    with server.connect() as client:
        client.sendall(GET_OK)
        assert (b'{"ok":1}' in client.recv(999)) is not by_lane


def test_the_guard_counts_what_it_catches_and_logs_one_of_many(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(self: Http1, event: h11.Request) -> None:
        raise ZeroDivisionError

    fresh = Server(server.logged)
    before = server.logged.count("front.connection_failed")
    with monkeypatch.context() as patched:
        patched.setattr(Http1, "_check_protocol", broken)
        for _ in range(TIMES):
            with fresh.connect() as client:
                client.sendall(b"GET /ok HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n")
                assert client.recv(999) == b""
    assert fresh.answers()
    fresh.end()

    assert fresh.front.caught == TIMES
    assert server.logged.count("front.connection_failed") == before + 1


def test_a_client_that_goes_away_is_nobodys_bug(server: Server) -> None:
    before = server.front.caught
    for pieces in ((), (b"GET /v1/payments/pay_t1/fe",), (PAYMENT_FEED[:60],), (b"GET /o",), (PAYMENT_FEED,)):
        server.send(*pieces, reset=True)
        server.send(*pieces)
    assert server.answers()
    assert eventually(lambda: len(server.front) == 0)

    assert server.front.caught == before


def test_nothing_is_left_behind(server: Server) -> None:
    assert eventually(lambda: len(server.front) == 0)
    assert len(server.sockets) == 0
