"""What the operator takes of a payment, as it is configured for one chain.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from fractions import Fraction

import msgspec

from payd.core.fee import Fee, FeeRule, compute_fee
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


def signed_fee(quote: Quote, taken: int, rule: FeeRule | None) -> Fee | None:
    """The fee that was signed with a quote, for the wire; None where it was none.

    Args:
        quote: What was signed.
        taken: What goes to the operator, in smallest units.
        rule: Today's, which is told if it is still the one that was signed.
    """
    if taken == 0:
        return None
    unit = asset_amount(quote.asset, 0).unit
    if rule is not None:
        # The base is in dollars, and was worth another amount when it was signed.
        base = taken - quote.amount * rule.numerator // rule.denominator
        if base >= 0:
            rule = FeeRule(base, rule.numerator, rule.denominator)
            return compute_fee(rule, quote.amount, unit)
    return compute_fee(FeeRule(taken, 0, 1), quote.amount, unit)
