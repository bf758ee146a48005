"""Many pages at once: websockets that follow payments as browsers do, in a process of their own.

Reads a `Crowd` as JSON from a line of standard input. Says `open` when all have their snapshot; then, each
time all who follow one payment have had one more frame, at which instants it came to each, on the clock that
all processes share. Answers pings meanwhile; another line is another crowd, and the end of the input the end.
"""

from __future__ import annotations

import resource
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import Final

import msgspec

RECEIVE_BYTES: Final = 4096
# Handshakes under way at once: more would measure the backlog.
OPENING_MAX: Final = 64
SILENCE_MAX_S: Final = 60.0
CLOSE: Final = 0x88
PING: Final = 0x89
PONG: Final = b"\x8a\x80\x00\x00\x00\x00"
BYE: Final = b"\x88\x82\x00\x00\x00\x00\x03\xe8"
SIZE_IN_16_BITS: Final = 126
# What Chromium asks with: what a server keeps of it, it keeps of every page.
UPGRADE: Final = """\
GET {path} HTTP/1.1\r
Host: 127.0.0.1:{port}\r
Connection: Upgrade\r
Pragma: no-cache\r
Cache-Control: no-cache\r
User-Agent: Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Mobile Safari/537.36\r
Upgrade: websocket\r
Origin: http://127.0.0.1:{port}\r
Sec-WebSocket-Version: 13\r
Accept-Encoding: gzip, deflate, br, zstd\r
Accept-Language: en-US,en;q=0.9,de;q=0.8\r
Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r
Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r
\r
"""  # noqa: E501  # a line is a header


class Crowd(msgspec.Struct):
    """How many readers of what: so many of each path."""

    port: int
    paths: list[str]
    readers: int


class Arrivals(msgspec.Struct):
    """`time.monotonic()` of one frame at each reader of the path with this number, in order."""

    path: int
    at_s: list[float]


class _Page:
    __slots__ = ("accepted", "buffer", "path", "socket")

    def __init__(self, port: int, path: int, request: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.path = path
        self.accepted = False
        self.buffer = b""
        self.socket.sendall(request)

    def accept(self) -> None:
        """Take the handshake's answer, if it is whole; frames before it are none."""
        head, end, rest = self.buffer.partition(b"\r\n\r\n")
        if end:
            assert b" 101 " in head, head
            self.accepted, self.buffer = True, rest

    def frames(self) -> Iterator[int]:
        """The first bytes of the frames that came whole; the rest stays."""
        while self.accepted and len(self.buffer) > 1:
            size, head = self.buffer[1], 2
            if size == SIZE_IN_16_BITS:
                size, head = int.from_bytes(self.buffer[2:4], "big"), 4
            if len(self.buffer) < head + size:
                return
            first, self.buffer = self.buffer[0], self.buffer[head + size :]
            yield first


class Readers:
    """One crowd after the other."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._pages: dict[int, _Page] = {}
        self._readers = 0
        self._came: list[list[float]] = []

    def run(self) -> None:
        """Gather the crowd that is asked for, and say what comes to it; until the input ends."""
        self._poll.register(sys.stdin.fileno(), select.EPOLLIN)
        while True:
            for number in self._ready():
                if number in self._pages:
                    self._receive(self._pages[number])
                elif number == sys.stdin.fileno():
                    line = sys.stdin.buffer.readline()
                    if not line:
                        return
                    self._gather(msgspec.json.decode(line, type=Crowd))
                    say(b"open")

    def _gather(self, crowd: Crowd) -> None:
        """Open all, a few at a time, in place of the last crowd; each is open with its snapshot."""
        for page in tuple(self._pages.values()):
            self._drop(page)
        self._readers, self._came = crowd.readers, [[] for _ in crowd.paths]
        left = deque(path for path in range(len(crowd.paths)) for _ in range(crowd.readers))
        waiting: set[int] = set()
        while left or waiting:
            while left and len(waiting) < OPENING_MAX:
                path = left.popleft()
                page = _Page(
                    crowd.port, path, UPGRADE.format(path=crowd.paths[path], port=crowd.port).encode()
                )
                self._pages[page.socket.fileno()] = page
                self._poll.register(page.socket.fileno(), select.EPOLLIN)
                waiting.add(page.socket.fileno())
            for number in self._ready():
                page = self._pages[number]
                page.buffer += page.socket.recv(RECEIVE_BYTES)
                if not page.accepted:
                    page.accept()
                if self._hear(page):
                    waiting.discard(number)

    def _receive(self, page: _Page) -> None:
        chunk = page.socket.recv(RECEIVE_BYTES)
        at_s = time.monotonic()
        page.buffer += chunk
        if not chunk:
            self._drop(page)
        elif self._hear(page):
            came = self._came[page.path]
            came.append(at_s)
            if len(came) == self._readers:
                say(msgspec.json.encode(Arrivals(page.path, came)))
                self._came[page.path] = []

    def _hear(self, page: _Page) -> bool:
        """Whether a snapshot has come; pings are answered, and a goodbye is returned."""
        heard = False
        for first in page.frames():
            if first == PING:
                page.socket.sendall(PONG)
            elif first == CLOSE:
                page.socket.sendall(BYE)
            else:
                assert not heard, "two snapshots at once: the pushes are too close"
                heard = True
        return heard

    def _drop(self, page: _Page) -> None:
        self._poll.unregister(page.socket.fileno())
        del self._pages[page.socket.fileno()]
        page.socket.close()

    def _ready(self) -> list[int]:
        ready = self._poll.poll(SILENCE_MAX_S)
        assert ready, "the server says nothing any more"
        return [number for number, _ in ready]


def say(line: bytes) -> None:
    """One line to who started this."""
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    """As many files as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    Readers().run()


if __name__ == "__main__":
    main()
