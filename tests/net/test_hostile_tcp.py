"""Receivers that mean harm with TCP itself: resets at every stage, queues nobody empties, half a close."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import pytest
import trio

from payd.net.http import Client, Target, tls_context
from tests.receiver import CA_FILE

TRUSTING: Final = tls_context(CA_FILE)

Handler: TypeAlias = Callable[[trio.SocketStream], Awaitable[None]]


@asynccontextmanager
async def open_loopback(handler: Handler, scheme: str = "http") -> AsyncIterator[tuple[Client, Target]]:
    """A client and a real TCP peer."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, handler, listeners)
        port = listeners[0].socket.getsockname()[1]
        client = Client(may_call=lambda _: True, tls=TRUSTING)
        yield client, Target.of(f"{scheme}://127.0.0.1:{port}/hook")
        await client.aclose()
        nursery.cancel_scope.cancel()


def resets(*, reads: bool, after: bytes) -> Handler:
    """Reads or not, sends these bytes, and then sends a TCP reset."""

    async def handler(stream: trio.SocketStream) -> None:
        if reads:
            await stream.receive_some()
        if after:
            await stream.send_all(after)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await stream.aclose()

    return handler


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("scheme", "reads", "after", "error_class"),
    [
        ("http", False, b"", "connection_reset"),
        ("http", True, b"", "connection_reset"),
        ("http", True, b"HTTP/1.1 2", "connection_reset"),
        ("http", True, b"HTTP/1.1 100 Continue\r\n\r\n", "connection_reset"),
        ("http", True, b"HTTP/1.1 200 OK\r\nx: ", "connection_reset"),
        ("https", False, b"", "tls_error"),
        ("https", True, b"", "tls_error"),
        ("https", True, b"\x16\x03\x03\x40\x00\x02", "tls_error"),
    ],
    ids=[
        "at once",
        "after the request",
        "line",
        "1xx",
        "headers",
        "TLS at once",
        "after the hello",
        "in TLS",
    ],
)
async def test_a_reset_before_the_verdict_has_its_class(
    scheme: str, reads: bool, after: bytes, error_class: str
) -> None:
    async with open_loopback(resets(reads=reads, after=after), scheme) as (client, target):
        reply = await client.send("POST", target, (), b"{}")

        assert (reply.status, reply.error_class) == (None, error_class)


@pytest.mark.real_time
@pytest.mark.parametrize(
    "after", [b"content-length: 9\r\n\r\nhalf", b"\r\nhalf", b"transfer-encoding: chunked\r\n\r\n4\r\nha"]
)
async def test_a_reset_within_the_body_changes_no_verdict(after: bytes) -> None:
    async with open_loopback(resets(reads=True, after=b"HTTP/1.1 200 OK\r\n" + after)) as (client, target):
        reply = await client.send("POST", target, (), b"{}")

        assert (reply.status, reply.error_class, reply.is_whole) == (200, None, False)


@pytest.mark.real_time
async def test_a_connection_that_is_never_accepted_is_answered_by_nobody() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=5) as listener:
        client = Client(may_call=lambda _: True)
        target = Target.of(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        reply = await client.send("POST", target, (), b"{}", deadline_s=0.2)

    assert (reply.error_class, reply.remote_ip) == ("timeout_response", "127.0.0.1")
    assert reply.timing.connect_ms is not None


@pytest.mark.real_time
async def test_a_full_queue_of_connections_is_one_that_never_connects() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = listener.getsockname()
        with socket.create_connection(address):
            client = Client(may_call=lambda _: True)
            target = Target.of(f"http://127.0.0.1:{address[1]}/")
            reply = await client.send("POST", target, (), b"{}", deadline_s=0.2)

    assert (reply.error_class, reply.timing.connect_ms) == ("timeout_connect", None)


@pytest.mark.real_time
async def test_an_answer_to_a_request_that_is_never_read_counts_when_the_kernel_takes_the_request() -> None:
    async def answers_unread(stream: trio.SocketStream) -> None:
        await stream.send_all(b"HTTP/1.1 401 Who\r\ncontent-length: 0\r\n\r\n")
        await trio.sleep_forever()

    async with open_loopback(answers_unread) as (client, target):
        # No webhook is longer: the API takes bodies of 64 KiB.
        small = await client.send("POST", target, (), b"x" * 65_536, deadline_s=2)
        large = await client.send("POST", target, (), b"x" * 64_000_000, deadline_s=0.3)

        assert small.status == 401
        assert (large.status, large.error_class) == (None, "timeout_response")


@pytest.mark.real_time
async def test_a_peer_that_closes_its_side_at_once_is_a_reset_connection() -> None:
    async def half_closes(stream: trio.SocketStream) -> None:
        await stream.send_eof()
        await trio.sleep_forever()

    async with open_loopback(half_closes) as (client, target):
        assert (await client.send("POST", target, (), b"{}")).error_class == "connection_reset"
