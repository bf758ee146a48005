"""What the operator takes of a payment, as it is configured for one chain.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from fractions import Fraction

import msgspec

from payd.core.fee import FeeRule


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
