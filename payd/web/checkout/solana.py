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

from payd.actors.pay_requests import PayLink, pay_links, payable_routes, renews_at_ms
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
    links = {link.quote.asset: link for link in await _links(realm, payment)}
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
    return SolanaView(href, True, chosen, code, choices, _renew_at_ms(links.values(), payment))


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


def _renew_at_ms(links: Iterable[PayLink], payment: Payment) -> int | None:
    ends = [renews_at_ms(payment, link.quote) for link in links]
    return min((end_ms for end_ms in ends if end_ms is not None), default=None)
