"""Heads are passed on while a node tells them; what else may come over the websocket ends it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from payd.chains.heads import follow_heads
from payd.chains.socket import CONNECT_S
from payd.core.errors import InvalidParams
from tests.chains.socket_node import URL, Behave, Connection, Serve, dialing, found, speaking

DONE = '{"jsonrpc":"2.0","id":1,"result":"0xcd0c3e8af590364c09d0fa6a1210faf5"}'


def news(number: Any) -> str:
    params = {"subscription": "0xcd0c", "result": {"number": number, "hash": "0xab"}}
    return json.dumps({"jsonrpc": "2.0", "method": "eth_subscription", "params": params})


def asked_for_heads(behave: Behave) -> Serve:
    """A node that is asked for heads and then behaves so."""

    async def greet(socket: Connection) -> None:
        asked = json.loads(await socket.get_message())
        assert (asked["method"], asked["params"]) == ("eth_subscribe", ["newHeads"])
        await behave(socket)

    return speaking(greet)


async def followed(behave: Behave) -> tuple[str, list[int]]:
    """Why it ended, and the heads until then."""
    heads: list[int] = []
    async with dialing(asked_for_heads(behave)) as dial:
        return await follow_heads(URL, heads.append, resolve=found, dial=dial), heads


async def test_each_new_head_is_passed_on_until_the_node_closes() -> None:
    async def behave(socket: Connection) -> None:
        for message in (news("0xf"), DONE, news("0x10"), news("0x11"), news("0x11")):
            await socket.send_message(message)
        await socket.aclose()

    assert await followed(behave) == ("it was cut off", [16, 17, 17])


@pytest.mark.parametrize("said", ["{", "7", news(17), news("latest"), news("0x"), '{"id":2}', "[" * 99_999])
async def test_what_is_no_head_ends_it(said: str) -> None:
    async def behave(socket: Connection) -> None:
        await socket.send_message(DONE)
        await socket.send_message(said)
        await trio.sleep_forever()

    assert await followed(behave) == ("what came is no head", [])


async def test_a_node_without_subscriptions_is_left() -> None:
    async def behave(socket: Connection) -> None:
        await socket.send_message('{"id":1,"error":{"code":-32601,"message":"no subscriptions"}}')
        await trio.sleep_forever()

    assert await followed(behave) == ("it does not tell new heads", [])


async def test_a_node_that_does_not_answer_is_left_after_a_while() -> None:
    async def behave(_: Connection) -> None:
        await trio.sleep_forever()

    begun_s = trio.current_time()

    assert await followed(behave) == (f"no answer within {CONNECT_S:g} s", [])
    assert trio.current_time() - begun_s == CONNECT_S


async def test_a_url_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(InvalidParams):
        await follow_heads("ftp://node.test/", lambda _: None)
