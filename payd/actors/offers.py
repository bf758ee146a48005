"""What a wallet is offered: options with quotes, and the calls behind a build action.

Nothing here moves a payment. Each hand-out is stored before the wallet sees it.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from payd.actors.payments import Payments
from payd.core.caip import AccountId, canonical_chain, parse_account, parse_asset
from payd.core.errors import InvalidParams, InvalidState, PaymentExpired, QuoteExpired, RouteExpired
from payd.core.option import OPTIONS_PER_ANSWER_MAX, Build, Offer, Quote, WalletRpc
from payd.core.payment import Payment
from payd.core.status import Status
from payd.entropy import new_id
from payd.store.db import Tx
from payd.store.options import (
    append_quote,
    asset_key_of,
    freeze_destination,
    frozen_destinations,
    hand_out,
    quotes_of,
)
from payd.store.payments import find_payment
from payd.store.settlements import has_settlement, list_settlements

EXPIRED_WORDS: Final = "This payment has expired. Do not send money now; ask the shop for a new payment link."


def refuse_expired(payment: Payment, now_ms: int) -> None:
    """Refuse to go on with a payment whose window is over, also before its actor has said so.

    Raises:
        PaymentExpired: It is.
    """
    over = payment.status is Status.REQUIRES_ACTION and now_ms >= payment.expires_at_ms
    if over or payment.status is Status.EXPIRED:
        raise PaymentExpired(EXPIRED_WORDS)


async def offer_options(
    payments: Payments, payment_id: str, accounts: Sequence[AccountId]
) -> list[Quote] | None:
    """The options of a payment for a buyer's accounts, each handed out as a quote.

    Returns:
        At most 50 quotes in the order of the merchant's destinations; None when the payment needs no action.

    Raises:
        PaymentNotFound: There is no such payment.
        PaymentExpired: Its window has closed.
        RateLimited: It was offered to too many accounts.
    """
    now_ms = payments.clock.now_ms()
    payment = payments.find(payment_id)
    refuse_expired(payment, now_ms)
    if payment.status is not Status.REQUIRES_ACTION:
        return None
    routes = payments.db.point(_routes, payment)
    offers: list[tuple[str, str, Offer]] = []
    for asset_text, asset_key, destination in routes:
        asset = parse_asset(asset_text)
        chain = payments.chain_of(str(asset.chain))
        for account in accounts:
            if (
                chain is None
                or canonical_chain(account.chain) != parse_asset(asset_key).chain
                or len(offers) >= OPTIONS_PER_ANSWER_MAX
            ):
                continue
            offer = await chain.offer(payment, asset, account, destination, now_ms)
            if offer is not None:
                offers.append((asset_key, destination, offer))
    if not offers:
        return []
    ids = [new_id("opt_", now_ms, payments.entropy) for _ in offers]
    return await payments.db.write(_hand_out_all, payment_id, offers, ids, now_ms)


async def fetch_actions(
    payments: Payments, payment_id: str, option_id: str, data: str
) -> tuple[WalletRpc, ...]:
    """The wallet calls behind a build action, handed out as a new quote of the option.

    Raises:
        PaymentNotFound: There is no such payment.
        PaymentExpired: Its window has closed.
        InvalidState: It needs no action any more.
        InvalidParams: The option is unknown, or has no such build action.
        QuoteExpired: Ask for options again.
        RouteExpired: The destination was removed, or its chain is off.
    """
    now_ms = payments.clock.now_ms()
    payment = payments.find(payment_id)
    refuse_expired(payment, now_ms)
    if payment.status is not Status.REQUIRES_ACTION:
        raise InvalidState(f"The payment is {payment.status.value}; there is nothing left to sign.")
    quotes = known_quotes(payments, payment_id, option_id)
    built = [quote for quote in quotes if not quote.resolved]
    if not built:
        raise InvalidParams("This option has no build action; execute its actions as they are.")
    quote = built[0]
    refuse_gone_route(payments, payment, option_id)
    if not quote.valid_at(now_ms):
        raise QuoteExpired("The quote is too old. Ask for options again.")
    chain = payments.chain_of(str(parse_account(quote.account).chain))
    assert chain is not None, "the route was just checked"
    calls = await chain.resolve(payment, quote, data)
    await payments.db.write(_hand_out_resolved, quote, data, calls, now_ms)
    return calls


def known_quotes(payments: Payments, payment_id: str, option_id: str) -> list[Quote]:
    """Every hand-out of an option, newest first.

    Raises:
        InvalidParams: It was never handed out for this payment.
    """
    quotes = payments.db.point(quotes_of, payment_id, option_id)
    if not quotes:
        raise InvalidParams("This option does not belong to the payment. Ask for options again.")
    return quotes


def refuse_gone_route(payments: Payments, payment: Payment, option_id: str) -> None:
    """Refuse new signatures when the destination was removed or the chain is off.

    Raises:
        RouteExpired: It is gone. What was signed before is watched all the same.
    """
    asset_key = payments.db.point(asset_key_of, option_id)
    assert asset_key is not None, "the option was just read"
    on = payments.chain_of(str(parse_asset(asset_key).chain)) is not None
    if not on or not payments.db.point(has_settlement, payment.merchant_id, asset_key):
        raise RouteExpired("The merchant no longer takes this asset. Ask for options again.")


def _routes(tx: Tx, payment: Payment) -> list[tuple[str, str, str]]:
    """What can be paid as `(asset, canonical asset, destination)`, frozen where it was offered before."""
    frozen = frozen_destinations(tx, payment.id)
    return [
        (one.asset, one.asset_key, frozen.get(one.asset_key, one.destination))
        for one in list_settlements(tx, payment.merchant_id)
    ]


def _hand_out_all(
    tx: Tx, payment_id: str, offers: Sequence[tuple[str, str, Offer]], ids: Sequence[str], now_ms: int
) -> list[Quote] | None:
    payment = find_payment(tx, payment_id)
    assert payment is not None, "payments are never deleted"
    if payment.status is not Status.REQUIRES_ACTION:
        return None
    quotes: list[Quote] = []
    for (asset_key, destination, offer), option_id in zip(offers, ids, strict=True):
        # Removed or frozen to another wallet since it was read: the next call offers what is true then.
        if not has_settlement(tx, payment.merchant_id, asset_key):
            continue
        if freeze_destination(tx, payment_id, asset_key, destination) != destination:
            continue
        quotes.append(hand_out(tx, payment_id, offer, asset_key, destination, option_id, now_ms))
    return quotes


def _hand_out_resolved(tx: Tx, quote: Quote, data: str, calls: tuple[WalletRpc, ...], now_ms: int) -> None:
    actions: list[WalletRpc | Build] = []
    for action in quote.actions:
        if isinstance(action, Build) and action.data == data:
            actions += calls
        else:
            actions.append(action)
    known = quotes_of(tx, quote.payment_id, quote.option_id)
    if any(one.actions == tuple(actions) and one.valid_until_ms == quote.valid_until_ms for one in known):
        return
    append_quote(
        tx,
        Quote(
            option_id=quote.option_id,
            payment_id=quote.payment_id,
            asset=quote.asset,
            account=quote.account,
            amount=quote.amount,
            destination=quote.destination,
            actions=tuple(actions),
            valid_from_ms=now_ms,
            valid_until_ms=quote.valid_until_ms,
        ),
    )
