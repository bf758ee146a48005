"""Mints and token accounts of both token programs, out of the bytes that a node gives.

Source: DESIGN.md, "10. Live realm"; state.rs of spl-token and spl-token-2022.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from solders.pubkey import Pubkey

from payd.chains.rpc_errors import BadAnswer
from payd.chains.solana.extensions import (
    Extension,
    holding_problem,
    mint_problem,
    new_holding_bytes,
    read_extensions,
)
from payd.chains.solana.keys import TOKEN, TOKEN_2022, TOKEN_PROGRAMS

State = Literal["uninitialized", "initialized", "frozen"]

MINT_BYTES: Final = 82
HOLDING_BYTES: Final = 165
# Of this length only an account of several signers is; Token-2022 pads others so that they never are.
MULTISIG_BYTES: Final = 355

# Behind 165 bytes Token-2022 says what the account is.
_IS_MINT: Final = 1
_IS_HOLDING: Final = 2

_STATES: Final[tuple[State, ...]] = ("uninitialized", "initialized", "frozen")


class Mint(msgspec.Struct, frozen=True):
    """A token. `program` is the token program that it belongs to."""

    program: Pubkey
    decimals: int
    is_initialized: bool
    extensions: tuple[Extension, ...] = ()

    def problem(self, epoch: int | None = None) -> str | None:
        """Words why payments in it are refused; None if it can be paid with exactly.

        Args:
            epoch: The chain's; None: not known, and what may count is taken to count.
        """
        if not self.is_initialized:
            return "the token is not set up"
        return mint_problem(self.extensions, epoch)

    @property
    def holding_bytes(self) -> int:
        """The size of a new associated token account of it, which its rent follows from."""
        if self.program == TOKEN:
            return HOLDING_BYTES
        return HOLDING_BYTES + 1 + new_holding_bytes(self.extensions)


class Holding(msgspec.Struct, frozen=True):
    """A token account.

    Attributes:
        amount: Smallest units that can be transferred in the open.
    """

    mint: Pubkey
    owner: Pubkey
    amount: int
    state: State
    extensions: tuple[Extension, ...] = ()

    def problem(self) -> str | None:
        """Words why it cannot take part in a plain transfer; None if it can."""
        if self.state == "frozen":
            return "the token account is frozen by the token's issuer"
        if self.state == "uninitialized":
            return "the token account is not set up"
        return holding_problem(self.extensions)


def decode_mint(owner_program: Pubkey, data: bytes) -> Mint:
    """A mint.

    Args:
        owner_program: Who owns the account.
        data: What is in it.

    Raises:
        BadAnswer: It is none.
    """
    extensions = _extensions(owner_program, data, MINT_BYTES, _IS_MINT, "mint")
    for at in (0, 46):
        _check_option(data[at : at + 4], "mint")
    if data[45] > 1:
        raise BadAnswer("a mint is neither set up nor not")
    return Mint(owner_program, data[44], data[45] == 1, extensions)


def decode_holding(owner_program: Pubkey, data: bytes) -> Holding:
    """A token account.

    Args:
        owner_program: Who owns the account.
        data: What is in it.

    Raises:
        BadAnswer: It is none.
    """
    extensions = _extensions(owner_program, data, HOLDING_BYTES, _IS_HOLDING, "token account")
    for at in (72, 109, 129):
        _check_option(data[at : at + 4], "token account")
    if data[108] >= len(_STATES):
        raise BadAnswer(f"a token account is in state {data[108]}")
    return Holding(
        mint=Pubkey(data[0:32]),
        owner=Pubkey(data[32:64]),
        amount=int.from_bytes(data[64:72], "little"),
        state=_STATES[data[108]],
        extensions=extensions,
    )


def _extensions(program: Pubkey, data: bytes, base_bytes: int, kind: int, what: str) -> tuple[Extension, ...]:
    """Those behind an account whose own part has `base_bytes`; raises where it is another kind of account."""
    if program not in TOKEN_PROGRAMS:
        raise BadAnswer(f"no {what}: the account belongs to {program}")
    if len(data) == base_bytes:
        return ()
    is_extended = program == TOKEN_2022 and len(data) > HOLDING_BYTES and len(data) != MULTISIG_BYTES
    if not is_extended or data[HOLDING_BYTES] != kind or any(data[base_bytes:HOLDING_BYTES]):
        raise BadAnswer(f"no {what}: {len(data)} bytes of {program}")
    return read_extensions(data[HOLDING_BYTES + 1 :])


def _check_option(tag: bytes, what: str) -> None:
    """Raise where the tag says neither that a value follows nor that none does."""
    if int.from_bytes(tag, "little") > 1:
        raise BadAnswer(f"a {what} has an odd field")
