"""Commitments: what is stored of an authorization or a transaction, for the day that the chain shows more."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest

from payd.chains.assets import Asset, AssetBook, Domain
from payd.chains.defaults import DepthPolicy
from payd.chains.evm.actions import send_token_action, sign_action
from payd.chains.evm.authorization import Authorization, TokenDomain
from payd.chains.evm.binding import authorization_nonce, payment_tag
from payd.chains.evm.commitment import Commitments
from payd.chains.evm.terms import Terms
from payd.chains.evm.track import Told, Track
from payd.chains.fee_terms import FeeTerms
from payd.chains.market.table import TablePrices
from payd.core.caip import ChainId
from payd.core.option import Action, Quote
from payd.core.payment import Payment, Processing
from tests.chains.evm.json import BUYER, OTHER_SHOP, SHOP, TOKEN, TX_HASH, WALLET

POLYGON = ChainId("eip155", "137")
USDC = Asset(
    asset=f"{POLYGON}/erc20:{TOKEN}",
    symbol="USDC",
    name="USD Coin",
    decimals=6,
    kind="eip3009",
    domain=Domain("USD Coin", "2"),
    par="USD",
)
POL = f"{POLYGON}/slip44:966"
ALIAS = f"{POLYGON}/slip44:60"
TERMS = Terms(
    POLYGON,
    2000,
    DepthPolicy.of({"0": 3, "1000": "finalized"}),
    fee=FeeTerms(Fraction(1, 100), Fraction(0), OTHER_SHOP),
)
PAYMENT = Payment("pay_1", "acct_1", "mrch_1", "R", "USD", 2500, 0, 900_000, 0)
MAIN = Authorization(
    TokenDomain("USD Coin", "2", 137, TOKEN), BUYER, SHOP, 24_750_000, 3600, authorization_nonce("pay_1")
)
FEE = msgspec.structs.replace(MAIN, recipient=OTHER_SHOP, value=250_000)
TOLD = Told(TX_HASH, BUYER, 7)


@pytest.fixture
def commitments() -> Commitments:
    return Commitments(TERMS, AssetBook([USDC]), TablePrices({"USDC/USD": "1", "POL/USD": "0.25"}))


def quote_of(asset: str, *actions: Action) -> Quote:
    account, shop = f"{POLYGON}:{BUYER}", f"{POLYGON}:{SHOP}"
    return Quote("opt_1", "pay_1", asset, account, 25_000_000, shop, actions, 0, 1)


def track_of(processing: Processing) -> Track:
    return msgspec.msgpack.decode(processing.track, type=Track)


SIGNED = quote_of(USDC.asset, sign_action(POLYGON, BUYER, MAIN), sign_action(POLYGON, BUYER, FEE))
SENT = quote_of(USDC.asset, send_token_action(POLYGON, BUYER, TOKEN, SHOP, 25_000_000, payment_tag("pay_1")))


async def test_what_was_signed_is_waited_for_until_it_ends(commitments: Commitments) -> None:
    processing = await commitments.signed(PAYMENT, SIGNED, (MAIN, FEE), 5)
    track = track_of(processing)

    assert (track.token, track.nonce, track.valid_until_s) == (TOKEN, MAIN.nonce, 3600)
    assert (track.value, track.told, track.depth) == ("24750000", None, 3)
    assert processing.processing_at_ms == 5
    assert processing.option_amount.value == "25000000"
    assert processing.settlement_amount.value == "24750000"
    assert processing.fee is not None
    assert processing.fee.total_amount.value == "250000"


async def test_what_was_sent_is_waited_for_by_its_hash(commitments: Commitments) -> None:
    processing = await commitments.sent(PAYMENT, SENT, TOLD, 5)
    track = track_of(processing)

    assert track.told == TOLD
    assert (track.token, track.nonce, track.valid_until_s) == (None, None, None)
    assert processing.fee is None
    assert processing.settlement_amount == processing.option_amount


async def test_the_operators_part_counts_for_the_depth(commitments: Commitments) -> None:
    payment = msgspec.structs.replace(PAYMENT, currency="EUR")
    quote = msgspec.structs.replace(SIGNED, amount=1_000_000_000, due=990_000_000)

    assert track_of(await commitments.signed(payment, quote, (MAIN, FEE), 5)).depth == "finalized"


async def test_both_may_come_in_the_end_by_either_binding(commitments: Commitments) -> None:
    both = {authorization_nonce("pay_1"), payment_tag("pay_1")}

    assert set(track_of(await commitments.signed(PAYMENT, SIGNED, (MAIN,), 5)).bindings) == both
    assert set(track_of(await commitments.sent(PAYMENT, SENT, TOLD, 5)).bindings) == both


async def test_the_buyer_is_who_was_asked_or_else_who_paid(commitments: Commitments) -> None:
    payer = f"{POLYGON}:{WALLET}"

    assert (await commitments.sent(PAYMENT, SENT, TOLD, 5)).buyer == SENT.account
    assert (await commitments.sent(PAYMENT, SENT, TOLD, 5, buyer=payer)).buyer == payer
    assert (await commitments.signed(PAYMENT, SIGNED, (MAIN,), 5, buyer=payer)).buyer == payer


async def test_an_asset_by_another_of_its_names_is_noted_by_its_first(commitments: Commitments) -> None:
    processing = await commitments.sent(PAYMENT, quote_of(ALIAS), TOLD, 5)

    assert track_of(processing).asset == POL
    assert processing.option_amount.unit == f"caip19/{ALIAS}"


async def test_an_asset_that_left_the_configuration_waits_longest(commitments: Commitments) -> None:
    gone = quote_of(f"{POLYGON}/erc20:0x" + "12" * 20)

    assert track_of(await commitments.sent(PAYMENT, gone, TOLD, 5)).depth == "finalized"
