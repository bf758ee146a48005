"""Nodes in memory that speak websocket to what dials them, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import trio
import trio_websocket
from trio.testing import memory_stream_pair

from payd.net.dial import Dial

Connection: TypeAlias = trio_websocket.WebSocketConnection
Behave: TypeAlias = Callable[[Connection], Awaitable[None]]
Serve: TypeAlias = Callable[[trio.Nursery, trio.abc.Stream], Awaitable[None]]

LATE_S: Final = 1.0
# Whatever is shown of a node's URL, this is not.
KEY: Final = "d34db33fd34db33f"
PATH: Final = f"/ws/{KEY}?token={KEY}"
URL: Final = f"ws://node.test{PATH}"


def speaking(behave: Behave) -> Serve:
    """A node that takes the websocket and then behaves so."""

    async def serve(nursery: trio.Nursery, stream: trio.abc.Stream) -> None:
        request = await trio_websocket.wrap_server_stream(nursery, stream)
        assert request.path == PATH
        await behave(await request.accept())

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


async def found(_host: str) -> list[str]:
    await trio.lowlevel.checkpoint()
    return ["192.0.2.1"]


@asynccontextmanager
async def dialing(serve: Serve) -> AsyncIterator[Dial]:
    """Each connection is to a node that serves so."""
    async with trio.open_nursery() as nursery:

        async def dial(_address: str, _port: int) -> trio.abc.Stream:
            await trio.lowlevel.checkpoint()
            ours, theirs = memory_stream_pair()
            nursery.start_soon(serve, nursery, theirs)
            return ours

        yield dial
        nursery.cancel_scope.cancel()
