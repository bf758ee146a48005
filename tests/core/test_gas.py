"""What the relayer offers for gas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.core.gas import Fees, Market, first_fees, gas_limit, raised_fees

GWEI = 10**9
fees_st = st.integers(0, 10**15)
markets = st.builds(Market, fees_st, fees_st)
limits = st.integers(1, 10**15)


@pytest.mark.parametrize(
    ("market", "limit", "offered"),
    [
        (Market(10, 3), 100, Fees(23, 3)),
        (Market(10, 3), 20, Fees(20, 3)),
        (Market(99, 300), 100, Fees(100, 100)),
        (Market(0, 5), 100, Fees(5, 5)),
        (Market(100, 3), 100, None),
        (Market(101, 3), 100, None),
    ],
)
def test_an_offer_holds_while_the_base_fee_doubles_and_stays_in_the_limit(
    market: Market, limit: int, offered: Fees | None
) -> None:
    assert first_fees(market, limit) == offered


@pytest.mark.parametrize(
    ("last", "market", "limit", "raised"),
    [
        (Fees(80 * GWEI, 8 * GWEI), Market(1, 1), 500 * GWEI, Fees(90 * GWEI + 1, 9 * GWEI + 1)),
        (Fees(80 * GWEI, 8 * GWEI), Market(100 * GWEI, GWEI), 500 * GWEI, Fees(201 * GWEI, 9 * GWEI + 1)),
        (Fees(80 * GWEI, GWEI), Market(GWEI, 20 * GWEI), 500 * GWEI, Fees(90 * GWEI + 1, 20 * GWEI)),
        (Fees(80 * GWEI, GWEI), Market(60 * GWEI, GWEI), 95 * GWEI, Fees(95 * GWEI, GWEI + GWEI // 8 + 1)),
        (Fees(80 * GWEI, GWEI), Market(GWEI, GWEI), 90 * GWEI, None),
        (Fees(80, 8), Market(1, 1), 91, Fees(91, 10)),
        (Fees(80 * GWEI, GWEI), Market(500 * GWEI, GWEI), 500 * GWEI, None),
        (Fees(0, 0), Market(0, 0), 10, Fees(1, 1)),
    ],
)
def test_a_raise_is_an_eighth_or_what_the_market_asks(
    last: Fees, market: Market, limit: int, raised: Fees | None
) -> None:
    assert raised_fees(last, market, limit) == raised


@pytest.mark.parametrize(
    ("last", "market", "limit", "raised"),
    [
        (Fees(0, 0), Market(0, 0), 10, Fees(1, 1)),
        (Fees(GWEI, GWEI), Market(0, GWEI), 10 * GWEI, Fees(2 * GWEI, 2 * GWEI)),
        (Fees(64 * GWEI, 2 * GWEI), Market(30 * GWEI, 2 * GWEI), 90 * GWEI, Fees(72 * GWEI + 1, 4 * GWEI)),
        (Fees(80 * GWEI, 20 * GWEI), Market(30 * GWEI, GWEI), 92 * GWEI, Fees(92 * GWEI, 40 * GWEI)),
        (Fees(9 * GWEI, 9 * GWEI), Market(0, GWEI), 10 * GWEI, None),
    ],
)
def test_a_tip_that_no_node_took_is_doubled(
    last: Fees, market: Market, limit: int, raised: Fees | None
) -> None:
    assert raised_fees(last, market, limit, taken=False) == raised


@given(markets, limits)
def test_an_offer_is_one_that_a_chain_takes(market: Market, limit: int) -> None:
    offered = first_fees(market, limit)
    assert (offered is None) == (market.base_fee >= limit)
    if offered is not None:
        assert 0 <= offered.tip <= offered.max_fee <= limit
        assert offered.max_fee >= market.base_fee


@given(markets, markets, limits)
def test_a_raise_is_one_that_every_pool_takes_for_a_replacement(
    before: Market, now: Market, limit: int
) -> None:
    last = first_fees(before, limit)
    raised = None if last is None else raised_fees(last, now, limit)
    if last is not None and raised is not None:
        assert raised.max_fee * 10 >= last.max_fee * 11
        assert raised.tip * 10 >= last.tip * 11
        assert raised.max_fee > last.max_fee
        assert raised.tip <= raised.max_fee <= limit


@pytest.mark.parametrize(("estimate", "allowed"), [(0, 5_000), (100_000, 130_000), (102_803, 133_503)])
def test_a_quarter_more_gas_is_allowed_than_a_node_estimates(estimate: int, allowed: int) -> None:
    assert gas_limit(estimate) == allowed
