"""One websocket to a node: dialed, kept awake, and ended with words that show no key.

What is told over it are hints to look, never what is believed.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import h11
import trio
import trio_websocket
from wsproto.utilities import ProtocolError

from payd.chains.rpc_wire import Call, Redactor, encode
from payd.net.connection import Failed, start_tls
from payd.net.dial import Dial, connect_any, dial_from, reason_of
from payd.net.dns import DnsFailed, Resolve, Resolver
from payd.net.http import Target, tls_context

# Name, TCP, TLS, upgrade and the first answer together.
CONNECT_S: Final = 10.0
# A node that is silent for so long is asked whether it is there; most chains have a block within it.
PING_S: Final = 30.0
PONG_S: Final = 10.0
# A head has no transactions in it, and logs are cut at some 10 KiB.
MESSAGE_BYTES_MAX: Final = 256 * 1024
# What comes while a ping is out: a pong behind more than that would not be seen.
MESSAGES_MAX: Final = 256

_CUT_OFF: Final = "it was cut off"
NO_ANSWER: Final = f"no answer within {CONNECT_S:g} s"


class Ended(Exception):
    """The connection is of no more use; the message says why."""


class Socket:
    """An open websocket.

    Attributes:
        deadline_s: By Trio's clock: until when whoever dialed it has patience for a first answer.
    """

    def __init__(self, connection: trio_websocket.WebSocketConnection, deadline_s: float) -> None:
        self._connection = connection
        self.deadline_s = deadline_s

    async def send(self, call: Call, call_id: int) -> None:
        """Send a call; its answer comes among the messages, and names its id."""
        await self._connection.send_message(encode([call], call_id).decode())

    async def next(self) -> str | bytes:
        """The next message; a node that says nothing for long is asked whether it is there.

        Raises:
            Ended: It is not.
        """
        while True:
            with trio.move_on_after(PING_S):
                return await self._connection.get_message()
            with trio.move_on_after(PONG_S) as patience:
                await self._connection.ping()
            if patience.cancelled_caught:
                raise Ended(f"no answer to a ping within {PONG_S:g} s")


Side: TypeAlias = Callable[[Socket], Awaitable[None]]
"""What is done with a websocket; it raises `Ended`, or returns, when that is over."""


async def converse(
    ws_url: str, *sides: Side, resolve: Resolve | None = None, dial: Dial | None = None
) -> str:
    """One connection, from the dialing to its end; whoever wants more starts over, after a while.

    Args:
        ws_url: ws or wss; path and query may hold a key, which is not shown.
        sides: All at once, until the first of them ends.
        resolve: Name to addresses.
        dial: Address to connection.

    Returns:
        Why it ended, or did not come to a websocket.

    Raises:
        InvalidParams: The URL cannot be called.
    """
    target = _target(ws_url)
    deadline_s = trio.current_time() + CONNECT_S
    reasons: list[str] = []
    try:
        async with (
            _dialed(target, deadline_s, resolve or Resolver(), dial or dial_from()) as stream,
            trio.open_nursery() as nursery,
        ):
            socket = await _upgraded(nursery, stream, target, deadline_s)
            for side in sides:
                nursery.start_soon(_until_ended, side, socket, nursery.cancel_scope, reasons)
    except* Ended as group:
        reasons.append(str(group.exceptions[0]))
    except* trio_websocket.ConnectionRejected as group:
        rejected = [one for one in group.exceptions if isinstance(one, trio_websocket.ConnectionRejected)]
        reasons.append(f"HTTP {rejected[0].status_code}")
    except* (
        trio_websocket.HandshakeError,
        trio_websocket.ConnectionClosed,
        ProtocolError,
        h11.ProtocolError,
    ):
        reasons.append(_CUT_OFF)
    return Redactor(ws_url)(reasons[0] if reasons else _CUT_OFF)


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
        raise Ended(f"there is no host {target.host}") from error
    except Failed as failed:
        raise Ended(failed.detail) from failed
    except OSError as error:
        raise Ended(reason_of(error)) from error
    if stream is None:
        raise Ended(f"no connection within {CONNECT_S:g} s")
    try:
        yield stream
    finally:
        await trio.aclose_forcefully(stream)


async def _upgraded(
    nursery: trio.Nursery, stream: trio.abc.Stream, target: Target, deadline_s: float
) -> Socket:
    with trio.CancelScope(deadline=deadline_s):
        connection = await trio_websocket.wrap_client_stream(
            nursery,
            stream,  # type: ignore[arg-type]  # any stream does
            target.authority,
            target.path,
            message_queue_size=MESSAGES_MAX,
            max_message_size=MESSAGE_BYTES_MAX,
        )
        return Socket(connection, deadline_s)
    raise Ended(NO_ANSWER)


async def _until_ended(side: Side, socket: Socket, scope: trio.CancelScope, reasons: list[str]) -> None:
    try:
        await side(socket)
    except Ended as ended:
        reasons.append(str(ended))
    except trio_websocket.ConnectionClosed:
        reasons.append(_CUT_OFF)
    scope.cancel()
