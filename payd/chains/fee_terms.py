"""What the operator takes of a payment, as it is configured for one chain.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from fractions import Fraction

import msgspec

from payd.chains.assets import Asset
from payd.chains.market.prices import Prices
from payd.core.fee import Fee, FeeRule, compute_fee, fee_total
from payd.core.money import asset_amount
from payd.core.option import Quote


class FeeTerms(msgspec.Struct, frozen=True):
    """What the operator takes of signed payments, which alone can carry it in one transaction.

    Attributes:
        share: Of the payment, from 0 to 1.
        base_usd: US dollars for each payment, besides the share.
        address: Where it goes, canonical.
        mandatory: Offer nothing that cannot carry it; else that is offered without it.
    """

    share: Fraction
    base_usd: Fraction
    address: str
    mandatory: bool = False

    def rule(self, base_amount: int) -> FeeRule:
        """The fee in an asset in which the base is so many smallest units."""
        return FeeRule(base_amount, self.share.numerator, self.share.denominator)


async def operators_part(terms: FeeTerms, prices: Prices, row: Asset, amount: int, now_ms: int) -> int | None:
    """What the operator gets of an amount, rounded down; None: it cannot be worked out, or would be all.

    Raises:
        ChainUnavailable: No node answers a feed's question.
    """
    base = 0
    if terms.base_usd:
        dollar = await prices.price("USD", row, now_ms)
        if dollar is None:
            return None
        base = int(terms.base_usd * dollar.rate.numerator / dollar.rate.denominator * 10**row.decimals)
    fee = fee_total(terms.rule(base), amount)
    return fee if fee < amount else None


def signed_fee(quote: Quote, taken: int, terms: FeeTerms | None) -> Fee | None:
    """The fee that was signed with a quote, for the wire; None where it was none.

    Args:
        quote: What was signed.
        taken: What goes to the operator, in smallest units.
        terms: Today's, which are told if they are still those that were signed.
    """
    if taken == 0:
        return None
    # The base is in dollars, and was worth another amount when it was signed.
    base = taken if terms is None else taken - fee_total(terms.rule(0), quote.amount)
    rule = FeeRule(taken, 0, 1) if terms is None or base < 0 else terms.rule(base)
    return compute_fee(rule, quote.amount, asset_amount(quote.asset, 0).unit)
