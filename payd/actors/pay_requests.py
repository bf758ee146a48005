"""What a Solana wallet gets that was shown no more than a code: a transaction to sign, or a link to pay by.

Both go the way of every option: a quote and its watch are stored before a wallet sees anything. The wallet
sends by itself, and the watcher finds its transfer by the payment's reference.

Source: DESIGN.md, "10. Live realm"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from payd.actors.offers import fetch_actions, hand_out_offers, offer_options, refuse_expired
from payd.actors.payments import Payments
from payd.chains.base import PaysByLink
from payd.core.caip import (
    AccountId,
    AssetId,
    MalformedCaip,
    account_problem,
    canonical_asset,
    parse_asset,
)
from payd.core.errors import ChainUnavailable, InvalidParams, InvalidState, NotFound
from payd.core.option import Build, Offer, Quote, WalletRpc
from payd.core.payment import Payment
from payd.core.status import Status
from payd.store.merchants import fields_asked, named_merchants
from payd.store.options import Route, quotes_for, routes_of

NAMESPACE: Final = "solana"
NATIVE: Final = "slip44"
LINK_SCHEME: Final = "solana:"
SIGN: Final = "solana_signTransaction"

ANYBODY: Final = "1" * 32
"""The account of an offer that is for nobody in particular: the System program's address."""

# A link is handed out again while more than this share of its life is left; the rest is for who pays by it.
REUSE_SHARE: Final = 2

# Wallets show the first 80 characters of a refusal.
_NOT_OPEN: Final = {
    Status.PROCESSING: "This payment was sent. Do not pay again.",
    Status.SUCCEEDED: "This payment is paid. Do not pay again.",
    Status.CANCELLED: "This payment was cancelled. Ask the shop for a new payment link.",
    Status.FAILED: "This payment failed. Ask the shop for a new payment link.",
}


class SignRequest(msgspec.Struct, frozen=True):
    """A transaction for a wallet to sign and send, in base64, and the quote that it pays."""

    quote: Quote
    transaction: str


class PayLink(msgspec.Struct, frozen=True):
    """A transfer request link, and the quote that a transfer by it pays."""

    quote: Quote
    url: str


def payable_routes(payments: Payments, payment: Payment, asset: str | None = None) -> list[Route]:
    """The merchant's destinations on Solana that a payment can be paid to now, in the merchant's order.

    Args:
        payments: The realm's.
        payment: Which.
        asset: CAIP-19: this asset alone.

    Raises:
        PaymentExpired: Its window has closed.
        InvalidState: It needs no action any more.
        NotFound: The merchant takes nothing on Solana, or asks for what a scanned code cannot give.
        InvalidParams: Not in this asset.
    """
    refuse_expired(payment, payments.clock.now_ms())
    if payment.status is not Status.REQUIRES_ACTION:
        raise InvalidState(_NOT_OPEN[payment.status])
    if payments.db.point(fields_asked, payment.merchant_id):
        raise NotFound("The shop asks for details first. Open the payment's page instead.")
    routes = [
        route
        for route in payments.db.point(routes_of, payment.id, payment.merchant_id)
        if _asset(route).chain.namespace == NAMESPACE
        and payments.chain_of(str(_asset(route).chain)) is not None
    ]
    if not routes:
        raise NotFound("The shop takes nothing on Solana for this payment.")
    if asset is None:
        return routes
    key = _canonical(asset)
    chosen = [route for route in routes if route.asset_key == key]
    if not chosen:
        taken = ", ".join(route.asset for route in routes)
        raise InvalidParams(f"The shop does not take this asset. asset can be: {taken}.")
    return chosen


async def sign_request(
    payments: Payments, payment_id: str, account: str, asset: str | None = None
) -> SignRequest:
    """The transaction by which an account pays: in `asset`, else in the first one that it can pay in.

    Args:
        payments: The realm's.
        payment_id: Which payment.
        account: The wallet's address, base58.
        asset: CAIP-19.

    Raises:
        PaymentNotFound: There is no such payment.
        InvalidParams: No Solana address, another asset, or the account cannot pay.
        PaydError: As `payable_routes`, `offer_options` and `fetch_actions`.
    """
    payment = payments.find(payment_id)
    routes = payable_routes(payments, payment, asset)
    accounts = [AccountId(chain, account) for chain in dict.fromkeys(_asset(route).chain for route in routes)]
    problem = account_problem(accounts[0])
    if problem is not None:
        raise InvalidParams(f"account: {problem}", details={"field": "account"})
    quotes = await offer_options(payments, payment_id, accounts) or []
    wanted = {route.asset_key for route in routes}
    for quote in quotes:
        if canonical_asset(parse_asset(quote.asset)) in wanted:
            transaction = await _transaction(payments, quote)
            if transaction is not None:
                return SignRequest(quote, transaction)
    payable_routes(payments, payments.find(payment_id), asset)
    symbols = _or([_symbol(payments, route) for route in routes])
    # Whose fee is not paid for it may hold enough of a token, and no coin to send it with.
    fee = "" if any(_asset(route).namespace == NATIVE for route in routes) else ", or SOL for the network fee"
    raise InvalidParams(f"This wallet cannot pay: it holds too little {symbols}{fee}.")


async def pay_links(payments: Payments, payment_id: str) -> list[PayLink]:
    """A link for each asset that a transfer on Solana can pay in; the same again while it lasts.

    Raises:
        PaymentNotFound: There is no such payment.
        ChainUnavailable: No node answers, and there is no link at all.
        PaydError: As `payable_routes` and `hand_out_offers`.
    """
    now_ms = payments.clock.now_ms()
    payment = payments.find(payment_id)
    links: dict[str, PayLink] = {}
    offers: list[tuple[Route, Offer]] = []
    down: ChainUnavailable | None = None
    for route in payable_routes(payments, payment):
        link = _handed_out(payments, payment, route, now_ms)
        if link is not None:
            links[route.asset_key] = link
            continue
        try:
            offer = await _pay_offer(payments, payment, route, now_ms)
        except ChainUnavailable as unavailable:
            down = unavailable
            continue
        if offer is not None:
            offers.append((route, offer))
    handed = await hand_out_offers(payments, payment_id, offers, now_ms)
    for quote in handed or ():
        link = _link(quote)
        if link is not None:
            links[canonical_asset(parse_asset(quote.asset))] = link
    if down is not None and not links:
        raise down
    routes = payable_routes(payments, payments.find(payment_id))
    return [links[route.asset_key] for route in routes if route.asset_key in links]


def links_that_pay(payments: Payments, payment: Payment, routes: Sequence[Route]) -> list[PayLink]:
    """The newest link of each route that a transfer pays by now, also one that makes way for a new price."""
    now_ms = payments.clock.now_ms()
    links = (next(_links(payments, payment, route, now_ms), None) for route in routes)
    return [link for link in links if link is not None]


async def _pay_offer(payments: Payments, payment: Payment, route: Route, now_ms: int) -> Offer | None:
    chain = payments.chain_of(str(_asset(route).chain))
    if not isinstance(chain, PaysByLink):
        return None
    name, _ = payments.db.point(named_merchants, [payment.merchant_id]).get(payment.merchant_id, ("", None))
    asset = parse_asset(route.asset)
    return await chain.pay_offer(payment, asset, route.destination, now_ms, label=name)


def _links(payments: Payments, payment: Payment, route: Route, now_ms: int) -> Iterator[PayLink]:
    """The links of a route that are valid now, newest first."""
    account_key = f"{_asset(route).chain}:{ANYBODY}"
    quotes = payments.db.point(quotes_for, payment.id, route.asset_key, account_key, now_ms)
    return (link for link in map(_link, quotes) if link is not None)


def _handed_out(payments: Payments, payment: Payment, route: Route, now_ms: int) -> PayLink | None:
    """The newest link of a route that lasts long enough to be handed out again."""
    for link in _links(payments, payment, route, now_ms):
        renew_at_ms = renews_at_ms(payment, link.quote)
        if renew_at_ms is None or now_ms < renew_at_ms:
            return link
    return None


def renews_at_ms(payment: Payment, quote: Quote) -> int | None:
    """From when on a link makes way for one at a new price; None: it holds as long as the payment."""
    if quote.valid_until_ms >= payment.expires_at_ms:
        return None
    return quote.valid_until_ms - (quote.valid_until_ms - quote.valid_from_ms) // REUSE_SHARE


def _link(quote: Quote) -> PayLink | None:
    """The link that a quote is; None for one that a wallet was offered by its account."""
    match quote.actions:
        case (Build(data=data),) if data.startswith(LINK_SCHEME):
            return PayLink(quote, data)
    return None


async def _transaction(payments: Payments, quote: Quote) -> str | None:
    """The transaction of an option that is one transaction and nothing else."""
    calls: Sequence[WalletRpc | Build] = quote.actions
    if len(calls) == 1 and isinstance(calls[0], Build):
        calls = await fetch_actions(payments, quote.payment_id, quote.option_id, calls[0].data)
    if len(calls) != 1 or not isinstance(calls[0], WalletRpc) or calls[0].method != SIGN:
        return None
    return str(calls[0].params[0]["transaction"])


def _asset(route: Route) -> AssetId:
    return parse_asset(route.asset_key)


def _canonical(asset: str) -> str:
    try:
        return canonical_asset(parse_asset(asset))
    except MalformedCaip as malformed:
        raise InvalidParams(f"asset: {malformed}") from None


def _symbol(payments: Payments, route: Route) -> str:
    chain = payments.chain_of(str(_asset(route).chain))
    shown = None if chain is None else chain.display(_asset(route))
    return route.asset if shown is None else shown.asset_symbol


def _or(words: Sequence[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
