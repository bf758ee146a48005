"""How deep the transfer of a payment must lie, by what the payment is worth.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final

from payd.chains.assets import Asset, AssetBook
from payd.chains.defaults import Depth, DepthPolicy
from payd.chains.market.prices import Prices
from payd.core.caip import parse_asset
from payd.core.money import Rate, convert_up
from payd.core.option import Quote
from payd.core.payment import Payment

_DOLLAR: Final = "USD"
_CENTS: Final = 2  # decimals


async def depth_of(
    policy: DepthPolicy, prices: Prices, payment: Payment, row: Asset | None, amount: int, now_ms: int
) -> Depth:
    """The depth for a payment of so many smallest units; the deepest where nobody knows what it is worth.

    Args:
        policy: Of the chain.
        prices: What assets cost.
        payment: Whose depth it is.
        row: The asset that it is paid in; None: it left the configuration.
        amount: Smallest units of that.
        now_ms: Unix milliseconds.

    Raises:
        ChainUnavailable: No node answers a feed's question.
    """
    if len(policy.steps) == 1 or row is None:
        return policy.depth_for(None)
    return policy.depth_for(await _usd_cents(prices, payment, row, amount, now_ms))


async def depth_of_quote(
    policy: DepthPolicy, prices: Prices, book: AssetBook, payment: Payment, quote: Quote, now_ms: int
) -> Depth:
    """As `depth_of`, for a payment that is paid by this quote; its asset's row is in the book, or nowhere."""
    row = book.find(parse_asset(quote.asset))
    return await depth_of(policy, prices, payment, row, quote.amount, now_ms)


async def _usd_cents(prices: Prices, payment: Payment, row: Asset, amount: int, now_ms: int) -> int | None:
    """What a payment is worth, rounded up; None where nobody can say."""
    if payment.currency == _DOLLAR:
        return payment.value
    if row.par == _DOLLAR:
        return convert_up(amount, row.decimals, Rate(1, 1), _CENTS)
    priced = await prices.price(_DOLLAR, row, now_ms)
    if priced is None:
        return None
    dollars = Rate(priced.rate.denominator, priced.rate.numerator)
    return convert_up(amount, row.decimals, dollars, _CENTS)
