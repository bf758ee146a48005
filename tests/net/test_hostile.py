"""Receivers that mean harm: each ends in its error class, or in a verdict, and neither costs much.

The peers are in memory, where a send waits until it is read, so that what the client read can be counted.
What needs a kernel is in `test_hostile_tcp.py`; the plainest of them are in `test_http.py`.
"""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Final, TypeAlias

import pytest
import trio
from trio.testing import lockstep_stream_pair

from payd.net.connection import HEAD_BYTES_MAX, READ_BYTES, TLS_DEADLINE_S
from payd.net.http import BODY_BYTES_MAX, BODY_WAIT_S, Client, Reply, Target, tls_context
from tests.receiver import CA_FILE, Does, Receiver, always, server_tls

Handler: TypeAlias = Callable[[trio.abc.Stream], Awaitable[None]]

HOOK: Final = Target.of("http://a.test/hook")
SAFE_HOOK: Final = Target.of("https://receiver.test/hook")
OK: Final = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
ENDLESS: Final = b"HTTP/1.1 200 OK\r\n\r\n"
CHUNKED: Final = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
DEADLINE_S: Final = 15
TRUSTING: Final = tls_context(CA_FILE)


class Counted(trio.abc.Stream):
    """A stream that counts what is read from it."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.bytes_read = 0
        self.is_closed = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self.stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self.stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = await self.stream.receive_some(max_bytes)
        self.bytes_read += len(data)
        return data

    async def aclose(self) -> None:
        self.is_closed = True
        await self.stream.aclose()


@asynccontextmanager
async def open_hostile(handler: Handler) -> AsyncIterator[tuple[Client, list[Counted]]]:
    """A client whose every connection ends at the handler, and the connections it made."""
    connections: list[Counted] = []

    async def serve(stream: trio.abc.Stream) -> None:
        try:
            await handler(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return
        finally:
            await trio.aclose_forcefully(stream)

    async def dial(_address: str, _port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        ours, theirs = lockstep_stream_pair()
        nursery.start_soon(serve, theirs)
        connections.append(Counted(ours))
        return connections[-1]

    async def resolve(_host: str) -> list[str]:
        await trio.lowlevel.checkpoint()
        return ["93.184.216.34"]

    async with trio.open_nursery() as nursery:
        client = Client(may_call=lambda _: True, tls=TRUSTING, resolve=resolve, dial=dial)
        yield client, connections
        await client.aclose()
        nursery.cancel_scope.cancel()


def says(*parts: bytes, every_s: float = 0.0, stays: bool = False) -> Handler:
    """Reads the request, sends the parts, and then closes, or says nothing more."""

    async def handler(stream: trio.abc.Stream) -> None:
        await stream.receive_some()
        for part in parts:
            await stream.send_all(part)
            await trio.sleep(every_s)
        if stays:
            await trio.sleep_forever()

    return handler


def repeats(first: bytes, part: bytes, every_s: float = 0.0) -> Handler:
    """Reads the request, sends `first`, and then `part` for ever."""

    async def handler(stream: trio.abc.Stream) -> None:
        await stream.receive_some()
        await stream.send_all(first)
        for _ in count():
            await stream.send_all(part)
            await trio.sleep(every_s)

    return handler


async def post(client: Client, target: Target = HOOK, body: bytes = b"{}") -> Reply:
    return await client.send("POST", target, (), body)


async def fate(handler: Handler, target: Target = HOOK, body: bytes = b"{}") -> tuple[Reply, Counted, float]:
    """The reply, the one connection that was made, which must be closed now, and the seconds it took."""
    async with open_hostile(handler) as (client, connections):
        started_s = trio.current_time()
        reply = await post(client, target, body)
        [connection] = connections
        assert connection.is_closed
        return reply, connection, trio.current_time() - started_s


async def test_a_gzip_bomb_stays_packed_and_is_cut() -> None:
    bomb = gzip.compress(bytes(64 * 1024 * 1024))
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(bomb)
    assert len(bomb) > 3 * BODY_BYTES_MAX
    tracemalloc.start()
    reply, connection, _ = await fate(says(head + bomb))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert (reply.status, reply.is_whole) == (200, False)
    assert reply.body == bomb[:BODY_BYTES_MAX]
    assert connection.bytes_read <= BODY_BYTES_MAX + 2 * READ_BYTES
    assert peak_bytes < 1024 * 1024


@pytest.mark.parametrize(
    "handler",
    [
        repeats(ENDLESS, b"x" * 65_536),
        repeats(b"HTTP/1.1 200 OK\r\ncontent-length: 999999999999\r\n\r\n", b"x" * 65_536),
        repeats(CHUNKED, b"10000\r\n" + b"x" * 65_536 + b"\r\n"),
    ],
    ids=["no length", "a length", "chunks"],
)
async def test_an_endless_body_is_read_no_further_than_it_is_kept(handler: Handler) -> None:
    reply, connection, elapsed_s = await fate(handler)

    assert (reply.status, reply.body, reply.is_whole) == (200, b"x" * BODY_BYTES_MAX, False)
    assert connection.bytes_read <= BODY_BYTES_MAX + 2 * READ_BYTES
    assert elapsed_s == 0


@pytest.mark.parametrize(
    "part",
    [b"1\r\nx\r\n", b"1;" + b"e" * 60 + b"\r\nx\r\n"],
    ids=["one byte each", "with an extension"],
)
async def test_a_body_in_the_smallest_of_chunks_is_bounded_by_its_two_seconds(part: bytes) -> None:
    reply, connection, elapsed_s = await fate(repeats(CHUNKED, part, every_s=0.001))

    assert (reply.status, reply.is_whole) == (200, False)
    assert set(reply.body) == set(b"x")
    assert elapsed_s == pytest.approx(BODY_WAIT_S)
    assert connection.bytes_read < 2100 * len(part)


@pytest.mark.parametrize(
    "handler",
    [
        repeats(b"HTTP/1.1 200 OK\r\n", b"x-endless: header\r\n" * 100),
        repeats(b"HTTP/1.1 200 OK\r\nx-endless: ", b"x" * 1000),
        repeats(b"HTTP/1.1 200 ", b"OK" * 1000),
        repeats(b"", b"\0" * 1000),
    ],
    ids=["headers", "one header", "the status line", "zeros"],
)
async def test_an_endless_head_is_given_up_after_32_kib(handler: Handler) -> None:
    reply, connection, _ = await fate(handler)

    assert (reply.status, reply.error_class) == (None, "protocol_error")
    assert connection.bytes_read <= HEAD_BYTES_MAX + READ_BYTES


@pytest.mark.parametrize(
    "handler",
    [
        repeats(b"HTTP/1.1 200 OK\r\nx-slow: ", b"x", every_s=1),
        repeats(b"HTTP/1.1 200 OK\r\n", b"x: y\r\n", every_s=1),
        repeats(b"", b"HTTP/1.1 102 Processing\r\n\r\n", every_s=1),
    ],
    ids=["a header", "headers", "informational answers"],
)
async def test_a_head_that_drips_ends_at_the_deadline(handler: Handler) -> None:
    reply, connection, elapsed_s = await fate(handler)

    assert (reply.status, reply.error_class, reply.duration_ms) == (
        None,
        "timeout_response",
        DEADLINE_S * 1000,
    )
    assert elapsed_s == pytest.approx(DEADLINE_S)
    assert connection.bytes_read < 1000


@pytest.mark.parametrize(
    "rest",
    [
        b"zz\r\n",
        b"-5\r\nhello\r\n",
        b"0x5\r\nhello\r\n",
        b"5\r\nhelloHELLO\r\n",
        b"f" * 30 + b"\r\n",
        b"\r\n\r\n",
        b"2\r\nok\r\n0\r\nno trailer\r\n\r\n",
        b"x" * 100_000,
        b"0\r\n" + b"x-endless: trailer\r\n" * 10_000,
        b"2;" + b"e" * 100_000,
    ],
    ids=[
        "no number",
        "negative",
        "hexadecimal",
        "too much",
        "huge",
        "empty",
        "trailer",
        "no line",
        "trailers",
        "extension",
    ],
)
async def test_rubbish_in_chunks_changes_no_verdict_and_ends_the_connection(rest: bytes) -> None:
    reply, connection, _ = await fate(says(CHUNKED + rest))

    assert (reply.status, reply.error_class, reply.is_whole) == (200, None, False)
    assert len(reply.body) <= 5
    assert connection.bytes_read <= HEAD_BYTES_MAX + 2 * READ_BYTES


async def test_a_body_that_is_longer_than_it_says_is_cut_there_and_the_rest_is_nobodys() -> None:
    async with open_hostile(says(OK + b"HTTP/1.1 500 Unasked\r\ncontent-length: 0\r\n\r\n")) as (
        client,
        connections,
    ):
        replies = [await post(client) for _ in range(2)]

        assert [(reply.status, reply.body, reply.is_whole) for reply in replies] == [(200, b"ok", True)] * 2
        assert len(connections) == 2


async def test_a_body_that_is_shorter_than_it_says_costs_two_seconds() -> None:
    reply, _, elapsed_s = await fate(says(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf", stays=True))

    assert (reply.status, reply.body, reply.is_whole) == (200, b"half", False)
    assert elapsed_s == pytest.approx(BODY_WAIT_S)


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"HTTP/1.1 204 No Content\r\ncontent-length: 4\r\n\r\nbody", 204),
        (b"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 500 Unasked\r\n\r\n", 204),
        (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 4\r\n\r\nbody", 304),
    ],
)
async def test_a_body_where_none_can_be_is_not_read_as_one(raw: bytes, status: int) -> None:
    reply, _, _ = await fate(says(raw))

    assert (reply.status, reply.body) == (status, b"")


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n", 200),
        (b"HTTP/1.1 200 \r\ncontent-length: 0\r\n\r\n", 200),
        (b"HTTP/1.0 202 Old\r\n\r\n", 202),
        (b"HTTP/1.1 200 OK\ncontent-length: 0\n\n", 200),
        (b"HTTP/1.1 503 \xff\xfe\r\nx: \xff\r\ncontent-length: 0\r\n\r\n", 503),
        (b"HTTP/1.1 999 Made up\r\ncontent-length: 0\r\n\r\n", 999),
    ],
    ids=["no reason", "an empty reason", "HTTP/1.0", "bare line ends", "bytes", "made up"],
)
async def test_an_odd_status_line_is_a_verdict_where_it_is_clear(raw: bytes, status: int) -> None:
    async with open_hostile(says(raw)) as (client, _):
        reply = await post(client)

    assert (reply.status, reply.error_class) == (status, None)


@pytest.mark.parametrize(
    "raw",
    [
        b"<html>welcome</html>\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 099 Low\r\n\r\n",
        b"HTTP/1.1 -200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nspace : x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1e3\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a.test\r\n\r\n",
    ],
    ids=[
        "HTTP/0.9",
        "an HTTP/2 preface",
        "HTTP/2 frames",
        "101",
        "two digits",
        "four digits",
        "below 100",
        "negative",
        "no colon",
        "a space before the colon",
        "a zero byte",
        "two lengths",
        "a float",
        "another encoding",
        "a request",
    ],
)
async def test_an_answer_that_is_none_is_a_protocol_error(raw: bytes) -> None:
    reply, _, _ = await fate(says(raw))

    assert (reply.status, reply.error_class) == (None, "protocol_error")


@pytest.mark.parametrize("status", [300, 301, 303, 307, 308])
@pytest.mark.parametrize("location", ["/hook", "http://169.254.169.254/", "//b.test", "file:///etc/passwd"])
async def test_no_redirect_leads_anywhere(status: int, location: str) -> None:
    raw = b"HTTP/1.1 %d On\r\nlocation: %s\r\ncontent-length: 0\r\n\r\n" % (status, location.encode())
    async with open_hostile(says(raw)) as (client, connections):
        reply = await post(client)

        assert (reply.status, reply.error_class, reply.header("location")) == (status, None, location)
        assert len(connections) == 1


async def test_a_stale_connection_is_replaced_once_and_its_replacement_never() -> None:
    turns = iter([OK, b""])

    async def handler(stream: trio.abc.Stream) -> None:
        await stream.receive_some()
        await stream.send_all(next(turns))

    async with open_hostile(handler) as (client, connections):
        first = await post(client)
        await trio.testing.wait_all_tasks_blocked()
        second = await post(client)

        assert (first.status, second.error_class) == (200, "connection_reset")
        assert len(connections) == 2


async def test_a_receiver_that_never_reads_costs_the_deadline() -> None:
    async def never_reads(_stream: trio.abc.Stream) -> None:
        await trio.sleep_forever()

    reply, connection, elapsed_s = await fate(never_reads, body=b"x" * 10_000_000)

    assert (reply.error_class, connection.bytes_read) == ("timeout_response", 0)
    assert elapsed_s == pytest.approx(DEADLINE_S)


async def test_a_receiver_that_reads_one_byte_a_second_costs_the_deadline() -> None:
    async def sips(stream: trio.abc.Stream) -> None:
        while await stream.receive_some(1):
            await trio.sleep(1)

    reply, _, elapsed_s = await fate(sips)

    assert reply.error_class == "timeout_response"
    assert elapsed_s == pytest.approx(DEADLINE_S)


def server_hello_that_drips() -> Handler:
    return repeats(b"\x16\x03\x03\x40\x00", b"\x02", every_s=1)


@pytest.mark.parametrize(
    "handler",
    [says(stays=True), server_hello_that_drips()],
    ids=["says nothing", "drips a ServerHello"],
)
async def test_a_tls_tarpit_costs_five_seconds(handler: Handler) -> None:
    reply, connection, elapsed_s = await fate(handler, SAFE_HOOK)

    assert (reply.error_class, reply.timing.tls_ms) == ("timeout_connect", None)
    assert elapsed_s == pytest.approx(TLS_DEADLINE_S)
    assert connection.bytes_read < 100


@pytest.mark.parametrize(
    "handler",
    [
        says(OK),
        says(b""),
        says(b"\x15\x03\x03\x00\x02\x02\x28"),
        says(b"\x16\x03\x03\x00\x05\xff\xff\xff\xff\xff"),
        repeats(b"\x16\x03\x03\x40\x00", b"\xff" * 10_000),
    ],
    ids=["plain HTTP", "nothing", "an alert", "a broken hello", "an endless hello"],
)
async def test_what_is_no_tls_is_a_tls_error(handler: Handler) -> None:
    reply, connection, _ = await fate(handler, SAFE_HOOK)

    assert (reply.status, reply.error_class) == (None, "tls_error")
    assert connection.bytes_read < 200_000


@pytest.mark.parametrize(
    ("name", "words"), [("selfsigned", "self-signed"), ("other", "mismatch"), ("expired", "expired")]
)
async def test_a_certificate_that_proves_nothing_is_named(name: str, words: str) -> None:
    async with trio.open_nursery() as nursery:
        receiver = Receiver(nursery, tls=server_tls(name))

        async def resolve(_host: str) -> list[str]:
            await trio.lowlevel.checkpoint()
            return ["93.184.216.34"]

        client = Client(may_call=lambda _: True, tls=TRUSTING, resolve=resolve, dial=receiver.dial)
        reply = await post(client, SAFE_HOOK)
        nursery.cancel_scope.cancel()

    assert (reply.status, reply.error_class) == (None, "tls_error")
    assert "certificate was not accepted" in reply.detail
    assert words in reply.detail
    assert receiver.received == []


async def test_many_hostile_receivers_delay_no_friendly_one() -> None:
    replies: list[Reply] = []

    async def post_to(client: Client) -> None:
        replies.append(await post(client))

    async with (
        open_hostile(repeats(ENDLESS, b"x" * 65_536)) as (bodies, _),
        open_hostile(repeats(b"HTTP/1.1 200 OK\r\nx: ", b"x", every_s=1)) as (drips, _),
        trio.open_nursery() as nursery,
    ):
        receiver = Receiver(nursery, always(Does()))
        friendly = Client(may_call=lambda _: True, resolve=bodies.resolve, dial=receiver.dial)
        for client in (bodies, drips) * 50:
            nursery.start_soon(post_to, client)
        await trio.testing.wait_all_tasks_blocked()
        reply = await post(friendly)

        assert (reply.status, reply.duration_ms) == (200, 0)
        await trio.sleep(DEADLINE_S + 1)
        nursery.cancel_scope.cancel()

    assert sorted(str(reply.error_class) for reply in replies) == ["None"] * 50 + ["timeout_response"] * 50
