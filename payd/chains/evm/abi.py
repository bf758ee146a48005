"""Calldata of the contract calls that payd makes, and what they return.

Calls are written by `eth_abi`. Returns are read by hand, because they are a node's word: each has a fixed
shape and a bound, where a general decoder follows any pointer it is given.

Source: DESIGN.md, "10. Live realm"; EIP-20; EIP-1271.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from eth_abi.abi import encode

from payd.chains.evm.codec import WORD_BYTES, keccak256
from payd.chains.rpc_errors import BadAnswer

# At the same address on every chain that has it.
MULTICALL3: Final = "0xca11bde05977b3631167028862be2a173976ca11"

# Names are a few words; a longer one is not shown to anybody.
TEXT_BYTES_MAX: Final = 256
# A balance, a flag, a short text. What a call in an aggregate returns beyond that is nothing payd reads.
RETURN_BYTES_MAX: Final = 1024


class Call(NamedTuple):
    """A call inside an aggregate. Where it may fail, the others go on."""

    target: str
    data: bytes
    may_fail: bool = True


class Returned(NamedTuple):
    """What a call inside an aggregate did."""

    success: bool
    data: bytes


def balance_of_call(owner: str) -> bytes:
    """`balanceOf(owner)` of a token: a uint."""
    return call("balanceOf", ["address"], owner)


def decimals_call() -> bytes:
    """`decimals()` of a token: a uint."""
    return call("decimals", [])


def domain_separator_call() -> bytes:
    """`DOMAIN_SEPARATOR()` of a token: a word."""
    return call("DOMAIN_SEPARATOR", [])


def authorization_state_call(authorizer: str, nonce: bytes) -> bytes:
    """`authorizationState(authorizer, nonce)` of an EIP-3009 token: a bool, true once used or cancelled."""
    return call("authorizationState", ["address", "bytes32"], authorizer, nonce)


def is_valid_signature_call(digest: bytes, signature: bytes) -> bytes:
    """`isValidSignature(digest, signature)` of a smart wallet: its selector in a word where it signed."""
    return call("isValidSignature", ["bytes32", "bytes"], digest, signature)


def eth_balance_call(owner: str) -> bytes:
    """`getEthBalance(owner)` of `MULTICALL3`: a uint, so that coins are read with tokens in one call."""
    return call("getEthBalance", ["address"], owner)


def aggregate3_call(calls: Sequence[Call]) -> bytes:
    """`aggregate3(calls)` of `MULTICALL3`: see `decode_aggregate3`."""
    rows = [(each.target, each.may_fail, each.data) for each in calls]
    return call("aggregate3", ["(address,bool,bytes)[]"], rows)


def call(name: str, types: Sequence[str], *arguments: object) -> bytes:
    """Calldata of `name(types)`; addresses in lower case.

    Raises:
        eth_abi.exceptions.EncodingError: An argument is not of its type.
    """
    selector = keccak256(f"{name}({','.join(types)})".encode())[:4]
    return selector + encode(types, arguments)


def decode_word(data: bytes) -> bytes:
    """A return of one word.

    Raises:
        BadAnswer: It is not 32 bytes. An account without code returns nothing at all.
    """
    if len(data) != WORD_BYTES:
        raise BadAnswer(f"a call returned {len(data)} bytes, not one word")
    return data


def decode_uint(data: bytes) -> int:
    """A return of one unsigned number.

    Raises:
        BadAnswer: It is none.
    """
    return int.from_bytes(decode_word(data), "big")


def decode_bool(data: bytes) -> bool:
    """A return of one truth value.

    Raises:
        BadAnswer: It is none.
    """
    number = decode_uint(data)
    if number > 1:
        raise BadAnswer("a call returned neither true nor false")
    return number == 1


def decode_text(data: bytes) -> str:
    """A return of one string.

    Raises:
        BadAnswer: It is none, is longer than `TEXT_BYTES_MAX`, or is not UTF-8.
    """
    try:
        return _dynamic(data, 0, 0, TEXT_BYTES_MAX).decode()
    except UnicodeDecodeError:
        raise BadAnswer("a call returned a text that is not UTF-8") from None


def decode_aggregate3(data: bytes, count: int) -> tuple[Returned, ...]:
    """A return of `aggregate3` with `count` calls, in their order.

    Raises:
        BadAnswer: It is none, or a call returned more than `RETURN_BYTES_MAX`.
    """
    rows = _word(data, 0)
    if _word(data, rows) != count:
        raise BadAnswer("an aggregate returned another number of calls than it was given")
    first = rows + WORD_BYTES
    return tuple(_returned(data, first + _word(data, first + place * WORD_BYTES)) for place in range(count))


def _returned(data: bytes, at: int) -> Returned:
    success = _word(data, at)
    if success > 1:
        raise BadAnswer("a call in an aggregate neither succeeded nor failed")
    return Returned(success == 1, _dynamic(data, at, at + WORD_BYTES, RETURN_BYTES_MAX))


def _dynamic(data: bytes, base: int, at: int, length_max: int) -> bytes:
    """The bytes that the word at `at` points to, counted from `base`."""
    start = base + _word(data, at)
    length = _word(data, start)
    found = data[start + WORD_BYTES : start + WORD_BYTES + min(length, length_max)]
    if len(found) != length:
        raise BadAnswer(
            f"a call returned bytes of a length of {min(length, len(data) + 1)} that it may not have"
        )
    return found


def _word(data: bytes, at: int) -> int:
    word = data[at : at + WORD_BYTES]
    if len(word) != WORD_BYTES:
        raise BadAnswer("a call returned less than it points to")
    return int.from_bytes(word, "big")
