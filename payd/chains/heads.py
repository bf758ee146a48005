"""New blocks told over a websocket the moment a node has them: hints to look, never what is believed.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import h11
import msgspec
import trio
import trio_websocket
from wsproto.utilities import ProtocolError

from payd.chains.evm.dialect import read_number
from payd.chains.rpc_wire import Redactor
from payd.net.connection import Failed, start_tls
from payd.net.dial import Dial, connect_any, dial_from, reason_of
from payd.net.dns import DnsFailed, Resolve, Resolver
from payd.net.http import Target, tls_context

OnHead: TypeAlias = Callable[[int], None]
"""Told the number of each new block. After a reorg a number comes again, or a lower one."""

# Name, TCP, TLS, upgrade and subscription together.
CONNECT_S: Final = 10.0
# A node that is silent for so long is asked whether it is there; most chains have a block within it.
PING_S: Final = 30.0
PONG_S: Final = 10.0
# A head has no transactions in it.
MESSAGE_BYTES_MAX: Final = 256 * 1024
# What comes while a ping is out: a pong behind more than that would not be seen.
MESSAGES_MAX: Final = 256

_CUT_OFF: Final = "it was cut off"
_SUBSCRIBE: Final = '{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}'


class _Ended(Exception):
    """The connection is of no more use; the message says why."""


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
    target = _target(ws_url)
    deadline_s = trio.current_time() + CONNECT_S
    reason = _CUT_OFF
    try:
        async with (
            _dialed(target, deadline_s, resolve or Resolver(), dial or dial_from()) as stream,
            trio.open_nursery() as nursery,
        ):
            reason = await _follow(nursery, stream, target, deadline_s, on_head)
            nursery.cancel_scope.cancel()
    except* _Ended as group:
        reason = str(group.exceptions[0])
    except* trio_websocket.ConnectionRejected as group:
        rejected = [one for one in group.exceptions if isinstance(one, trio_websocket.ConnectionRejected)]
        reason = f"HTTP {rejected[0].status_code}"
    except* (trio_websocket.HandshakeError, ProtocolError, h11.ProtocolError):
        reason = _CUT_OFF
    return Redactor(ws_url)(reason)


def _target(ws_url: str) -> Target:
    scheme, colon, rest = ws_url.partition(":")
    return Target.of({"ws": "http", "wss": "https"}.get(scheme.lower(), scheme) + colon + rest)


@asynccontextmanager
async def _dialed(
    target: Target, deadline_s: float, resolve: Resolve, dial: Dial
) -> AsyncIterator[trio.abc.Stream]:
    """A connection, verified where it is TLS; closed at the end, whoever closed the websocket."""
    stream: trio.abc.Stream | None = None
    try:
        with trio.CancelScope(deadline=deadline_s):
            stream, _ = await connect_any(await resolve(target.host), target.port, dial)
            if target.scheme == "https":
                stream = await start_tls(stream, tls_context(), target.host)
    except DnsFailed as error:
        raise _Ended(f"there is no host {target.host}") from error
    except Failed as failed:
        raise _Ended(failed.detail) from failed
    except OSError as error:
        raise _Ended(reason_of(error)) from error
    if stream is None:
        raise _Ended(f"no connection within {CONNECT_S:g} s")
    try:
        yield stream
    finally:
        await trio.aclose_forcefully(stream)


async def _follow(
    nursery: trio.Nursery, stream: trio.abc.Stream, target: Target, deadline_s: float, on_head: OnHead
) -> str:
    """Why there is nothing more to hear."""
    try:
        socket = await _subscribed(nursery, stream, target, deadline_s)
        while True:
            on_head(_number(await _next(socket)))
    except _Ended as ended:
        return str(ended)
    except trio_websocket.ConnectionClosed:
        return _CUT_OFF


async def _subscribed(
    nursery: trio.Nursery, stream: trio.abc.Stream, target: Target, deadline_s: float
) -> trio_websocket.WebSocketConnection:
    with trio.CancelScope(deadline=deadline_s):
        socket = await trio_websocket.wrap_client_stream(
            nursery,
            stream,  # type: ignore[arg-type]  # any stream does
            target.authority,
            target.path,
            message_queue_size=MESSAGES_MAX,
            max_message_size=MESSAGE_BYTES_MAX,
        )
        await socket.send_message(_SUBSCRIBE)
        while (message := _decoded(await socket.get_message())).id is None:
            pass
        if message.error is not None:
            raise _Ended("it does not tell new heads")
        return socket
    raise _Ended(f"no answer within {CONNECT_S:g} s")


async def _next(socket: trio_websocket.WebSocketConnection) -> _Message:
    """The next message; a node that says nothing for long is asked whether it is there."""
    while True:
        with trio.move_on_after(PING_S):
            return _decoded(await socket.get_message())
        with trio.move_on_after(PONG_S) as patience:
            await socket.ping()
        if patience.cancelled_caught:
            raise _Ended(f"no answer to a ping within {PONG_S:g} s")


def _decoded(text: str | bytes) -> _Message:
    try:
        return msgspec.json.decode(text, type=_Message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _Ended("what came is no head") from error


def _number(message: _Message) -> int:
    number = None if message.params is None else read_number(message.params.result.number)
    if number is None:
        raise _Ended("what came is no head")
    return number
