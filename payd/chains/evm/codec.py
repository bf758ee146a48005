"""The texts of an EVM node: quantities, bytes, addresses and hashes, read strictly and written in one form.

A node's answer is somebody else's word. Whatever it is, reading it ends with a value in its bounds or with
`BadAnswer`. Inside, an address is `0x` and 40 lower-case digits, a hash `0x` and 64, and data are bytes.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from Crypto.Hash import keccak

from payd.chains.rpc_errors import BadAnswer

WORD_BYTES: Final = 32
ADDRESS_BYTES: Final = 20
ZERO_ADDRESS: Final = "0x" + "00" * ADDRESS_BYTES

UINT256_MAX: Final = 2**256 - 1
# What has to fit a column of the store: block numbers, times, places, gas.
COUNT_MAX: Final = 2**63 - 1

# The spelling with leading zeros is not a node's by the specification, but it is nobody's lie either.
_QUANTITY: Final = re.compile("0x[0-9a-fA-F]{1,64}")
_DATA: Final = re.compile("0x(?:[0-9a-fA-F]{2})*")
_ADDRESS: Final = re.compile("0x[0-9a-fA-F]{40}")
_HASH: Final = re.compile("0x[0-9a-fA-F]{64}")
_SHOWN_MAX: Final = 40


def keccak256(data: bytes) -> bytes:
    """Keccak-256, 32 bytes."""
    return keccak.new(data=data, digest_bits=256).digest()


def to_quantity(value: int) -> str:
    """A number as a node takes it: `0x1f4`.

    Raises:
        ValueError: It is negative or has more than 256 bits.
    """
    if not 0 <= value <= UINT256_MAX:
        raise ValueError("a quantity has 256 bits and no sign")
    return hex(value)


def to_data(data: bytes) -> str:
    """Bytes as a node takes them: `0xa9059cbb…`."""
    return "0x" + data.hex()


def from_quantity(answer: object, what: str = "the answer") -> int:
    """The number that a node wrote, of 256 bits at most.

    Raises:
        BadAnswer: It is none.
    """
    return int(_matched(_QUANTITY, answer, what, "a quantity"), 16)


def from_count(answer: object, what: str = "the answer") -> int:
    """A number that fits 63 bits: of a block, a second, a place, or units of gas.

    Raises:
        BadAnswer: It is none, or a larger one.
    """
    count = from_quantity(answer, what)
    if count > COUNT_MAX:
        raise BadAnswer(f"{what} is out of bounds: {_shown(answer)}")
    return count


def from_data(answer: object, what: str = "the answer") -> bytes:
    """The bytes that a node wrote, maybe none.

    Raises:
        BadAnswer: It is not `0x` and pairs of hex digits.
    """
    return bytes.fromhex(_matched(_DATA, answer, what, "data in hex")[2:])


def from_address(answer: object, what: str = "the answer") -> str:
    """The address, in lower case.

    Raises:
        BadAnswer: It is none.
    """
    return _matched(_ADDRESS, answer, what, "an address").lower()


def from_hash(answer: object, what: str = "the answer") -> str:
    """The hash of a block or a transaction, in lower case.

    Raises:
        BadAnswer: It is none.
    """
    return _matched(_HASH, answer, what, "a hash").lower()


def from_object(answer: object, what: str = "the answer") -> dict[str, Any]:
    """The JSON object.

    Raises:
        BadAnswer: It is none.
    """
    if not isinstance(answer, dict):
        raise BadAnswer(f"{what} is not an object: {_shown(answer)}")
    return answer


def from_list(answer: object, what: str = "the answer") -> Sequence[object]:
    """The JSON list.

    Raises:
        BadAnswer: It is none.
    """
    if not isinstance(answer, list):
        raise BadAnswer(f"{what} is not a list: {_shown(answer)}")
    return answer


def address_of_word(word: bytes) -> str | None:
    """The address in a word of the ABI; None where the word is more than an address."""
    padding = WORD_BYTES - ADDRESS_BYTES
    if len(word) != WORD_BYTES or any(word[:padding]):
        return None
    return to_data(word[padding:])


def word_of_address(address: str) -> bytes:
    """An address as a word of the ABI, which is also how a topic holds it."""
    return bytes.fromhex(address[2:]).rjust(WORD_BYTES, b"\0")


def word_of_uint(value: int) -> bytes:
    """A number as a word of the ABI."""
    return value.to_bytes(WORD_BYTES, "big")


def _matched(pattern: re.Pattern[str], answer: object, what: str, kind: str) -> str:
    if not isinstance(answer, str) or pattern.fullmatch(answer) is None:
        raise BadAnswer(f"{what} is not {kind}: {_shown(answer)}")
    return answer


def _shown(answer: object) -> str:
    """The beginning of an answer: it ends up in a log, and a node may send anything."""
    text = ascii(answer) if isinstance(answer, str | int | float | None) else type(answer).__name__
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…"
