"""The operator's terms of a chain: how long a depth takes, and the fee in an asset."""

from __future__ import annotations

from fractions import Fraction

import pytest

from payd.chains.defaults import Depth, DepthPolicy
from payd.chains.evm.terms import Terms, eta_s
from payd.chains.fee_terms import FeeTerms
from payd.core.caip import ChainId
from payd.core.fee import fee_total


@pytest.mark.parametrize(
    ("depth", "block_ms", "expected"),
    [(1, 2000, 2), (3, 12_000, 36), (12, 250, 3), (1, 250, 1), (3, 750, 3), ("safe", 2000, 120)],
)
def test_the_time_to_a_depth_is_rounded_up_to_seconds(depth: Depth, block_ms: int, expected: int) -> None:
    assert eta_s(depth, block_ms) == expected


def test_the_deepest_depth_takes_longest() -> None:
    assert eta_s("finalized", 2000) > eta_s("safe", 2000)


def test_a_fee_is_a_share_and_a_base_in_the_assets_own_units() -> None:
    terms = FeeTerms(share=Fraction(29, 1000), base_usd=Fraction("0.3"), address="0x" + "0f" * 20)

    assert fee_total(terms.rule(300_000), 10_000_000) == 290_000 + 300_000


def test_a_chain_has_the_number_of_its_id() -> None:
    assert Terms(ChainId("eip155", "8453"), 2000, DepthPolicy.of(3)).number == 8453
