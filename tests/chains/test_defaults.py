"""What ships for each chain, and how deep is deep enough."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.chains.assets import shipped_table
from payd.chains.defaults import (
    DEPTH_MAX,
    STEPS_MAX,
    ChainDefaults,
    Depth,
    DepthPolicy,
    described_chains,
    evm_defaults_of,
    solana_defaults_of,
)

UNKNOWN = "eip155:31337"
UNKNOWN_SOLANA = "solana:TQeXUnUQS3Kz8DEDrAZtE81ovTnN5a3P"
EVMS = [chain for chain in described_chains() if chain.startswith("eip155:")]
SOLANAS = [chain for chain in described_chains() if chain.startswith("solana:")]
MAINNET = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
LAYERED: DepthPolicy = DepthPolicy.of({"0": 3, "1000": 12, "10000": "finalized"})


def defaults_of(chain: str) -> ChainDefaults:
    return solana_defaults_of(chain) if chain.startswith("solana:") else evm_defaults_of(chain)


def test_every_network_with_assets_has_defaults_of_its_own() -> None:
    assert set(described_chains()) == set(shipped_table().networks)


@pytest.mark.parametrize("chain", [*described_chains(), UNKNOWN, UNKNOWN_SOLANA])
def test_defaults_are_ones_that_can_work(chain: str) -> None:
    found = defaults_of(chain)
    assert 50 <= found.poll_ms <= 60_000
    assert 100 <= found.block_ms <= 60_000
    assert found.gas_per_day > 0
    assert found.relays_per_buyer > 0


@pytest.mark.parametrize("chain", [*EVMS, UNKNOWN])
def test_a_fee_is_raised_after_a_block_and_has_an_end(chain: str) -> None:
    found = evm_defaults_of(chain)
    assert found.bump_after_ms > found.block_ms, "the next block comes first"
    assert found.max_fee_gwei > 0


@pytest.mark.parametrize(
    "chain", [*(c for c in described_chains() if c.startswith("solana")), UNKNOWN_SOLANA]
)
def test_a_chain_of_solana_counts_in_commitments_and_has_a_dearest_price(chain: str) -> None:
    found = solana_defaults_of(chain)
    assert {step.depth for step in found.depth.steps} == {"confirmed", "finalized"}
    assert found.unit_price_max > 0


@pytest.mark.parametrize(
    ("chain", "name", "symbol", "depths", "sponsor"),
    [
        ("eip155:1", "Ethereum", "ETH", (3, 12, "finalized"), False),
        ("eip155:10", "OP Mainnet", "ETH", (3, "safe", "finalized"), True),
        ("eip155:56", "BNB Smart Chain", "BNB", (3, 3, "finalized"), True),
        ("eip155:137", "Polygon", "POL", (13, 13, "finalized"), True),
        ("eip155:8453", "Base", "ETH", (3, "safe", "finalized"), True),
        ("eip155:42161", "Arbitrum One", "ETH", (12, "safe", "finalized"), True),
        ("eip155:43114", "Avalanche C-Chain", "AVAX", (1, 1, 1), True),
        (UNKNOWN, "Chain 31337", "native coin", (12, "finalized", "finalized"), True),
        (MAINNET, "Solana", "SOL", ("confirmed", "confirmed", "finalized"), True),
        (UNKNOWN_SOLANA, "Solana TQeXUn…", "SOL", ("confirmed", "finalized", "finalized"), True),
    ],
)
def test_each_chain_has_its_names_its_depths_and_its_gas(
    chain: str, name: str, symbol: str, depths: tuple[Depth, ...], sponsor: bool
) -> None:
    found = defaults_of(chain)
    assert (found.name, found.symbol, found.sponsor) == (name, symbol, sponsor)
    assert tuple(found.depth.depth_for(dollars * 100) for dollars in (0, 1000, 10_000)) == depths


@pytest.mark.parametrize(
    ("usd_cents", "depth"),
    [(0, 3), (99_999, 3), (100_000, 12), (999_999, 12), (1_000_000, "finalized"), (10**18, "finalized")],
)
def test_a_payment_waits_as_deep_as_its_worth_asks(usd_cents: int, depth: Depth) -> None:
    assert LAYERED.depth_for(usd_cents) == depth


def test_a_payment_whose_worth_nobody_knows_waits_the_longest() -> None:
    assert LAYERED.depth_for(None) == "finalized"
    assert DepthPolicy.of(5).depth_for(None) == 5


@pytest.mark.parametrize("written", [1, DEPTH_MAX, "safe", "confirmed", "finalized", {"0": 3, "9": "safe"}])
def test_a_policy_is_written_as_it_was_read(written: Any) -> None:
    assert DepthPolicy.of(written).written() == written
    assert DepthPolicy.of({"0": 3}).written() == 3


@pytest.mark.parametrize(
    "written",
    [
        0,
        DEPTH_MAX + 1,
        True,
        1.0,
        "latest",
        None,
        {},
        {"1": 3},
        {"0": 3, "00": 4},
        {"0": 3, "-1": 4},
        {"0": 3, "1e3": 4},
        {"0": 3, "٣": 4},
        {0: 3},
        {"0": 3, "1" * 13: 4},
        {"0": {"0": 3}},
        {str(n): n + 1 for n in range(STEPS_MAX + 1)},
    ],
)
def test_what_is_no_policy_is_refused(written: Any) -> None:
    with pytest.raises(ValueError):
        DepthPolicy.of(written)


@pytest.mark.parametrize(
    ("small", "large"),
    [
        (4, 3),
        ("safe", 1000),
        ("finalized", 1000),
        ("finalized", "safe"),
        ("finalized", "confirmed"),
        ("confirmed", 1),
    ],
)
def test_a_larger_payment_never_waits_less(small: Depth, large: Depth) -> None:
    with pytest.raises(ValueError):
        DepthPolicy.of({"0": small, "1000": large})
    assert DepthPolicy.of({"0": large, "1000": small}).depth_for(100_000) == small


@given(st.dictionaries(st.integers(1, 10**6), st.integers(1, DEPTH_MAX), max_size=STEPS_MAX - 1), st.data())
def test_depth_only_grows_with_worth(more: dict[int, int], data: st.DataObject) -> None:
    depths = sorted([1, *more.values()])
    policy = DepthPolicy.of(dict(zip(map(str, [0, *sorted(more)]), depths, strict=True)))
    less, greater = sorted(data.draw(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9))))
    shallow, deep = policy.depth_for(less), policy.depth_for(greater)
    assert isinstance(shallow, int)
    assert isinstance(deep, int)
    assert 1 <= shallow <= deep <= depths[-1]
