"""What a wallet gives back for a transaction that we handed out: the same one, signed, or it is refused.

The door to our purse and to the merchant's money. The message is byte for byte the one that we built, or that
one with guards: then each account keeps its rights and each instruction of ours its place, accounts and data.
What a wallet may add only reads, and what it may change is what the buyer spends on the network's fee, or the
units for its guards where we pay that.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import base64
from collections import deque
from typing import Final, NamedTuple

import msgspec
from solders.hash import Hash
from solders.message import Message
from solders.pubkey import Pubkey
from solders.signature import Signature

from payd.chains.solana import build
from payd.chains.solana.answers import SIGNATURE_BYTES
from payd.chains.solana.build import TRANSACTION_BYTES_MAX, UNITS_MAX, fee_of, split, with_signature
from payd.chains.solana.guards import GuardLimits, guard_problem
from payd.chains.solana.keys import COMPUTE_BUDGET, LIGHTHOUSE
from payd.core.errors import InvalidParams, InvalidSignature

# Base64 of the largest transaction.
TEXT_MAX: Final = -(-TRANSACTION_BYTES_MAX // 3) * 4

_VOID: Final = bytes(SIGNATURE_BYTES)
_IS_VERSIONED: Final = 0x80
_CHANGED: Final = "the wallet changed the transaction"


class Returned(msgspec.Struct, frozen=True):
    """A transaction that the buyer has signed, and that does what we asked for.

    Attributes:
        raw: As it goes over the wire; the fee payer's signature is empty where it is missing.
        message: What is signed.
        tx_id: Its first signature, base58; None while we, the fee payer, have yet to sign it.
        fee: Lamports that the chain takes.
    """

    raw: bytes
    message: bytes
    tx_id: str | None
    fee: int


class _Instruction(NamedTuple):
    program: Pubkey
    accounts: tuple[Pubkey, ...]
    data: bytes


class _Read(NamedTuple):
    """A legacy message, whole and in bounds. `rights`: of each account, whether it signs and is written."""

    payer: Pubkey
    blockhash: Hash
    rights: dict[Pubkey, tuple[bool, bool]]
    instructions: list[_Instruction]


def check_returned(
    handed_out: bytes, text: str, buyer: Pubkey, fee_payer: Pubkey | None, limits: GuardLimits
) -> Returned:
    """What the wallet gave back, if it is what we handed out.

    Args:
        handed_out: The transaction that the wallet was asked to sign.
        text: What it answered: base64.
        buyer: Who pays, and must have signed.
        fee_payer: Us, if we pay the network's fee; None: the buyer does.
        limits: What the wallet may add.

    Raises:
        InvalidParams: It is no transaction, or another one; the message says in what.
        InvalidSignature: The buyer has not signed it, or our own signature was replaced.
    """
    ours, built = split(handed_out)
    was = _read(built)
    if was.payer != (fee_payer or buyer):
        raise ValueError(f"{was.payer} was to pay the fee")
    raw = _decoded(text)
    signatures, message = _split(raw)
    if message != built:
        _check_changes(was, _read(message), fee_payer, limits)
    # From here on the signers are the same ones, in an order that may differ behind the first.
    if len(signatures) != len(ours):
        raise InvalidParams(f"the transaction has {len(signatures)} signatures, not {len(ours)}")
    keys = Message.from_bytes(message).signer_keys()
    _check_buyer(signatures[keys.index(buyer)], buyer, message)
    if fee_payer is not None and not _is_signed(signatures[0], fee_payer, message):
        if signatures[0] not in (_VOID, ours[0]):
            raise InvalidSignature("the signature of the fee payer was replaced")
        signature = ours[0] if message == built else _VOID
        raw = with_signature(raw, fee_payer, signature)
        signatures[0] = signature
    return Returned(
        raw=raw,
        message=message,
        tx_id=None if signatures[0] == _VOID else str(Signature.from_bytes(signatures[0])),
        fee=fee_of(message),
    )


def _check_buyer(signature: bytes, buyer: Pubkey, message: bytes) -> None:
    if signature == _VOID:
        raise InvalidSignature(f"{buyer} has not signed the transaction")
    if not _is_signed(signature, buyer, message):
        raise InvalidSignature(f"the signature of {buyer} is not one of this transaction")


def _is_signed(signature: bytes, signer: Pubkey, message: bytes) -> bool:
    return Signature.from_bytes(signature).verify(signer, message)


def _decoded(text: str) -> bytes:
    if len(text) > TEXT_MAX:
        raise InvalidParams(f"a transaction has at most {TRANSACTION_BYTES_MAX} bytes")
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        raise InvalidParams("the result must be the signed transaction in base64") from None
    if len(raw) > TRANSACTION_BYTES_MAX:
        raise InvalidParams(f"a transaction has at most {TRANSACTION_BYTES_MAX} bytes")
    return raw


def _split(raw: bytes) -> tuple[list[bytes], bytes]:
    try:
        return split(raw)
    except ValueError:
        raise InvalidParams("the result is no signed transaction") from None


def _read(message: bytes) -> _Read:
    """A message as accounts with rights and instructions with accounts.

    Raises:
        InvalidParams: It is not a legacy message that a node takes.
    """
    if message[0] & _IS_VERSIONED:
        raise InvalidParams(
            "the wallet must sign the legacy transaction that it was given, not a versioned one"
        )
    try:
        read = Message.from_bytes(message)
    except ValueError:
        raise InvalidParams("the result is no transaction") from None
    header, keys = read.header, read.account_keys
    signers = header.num_required_signatures
    writable_signers = signers - header.num_readonly_signed_accounts
    writable_end = len(keys) - header.num_readonly_unsigned_accounts
    if bytes(read) != message or len(set(keys)) != len(keys):
        raise InvalidParams("the result is no transaction that a node takes")
    if not 0 < writable_signers <= signers <= writable_end:
        raise InvalidParams("the result has an impossible header")
    indexes = [(one.program_id_index, *one.accounts) for one in read.instructions]
    if any(max(of_one) >= len(keys) for of_one in indexes):
        raise InvalidParams("an instruction of the result names an account that is not there")
    return _Read(
        payer=keys[0],
        blockhash=read.recent_blockhash,
        rights={
            key: (at < signers, at < writable_signers or signers <= at < writable_end)
            for at, key in enumerate(keys)
        },
        instructions=[
            _Instruction(keys[program], tuple(keys[at] for at in accounts), bytes(one.data))
            for one, (program, *accounts) in zip(read.instructions, indexes, strict=True)
        ],
    )


def _check_changes(built: _Read, got: _Read, fee_payer: Pubkey | None, limits: GuardLimits) -> None:
    """Whether one is the other with guards.

    Raises:
        InvalidParams: It is not.
    """
    if got.payer != built.payer:
        raise InvalidParams(f"{_CHANGED}: another account pays its fee")
    if got.blockhash != built.blockhash:
        raise InvalidParams(f"{_CHANGED}: it has another blockhash")
    guards = _check_instructions(built, got, fee_payer, limits)
    if len(guards) > limits.count_max:
        raise InvalidParams(f"{_CHANGED}: {len(guards)} guards were added; {limits.count_max} may be")
    for guard in guards:
        if problem := guard_problem(guard.data, guard.accounts, fee_payer):
            raise InvalidParams(f"{_CHANGED}: {problem}")
    _check_rights(built, got, guards)


def _check_instructions(
    built: _Read, got: _Read, fee_payer: Pubkey | None, limits: GuardLimits
) -> list[_Instruction]:
    """The guards, once all instructions of ours are found to be there, in their order, with nothing else."""
    has_guards = any(one.program == LIGHTHOUSE for one in got.instructions)
    units = limits.units_added_max if has_guards else 0
    left, guards = deque(built.instructions), []
    for one in got.instructions:
        if one.program == LIGHTHOUSE:
            guards.append(one)
        elif left and (
            one == left[0] or _is_other_budget(left[0], one, units, fee_payer is None, limits.unit_price_max)
        ):
            left.popleft()
        else:
            raise InvalidParams(f"{_CHANGED}: an instruction of {one.program} was added, changed or moved")
    if left:
        raise InvalidParams(f"{_CHANGED}: an instruction of {left[0].program} is missing")
    return guards


def _is_other_budget(
    built: _Instruction, got: _Instruction, units: int, buyer_pays: bool, price_max: int
) -> bool:
    """Whether both are the same setting of the compute budget, and the new value is one that may be."""
    if not (built.program == got.program == COMPUTE_BUDGET) or got.accounts:
        return False
    if len(built.data) != len(got.data) or built.data[:1] != got.data[:1]:
        return False
    before, after = (int.from_bytes(one.data[1:], "little") for one in (built, got))
    match built.data[0]:
        case build.SET_UNIT_LIMIT:
            return before <= after <= (UNITS_MAX if buyer_pays else before + units)
        case build.SET_UNIT_PRICE:
            return buyer_pays and after <= price_max
    return False


def _check_rights(built: _Read, got: _Read, guards: list[_Instruction]) -> None:
    for key, rights in built.rights.items():
        if got.rights.get(key) != rights:
            raise InvalidParams(f"{_CHANGED}: the rights of {key} are others")
    named = {LIGHTHOUSE, *(key for guard in guards for key in guard.accounts)}
    for key in got.rights.keys() - built.rights.keys():
        if got.rights[key] != (False, False):
            raise InvalidParams(f"{_CHANGED}: {key} was added, and not only to be read")
        if key not in named:
            raise InvalidParams(f"{_CHANGED}: {key} was added, and no guard reads it")
