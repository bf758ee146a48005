"""The front: what it passes on, what it takes off, what it ends, and how it stops."""

from __future__ import annotations

import errno
import os

import h11
import pytest
import structlog.testing
import trio
from trio.testing import wait_all_tasks_blocked
from wsproto.events import TextMessage

from payd.web.asgi import BODY_S
from payd.web.front import _may_become_feed
from payd.web.hypercorn import Http1
from payd.web.wire import HEAD_BYTES_MAX, HEAD_S, KEEP_ALIVE_S, SEND_S, SETTLED_S
from tests.web.street import PAYMENT_FEED, UPGRADE, Client, open_street, stream_pair

pytestmark = pytest.mark.usefixtures("by_both_doors")


async def test_a_request_passes_through_and_the_connection_stays() -> None:
    async with open_street() as street:
        client = await street.connect()
        for path in ("/v1/payments/a", "/v1/payments/b"):
            assert (await client.get(path)).status == 200

        assert [request.path for request in street.requests] == ["/v1/payments/a", "/v1/payments/b"]


async def test_a_request_passes_through_byte_by_byte() -> None:
    async with open_street() as street:
        client = await street.connect()
        for byte in b"POST /v1/payments HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi":
            await client.send(bytes([byte]))
            await wait_all_tasks_blocked()

        assert b'"body":"hi"' in (await client.answer()).body


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with open_street() as street:
        client = await street.connect()
        await client.send("".join(f"GET /v1/payments/{n} HTTP/1.1\r\nHost: x\r\n\r\n" for n in range(5)))

        for n in range(5):
            assert f"/v1/payments/{n}".encode() in (await client.answer()).body


async def test_a_feed_is_served_without_hypercorn() -> None:
    async with open_street() as street:
        client = await street.connect()
        await client.send(PAYMENT_FEED)
        socket = await client.opened()
        assert await socket.text() == '{"version":0}'

        street.feed.publish("pay_t1", b'{"version":1}', final=False)

        assert await socket.text() == '{"version":1}'
        assert street.requests == []


async def test_a_feed_is_found_in_a_head_that_comes_byte_by_byte() -> None:
    async with open_street() as street:
        client = await street.connect()
        for byte in PAYMENT_FEED:
            await client.send(bytes([byte]))
            await wait_all_tasks_blocked()

        assert await (await client.opened()).text() == '{"version":0}'


async def test_a_feed_without_an_upgrade_is_the_route_tables() -> None:
    async with open_street() as street:
        client = await street.connect()
        answer = await client.get("/v1/payments/pay_t1/feed")

        assert answer.status == 200
        assert street.requests[0].path == "/v1/payments/pay_t1/feed"


async def test_an_upgrade_on_a_used_connection_is_served_too() -> None:
    async with open_street() as street:
        client = await street.connect()
        await client.get("/v1/payments/a")
        await client.send(PAYMENT_FEED)
        socket = await client.opened()
        assert await socket.text() == '{"version":0}'

        street.feed.publish("pay_t1", b'{"version":1}', final=True)

        assert await socket.text() == '{"version":1}'
        assert await socket.closed() == 1000


@pytest.mark.parametrize(
    ("data", "may"),
    [
        (b"G", True),
        (b"GET /v1/pay", True),
        (b"GET /v1/payments/pay_t1/fe", True),
        (b"GET /v1/payments/pay_t1/status HTTP/1.1", False),
        (b"GET /v1/payments/pay_t1/feed HTTP/1.1", False),
        (b"GET /v1/merchants", False),
        (b"POST /v1/payments", False),
        (b"\x16\x03\x01", False),
        (b"GET /v1/feed\r\n", False),
        (b"GET /v1/payments/" + bytes(20_000), False),
    ],
)
def test_only_what_may_become_a_feed_is_waited_for(data: bytes, may: bool) -> None:
    assert _may_become_feed(data) is may


async def test_a_late_body_does_not_wedge_the_connection() -> None:
    """The request is one that is refused by its head alone; its body comes a second later."""
    async with open_street() as street:
        client = await street.connect()
        for _ in range(3):
            await client.send("POST /v1/nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n")
            await trio.sleep(1)
            await client.send("hi")

            assert (await client.answer()).status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"Content-Length: 1001\r\n\r\n" + bytes(1001),
        b"Content-Length: 99999999\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n" + b"64\r\n" + bytes(100) + b"\r\n",
    ],
    ids=["whole", "announced", "endless"],
)
async def test_a_body_over_the_limit_is_refused_and_the_connection_ends(body: bytes) -> None:
    async with open_street() as street, trio.open_nursery() as nursery:
        client = await street.connect()
        await client.send(b"POST /v1/payments HTTP/1.1\r\nHost: x\r\n" + body)

        async def more() -> None:
            while b"chunked" in body:
                await client.send(b"64\r\n" + bytes(100) + b"\r\n")

        nursery.start_soon(more)
        answer = await client.answer()
        nursery.cancel_scope.cancel()

        assert (answer.status, answer.headers["connection"]) == (413, "close")
        assert b'"code":"body_too_large"' in answer.body


async def test_the_connection_ends_after_a_refusal() -> None:
    async with open_street() as street:
        client = await street.connect()
        await client.send("POST /v1/payments HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n")
        assert (await client.answer()).status == 413
        with trio.fail_after(3):
            assert await client.rest() == b""
        await client.stream.aclose()
        await trio.sleep(3)

        assert len(street.front) == 0


@pytest.mark.parametrize("asked", ["HTTP/1.1\r\nHost: x\r\nConnection: close", "HTTP/1.0"])
async def test_a_connection_ends_when_the_client_wants_it_to(asked: str) -> None:
    async with open_street() as street:
        client = await street.connect()
        await client.send(f"GET /v1/payments/a {asked}\r\n\r\n")
        with trio.fail_after(0.1):
            assert b'"path":"/v1/payments/a"' in await client.rest()


@pytest.mark.parametrize("start", ["", "GET /v1/payments/a HTTP/1.1\r\n", "GET /v1/payments/pay_t1/f"])
async def test_a_dripping_head_has_one_deadline(start: str) -> None:
    async with open_street() as street:
        client = await street.connect()
        began_s = trio.current_time()
        await client.send(start)
        with trio.move_on_after(10 * HEAD_S):
            while len(street.front) or trio.current_time() == began_s:
                await trio.sleep(HEAD_S / 10)
                if start and len(street.front):
                    await client.send("x")

        assert trio.current_time() - began_s == pytest.approx(HEAD_S, rel=0.2)


async def test_a_dripping_head_has_its_deadline_on_a_used_connection_too() -> None:
    async with open_street() as street:
        client = await street.connect()
        await client.get("/v1/payments/a")
        await trio.sleep(KEEP_ALIVE_S - 1)
        began_s = trio.current_time()
        while len(street.front):
            await client.send("G")
            await trio.sleep(HEAD_S / 10)

        assert trio.current_time() - began_s == pytest.approx(HEAD_S, rel=0.2)


async def test_a_dripping_body_has_a_deadline() -> None:
    async with open_street() as street:
        client = await street.connect()
        await client.send("POST /v1/payments HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n")
        began_s = trio.current_time()
        while not street.requests:
            await client.send("x")
            await trio.sleep(1)

        assert trio.current_time() - began_s == pytest.approx(BODY_S, abs=1)
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (400, "close")


async def test_a_proxy_gives_its_idle_connection_up_first() -> None:
    async with open_street() as street:
        proxy = await street.connect()
        await proxy.get("/v1/payments/a")
        await trio.sleep(120)  # Caddy's keepalive, without being told

        assert (await proxy.get("/v1/payments/a")).status == 200


async def test_an_idle_connection_ends_after_its_time() -> None:
    async with open_street() as street:
        client = await street.connect()
        await client.get("/v1/payments/a")
        began_s = trio.current_time()
        await client.rest()

        assert trio.current_time() - began_s == pytest.approx(KEEP_ALIVE_S, abs=1)


async def test_a_long_answer_is_not_cut() -> None:
    async with open_street() as street:
        street.slow_s = 10 * KEEP_ALIVE_S
        client = await street.connect()

        assert (await client.get("/v1/slow")).status == 200
        assert (await client.get("/v1/payments/a")).status == 200


async def test_a_client_that_takes_nothing_is_dropped() -> None:
    async with open_street() as street:
        client = await street.connect()
        await client.send("GET /v1/big HTTP/1.1\r\nHost: x\r\n\r\n")
        await trio.sleep(SEND_S - 1)
        assert len(street.front) == 1
        await trio.sleep(5)

        assert len(street.front) == 0
        assert street.front.caught == 0


async def test_a_connection_that_fails_is_counted_and_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(self: Http1, event: h11.Request) -> None:
        raise ZeroDivisionError

    async with open_street() as street:
        other = await street.connect()
        await other.get("/v1/payments/a")
        with structlog.testing.capture_logs() as lines:
            client = await street.connect()
            with monkeypatch.context() as patched:
                patched.setattr(Http1, "_check_protocol", broken)
                await client.send("GET /elsewhere HTTP/1.1\r\nHost: x\r\n\r\n")
                await client.rest()
            await wait_all_tasks_blocked()

        assert street.front.caught == 1
        assert [line["event"] for line in lines if line["log_level"] == "error"] == [
            "front.connection_failed"
        ]
        assert (await other.get("/v1/payments/a")).status == 200


async def test_an_upgrade_to_nothing_is_a_plain_request_and_so_is_what_follows_it() -> None:
    """Alone with a stock worker these bytes end the process."""
    asked = f"GET /nowhere HTTP/1.1\r\n{UPGRADE}\r\n"
    async with open_street() as street:
        with structlog.testing.capture_logs() as logged:
            for _ in range(10):  # in whatever order the tasks run
                client = await street.connect()
                await client.send(asked + asked + "trailing")
                assert [(await client.answer()).status for _ in range(2)] == [200, 200]
                await client.stream.aclose()
            await wait_all_tasks_blocked()

        assert [one["event"] for one in logged if one["log_level"] == "error"] == []
        assert street.front.caught == 0


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"GET http://[::1/ok HTTP/1.1\r\nHost: x\r\n\r\n", id="no URL"),
        pytest.param(
            f"GET /ok HTTP/1.1\r\n{UPGRADE}Sec-WebSocket-Protocol: \xff\r\n\r\n".encode("latin-1"),
            id="odd protocol",
        ),
        pytest.param(PAYMENT_FEED[:-2] + b"Content-Length: 5\r\n\r\n0\r\n\r\n", id="a feed with a body"),
    ],
)
async def test_what_anybody_can_send_is_answered_and_no_fault(sent: bytes) -> None:
    async with open_street() as street:
        with structlog.testing.capture_logs() as logged:
            client = await street.connect()
            await client.send(sent)
            assert (await client.answer()).status in {200, 400}
            await client.stream.aclose()
            await wait_all_tasks_blocked()

        assert [one["event"] for one in logged if one["log_level"] == "error"] == []
        assert street.front.caught == 0


async def test_an_answer_that_raises_becomes_an_internal_error() -> None:
    async with open_street() as street:
        client = await street.connect()
        with structlog.testing.capture_logs():
            answer = await client.get("/v1/bug")

        assert answer.status == 500
        assert b'"code":"internal_error"' in answer.body
        assert b"ZeroDivision" not in answer.body


async def test_running_out_of_descriptors_does_not_end_the_accept_loop() -> None:
    async with open_street() as street:
        with structlog.testing.capture_logs() as lines:
            await (await street.connect()).get("/v1/payments/a")  # lets the loop come round
            street.door.errors = [OSError(errno.EMFILE, "too many"), OSError(errno.ENFILE, "too many")]
            first, second = await street.connect(), await street.connect()
            for client in (first, second):
                assert (await client.get("/v1/payments/a")).status == 200

        assert [line["event"] for line in lines] == ["front.no_room"], "told once"


async def test_connections_over_the_limit_of_their_address_are_turned_away() -> None:
    async with open_street(connections_per_ip=2, trusted=("10.0.0.0/8",)) as street:
        street.front._trusted = OneAddress("192.0.2.1")  # type: ignore[assignment]
        kept = [await street.connect() for _ in range(2)]
        over = await street.connect()

        answer = await over.answer()

        assert (answer.status, answer.headers["retry-after"]) == (429, "5")
        assert b'"code":"rate_limited","details":{"retryAfterS":5,"requestId":"req_' in answer.body
        assert street.front.turned_away == 1
        await kept[0].stream.aclose()
        await trio.sleep(1)
        assert (await (await street.connect()).get("/v1/payments/a")).status == 200


class OneAddress:
    """Every connection comes from one address."""

    def __init__(self, address: str) -> None:
        self.address = address

    def slot_key(self, ip: str) -> str:
        return self.address

    def __contains__(self, ip: str) -> bool:
        return False


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        ("POST /v1/payments HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked", 400),
        ("CONNECT a:1 HTTP/1.1\r\nHost: x", 405),
        ("OPTIONS * HTTP/1.1\r\nHost: x", 400),
        ("GET ? HTTP/1.1\r\nHost: x", 400),
        ("GET http://evil/v1/payments/a HTTP/1.1\r\nHost: x", 200),
    ],
    ids=["two lengths", "connect", "star", "no path", "absolute"],
)
async def test_what_servers_read_differently_is_refused(request_head: str, status: int) -> None:
    async with open_street() as street:
        client = await street.connect()
        await client.send(request_head + "\r\n\r\n" + "0\r\n\r\n" * ("chunked" in request_head))
        answer = await client.answer()

        assert answer.status == status
        assert (answer.headers.get("connection") == "close") is (status != 200)
        assert street.front.caught == 0


@pytest.mark.parametrize(
    ("sent", "status", "words"),
    [
        ("GET / HTTP/1.1\r\n\r\n", 400, b"cannot be read"),
        ("GET / HTTP/1.1\r\nHost: x\r\nno header\r\n\r\n", 400, b"cannot be read"),
        (f"GET / HTTP/1.1\r\nHost: {'x' * 2 * HEAD_BYTES_MAX}", 431, b"longer than 16384 bytes"),
        ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501, b"and no other"),
        ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, b"cannot be read"),
    ],
)
async def test_what_is_no_request_is_refused_as_everything_is(sent: str, status: int, words: bytes) -> None:
    async with open_street() as street:
        client = await street.connect()
        await client.send(sent)
        answer = await client.answer()

        assert (answer.status, answer.headers["connection"]) == (status, "close")
        assert words in answer.body
        assert b'"code":"invalid_params","details":{"requestId":"req_' in answer.body
        assert await client.rest() == b""
        assert street.front.caught == 0


async def test_http2_is_not_spoken_by_prior_knowledge() -> None:
    async with open_street() as street:
        client = await street.connect()
        await client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")

        assert (await client.rest()).startswith(b"HTTP/1.1 400 ")
        await client.stream.aclose()
        await wait_all_tasks_blocked()
        assert (len(street.front), street.front.caught) == (0, 0)


@pytest.mark.parametrize("used_before", [False, True])
@pytest.mark.parametrize("path", ["/v1/payments/a", "/elsewhere"])
async def test_http2_is_not_spoken_after_an_upgrade(path: str, used_before: bool) -> None:
    """A proxy that passes an upgrade on looks at nothing after it."""
    h2c = "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nConnection: Upgrade, HTTP2-Settings\r\n"
    async with open_street() as street:
        client = await street.connect()
        if used_before:
            await client.get("/elsewhere")
        plain, upgraded = await client.get(path), await client.get(path, h2c)
        assert (upgraded.status, upgraded.body) == (plain.status, plain.body)
        assert (await client.get(path)).status == plain.status, "it goes on as before"


async def test_client_data_on_an_upgrade_behind_hypercorn_is_against_the_rules() -> None:
    async with open_street() as street:
        client = await street.connect()
        await client.get("/v1/payments/a")
        await client.send(PAYMENT_FEED)
        socket = await client.opened()
        await socket.text()
        await socket.send(TextMessage(data="hello"))

        assert await socket.closed() == 1008


async def test_who_is_idle_makes_room_at_once_though_its_client_does_not_go() -> None:
    async with open_street(connections_max=1) as street:
        idle = await street.connect()
        await idle.get("/v1/page")
        for path in ("/v1/page", "/v1/payments/a"):
            await trio.sleep(SETTLED_S)
            newcomer = await street.connect()
            with trio.fail_after(1):
                assert (await newcomer.get(path)).status == 200
        assert street.front.displaced == 2


@pytest.mark.parametrize("is_used", [False, True])
async def test_who_is_ended_in_the_moment_in_which_it_becomes_a_feed_keeps_nobody_waiting(
    is_used: bool,
) -> None:
    """Its place was given away, and a feed would keep it for as long as it likes."""
    for _ in range(20):  # in whatever order the tasks run
        async with open_street(connections_max=2) as street:
            page = await street.connect()
            if is_used:
                await page.get("/v1/page")
            await trio.sleep(SETTLED_S)
            await street.connect()
            await trio.sleep(SETTLED_S)
            await wait_all_tasks_blocked()
            newcomer, far = stream_pair()
            street.streams += [newcomer, far]
            street.door.send.send_nowait(far)
            os.write(page.stream.socket.fileno(), PAYMENT_FEED)
            with trio.fail_after(1):
                assert (await Client(newcomer).get("/v1/payments/a")).status == 200
