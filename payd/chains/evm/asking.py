"""Asking a chain's nodes for something that has to be answered, and what their answers are worth.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from payd.chains.evm.codec import from_data, to_data
from payd.chains.rpc import Call, RpcError
from payd.chains.rpc_errors import BadAnswer

T = TypeVar("T")

# What a token says of a refusal, for people; a node may append a whole trace.
SAID_CHARS_MAX: Final = 120
_PREFIXES: Final = ("execution reverted", "vm execution error", "reverted", "revert")
# Some nodes report so, and not as a revert, that a contract broke off.
_BROKEN_OFF: Final = ("invalid opcode", "out of gas", "stack underflow", "bad jump destination")


def eth_call(to: str, data: bytes, *, sender: str | None = None) -> Call:
    """A call of a contract that changes nothing, on the newest block."""
    transaction = {"to": to, "data": to_data(data)}
    if sender is not None:
        transaction["from"] = sender
    return ("eth_call", transaction, "latest")


def decoded(result: object, decode: Callable[[bytes], T]) -> T | None:
    """What a call of a contract returned; None where the contract refused it, or returned something else."""
    if isinstance(result, RpcError):
        return None
    try:
        return decode(from_data(result))
    except BadAnswer:
        return None


def refused_by_contract(result: object) -> bool:
    """Whether the contract itself refused a call, as against a node that could not carry it out."""
    if not isinstance(result, RpcError):
        return False
    words = result.message.lower()
    return result.is_revert or any(part in words for part in _BROKEN_OFF)


def said(error: RpcError) -> str:
    """The contract's words in a refusal, fit to be shown; empty where it has none."""
    words = error.message
    prefix = next((one for one in _PREFIXES if words.lower().startswith(one)), "")
    words = words[len(prefix) :]
    words = "".join(letter if letter.isprintable() else " " for letter in words).strip(" :.,")
    return words[:SAID_CHARS_MAX]
