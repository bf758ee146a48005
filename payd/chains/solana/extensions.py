"""Extensions of Token-2022: what is written behind a mint and a token account, and which of them we take.

A payment moves the exact amount or is not offered. So each extension has a rule, in one table, and one that
is not in it is refused: nobody knows what it does to a transfer.

Source: DESIGN.md, "10. Live realm"; enum ExtensionType of spl-token-2022.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

import msgspec

from payd.chains.rpc_errors import BadAnswer

# A type and a length, of two bytes each, stand before each extension.
HEAD_BYTES: Final = 4
# More than there are kinds of them; each is there once.
EXTENSIONS_MAX: Final = 64

_FROZEN: Final = 2
_KEY_BYTES: Final = 32


class Kind(IntEnum):
    """Every extension by its number."""

    TRANSFER_FEE_CONFIG = 1
    TRANSFER_FEE_AMOUNT = 2
    MINT_CLOSE_AUTHORITY = 3
    CONFIDENTIAL_TRANSFER_MINT = 4
    CONFIDENTIAL_TRANSFER_ACCOUNT = 5
    DEFAULT_ACCOUNT_STATE = 6
    IMMUTABLE_OWNER = 7
    MEMO_TRANSFER = 8
    NON_TRANSFERABLE = 9
    INTEREST_BEARING_CONFIG = 10
    CPI_GUARD = 11
    PERMANENT_DELEGATE = 12
    NON_TRANSFERABLE_ACCOUNT = 13
    TRANSFER_HOOK = 14
    TRANSFER_HOOK_ACCOUNT = 15
    CONFIDENTIAL_TRANSFER_FEE_CONFIG = 16
    CONFIDENTIAL_TRANSFER_FEE_AMOUNT = 17
    METADATA_POINTER = 18
    TOKEN_METADATA = 19
    GROUP_POINTER = 20
    TOKEN_GROUP = 21
    GROUP_MEMBER_POINTER = 22
    TOKEN_GROUP_MEMBER = 23
    CONFIDENTIAL_MINT_BURN = 24
    SCALED_UI_AMOUNT = 25
    PAUSABLE = 26
    PAUSABLE_ACCOUNT = 27
    PERMISSIONED_BURN = 28


class Extension(msgspec.Struct, frozen=True):
    """One of them as it is written: `kind` may be a number that is not in `Kind`."""

    kind: int
    data: bytes


Rule: TypeAlias = Callable[[bytes, int | None], str | None]
"""Words why payments are refused, of the extension's data and the chain's epoch (None: not known)."""


class _Known(NamedTuple):
    """`size` is that of its data; None: it varies."""

    size: int | None
    rule: Rule


def read_extensions(data: bytes) -> tuple[Extension, ...]:
    """What is written behind the type byte of a mint or a token account.

    Raises:
        BadAnswer: It cannot be read to its end, or has a kind twice.
    """
    found: list[Extension] = []
    at = 0
    while len(data) - at >= 2 and (kind := int.from_bytes(data[at : at + 2], "little")) != 0:
        end = at + HEAD_BYTES + int.from_bytes(data[at + 2 : at + HEAD_BYTES], "little")
        if len(data) < max(end, at + HEAD_BYTES) or len(found) == EXTENSIONS_MAX:
            raise BadAnswer(f"the extension {kind} of a token does not end where it says")
        found.append(Extension(kind, data[at + HEAD_BYTES : end]))
        at = end
    if len({one.kind for one in found}) != len(found):
        raise BadAnswer("a token has an extension twice")
    return tuple(found)


def mint_problem(extensions: Iterable[Extension], epoch: int | None) -> str | None:
    """Words why payments in a token with these are refused; None if it can be paid with exactly.

    Args:
        extensions: Of its mint.
        epoch: The chain's; None: not known, and what may count is taken to count.
    """
    return _problem(_MINT, extensions, epoch, "the token")


def holding_problem(extensions: Iterable[Extension]) -> str | None:
    """Words why a token account with these cannot receive a plain transfer; None if it can."""
    return _problem(_HOLDING, extensions, None, "the token account")


def _problem(
    known: dict[Kind, _Known], extensions: Iterable[Extension], epoch: int | None, what: str
) -> str | None:
    for one in extensions:
        if one.kind not in known:
            return f"{what} has an extension that payd does not know: {_name(one.kind)}"
        size, rule = known[Kind(one.kind)]
        if size is not None and len(one.data) != size:
            return f"{what} has an extension of an unknown form: {_name(one.kind)}"
        if words := rule(one.data, epoch):
            return f"{what} {words}"
    return None


def _name(kind: int) -> str:
    return Kind(kind).name.lower().replace("_", " ") if kind in set(Kind) else f"number {kind}"


def _fine(data: bytes, epoch: int | None) -> str | None:
    return None


def _refused(words: str) -> Rule:
    return lambda data, epoch: words


def _no_fee(data: bytes, epoch: int | None) -> str | None:
    """Two authorities, what is withheld, the older fee, and the newer, which counts from its epoch on."""
    older, newer = data[72:90], data[90:108]
    since = int.from_bytes(newer[:8], "little")
    counts = [newer] if epoch is not None and epoch >= since else [older, newer]
    return "takes a fee of each transfer" if any(_takes(fee) for fee in counts) else None


def _takes(fee: bytes) -> bool:
    most, basis_points = int.from_bytes(fee[8:16], "little"), int.from_bytes(fee[16:18], "little")
    return most > 0 and basis_points > 0


def _not_frozen(data: bytes, epoch: int | None) -> str | None:
    return "freezes each new account until its issuer has thawed it" if data[0] == _FROZEN else None


def _no_hook(data: bytes, epoch: int | None) -> str | None:
    return "calls a program of its issuer at each transfer" if any(data[_KEY_BYTES:]) else None


def _not_paused(data: bytes, epoch: int | None) -> str | None:
    return "is paused by its issuer" if data[_KEY_BYTES] else None


def _takes_plain_transfers(data: bytes, epoch: int | None) -> str | None:
    return None if data[_ALLOWS_PLAIN_AT] else "takes confidential transfers only"


# Behind: approved, a key, three encrypted balances, one that its owner can decrypt, takes confidential ones.
_ALLOWS_PLAIN_AT: Final = 1 + 32 + 3 * 64 + 36 + 1

_NOT_TRANSFERABLE: Final = _refused("cannot be transferred")
_SHOWN_OTHERWISE: Final = _refused("is shown in other amounts than those that move")

_MINT: Final = {
    Kind.TRANSFER_FEE_CONFIG: _Known(108, _no_fee),
    # A mint is closed only when nobody holds any of it.
    Kind.MINT_CLOSE_AUTHORITY: _Known(32, _fine),
    # Transfers in the open stay what they are.
    Kind.CONFIDENTIAL_TRANSFER_MINT: _Known(65, _fine),
    Kind.CONFIDENTIAL_TRANSFER_FEE_CONFIG: _Known(129, _fine),
    Kind.CONFIDENTIAL_MINT_BURN: _Known(None, _refused("moves confidentially only")),
    Kind.DEFAULT_ACCOUNT_STATE: _Known(1, _not_frozen),
    Kind.NON_TRANSFERABLE: _Known(0, _NOT_TRANSFERABLE),
    Kind.INTEREST_BEARING_CONFIG: _Known(52, _SHOWN_OTHERWISE),
    Kind.SCALED_UI_AMOUNT: _Known(56, _SHOWN_OTHERWISE),
    # What an issuer can take back is like what it can freeze: every regulated stablecoin has one of the two.
    Kind.PERMANENT_DELEGATE: _Known(32, _fine),
    Kind.TRANSFER_HOOK: _Known(64, _no_hook),
    Kind.PAUSABLE: _Known(33, _not_paused),
    Kind.PERMISSIONED_BURN: _Known(32, _fine),
    Kind.METADATA_POINTER: _Known(64, _fine),
    Kind.TOKEN_METADATA: _Known(None, _fine),
    Kind.GROUP_POINTER: _Known(64, _fine),
    Kind.TOKEN_GROUP: _Known(80, _fine),
    Kind.GROUP_MEMBER_POINTER: _Known(64, _fine),
    Kind.TOKEN_GROUP_MEMBER: _Known(72, _fine),
}

_HOLDING: Final = {
    Kind.TRANSFER_FEE_AMOUNT: _Known(8, _fine),
    Kind.CONFIDENTIAL_TRANSFER_ACCOUNT: _Known(295, _takes_plain_transfers),
    Kind.CONFIDENTIAL_TRANSFER_FEE_AMOUNT: _Known(64, _fine),
    Kind.IMMUTABLE_OWNER: _Known(0, _fine),
    Kind.MEMO_TRANSFER: _Known(1, _fine),  # what we build has a memo
    Kind.NON_TRANSFERABLE_ACCOUNT: _Known(0, _NOT_TRANSFERABLE),
    Kind.CPI_GUARD: _Known(1, _fine),  # what we build is not called by a program
    Kind.TRANSFER_HOOK_ACCOUNT: _Known(1, _fine),  # the mint says whether it has a program
    Kind.PAUSABLE_ACCOUNT: _Known(0, _fine),  # the mint says whether it is paused
}

# What a new token account gets because of its mint, besides `IMMUTABLE_OWNER`.
FOLLOWING: Final = {
    Kind.TRANSFER_FEE_CONFIG: Kind.TRANSFER_FEE_AMOUNT,
    Kind.NON_TRANSFERABLE: Kind.NON_TRANSFERABLE_ACCOUNT,
    Kind.TRANSFER_HOOK: Kind.TRANSFER_HOOK_ACCOUNT,
    Kind.PAUSABLE: Kind.PAUSABLE_ACCOUNT,
}


def new_holding_bytes(extensions: Iterable[Extension]) -> int:
    """Bytes of extensions behind a new associated token account of a mint with these."""
    kinds = [Kind.IMMUTABLE_OWNER] + [
        after for kind, after in FOLLOWING.items() if kind in _kinds(extensions)
    ]
    return sum(HEAD_BYTES + (_HOLDING[kind].size or 0) for kind in kinds)


def _kinds(extensions: Iterable[Extension]) -> set[int]:
    return {one.kind for one in extensions}
