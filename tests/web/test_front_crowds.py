"""A full house: whoever comes is served, and who has waited for longest goes, over real sockets."""

from __future__ import annotations

import os
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from payd.actors.feed import PaymentFeed
from payd.web.call import Answer, Request
from payd.web.client import TrustedProxies
from payd.web.errors import error_answer
from payd.web.front import Front, listen
from payd.web.sockets import Sockets
from tests.crash.client import Client
from tests.crash.process import Server, furnish
from tests.web.street import PAYMENT_FEED, eventually

pytestmark = pytest.mark.real_time

FULL = 8
PATIENCE_S = 10
GET = b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n"
# By each door: the lane's, and hypercorn's.
PATHS = (b"/v1/payments/a", b"/elsewhere")
SLOW_BODY = b"POST /v1/payments HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n{"
CHUNKED_BODY = b"POST /v1/payments HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"


class House:
    """A front for `FULL` connections on real listeners, in a thread of its own."""

    def __init__(self, listeners: int) -> None:
        self.ports: list[int] = []
        self._ready, self._stop = threading.Event(), trio.Event()
        self._stack = ExitStack()
        self.thread = threading.Thread(target=lambda: trio.run(self._serve, listeners))
        self.thread.start()
        assert self._ready.wait(PATIENCE_S)

    async def _serve(self, count: int) -> None:
        feed, trusted = PaymentFeed(), TrustedProxies()

        async def answer(request: Request) -> Answer:
            await trio.lowlevel.checkpoint()
            return error_answer(request.refusal, "req_1", "") if request.refusal else Answer.json({})

        async def app(scope: Any, receive: Any, send: Any) -> None:
            while (await receive()).get("more_body"):
                pass
            head = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
            await send(head)
            await send({"type": "http.response.body", "body": b"{}"})

        async def snapshot(payment_id: str) -> tuple[bytes, bool] | None:
            await trio.lowlevel.checkpoint()
            return b'{"version":0}', False

        async def authenticate(request: Request) -> Any:
            raise AssertionError("nobody asks for the account feed here")

        self.sockets = Sockets(
            answer=answer,
            feed_of=lambda _: feed,
            snapshot=snapshot,
            authenticate=authenticate,
            trusted=trusted,
        )
        self.front = Front(
            app,
            answer=answer,
            sockets=self.sockets,
            trusted=trusted,
            body_max=1000,
            connections_max=FULL,
            connections_per_ip=0,
            grace_s=0,
        )
        listeners = [(await listen("127.0.0.1", 0))[0] for _ in range(count)]
        self.ports = [one.socket.getsockname()[1] for one in listeners]
        self._token = trio.lowlevel.current_trio_token()
        self._ready.set()
        await self.front.serve(listeners, self._stop)

    def come(self, said: bytes = b"", port: int = 0) -> socket.socket:
        """A connection on which this was said."""
        client = socket.create_connection(("127.0.0.1", self.ports[port]), timeout=PATIENCE_S)
        self._stack.callback(client.close)
        client.sendall(said)
        return client

    def crowd(self, said: bytes) -> list[socket.socket]:
        """As many as fit, one after the other, each of them in."""
        crowd = []
        for number in range(FULL):
            crowd.append(self.come(said))
            self.until(lambda number=number: len(self.front) == number + 1)  # type: ignore[misc]
        return crowd

    def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for something that the front comes to."""

        async def look() -> bool:
            await trio.lowlevel.checkpoint()
            return is_so()

        assert eventually(lambda: trio.from_thread.run(look, trio_token=self._token))

    def meanwhile(self, work: Callable[[], object]) -> None:
        """Do something while the front does nothing."""
        trio.from_thread.run_sync(work, trio_token=self._token)

    def end(self) -> None:
        self._stack.close()
        self._token.run_sync_soon(self._stop.set)
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()


@contextmanager
def open_house(listeners: int = 1) -> Iterator[House]:
    house = House(listeners)
    try:
        yield house
    finally:
        house.end()


def answered(client: socket.socket) -> bytes:
    """The status line and all that comes with it; b"" when the connection ended instead."""
    data = b""
    while not data.endswith(b"{}"):
        try:
            more = client.recv(4096)
        except ConnectionResetError:
            more = b""
        if not more:
            return data
        data += more
    return data


def is_served(client: socket.socket, path: bytes) -> bool:
    client.sendall(GET % path)
    return answered(client).startswith(b"HTTP/1.1 200 ")


def has_ended(client: socket.socket) -> bool:
    return answered(client) == b""


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("said", [b"", b"GET /v1/pay", GET % PATHS[0], GET % PATHS[1]])
def test_a_newcomer_is_served_and_who_is_idle_for_longest_goes(said: bytes, path: bytes) -> None:
    with open_house() as house:
        crowd = house.crowd(said)
        if said in {GET % path for path in PATHS}:
            assert all(answered(client) for client in crowd)
        newcomers = [house.come() for _ in range(FULL // 2)]

        assert all(is_served(client, path) for client in newcomers)
        assert all(has_ended(client) for client in crowd[: FULL // 2])
        assert house.front.displaced == FULL // 2
        assert house.front.caught == 0


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("said", [SLOW_BODY, CHUNKED_BODY], ids=["length", "chunked"])
def test_bodies_that_do_not_go_on_keep_nobody_out(said: bytes, path: bytes) -> None:
    with open_house() as house:
        crowd = house.crowd(said)
        for _ in range(3):
            newcomer = house.come()
            assert is_served(newcomer, path)

        assert has_ended(crowd[0])
        assert house.front.displaced == 3
        assert house.front.caught == 0


def test_who_asked_lately_stays() -> None:
    with open_house() as house:
        crowd = house.crowd(b"")
        assert is_served(crowd[0], PATHS[0])
        newcomer = house.come()

        assert is_served(newcomer, PATHS[0])
        assert has_ended(crowd[1])
        assert is_served(crowd[0], PATHS[0])


def test_pages_that_follow_a_payment_stay() -> None:
    with open_house() as house:
        pages = [house.come(PAYMENT_FEED) for _ in range(FULL - 1)]
        for page in pages:
            assert page.recv(4096).startswith(b"HTTP/1.1 101 ")
        for _ in range(3):
            assert is_served(house.come(), PATHS[0])

        assert house.front.displaced == 2
        assert len(house.sockets) == len(pages)


def test_those_who_come_together_are_taken_together(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[trio.SocketListener] = []
    accept = trio.SocketListener.accept

    async def counted(listener: trio.SocketListener) -> trio.SocketStream:
        waits.append(listener)
        return await accept(listener)

    monkeypatch.setattr(trio.SocketListener, "accept", counted)
    with open_house() as house:
        house.until(lambda: len(waits) == 1)
        house.meanwhile(lambda: [house.come() for _ in range(FULL)])
        house.until(lambda: len(house.front) == FULL and len(waits) >= 2)
    assert len(waits) == 2, "for the first of them, and for who comes next"


def test_who_comes_by_another_listener_waits_for_the_same_room() -> None:
    """Where nobody can be ended, those who wait are served as soon as somebody leaves, all of them."""
    with open_house(listeners=2) as house:
        pages = [house.come(PAYMENT_FEED) for _ in range(FULL)]
        for page in pages:
            assert page.recv(4096).startswith(b"HTTP/1.1 101 ")
        waiting = [house.come(GET % PATHS[0], port) for port in (0, 1)]
        house.until(lambda: house.front.accepted == FULL + 2)
        for page in pages[:2]:
            page.close()

        assert all(answered(client).startswith(b"HTTP/1.1 200 ") for client in waiting)


def test_who_is_over_the_limit_of_its_address_displaces_nobody() -> None:
    with open_house() as house:
        house.front._slots.per_key_max = FULL
        crowd = house.crowd(b"")
        over = house.come()

        assert over.recv(4096).startswith(b"HTTP/1.1 429 ")
        assert house.front.displaced == 0
        assert all(is_served(client, PATHS[0]) for client in crowd)


async def test_a_server_out_of_files_gives_a_newcomer_the_place_of_another(tmp_path: Path) -> None:
    """The limit is lowered under the server, which believes in its old one: accepting fails."""
    await furnish(tmp_path, None)
    server = Server(tmp_path)
    crowd: list[socket.socket] = []
    try:
        await server.start()
        files = len(os.listdir(f"/proc/{server.pid}/fd"))
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (files + 20, files + 20))
        for _ in range(60):
            crowd.append(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S))
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as newcomer:
                newcomer.sendall(GET % b"/livez")
                assert (await trio.to_thread.run_sync(newcomer.recv, 4096)).startswith(b"HTTP/1.1 200 ")

        said = [line["event"] for line in server.complaints()]
        assert said == ["front.no_room"], "told, and told once"
        assert await server.stop() == 0
    finally:
        for client in crowd:
            client.close()
        await server.put_away()


async def test_feeds_leave_room_for_who_asks(tmp_path: Path) -> None:
    """Of ten connections two at least are none of a feed, whatever is allowed of feeds."""
    at = await furnish(tmp_path, None)
    server = Server(tmp_path, {"PAYD_HTTP_CONNECTIONS_MAX": "10", "PAYD_FEEDS_MAX": "1000"})
    pages: list[socket.socket] = []
    try:
        await server.start()
        async with Client(server.port) as client:
            body = {"referenceId": "ORDER", "amount": {"unit": "iso4217/USD", "value": "2500"}}
            made = await client.ask("POST", "/v1/payments", body, at.headers)
            follow = PAYMENT_FEED.replace(b"pay_t1", made.body["paymentId"].encode())
            statuses = []
            for _ in range(9):
                pages.append(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S))
                pages[-1].sendall(follow)
                statuses.append((await trio.to_thread.run_sync(pages[-1].recv, 4096))[9:12])

            assert statuses == [b"101"] * 8 + [b"429"]
            assert (await client.ask("GET", "/livez")).status == 200
        assert await server.stop() == 0
    finally:
        for page in pages:
            page.close()
        await server.put_away()
