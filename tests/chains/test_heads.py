"""Heads are passed on while a node tells them; when it does not any more, that is noticed."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest
import trio
import trio_websocket
from trio.testing import memory_stream_pair

from payd.chains.heads import follow_heads
from payd.chains.socket import CONNECT_S, PING_S, PONG_S
from payd.core.errors import InvalidParams
from payd.net.dns import DnsFailed

Socket: TypeAlias = trio_websocket.WebSocketConnection
Behave: TypeAlias = Callable[[Socket], Awaitable[None]]
Serve: TypeAlias = Callable[[trio.Nursery, trio.abc.Stream], Awaitable[None]]

LATE_S = 1.0
KEY = "d34db33fd34db33f"
URL = f"ws://node.test/ws/{KEY}?token={KEY}"
DONE = '{"jsonrpc":"2.0","id":1,"result":"0xcd0c3e8af590364c09d0fa6a1210faf5"}'


def news(number: Any) -> str:
    params = {"subscription": "0xcd0c", "result": {"number": number, "hash": "0xab"}}
    return json.dumps({"jsonrpc": "2.0", "method": "eth_subscription", "params": params})


def speaking(behave: Behave) -> Serve:
    """A node that takes the websocket and then behaves so."""

    async def serve(nursery: trio.Nursery, stream: trio.abc.Stream) -> None:
        request = await trio_websocket.wrap_server_stream(nursery, stream)
        assert request.path == f"/ws/{KEY}?token={KEY}"
        socket = await request.accept()
        asked = json.loads(await socket.get_message())
        assert (asked["method"], asked["params"]) == ("eth_subscribe", ["newHeads"])
        await behave(socket)

    return serve


class Late(trio.abc.Stream):
    """A stream whose other side is `LATE_S` away."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = await self._stream.receive_some(max_bytes)
        await trio.sleep(LATE_S)
        return data

    async def aclose(self) -> None:
        await self._stream.aclose()


def raw(data: bytes) -> Serve:
    """A node that says this to anything, and leaves."""

    async def serve(_: trio.Nursery, stream: trio.abc.Stream) -> None:
        await stream.receive_some()
        await stream.send_all(data)
        await stream.aclose()

    return serve


async def followed(serve: Serve, url: str = URL) -> tuple[str, list[int]]:
    """Why it ended, and the heads until then."""
    heads: list[int] = []
    async with trio.open_nursery() as nursery:

        async def dial(_address: str, _port: int) -> trio.abc.Stream:
            await trio.lowlevel.checkpoint()
            ours, theirs = memory_stream_pair()
            nursery.start_soon(serve, nursery, theirs)
            return ours

        reason = await follow_heads(url, heads.append, resolve=found, dial=dial)
        nursery.cancel_scope.cancel()
    return reason, heads


async def found(_host: str) -> list[str]:
    await trio.lowlevel.checkpoint()
    return ["192.0.2.1"]


async def test_each_new_head_is_passed_on_until_the_node_closes() -> None:
    async def behave(socket: Socket) -> None:
        for message in (news("0xf"), DONE, news("0x10"), news("0x11"), news("0x11")):
            await socket.send_message(message)
        await socket.aclose()

    assert await followed(speaking(behave)) == ("it was cut off", [16, 17, 17])


async def test_a_quiet_node_that_answers_pings_is_listened_to_for_as_long_as_it_wants() -> None:
    async def behave(socket: Socket) -> None:
        await socket.send_message(DONE)
        await trio.sleep(10.5 * PING_S)
        await socket.send_message(news("0x10"))
        await socket.aclose()

    assert await followed(speaking(behave)) == ("it was cut off", [16])


async def test_a_node_that_answers_no_ping_is_left() -> None:
    async def serve(nursery: trio.Nursery, stream: trio.abc.Stream) -> None:
        async with trio.open_nursery() as reading:

            async def behave(socket: Socket) -> None:
                await socket.send_message(DONE)
                reading.cancel_scope.cancel()

            await speaking(behave)(reading, stream)
        await trio.sleep_forever()

    begun_s = trio.current_time()

    assert await followed(serve) == (f"no answer to a ping within {PONG_S:g} s", [])
    assert trio.current_time() - begun_s == PING_S + PONG_S


async def test_many_heads_at_once_do_not_hide_a_pong() -> None:
    async def behave(socket: Socket) -> None:
        await socket.send_message(DONE)
        await trio.sleep(PING_S + LATE_S / 2)
        for number in range(100):
            await socket.send_message(news(hex(number)))
        await trio.sleep(1.5 * PONG_S)
        await socket.aclose()

    async def serve(nursery: trio.Nursery, stream: trio.abc.Stream) -> None:
        await speaking(behave)(nursery, Late(stream))

    assert await followed(serve) == ("it was cut off", list(range(100)))


@pytest.mark.parametrize("said", ["{", "7", news(17), news("latest"), news("0x"), '{"id":2}', "[" * 99_999])
async def test_what_is_no_head_ends_it(said: str) -> None:
    async def behave(socket: Socket) -> None:
        await socket.send_message(DONE)
        await socket.send_message(said)
        await trio.sleep_forever()

    assert await followed(speaking(behave)) == ("what came is no head", [])


async def test_a_message_that_is_too_long_ends_it() -> None:
    async def behave(socket: Socket) -> None:
        await socket.send_message(DONE)
        await socket.send_message(news("0x1" + "0" * 300_000))
        await trio.sleep_forever()

    assert await followed(speaking(behave)) == ("it was cut off", [])


async def test_a_node_without_subscriptions_is_left() -> None:
    async def behave(socket: Socket) -> None:
        await socket.send_message('{"id":1,"error":{"code":-32601,"message":"no subscriptions"}}')
        await trio.sleep_forever()

    assert await followed(speaking(behave)) == ("it does not tell new heads", [])


async def test_a_node_that_says_nothing_is_left_after_a_while() -> None:
    async def silent(_: trio.Nursery, _stream: trio.abc.Stream) -> None:
        await trio.sleep_forever()

    begun_s = trio.current_time()

    assert await followed(silent) == (f"no answer within {CONNECT_S:g} s", [])
    assert trio.current_time() - begun_s == CONNECT_S


async def test_an_answer_that_is_no_websocket_ends_it() -> None:
    refused = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n"

    assert await followed(raw(refused)) == ("HTTP 401", [])
    assert await followed(raw(b"nonsense\r\n\r\n")) == ("it was cut off", [])


async def test_without_a_connection_it_says_why_and_shows_no_key() -> None:
    async def refuse(_address: str, _port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        raise ConnectionRefusedError(111, "Connection refused")

    async def unknown(_host: str) -> list[str]:
        await trio.lowlevel.checkpoint()
        raise DnsFailed("gone")

    heads: list[int] = []
    refused = await follow_heads(URL, heads.append, resolve=found, dial=refuse)
    gone = await follow_heads(URL, heads.append, resolve=unknown, dial=refuse)

    assert (refused, gone) == ("Connection refused", "there is no host node.test")
    assert heads == []


async def test_whoever_stops_listening_leaves_no_connection_behind() -> None:
    left = trio.Event()

    async def behave(socket: Socket) -> None:
        await socket.send_message(DONE)
        with pytest.raises(trio_websocket.ConnectionClosed):
            await socket.get_message()
        left.set()

    async with trio.open_nursery() as nursery:

        async def dial(_address: str, _port: int) -> trio.abc.Stream:
            await trio.lowlevel.checkpoint()
            ours, theirs = memory_stream_pair()
            nursery.start_soon(speaking(behave), nursery, theirs)
            return ours

        with trio.move_on_after(1) as patience:
            await follow_heads(URL, lambda _: None, resolve=found, dial=dial)
        with trio.fail_after(1):
            await left.wait()

    assert patience.cancelled_caught


async def test_a_wss_url_is_tls() -> None:
    async def serve(_: trio.Nursery, stream: trio.abc.Stream) -> None:
        assert (await stream.receive_some())[:1] == b"\x16"
        await stream.aclose()

    assert (await followed(serve, "wss://node.test/"))[0] == (
        "no TLS connection: UNEXPECTED_EOF_WHILE_READING"
    )


async def test_a_url_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(InvalidParams):
        await follow_heads("ftp://node.test/", lambda _: None)
