"""Many pages at once: websockets that follow one payment, in a process of their own.

Reads a `Crowd` as JSON from standard input. Says `open` when all have their snapshot, then, once each has had
one more frame, at which instants the first and the last came, on the clock that all processes share.
"""

from __future__ import annotations

import resource
import select
import socket
import sys
import time
from typing import Final

import msgspec

RECEIVE_BYTES: Final = 4096
# Handshakes under way at once: more would measure the backlog.
OPENING_MAX: Final = 64
SILENCE_MAX_S: Final = 60.0
# The first byte of a whole, unmasked text or binary frame.
FRAMES: Final = (b"\x81", b"\x82")
PING: Final = b"\x89\x00"
PONG: Final = b"\x8a\x80\x00\x00\x00\x00"


class Crowd(msgspec.Struct):
    """How many readers of what."""

    port: int
    path: str
    readers: int


class Arrivals(msgspec.Struct):
    """`time.monotonic()` of the first and the last frame of one push."""

    first_s: float
    last_s: float


class Readers:
    """All the sockets."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._poll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        self._upgrade = (
            f"GET {crowd.path} HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
            "sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        ).encode()

    def open_all(self) -> None:
        """Open all, a few at a time; each is open with its snapshot."""
        waiting: dict[int, bytes] = {}
        started = 0
        while len(self._sockets) < self._crowd.readers or waiting:
            while started < self._crowd.readers and len(waiting) < OPENING_MAX:
                opened = socket.create_connection(("127.0.0.1", self._crowd.port))
                opened.sendall(self._upgrade)
                self._sockets[opened.fileno()] = opened
                self._poll.register(opened.fileno(), select.EPOLLIN)
                waiting[opened.fileno()] = b""
                started += 1
            for number in self._ready():
                said = self._receive(number)
                if number not in waiting:
                    continue  # a ping
                waiting[number] += said
                head, end, frame = waiting[number].partition(b"\r\n\r\n")
                if end:
                    assert b" 101 " in head, head
                    if frame[:1] in FRAMES and len(frame) >= 2 + frame[1]:
                        del waiting[number]

    def hear(self) -> Arrivals:
        """Wait for one push to reach everyone."""
        waiting = set(self._sockets)
        first_s = last_s = 0.0
        while waiting:
            for number in self._ready():
                if self._receive(number)[:1] in FRAMES:
                    waiting.discard(number)
                    last_s = time.monotonic()
                    first_s = first_s or last_s
        return Arrivals(first_s, last_s)

    def _ready(self) -> list[int]:
        ready = self._poll.poll(SILENCE_MAX_S)
        assert ready, "the server says nothing any more"
        return [number for number, _ in ready]

    def _receive(self, number: int) -> bytes:
        """What has come; pings are answered and left out."""
        chunk = self._sockets[number].recv(RECEIVE_BYTES)
        assert chunk, "the server ended a feed"
        while chunk.startswith(PING):
            self._sockets[number].sendall(PONG)
            chunk = chunk[len(PING) :]
        return chunk


def main() -> None:
    """One crowd, one push."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    readers = Readers(msgspec.json.decode(sys.stdin.buffer.readline(), type=Crowd))
    readers.open_all()
    print("open", flush=True)
    print(msgspec.json.encode(readers.hear()).decode(), flush=True)
    sys.stdin.buffer.readline()


if __name__ == "__main__":
    main()
