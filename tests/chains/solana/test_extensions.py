"""Extensions of Token-2022: refused is what the real program does not move exactly, and what nobody knows."""

from __future__ import annotations

import struct

import pytest
from solders.account import Account

from payd.chains.rpc_errors import BadAnswer
from payd.chains.solana.accounts import Mint, decode_holding, decode_mint
from payd.chains.solana.answers import Landed
from payd.chains.solana.binding import reference_of
from payd.chains.solana.build import Leg, Wanted, build_message, unsigned
from payd.chains.solana.extensions import (
    EXTENSIONS_MAX,
    Extension,
    Kind,
    holding_problem,
    mint_problem,
    read_extensions,
)
from payd.chains.solana.keys import TOKEN_2022, token_account
from tests.chains.solana.vm import (
    BUYER,
    MERCHANT,
    PAYER,
    PYUSD,
    PYUSD_EXTENSIONS,
    SOL,
    STRANGER,
    World,
    extension,
    holding_data,
    mint_data,
    signed,
)

KEY = bytes(STRANGER.pubkey())
EPOCH = 700
PRICE = 1_000_000


def fees(older: tuple[int, int, int], newer: tuple[int, int, int]) -> bytes:
    """The extension with an older fee and a newer: since when, how much at most, basis points."""
    return extension(
        Kind.TRANSFER_FEE_CONFIG,
        2 * KEY + bytes(8) + struct.pack("<QQH", *older) + struct.pack("<QQH", *newer),
    )


NO_FEE = fees((0, 0, 0), (0, 0, 0))
WITHHELD = extension(Kind.TRANSFER_FEE_AMOUNT, bytes(8))
HOOKED = extension(Kind.TRANSFER_HOOK_ACCOUNT, b"\0")


def confidential(*, takes_plain: bool) -> bytes:
    return extension(
        Kind.CONFIDENTIAL_TRANSFER_ACCOUNT,
        b"\x01" + bytes(32 + 3 * 64 + 36) + bytes([1, takes_plain]) + bytes(32),
    )


MOVING = {
    "nothing special": (extension(Kind.MINT_CLOSE_AUTHORITY, KEY), b""),
    "what PYUSD has": (PYUSD_EXTENSIONS, WITHHELD + HOOKED),
    "a fee of nothing": (NO_FEE, WITHHELD),
    "a fee of nothing at most": (fees((0, 0, 100), (0, 0, 100)), WITHHELD),
    "no share of a fee": (fees((0, 10**9, 0), (0, 10**9, 0)), WITHHELD),
    "a fee that is over": (fees((0, 10**9, 100), (EPOCH, 0, 0)), WITHHELD),
    "a hook without a program": (extension(Kind.TRANSFER_HOOK, KEY + bytes(32)), HOOKED),
    "not paused": (extension(Kind.PAUSABLE, KEY + b"\0"), extension(Kind.PAUSABLE_ACCOUNT)),
    "accounts that start as others do": (extension(Kind.DEFAULT_ACCOUNT_STATE, b"\x01"), b""),
    "also confidential": (
        extension(Kind.CONFIDENTIAL_TRANSFER_MINT, KEY + bytes(33)),
        confidential(takes_plain=True),
    ),
    "a permanent delegate": (extension(Kind.PERMANENT_DELEGATE, KEY), b""),
    "a permissioned burn": (extension(Kind.PERMISSIONED_BURN, KEY), b""),
    "a pointer to a group": (extension(Kind.GROUP_POINTER, KEY + KEY), b""),
    "a group": (extension(Kind.TOKEN_GROUP, KEY + KEY + bytes(16)), b""),
    "a member": (extension(Kind.TOKEN_GROUP_MEMBER, KEY + KEY + bytes(8)), b""),
    "an owner for good": (NO_FEE, WITHHELD + extension(Kind.IMMUTABLE_OWNER)),
    "a guarded account": (NO_FEE, WITHHELD + extension(Kind.CPI_GUARD, b"\x01")),
    "an account that asks for a memo": (NO_FEE, WITHHELD + extension(Kind.MEMO_TRANSFER, b"\x01")),
}

STOPPED = {
    "a fee": (fees((0, 10**9, 1), (0, 10**9, 1)), WITHHELD, "takes a fee of each transfer"),
    "a fee that has begun": (fees((0, 0, 0), (EPOCH, 10**9, 1)), WITHHELD, "takes a fee of each transfer"),
    "a fee that is not over yet": (fees((0, 10**9, 1), (EPOCH + 1, 0, 0)), WITHHELD, "takes a fee"),
    "a hook": (extension(Kind.TRANSFER_HOOK, KEY + KEY), HOOKED, "calls a program of its issuer"),
    "a pause": (extension(Kind.PAUSABLE, KEY + b"\x01"), extension(Kind.PAUSABLE_ACCOUNT), "is paused"),
    "a soulbound token": (
        extension(Kind.NON_TRANSFERABLE),
        extension(Kind.NON_TRANSFERABLE_ACCOUNT),
        "cannot be transferred",
    ),
}


@pytest.fixture
def world() -> World:
    world = World()
    world.put_sol(PAYER, SOL)
    clock = world.svm.get_clock()
    clock.epoch = EPOCH
    world.svm.set_clock(clock)
    return world


def pay(world: World, of_mint: bytes, of_holdings: bytes) -> Landed:
    world.put_mint(PYUSD, TOKEN_2022, mint_data(extensions=of_mint))
    for owner, amount in ((BUYER, PRICE), (MERCHANT, 0)):
        world.put_tokens(owner, PYUSD, amount, TOKEN_2022, of_holdings)
    return world.send(payment(world))


def payment(world: World, *, create: bool = False) -> bytes:
    owner = MERCHANT.pubkey()
    want = Wanted(
        reference_of("pay_1"),
        BUYER.pubkey(),
        PAYER.pubkey(),
        PYUSD,
        TOKEN_2022,
        6,
        (Leg(owner, PRICE),),
        create=(owner,) if create else (),
    )
    return signed(unsigned(build_message(want, world.blockhash)), PAYER, BUYER)


def read_mint(extensions: bytes) -> Mint:
    return decode_mint(TOKEN_2022, mint_data(extensions=extensions))


@pytest.mark.parametrize("what", MOVING)
def test_a_token_that_moves_exactly_is_taken(world: World, what: str) -> None:
    of_mint, of_holdings = MOVING[what]
    assert pay(world, of_mint, of_holdings).err is None
    assert world.tokens(MERCHANT, PYUSD, TOKEN_2022) == PRICE
    assert read_mint(of_mint).problem(EPOCH) is None
    assert decode_holding(TOKEN_2022, holding_data(PYUSD, BUYER.pubkey(), 1, of_holdings)).problem() is None


@pytest.mark.parametrize("what", STOPPED)
def test_a_token_that_does_not_is_refused_in_words(world: World, what: str) -> None:
    of_mint, of_holdings, words = STOPPED[what]
    landed = pay(world, of_mint, of_holdings)
    assert landed.err is not None or world.tokens(MERCHANT, PYUSD, TOKEN_2022) < PRICE
    assert (read_mint(of_mint).problem(EPOCH) or "").startswith(f"the token {words}")


@pytest.mark.parametrize(
    ("extensions", "words"),
    [
        (extension(Kind.INTEREST_BEARING_CONFIG, bytes(52)), "is shown in other amounts"),
        (extension(Kind.SCALED_UI_AMOUNT, bytes(56)), "is shown in other amounts"),
        (extension(Kind.CONFIDENTIAL_MINT_BURN, bytes(196)), "moves confidentially only"),
    ],
)
def test_a_token_of_which_other_amounts_are_shown_is_refused(extensions: bytes, words: str) -> None:
    assert words in (read_mint(extensions).problem(EPOCH) or "")


def test_a_fee_that_is_announced_is_refused_before_it_counts() -> None:
    announced = read_mint(fees((0, 0, 0), (EPOCH + 2, 10**9, 1)))
    assert announced.problem(EPOCH) == "the token takes a fee of each transfer"


def test_without_the_epoch_the_older_fee_is_taken_to_count() -> None:
    over = read_mint(fees((0, 10**9, 100), (EPOCH, 0, 0)))
    assert over.problem(None) == "the token takes a fee of each transfer"
    assert over.problem(EPOCH) is None


def test_a_token_whose_new_accounts_are_frozen_is_refused(world: World) -> None:
    frozen = extension(Kind.DEFAULT_ACCOUNT_STATE, b"\x02")
    world.put_mint(PYUSD, TOKEN_2022, mint_data(extensions=frozen))
    world.put_tokens(BUYER, PYUSD, PRICE, TOKEN_2022, extension(Kind.IMMUTABLE_OWNER))
    assert world.send(payment(world, create=True)).err is not None
    assert "freezes each new account" in (read_mint(frozen).problem(EPOCH) or "")


def test_an_account_that_takes_only_confidential_transfers_is_refused(world: World) -> None:
    shut = confidential(takes_plain=False)
    of_mint = extension(Kind.CONFIDENTIAL_TRANSFER_MINT, KEY + bytes(33))
    assert pay(world, of_mint, shut).err is not None
    holding = decode_holding(TOKEN_2022, holding_data(PYUSD, MERCHANT.pubkey(), 0, shut))
    assert holding.problem() == "the token account takes confidential transfers only"


@pytest.mark.parametrize("extensions", [MOVING[what][0] for what in MOVING])
def test_a_new_token_account_is_as_large_as_the_program_makes_it(world: World, extensions: bytes) -> None:
    world.put_mint(PYUSD, TOKEN_2022, mint_data(extensions=extensions))
    mint = read_mint(extensions)
    kinds = [Kind.TRANSFER_FEE_AMOUNT, Kind.TRANSFER_HOOK_ACCOUNT, Kind.PAUSABLE_ACCOUNT]
    sizes = {Kind.TRANSFER_FEE_AMOUNT: 8, Kind.TRANSFER_HOOK_ACCOUNT: 1}
    world.put_tokens(
        BUYER,
        PYUSD,
        PRICE,
        TOKEN_2022,
        b"".join(extension(kind, bytes(sizes.get(kind, 0))) for kind in kinds),
    )
    assert world.send(payment(world, create=True)).err is None
    account = world.svm.get_account(token_account(MERCHANT.pubkey(), PYUSD, TOKEN_2022))
    assert account is not None
    assert len(account.data) == mint.holding_bytes


@pytest.mark.parametrize("kind", [29, 500, 2**16 - 1])
def test_what_nobody_knows_is_refused(kind: int) -> None:
    assert mint_problem([Extension(kind, b"")], EPOCH) == (
        f"the token has an extension that payd does not know: number {kind}"
    )
    assert f"number {kind}" in (holding_problem([Extension(kind, b"")]) or "")


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_a_rule_on_one_side(kind: Kind) -> None:
    unknown = "does not know"
    of_mint = unknown not in (mint_problem([Extension(kind, bytes(400))], EPOCH) or "")
    of_holding = unknown not in (holding_problem([Extension(kind, bytes(400))]) or "")
    assert of_mint != of_holding


@pytest.mark.parametrize("kind", [Kind.TRANSFER_FEE_CONFIG, Kind.TRANSFER_HOOK, Kind.PAUSABLE])
def test_a_kind_of_another_size_is_refused(kind: Kind) -> None:
    assert "unknown form" in (mint_problem([Extension(kind, bytes(31))], EPOCH) or "")


def test_extensions_are_read_to_their_end() -> None:
    written = extension(7) + extension(8, b"\x01") + extension(0) + b"not read"
    assert read_extensions(written) == (Extension(7, b""), Extension(8, b"\x01"))
    assert read_extensions(b"") == ()
    assert read_extensions(extension(7) + b"\x08") == (Extension(7, b""),)


@pytest.mark.parametrize(
    "written",
    [
        struct.pack("<HH", 8, 2) + b"\x01",
        struct.pack("<HB", 8, 1),
        struct.pack("<H", 8),
        extension(7) + extension(7),
        b"".join(extension(kind) for kind in range(1, EXTENSIONS_MAX + 2)),
    ],
)
def test_extensions_that_cannot_be_read_are_a_bad_answer(written: bytes) -> None:
    with pytest.raises(BadAnswer):
        read_extensions(written)


def test_the_world_holds_what_it_was_given(world: World) -> None:
    world.put_tokens(MERCHANT, PYUSD, 5, TOKEN_2022, WITHHELD)
    account = world.svm.get_account(token_account(MERCHANT.pubkey(), PYUSD, TOKEN_2022))
    assert isinstance(account, Account)
    assert decode_holding(account.owner, bytes(account.data)).amount == 5
