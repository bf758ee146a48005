"""New blocks told over a websocket the moment a node has them: hints to look, never what is believed.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec
import trio

from payd.chains.evm.dialect import read_number
from payd.chains.rpc_wire import Call
from payd.chains.socket import NO_ANSWER, Ended, Socket, converse
from payd.net.dial import Dial
from payd.net.dns import Resolve

OnHead: TypeAlias = Callable[[int], None]
"""Told the number of each new block. After a reorg a number comes again, or a lower one."""

_SUBSCRIBE: Final[Call] = ("eth_subscribe", "newHeads")


class _Header(msgspec.Struct):
    number: str


class _News(msgspec.Struct):
    result: _Header


class _Message(msgspec.Struct):
    id: int | None = None
    error: Any = None
    params: _News | None = None


async def follow_heads(
    ws_url: str, on_head: OnHead, *, resolve: Resolve | None = None, dial: Dial | None = None
) -> str:
    """One connection to a node, from the dialing to its end; whoever wants more starts over, after a while.

    Args:
        ws_url: ws or wss; path and query may hold a key, which is not shown.
        on_head: Called for each new block.
        resolve: Name to addresses.
        dial: Address to connection.

    Returns:
        Why it ended, or did not come to a websocket.

    Raises:
        InvalidParams: The URL cannot be called.
    """
    return await converse(ws_url, partial(_follow, on_head), resolve=resolve, dial=dial)


async def _follow(on_head: OnHead, socket: Socket) -> None:
    await _subscribe(socket)
    while True:
        on_head(_number(_decoded(await socket.next())))


async def _subscribe(socket: Socket) -> None:
    with trio.CancelScope(deadline=socket.deadline_s):
        await socket.send(_SUBSCRIBE, 1)
        while (message := _decoded(await socket.next())).id is None:
            pass
        if message.error is not None:
            raise Ended("it does not tell new heads")
        return
    raise Ended(NO_ANSWER)


def _decoded(text: str | bytes) -> _Message:
    try:
        return msgspec.json.decode(text, type=_Message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Ended("what came is no head") from error


def _number(message: _Message) -> int:
    number = None if message.params is None else read_number(message.params.result.number)
    if number is None:
        raise Ended("what came is no head")
    return number
