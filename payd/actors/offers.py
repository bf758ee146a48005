"""What a wallet is offered: options with quotes, and the calls behind a build action.

Nothing here moves a payment. Each hand-out is stored before the wallet sees it.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from payd.actors.collecting import UNKNOWN_OPTION, Given, refuse_unanswered, take_given
from payd.actors.payments import Payments
from payd.chains.base import Ask, Chain, Resolved
from payd.core.caip import AccountId, canonical_asset, canonical_chain, parse_account, parse_asset
from payd.core.errors import (
    ChainUnavailable,
    InvalidParams,
    InvalidState,
    PaymentExpired,
    QuoteExpired,
    RouteExpired,
)
from payd.core.option import OPTIONS_PER_ANSWER_MAX, Build, Offer, Quote, WalletRpc
from payd.core.payment import Payment
from payd.core.status import Status
from payd.entropy import new_id
from payd.store.db import Tx
from payd.store.options import Route, asset_key_of, hand_out, hand_out_resolved, quotes_of, routes_of
from payd.store.payments import find_payment

EXPIRED_WORDS: Final = "This payment has expired. Do not send money now; ask the shop for a new payment link."
UNRESOLVED_WORDS: Final = (
    "Resolve the option's build action through /fetch first, then execute all its actions."
)
TOO_OLD: Final = "The quote is too old. Ask for options again."
NO_BUILD_WORDS: Final = "This option has no build action; execute its actions as they are."


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
        RateLimited: It was offered to too many accounts, and to none of these.
        ChainUnavailable: No node answers, and there is nothing else to offer.
    """
    now_ms = payments.clock.now_ms()
    payment = payments.find(payment_id)
    refuse_expired(payment, now_ms)
    if payment.status is not Status.REQUIRES_ACTION:
        return None
    offers = await _offers(payments, payment, accounts, now_ms)
    quotes = await hand_out_offers(payments, payment_id, offers, now_ms)
    if quotes is None:
        return None
    etas_s = {(route.asset_key, offer.account): offer.eta_s for route, offer in offers}
    return [
        msgspec.structs.replace(one, eta_s=etas_s[canonical_asset(parse_asset(one.asset)), one.account])
        for one in quotes
    ]


async def hand_out_offers(
    payments: Payments, payment_id: str, offers: Sequence[tuple[Route, Offer]], now_ms: int
) -> list[Quote] | None:
    """Store offers as quotes of a payment, and have its chains watched for what their transfers will carry.

    Returns:
        Those whose routes are still as they were; None when the payment needs no action any more.

    Raises:
        RateLimited: The payment has no room for any of them.
    """
    if not offers:
        return []
    ids = [new_id("opt_", now_ms, payments.entropy) for _ in offers]
    quotes = await payments.db.write(_hand_out_all, payment_id, offers, ids, now_ms)
    for chain in {str(parse_asset(route.asset_key).chain) for route, _ in offers}:
        payments.tell_offered(chain)
    return quotes


async def _offers(
    payments: Payments, payment: Payment, accounts: Sequence[AccountId], now_ms: int
) -> list[tuple[Route, Offer]]:
    """What the chains offer; one that no node answers for takes nothing from the others.

    Raises:
        ChainUnavailable: There is no offer, and a chain that might have had one was not there to be asked.
    """
    found: dict[int, tuple[Route, Offer]] = {}
    down: ChainUnavailable | None = None
    for chain, asked in asks_of(payments, payment, accounts):
        try:
            await chain.read_ahead(payment, [ask for _, _, ask in asked], now_ms)
            for place, route, ask in asked:
                offer = await chain.offer(payment, ask.asset, ask.account, ask.destination, now_ms)
                if offer is not None:
                    found[place] = (route, offer)
                if len(found) >= OPTIONS_PER_ANSWER_MAX:
                    break
        except ChainUnavailable as unavailable:
            down = unavailable
    if down is not None and not found:
        raise down
    return [found[place] for place in sorted(found)][:OPTIONS_PER_ANSWER_MAX]


def asks_of(
    payments: Payments, payment: Payment, accounts: Sequence[AccountId]
) -> list[tuple[Chain, list[tuple[int, Route, Ask]]]]:
    """What to ask of each chain, and its place in the order of the merchant's destinations."""
    by_chain: dict[int, tuple[Chain, list[tuple[int, Route, Ask]]]] = {}
    place = 0
    for route in payments.db.point(routes_of, payment.id, payment.merchant_id):
        asset, on = parse_asset(route.asset), parse_asset(route.asset_key).chain
        chain = payments.chain_of(str(on))
        if chain is None:
            continue
        _, asked = by_chain.setdefault(id(chain), (chain, []))
        for account in accounts:
            if canonical_chain(account.chain) == on:
                asked.append((place, route, Ask(asset, account, route.destination)))
                place += 1
    return [each for each in by_chain.values() if each[1]]


async def fetch_actions(
    payments: Payments, payment_id: str, option_id: str, data: str, given: Given | None = None
) -> tuple[WalletRpc, ...]:
    """The wallet calls behind a build action, handed out as a new quote of the option.

    Args:
        payments: The realm's.
        payment_id: Which payment.
        option_id: As it was handed out.
        data: The build action's.
        given: The buyer's answers, where a wallet asked for them itself.

    Raises:
        PaymentNotFound: There is no such payment.
        PaymentExpired: Its window has closed.
        InvalidState: It needs no action any more.
        InvalidParams: The option is unknown, has no such build action, or the merchant asks for answers that
            are not there.
        ParamsValidation: The answers are not what is asked for.
        QuoteExpired: Ask for options again.
        RouteExpired: The destination was removed, or its chain is off.
        RateLimited: Too many quotes were asked for, or we have paid enough for others.
        ChainUnavailable: No node answers.
    """
    now_ms = payments.clock.now_ms()
    payment = payments.find(payment_id)
    _refuse_to_sign(payment, now_ms)
    if given is not None:
        answers = given
        await payments.ask(payment_id, lambda actor: take_given(payments, actor, option_id, answers))
    quotes = valid_quotes(payments, payment, option_id, now_ms, resolved=False)
    quote = next((one for one in quotes if Build(data) in one.actions), None)
    if quote is None:
        raise InvalidParams(
            "This is not the data of the option's build action. Send it as it was handed out."
        )
    account = parse_account(quote.account)
    refuse_unanswered(payments, payment, account)
    chain = payments.chain_of(str(canonical_chain(account.chain)))
    assert chain is not None, "the route was just checked"
    resolved = await chain.resolve(payment, quote, data, now_ms)
    handed = _resolved(quote, Build(data), resolved, now_ms)
    await payments.db.write(_hand_out_resolved, handed, payments.clock.now_ms())
    return resolved.calls


def valid_quotes(
    payments: Payments, payment: Payment, option_id: str, now_ms: int, *, resolved: bool
) -> list[Quote]:
    """The hand-outs of an option that a signature may be for: all that say something else, newest first.

    Args:
        payments: The realm's.
        payment: Whose option.
        option_id: As a wallet sent it.
        now_ms: Unix milliseconds of the realm.
        resolved: Those that a wallet can execute as they are; else those with a build action.

    Raises:
        InvalidParams: It was never handed out for this payment, or never so.
        RouteExpired: The destination was removed, or its chain is off.
        QuoteExpired: Ask for options again.
    """
    _refuse_gone_route(payments, payment, option_id)
    quotes = payments.db.point(quotes_of, payment.id, option_id, now_ms)
    valid = [quote for quote in quotes if quote.resolved is resolved]
    if valid:
        return valid
    ended = payments.db.point(quotes_of, payment.id, option_id)
    if any(quote.resolved is resolved for quote in ended):
        raise QuoteExpired(TOO_OLD)
    raise InvalidParams(UNRESOLVED_WORDS if resolved else NO_BUILD_WORDS)


def _refuse_gone_route(payments: Payments, payment: Payment, option_id: str) -> None:
    """Refuse new signatures for a route that is gone. What was signed before is watched all the same."""
    asset_key = payments.db.point(asset_key_of, payment.id, option_id)
    if asset_key is None:
        raise InvalidParams(UNKNOWN_OPTION)
    on = payments.chain_of(str(parse_asset(asset_key).chain)) is not None
    routes = payments.db.point(routes_of, payment.id, payment.merchant_id)
    if not on or all(route.asset_key != asset_key for route in routes):
        raise RouteExpired("The merchant no longer takes this asset. Ask for options again.")


def _refuse_to_sign(payment: Payment, now_ms: int) -> None:
    """Raises PaymentExpired or InvalidState where a payment waits for no signature."""
    refuse_expired(payment, now_ms)
    if payment.status is not Status.REQUIRES_ACTION:
        raise InvalidState(f"The payment is {payment.status.value}; there is nothing left to sign.")


def _hand_out_resolved(tx: Tx, quote: Quote, now_ms: int) -> None:
    payment = find_payment(tx, quote.payment_id)
    assert payment is not None, "payments are never deleted"
    # Its chain was asked for a while: nobody signs, and sends, for what has ended meanwhile.
    _refuse_to_sign(payment, now_ms)
    hand_out_resolved(tx, quote)


def _hand_out_all(
    tx: Tx, payment_id: str, offers: Sequence[tuple[Route, Offer]], ids: Sequence[str], now_ms: int
) -> list[Quote] | None:
    payment = find_payment(tx, payment_id)
    assert payment is not None, "payments are never deleted"
    if payment.status is not Status.REQUIRES_ACTION:
        return None
    # Removed, changed or frozen since it was read: the next call offers what is true then.
    routes = set(routes_of(tx, payment_id, payment.merchant_id))
    still = [
        (route, offer, option_id)
        for (route, offer), option_id in zip(offers, ids, strict=True)
        if route in routes
    ]
    return hand_out(tx, payment_id, still, now_ms, payment.expires_at_ms)


def _resolved(quote: Quote, build: Build, resolved: Resolved, now_ms: int) -> Quote:
    """The quote with calls in place of its build action."""
    actions: list[WalletRpc | Build] = []
    for action in quote.actions:
        actions += resolved.calls if action == build else (action,)
    until_ms = quote.valid_until_ms
    if resolved.valid_until_ms is not None:
        until_ms = min(until_ms, resolved.valid_until_ms)
    return msgspec.structs.replace(
        quote, actions=tuple(actions), valid_from_ms=now_ms, valid_until_ms=until_ms
    )
