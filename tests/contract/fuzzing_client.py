"""A client that breaks the websocket protocol on purpose: the Autobahn testsuite's cases, on a raw socket.

The suite's own client needs Python 2 and a server that echoes. A feed takes no data at all, so each case says
here what such a server owes it: a pong, an echoed close, or the code with which the connection fails. The
numbers are those of the suite's release 25.10.1.

Source: RFC 6455, "5. Data Framing"; RFC 6455, "7. Closing the Connection".
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import select
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Final, Self

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
NORMAL, PROTOCOL_ERROR, NOT_UTF8, POLICY = 1000, 1002, 1007, 1008
NO_CODE: Final = 1005
"""The other side's close frame was empty."""
DROPPED: Final = 1006
"""The connection ended without a close frame."""

# Generous for a loaded machine: a green run never comes near it.
PATIENCE_S: Final = 10.0
MASK: Final = b"\x37\xfa\x21\x3d"
MASK_BIT, FIN_BIT, RESERVED_BITS, OPCODE = 0x80, 0x80, 0x70, 0x0F
SIZE_IN_16_BITS, SIZE_IN_64_BITS = 126, 127
WRITTEN_AT_ONCE: Final = 65_536
GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
MIB: Final = 1 << 20

STILL_THERE: Final = b"still there?"
HELLO: Final = b"Hello, world!"
NOISE: Final = b"\x00\xff\xfe\xfd\xfc\xfb\x00\xff"
GREEK: Final = b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5"
UMLAUTS: Final = "Hello-µ@ßöäüàá-UTF-8!!".encode()


@dataclass(frozen=True)
class Case:
    """What is sent, and what is owed to it.

    Attributes:
        number: As the suite counts.
        pieces: What is written, one write each.
        code: The close code that must come; None where the connection stays open until the client ends it.
        pongs: The payloads of pings that may be answered. Where the connection stays open the last one must
            be; of several that wait only the newest is.
    """

    number: str
    pieces: Callable[[], Iterable[bytes]]
    code: int | None
    pongs: tuple[bytes, ...] = ()


@dataclass
class Heard:
    """What came from the server: the pongs, and how the connection ended."""

    pongs: list[bytes]
    code: int = DROPPED


def frame(opcode: int, payload: bytes = b"", *, fin: bool = True, rsv: int = 0) -> bytes:
    """One masked frame of a client, whether or not it may be sent."""
    return frame_head(opcode, len(payload), fin=fin, rsv=rsv) + masked(payload)


def frame_head(opcode: int, size: int, *, fin: bool = True, rsv: int = 0) -> bytes:
    """All of a frame but its payload."""
    first = FIN_BIT * fin | rsv << 4 | opcode
    if size < SIZE_IN_16_BITS:
        return struct.pack("!BB", first, MASK_BIT | size) + MASK
    if size < 1 << 16:
        return struct.pack("!BBH", first, MASK_BIT | SIZE_IN_16_BITS, size) + MASK
    return struct.pack("!BBQ", first, MASK_BIT | SIZE_IN_64_BITS, size) + MASK


def masked(payload: bytes) -> bytes:
    """A payload, or a part of one that begins at a multiple of four."""
    times = len(payload) // len(MASK) + 1
    mask = int.from_bytes((MASK * times)[: len(payload)])
    return (int.from_bytes(payload) ^ mask).to_bytes(len(payload))


def goodbye(code: int, reason: bytes = b"") -> bytes:
    """A close frame."""
    return frame(CLOSE, struct.pack("!H", code) + reason)


def in_one(*frames: bytes) -> Callable[[], Iterable[bytes]]:
    """All frames in one write."""
    return lambda: (b"".join(frames),)


def one_by_one(*frames: bytes) -> Callable[[], Iterable[bytes]]:
    """Each frame in a write of its own."""
    return lambda: frames


def in_chops(size: int, *frames: bytes) -> Callable[[], Iterable[bytes]]:
    """So many octets a write."""
    data = b"".join(frames)
    return lambda: (data[at : at + size] for at in range(0, len(data), size))


def huge(opcode: int, size: int, written: int = WRITTEN_AT_ONCE) -> Iterator[bytes]:
    """One frame of any size, so many octets a write; made while it is sent."""
    yield frame_head(opcode, size)
    chunk = masked(b"*" * written)
    for at in range(0, size, written):
        yield chunk[: size - at]


def in_fragments(opcode: int, payload: bytes, size: int) -> Iterator[bytes]:
    """One message in frames of so many octets; made while it is sent."""
    for at in range(0, len(payload), size):
        is_last = at + size >= len(payload)
        yield frame(CONTINUATION if at else opcode, payload[at : at + size], fin=is_last)


def framing() -> Iterator[Case]:
    """1: whole messages of all sizes."""
    for group, opcode in ((1, TEXT), (2, BINARY)):
        for number, size in enumerate((0, 125, 126, 127, 128, 65_535, 65_536), 1):
            yield Case(f"1.{group}.{number}", partial(huge, opcode, size), POLICY)
        yield Case(f"1.{group}.8", partial(huge, opcode, 65_536, 996), POLICY)


def pings() -> Iterator[Case]:
    """2: pings and pongs."""
    longest = b"\xfe" * 125
    for number, payload in enumerate((b"", HELLO, NOISE, longest), 1):
        yield Case(f"2.{number}", in_one(frame(PING, payload)), None, (payload,))
    yield Case("2.5", in_one(frame(PING, b"\xfe" * 126)), PROTOCOL_ERROR)
    yield Case("2.6", in_chops(1, frame(PING, longest)), None, (longest,))
    yield Case("2.7", in_one(frame(PONG)), None)
    yield Case("2.8", in_one(frame(PONG, b"unsolicited")), None)
    both = (frame(PONG, b"unsolicited"), frame(PING, b"ping payload"))
    yield Case("2.9", one_by_one(*both), None, (b"ping payload",))
    ten = tuple(b"payload-%d" % n for n in range(10))
    frames = [frame(PING, payload) for payload in ten]
    yield Case("2.10", one_by_one(*frames), None, ten)
    yield Case("2.11", in_chops(1, *frames), None, ten)


def reserved_bits() -> Iterator[Case]:
    """3: bits that only an extension may set. Where a message comes first, that is refused."""
    hello, ping = frame(TEXT, HELLO), frame(PING)
    yield Case("3.1", in_one(frame(TEXT, HELLO, rsv=1)), PROTOCOL_ERROR)
    yield Case("3.2", in_one(hello, frame(TEXT, HELLO, rsv=2), ping), POLICY)
    yield Case("3.3", one_by_one(hello, frame(TEXT, HELLO, rsv=3), ping), POLICY)
    yield Case("3.4", in_chops(1, hello, frame(TEXT, HELLO, rsv=4), ping), POLICY)
    yield Case("3.5", in_one(frame(BINARY, NOISE, rsv=5)), PROTOCOL_ERROR)
    yield Case("3.6", in_one(frame(PING, HELLO, rsv=6)), PROTOCOL_ERROR)
    yield Case("3.7", in_one(frame(CLOSE, rsv=7)), PROTOCOL_ERROR)


def opcodes() -> Iterator[Case]:
    """4: opcodes that mean nothing."""
    hello, ping = frame(TEXT, HELLO), frame(PING)
    for group, first in ((1, 3), (2, 11)):
        yield Case(f"4.{group}.1", in_one(frame(first)), PROTOCOL_ERROR)
        yield Case(f"4.{group}.2", in_one(frame(first + 1, b"reserved")), PROTOCOL_ERROR)
        yield Case(f"4.{group}.3", in_one(hello, frame(first + 2), ping), POLICY)
        yield Case(f"4.{group}.4", in_one(hello, frame(first + 3, HELLO), ping), POLICY)
        yield Case(f"4.{group}.5", in_chops(1, hello, frame(first + 4, HELLO), ping), POLICY)
        # Without a message before it, so that these are looked at too.
        for more in (2, 3, 4):
            yield Case(f"4.{group}.{more + 1} alone", in_one(frame(first + more)), PROTOCOL_ERROR)


def fragmentation() -> Iterator[Case]:
    """5: messages in pieces, with others between them and without a beginning."""
    begun, ended = frame(TEXT, b"fragment1", fin=False), frame(CONTINUATION, b"fragment2")
    between, middle = frame(PING, b"between"), frame(CONTINUATION, b"middle", fin=False)
    hello = frame(TEXT, HELLO)
    yield Case("5.1", in_one(frame(PING, b"fragment1", fin=False), ended), PROTOCOL_ERROR)
    yield Case("5.2", in_one(frame(PONG, b"fragment1", fin=False), ended), PROTOCOL_ERROR)
    for number, frames in ((3, (begun, ended)), (6, (begun, between, ended))):
        pongs = (b"between",) * (between in frames)
        yield Case(f"5.{number}", in_one(*frames), POLICY, pongs)
        yield Case(f"5.{number + 1}", one_by_one(*frames), POLICY, pongs)
        yield Case(f"5.{number + 2}", in_chops(1, *frames), POLICY, pongs)
    for number, orphan in ((9, ended), (12, middle)):
        yield Case(f"5.{number}", in_one(orphan, hello), PROTOCOL_ERROR)
        yield Case(f"5.{number + 1}", one_by_one(orphan, hello), PROTOCOL_ERROR)
        # By octets the first of its payload comes before its end: it fails all the same.
        yield Case(f"5.{number + 2}", in_chops(1, orphan, hello), PROTOCOL_ERROR)
    yield Case("5.15", in_one(begun, ended, middle, hello), POLICY)
    yield Case("5.16", in_one(*[middle, begun, ended] * 2), PROTOCOL_ERROR)
    yield Case("5.17", in_one(*[ended, begun, ended] * 2), PROTOCOL_ERROR)
    yield Case("5.18", in_one(begun, hello), POLICY)
    many = (begun, middle, between, middle, middle, between, ended)
    yield Case("5.19", in_one(*many), POLICY, (b"between", b"between"))
    yield Case("5.20", one_by_one(*many), POLICY, (b"between", b"between"))


def utf8_messages() -> Iterator[Case]:
    """6.1 to 6.4: text in pieces. A feed refuses it at its first piece, before a later one may break it."""
    empty, end = frame(TEXT, fin=False), frame(CONTINUATION)
    yield Case("6.1.1", in_one(frame(TEXT)), POLICY)
    yield Case("6.1.2", in_one(empty, frame(CONTINUATION, fin=False), end), POLICY)
    yield Case("6.1.3", in_one(empty, frame(CONTINUATION, b"middle", fin=False), end), POLICY)
    yield Case("6.2.1", in_one(frame(TEXT, UMLAUTS)), POLICY)
    yield Case("6.2.2", partial(in_fragments, TEXT, UMLAUTS, 14), POLICY)
    yield Case("6.2.3", partial(in_fragments, TEXT, UMLAUTS, 1), POLICY)
    yield Case("6.2.4", partial(in_fragments, TEXT, GREEK, 1), POLICY)
    surrogate = GREEK + b"\xed\xa0\x80edited"
    yield Case("6.3.1", in_one(frame(TEXT, surrogate)), NOT_UTF8)
    yield Case("6.3.2", partial(in_fragments, TEXT, surrogate, 1), POLICY)
    beyond = GREEK + b"\xf4\x90\x80\x80edited"
    for number, cuts in ((1, (11, 15)), (2, (12, 13))):
        parts = beyond[: cuts[0]], beyond[cuts[0] : cuts[1]], beyond[cuts[1] :]
        frames = (
            frame(TEXT, parts[0], fin=False),
            frame(CONTINUATION, parts[1], fin=False),
            frame(CONTINUATION, parts[2]),
        )
        yield Case(f"6.4.{number}", one_by_one(*frames), POLICY)
        whole, head = frame(TEXT, beyond), len(frame_head(TEXT, len(beyond)))
        at = [head + cut for cut in cuts]
        chops = whole[: at[0]], whole[at[0] : at[1]], whole[at[1] :]
        yield Case(f"6.4.{number + 2}", one_by_one(*chops), POLICY)


def utf8_sequences() -> Iterator[tuple[int, list[bytes], list[bytes]]]:
    """6.5 and on: the suite's groups, each with what is UTF-8 and what is not."""
    hello = [b"hello%bworld" % sign.encode() for sign in "$¢€𤭢"]
    prefixes = [GREEK[:size] for size in range(1, len(GREEK) + 1)]
    ends = (2, 5, 7, 9, 11)
    truncated = [bytes.fromhex(text) for text in ("c0", "e080", "f08080", "f8808080", "fc80808080")]
    truncated += [bytes.fromhex(text) for text in ("df", "efbf", "f7bfbf", "fbbfbfbf", "fdbfbfbfbf")]
    lonely = [(0xC0, 0xDF), (0xE0, 0xEF), (0xF0, 0xF7), (0xF8, 0xFB), (0xFC, 0xFD)]
    highs, lows = ("eda080", "edadbf", "edae80", "edafbf"), ("edb080", "edbe80", "edbfbf")
    planes = [0x10000 * plane + last for plane in range(17) for last in (0xFFFE, 0xFFFF)]

    def of(*texts: str) -> list[bytes]:
        return [bytes.fromhex(text) for text in texts]

    yield 5, [*hello, GREEK], []
    yield 6, [p for p in prefixes if len(p) in ends], [p for p in prefixes if len(p) not in ends]
    yield 7, of("00", "c280", "e0a080", "f0908080"), []
    yield 8, [], of("f888808080", "fc8480808080")
    yield 9, of("7f", "dfbf", "efbfbf", "f48fbfbf"), []
    yield 10, [], of("f7bfbfbf", "fbbfbfbfbf", "fdbfbfbfbfbf")
    yield 11, of("ed9fbf", "ee8080", "efbfbd", "f48fbfbf"), of("f4908080")
    alternating = [(b"\x80\xbf" * 3)[:size] for size in range(2, 7)]
    yield 12, [], [b"\x80", b"\xbf", *alternating, bytes(range(0x80, 0xBF))]
    yield 13, [], [b"".join(b"%c " % byte for byte in range(*ends)) for ends in lonely]
    yield 14, [], truncated
    yield 15, [], [b"".join(truncated)]
    yield 16, [], of("fe", "ff", "fefeffff")
    yield 17, [], of("c0af", "e080af", "f08080af", "f8808080af", "fc80808080af")
    yield 18, [], of("c1bf", "e09fbf", "f08fbfbf", "f887bfbfbf", "fc83bfbfbfbf")
    yield 19, [], of("c080", "e08080", "f0808080", "f880808080", "fc8080808080")
    yield 20, [], of(*highs, *lows)
    yield 21, [], of(*[high + low for high in highs for low in ("edb080", "edbfbf")])
    yield 22, [chr(point).encode() for point in planes], []
    yield 23, [chr(point).encode() for point in range(0xFFF9, 0x10000)], []


def utf8_texts() -> Iterator[Case]:
    """6.5 and on: one message each. What is text is refused as data, what is none as what it is."""
    for group, good, bad in utf8_sequences():
        for number, payload in enumerate(good, 1):
            yield Case(f"6.{group} good {number}", in_one(frame(TEXT, payload)), POLICY)
        for number, payload in enumerate(bad, 1):
            yield Case(f"6.{group} bad {number}", in_one(frame(TEXT, payload)), NOT_UTF8)


def closing() -> Iterator[Case]:
    """7: goodbyes, and what comes after them."""
    bye, hello = goodbye(NORMAL), frame(TEXT, HELLO)
    yield Case("7.1.1", in_one(hello, bye), POLICY)
    yield Case("7.1.2", in_one(bye, frame(CLOSE)), NORMAL)
    yield Case("7.1.3", in_one(bye, frame(PING)), NORMAL)
    yield Case("7.1.4", in_one(bye, hello), NORMAL)
    parts = frame(TEXT, b"fragment1", fin=False), frame(CONTINUATION, b"fragment2")
    yield Case("7.1.5", in_one(parts[0], bye, parts[1]), POLICY)
    large = frame(TEXT, b"BAsd7&jh23" * 26_214)
    yield Case("7.1.6", in_one(large, hello, bye, frame(PING)), POLICY)
    yield Case("7.3.1", in_one(frame(CLOSE)), NO_CODE)
    yield Case("7.3.2", in_one(frame(CLOSE, b"a")), PROTOCOL_ERROR)
    yield Case("7.3.3", in_one(bye), NORMAL)
    yield Case("7.3.4", in_one(goodbye(NORMAL, b"Hello World!")), NORMAL)
    yield Case("7.3.5", in_one(goodbye(NORMAL, b"*" * 123)), NORMAL)
    yield Case("7.3.6", in_one(goodbye(NORMAL, b"*" * 124)), PROTOCOL_ERROR)
    yield Case("7.5.1", in_one(goodbye(NORMAL, GREEK + b"\xed\xa0\x80edited")), NOT_UTF8)
    valid = (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999)
    for number, code in enumerate(valid, 1):
        yield Case(f"7.7.{number}", in_one(goodbye(code)), code)
    invalid = (0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999)
    for number, code in enumerate(invalid, 1):
        yield Case(f"7.9.{number}", in_one(goodbye(code)), PROTOCOL_ERROR)
    for number, code in enumerate((5000, 65_535), 1):
        yield Case(f"7.13.{number}", in_one(goodbye(code)), PROTOCOL_ERROR)


def limits() -> Iterator[Case]:
    """9 and 10: messages of many sizes, whole, in fragments and in chops; refused at their beginning."""
    for group, opcode in ((1, TEXT), (2, BINARY)):
        for number, size in enumerate((MIB // 16, MIB // 4, MIB, 4 * MIB, 8 * MIB, 16 * MIB), 1):
            yield Case(f"9.{group}.{number}", partial(huge, opcode, size), POLICY)
        for number in range(9):
            pieces = partial(in_fragments, opcode, b"*" * 4 * MIB, 64 << 2 * number)
            yield Case(f"9.{group + 2}.{number + 1}", pieces, POLICY)
        for number in range(6):
            yield Case(f"9.{group + 4}.{number + 1}", partial(huge, opcode, MIB, 64 << number), POLICY)
        for number, size in enumerate((0, 16, 64, 256, 1024, 4096), 1):
            messages = [frame(opcode, b"*" * size)] * 1000
            yield Case(f"9.{group + 6}.{number}", one_by_one(*messages), POLICY)
    yield Case("10.1.1", partial(in_fragments, TEXT, b"*" * 65_536, 1300), POLICY)


def all_cases() -> list[Case]:
    """Every case but those of compression."""
    groups = (
        framing,
        pings,
        reserved_bits,
        opcodes,
        fragmentation,
        utf8_messages,
        utf8_texts,
        closing,
        limits,
    )
    return [case for group in groups for case in group()]


class Fuzzer:
    """A websocket's client end on a raw socket.

    Args:
        address: Host and port.
        path: Of the feed.
        headers: More of the handshake.
        after: A path that is asked for before, on the same connection.
    """

    def __init__(
        self, address: tuple[str, int], path: str, headers: Mapping[str, str], after: str | None = None
    ) -> None:
        self._socket = socket.create_connection(address, timeout=PATIENCE_S)
        self._buffer = b""
        self._goodbye: bytes | None = None
        if after is not None:
            assert b" 200 " in self._ask(f"GET {after} HTTP/1.1\r\nHost: x\r\n\r\n")
        key = base64.b64encode(os.urandom(16))
        lines = {"Host": "x", "Upgrade": "websocket", "Connection": "Upgrade"} | dict(headers)
        lines |= {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key.decode()}
        told = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self.answer = self._ask(f"GET {path} HTTP/1.1\r\n{told}\r\n").lower()
        assert self.answer.startswith(b"http/1.1 101 "), self.answer
        assert base64.b64encode(hashlib.sha1(key + GUID).digest()).lower() in self.answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def play(self, case: Case) -> Heard:
        """Send what a case says until the server answers, and hear it to the end of the connection."""
        heard = Heard([])
        self._send(case.pieces())
        if case.code is None:
            awaited = case.pongs[-1:] or (STILL_THERE,)
            self._send([frame(PING, STILL_THERE)] if not case.pongs else [])
            while awaited[0] not in heard.pongs and (pong := self._pong()) is not None:
                heard.pongs.append(pong)
            self._send([goodbye(NORMAL)])
        while (pong := self._pong()) is not None:
            heard.pongs.append(pong)
        if self._goodbye is not None:
            heard.code = struct.unpack("!H", self._goodbye[:2])[0] if self._goodbye else NO_CODE
            self._send([frame(CLOSE, self._goodbye)])
            assert self._frame() is None, "something follows a goodbye"
        return heard

    def _pong(self) -> bytes | None:
        """The next pong; None when the server said goodbye or is gone."""
        while self._goodbye is None and (said := self._frame()) is not None:
            opcode, payload = said
            if opcode == PONG:
                return payload
            if opcode == CLOSE:
                self._goodbye = payload
            elif opcode == PING:
                self._send([frame(PONG, payload)])
            else:
                assert opcode == TEXT, f"a frame with opcode {opcode}"
                json.loads(payload.decode())
        return None

    def _send(self, pieces: Iterable[bytes]) -> None:
        """Write one piece after the other, for as long as the server says nothing and is there."""
        try:
            for piece in pieces:
                if self._has_goodbye():
                    return
                self._socket.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            return

    def _has_goodbye(self) -> bool:
        """Whether the server has ended it, by what can be read without waiting."""
        while select.select([self._socket], [], [], 0)[0]:
            more = self._receive()
            self._buffer += more
            if not more:
                return True
        return False

    def _frame(self) -> tuple[int, bytes] | None:
        """The opcode and the payload of the next frame; None at the end of the connection."""
        head = self._exactly(2)
        if head is None:
            return None
        first, size = head
        assert first & FIN_BIT, "a feed's frames are whole"
        assert not first & RESERVED_BITS, "no extension was agreed on"
        assert size <= SIZE_IN_64_BITS, "a server's frames are not masked"
        if size >= SIZE_IN_16_BITS:
            long = self._exactly(2 if size == SIZE_IN_16_BITS else 8)
            assert long is not None, "cut off in a frame"
            size = int.from_bytes(long)
        payload = self._exactly(size)
        assert payload is not None, "cut off in a frame"
        return first & OPCODE, payload

    def _exactly(self, size: int) -> bytes | None:
        while len(self._buffer) < size:
            more = self._receive()
            if not more:
                assert not self._buffer, "cut off in a frame"
                return None
            self._buffer += more
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(WRITTEN_AT_ONCE)
        except ConnectionResetError:
            return b""

    def _ask(self, request: str) -> bytes:
        """Send a request and return the head of its answer; a body is read and dropped."""
        self._socket.sendall(request.encode())
        while b"\r\n\r\n" not in self._buffer:
            more = self._receive()
            assert more, "the connection ended before an answer"
            self._buffer += more
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        self._exactly(int(length[1]) if length else 0)
        return head
