"""The least that an event loop can do: the same bytes for whatever comes, on Trio or on asyncio with uvloop.

`python -m tests.bench.bare trio` or `… asyncio`. No parsing, no framework: what arrives at once is a request.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import suppress
from functools import partial
from typing import cast

import trio
import uvloop

from tests.bench.fixed import ANSWER, BACKLOG, RECEIVE_BYTES


async def serve_trio(listener: socket.socket) -> None:
    """A task for each connection."""
    own = trio.socket.from_stdlib_socket(listener)
    await trio.serve_listeners(_answer, [trio.SocketListener(own)])


async def _answer(stream: trio.SocketStream) -> None:
    with suppress(trio.BrokenResourceError):  # the generator leaves without a goodbye
        while await stream.receive_some(RECEIVE_BYTES):
            await stream.send_all(ANSWER)


class Answering(asyncio.Protocol):
    """A connection without a task."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Where to write."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Answer."""
        self._transport.write(ANSWER)


async def serve_asyncio(listener: socket.socket) -> None:
    """A protocol for each connection."""
    server = await asyncio.get_running_loop().create_server(Answering, sock=listener)
    await server.serve_forever()


def main() -> None:
    """Serve until killed."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    listener.setblocking(False)
    print(f"bare serves http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    if sys.argv[1] == "trio":
        trio.run(partial(serve_trio, listener))
    else:
        uvloop.run(serve_asyncio(listener))


if __name__ == "__main__":
    main()
