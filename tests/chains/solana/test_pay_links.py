"""Links of Solana Pay: exactly what is due, to whom it is due, and with what binds it to the payment."""

from __future__ import annotations

from fractions import Fraction
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest

from payd.chains.assets import Asset
from payd.chains.fee_terms import FeeTerms
from payd.chains.solana.answers import decode_landed
from payd.chains.solana.binding import memo_of, reference_key, reference_of
from payd.chains.solana.due import NOBODY
from payd.chains.solana.offers import QUOTE_LIFETIME_MS
from payd.chains.solana.pay_links import LABEL_CHARS_MAX, pay_offer
from payd.chains.solana.proof import Watched, paid_by
from payd.core.caip import parse_asset
from payd.core.option import Build, Offer
from payd.core.payment import Payment
from payd.store.db import Database
from tests.chains.solana.desk import NOW_MS, PAYMENT_ID, Desk, open_desk
from tests.live.solana import (
    BUYER,
    CHAIN,
    FEE_PAYER,
    MERCHANT,
    MERCHANT_2,
    OPERATOR,
    PYUSD,
    SOL,
    STRANGER,
    USDC,
    USDC_MINT,
    USDT,
    USDT_MINT,
    account_id,
    address,
    hand_over,
    keypair,
    pay_by_link,
    pubkey,
)

pytestmark = pytest.mark.real_time

REFERENCE = reference_of(PAYMENT_ID)


async def linked(
    desk: Desk, asset: str = USDC, merchant: int = MERCHANT, payment: Payment | None = None, **words: str
) -> Offer | None:
    paid = payment or await desk.payment()
    return await pay_offer(desk.offers, paid, parse_asset(asset), account_id(merchant), desk.now_ms, **words)


def link_in(offer: Offer | None) -> str:
    assert offer is not None
    [action] = offer.actions
    assert isinstance(action, Build)
    return action.data


async def test_the_link_of_a_token_names_all_that_a_wallet_needs(desk: Desk) -> None:
    offer = await linked(desk)

    assert link_in(offer) == (
        f"solana:{address(MERCHANT)}?amount=25&spl-token={USDC_MINT}"
        f"&reference={reference_key(PAYMENT_ID)}&memo={memo_of(REFERENCE)}"
    )
    assert offer is not None
    assert (offer.account, offer.amount, offer.due) == (f"{CHAIN}:{NOBODY}", 25_000_000, None)
    assert offer.bindings == (REFERENCE,)
    assert offer.valid_until_ms == NOW_MS + 900_000


async def test_the_link_of_sol_names_no_token_and_holds_for_a_moment(desk: Desk) -> None:
    await desk.solana.fund(pubkey(MERCHANT))
    await desk.solana.confirm()
    offer = await linked(desk, SOL)

    assert link_in(offer).startswith(f"solana:{address(MERCHANT)}?amount=0.125&reference=")
    assert "spl-token" not in link_in(offer)
    assert offer is not None
    assert offer.valid_until_ms == NOW_MS + QUOTE_LIFETIME_MS


async def test_words_are_encoded_and_cut_and_read_again(desk: Desk) -> None:
    label = "Käse & Brot? #1 100%+/" + "x" * 100
    link = link_in(await linked(desk, label=label))
    fields = [one.split("=") for one in urlsplit(link).query.split("&")]

    assert [name for name, _ in fields] == ["amount", "spl-token", "reference", "label", "memo"]
    assert unquote(dict(fields)["label"]) == label[:LABEL_CHARS_MAX]
    assert link.isascii()
    assert dict(parse_qsl(urlsplit(link).query))["label"] == label[:LABEL_CHARS_MAX]


async def test_who_asks_again_gets_the_same_link(desk: Desk) -> None:
    payment = await desk.payment()
    first = link_in(await linked(desk, payment=payment))
    desk.later(60_000)

    assert link_in(await linked(desk, payment=payment)) == first


# What a wallet makes of it is a payment.


async def follow(desk: Desk, link: str, place: int) -> Any:
    """Pay as a wallet does that has only the link; gives what the node shows."""
    tx_id = await desk.solana.send(pay_by_link(link, pubkey(place)), keypair(place))
    await desk.solana.confirm()
    return await desk.solana.landed(tx_id)


@pytest.mark.parametrize("asset", [USDC, SOL])
async def test_who_follows_a_link_pays_exactly_what_was_offered(desk: Desk, asset: str) -> None:
    await desk.solana.fund(pubkey(MERCHANT))
    await desk.solana.confirm()
    offer = await linked(desk, asset)
    landed = decode_landed(await follow(desk, link_in(offer), BUYER))
    watched = Watched(owners={pubkey(MERCHANT)}, mints={USDC_MINT: USDC}, native=SOL)

    assert landed is not None
    assert offer is not None
    [paid] = paid_by(desk.terms.chain, landed, watched, {(REFERENCE, asset)})
    assert (paid.value, paid.asset, paid.recipient) == (offer.amount, asset, account_id(MERCHANT))
    assert paid.binding == REFERENCE


# Where there is none.


async def test_no_link_leads_to_a_token_account_that_is_not_there(desk: Desk) -> None:
    assert await linked(desk, merchant=MERCHANT_2) is None


async def test_no_link_leads_to_a_token_account_that_was_given_away(desk: Desk) -> None:
    await desk.solana.fund(pubkey(MERCHANT))
    await desk.solana.send([hand_over(pubkey(MERCHANT), USDC_MINT, pubkey(STRANGER))], keypair(MERCHANT))
    await desk.solana.confirm()

    assert await linked(desk) is None


async def test_tokens_that_wallets_look_for_elsewhere_have_no_link(desk: Desk) -> None:
    assert await linked(desk, PYUSD) is None


async def test_too_little_sol_for_a_wallet_that_does_not_exist_has_no_link(desk: Desk) -> None:
    assert await linked(desk, SOL, payment=await desk.payment(1)) is None


async def test_no_link_leads_to_our_own_account_or_out_of_a_closed_window(desk: Desk) -> None:
    payment = await desk.payment()
    assert await linked(desk, SOL, FEE_PAYER, payment) is None
    desk.now_ms = payment.expires_at_ms
    assert await linked(desk, payment=payment) is None


async def test_what_has_no_price_has_no_link(desk: Desk) -> None:
    assert await linked(desk, payment=await desk.payment(2500, "JPY")) is None
    assert await linked(desk, payment=await desk.payment(1, id="pay_2"), asset=USDC.lower()) is None


@pytest.mark.parametrize("is_mandatory", [True, False])
async def test_a_link_has_no_place_for_a_fee(realm_db: Database, is_mandatory: bool) -> None:
    fee = FeeTerms(Fraction(1, 100), Fraction(0), address(OPERATOR), is_mandatory)
    async with open_desk(realm_db, fee=fee) as desk:
        await desk.solana.give(pubkey(OPERATOR), USDC_MINT, 0)
        await desk.solana.confirm()
        offer = await linked(desk)

        assert (offer is None) is is_mandatory
        assert offer is None or (offer.amount, offer.due) == (25_000_000, None)


@pytest.mark.parametrize("is_mandatory", [True, False])
async def test_nor_for_one_that_nobody_can_work_out(realm_db: Database, is_mandatory: bool) -> None:
    fee = FeeTerms(Fraction(1, 100), Fraction(1), address(OPERATOR), is_mandatory)
    row = Asset(asset=USDT, symbol="EURT", name="Euro", decimals=6, kind="spl", par="EUR")
    async with open_desk(realm_db, fee=fee, rows=(row,)) as desk:
        await desk.solana.give(pubkey(MERCHANT), USDT_MINT, 0)
        await desk.solana.confirm()
        offer = await linked(desk, USDT, payment=await desk.payment(2500, "EUR"))

        assert (offer is None) is is_mandatory
