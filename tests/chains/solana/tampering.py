"""Transactions taken apart and put together otherwise, as wallets and thieves would."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import pytest
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey

from payd.chains.solana.binding import reference_of
from payd.chains.solana.build import Leg, Wanted, build_message, split, unsigned
from payd.chains.solana.guards import GuardLimits
from payd.chains.solana.keys import LIGHTHOUSE, TOKEN, TOKEN_2022
from payd.chains.solana.returned import Returned, check_returned
from payd.core.errors import InvalidParams
from tests.chains.solana.vm import (
    BUYER,
    MERCHANT,
    OPERATOR,
    PAYER,
    PYUSD,
    PYUSD_EXTENSIONS,
    SOL,
    STRANGER,
    USDC,
    World,
    extension,
    mint_data,
    signed,
)

BLOCKHASH = str(Pubkey(bytes([1] * 32)))
LIMITS = GuardLimits(count_max=3, units_added_max=50_000, unit_price_max=1_000_000)
OTHER = Pubkey(bytes([200] * 32))

PRICE, FEE = 5_000_000, 30_000
HAD = 9_000_000

SPONSORED = Wanted(
    reference=reference_of("pay_1"),
    buyer=BUYER.pubkey(),
    fee_payer=PAYER.pubkey(),
    mint=USDC,
    program=TOKEN,
    decimals=6,
    legs=(Leg(MERCHANT.pubkey(), PRICE), Leg(OPERATOR.pubkey(), FEE)),
    create=(MERCHANT.pubkey(),),
    unit_limit=200_000,
    unit_price=20_000,
)
"""We pay the network's fee, and the merchant's token account is created."""

SPONSORED_2022 = Wanted(
    reference_of("pay_2"), BUYER.pubkey(), PAYER.pubkey(), PYUSD, TOKEN_2022, 6,
    (Leg(MERCHANT.pubkey(), PRICE),), (MERCHANT.pubkey(),), 200_000, 20_000,
)  # fmt: skip

BUYER_PAYS = Wanted(
    reference_of("pay_3"), BUYER.pubkey(), BUYER.pubkey(), USDC, TOKEN, 6, (Leg(MERCHANT.pubkey(), PRICE),),
    (MERCHANT.pubkey(),), 200_000, 20_000,
)  # fmt: skip

IN_SOL = Wanted(
    reference_of("pay_4"), BUYER.pubkey(), BUYER.pubkey(), None, None, 9,
    (Leg(MERCHANT.pubkey(), PRICE), Leg(OPERATOR.pubkey(), FEE)), (), 200_000, 20_000,
)  # fmt: skip

WANTED = {"sponsored": SPONSORED, "2022": SPONSORED_2022, "buyer pays": BUYER_PAYS, "SOL": IN_SOL}


OF_HOLDINGS = extension(7) + extension(2, bytes(8)) + extension(15, b"\0")
"""What a token account of PYUSD has."""


def street() -> World:
    """A world in which each of these can be paid."""
    world = World()
    world.put_mint(USDC)
    world.put_mint(PYUSD, TOKEN_2022, mint_data(extensions=PYUSD_EXTENSIONS))
    world.put_tokens(BUYER, USDC, HAD)
    world.put_tokens(OPERATOR, USDC, 0)
    world.put_tokens(
        BUYER, PYUSD, HAD, TOKEN_2022, extension(7) + extension(2, bytes(8)) + extension(15, b"\0")
    )
    for owner in (BUYER, MERCHANT, OPERATOR, PAYER):
        world.put_sol(owner, SOL)
    return world


def handed_out(want: Wanted, blockhash: str) -> bytes:
    """What the wallet gets: signed first where we pay."""
    raw = unsigned(build_message(want, blockhash))
    return signed(raw, PAYER) if want.fee_payer == PAYER.pubkey() else raw


def text(raw: bytes) -> str:
    """As a wallet answers."""
    return base64.b64encode(raw).decode()


def instructions_of(message: bytes) -> list[Instruction]:
    """The instructions of a message, each account with its rights."""
    read = Message.from_bytes(message)
    keys, header = read.account_keys, read.header
    signers = header.num_required_signatures

    def meta(at: int) -> AccountMeta:
        last = signers - header.num_readonly_signed_accounts
        is_writable = at < last if at < signers else at < len(keys) - header.num_readonly_unsigned_accounts
        return AccountMeta(keys[at], at < signers, is_writable)

    return [
        Instruction(keys[one.program_id_index], bytes(one.data), [meta(at) for at in one.accounts])
        for one in read.instructions
    ]


def put_together(instructions: Sequence[Instruction], payer: Pubkey, blockhash: str | Hash) -> bytes:
    """A legacy message, as a wallet's own code compiles it."""
    known = blockhash if isinstance(blockhash, Hash) else Hash.from_string(blockhash)
    return bytes(Message.new_with_blockhash(list(instructions), payer, known))


def with_instructions(raw: bytes, instructions: Sequence[Instruction], *signers: Keypair) -> bytes:
    """The transaction with other instructions, signed by the buyer, and by more who sign it now."""
    read = Message.from_bytes(split(raw)[1])
    message = put_together(instructions, read.account_keys[0], read.recent_blockhash)
    return signed(unsigned(message), BUYER, *signers)


def guard(*accounts: Pubkey, kind: int = 5, data: bytes = b"\0\1\2") -> Instruction:
    """An assertion of Lighthouse about accounts."""
    metas = [AccountMeta(key, is_signer=False, is_writable=False) for key in accounts]
    return Instruction(LIGHTHOUSE, bytes([kind]) + data, metas)


WITH_GUARDS = [[], [guard(BUYER.pubkey())]]


def check(want: Wanted, raw: bytes | str, handed: bytes | None = None) -> Returned:
    """Let a wallet's answer through the door."""
    ours = want.fee_payer if want.fee_payer == PAYER.pubkey() else None
    answer = raw if isinstance(raw, str) else text(raw)
    return check_returned(handed or handed_out(want, BLOCKHASH), answer, want.buyer, ours, LIMITS)


def parts(want: Wanted) -> list[Instruction]:
    """The instructions of what is handed out."""
    return instructions_of(split(handed_out(want, BLOCKHASH))[1])


def bent(want: Wanted, instructions: Sequence[Instruction], *signers: Keypair) -> bytes:
    """What is handed out with other instructions, signed by the buyer."""
    return with_instructions(handed_out(want, BLOCKHASH), instructions, *signers)


def expect_refused(want: Wanted, raw: bytes | str, words: str = "the wallet changed the transaction") -> None:
    """The door stays shut, and says why."""
    with pytest.raises(InvalidParams) as refused:
        check(want, raw)
    assert words in str(refused.value)


def expect_refused_as_signed(
    want: Wanted, instructions: Sequence[Instruction], words: str = "the wallet changed the transaction"
) -> None:
    """Refused although everybody who now has to sign has done so, a thief's helpers too."""
    message = put_together(instructions, want.fee_payer, BLOCKHASH)
    keys = Message.from_bytes(message).signer_keys()
    people = [one for one in (BUYER, MERCHANT, OPERATOR, STRANGER) if one.pubkey() in keys]
    expect_refused(want, signed(unsigned(message), *people), words)
