"""Rates from the fixed table."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.chains.assets import Asset, find_asset, shipped_table
from payd.chains.rates import ASSETS_USD, CURRENCIES_USD, RateTable
from payd.core.caip import parse_asset
from payd.core.money import MINOR_UNITS, Rate, convert_up

TABLE = RateTable()
USDC = find_asset(parse_asset("eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"))
EURC = find_asset(parse_asset("eip155:8453/erc20:0x60a3E35Cc302bFA44Cb288Bc5a4F316Fdb1adb42"))
ETH = find_asset(parse_asset("eip155:8453/slip44:60"))


@pytest.mark.parametrize("row", [row for row in shipped_table().assets if row.par], ids=lambda row: row.asset)
def test_a_currency_on_its_own_stablecoin_is_one_to_one(row: Asset) -> None:
    assert row.par is not None
    assert TABLE.rate(row.par, row) == Rate(1, 1)


def test_ten_dollars_are_ten_million_units_of_usdc() -> None:
    assert convert_up(1000, 2, TABLE.rate("USD", USDC), 6) == 10_000_000


def test_a_euro_costs_more_dollars_than_one_and_fewer_euros_than_a_dollar_costs() -> None:
    assert TABLE.rate("EUR", USDC) == Rate(11, 10)
    assert TABLE.rate("USD", EURC) == Rate(10, 11)


def test_a_dollar_is_a_three_thousandth_of_an_ether() -> None:
    assert TABLE.rate("USD", ETH) == Rate(1, 3000)


def test_an_unknown_asset_is_worth_a_dollar() -> None:
    assert TABLE.rate("USD", None) == Rate(1, 1)
    assert TABLE.rate("EUR", None) == Rate(11, 10)


def test_an_unknown_currency_is_worth_a_dollar() -> None:
    assert "XTS" not in CURRENCIES_USD
    assert TABLE.rate("XTS", USDC) == Rate(1, 1)


def test_every_volatile_asset_of_the_table_has_a_value() -> None:
    volatile = {row.symbol for row in shipped_table().assets if row.par is None}

    assert volatile == set(ASSETS_USD)


def test_every_valued_currency_exists_and_no_value_is_zero() -> None:
    assert set(CURRENCIES_USD) <= set(MINOR_UNITS)
    assert all(value > 0 for value in [*CURRENCIES_USD.values(), *ASSETS_USD.values()])


def test_another_table_gives_other_rates() -> None:
    table = RateTable(currencies_usd={"EUR": Fraction(2)}, assets_usd={"ETH": Fraction(4)})

    assert table.rate("EUR", ETH) == Rate(1, 2)
    assert table.rate("EUR", EURC) == Rate(1, 1)


@given(code=st.sampled_from(sorted(MINOR_UNITS)), row=st.sampled_from([None, *shipped_table().assets]))
def test_every_currency_has_a_rate_for_every_asset(code: str, row: Asset | None) -> None:
    rate = TABLE.rate(code, row)

    assert convert_up(1, MINOR_UNITS[code], rate, 6 if row is None else row.decimals) >= 1
