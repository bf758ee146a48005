"""Offers of Solana: what they cost, until when they hold, what binds them, and what is read for them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest

from payd.chains.assets import Asset
from payd.chains.base import Ask
from payd.chains.fee_terms import FeeTerms
from payd.chains.solana.binding import reference_of
from payd.chains.solana.due import NOBODY
from payd.chains.solana.facts import KEPT_MS
from payd.chains.solana.keys import TOKEN_2022
from payd.chains.solana.offers import QUOTE_LIFETIME_MS
from payd.chains.solana.plan import read_plan
from payd.core.caip import AccountId, parse_account, parse_asset
from payd.core.errors import ChainUnavailable
from payd.core.option import Build, Offer
from payd.store.db import Database
from tests.chains.solana.desk import NOW_MS, PAYMENT_ID, Desk, open_desk
from tests.live.solana import (
    BUYER,
    BUYER_2,
    CHAIN,
    FEE_PAYER,
    MERCHANT,
    OPERATOR,
    PYUSD,
    PYUSD_MINT,
    SOL,
    STRANGER,
    USDC,
    USDC_MINT,
    USDT,
    account_id,
    address,
    hand_over,
    keypair,
    pubkey,
)

pytestmark = pytest.mark.real_time

FEE = FeeTerms(Fraction(1, 100), Fraction(1, 10), address(OPERATOR))
MUST = msgspec.structs.replace(FEE, mandatory=True)


def plan_of(offer: Offer) -> tuple[int, int, str | None]:
    [action] = offer.actions
    assert isinstance(action, Build)
    plan = read_plan(action.data)
    return int(plan.amount), int(plan.fee), plan.operator


# Prices.


@pytest.mark.parametrize(
    ("currency", "value", "asset", "amount"),
    [
        ("USD", 2500, USDC, 25_000_000),
        ("USD", 1, PYUSD, 10_000),
        ("EUR", 100, USDC, 1_111_112),
        ("USD", 2500, SOL, 125_000_000),
    ],
)
async def test_the_amount_is_rounded_up_to_the_smallest_unit(
    desk: Desk, currency: str, value: int, asset: str, amount: int
) -> None:
    offer = await desk.offer(await desk.payment(value, currency), asset)

    assert offer is not None
    assert (offer.amount, offer.due, offer.asset, offer.account) == (amount, None, asset, account_id(BUYER))
    assert plan_of(offer) == (amount, 0, None)
    assert offer.bindings == (reference_of(PAYMENT_ID),)


async def test_what_nobody_has_a_price_for_is_not_offered(desk: Desk) -> None:
    assert await desk.offer(await desk.payment(2500, "JPY")) is None


async def test_an_amount_that_fits_no_transfer_is_not_offered(realm_db: Database) -> None:
    row = Asset(asset=SOL, symbol="SOL", name="Solana", decimals=30, kind="native")
    async with open_desk(realm_db, rows=(row,)) as desk:
        assert await desk.offer(await desk.payment(), SOL) is None


async def test_what_is_at_par_holds_for_the_payments_life_and_what_is_not_for_a_moment(desk: Desk) -> None:
    payment = await desk.payment()
    stable, volatile = await desk.offer(payment), await desk.offer(payment, SOL)

    assert stable is not None
    assert volatile is not None
    assert stable.valid_until_ms == payment.expires_at_ms
    assert volatile.valid_until_ms == NOW_MS + QUOTE_LIFETIME_MS
    soon = msgspec.structs.replace(payment, expires_at_ms=NOW_MS + 5)
    brief = await desk.offer(soon, SOL)
    assert brief is not None
    assert brief.valid_until_ms == NOW_MS + 5


async def test_who_asks_again_is_offered_the_same(desk: Desk) -> None:
    payment = await desk.payment()
    first = await desk.quote(payment)
    await desk.poor()
    await desk.solana.slots(200)
    desk.later(60_000)

    assert await desk.quote(payment) == first


async def test_the_wait_is_that_of_the_commitment(desk: Desk) -> None:
    offer = await desk.offer(await desk.payment())

    assert offer is not None
    assert offer.eta_s == 15


# Who is offered anything.


async def test_a_closed_window_has_no_offer(desk: Desk) -> None:
    payment = await desk.payment()
    desk.now_ms = payment.expires_at_ms

    assert await desk.offer(payment) is None


async def test_what_is_of_another_chain_is_not_offered(desk: Desk) -> None:
    payment = await desk.payment()
    account, other = parse_account(account_id(BUYER)), CHAIN[:-1] + "q"
    for asset, paid in (
        (USDC.replace(CHAIN, other), account_id(MERCHANT)),
        (USDC, f"{other}:{address(MERCHANT)}"),
    ):
        assert await desk.offers.offer(payment, parse_asset(asset), account, paid, NOW_MS) is None


async def test_nobody_is_offered_to_pay_as_anybody(desk: Desk) -> None:
    nobody = AccountId(desk.terms.chain, str(NOBODY))
    await desk.solana.fund(NOBODY)
    await desk.solana.confirm()
    asset, paid = parse_asset(SOL), account_id(MERCHANT)

    assert await desk.offers.offer(await desk.payment(), asset, nobody, paid, NOW_MS) is None


@pytest.mark.parametrize(
    ("buyer", "merchant"), [(MERCHANT, MERCHANT), (FEE_PAYER, MERCHANT), (BUYER, FEE_PAYER)]
)
async def test_our_fee_payer_and_oneself_are_no_part_of_a_payment(
    desk: Desk, buyer: int, merchant: int
) -> None:
    await desk.solana.give(pubkey(FEE_PAYER), USDC_MINT, 10**9)

    assert await desk.offer(await desk.payment(), USDC, buyer, merchant) is None


async def test_who_holds_too_little_is_offered_nothing(desk: Desk) -> None:
    payment = await desk.payment()
    await desk.solana.give(pubkey(BUYER), USDC_MINT, 24_999_999)
    await desk.solana.confirm()

    assert await desk.offer(payment) is None
    assert await desk.offer(payment, USDT) is not None
    assert await desk.offer(payment, USDC, STRANGER) is None


async def test_a_token_whose_decimals_are_not_its_rows_is_not_offered(realm_db: Database) -> None:
    row = Asset(asset=USDC, symbol="USDC", name="USD Coin", decimals=9, kind="spl", par="USD")
    async with open_desk(realm_db, rows=(row,)) as desk:
        assert await desk.offer(await desk.payment(1)) is None


async def test_a_mint_with_the_same_symbol_is_not_the_token(desk: Desk) -> None:
    fake = await desk.solana.mint(pubkey(STRANGER))
    await desk.solana.give(pubkey(BUYER), fake, 10**12)
    await desk.solana.confirm()

    assert await desk.offer(await desk.payment(), f"{CHAIN}/token:{fake}") is None


async def test_a_merchant_who_gave_the_token_account_away_is_not_paid_there(desk: Desk) -> None:
    payment = await desk.payment()
    await desk.solana.fund(pubkey(MERCHANT))
    await desk.solana.send([hand_over(pubkey(MERCHANT), USDC_MINT, pubkey(STRANGER))], keypair(MERCHANT))
    await desk.solana.confirm()

    assert await desk.offer(payment) is None


# Who pays the network.


async def test_we_are_asked_only_for_who_has_no_sol(desk: Desk) -> None:
    payment = await desk.payment()
    await desk.poor(BUYER_2)
    assert await desk.offer(payment, USDC, BUYER_2) is not None

    assert desk.sponsored == [account_id(BUYER_2)]


async def test_who_has_no_sol_is_offered_nothing_that_we_would_not_pay_for(desk: Desk) -> None:
    payment = await desk.payment()
    await desk.poor()
    desk.would_sponsor = False

    assert await desk.offer(payment) is None
    assert await desk.offer(payment, SOL) is None
    assert await desk.offer(payment, USDC, BUYER_2) is not None


@pytest.mark.parametrize("terms", [{"sponsor": False}, {"fee_payer": None}])
async def test_where_nobody_sponsors_one_needs_sol(realm_db: Database, terms: dict[str, Any]) -> None:
    async with open_desk(realm_db, **terms) as desk:
        payment = await desk.payment()
        await desk.poor()

        assert await desk.offer(payment) is None
        assert await desk.offer(payment, USDC, BUYER_2) is not None
        assert desk.sponsored == []


# The operator's fee.


async def test_a_fee_is_a_part_of_the_amount(realm_db: Database) -> None:
    async with open_desk(realm_db, fee=FEE) as desk:
        await desk.solana.give(pubkey(OPERATOR), USDC_MINT, 0)
        await desk.solana.confirm()
        offer = await desk.offer(await desk.payment())

        assert offer is not None
        assert (offer.amount, offer.due) == (25_000_000, 25_000_000 - 350_000)
        assert plan_of(offer) == (25_000_000, 350_000, address(OPERATOR))


@pytest.mark.parametrize("asset", [USDC, PYUSD])
async def test_a_fee_that_the_operator_has_no_account_for_is_left_or_there_is_no_option(
    realm_db: Database, asset: str
) -> None:
    async with open_desk(realm_db, fee=FEE) as desk:
        payment = await desk.payment()
        offer = await desk.offer(payment, asset)
        assert offer is not None
        assert (offer.due, plan_of(offer)) == (None, (25_000_000, 0, None))

        desk.open(fee=MUST)
        assert await desk.offer(payment, asset) is None


async def test_a_mandatory_fee_is_taken_where_it_can_be(realm_db: Database) -> None:
    async with open_desk(realm_db, fee=MUST) as desk:
        await desk.solana.give(pubkey(OPERATOR), PYUSD_MINT, 0, TOKEN_2022)
        await desk.solana.fund(pubkey(OPERATOR))
        await desk.solana.confirm()
        payment = await desk.payment()

        for asset, fee in ((PYUSD, 350_000), (SOL, 1_750_000)):
            offer = await desk.offer(payment, asset)
            assert offer is not None
            assert plan_of(offer)[1] == fee


async def test_a_fee_that_would_be_all_there_is_is_none(realm_db: Database) -> None:
    async with open_desk(realm_db, fee=msgspec.structs.replace(FEE, base_usd=Fraction(25))) as desk:
        await desk.solana.give(pubkey(OPERATOR), USDC_MINT, 0)
        await desk.solana.confirm()
        payment = await desk.payment()
        offer = await desk.offer(payment)
        assert offer is not None
        assert plan_of(offer) == (25_000_000, 0, None)

        desk.open(fee=msgspec.structs.replace(MUST, base_usd=Fraction(25)))
        assert await desk.offer(payment) is None


async def test_a_base_that_nobody_can_convert_is_no_fee(realm_db: Database) -> None:
    row = Asset(asset=USDT, symbol="EURT", name="Euro", decimals=6, kind="spl", par="EUR")
    async with open_desk(realm_db, fee=FEE, rows=(row,)) as desk:
        offer = await desk.offer(await desk.payment(2500, "EUR"), USDT)

        assert offer is not None
        assert plan_of(offer) == (25_000_000, 0, None)


# Reading.


async def test_everything_for_many_accounts_is_read_with_few_requests(desk: Desk) -> None:
    payment = await desk.payment()
    asks = [
        Ask(parse_asset(asset), parse_account(account_id(buyer)), account_id(MERCHANT))
        for asset in (USDC, USDT, PYUSD, SOL)
        for buyer in (BUYER, BUYER_2, STRANGER)
    ]
    await desk.rpc.heads()
    before = desk.rpc.posts
    await desk.offers.read_ahead(payment, asks, NOW_MS)
    # Accounts and rents, and what landing costs.
    assert desk.rpc.posts == before + 2
    for ask in asks:
        await desk.offers.offer(payment, ask.asset, ask.account, ask.destination, NOW_MS + KEPT_MS - 1)

    # The rent of a token account of each size, once.
    assert desk.rpc.posts <= before + 4


async def test_read_ahead_of_nothing_asks_nobody(desk: Desk) -> None:
    payment = await desk.payment()
    before = desk.rpc.posts
    other = Ask(parse_asset("eip155:1/slip44:60"), parse_account(account_id(BUYER)), account_id(MERCHANT))
    await desk.offers.read_ahead(payment, [other], NOW_MS)

    assert desk.rpc.posts == before


async def test_without_a_node_nothing_is_offered_and_it_is_said_why(desk: Desk) -> None:
    payment = await desk.payment()
    desk.node.genesis = "1" * 44
    with pytest.raises(ChainUnavailable):
        await desk.offer(payment)
