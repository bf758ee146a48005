"""A websocket to a node is open while the node is there; when it is not any more, that is noticed."""

from __future__ import annotations

import json
import re

import pytest
import trio
import trio_websocket

from payd.chains.socket import CONNECT_S, MESSAGE_BYTES_MAX, PING_S, PONG_S, Ended, Socket, converse
from payd.core.errors import InvalidParams
from payd.net.dns import DnsFailed
from tests.chains.socket_node import (
    KEY,
    LATE_S,
    PATH,
    URL,
    Connection,
    Late,
    Serve,
    dialing,
    found,
    raw,
    speaking,
)


async def heard(serve: Serve, url: str = URL) -> tuple[str, list[str | bytes]]:
    """Why it ended, and what was heard until then."""
    messages: list[str | bytes] = []

    async def hear(socket: Socket) -> None:
        while True:
            messages.append(await socket.next())

    async with dialing(serve) as dial:
        return await converse(url, hear, resolve=found, dial=dial), messages


async def test_a_call_is_sent_with_its_id_and_what_comes_is_heard_until_the_node_closes() -> None:
    asked: list[object] = []

    async def behave(connection: Connection) -> None:
        asked.append(json.loads(await connection.get_message()))
        await connection.send_message("one")
        await connection.send_message(b"two")
        await connection.aclose()

    messages: list[str | bytes] = []

    async def ask(socket: Socket) -> None:
        await socket.send(("getSlot", {"commitment": "confirmed"}), 7)
        while True:
            messages.append(await socket.next())

    async with dialing(speaking(behave)) as dial:
        assert await converse(URL, ask, resolve=found, dial=dial) == "it was cut off"

    assert asked == [
        {"jsonrpc": "2.0", "id": 7, "method": "getSlot", "params": [{"commitment": "confirmed"}]}
    ]
    assert messages == ["one", b"two"]


async def test_all_sides_are_at_work_until_the_first_ends() -> None:
    async def behave(_: Connection) -> None:
        await trio.sleep_forever()

    order: list[str] = []

    async def short(_: Socket) -> None:
        await trio.sleep(1)
        order.append("short")
        raise Ended("enough")

    async def long(_: Socket) -> None:
        try:
            await trio.sleep(2)
        finally:
            order.append("long")

    async with dialing(speaking(behave)) as dial:
        assert await converse(URL, long, short, resolve=found, dial=dial) == "enough"

    assert order == ["short", "long"]


async def test_a_side_that_is_done_ends_it() -> None:
    async def behave(_: Connection) -> None:
        await trio.sleep_forever()

    async def done(_: Socket) -> None:
        await trio.lowlevel.checkpoint()

    async with dialing(speaking(behave)) as dial:
        assert await converse(URL, done, resolve=found, dial=dial) == "it was cut off"


async def test_what_crashes_a_side_is_not_hidden() -> None:
    async def behave(_: Connection) -> None:
        await trio.sleep_forever()

    async def crash(_: Socket) -> None:
        raise ZeroDivisionError

    async with dialing(speaking(behave)) as dial:
        with pytest.raises(ExceptionGroup) as caught:
            await converse(URL, crash, resolve=found, dial=dial)

    assert caught.group_contains(ZeroDivisionError)


async def test_the_words_show_no_key_of_the_url() -> None:
    async def behave(_: Connection) -> None:
        await trio.sleep_forever()

    async def end(_: Socket) -> None:
        raise Ended(f"it says: {KEY} is not known")

    async with dialing(speaking(behave)) as dial:
        assert await converse(URL, end, resolve=found, dial=dial) == "it says: [redacted] is not known"


async def test_a_quiet_node_that_answers_pings_is_listened_to_for_as_long_as_it_wants() -> None:
    async def behave(connection: Connection) -> None:
        await trio.sleep(10.5 * PING_S)
        await connection.send_message("there")
        await connection.aclose()

    assert await heard(speaking(behave)) == ("it was cut off", ["there"])


async def test_a_node_that_answers_no_ping_is_left() -> None:
    async def serve(nursery: trio.Nursery, stream: trio.abc.Stream) -> None:
        async with trio.open_nursery() as reading:

            async def behave(_: Connection) -> None:
                reading.cancel_scope.cancel()

            await speaking(behave)(reading, stream)
        await trio.sleep_forever()

    begun_s = trio.current_time()

    assert await heard(serve) == (f"no answer to a ping within {PONG_S:g} s", [])
    assert trio.current_time() - begun_s == PING_S + PONG_S


async def test_many_messages_at_once_do_not_hide_a_pong() -> None:
    async def behave(connection: Connection) -> None:
        await trio.sleep(PING_S + LATE_S / 2)
        for number in range(100):
            await connection.send_message(str(number))
        await trio.sleep(1.5 * PONG_S)
        await connection.aclose()

    async def serve(nursery: trio.Nursery, stream: trio.abc.Stream) -> None:
        await speaking(behave)(nursery, Late(stream))

    assert await heard(serve) == ("it was cut off", [str(number) for number in range(100)])


async def test_a_message_that_is_too_long_ends_it() -> None:
    async def behave(connection: Connection) -> None:
        await connection.send_message("1" * (MESSAGE_BYTES_MAX + 1))
        await trio.sleep_forever()

    assert await heard(speaking(behave)) == ("it was cut off", [])


async def test_a_node_that_says_nothing_is_left_after_a_while() -> None:
    async def silent(_: trio.Nursery, _stream: trio.abc.Stream) -> None:
        await trio.sleep_forever()

    begun_s = trio.current_time()

    assert await heard(silent) == (f"no answer within {CONNECT_S:g} s", [])
    assert trio.current_time() - begun_s == CONNECT_S


async def test_an_answer_that_is_no_websocket_ends_it() -> None:
    refused = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n"

    assert await heard(raw(refused)) == ("HTTP 401", [])
    assert await heard(raw(b"nonsense\r\n\r\n")) == ("it was cut off", [])


async def test_without_a_connection_it_says_why_and_shows_no_key() -> None:
    async def refuse(_address: str, _port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        raise ConnectionRefusedError(111, "Connection refused")

    async def unknown(_host: str) -> list[str]:
        await trio.lowlevel.checkpoint()
        raise DnsFailed("gone")

    async def never(_: Socket) -> None:
        raise AssertionError

    assert await converse(URL, never, resolve=found, dial=refuse) == "Connection refused"
    assert await converse(URL, never, resolve=unknown, dial=refuse) == "there is no host node.test"


async def test_whoever_stops_listening_leaves_no_connection_behind() -> None:
    left = trio.Event()

    async def behave(connection: Connection) -> None:
        with pytest.raises(trio_websocket.ConnectionClosed):
            await connection.get_message()
        left.set()

    async def wait(_: Socket) -> None:
        await trio.sleep_forever()

    async with dialing(speaking(behave)) as dial:
        with trio.move_on_after(1) as patience:
            await converse(URL, wait, resolve=found, dial=dial)
        with trio.fail_after(1):
            await left.wait()

    assert patience.cancelled_caught


async def test_a_wss_url_is_tls() -> None:
    async def serve(_: trio.Nursery, stream: trio.abc.Stream) -> None:
        assert (await stream.receive_some())[:1] == b"\x16"
        await stream.aclose()

    words = (await heard(serve, f"wss://node.test{PATH}"))[0]
    assert re.fullmatch("no TLS connection: .*EOF.*", words)


async def test_a_url_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(InvalidParams):
        await converse("ftp://node.test/")
