"""What can come to be an offer at all, before anybody looks at the chain."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest
from solders.pubkey import Pubkey

from payd.chains.assets import Asset, AssetBook
from payd.chains.fee_terms import FeeTerms
from payd.chains.solana.build import Leg
from payd.chains.solana.due import NOBODY, Due, due_of
from payd.chains.solana.keys import TOKEN, TOKEN_2022, token_account
from payd.chains.solana.terms import Terms
from payd.core.caip import AccountId, parse_account, parse_asset, parse_chain
from payd.core.payment import Payment
from tests.chains.solana.desk import NOW_MS, PAYMENT_ID, TERMS
from tests.live.solana import (
    BUYER,
    CHAIN,
    FEE_PAYER,
    MERCHANT,
    OPERATOR,
    PYUSD,
    PYUSD_MINT,
    SOL,
    USDC,
    USDC_MINT,
    account_id,
    address,
    pubkey,
)

PAYMENT = Payment(
    id=PAYMENT_ID,
    account_id="acct_1",
    merchant_id="mrch_1",
    reference_id="ORDER-1",
    currency="USD",
    value=2500,
    created_at_ms=NOW_MS,
    expires_at_ms=NOW_MS + 1000,
    updated_at_ms=NOW_MS,
)
DEVNET = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"
ODD = Asset(asset=f"{CHAIN}/token:{address(20)}", symbol="ODD", name="Odd", decimals=6, kind="erc20")


def due(
    asset: str = USDC,
    account: str = account_id(BUYER),
    destination: str = account_id(MERCHANT),
    terms: Terms = TERMS,
    rows: tuple[Asset, ...] = (),
) -> Due | None:
    return due_of(terms, AssetBook(rows), PAYMENT, parse_asset(asset), parse_account(account), destination)


@pytest.mark.parametrize(
    ("asset", "token"),
    [(USDC, (USDC_MINT, TOKEN)), (PYUSD, (PYUSD_MINT, TOKEN_2022)), (SOL, None)],
)
def test_an_asset_of_the_book_is_due(asset: str, token: tuple[Pubkey, Pubkey] | None) -> None:
    found = due(asset)

    assert found is not None
    assert (found.token, found.buyer, found.destination) == (token, pubkey(BUYER), pubkey(MERCHANT))
    assert found.operator is None


def test_other_spellings_of_the_chain_are_the_same_one() -> None:
    alias = due(USDC.replace(CHAIN, "solana:mainnet"), account_id(BUYER).replace(CHAIN, "solana:mainnet"))

    assert alias == due()


@pytest.mark.parametrize(
    ("asset", "account", "destination"),
    [
        (f"{CHAIN}/token:{address(BUYER)}", account_id(BUYER), account_id(MERCHANT)),
        (USDC.replace(CHAIN, DEVNET), account_id(BUYER), account_id(MERCHANT)),
        (USDC, account_id(BUYER).replace(CHAIN, DEVNET), account_id(MERCHANT)),
        (USDC, account_id(BUYER), account_id(MERCHANT).replace(CHAIN, DEVNET)),
        (USDC, f"{CHAIN}:{'1' * 31}", account_id(MERCHANT)),
        (USDC, f"{CHAIN}:0x12", account_id(MERCHANT)),
        (USDC, account_id(BUYER), f"{CHAIN}:abc"),
        (ODD.asset, account_id(BUYER), account_id(MERCHANT)),
    ],
    ids=["no row", "its chain", "the buyer's", "the merchant's", "short", "no key", "no wallet", "no spl"],
)
def test_what_is_of_no_use_on_this_chain_is_not_due(asset: str, account: str, destination: str) -> None:
    assert due(asset, account, destination, rows=(ODD,)) is None


@pytest.mark.parametrize(
    ("account", "destination"),
    [
        (account_id(MERCHANT), account_id(MERCHANT)),
        (account_id(FEE_PAYER), account_id(MERCHANT)),
        (account_id(BUYER), account_id(FEE_PAYER)),
        (f"{CHAIN}:{USDC_MINT}", account_id(MERCHANT)),
        (account_id(BUYER), f"{CHAIN}:{USDC_MINT}"),
    ],
    ids=["oneself", "we as buyer", "we as merchant", "the mint as buyer", "the mint as merchant"],
)
def test_nobody_pays_oneself_and_we_are_no_part_of_a_payment(account: str, destination: str) -> None:
    assert due(USDC, account, destination) is None


def fee_terms(place: int) -> Terms:
    return msgspec.structs.replace(TERMS, fee=FeeTerms(Fraction(1, 100), Fraction(0), address(place)))


def test_the_operator_takes_no_fee_of_what_it_pays_or_gets_itself() -> None:
    operators = [due(terms=fee_terms(place)) for place in (OPERATOR, BUYER, MERCHANT)]

    assert [found and found.operator for found in operators] == [pubkey(OPERATOR), None, None]


def test_legs_are_what_leaves_the_buyer() -> None:
    found = due(terms=fee_terms(OPERATOR))
    assert found is not None
    whole = msgspec.structs.replace(found, amount=25)

    assert whole.legs == (Leg(pubkey(MERCHANT), 25),)
    divided = msgspec.structs.replace(whole, fee=3)
    assert divided.legs == (Leg(pubkey(MERCHANT), 22), Leg(pubkey(OPERATOR), 3))


def test_a_token_is_held_where_it_follows_from_its_program() -> None:
    dollar, other = due(USDC), due(PYUSD)

    assert dollar is not None
    assert other is not None
    assert dollar.holding_of(pubkey(BUYER)) == token_account(pubkey(BUYER), USDC_MINT, TOKEN)
    assert other.holding_of(pubkey(BUYER)) == token_account(pubkey(BUYER), PYUSD_MINT, TOKEN_2022)


def test_whoever_follows_a_link_is_somebody_on_the_chain() -> None:
    found = due(account=str(AccountId(parse_chain(CHAIN), str(NOBODY))))

    assert found is not None
    assert found.buyer == NOBODY
