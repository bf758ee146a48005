"""The load: a lean HTTP/1.1 generator in a process of its own, so that what is measured is the server.

One thread, epoll, prepared bytes. Reads a `Job` as JSON from standard input and writes a `Report` to standard
output.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Final

import msgspec
import trio

ROOT: Final = Path(__file__).parents[2]
RECEIVE_BYTES: Final = 65_536
# Nothing that is measured takes as long; a server that hangs ends the run.
SILENCE_MAX_S: Final = 20.0


class Job(msgspec.Struct):
    """What to send.

    Attributes:
        port: On 127.0.0.1.
        connections: Kept alive, one request at a time on each.
        requests: Prepared bytes, in turn; without `seconds` each is sent once, else again and again.
        seconds: How long is counted.
        warm_s: How long before that is not.
        keep: Whether the bodies of the answers are wanted, in the order of the requests.
    """

    port: int
    connections: int
    requests: list[bytes]
    seconds: float | None = None
    warm_s: float = 0.0
    keep: bool = False


class Report(msgspec.Struct):
    """What came back.

    Attributes:
        answers: Counted ones.
        all_answers: With those of the time before.
        seconds: In which they came.
        p50_ms: Median from a request to its answer.
        p99_ms: What one in a hundred exceeds.
        refused: Answers that were no 2xx.
        reopened: Connections that the server ended between requests.
        busy: Share of a core that the generator itself used.
        bodies: If they were wanted.
    """

    answers: int
    all_answers: int
    seconds: float
    p50_ms: float
    p99_ms: float
    refused: int
    reopened: int
    busy: float
    bodies: list[bytes] = []

    @property
    def rate(self) -> float:
        """Answers a second."""
        return self.answers / self.seconds


class _Connection:
    __slots__ = ("buffer", "number", "request", "sent_s", "socket")

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.request = b""
        self.number = 0
        self.sent_s = 0.0

    def send(self, number: int, request: bytes) -> None:
        self.number, self.request, self.sent_s = number, request, time.perf_counter()
        self.socket.sendall(request)


class Generator:
    """Runs one job."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._poll = select.epoll()
        self._open: dict[int, _Connection] = {}
        self._next: Iterator[tuple[int, bytes]] = enumerate(
            cycle(job.requests) if job.seconds is not None else job.requests
        )
        self._latencies_s: list[float] = []
        self._bodies: dict[int, bytes] = {}
        self._answers = self._refused = self._reopened = 0

    def run(self) -> Report:
        """Send, count, report."""
        for _ in range(min(self._job.connections, len(self._job.requests))):
            self._connect()
        begun_s = time.perf_counter()
        counted_from_s = begun_s + self._job.warm_s
        ends_at_s = None if self._job.seconds is None else counted_from_s + self._job.seconds
        cpu_s = time.process_time()
        for connection in list(self._open.values()):
            self._send_next(connection)
        last_s = begun_s
        while self._open and (ends_at_s is None or last_s < ends_at_s):
            for number, _ in self._ready():
                last_s = self._receive(self._open[number], counted_from_s)
        cpu_s = time.process_time() - cpu_s
        took_s = last_s - counted_from_s
        self._latencies_s.sort()
        for connection in self._open.values():
            connection.socket.close()
        return Report(
            answers=len(self._latencies_s),
            all_answers=self._answers,
            seconds=took_s,
            p50_ms=1000 * self._quantile(0.50),
            p99_ms=1000 * self._quantile(0.99),
            refused=self._refused,
            reopened=self._reopened,
            busy=cpu_s / (last_s - begun_s),
            bodies=[self._bodies[number] for number in sorted(self._bodies)],
        )

    def _quantile(self, share: float) -> float:
        return self._latencies_s[min(len(self._latencies_s) - 1, int(share * len(self._latencies_s)))]

    def _ready(self) -> list[tuple[int, int]]:
        ready = self._poll.poll(SILENCE_MAX_S)
        assert ready, "the server says nothing any more"
        return ready

    def _connect(self) -> _Connection:
        connection = _Connection(self._job.port)
        self._open[connection.socket.fileno()] = connection
        self._poll.register(connection.socket.fileno(), select.EPOLLIN)
        return connection

    def _drop(self, connection: _Connection) -> None:
        number = connection.socket.fileno()
        self._poll.unregister(number)
        del self._open[number]
        connection.socket.close()

    def _send_next(self, connection: _Connection) -> None:
        following = next(self._next, None)
        if following is None:
            self._drop(connection)
        else:
            connection.send(*following)

    def _receive(self, connection: _Connection, counted_from_s: float) -> float:
        """Take what has come; on a whole answer count it and send the next. Returns the time."""
        try:
            chunk = connection.socket.recv(RECEIVE_BYTES)
        except ConnectionResetError:
            chunk = b""
        now_s = time.perf_counter()
        if not chunk:
            assert not connection.buffer, "the server cut an answer off"
            self._reopened += 1
            self._drop(connection)
            self._connect().send(connection.number, connection.request)
            return now_s
        buffer = connection.buffer = connection.buffer + chunk
        end = buffer.find(b"\r\n\r\n")
        if end < 0 or len(buffer) < (whole := end + 4 + _length(buffer[:end])):
            return now_s
        connection.buffer = b""
        self._answers += 1
        if now_s >= counted_from_s:
            self._latencies_s.append(now_s - connection.sent_s)
            if buffer[9:10] != b"2":
                self._refused += 1
        if self._job.keep:
            self._bodies[connection.number] = buffer[end + 4 : whole]
        self._send_next(connection)
        return now_s


def _length(head: bytes) -> int:
    place = head.lower().find(b"content-length:")
    return 0 if place < 0 else int(head[place + 15 :].split(b"\r", 1)[0])


async def send_load(job: Job) -> Report:
    """Run a job in a process of its own."""
    done = await trio.run_process(
        [sys.executable, "-m", "tests.bench.load"],
        stdin=msgspec.json.encode(job),
        capture_stdout=True,
        stderr=None,
        cwd=ROOT,
    )
    return msgspec.json.decode(done.stdout, type=Report)


if __name__ == "__main__":
    report = Generator(msgspec.json.decode(sys.stdin.buffer.read(), type=Job)).run()
    sys.stdout.buffer.write(msgspec.json.encode(report))
