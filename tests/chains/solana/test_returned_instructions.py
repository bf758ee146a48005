"""Instructions that a wallet gives back otherwise: removed, doubled, moved, re-pointed, changed or added."""

from __future__ import annotations

import pytest
from solders.compute_budget import (
    request_heap_frame,
    set_compute_unit_price,
    set_loaded_accounts_data_size_limit,
)
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer

from payd.chains.solana.build import Wanted, split
from payd.chains.solana.keys import LIGHTHOUSE, MEMO, SYSTEM, TOKEN, token_account
from tests.chains.solana.tampering import (
    BUYER_PAYS,
    OTHER,
    SPONSORED,
    WANTED,
    WITH_GUARDS,
    bent,
    check,
    expect_refused,
    expect_refused_as_signed,
    guard,
    parts,
)
from tests.chains.solana.vm import BUYER, MERCHANT, PAYER, STRANGER, USDC


def everything(want: Wanted) -> list[int]:
    return list(range(len(parts(want))))


CASES = [(name, place) for name, want in WANTED.items() for place in everything(want)]


@pytest.mark.parametrize("guards", WITH_GUARDS)
@pytest.mark.parametrize(("name", "place"), CASES)
def test_an_instruction_that_is_missing_is_refused(name: str, place: int, guards: list[Instruction]) -> None:
    own = parts(WANTED[name])
    words = "is missing" if place == len(own) - 1 else "the wallet changed"
    expect_refused_as_signed(WANTED[name], [*own[:place], *own[place + 1 :], *guards], words)


@pytest.mark.parametrize("guards", WITH_GUARDS)
@pytest.mark.parametrize(("name", "place"), CASES)
def test_an_instruction_that_is_there_twice_is_refused(
    name: str, place: int, guards: list[Instruction]
) -> None:
    own = parts(WANTED[name])
    expect_refused(WANTED[name], bent(WANTED[name], [*own, own[place], *guards]))
    expect_refused(WANTED[name], bent(WANTED[name], [own[place], *own, *guards]))


@pytest.mark.parametrize("name", WANTED)
def test_instructions_in_another_order_are_refused(name: str) -> None:
    own = parts(WANTED[name])
    for one in range(len(own)):
        for two in range(one):
            swapped = list(own)
            swapped[one], swapped[two] = own[two], own[one]
            if swapped != own:
                expect_refused(WANTED[name], bent(WANTED[name], swapped))


@pytest.mark.parametrize("guards", WITH_GUARDS)
@pytest.mark.parametrize(("name", "place"), CASES)
def test_an_instruction_that_points_elsewhere_is_refused(
    name: str, place: int, guards: list[Instruction]
) -> None:
    own = parts(WANTED[name])
    one = own[place]
    for target in (STRANGER.pubkey(), BUYER.pubkey(), MERCHANT.pubkey(), PAYER.pubkey(), USDC, OTHER):
        for at, meta in enumerate(one.accounts):
            if meta.pubkey == target:
                continue
            accounts = list(one.accounts)
            accounts[at] = AccountMeta(target, meta.is_signer and target == BUYER.pubkey(), meta.is_writable)
            changed = Instruction(one.program_id, one.data, accounts)
            expect_refused_as_signed(WANTED[name], [*own[:place], changed, *own[place + 1 :], *guards])
        if one.program_id != target:
            changed = Instruction(target, one.data, list(one.accounts))
            expect_refused_as_signed(WANTED[name], [*own[:place], changed, *own[place + 1 :], *guards])


@pytest.mark.parametrize(("name", "place"), CASES)
def test_an_instruction_with_more_or_fewer_accounts_is_refused(name: str, place: int) -> None:
    own = parts(WANTED[name])
    one = own[place]
    more = [AccountMeta(key, is_signer=False, is_writable=False) for key in (OTHER, WANTED[name].buyer)]
    longer = [[*one.accounts, meta] for meta in more]
    for accounts in (one.accounts[:-1], *longer, one.accounts[::-1]):
        if list(accounts) != list(one.accounts):
            changed = Instruction(one.program_id, one.data, list(accounts))
            expect_refused_as_signed(WANTED[name], [*own[:place], changed, *own[place + 1 :]])


@pytest.mark.parametrize("guards", WITH_GUARDS)
@pytest.mark.parametrize(("name", "place"), CASES)
def test_an_instruction_with_other_data_is_refused(name: str, place: int, guards: list[Instruction]) -> None:
    own, want = parts(WANTED[name]), WANTED[name]
    one = own[place]
    data = bytes(one.data)
    others = [data + b"\0", data[:-1], b""]
    is_fee = place < 2 and (want.fee_payer == BUYER.pubkey() or guards)
    if not is_fee:  # what a wallet may set there has tests of its own
        for at, byte in enumerate(data):
            others += [data[:at] + bytes([byte ^ bit]) + data[at + 1 :] for bit in (1, 128)]
    for other in others:
        changed = Instruction(one.program_id, other, list(one.accounts))
        expect_refused(want, bent(want, [*own[:place], changed, *own[place + 1 :], *guards]))


def token_call(data: bytes, *keys: Pubkey) -> Instruction:
    """An instruction of the token program that writes its first account, and that the buyer signs."""
    metas = [AccountMeta(key, key == BUYER.pubkey(), at == 0) for at, key in enumerate(keys)]
    return Instruction(TOKEN, data, metas)


MINE = token_account(BUYER.pubkey(), USDC, TOKEN)
THEIRS = token_account(MERCHANT.pubkey(), USDC, TOKEN)
ADDED = {
    "a transfer out of the fee payer": transfer(
        TransferParams(from_pubkey=PAYER.pubkey(), to_pubkey=BUYER.pubkey(), lamports=10**8)
    ),
    "a transfer out of the buyer": transfer(
        TransferParams(from_pubkey=BUYER.pubkey(), to_pubkey=STRANGER.pubkey(), lamports=1)
    ),
    "another owner of the buyer's account": token_call(
        b"\x06\x02\x01" + bytes(STRANGER.pubkey()), MINE, BUYER.pubkey()
    ),
    "an approval": token_call(b"\x04" + bytes(8), MINE, STRANGER.pubkey(), BUYER.pubkey()),
    "a closed account": token_call(b"\x09", MINE, BUYER.pubkey(), BUYER.pubkey()),
    "a burn": token_call(b"\x08" + bytes(8), MINE, USDC, BUYER.pubkey()),
    "a memo": Instruction(MEMO, b"x", []),
    "nothing, with the fee payer": Instruction(OTHER, b"", [AccountMeta(PAYER.pubkey(), True, True)]),
    "a call of a stranger's program": Instruction(OTHER, b"", [AccountMeta(BUYER.pubkey(), True, True)]),
    "a guard of another program": Instruction(OTHER, b"\x05\0", [AccountMeta(BUYER.pubkey(), False, False)]),
    "a guard of another program, of itself": Instruction(
        OTHER, b"\x05\0", [AccountMeta(OTHER, False, False)]
    ),
    "heap": request_heap_frame(32768),
    "less data": set_loaded_accounts_data_size_limit(1),
    "a second price": set_compute_unit_price(20_000),
    "memory written": Instruction(
        LIGHTHOUSE,
        b"\0\0\0\0\0",
        [
            AccountMeta(LIGHTHOUSE, False, False),
            AccountMeta(SYSTEM, False, False),
            AccountMeta(PAYER.pubkey(), True, True),
            AccountMeta(OTHER, False, True),
            AccountMeta(BUYER.pubkey(), False, False),
        ],
    ),
    "memory closed": guard(BUYER.pubkey(), kind=1),
    "a merkle tree": guard(OTHER, OTHER, OTHER, kind=16),
    "an unknown guard": guard(BUYER.pubkey(), kind=99),
    "a guard without data": Instruction(LIGHTHOUSE, b"", []),
    "a guard that reads more than it says": guard(BUYER.pubkey(), OTHER),
    "a guard that writes": Instruction(LIGHTHOUSE, b"\x05\0", [AccountMeta(OTHER, False, True)]),
    "a guard that writes an account of ours": Instruction(
        LIGHTHOUSE, b"\x05\0", [AccountMeta(MERCHANT.pubkey(), False, True)]
    ),
    "a guard that writes the reference's memo": Instruction(
        LIGHTHOUSE, b"\x05\0", [AccountMeta(MEMO, False, True)]
    ),
    "a guard that a stranger signs": Instruction(
        LIGHTHOUSE, b"\x05\0", [AccountMeta(STRANGER.pubkey(), True, False)]
    ),
}


@pytest.mark.parametrize("what", ADDED)
@pytest.mark.parametrize("want", [SPONSORED, BUYER_PAYS])
def test_what_is_added_is_refused(want: Wanted, what: str) -> None:
    own = parts(want)
    for place in range(len(own) + 1):
        expect_refused_as_signed(want, [*own[:place], ADDED[what], *own[place:]])


def test_a_guard_that_names_the_fee_payer_is_refused_where_we_are_it() -> None:
    raw = bent(SPONSORED, [*parts(SPONSORED), guard(PAYER.pubkey())])
    expect_refused(SPONSORED, raw, "names the fee payer")
    raw = bent(BUYER_PAYS, [*parts(BUYER_PAYS), guard(BUYER.pubkey())])
    assert check(BUYER_PAYS, raw).message == split(raw)[1]


def test_too_many_guards_are_refused() -> None:
    raw = bent(SPONSORED, [*parts(SPONSORED), *[guard(BUYER.pubkey())] * 4])
    expect_refused(SPONSORED, raw, "4 guards were added; 3 may be")
