"""What pays on Solana and no wallet of Solana Pay makes: in parts, by other programs, to other accounts.

What counts is what the merchant has more of afterwards; so each of these pays, where its memo says for what.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Decimal
from random import Random
from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from solders.account import Account
from solders.address_lookup_table_account import ID as TABLES
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountParams, create_account

from payd.chains.solana.keys import ASSOCIATED_TOKEN, MEMO, MEMO_V1, TOKEN, token_account
from tests.live.solana import (
    ACCOUNT_SIZE,
    DECIMALS,
    LAMPORTS,
    MINTS,
    USDC_MINT,
    close_holding,
    create_holding,
    memo,
    pay_sol,
    pay_token,
    pubkey,
)

# Where the merchant has tokens besides.
OTHER_PLACES: Final = dict(zip(MINTS, (90, 91, 92), strict=True))
# Of a lookup table before its addresses, and of one that is in use.
TABLE_HEAD: Final = struct.pack("<IQQB", 1, 2**64 - 1, 0, 0).ljust(56, b"\0")


class Asked(NamedTuple):
    """What a transfer request asks for; `mint` is None for SOL.

    Source: Solana Pay specification 1.1, "Specification: Transfer Request".
    """

    to: Pubkey
    mint: Pubkey | None
    units: int
    references: tuple[Pubkey, ...]
    memos: tuple[str, ...]

    @property
    def program(self) -> Pubkey:
        """Of its token."""
        assert self.mint is not None
        return MINTS[self.mint]

    def pays(self, payer: Pubkey, units: int, *named: Pubkey) -> Instruction:
        """A transfer of so much to where it asks for."""
        if self.mint is None:
            return pay_sol(payer, self.to, units, *named)
        return pay_token(payer, self.to, self.mint, units, *named, program=self.program)

    def says(self) -> list[Instruction]:
        """Its memos."""
        return [memo(text) for text in self.memos]


def asked_in(link: str) -> Asked:
    """What a link asks for."""
    parts = urlsplit(link)
    fields = parse_qs(parts.query, strict_parsing=True)
    amount = Decimal(fields["amount"][0])
    mint = Pubkey.from_string(fields["spl-token"][0]) if "spl-token" in fields else None
    return Asked(
        Pubkey.from_string(parts.path),
        mint,
        int(amount * (LAMPORTS if mint is None else 10**DECIMALS)),
        tuple(Pubkey.from_string(one) for one in fields.get("reference", ())),
        tuple(fields.get("memo", ())),
    )


def in_two_parts(asked: Asked, payer: Pubkey, rng: Random) -> list[Instruction]:
    """By two transfers, of which one or both name the payment."""
    part = rng.randrange(1, asked.units)
    named = asked.references if rng.random() < 0.5 else ()
    parts = [asked.pays(payer, part, *named), asked.pays(payer, asked.units - part, *asked.references)]
    return [*asked.says(), *parts]


def with_other_memos(asked: Asked, payer: Pubkey, rng: Random) -> list[Instruction]:
    """Its memo by the older program, after the transfer, signed, beside another one, or not quite it."""
    [text] = asked.memos
    pays = asked.pays(payer, asked.units, *asked.references)
    signer = AccountMeta(payer, is_signer=True, is_writable=False)
    ways = (
        [Instruction(MEMO_V1, text.encode(), []), pays],
        [pays, memo(text)],
        [Instruction(MEMO, text.encode(), [signer]), pays],
        [memo("thank you"), pays, memo(text), memo("")],
        [memo(text), memo(text), pays],
        [memo(text.upper() if text.upper() != text else f"{text} "), pays],
        [memo(f"{text} for {text}"), pays],
    )
    return list(rng.choice(ways))


def by_another_program(asked: Asked, payer: Pubkey) -> list[Instruction]:
    """Into an account inside the merchant's, out of which another program brings it; the merchant signs too.

    That is the only program on this chain that moves tokens for somebody.
    """
    assert asked.mint is not None
    holding = token_account(asked.to, asked.mint, asked.program)
    nested = token_account(holding, asked.mint, asked.program)
    takes = [(nested, True), (asked.mint, False), (holding, True), (holding, True), (asked.mint, False)]
    accounts = [AccountMeta(key, is_signer=False, is_writable=writable) for key, writable in takes]
    accounts.append(AccountMeta(asked.to, is_signer=True, is_writable=True))
    named = (asked.program, *asked.references)
    accounts += [AccountMeta(key, is_signer=False, is_writable=False) for key in named]
    return [
        *asked.says(),
        create_holding(payer, holding, asked.mint, asked.program),
        pay_token(payer, holding, asked.mint, asked.units, program=asked.program),
        Instruction(ASSOCIATED_TOKEN, b"\x02", accounts),
    ]


def to_another_account(asked: Asked, payer: Pubkey) -> list[Instruction]:
    """To another token account of the merchant's than the associated one: only the payment is named."""
    assert asked.mint is not None
    named, program, target = asked.references, asked.program, pubkey(OTHER_PLACES[asked.mint])
    pays = pay_token(payer, asked.to, asked.mint, asked.units, *named, program=program, target=target)
    return [*asked.says(), pays]


def by_closing(asked: Asked, payer: Pubkey, new: Pubkey) -> list[Instruction]:
    """SOL without a transfer: a new token account holds it, and is closed in favour of the merchant."""
    assert asked.mint is None
    made = CreateAccountParams(
        from_pubkey=payer, to_pubkey=new, lamports=asked.units, space=ACCOUNT_SIZE, owner=TOKEN
    )
    begun = [
        AccountMeta(new, is_signer=False, is_writable=True),
        AccountMeta(USDC_MINT, is_signer=False, is_writable=False),
    ]
    closed = [
        AccountMeta(new, is_signer=False, is_writable=True),
        AccountMeta(asked.to, is_signer=False, is_writable=True),
        AccountMeta(payer, is_signer=True, is_writable=False),
        *(AccountMeta(one, is_signer=False, is_writable=False) for one in asked.references),
    ]
    return [
        *asked.says(),
        create_account(made),
        Instruction(TOKEN, b"\x12" + bytes(payer), begun),
        Instruction(TOKEN, b"\x09", closed),
    ]


def and_close(mint: Pubkey, program: Pubkey, owner: Pubkey, left: int, heir: Pubkey) -> list[Instruction]:
    """Give what is left in a token account to somebody, and close it: nothing shows any more whose it was."""
    gives = pay_token(owner, heir, mint, left, program=program)
    return [gives, close_holding(owner, mint, program)]


def table_of(at: Pubkey, addresses: Sequence[Pubkey]) -> tuple[AddressLookupTableAccount, Account]:
    """A lookup table: as transactions are made with it, and as it is on the chain."""
    data = TABLE_HEAD + b"".join(map(bytes, addresses))
    return AddressLookupTableAccount(at, list(addresses)), Account(LAMPORTS, data, TABLES)
