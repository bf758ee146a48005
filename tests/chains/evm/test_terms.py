"""The operator's terms of a chain: how long a depth takes."""

from __future__ import annotations

import pytest

from payd.chains.defaults import Depth
from payd.chains.evm.terms import eta_s


@pytest.mark.parametrize(
    ("depth", "block_ms", "expected"),
    [(1, 2000, 2), (3, 12_000, 36), (12, 250, 3), (1, 250, 1), (3, 750, 3), ("safe", 2000, 120)],
)
def test_the_time_to_a_depth_is_rounded_up_to_seconds(depth: Depth, block_ms: int, expected: int) -> None:
    assert eta_s(depth, block_ms) == expected


def test_the_deepest_depth_takes_longest() -> None:
    assert eta_s("finalized", 2000) > eta_s("safe", 2000)
