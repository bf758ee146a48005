"""Where webhooks go: receivers in one lean process, which say what arrived and when.

One thread, epoll, TLS, a port for each receiver. A receiver answers 200, or reads and never answers. Reads an
`Expect` a line from standard input and writes `Arrivals` to standard output once all of it has come.
"""

from __future__ import annotations

import os
import resource
import select
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import msgspec
import trio

from tests.bench.load import ROOT
from tests.receiver import TLS_FOLDER, server_tls

CA_FILE: Final = TLS_FOLDER / "ca.pem"
ANSWER: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok"
RECEIVE_BYTES: Final = 65_536
ID_HEADER: Final = b"webhook-id: "
# Long past anything that is still measured.
PATIENCE_S: Final = 120.0


class Receivers(msgspec.Struct):
    """How many there are of each kind; `core` is the one that the process keeps to, if any."""

    answering: int
    hanging: int = 0
    core: int | None = None


class Expect(msgspec.Struct):
    """What to wait for, from now on.

    Attributes:
        count: Requests to the receivers that answer, or with `of_hanging` to the others.
        seconds: Say what there is after this time at the latest.
        of_hanging: See `count`.
    """

    count: int
    seconds: float | None = None
    of_hanging: bool = False


class Arrivals(msgspec.Struct):
    """What came to the receivers that were asked about.

    Attributes:
        ids: The `webhook-id` of each request.
        at_s: Unix seconds of its first byte.
        bytes: Of all these requests.
        busy: Share of a core that the sink used from the first arrival to the last.
    """

    ids: list[str]
    at_s: list[float]
    bytes: int
    busy: float

    def rate(self) -> float:
        """Arrivals a second, from the first tenth on: connections are open by then."""
        first = len(self.at_s) // 10
        return (len(self.at_s) - 1 - first) / (self.at_s[-1] - self.at_s[first])


class _Connection:
    __slots__ = ("answers", "buffer", "open", "socket", "started_s")

    def __init__(self, tls: ssl.SSLSocket, *, answers: bool) -> None:
        self.socket = tls
        self.answers = answers
        self.open = False
        self.buffer = b""
        self.started_s = 0.0

    def receive(self) -> bool | None:
        """Take what there is. True: a whole request; False: nothing more for now; None: it is over."""
        try:
            if not self.open:
                self.socket.do_handshake()
                self.open = True
            while not _is_whole(self.buffer):
                chunk = self.socket.recv(RECEIVE_BYTES)
                if not chunk:
                    return None
                self.started_s = self.started_s if self.buffer else time.time()
                self.buffer += chunk
            return True
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError:
            return None


class Sink:
    """All receivers and their connections."""

    def __init__(self, receivers: Receivers) -> None:
        self._tls = server_tls()
        self._poll = select.epoll()
        self._listeners: dict[int, tuple[socket.socket, bool]] = {}
        for number in range(receivers.answering + receivers.hanging):
            listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
            self._listeners[listener.fileno()] = (listener, number < receivers.answering)
            self._poll.register(listener.fileno(), select.EPOLLIN)
        self._open: dict[int, _Connection] = {}
        self._expected: Expect | None = None
        self._ends_at_s = 0.0
        self._heard: dict[bool, list[tuple[str, float, int]]] = {}
        self._cpu_s = 0.0

    @property
    def ports(self) -> list[int]:
        """Of the receivers, those that answer first."""
        return [listener.getsockname()[1] for listener, _ in self._listeners.values()]

    def run(self) -> None:
        """Serve until standard input ends."""
        talk = sys.stdin.fileno()
        os.set_blocking(talk, False)
        self._poll.register(talk, select.EPOLLIN)
        while True:
            for number, _ in self._poll.poll(0.05):
                if number == talk:
                    if not (line := sys.stdin.buffer.readline()):
                        return
                    self._expect(msgspec.json.decode(line, type=Expect))
                elif number in self._listeners:
                    self._accept(*self._listeners[number])
                elif number in self._open:
                    self._serve(number)
            self._say_if_all_came()

    def _expect(self, expected: Expect) -> None:
        self._expected = expected
        self._ends_at_s = time.monotonic() + (expected.seconds or PATIENCE_S)
        self._heard = {True: [], False: []}

    def _accept(self, listener: socket.socket, answers: bool) -> None:
        plain, _ = listener.accept()
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setblocking(False)
        tls = self._tls.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        self._open[tls.fileno()] = _Connection(tls, answers=answers)
        self._poll.register(tls.fileno(), select.EPOLLIN)

    def _serve(self, number: int) -> None:
        connection = self._open[number]
        whole = connection.receive()
        if whole is None:
            self._poll.unregister(number)
            self._open.pop(number).socket.close()
        elif whole:
            self._note(connection)
            connection.buffer = b""
            if connection.answers:
                connection.socket.sendall(ANSWER)

    def _note(self, connection: _Connection) -> None:
        if self._expected is None:
            return
        if not any(self._heard.values()):
            self._cpu_s = time.process_time()
        start = connection.buffer.index(ID_HEADER) + len(ID_HEADER)
        message_id = connection.buffer[start : connection.buffer.index(b"\r", start)].decode()
        heard = (message_id, connection.started_s, len(connection.buffer))
        self._heard[connection.answers].append(heard)

    def _say_if_all_came(self) -> None:
        expected = self._expected
        if expected is None:
            return
        heard = self._heard[not expected.of_hanging]
        if len(heard) < expected.count and time.monotonic() < self._ends_at_s:
            return
        self._expected = None
        took_s = heard[-1][1] - heard[0][1] if heard else 0.0
        busy = (time.process_time() - self._cpu_s) / took_s if took_s else 0.0
        ids, at_s, sizes = zip(*heard, strict=True) if heard else ((), (), ())
        said = Arrivals(list(ids), list(at_s), sum(sizes), busy)
        sys.stdout.buffer.write(msgspec.json.encode(said) + b"\n")
        sys.stdout.buffer.flush()


def _is_whole(buffer: bytes) -> bool:
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return False
    place = buffer.find(b"content-length: ", 0, end)
    return len(buffer) >= end + 4 + int(buffer[place + 16 : buffer.index(b"\r", place)])


@dataclass
class OpenSink:
    """The process, from outside."""

    talk: trio.abc.SendStream
    said: trio.abc.ReceiveStream
    receivers: Receivers
    urls: list[str]

    @property
    def answering(self) -> list[str]:
        """Where an answer comes from."""
        return self.urls[: self.receivers.answering]

    @property
    def hanging(self) -> list[str]:
        """Where none does."""
        return self.urls[self.receivers.answering :]

    async def expect(self, expected: Expect) -> None:
        """Count from now on."""
        await self.talk.send_all(msgspec.json.encode(expected) + b"\n")

    async def arrived(self) -> Arrivals:
        """What came of what was expected; all of it, unless less was asked for."""
        return msgspec.json.decode(await read_line(self.said), type=Arrivals)


@asynccontextmanager
async def open_sink(receivers: Receivers) -> AsyncIterator[OpenSink]:
    """A sink process as long as the block runs."""
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "tests.bench.sink", msgspec.json.encode(receivers).decode()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    async with process.stdin as talk, process.stdout as said:
        try:
            ports = msgspec.json.decode(await read_line(said), type=list[int])
            urls = [f"https://127.0.0.1:{port}/hook" for port in ports]
            yield OpenSink(talk, said, receivers, urls)
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()


async def read_line(said: trio.abc.ReceiveStream) -> bytes:
    """The one line that is said next; nothing follows it until somebody answers."""
    chunks: list[bytes] = []
    while not (chunks and chunks[-1].endswith(b"\n")):
        more = await said.receive_some()
        assert more, f"the process ended after {b''.join(chunks)!r}"
        chunks.append(bytes(more))
    return b"".join(chunks)


def keep_to(cores: Iterable[int]) -> None:
    """Let this process and the threads it will start run on these cores alone."""
    os.sched_setaffinity(0, cores)


def main() -> None:
    """Serve until nobody listens."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    receivers = msgspec.json.decode(sys.argv[1], type=Receivers)
    if receivers.core is not None:
        keep_to([receivers.core])
    sink = Sink(receivers)
    print(msgspec.json.encode(sink.ports).decode(), flush=True)
    sink.run()


if __name__ == "__main__":
    main()
