"""Solana transactions for a wallet to sign in the test realm: legacy messages, written byte by byte.

They have the shape of real ones (a wallet's library reads them), but a blockhash that no cluster ever had, so
that nothing signed in a test can land anywhere.

Source: DESIGN.md, "9. Test realm".
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Final

import base58
import msgspec

from payd.core.caip import SOLANA_KEY_CHARS_MAX

KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
U64_MAX: Final = 2**64 - 1

# A Solana packet: no signed transaction can be longer, whatever a wallet adds.
TRANSACTION_BYTES_MAX: Final = 1232

_SYSTEM: Final = bytes(KEY_BYTES)
_TOKEN: Final = base58.b58decode("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA")
_TOKEN_2022: Final = base58.b58decode("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb")
_ASSOCIATED_TOKEN: Final = base58.b58decode("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL")
_MEMO: Final = base58.b58decode("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")

_SYSTEM_TRANSFER: Final = 2
_TOKEN_TRANSFER_CHECKED: Final = 12

# Ed25519: the field's prime and the curve's constant d (RFC 8032, section 5.1).
_P: Final = 2**255 - 19
_D: Final = -121665 * pow(121666, -1, _P) % _P


class Meta(msgspec.Struct, frozen=True):
    """An account of an instruction, and what the instruction may do with it."""

    key: bytes
    signer: bool = False
    writable: bool = False


class Instruction(msgspec.Struct, frozen=True):
    """One call of a program."""

    program: bytes
    metas: tuple[Meta, ...]
    data: bytes


class SplToken(msgspec.Struct, frozen=True):
    """A token and what its transfer states about it."""

    mint: bytes
    decimals: int
    token_2022: bool = False


def decode_key(text: str) -> bytes | None:
    """The 32 bytes of a base58 key; None when it is none."""
    # The decoder passes over blanks at the end: the same key in another spelling.
    if len(text) > SOLANA_KEY_CHARS_MAX or not text.isalnum():
        return None
    try:
        key = base58.b58decode(text)
    except ValueError:
        return None
    return key if len(key) == KEY_BYTES else None


def transfer_transaction(
    buyer: bytes, destination: bytes, amount: int, token: SplToken | None, *, tag: bytes, blockhash: bytes
) -> str:
    """An unsigned transfer from buyer to destination, with the buyer as fee payer, in base64.

    Args:
        buyer: Key that signs and pays.
        destination: Key of the receiving wallet; tokens go to its associated token account.
        amount: Lamports, or minor units of the token; at most `U64_MAX`.
        token: None for lamports.
        tag: 32 bytes that bind the transfer to its payment: the reference key and, in hex, the memo.
        blockhash: 32 bytes.
    """
    reference = Meta(tag)
    if token is None:
        transfer = Instruction(
            _SYSTEM,
            (Meta(buyer, signer=True, writable=True), Meta(destination, writable=True), reference),
            _SYSTEM_TRANSFER.to_bytes(4, "little") + amount.to_bytes(8, "little"),
        )
    else:
        program = _TOKEN_2022 if token.token_2022 else _TOKEN
        transfer = Instruction(
            program,
            (
                Meta(token_account(buyer, token.mint, program), writable=True),
                Meta(token.mint),
                Meta(token_account(destination, token.mint, program), writable=True),
                Meta(buyer, signer=True),
                reference,
            ),
            bytes([_TOKEN_TRANSFER_CHECKED]) + amount.to_bytes(8, "little") + bytes([token.decimals]),
        )
    message = legacy_message(buyer, (transfer, Instruction(_MEMO, (), tag.hex().encode())), blockhash)
    signatures = compact_u16(1) + bytes(SIGNATURE_BYTES)
    return base64.b64encode(signatures + message).decode()


def legacy_message(payer: bytes, instructions: Sequence[Instruction], blockhash: bytes) -> bytes:
    """A legacy message: header, account keys in their prescribed order, blockhash, instructions."""
    metas = [Meta(payer, signer=True, writable=True)]
    for instruction in instructions:
        metas += [*instruction.metas, Meta(instruction.program)]
    merged: dict[bytes, Meta] = {}
    for meta in metas:
        seen = merged.get(meta.key, meta)
        merged[meta.key] = Meta(meta.key, meta.signer or seen.signer, meta.writable or seen.writable)
    # Signers before others, writable before read-only; the sort is stable, so the payer stays first.
    ordered = sorted(merged.values(), key=lambda meta: (not meta.signer, not meta.writable))
    place = {meta.key: index for index, meta in enumerate(ordered)}
    signers = [meta for meta in ordered if meta.signer]
    header = bytes(
        [
            len(signers),
            sum(not meta.writable for meta in signers),
            sum(not meta.signer and not meta.writable for meta in ordered),
        ]
    )
    keys = compact_u16(len(ordered)) + b"".join(meta.key for meta in ordered)
    calls = compact_u16(len(instructions)) + b"".join(_compiled(each, place) for each in instructions)
    return header + keys + blockhash + calls


def compact_u16(value: int) -> bytes:
    """A length as Solana writes it: seven bits a byte, low bits first."""
    assert 0 <= value < 2**16
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_compact_u16(data: bytes) -> tuple[int, int] | None:
    """The length that `data` starts with and the bytes it took; None when it starts with none."""
    value = 0
    for index, byte in enumerate(data[:3]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return (value, index + 1) if value < 2**16 else None
    return None


def token_account(owner: bytes, mint: bytes, program: bytes) -> bytes:
    """The associated token account of a wallet: the first derived address that is no point of the curve."""
    for bump in range(255, -1, -1):
        seeds = owner + program + mint + bytes([bump])
        key = hashlib.sha256(seeds + _ASSOCIATED_TOKEN + b"ProgramDerivedAddress").digest()
        if not _on_curve(key):
            return key
    raise AssertionError("256 hashes in a row on the curve")


def _on_curve(key: bytes) -> bool:
    y = int.from_bytes(key, "little") & (2**255 - 1)
    # x² = (y² - 1) / (d·y² + 1) must be a square; u/v is one exactly when u·v is.
    square = (y * y - 1) * (_D * y * y + 1) % _P
    return square == 0 or pow(square, (_P - 1) // 2, _P) == 1


def _compiled(instruction: Instruction, place: dict[bytes, int]) -> bytes:
    accounts = bytes(place[meta.key] for meta in instruction.metas)
    return (
        bytes([place[instruction.program]])
        + compact_u16(len(accounts))
        + accounts
        + compact_u16(len(instruction.data))
        + instruction.data
    )
