"""The page's other way to pay: the code of Solana Pay, where the shop takes Solana for real.

The code is a transaction request, by which a wallet gets a fresh transaction. Wallets ask for those by https
alone: without it, the code is a transfer request link of one asset.

Source: DESIGN.md, "11. Pages"; the Solana Pay specification, version 1.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote as percent_encode

import structlog
import trio

from payd.actors.pay_requests import PayLink, pay_links, payable_routes, renews_at_ms
from payd.core.errors import InvalidState, NotFound, PaydError, PaymentExpired
from payd.core.payment import Payment
from payd.web.house import Realm
from payd.web.solana_pay import amount_text, link_out, transaction_request

log = structlog.get_logger("payd.checkout")

WAY: Final = "solana"
"""What `?way=` says when the buyer has chosen this way."""

# Nobody waits longer for a page than this; without prices it is shown all the same.
PRICES_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Choice:
    """An asset to pay in, as a link to the page with its code."""

    text: str
    href: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class SolanaView:
    """What the template shows.

    Attributes:
        href: Leads to this way, from the page's first one.
        chosen: Whether the buyer has chosen it; only then is there more.
        code: The text of the code; None while the chain cannot be asked for a price.
        choices: With what the shop can be paid, and how much of it.
        renew_at_ms: When the page should fetch this anew; None: it holds as long as the payment.
    """

    href: str
    chosen: bool
    code: str | None = None
    choices: tuple[Choice, ...] = ()
    renew_at_ms: int | None = None


async def solana_view(
    realm: Realm, payment: Payment, here: str, base_url: str, way: str | None, asset: str | None
) -> SolanaView | None:
    """This way to pay, as far as the buyer has chosen it; None where there is none.

    Args:
        realm: The payment's.
        payment: One that a page is shown of.
        here: The page's path.
        base_url: Where wallets reach payd.
        way: The way that the buyer has chosen.
        asset: The asset that the buyer has chosen, CAIP-19.
    """
    if not realm.live or not _is_payable(realm, payment):
        return None
    href = f"{here}?way={WAY}"
    if way != WAY:
        return SolanaView(href, chosen=False)
    links = await _links(realm, payment)
    chosen = next((link for link in links if link.quote.asset == asset), None)
    code = transaction_request(base_url, payment.id, None if chosen is None else chosen.quote.asset)
    if code is None and links:
        chosen = chosen or links[0]
        code = chosen.url
    choices = tuple(
        Choice(
            text=amount_text(link_out(base_url, realm, link).amount),
            href=f"{href}&asset={percent_encode(link.quote.asset, safe='')}",
            chosen=link is chosen,
        )
        for link in links
    )
    return SolanaView(href, True, code, choices, _renew_at_ms(links, payment))


def _is_payable(realm: Realm, payment: Payment) -> bool:
    try:
        return bool(payable_routes(realm.payments, payment))
    except (InvalidState, NotFound, PaymentExpired):
        return False


async def _links(realm: Realm, payment: Payment) -> list[PayLink]:
    """The links with their prices; none while the chain cannot be asked."""
    with trio.move_on_after(PRICES_S):
        try:
            return await pay_links(realm.payments, payment.id)
        except PaydError as refusal:
            log.warning("checkout.no_prices", payment_id=payment.id, error=repr(refusal))
    return []


def _renew_at_ms(links: list[PayLink], payment: Payment) -> int | None:
    ends = [renews_at_ms(payment, link.quote) for link in links]
    return min((end_ms for end_ms in ends if end_ms is not None), default=None)
