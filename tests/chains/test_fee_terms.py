"""The operator's fee, in the units of an asset."""

from __future__ import annotations

from fractions import Fraction

import pytest

from payd.chains.fee_terms import FeeTerms, signed_fee
from payd.core.fee import fee_total
from payd.core.option import Quote

ASSET = "eip155:8453/erc20:0x" + "11" * 20
QUOTE = Quote(
    "opt_1", "pay_1", ASSET, "eip155:8453:0x" + "22" * 20, 1000, "eip155:8453:0x" + "33" * 20, (), 0, 1
)


TERMS = FeeTerms(share=Fraction(1, 100), base_usd=Fraction(0), address="0x" + "0f" * 20)


def test_a_fee_is_a_share_and_a_base_in_the_assets_own_units() -> None:
    terms = FeeTerms(share=Fraction(29, 1000), base_usd=Fraction("0.3"), address="0x" + "0f" * 20)

    assert fee_total(terms.rule(300_000), 10_000_000) == 290_000 + 300_000


def test_nothing_taken_is_no_fee() -> None:
    assert signed_fee(QUOTE, 0, TERMS) is None


@pytest.mark.parametrize(
    ("taken", "terms", "base", "percent"),
    [
        (10, TERMS, "0", "10"),
        (17, TERMS, "7", "10"),
        # The rule was changed since: what was signed is told, and not what would be taken today.
        (5, TERMS, "5", "0"),
        (5, None, "5", "0"),
    ],
)
def test_a_fee_is_told_as_it_was_signed(taken: int, terms: FeeTerms | None, base: str, percent: str) -> None:
    fee = signed_fee(QUOTE, taken, terms)

    assert fee is not None
    assert fee.total_amount.value == str(taken)
    assert (fee.base_amount.value, fee.percent_amount.value) == (base, percent)
