"""The lane: the API's hot paths, answered in the connection's own task.

It takes what everybody reads in one way: HTTP/1.1, printable heads, no name twice, a body with a length.
Everything else is handed on with every byte as it came, to hypercorn and Quart, which answer what both would
take with the same bytes. A connection that was handed on stays there.

Source: DESIGN.md, "2. The stack".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import structlog
import trio
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from payd.clock import http_date
from payd.web.asgi import BODY_S, BROKEN, CLOSES, METHODS, PATHS, is_short, late_body, whole_headers
from payd.web.call import Answer, Answering, Request, Seen, parse_query
from payd.web.client import TrustedProxies, client_ip
from payd.web.driver import Driver
from payd.web.parked import Parked
from payd.web.wire import CHUNK_BYTES, END, HEAD_BYTES_MAX, Wire, send_now

log = structlog.get_logger("payd.lane")

STARTS: Final = tuple(f"{method} {path}".encode() for method in sorted(METHODS) for path in PATHS)
PLAIN: Final = bytes(range(0x20, 0x7F)) + b"\r\n"
LENGTH: Final = re.compile(r"[0-9]{1,9}")
KEEP_ALIVE: Final = "keep-alive"
# Of a backend's creations nothing but this differs from head to head.
IDEMPOTENCY: Final = "idempotency-key"
OWN_KEY: Final = re.compile(rb"\r\nidempotency-key: ([!-~][ -~]*)(?=\r\n[^ \t])", re.IGNORECASE)
# Heads that came twice and are remembered, some 2 kB each, with the keys in them; and hashes of those that
# came once. Full, they start anew.
HEADS_MAX: Final = 1024
HEAD_KEPT_BYTES: Final = 1024
ONCE_MAX: Final = 8192

# Headers by which servers differ, or that make a connection something else.
ODD: Final = frozenset({"transfer-encoding", "te", "trailer", "expect", "upgrade", "http2-settings"})


class Head:
    """A request's head, as httptools tells of it."""

    __slots__ = ("headers", "is_complete", "target")

    def __init__(self) -> None:
        self.target = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_complete = False

    def on_url(self, part: bytes) -> None:
        """The target, or a part of it."""
        self.target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The empty line."""
        self.is_complete = True


class Lane:
    """Serves connections for as long as they keep to it.

    Args:
        answer: Answers a request; it does not raise.
        trusted: Whose `X-Forwarded-For` is believed.
        body_max: Bytes of a body; a larger one is not the lane's.
        is_stopping: Whether connections end after their answer.

    Attributes:
        parked: Its connections that wait for their next request; runs beside it.
        driver: What it answers without the connection's task; runs beside it.
    """

    def __init__(
        self, answer: Answering, trusted: TrustedProxies, body_max: int, is_stopping: Callable[[], bool]
    ) -> None:
        self._answer = answer
        self._trusted = trusted
        self._body_max = body_max
        self._is_stopping = is_stopping
        # Of known callers: a stranger's requests fill nothing.
        self._heads: dict[bytes, tuple[Request, int]] = {}
        self._once: set[int] = set()
        self._peers: dict[Wire, str] = {}
        self.parked = Parked(self._answer_now)
        self.driver: Driver[Answer] = Driver()

    async def serve(self, wire: Wire, peer: str, data: bytes) -> bytes | None:
        """Answer one request after the other.

        Args:
            wire: The connection.
            peer: The address at its other end.
            data: What was read of it.

        Returns:
            What was read and is not the lane's; None when the connection is over.

        Raises:
            trio.BrokenResourceError, trio.ClosedResourceError: The client is gone.
        """
        self._peers[wire] = peer
        try:
            return await self._serve(wire, peer, data)
        finally:
            self.parked.leave(wire)
            del self._peers[wire]

    async def _serve(self, wire: Wire, peer: str, data: bytes) -> bytes | None:
        while True:
            while (end := data.find(END) + len(END)) < len(END):
                if not may_be_hot(data):
                    return data
                wire.begin_head()
                more = await wire.receive_some(CHUNK_BYTES)
                if not more:
                    return None
                data += more
            head = data[:end]
            found = self._heads.get(head) or self._with_own_key(head) or self._read(head)
            if found is None:
                return data
            request, length = found
            wire.begin_request()
            try:
                rest = await self._serve_one(wire, self._from(request, peer), length, data[end:])
            finally:
                wire.end_request(parks=True)
            self._remember(head, request, length)
            if rest:
                await trio.lowlevel.checkpoint()  # who sends several at once waits its turn like everybody
            elif rest is not None:
                rest = await self._next(wire)
            if not rest:
                return None
            data = rest

    async def _next(self, wire: Wire) -> bytes:
        """What comes next and is not answered yet; empty at the end."""
        while True:
            data = await self.parked.receive(wire)
            if not wire.unsent:
                return data
            rest, wire.unsent = wire.unsent, b""
            try:
                await wire.send_whole(rest)
            finally:
                wire.end_request(parks=True)
            if wire.closes or self._is_stopping():
                wire.hang_up()
                return b""

    def _answer_now(self, wire: Wire, data: bytes) -> bytes | None:
        """Answer what is known and waits for a commit at most; else, give back what the task has to do."""
        known, end = self._heads.get(data), len(data)
        if known is None:
            end = data.find(END) + len(END)
            known = self._heads.get(data[:end]) or self._with_own_key(data[:end])
        if known is None or len(data) - end != known[1] or not is_prompt(known[0]):
            return data
        request = self._from(known[0], self._peers[wire])
        request.body = data[end:]
        found = self.driver.start(self._answer(request), partial(self._answer_later, wire, request))
        if found is None:
            wire.begin_request()
            self.parked.hold(wire)
            return None
        wire.note_answered()
        return self._send_now(wire, request, found, closes=False)

    def _answer_later(self, wire: Wire, request: Request, found: Answer | Exception) -> None:
        """Answer a request whose commit was waited for; its client may be gone."""
        left: bytes | Exception | None
        try:
            left = self._send_now(wire, request, found, closes=self._is_stopping())
        except Exception as bug:  # noqa: BLE001  # its own task's to raise: others are answered here
            left = bug
        wire.end_request(parks=True)
        self.parked.go_on(wire, left)

    def _send_now(
        self, wire: Wire, request: Request, found: Answer | Exception, *, closes: bool
    ) -> bytes | None:
        """Send an answer without waiting.

        Returns:
            None; empty where the task has to see to the rest of it, or to the end of a client that is gone.
        """
        if isinstance(found, Exception):
            log.error("lane.answer_raised", path=request.path, exc_info=found)
            found = BROKEN
        whole, closes = encode(found, closes=closes)
        try:
            wire.unsent = whole[send_now(wire.socket, whole) :]
        except trio.BrokenResourceError:
            return b""
        if wire.unsent:
            wire.closes = closes
            wire.begin_request()  # it is answered when its task has sent the rest
            return b""
        if closes:
            wire.hang_up()
        return None

    def _from(self, read: Request, peer: str) -> Request:
        """The request of somebody with the head that was read."""
        client = client_ip(peer, read.headers.get("x-forwarded-for"), self._trusted)
        return again(read, read.headers, client)

    def _with_own_key(self, head: bytes) -> tuple[Request, int] | None:
        """What was read of a head that differs from this one in its idempotency key only."""
        shape, key = shape_of(head)
        if key is None or (found := self._heads.get(shape)) is None:
            return None
        read, length = found
        return again(read, {**read.headers, IDEMPOTENCY: key}), length

    def _remember(self, head: bytes, read: Request, length: int) -> None:
        """Keep what was read of a head that came before and may come again, from a caller who is known."""
        if read.seen is None or read.seen.known is None or read.seen.kept:
            return
        shape, key = shape_of(head)
        if len(shape) > HEAD_KEPT_BYTES or (key is None and IDEMPOTENCY in read.headers):
            return
        if (mark := hash(shape)) not in self._once:
            if len(self._once) >= ONCE_MAX:
                self._once.clear()
            return self._once.add(mark)
        if len(self._heads) >= HEADS_MAX:
            self._heads.clear()
        read.seen.kept = True
        headers = {name: value for name, value in read.headers.items() if name != IDEMPOTENCY}
        self._heads[shape] = again(read, headers), length

    def _read(self, head: bytes) -> tuple[Request, int] | None:
        """What requests of a head share, and the length of their body; None when it is not the lane's."""
        if not head.startswith(STARTS) or len(head) > HEAD_BYTES_MAX or not is_plain(head):
            return None
        told = Head()
        parser = HttpRequestParser(told)
        try:
            parser.feed_data(head)
        except (HttpParserError, HttpParserUpgrade):
            return None
        method, target = parser.get_method().decode(), told.target.decode()
        if not told.is_complete or not head.startswith(f"{method} {target} HTTP/1.1\r\n".encode()):
            return None
        headers = {name.decode().lower(): value.decode().rstrip(" ") for name, value in told.headers}
        length = length_of(headers)
        if len(headers) < len(told.headers) or length is None or length > self._body_max:
            return None
        path, _, query = target.partition("?")
        if "%" in path or "#" in target or not is_short(method, path, query):
            return None
        return Request(method, path, parse_query(query), headers, query_string=query, seen=Seen()), length

    async def _serve_one(self, wire: Wire, request: Request, length: int, data: bytes) -> bytes | None:
        """Read the body and answer. Returns what follows the request; None when the connection is over."""
        if len(data) < length:
            with trio.move_on_after(BODY_S) as patience:
                while len(data) < length:
                    more = await wire.receive_some(CHUNK_BYTES)
                    if not more:
                        return None
                    data += more
            if patience.cancelled_caught:
                request.refusal = late_body()
        request.body = data[:length]
        try:
            found = await self._answer(request)
        except Exception as bug:
            log.error("lane.answer_raised", path=request.path, exc_info=bug)
            found = BROKEN
        whole, closes = encode(found, closes=request.refusal is not None or self._is_stopping())
        await wire.send_whole(whole)
        if closes or self._is_stopping():
            wire.hang_up()
            return None
        return data[length:]


def may_be_hot(data: bytes) -> bool:
    """Whether the head that begins like this may be the lane's."""
    if len(data) > HEAD_BYTES_MAX or data.count(b"\n") != data.count(b"\r\n"):
        return False
    return data.startswith(STARTS) or any(start.startswith(data) for start in STARTS)


def is_plain(head: bytes) -> bool:
    """Whether a head is printable ASCII in lines that all end in the same way."""
    lines = head.count(b"\r\n")
    return not head.translate(None, PLAIN) and head.count(b"\n") == lines == head.count(b"\r")


def again(read: Request, headers: dict[str, str], client: str = "") -> Request:
    """A request that shares what was read of another one's head."""
    return Request(
        read.method, read.path, read.query, headers, b"", client, read.query_string, None, read.seen
    )


def shape_of(head: bytes) -> tuple[bytes, str | None]:
    """A head without the idempotency key that is its own, and the key; None where there is none as usual.

    In the key's place is what no head has inside: one without a key never looks like one with it.
    """
    line = OWN_KEY.search(head)
    if line is None:
        return head, None
    return head[: line.start(1)] + END + head[line.end(1) :], line[1].decode().rstrip(" ")


def length_of(headers: Mapping[str, str]) -> int | None:
    """How long the body is; None where the headers make the request one that is not the lane's."""
    length = headers.get("content-length", "0")
    if "host" not in headers or not ODD.isdisjoint(headers) or not LENGTH.fullmatch(length):
        return None
    if headers.get("connection", KEEP_ALIVE).lower() != KEEP_ALIVE:
        return None
    return int(length)


def is_prompt(read: Request) -> bool:
    """Whether requests with the head that was read are known, and wait for a commit at most.

    One with a query may be a long poll.
    """
    return not read.query and read.seen is not None and read.seen.known is not None and read.seen.known.prompt


def encode(answer: Answer, *, closes: bool) -> tuple[bytes, bool]:
    """An answer in HTTP/1.1, to the byte as hypercorn writes it, and whether the connection ends after it."""
    headers = whole_headers(answer, closes=closes)
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers])
    head = f"HTTP/1.1 {answer.status} \r\n{lines}date: {http_date()}\r\n\r\n".encode("latin-1")
    return head + answer.body, CLOSES in headers
