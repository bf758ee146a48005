"""The page's other way to pay: the code of Solana Pay, where the shop takes Solana for real.

The code is a transaction request, by which a wallet gets a fresh transaction. Wallets ask for those by https
alone: without it, the code is a transfer request link of one asset.

Source: DESIGN.md, "11. Pages"; the Solana Pay specification, version 1.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
import structlog
import trio

from payd.actors.pay_requests import PayLink, links_that_pay, pay_links, payable_routes, renews_at_ms
from payd.core.errors import InvalidState, NotFound, PaydError, PaymentExpired
from payd.core.money import AmountWire
from payd.core.payment import Payment
from payd.store.options import Route
from payd.web.checkout.paths import Paths
from payd.web.checkout.words import Language
from payd.web.house import Realm
from payd.web.solana_pay import amount_text, transaction_request

log = structlog.get_logger("payd.checkout")

WAY: Final = "solana"
"""What `?way=` says when the buyer has chosen this way."""

# Nobody waits longer for a page than this; without prices it is shown all the same.
PRICES_S: Final = 3.0

# How soon a page asks again that was told no new price.
RETRY_MS: Final = 10_000


class Choice(msgspec.Struct, frozen=True):
    """An asset to pay in, as a link to the page with its code."""

    text: str
    href: str
    chosen: bool


class SolanaView(msgspec.Struct, frozen=True):
    """What the template shows.

    Attributes:
        href: Leads to this way, from the page's first one.
        chosen: Whether the buyer has chosen it; only then is there more.
        asset: The one that the code asks for, CAIP-19; None where the buyer leaves that to the wallet.
        code: The text of the code; None while the chain cannot be asked for a price.
        choices: With what the shop can be paid, and how much of it; for who does not leave it to the wallet.
        renew_at_ms: When the page should fetch this anew; None: it holds as long as the payment.
    """

    href: str
    chosen: bool
    asset: str | None = None
    code: str | None = None
    choices: tuple[Choice, ...] = ()
    renew_at_ms: int | None = None


async def solana_view(
    realm: Realm, payment: Payment, paths: Paths, base_url: str, way: str | None, asset: str | None
) -> SolanaView | None:
    """This way to pay, as far as the buyer has chosen it; None where there is none.

    Args:
        realm: The payment's.
        payment: One that a page is shown of.
        paths: Those of the buyer.
        base_url: Where wallets reach payd.
        way: The way that the buyer has chosen.
        asset: The asset that the buyer has chosen, CAIP-19.
    """
    routes = _routes(realm, payment) if realm.live else []
    if not routes:
        return None
    href = paths.payment(payment.id, way=WAY)
    if way != WAY:
        return SolanaView(href, chosen=False)
    fresh = await _links(realm, payment)
    # Where there is no new price, a transfer still pays by the old one for a while.
    links = {link.quote.asset: link for link in (*links_that_pay(realm.payments, payment, routes), *fresh)}
    # A wallet can be handed a transaction for more than a link can ask for, such as a token of Token-2022.
    by_request = transaction_request(base_url, payment.id) is not None
    assets = [route.asset for route in routes if by_request or route.asset in links]
    chosen = asset if asset in assets else None
    if not by_request:
        chosen = chosen or next(iter(assets), None)
    code = transaction_request(base_url, payment.id, chosen)
    if code is None and chosen is not None:
        code = links[chosen].url
    choices = tuple(
        Choice(
            text=_text(realm, one, links.get(one), paths.language),
            href=paths.payment(payment.id, way=WAY, asset=one),
            chosen=one == chosen,
        )
        for one in assets
    )
    lacks = not links or (not by_request and len(links) < len(routes))
    renew_at_ms = _renew_at_ms(links.values(), payment, realm.clock.now_ms(), lacks=lacks)
    return SolanaView(href, True, chosen, code, choices, renew_at_ms)


def _text(realm: Realm, asset: str, link: PayLink | None, language: Language) -> str:
    """How much of an asset; its name alone where there is no price."""
    words = realm.words
    unit = f"caip19/{asset}"
    if link is None:
        return words.display(unit).asset_symbol
    return amount_text(words.amount(AmountWire(unit, str(link.quote.amount))), language)


def _routes(realm: Realm, payment: Payment) -> list[Route]:
    try:
        return payable_routes(realm.payments, payment)
    except (InvalidState, NotFound, PaymentExpired):
        return []


async def _links(realm: Realm, payment: Payment) -> list[PayLink]:
    """The links with their prices; none while the chain cannot be asked."""
    with trio.move_on_after(PRICES_S):
        try:
            return await pay_links(realm.payments, payment.id)
        except PaydError as refusal:
            log.warning("checkout.no_prices", payment_id=payment.id, error=repr(refusal))
    return []


def _renew_at_ms(links: Iterable[PayLink], payment: Payment, now_ms: int, *, lacks: bool) -> int | None:
    """When the first of the links makes way for a new one; soon, where that could not be had."""
    ends = [end_ms for link in links if (end_ms := renews_at_ms(payment, link.quote)) is not None]
    if lacks or (ends and min(ends) <= now_ms):
        return now_ms + RETRY_MS
    return min(ends, default=None)
