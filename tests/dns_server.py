"""A name server on loopback that does what a zone says: public first and private next, rubbish, or nothing.

It speaks DNS over UDP (RFC 1035) as far as A and AAAA questions go, and so does `look_up`, which asks it.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import trio

A: Final = 1
AAAA: Final = 28
NXDOMAIN: Final = 3
# How long `look_up` waits for one datagram.
PATIENCE_S: Final = 2.0

_IN: Final = 1
_HEADER: Final = struct.Struct("!6H")
_ANSWER: Final = struct.Struct("!HHIH")
_IS_RESPONSE: Final = 0x8000
_QUESTION_AT: Final = b"\xc0\x0c"  # a pointer to the name behind the header

Turn: TypeAlias = Sequence[str] | bytes | None
"""What one look-up gets: these addresses of either family, this instead of an answer, or nothing at all."""


@dataclass
class DnsServer:
    """Answers with a TTL of 0.

    Attributes:
        zone: What each name's look-ups get, one turn after the other; the last one stays.
        asked: The names of the A questions, in order.
    """

    zone: dict[str, Sequence[Turn]]
    asked: list[str] = field(default_factory=list)
    port: int = 0
    _turns: Counter[tuple[str, int]] = field(default_factory=Counter)

    async def listen(self, nursery: trio.Nursery) -> None:
        """Answer on a free port of 127.0.0.1 for as long as the nursery is open."""
        sock = trio.socket.socket(trio.socket.AF_INET, trio.socket.SOCK_DGRAM)
        await sock.bind(("127.0.0.1", 0))
        self.port = sock.getsockname()[1]
        nursery.start_soon(self._serve, sock)

    async def _serve(self, sock: trio.socket.SocketType) -> None:
        with sock:
            while True:
                query, asker = await sock.recvfrom(512)
                answer = self._answer(query)
                if answer is not None:
                    await sock.sendto(answer, asker)

    def _answer(self, query: bytes) -> bytes | None:
        name, end = _read_name(query, _HEADER.size)
        kind: int = struct.unpack_from("!H", query, end)[0]
        if kind == A:
            self.asked.append(name)
        turns = self.zone.get(name, ((),))
        turn = turns[min(self._turns[name, kind], len(turns) - 1)]
        self._turns[name, kind] += 1
        if turn is None or isinstance(turn, bytes):
            return turn
        addresses = [
            address for address in map(ipaddress.ip_address, turn) if (address.version == 4) == (kind == A)
        ]
        code = 0 if turn else NXDOMAIN
        records = b"".join(
            _QUESTION_AT + _ANSWER.pack(kind, _IN, 0, len(address.packed)) + address.packed
            for address in addresses
        )
        head = _HEADER.pack(int.from_bytes(query[:2], "big"), _IS_RESPONSE | code, 1, len(addresses), 0, 0)
        return head + query[_HEADER.size : end + 4] + records

    def look_up(self, host: str) -> list[str]:
        """Every address of `host` as this server has it; blocks.

        Raises:
            OSError: There is no such host, or no answer, or it is no DNS.
        """
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(PATIENCE_S)
            sock.connect(("127.0.0.1", self.port))
            return [address for kind in (A, AAAA) for address in _ask(sock, host, kind)]


def _ask(sock: socket.socket, host: str, kind: int) -> list[str]:
    number = os.urandom(2)
    name = b"".join(bytes([len(label)]) + label.encode("ascii") for label in host.split(".")) + b"\0"
    sock.send(
        _HEADER.pack(int.from_bytes(number, "big"), 0x0100, 1, 0, 0, 0) + name + struct.pack("!HH", kind, _IN)
    )
    answer = sock.recv(65535)
    try:
        return _read_answer(answer, number)
    except (struct.error, IndexError, ValueError) as error:
        raise OSError(f"the answer for {host} is no DNS") from error


def _read_answer(answer: bytes, number: bytes) -> list[str]:
    got, flags, questions, count, _, _ = _HEADER.unpack_from(answer)
    if got != int.from_bytes(number, "big") or not flags & _IS_RESPONSE:
        raise ValueError("not an answer to this")
    if flags & 15:
        raise OSError(f"the server says {flags & 15}")
    at = _HEADER.size
    for _ in range(questions):
        at = _read_name(answer, at)[1] + 4
    found = []
    for _ in range(count):
        at = _read_name(answer, at)[1]
        kind, _class, _ttl, length = _ANSWER.unpack_from(answer, at)
        at += _ANSWER.size
        if kind in (A, AAAA):
            found.append(str(ipaddress.ip_address(answer[at : at + length])))
        at += length
    return found


def _read_name(message: bytes, at: int) -> tuple[str, int]:
    """The name that begins at `at`, and where it ends; a pointer ends it, unread."""
    labels: list[str] = []
    while (length := message[at]) != 0:
        if length >= 0xC0:
            return ".".join(labels), at + 2
        labels.append(message[at + 1 : at + 1 + length].decode("ascii"))
        at += 1 + length
    return ".".join(labels), at + 1
