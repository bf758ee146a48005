"""What is stored of a commitment: asset, merchant's part, fee, and how far the chain must come."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest

from payd.chains.assets import AssetBook
from payd.chains.defaults import Depth, DepthPolicy
from payd.chains.fee_terms import FeeTerms
from payd.chains.market.table import TablePrices
from payd.chains.solana.binding import reference_of
from payd.chains.solana.commitments import Commitments, to_commitment
from payd.chains.solana.terms import Commitment, Terms
from payd.chains.solana.track import Track
from payd.core.option import Quote
from payd.core.payment import Payment, Processing
from tests.chains.solana.scene import PAYMENT_ID, PRICES, ROWS, TERMS, WINDOW_MS
from tests.live.solana import BUYER, BUYER_2, CHAIN, MERCHANT, OPERATOR, SOL, USDC, account_id, address

BY_AMOUNT = DepthPolicy.of({"0": "confirmed", "25": "finalized"})
FEE = FeeTerms(Fraction(1, 100), Fraction(0), address(OPERATOR))
PAYMENT = Payment(
    id=PAYMENT_ID,
    account_id="acct_1",
    merchant_id="mrch_1",
    reference_id="R",
    currency="USD",
    value=2499,
    created_at_ms=0,
    expires_at_ms=WINDOW_MS,
    updated_at_ms=0,
)


def quote_of(asset: str = USDC, amount: int = 24_990_000, due: int | None = None) -> Quote:
    destination = account_id(MERCHANT)
    return Quote("opt_1", PAYMENT.id, asset, account_id(BUYER), amount, destination, (), 0, WINDOW_MS, due)


async def made(
    quote: Quote, terms: Terms = TERMS, payment: Payment = PAYMENT, buyer: str | None = None
) -> tuple[Processing, Track]:
    commitments = Commitments(terms, AssetBook(ROWS), TablePrices(PRICES))
    processing = await commitments.made(payment, quote, "tx", 7, 1000, buyer=buyer)
    return processing, msgspec.msgpack.decode(processing.track, type=Track)


async def test_the_notes_name_the_transaction_and_what_it_must_show() -> None:
    processing, track = await made(quote_of())

    assert track == Track(
        asset=USDC,
        recipient=account_id(MERCHANT),
        value="24990000",
        reference=reference_of(PAYMENT.id),
        depth="confirmed",
        tx_id="tx",
        valid_until_height=7,
    )
    assert (processing.chain, processing.buyer) == (CHAIN, account_id(BUYER))
    assert processing.processing_at_ms == 1000
    assert processing.fee is None


async def test_other_spellings_of_an_asset_are_noted_in_the_one_that_transfers_have() -> None:
    spelled = USDC.replace(CHAIN, "solana:mainnet").replace("token:", "spl:")
    _, track = await made(quote_of(spelled))

    assert track.asset == USDC


async def test_who_paid_is_the_buyer_where_it_is_another() -> None:
    processing, _ = await made(quote_of(), buyer=account_id(BUYER_2))

    assert processing.buyer == account_id(BUYER_2)


@pytest.mark.parametrize("terms", [TERMS, msgspec.structs.replace(TERMS, fee=FEE)])
async def test_the_operators_part_is_told_as_it_was_signed(terms: Terms) -> None:
    processing, track = await made(quote_of(due=24_740_100), terms)

    assert track.value == "24740100"
    assert processing.settlement_amount.value == "24740100"
    assert processing.option_amount.value == "24990000"
    assert processing.fee is not None
    assert processing.fee.total_amount.value == "249900"


@pytest.mark.parametrize(
    ("asset", "value", "depth"),
    [
        (USDC, 2499, "confirmed"),
        (USDC, 2500, "finalized"),
        (SOL, 2499, "confirmed"),
        # It left the configuration: nobody knows what it is worth.
        (f"{CHAIN}/token:{address(BUYER)}", 1, "finalized"),
    ],
)
async def test_the_depth_follows_from_what_the_payment_is_worth(asset: str, value: int, depth: str) -> None:
    terms = msgspec.structs.replace(TERMS, depth=BY_AMOUNT)
    payment = msgspec.structs.replace(PAYMENT, value=value)
    _, track = await made(quote_of(asset), terms, payment)

    assert track.depth == depth


async def test_the_operators_part_counts_for_the_depth() -> None:
    terms = msgspec.structs.replace(TERMS, depth=BY_AMOUNT)
    payment = msgspec.structs.replace(PAYMENT, currency="EUR")
    _, track = await made(quote_of(amount=25_000_000, due=24_750_000), terms, payment)

    assert track.depth == "finalized"


@pytest.mark.parametrize(
    ("depth", "commitment"),
    [("confirmed", "confirmed"), ("finalized", "finalized"), ("safe", "finalized"), (3, "finalized")],
)
def test_what_the_chain_does_not_have_waits_for_the_later_commitment(
    depth: Depth, commitment: Commitment
) -> None:
    assert to_commitment(depth) == commitment
