"""The least that follows and tells: bare Trio, a task for each socket, one frame written to each in a loop.

No HTTP but what this bench sends, no payments, no disk, no pings, no limits; a reader that is slow loses its
frame. What payd takes longer than this is payd's; the rest is Python's and the machine's.
"""

from __future__ import annotations

import gc
import os
import resource
from functools import partial
from typing import Final

import trio

from payd.actors.feed import text_frame
from payd.server import GC_THRESHOLDS
from payd.web.front import BACKLOG
from tests.bench.readers import BYE

RECEIVE_BYTES: Final = 4096
SNAPSHOT: Final = text_frame(
    b'{"version":1,"status":"processing","isFinal":false,"pollInMs":1000,"expiresAt":1800000900,'
    b'"serverTime":1800000000000,"info":null}'
)
GOODBYE: Final = b"\x88\x02\x03\xe8"
SWITCHING: Final = (
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
    b"sec-websocket-accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n\r\n"
)
ANSWER: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"

Sockets = dict[str, set[int]]


async def serve(sockets: Sockets, stream: trio.SocketStream) -> None:
    """One connection: a page that follows until it leaves, or requests one by one."""
    async with stream:
        while request := bytes(await stream.receive_some(RECEIVE_BYTES)):
            path = request.split(b" ", 2)[1].decode()
            if path.endswith("/feed"):
                return await follow(sockets, stream, path.split("/")[3])
            if path.endswith("/simulate"):
                push(sockets, path.split("/")[4], SNAPSHOT + GOODBYE * (b"succeeded" in request))
            await stream.send_all(ANSWER)


async def follow(sockets: Sockets, stream: trio.SocketStream, topic: str) -> None:
    """One page."""
    number = stream.socket.fileno()
    followers = sockets.setdefault(topic, set())
    followers.add(number)
    try:
        await stream.send_all(SWITCHING + SNAPSHOT)
        while (said := await stream.receive_some(RECEIVE_BYTES)) and said != BYE:
            pass
    finally:
        followers.discard(number)


def push(sockets: Sockets, topic: str, frame: bytes) -> None:
    """To all who follow."""
    for number in sockets.get(topic, ()):
        os.write(number, frame)


async def main() -> None:
    """Serve on a port of the system's choice, and say which."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=BACKLOG)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    print(f"fanout serves http://127.0.0.1:{listeners[0].socket.getsockname()[1]}", flush=True)
    await trio.serve_listeners(partial(serve, {}), listeners)


if __name__ == "__main__":
    trio.run(main)
