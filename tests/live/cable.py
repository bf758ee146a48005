"""A wire between the server and a node's websocket, which a test cuts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


class Cable:
    """Carries bytes between the server and a port of this machine.

    Attributes:
        url: Of this end.
        connections: How many there were.
        is_broken: Whether every new connection ends at once.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._open: set[trio.CancelScope] = set()
        self.url = ""
        self.connections = 0
        self.is_broken = False

    def cut(self) -> None:
        """End every connection."""
        for scope in self._open:
            scope.cancel()

    async def carry(self, here: trio.SocketStream) -> None:
        """Serve one connection until it ends or is cut."""
        self.connections += 1
        with trio.CancelScope() as scope:
            if self.is_broken:
                scope.cancel()
            self._open.add(scope)
            there = await trio.open_tcp_stream("127.0.0.1", self._port)
            async with there, trio.open_nursery() as nursery:
                nursery.start_soon(_carry_one_way, here, there)
                await _carry_one_way(there, here)
                nursery.cancel_scope.cancel()
        self._open.discard(scope)
        await trio.aclose_forcefully(here)


async def _carry_one_way(source: trio.SocketStream, sink: trio.SocketStream) -> None:
    try:
        async for chunk in source:
            await sink.send_all(chunk)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return


@asynccontextmanager
async def open_cable(port: int) -> AsyncIterator[Cable]:
    """A wire to this port that can be cut."""
    async with trio.open_nursery() as nursery:
        cable = Cable(port)
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        cable.url = f"ws://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        nursery.start_soon(trio.serve_listeners, cable.carry, listeners)
        yield cable
        nursery.cancel_scope.cancel()
