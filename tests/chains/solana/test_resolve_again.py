"""What is fetched again, or at the same moment: the same transaction while it is good, at one cost."""

from __future__ import annotations

from fractions import Fraction

import pytest
import trio

from payd.chains.defaults import solana_defaults_of
from payd.chains.fee_terms import FeeTerms
from payd.chains.solana.binding import reference_of
from payd.chains.solana.budget import PURSE_EMPTY, SPENT, SPENT_ON_BUYER
from payd.chains.solana.ways import NO_SOL
from payd.core.errors import (
    InvalidState,
    QuoteExpired,
    RateLimited,
)
from payd.core.option import QUOTES_VALID_MAX, Quote
from payd.core.payment import Payment
from payd.store.builds import end_builds, hash_message, reserved_on_builds
from payd.store.db import Database
from payd.store.options import quotes_of
from tests.chains.solana.desk import NOW_MS, PAYMENT_ID, Desk, Fetched, open_desk
from tests.live.solana import (
    BUYER,
    CHAIN,
    OPERATOR,
    SOL,
    address,
    pubkey,
)

pytestmark = pytest.mark.real_time

AMOUNT = 25_000_000
REFERENCE = reference_of(PAYMENT_ID)
FEE = FeeTerms(Fraction(1, 100), Fraction(0), address(OPERATOR))
# Blocks of a third of a blockhash's life.
THIRD = 50


# Handed out again.


@pytest.mark.parametrize("is_poor", [False, True])
async def test_who_fetches_again_gets_the_same_bytes(desk: Desk, is_poor: bool) -> None:
    payment = await desk.payment()
    if is_poor:
        await desk.poor()
    quote = await desk.quote(payment)
    first = await desk.fetch(payment, quote)
    await desk.solana.slots(THIRD)
    desk.later(20_000)
    again = await desk.fetch(payment, quote)

    assert again.raw == first.raw
    assert again.valid_until_ms == first.valid_until_ms
    assert len(desk.pen.signed) == is_poor
    await desk.solana.slots(1)
    fresh = await desk.fetch(payment, quote)
    assert fresh.raw != first.raw
    assert desk.build_of(fresh).valid_until_height > desk.build_of(first).valid_until_height


async def test_what_is_void_or_has_landed_is_not_handed_out_again(desk: Desk) -> None:
    payment = await desk.payment()
    await desk.poor()
    quote = await desk.quote(payment)
    first = await desk.fetch(payment, quote)
    await desk.db.write(end_builds, [(hash_message(first.bytes), "void", 0)])
    with pytest.raises(QuoteExpired):
        await desk.fetch(payment, quote)
    await desk.solana.confirm()

    assert (await desk.fetch(payment, quote)).raw != first.raw


async def test_prices_that_change_a_little_change_no_transaction(desk: Desk) -> None:
    desk.node.prices = [41_000]
    payment = await desk.payment()
    quote = await desk.quote(payment)
    first = await desk.fetch(payment, quote)
    desk.node.prices = [70_000]
    desk.later(20_000)

    assert (await desk.fetch(payment, quote)).raw == first.raw


@pytest.mark.parametrize("slot_ms", [200, 250, 400])
async def test_a_wallet_that_fetches_all_the_time_is_never_refused(realm_db: Database, slot_ms: int) -> None:
    """Slots had 400 ms, have become shorter step by step, and are to have 200."""
    async with open_desk(realm_db, block_ms=solana_defaults_of(CHAIN).block_ms) as desk:
        payment = await desk.payment()
        quote = await desk.quote(payment)
        transactions = set()
        for _ in range(170):
            transactions.add((await desk.fetch(payment, quote)).raw)
            await desk.solana.slots(5_000 // slot_ms)
            desk.later(5_000)

        valid = [one for one in desk.db.point(quotes_of, PAYMENT_ID, "opt_1", desk.now_ms) if one.resolved]
        third_of_a_life_ms = 50 * slot_ms
        assert 0.6 < len(transactions) * third_of_a_life_ms / (170 * 5_000) < 1.2
        assert len(valid) < QUOTES_VALID_MAX


async def test_a_fetched_transaction_is_good_for_two_minutes_at_most(desk: Desk) -> None:
    payment = await desk.payment()
    fetched = await desk.fetch(payment, await desk.quote(payment))

    assert fetched.valid_until_ms == NOW_MS + 120_000


# What it may cost us.


async def test_two_that_fetch_at_once_cost_what_one_does(desk: Desk) -> None:
    payment = await desk.payment()
    await desk.poor()
    quote = await desk.quote(payment)
    got: list[bytes] = []

    async def fetch() -> None:
        got.append((await desk.fetch(payment, quote)).raw)

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(fetch)

    assert len(set(got)) == 1
    assert desk.db.point(reserved_on_builds, CHAIN).count == 1


async def test_of_many_payments_at_once_no_more_are_signed_than_the_budget_has(realm_db: Database) -> None:
    async with open_desk(realm_db, spend_per_day=35_000) as desk:
        await desk.poor()
        payments = [await desk.payment(id=f"pay_{n}") for n in range(6)]
        quotes = [await desk.quote(one, option_id=f"opt_{n}") for n, one in enumerate(payments)]
        got: list[Fetched] = []
        words: list[str] = []

        async def fetch(payment: Payment, quote: Quote) -> None:
            try:
                got.append(await desk.fetch(payment, quote))
            except RateLimited as limited:
                words.append(limited.message)

        async with trio.open_nursery() as nursery:
            for payment, quote in zip(payments, quotes, strict=True):
                nursery.start_soon(fetch, payment, quote)

        assert words == [SPENT] * 3
        assert {one.bytes for one in got} == set(desk.pen.signed)
        assert len(got) == 3
        assert desk.db.point(reserved_on_builds, CHAIN).cost <= 35_000


async def test_a_buyer_that_we_paid_for_often_enough_pays_oneself(realm_db: Database) -> None:
    async with open_desk(realm_db, relays_per_buyer=1) as desk:
        await desk.poor()
        first, second = await desk.payment(), await desk.payment(id="pay_2")
        await desk.fetch(first, await desk.quote(first))
        quote = await desk.quote(second, option_id="opt_2")
        assert await desk.refused(RateLimited, second, quote) == SPENT_ON_BUYER

        await desk.solana.fund(pubkey(BUYER))
        await desk.solana.confirm()
        assert (await desk.fetch(second, quote)).fee_payer == pubkey(BUYER)


@pytest.mark.parametrize("lamports", [0, 890_880 + 10_000])
async def test_an_empty_purse_signs_nothing(realm_db: Database, lamports: int) -> None:
    async with open_desk(realm_db, fee_payer_sol=lamports) as desk:
        await desk.poor()
        payment = await desk.payment()

        assert await desk.refused(InvalidState, payment, await desk.quote(payment)) == PURSE_EMPTY


async def test_sol_is_not_sponsored_at_a_fetch_either(desk: Desk) -> None:
    payment = await desk.payment()
    quote = await desk.quote(payment, SOL)
    await desk.solana.fund(pubkey(BUYER), 125_000_000 + 5_000)
    await desk.solana.confirm()

    assert await desk.refused(InvalidState, payment, quote) == NO_SOL
