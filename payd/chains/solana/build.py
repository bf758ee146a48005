"""The transaction that pays: one legacy message with everything in it, for a wallet to sign as it is.

Legacy, because wallets' own code reads it in every form; signed first by whoever of us pays the fee. The memo
stands right before a transfer, where token accounts that ask for one look for it.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import msgspec
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.message import Message
from solders.pubkey import Pubkey
from solders.signature import Signature

from payd.chains.solana.answers import SIGNATURE_BYTES, U64_MAX
from payd.chains.solana.binding import memo_of
from payd.chains.solana.keys import (
    ASSOCIATED_TOKEN,
    COMPUTE_BUDGET,
    MEMO,
    SYSTEM,
    TOKEN_2022,
    token_account,
)

# What a packet holds: signatures and message together.
TRANSACTION_BYTES_MAX: Final = 1232
# In one byte of the wire; a transaction of the size above has fewer.
SIGNATURES_MAX: Final = 127

SIGNATURE_LAMPORTS: Final = 5000
MICRO: Final = 1_000_000

SET_UNIT_LIMIT: Final = 2
SET_UNIT_PRICE: Final = 3
# What an instruction takes where a transaction sets no limit, and the most that a transaction can.
DEFAULT_UNITS: Final = 200_000
UNITS_MAX: Final = 1_400_000

_CREATE_IDEMPOTENT: Final = 1
_SYSTEM_TRANSFER: Final = 2
_TRANSFER_CHECKED: Final = 12

# Compute units of the programs before they were rewritten to take a tenth: what is not used costs next to
# nothing, what is missing costs the payment. A memo takes some 350 for each of its bytes.
_BUDGET_UNITS: Final = 150
_MEMO_UNITS: Final = 30_000
_SOL_UNITS: Final = 600
_TOKEN_UNITS: Final = 10_000
_TOKEN_2022_UNITS: Final = 25_000
_CREATE_UNITS: Final = 45_000
# For what wallets add to guard their user.
_GUARD_UNITS: Final = 30_000


class Leg(msgspec.Struct, frozen=True):
    """Who is paid, a wallet, and what, in smallest units."""

    owner: Pubkey
    amount: int


class Wanted(msgspec.Struct, frozen=True):
    """What a transaction shall do.

    Attributes:
        reference: What ties it to a payment, 32 bytes: a key that it names, and by its memo.
        buyer: Who pays, and signs.
        fee_payer: Who pays the network's fee, and the rent of what is created: the buyer or we.
        mint: The token; None: SOL.
        program: The token's program; None for SOL.
        legs: The merchant's first, then the operator's fee if there is one.
        create: Whose associated token accounts are created if they are not there.
        unit_limit: Compute units.
        unit_price: Micro-lamports for each of them.
    """

    reference: bytes
    buyer: Pubkey
    fee_payer: Pubkey
    mint: Pubkey | None
    program: Pubkey | None
    decimals: int
    legs: tuple[Leg, ...]
    create: tuple[Pubkey, ...] = ()
    unit_limit: int = DEFAULT_UNITS
    unit_price: int = 0

    @property
    def token(self) -> tuple[Pubkey, Pubkey] | None:
        """The mint and its program; None for SOL."""
        return None if self.mint is None or self.program is None else (self.mint, self.program)


def build_message(wanted: Wanted, blockhash: str) -> bytes:
    """The message that does it, legacy.

    Raises:
        ValueError: The transaction would not fit a packet, or it is no payment.
    """
    if not wanted.legs or any(not 0 < leg.amount <= U64_MAX for leg in wanted.legs):
        raise ValueError("each leg moves something")
    message = Message.new_with_blockhash(_instructions(wanted), wanted.fee_payer, Hash.from_string(blockhash))
    built = bytes(message)
    if len(unsigned(built)) > TRANSACTION_BYTES_MAX:
        raise ValueError(f"the transaction has {len(unsigned(built))} bytes")
    return built


def _instructions(wanted: Wanted) -> list[Instruction]:
    reference = AccountMeta(Pubkey(wanted.reference), is_signer=False, is_writable=False)
    memo = Instruction(MEMO, memo_of(wanted.reference).encode(), [])
    legs: list[Instruction] = []
    for place, leg in enumerate(wanted.legs):
        # Each token account of Token-2022 may ask for a memo, and means the instruction right before.
        if place == 0 or wanted.program == TOKEN_2022:
            legs.append(memo)
        legs.append(_transfer(wanted, leg, [reference] if place == 0 else []))
    return [
        set_compute_unit_limit(wanted.unit_limit),
        set_compute_unit_price(wanted.unit_price),
        *(_create(wanted, owner) for owner in wanted.create),
        *legs,
    ]


def _create(wanted: Wanted, owner: Pubkey) -> Instruction:
    """Of an associated token account; without effect where it is there and belongs to its owner."""
    if wanted.token is None:
        raise ValueError("SOL needs no token account")
    mint, program = wanted.token
    accounts = [
        AccountMeta(wanted.fee_payer, is_signer=True, is_writable=True),
        AccountMeta(token_account(owner, mint, program), is_signer=False, is_writable=True),
        *(AccountMeta(key, is_signer=False, is_writable=False) for key in (owner, mint, SYSTEM, program)),
    ]
    return Instruction(ASSOCIATED_TOKEN, bytes([_CREATE_IDEMPOTENT]), accounts)


def _transfer(wanted: Wanted, leg: Leg, references: Sequence[AccountMeta]) -> Instruction:
    if wanted.token is None:
        accounts = [
            AccountMeta(wanted.buyer, is_signer=True, is_writable=True),
            AccountMeta(leg.owner, is_signer=False, is_writable=True),
        ]
        data = struct.pack("<IQ", _SYSTEM_TRANSFER, leg.amount)
        return Instruction(SYSTEM, data, [*accounts, *references])
    mint, program = wanted.token
    accounts = [
        AccountMeta(token_account(wanted.buyer, mint, program), is_signer=False, is_writable=True),
        AccountMeta(mint, is_signer=False, is_writable=False),
        AccountMeta(token_account(leg.owner, mint, program), is_signer=False, is_writable=True),
        AccountMeta(wanted.buyer, is_signer=True, is_writable=False),
    ]
    data = struct.pack("<BQB", _TRANSFER_CHECKED, leg.amount, wanted.decimals)
    return Instruction(program, data, [*accounts, *references])


def unit_limit_for(wanted: Wanted) -> int:
    """Compute units that are enough for it, with room for what a wallet adds."""
    legs = len(wanted.legs)
    memos = legs if wanted.program == TOKEN_2022 else 1
    each = _SOL_UNITS if wanted.token is None else _TOKEN_UNITS
    if wanted.program == TOKEN_2022:
        each = _TOKEN_2022_UNITS
    used = 2 * _BUDGET_UNITS + memos * _MEMO_UNITS + legs * each + len(wanted.create) * _CREATE_UNITS
    return min(used + _GUARD_UNITS, UNITS_MAX)


def lamports_max(wanted: Wanted, rent: int) -> int:
    """What landing costs the fee payer at most, besides what is paid.

    Args:
        wanted: What is built.
        rent: Lamports of one token account.
    """
    signers = len({wanted.buyer, wanted.fee_payer})
    return network_fee(signers, wanted.unit_limit, wanted.unit_price) + len(wanted.create) * rent


def network_fee(signatures: int, unit_limit: int, unit_price: int) -> int:
    """Lamports that the chain takes: for each signature, and for the compute units that may be used."""
    return signatures * SIGNATURE_LAMPORTS + -(-unit_limit * unit_price // MICRO)


def fee_of(message: bytes) -> int:
    """Lamports that the chain takes for a built message, whoever changed its compute budget.

    Raises:
        ValueError: It is no legacy message.
    """
    read = Message.from_bytes(message)
    limit, price = None, 0
    for one in read.instructions:
        if read.account_keys[one.program_id_index] != COMPUTE_BUDGET:
            continue
        if one.data[:1] == bytes([SET_UNIT_LIMIT]):
            limit = int.from_bytes(one.data[1:5], "little")
        elif one.data[:1] == bytes([SET_UNIT_PRICE]):
            price = int.from_bytes(one.data[1:9], "little")
    units = DEFAULT_UNITS * len(read.instructions) if limit is None else limit
    return network_fee(read.header.num_required_signatures, min(units, UNITS_MAX), price)


def unsigned(message: bytes) -> bytes:
    """A transaction as it goes over the wire, with empty signatures around a legacy message."""
    return _wire([bytes(SIGNATURE_BYTES)] * message[0], message)


def with_signature(raw: bytes, signer: Pubkey, signature: bytes) -> bytes:
    """The transaction with the signature of one of its signers.

    Raises:
        ValueError: It is not one of them.
    """
    signatures, message = split(raw)
    Signature.from_bytes(signature)
    keys = Message.from_bytes(message).signer_keys()
    if signer not in keys:
        raise ValueError(f"{signer} does not sign this")
    signatures[keys.index(signer)] = signature
    return _wire(signatures, message)


def split(raw: bytes) -> tuple[list[bytes], bytes]:
    """The signatures of a transaction as it goes over the wire, and its message.

    Raises:
        ValueError: It has none, or ends in the middle of them.
    """
    count = raw[0] if raw else 0
    end = 1 + count * SIGNATURE_BYTES
    if not 0 < count <= SIGNATURES_MAX or len(raw) <= end:
        raise ValueError("no transaction with signatures")
    return [raw[at : at + SIGNATURE_BYTES] for at in range(1, end, SIGNATURE_BYTES)], raw[end:]


def _wire(signatures: Sequence[bytes], message: bytes) -> bytes:
    return bytes([len(signatures)]) + b"".join(signatures) + message
