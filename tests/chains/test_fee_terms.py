"""The operator's fee, in the units of an asset."""

from __future__ import annotations

from fractions import Fraction

from payd.chains.fee_terms import FeeTerms
from payd.core.fee import fee_total


def test_a_fee_is_a_share_and_a_base_in_the_assets_own_units() -> None:
    terms = FeeTerms(share=Fraction(29, 1000), base_usd=Fraction("0.3"), address="0x" + "0f" * 20)

    assert fee_total(terms.rule(300_000), 10_000_000) == 290_000 + 300_000
