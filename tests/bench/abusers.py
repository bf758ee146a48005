"""Strangers who mean harm, in a process of their own: from many addresses, for as long as they are asked to.

Reads a `Siege` as JSON from a line of standard input. Says `ready` once it is laid; another line, or the end
of the input, lifts it, and an `Outcome` is the answer.
"""

from __future__ import annotations

import random
import resource
import struct
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count, cycle
from typing import Final

import msgspec
import trio
from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection

from tests.bench.readers import UPGRADE
from tests.crash.client import request_bytes

HEAD_END: Final = b"\r\n\r\n"
# So many wait for answers at once, and so many dial at once: more would measure the backlog.
AT_ONCE_MAX: Final = 100
DRIP_S: Final = 1.0
# Who is ended comes again after this long.
AGAIN_S: Final = 0.1
SILENCE_MAX_S: Final = 30.0
# Over every limit that a server has, and what a client sends of it before it gives up.
LARGE: Final = 1 << 20
PIECE: Final = b"a" * 65_536
# The most that fits into a body.
DEEP: Final = 60_000
SEED: Final = 1
TEXT, CONTINUED, MASKED_64_BITS = 0x01, 0x00, 0x80 | 127

Pieces = Iterator[bytes]


class Siege(msgspec.Struct):
    """What is done to whom.

    Attributes:
        port: On 127.0.0.1.
        how: A key of `HELD` or of `ASKED`.
        connections: That are held open, where they are.
        rate: Requests a second, each on a connection of its own, where they are what harms.
        addresses: So many of this machine's take turns.
        headers: Of somebody with a key, who may mean harm too.
        payment_id: One that there is.
        cursor: Of a list that goes on.
    """

    port: int
    how: str
    connections: int
    rate: float
    addresses: int
    headers: dict[str, str]
    payment_id: str
    cursor: str


class Outcome(msgspec.Struct):
    """What came of it.

    Attributes:
        answers: How often which status was answered; `closed 1008` is a websocket's code, `cut` none.
        opened: Connections.
        ended: Of those that were to be held, how many the server ended.
    """

    answers: dict[str, int]
    opened: int
    ended: int


def idle() -> bytes:
    """Nothing is said."""
    return b""


def slow_head() -> bytes:
    """The beginning of a head."""
    return b"GET /v1/payments/a/status HTTP/1.1\r\nHost: x\r\nX-Slow: "


def slow_body() -> bytes:
    """A head, and the beginning of its body."""
    return b"POST /v1/payments HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n{"


def well_meant(siege: Siege, _dice: random.Random) -> Iterator[Pieces]:
    """No abuse at all: what as many more who mean well would cost, to hold the others against."""
    for _ in count():
        yield said(request_bytes("GET", f"/v1/payments/{siege.payment_id}/status", None, siege.headers))


def oversized(siege: Siege, _dice: random.Random) -> Iterator[Pieces]:
    """Heads, targets, bodies, chunks, frames and messages that are larger than any may be."""
    host = b"Host: x\r\n"
    post = b"POST /v1/payments HTTP/1.1\r\n" + host
    upgrade = UPGRADE.format(path=f"/v1/payments/{siege.payment_id}/feed", port=siege.port).encode()
    frame = struct.pack("!BBQ", 0x80 | TEXT, MASKED_64_BITS, 16 * LARGE) + bytes(4)
    first = struct.pack("!BBQ", TEXT, MASKED_64_BITS, len(PIECE)) + bytes(4) + PIECE
    more = struct.pack("!BBQ", CONTINUED, MASKED_64_BITS, len(PIECE)) + bytes(4) + PIECE
    chunk = b"%x\r\n%b\r\n" % (len(PIECE), PIECE)
    for _ in count():
        yield said(b"GET /v1/payments/a/status HTTP/1.1\r\n", host, b"X-Long: ", PIECE)
        yield said(b"GET /v1/payments/", PIECE, b" HTTP/1.1\r\n", host, b"\r\n")
        yield said(b"GET /livez HTTP/1.1\r\n", host, b"X-More: 1\r\n" * 8000, b"\r\n")
        yield said(post, b"Content-Length: %d\r\n\r\n" % LARGE, *[PIECE] * (LARGE // len(PIECE)))
        yield said(post, b"Content-Length: 99999999999999999999\r\n\r\n", PIECE)
        yield said(post, b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * (LARGE // len(PIECE)))
        yield said(post, b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n", PIECE, PIECE)
        yield said(upgrade, frame, *[PIECE] * 16)
        yield said(upgrade, first, *[more] * 16)


def key_guessing(siege: Siege, dice: random.Random) -> Iterator[Pieces]:
    """Keys and app ids as they may be."""
    status = f"/v1/payments/{siege.payment_id}/status"
    options = f"/v1/gateway/payment/{siege.payment_id}/options"
    for _ in count():
        key = "".join(dice.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=43))
        mine = {"merchant-id": siege.headers["merchant-id"]}
        yield said(request_bytes("GET", status, None, mine | {"api-key": f"svc_test_{key}"}))
        yield said(request_bytes("GET", status, None, mine | {"api-key": f"svc_{key}"}))
        app = {"app-id": f"app_t{key[:30]}", "client-id": "wallet"}
        yield said(request_bytes("POST", options, {"accounts": []}, app))


def tampering(siege: Siege, dice: random.Random) -> Iterator[Pieces]:
    """Ids and cursors with another letter in them, by somebody who has a key."""
    mine = {"api-key": siege.headers["api-key"]}
    get = partial(request_bytes, body=None, headers=mine)
    for _ in count():
        payment_id, cursor = altered(siege.payment_id, dice), altered(siege.cursor, dice)
        yield said(get("GET", f"/v1/payments/{payment_id}"))
        yield said(get("GET", f"/v1/payments?cursor={cursor}"))
        yield said(get("GET", f"/v1/events?cursor={cursor}"))
        yield said(get("GET", f"/v1/merchants/{altered(siege.headers['merchant-id'], dice)}"))
        yield said(get("POST", f"/v1/payments/{payment_id}/cancel"))
        yield said(get("GET", f"/v1/payments/{payment_id}/feed"))
        yield said(request_bytes("GET", f"/checkout/{payment_id}", None, {}))


def bombs(siege: Siege, _dice: random.Random) -> Iterator[Pieces]:
    """Bodies that nest to the bottom, and texts that take a careless pattern for ever."""
    amount = {"unit": "iso4217/USD", "value": "9" * DEEP}
    asset = "eip155:" + "-" * (DEEP // 3)
    once = siege.headers | {"idempotency-key": "bomb"}
    nested = (
        b"[" * DEEP,
        b'{"a":' * (DEEP // 5),
        b'{"amount":' + b"[" * DEEP,
        b"1" * DEEP,
        b'"' + b"\\" * DEEP,
    )
    settle = f"/v1/merchants/{siege.headers['merchant-id']}/settlements/crypto"
    bodies: tuple[tuple[str, dict[str, object]], ...] = (
        ("/v1/payments", {"referenceId": "x", "amount": amount}),
        ("/v1/payments", {"referenceId": "a" * DEEP, "amount": {}}),
        ("/v1/payments", {f"k{n}": n for n in range(DEEP // 12)}),
        ("/v1/merchants", {"merchantName": "x", "merchantEmail": "a@" + "a." * (DEEP // 2) + "!"}),
        (settle, {"settlements": [{"asset": asset, "destination": asset}]}),
        (settle, {"settlements": [{}] * (DEEP // 3)}),
    )
    for _ in count():
        for body in nested:
            head = request_bytes("POST", "/v1/payments", None, siege.headers).removesuffix(HEAD_END)
            head = head.replace(b"content-length: 0", b"content-length: %d" % len(body))
            yield said(head, b"\r\ncontent-type: application/json", HEAD_END, body)
        for path, wrong in bodies:
            yield said(request_bytes("POST", path, wrong, once))


def altered(text: str, dice: random.Random) -> str:
    """With another letter somewhere behind its prefix."""
    at = dice.randrange(len(text) // 2, len(text))
    return text[:at] + dice.choice([one for one in "abcXYZ019" if one != text[at]]) + text[at + 1 :]


def said(*pieces: bytes) -> Pieces:
    """What is sent, write by write."""
    return iter(pieces)


HELD: Final[dict[str, Callable[[], bytes]]] = {
    "idle": idle,
    "slow heads": slow_head,
    "slow bodies": slow_body,
}
ASKED: Final[dict[str, Callable[[Siege, random.Random], Iterator[Pieces]]]] = {
    "well meant": well_meant,
    "oversized": oversized,
    "key guessing": key_guessing,
    "tampering": tampering,
    "bombs": bombs,
}


class Abusers:
    """Lays one siege."""

    def __init__(self, siege: Siege) -> None:
        self._siege = siege
        self._answers: Counter[str] = Counter()
        self._opened = self._ended = 0
        names = [f"127.0.{1 + n // 250}.{1 + n % 250}" for n in range(siege.addresses)]
        self._addresses = cycle(names)
        self._dialling = trio.CapacityLimiter(AT_ONCE_MAX)

    async def run(self, ready: Callable[[], None], lifted: Callable[[], Awaitable[None]]) -> Outcome:
        """Lay it, say so, and go on until it is lifted."""
        async with trio.open_nursery() as nursery:
            if self._siege.how in HELD:
                async with trio.open_nursery() as laying:
                    for _ in range(self._siege.connections):
                        laying.start_soon(nursery.start, self._hold)
            else:
                nursery.start_soon(self._ask_steadily)
            ready()
            await lifted()
            nursery.cancel_scope.cancel()
        return Outcome(dict(sorted(self._answers.items())), self._opened, self._ended)

    async def _dial(self) -> trio.SocketStream:
        socket = trio.socket.socket()
        try:
            await socket.bind((next(self._addresses), 0))
            async with self._dialling:
                await socket.connect(("127.0.0.1", self._siege.port))
        except BaseException:
            socket.close()
            raise
        self._opened += 1
        return trio.SocketStream(socket)

    async def _hold(self, *, task_status: trio.TaskStatus[None]) -> None:
        """One connection, and another one each time that it is ended."""
        first = HELD[self._siege.how]()
        for number in count():
            stream = await self._dial()
            async with stream:
                if not number:
                    task_status.started()
                with suppress(trio.BrokenResourceError):
                    await self._drip(stream, first)
            self._ended += 1
            await trio.sleep(AGAIN_S)

    async def _drip(self, stream: trio.SocketStream, first: bytes) -> None:
        """Say what was begun, and a byte more now and then; until the server answers or ends it."""
        async with trio.open_nursery() as nursery:

            async def hear() -> None:
                self._note(bytes(await stream.receive_some()))
                nursery.cancel_scope.cancel()

            nursery.start_soon(hear)
            if first:
                await stream.send_all(first)
            while first:
                await trio.sleep(DRIP_S)
                await stream.send_all(b"a")

    async def _ask_steadily(self) -> None:
        requests = ASKED[self._siege.how](self._siege, random.Random(SEED))
        waiting, begun_s = trio.CapacityLimiter(AT_ONCE_MAX), trio.current_time()
        async with trio.open_nursery() as nursery:
            for number, pieces in enumerate(requests):
                await trio.sleep_until(begun_s + number / self._siege.rate)
                await waiting.acquire_on_behalf_of(number)
                nursery.start_soon(self._ask, pieces, partial(waiting.release_on_behalf_of, number))

    async def _ask(self, pieces: Pieces, done: Callable[[], None]) -> None:
        try:
            with trio.fail_after(SILENCE_MAX_S):
                stream = await self._dial()
                async with stream, trio.open_nursery() as nursery:
                    nursery.start_soon(_send, stream, pieces)
                    self._note(await _heard(stream))
                    nursery.cancel_scope.cancel()
        finally:
            done()

    def _note(self, answer: bytes) -> None:
        self._answers[_named(answer)] += 1


async def _send(stream: trio.SocketStream, pieces: Pieces) -> None:
    """Until the server has had enough of it."""
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        for piece in pieces:
            await stream.send_all(piece)


async def _heard(stream: trio.SocketStream) -> bytes:
    """The head of an answer, or of a websocket all that comes; what came where it was cut off."""
    data = b""
    with suppress(trio.BrokenResourceError):
        while HEAD_END not in data or b" 101 " in data[:16]:
            more = bytes(await stream.receive_some())
            if not more:
                break
            data += more
    return data


def _named(answer: bytes) -> str:
    """How an answer is counted."""
    head, end, rest = answer.partition(HEAD_END)
    if not end:
        return "cut"
    status = head.split(b" ", 2)[1].decode()
    if status != "101":
        return status
    socket = Connection(ConnectionType.CLIENT, trailing_data=rest)
    codes = [int(event.code) for event in socket.events() if isinstance(event, CloseConnection)]
    return f"closed {codes[0]}" if codes else "cut"


def say(line: bytes) -> None:
    """One line to who started this."""
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


async def main() -> None:
    """One siege, with as many files as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    siege = msgspec.json.decode(sys.stdin.buffer.readline(), type=Siege)

    async def lifted() -> None:
        await trio.to_thread.run_sync(sys.stdin.buffer.readline)

    outcome = await Abusers(siege).run(partial(say, b"ready"), lifted)
    say(msgspec.json.encode(outcome))


if __name__ == "__main__":
    trio.run(main)
