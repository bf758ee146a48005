"""Who pays the network, what is created, and every reason why an account cannot pay or be paid."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from solders.pubkey import Pubkey

from payd.chains.assets import shipped_book
from payd.chains.solana.answers import Account
from payd.chains.solana.build import Leg
from payd.chains.solana.due import Due
from payd.chains.solana.extensions import Kind
from payd.chains.solana.facts import At, Steady, TokenAccount, Wallet
from payd.chains.solana.keys import CLOCK, SYSTEM, TOKEN, TOKEN_2022
from payd.chains.solana.ways import (
    BUYER_NO_HOLDING,
    BUYER_NO_WALLET,
    NO_SOL,
    NO_TOKEN,
    NOT_A_WALLET,
    NOT_THE_MERCHANTS,
    OPERATOR_CLOSED,
    TOO_LITTLE,
    TOO_MUCH,
    TOO_SMALL,
    Cannot,
    Seen,
    Way,
    needs_account,
    places_of,
    price_place,
    way,
)
from payd.core.caip import parse_asset
from tests.chains.solana.test_due import PAYMENT
from tests.live.solana import (
    BUYER,
    BUYER_2,
    FEE_PAYER,
    MERCHANT,
    OPERATOR,
    PYUSD,
    PYUSD_MINT,
    SOL,
    STRANGER,
    USDC,
    USDC_MINT,
    extension,
    holding_data,
    mint_data,
    pubkey,
)

AMOUNT = 25_000_000
RENT_0 = 890_880
RENT_165 = 2_039_280
PRICE = 10_000
SPONSOR = pubkey(FEE_PAYER)
FROZEN = 2
OFF_CURVE = Pubkey.find_program_address([b"vault"], TOKEN)[0]

Change = Callable[["World"], Any]


class World:
    """Accounts around a payment; good until a test changes one."""

    def __init__(self, asset: str = USDC, amount: int = AMOUNT, fee: int = 0, **due: Any) -> None:
        row = shipped_book().find(parse_asset(asset))
        assert row is not None
        mints = {USDC: (USDC_MINT, TOKEN), PYUSD: (PYUSD_MINT, TOKEN_2022)}
        parts = {"row": row, "token": mints.get(asset), "operator": pubkey(OPERATOR), **due}
        self.due = Due(
            payment=PAYMENT,
            buyer=parts.pop("buyer", pubkey(BUYER)),
            destination=parts.pop("destination", pubkey(MERCHANT)),
            amount=amount,
            fee=fee,
            **parts,
        )
        self.accounts: dict[At, Account | None] = dict.fromkeys(places_of(self.due))
        for place in (self.due.buyer, self.due.destination):
            self.wallet(place)
        if self.due.token is None:
            self.wallet(pubkey(OPERATOR))
            return
        self.mint()
        for owner, held in ((self.due.buyer, AMOUNT), (self.due.destination, 0), (pubkey(OPERATOR), 0)):
            self.hold(owner, held)
        self.accounts[Steady(CLOCK)] = account(struct.pack("<QqQQq", 9, 0, 3, 4, 1_780_000_000), SYSTEM)

    def wallet(self, key: Pubkey, lamports: int = 10**9, **other: Any) -> None:
        self.accounts[Wallet(key)] = msgspec.structs.replace(Account(lamports, SYSTEM, b""), **other)

    def mint(self, decimals: int = 6, extensions: bytes = b"", owner: Pubkey | None = None) -> None:
        assert self.due.token is not None
        mint, program = self.due.token
        self.accounts[Steady(mint)] = account(mint_data(decimals, extensions), owner or program)

    def hold(
        self,
        place: Pubkey,
        amount: int = AMOUNT,
        *,
        owner: Pubkey | None = None,
        mint: Pubkey | None = None,
        program: Pubkey | None = None,
        **other: Any,
    ) -> None:
        assert self.due.token is not None
        data = holding_data(owner or place, mint or self.due.token[0], amount, **other)
        self.accounts[TokenAccount(self.due.holding_of(place))] = account(data, program or self.due.token[1])

    def gone(self, place: Pubkey) -> None:
        self.accounts[TokenAccount(self.due.holding_of(place))] = None

    def seen(self) -> Seen:
        return Seen(self.accounts, RENT_0, 0 if self.due.token is None else RENT_165, PRICE)

    def way(self, sponsor: Pubkey | None = SPONSOR) -> Way | Cannot:
        return way(self.due, self.seen(), sponsor)

    def words(self) -> str:
        found = self.way()
        assert isinstance(found, Cannot), "it can"
        return found.words


def account(data: bytes, owner: Pubkey, lamports: int = RENT_165) -> Account:
    return Account(lamports, owner, data)


def paid(world: World, sponsor: Pubkey | None = SPONSOR) -> Way:
    found = world.way(sponsor)
    assert isinstance(found, Way), found.words
    return found


# Who pays the network.


@pytest.mark.parametrize("asset", [USDC, PYUSD])
def test_who_has_sol_pays_the_network_oneself(asset: str) -> None:
    found = paid(World(asset))

    assert found.wanted.fee_payer == pubkey(BUYER)
    assert found.wanted.legs == (Leg(pubkey(MERCHANT), AMOUNT),)
    assert found.wanted.create == ()
    assert found.wanted.unit_price == PRICE
    assert found.cost == 5000 + -(-found.wanted.unit_limit * PRICE // 1_000_000)


def test_for_who_has_none_we_pay_two_signatures() -> None:
    world = World()
    world.accounts[Wallet(pubkey(BUYER))] = None
    found = paid(world)

    assert found.wanted.fee_payer == SPONSOR
    assert found.wanted.buyer == pubkey(BUYER)
    assert found.cost == 10_000 + -(-found.wanted.unit_limit * PRICE // 1_000_000)


def test_where_we_do_not_pay_it_cannot_be_paid_without_sol() -> None:
    world = World()
    world.accounts[Wallet(pubkey(BUYER))] = None

    assert world.way(None) == Cannot(NO_SOL)


@pytest.mark.parametrize(
    ("left", "own"), [(-1, False), (0, True), (1, False), (RENT_0 - 1, False), (RENT_0, True)]
)
def test_a_wallet_keeps_what_it_needs_to_exist_or_nothing(left: int, own: bool) -> None:
    world = World()
    cost = paid(world).cost
    world.wallet(pubkey(BUYER), cost + left)

    assert (paid(world).wanted.fee_payer == pubkey(BUYER)) is own


def test_a_merchants_first_token_account_is_created_by_who_pays_the_network() -> None:
    world = World()
    plain = paid(world).cost
    world.gone(pubkey(MERCHANT))
    found = paid(world)

    assert needs_account(world.due, world.seen())
    assert found.wanted.create == (pubkey(MERCHANT),)
    assert found.cost > plain + RENT_165
    # Who has SOL for the fee, but not for the rent, is helped as who has none.
    world.wallet(pubkey(BUYER), found.cost - 1)
    assert paid(world).wanted.fee_payer == SPONSOR
    assert paid(world).wanted.create == (pubkey(MERCHANT),)


def test_sol_that_was_sent_to_where_a_token_account_comes_hinders_nothing() -> None:
    world = World()
    world.accounts[TokenAccount(world.due.holding_of(pubkey(MERCHANT)))] = Account(1, SYSTEM, b"")

    assert paid(world).wanted.create == (pubkey(MERCHANT),)


# SOL.


def test_sol_is_never_sponsored() -> None:
    world = World(SOL)
    enough = AMOUNT + paid(world).cost
    world.wallet(pubkey(BUYER), enough - 1)

    assert world.words() == NO_SOL
    for left, words in ((0, None), (1, NO_SOL), (RENT_0, None)):
        world.wallet(pubkey(BUYER), enough + left)
        found = world.way()
        assert (found.words if isinstance(found, Cannot) else None) == words


def test_too_little_sol_for_the_amount_is_too_little() -> None:
    world = World(SOL)
    world.wallet(pubkey(BUYER), AMOUNT - 1)

    assert world.words() == TOO_LITTLE


@pytest.mark.parametrize(
    ("amount", "fee", "words"), [(RENT_0, 0, None), (RENT_0 - 1, 0, TOO_SMALL), (RENT_0, 1, TOO_SMALL)]
)
def test_a_wallet_that_does_not_exist_is_opened_or_not_paid(amount: int, fee: int, words: str | None) -> None:
    world = World(SOL, amount, fee)
    world.accounts[Wallet(pubkey(MERCHANT))] = None
    found = world.way()

    assert (found.words if isinstance(found, Cannot) else None) == words


# What may be wrong with the token.


@pytest.mark.parametrize(
    ("asset", "change"),
    [
        (USDC, lambda w: w.accounts.update({Steady(USDC_MINT): None})),
        (USDC, lambda w: w.mint(owner=TOKEN_2022)),
        (USDC, lambda w: w.mint(owner=SYSTEM)),
        (PYUSD, lambda w: w.mint(owner=TOKEN)),
        (USDC, lambda w: w.mint(decimals=9)),
        (USDC, lambda w: w.accounts.update({Steady(USDC_MINT): account(b"\0" * 7, TOKEN)})),
        (
            USDC,
            lambda w: w.accounts.update(
                {Steady(USDC_MINT): account(holding_data(pubkey(BUYER), USDC_MINT, 1), TOKEN)}
            ),
        ),
    ],
    ids=["gone", "other program", "no program", "older program", "decimals", "garbage", "a token account"],
)
def test_a_token_that_is_not_what_its_row_says_is_not_paid_with(asset: str, change: Change) -> None:
    world = World(asset)
    change(world)

    assert world.words() == NO_TOKEN


def transfer_fee(points: int, since: int = 0) -> bytes:
    older = struct.pack("<QQH", 0, 0, 0)
    return extension(Kind.TRANSFER_FEE_CONFIG, bytes(72) + older + struct.pack("<QQH", since, 10**9, points))


@pytest.mark.parametrize(
    ("extensions", "said"),
    [
        (transfer_fee(100), "takes a fee of each transfer"),
        (extension(Kind.TRANSFER_HOOK, bytes(32) + bytes(pubkey(STRANGER))), "calls a program"),
        (extension(Kind.NON_TRANSFERABLE, b""), "cannot be transferred"),
        (extension(999, b""), "does not know"),
    ],
)
def test_a_token_that_does_not_move_exactly_is_refused_in_words(extensions: bytes, said: str) -> None:
    world = World(PYUSD)
    world.mint(extensions=extensions)

    assert said in world.words()


def test_a_fee_that_counts_from_a_later_epoch_on_hinders_already() -> None:
    world = World(PYUSD)
    world.mint(extensions=transfer_fee(0))
    assert paid(world).wanted.mint == PYUSD_MINT
    # Until it is signed and lands, the epoch may be another; without a clock anything may be.
    world.mint(extensions=transfer_fee(5, since=4))
    assert "takes a fee" in world.words()
    world.accounts[Steady(CLOCK)] = None
    assert "takes a fee" in world.words()


# What may be wrong with the merchant's side.


@pytest.mark.parametrize(
    "account",
    [
        Account(10**9, TOKEN, b"\1"),
        Account(10**9, SYSTEM, b"\1"),
        Account(10**9, SYSTEM, b"", is_executable=True),
        Account(10**9, pubkey(STRANGER), b""),
    ],
    ids=["token account", "nonce account", "program", "of a program"],
)
@pytest.mark.parametrize("asset", [USDC, SOL])
def test_an_address_that_is_no_wallets_is_not_paid_to(asset: str, account: Account) -> None:
    world = World(asset)
    world.accounts[Wallet(pubkey(MERCHANT))] = account

    assert world.words() == NOT_A_WALLET


def test_a_merchant_whose_wallet_is_a_vault_or_does_not_exist_yet_is_paid_in_tokens() -> None:
    assert paid(World(destination=OFF_CURVE)).wanted.legs[0].owner == OFF_CURVE
    unused = World()
    unused.accounts[Wallet(pubkey(MERCHANT))] = None
    assert paid(unused).wanted.legs[0].owner == pubkey(MERCHANT)


@pytest.mark.parametrize(
    "change",
    [
        lambda w: w.hold(pubkey(MERCHANT), owner=pubkey(STRANGER)),
        lambda w: w.hold(pubkey(MERCHANT), mint=PYUSD_MINT),
        lambda w: w.hold(pubkey(MERCHANT), program=TOKEN_2022),
        lambda w: w.hold(pubkey(MERCHANT), state=3),
    ],
    ids=["handed over", "another token", "another program", "garbage"],
)
def test_a_token_account_that_is_not_the_merchants_any_more_is_not_paid_to(change: Change) -> None:
    world = World()
    change(world)

    assert world.words() == NOT_THE_MERCHANTS


def test_a_merchants_frozen_token_account_is_not_paid_to() -> None:
    world = World()
    world.hold(pubkey(MERCHANT), state=FROZEN)

    assert "frozen" in world.words()
    assert "merchant" in world.words()


# What may be wrong with the buyer's side.


@pytest.mark.parametrize(
    "account", [Account(10**9, TOKEN, b"\1"), Account(10**9, SYSTEM, b"\1"), Account(1, SYSTEM, b"", True)]
)
@pytest.mark.parametrize("asset", [USDC, SOL])
def test_an_account_that_is_no_wallet_pays_nothing(asset: str, account: Account) -> None:
    world = World(asset)
    world.accounts[Wallet(pubkey(BUYER))] = account

    assert world.words() == BUYER_NO_WALLET


def test_an_account_that_no_key_signs_for_pays_nothing() -> None:
    assert World(buyer=OFF_CURVE).words() == BUYER_NO_WALLET


@pytest.mark.parametrize(
    "change",
    [
        lambda w: w.gone(pubkey(BUYER)),
        lambda w: w.hold(pubkey(BUYER), owner=pubkey(BUYER_2)),
        lambda w: w.hold(pubkey(BUYER), mint=PYUSD_MINT),
        lambda w: w.hold(pubkey(BUYER), program=SYSTEM),
    ],
    ids=["none", "somebody else's", "another token", "no token account"],
)
def test_tokens_are_paid_from_the_buyers_own_account_only(change: Change) -> None:
    world = World()
    change(world)

    assert world.words() == BUYER_NO_HOLDING


@pytest.mark.parametrize(("state", "said"), [(FROZEN, "frozen"), (0, "not set up")])
def test_a_buyers_closed_token_account_is_refused_in_words(state: int, said: str) -> None:
    world = World()
    world.hold(pubkey(BUYER), state=state)

    assert said in world.words()


@pytest.mark.parametrize(("held", "can"), [(AMOUNT, True), (AMOUNT - 1, False), (0, False)])
def test_a_drained_buyer_is_told_so(held: int, can: bool) -> None:
    world = World()
    world.hold(pubkey(BUYER), held)

    assert isinstance(world.way(), Way) is can
    assert can or world.words() == TOO_LITTLE


# The operator's fee.


@pytest.mark.parametrize("asset", [USDC, SOL])
def test_a_fee_is_a_second_leg(asset: str) -> None:
    found = paid(World(asset, fee=RENT_0))

    assert found.wanted.legs == (Leg(pubkey(MERCHANT), AMOUNT - RENT_0), Leg(pubkey(OPERATOR), RENT_0))
    assert found.wanted.create == ()


@pytest.mark.parametrize(
    ("asset", "change"),
    [
        (USDC, lambda w: w.gone(pubkey(OPERATOR))),
        (USDC, lambda w: w.hold(pubkey(OPERATOR), owner=pubkey(STRANGER))),
        (USDC, lambda w: w.hold(pubkey(OPERATOR), state=FROZEN)),
        (SOL, lambda w: w.accounts.update({Wallet(pubkey(OPERATOR)): None})),
        (SOL, lambda w: w.wallet(pubkey(OPERATOR), data=b"\1")),
    ],
    ids=["none", "not the operator's", "frozen", "no wallet", "a program's"],
)
def test_a_fee_that_has_no_place_is_not_taken_from_anybody(asset: str, change: Change) -> None:
    world = World(asset, fee=RENT_0 - 1)
    change(world)

    assert world.words() == OPERATOR_CLOSED


def test_a_fee_that_just_opens_the_operators_wallet_is_taken() -> None:
    world = World(SOL, fee=RENT_0)
    world.accounts[Wallet(pubkey(OPERATOR))] = None

    assert paid(world).wanted.legs[1] == Leg(pubkey(OPERATOR), RENT_0)


@pytest.mark.parametrize(("amount", "fee"), [(0, 0), (-1, 0), (2**64, 0), (5, 5), (5, 6), (5, -1)])
def test_an_amount_that_cannot_be_divided_so_is_refused(amount: int, fee: int) -> None:
    assert World(amount=amount, fee=fee).words() == TOO_MUCH


# What is read.


def test_each_account_that_decides_is_read_and_no_other() -> None:
    places = places_of(World().due)

    assert len(places) == len(set(places)) == 7
    assert places_of(World(SOL).due) == (
        Wallet(pubkey(BUYER)),
        Wallet(pubkey(MERCHANT)),
        Wallet(pubkey(OPERATOR)),
    )


def test_the_price_is_that_of_writing_to_where_the_merchant_is_paid() -> None:
    world = World()

    assert price_place(world.due) == world.due.holding_of(pubkey(MERCHANT))
    assert price_place(World(SOL).due) == pubkey(MERCHANT)
