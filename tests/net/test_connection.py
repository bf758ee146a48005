"""When a connection may carry one more request: only after a clean end, with nothing said since."""

from __future__ import annotations

import h11
import pytest
import trio
from trio.testing import memory_stream_pair

from payd.net.connection import (
    CONNECTION_AGE_MAX_S,
    TLS_DEADLINE_S,
    Connection,
    Failed,
    Stale,
    exchange,
    read_body,
    start_tls,
)
from payd.net.http import IDLE_MAX, IDLE_PER_ORIGIN_MAX, Client, Target, tls_context
from tests.receiver import CA_FILE, Does, Receiver, always, server_tls

TRUSTING = tls_context(CA_FILE)
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
UNASKED = b"HTTP/1.1 299 Unasked\r\ncontent-length: 0\r\n\r\n"
HEAD = h11.Request(method="GET", target="/", headers=[("host", "a.test")])


class Corked(trio.abc.Stream):
    """A stream whose sends leave together, as one segment does."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.corked = False
        self.held = b""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self.held += bytes(data)
        if not self.corked:
            await self.flush()

    async def flush(self) -> None:
        held, self.held = self.held, b""
        await self.stream.send_all(held)

    async def wait_send_all_might_not_block(self) -> None:
        await self.stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self.stream.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self.stream.aclose()


async def ended(answer: bytes, *, closes: bool = False) -> Connection:
    """A connection after an exchange that was answered with these bytes."""
    ours, theirs = memory_stream_pair()
    await theirs.send_all(answer)
    if closes:
        await theirs.aclose()
    connection = Connection(ours, "93.184.216.34")
    await exchange(connection, HEAD, b"", reused=False)
    await read_body(connection, bytearray(), 100)
    return connection


async def test_a_clean_end_makes_ready_for_one_more() -> None:
    connection = await ended(OK)

    assert await connection.next_cycle()
    assert connection.is_fit()
    assert not connection.answered


@pytest.mark.parametrize(
    "answer",
    [OK + OK, OK + b"\r\n", OK + b"junk", OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")],
    ids=["a second answer", "a line", "junk", "close"],
)
async def test_anything_after_the_answer_ends_the_connection(answer: bytes) -> None:
    assert not await (await ended(answer)).next_cycle()


async def test_an_answer_that_did_not_end_ends_the_connection() -> None:
    connection = await ended(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1000)

    assert not await connection.next_cycle()


async def test_an_old_connection_is_not_fit() -> None:
    connection = await ended(OK)
    await trio.sleep(CONNECTION_AGE_MAX_S)

    assert not connection.is_fit()


async def test_only_a_reused_connection_without_a_byte_of_an_answer_is_stale() -> None:
    async def dies_after(answer: bytes, *, reused: bool) -> Connection:
        ours, theirs = memory_stream_pair()
        await theirs.send_all(answer)
        await theirs.aclose()
        connection = Connection(ours, "93.184.216.34")
        await exchange(connection, HEAD, b"", reused=reused)
        return connection

    with pytest.raises(Stale):
        await dies_after(b"", reused=True)
    with pytest.raises(Failed) as fresh:
        await dies_after(b"", reused=False)
    with pytest.raises(Failed) as half:
        await dies_after(b"H", reused=True)

    assert (fresh.value.error_class, half.value.error_class) == ("connection_reset", "protocol_error")


async def test_a_handshake_that_is_never_answered_ends_and_closes() -> None:
    ours, theirs = memory_stream_pair()
    started_s = trio.current_time()
    with pytest.raises(Failed) as failed:
        await start_tls(ours, TRUSTING, "receiver.test")

    assert failed.value.error_class == "timeout_connect"
    assert trio.current_time() - started_s == pytest.approx(TLS_DEADLINE_S)
    assert await theirs.receive_some() != b""
    assert await theirs.receive_some() == b""


async def posts(count: int, *, unasked: bytes) -> tuple[list[int | None], int]:
    """Statuses of requests over TLS to a peer that sends these bytes after each answer; connections made."""
    connections = 0
    context = server_tls()

    async def serve(tcp: trio.abc.Stream) -> None:
        corked = Corked(tcp)
        stream = trio.SSLStream(corked, context, server_side=True, https_compatible=True)
        await stream.do_handshake()
        while (await stream.receive_some()).endswith(b"{}"):
            corked.corked = True
            await stream.send_all(OK)
            if unasked:
                await stream.send_all(unasked)
            corked.corked = False
            await corked.flush()

    async def dial(_address: str, _port: int) -> trio.abc.Stream:
        nonlocal connections
        connections += 1
        ours, theirs = memory_stream_pair()
        nursery.start_soon(serve, theirs)
        await trio.lowlevel.checkpoint()
        return ours

    async with trio.open_nursery() as nursery:
        client = Client(may_call=lambda _: True, tls=TRUSTING, resolve=resolve_public, dial=dial)
        target = Target.of("https://receiver.test/")
        statuses = [(await client.send("POST", target, (), b"{}")).status for _ in range(count)]
        nursery.cancel_scope.cancel()
    return statuses, connections


async def test_an_answer_that_lies_unasked_in_tls_is_nobodys_answer() -> None:
    assert await posts(2, unasked=UNASKED) == ([200, 200], 2)


async def test_what_tls_itself_says_after_an_answer_does_not_end_the_connection() -> None:
    assert await posts(3, unasked=b"") == ([200, 200, 200], 1)


async def resolve_public(_host: str) -> list[str]:
    await trio.lowlevel.checkpoint()
    return ["93.184.216.34"]


async def post_at_once(client: Client, urls: list[str]) -> None:
    """One POST to each of the URLs, all under way at the same time."""
    async with trio.open_nursery() as nursery:
        for url in urls:
            nursery.start_soon(client.send, "POST", Target.of(url), (), b"{}")


@pytest.mark.parametrize(
    ("urls", "kept"),
    [
        (["http://a.test/"] * (IDLE_PER_ORIGIN_MAX + 5), IDLE_PER_ORIGIN_MAX),
        ([f"http://a{number}.test/" for number in range(IDLE_MAX + 5)], IDLE_MAX),
    ],
    ids=["of one host", "of many hosts"],
)
async def test_only_so_many_connections_are_kept(urls: list[str], kept: int) -> None:
    async with trio.open_nursery() as nursery:
        # All have to be under way before the first of them ends.
        receiver = Receiver(nursery, always(Does(delay_s=1)))
        client = Client(may_call=lambda _: True, resolve=resolve_public, dial=receiver.dial)
        await post_at_once(client, urls)
        await post_at_once(client, urls)

        assert receiver.connections == len(urls) + len(urls) - kept
        await client.aclose()
        nursery.cancel_scope.cancel()


@pytest.mark.real_time
async def test_what_a_socket_has_to_say_while_it_lies_idle_makes_it_unfit() -> None:
    async with trio.open_nursery() as nursery:
        heard = trio.Event()

        async def babble(stream: trio.SocketStream) -> None:
            await stream.receive_some()
            await stream.send_all(OK)
            await heard.wait()
            await stream.send_all(UNASKED)
            await trio.sleep_forever()

        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, babble, listeners)
        stream = await trio.open_tcp_stream("127.0.0.1", listeners[0].socket.getsockname()[1])
        connection = Connection(stream, "127.0.0.1")
        await exchange(connection, HEAD, b"", reused=False)
        await read_body(connection, bytearray(), 100)
        assert await connection.next_cycle()
        assert connection.is_fit()

        heard.set()
        await trio.lowlevel.wait_readable(stream.socket)
        assert not connection.is_fit()
        await connection.aclose()
        nursery.cancel_scope.cancel()


async def test_the_receiver_of_other_tests_is_spoken_to_over_tls_in_memory() -> None:
    async with trio.open_nursery() as nursery:
        receiver = Receiver(nursery, tls=server_tls())
        stream = await start_tls(await receiver.dial("", 0), TRUSTING, "receiver.test")
        connection = Connection(stream, "93.184.216.34")

        assert (await exchange(connection, HEAD, b"", reused=False)).status_code == 200
        await connection.aclose()
        nursery.cancel_scope.cancel()
