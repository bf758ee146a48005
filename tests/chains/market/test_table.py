"""Prices that the operator wrote down: those, exactly those, and nothing guessed."""

from __future__ import annotations

import pytest

from payd.chains.market.prices import Priced
from payd.chains.market.table import TablePrices
from payd.core.money import Rate, convert_up
from tests.chains.market.exchanges import ETH, EURC, NOW_MS, USDC

TABLE = TablePrices({"USDC/USD": "1", "USDC/EUR": "0.92", "ETH/EUR": "2500.5", "EURC/EUR": "0.999"})


async def test_a_price_is_the_one_of_the_table() -> None:
    assert await TABLE.price("EUR", ETH, NOW_MS) == Priced(Rate(2, 5001), ("table",), NOW_MS, stable=False)


async def test_a_stablecoin_at_one_is_at_par() -> None:
    assert await TABLE.price("USD", USDC, NOW_MS) == Priced(Rate(1, 1), ("table",), NOW_MS, stable=True)


async def test_a_stablecoin_at_another_value_or_in_another_currency_is_not() -> None:
    assert await TABLE.price("EUR", EURC, NOW_MS) == Priced(Rate(1000, 999), ("table",), NOW_MS, stable=False)
    assert await TABLE.price("EUR", USDC, NOW_MS) == Priced(Rate(25, 23), ("table",), NOW_MS, stable=False)


async def test_ten_euros_are_rounded_up_to_the_next_unit() -> None:
    priced = await TABLE.price("EUR", USDC, NOW_MS)

    assert priced is not None
    assert convert_up(1000, 2, priced.rate, 6) == 10_869_566


@pytest.mark.parametrize("currency", ["USD", "GBP"])
async def test_what_is_not_written_down_has_no_price(currency: str) -> None:
    assert await TABLE.price(currency, ETH, NOW_MS) is None
    assert await TABLE.price(currency, EURC, NOW_MS) is None
    assert await TablePrices({}).price("USD", USDC, NOW_MS) is None


@pytest.mark.parametrize(
    "pair", ["USD/ETH", "ETHEUR", "ETH/", "/EUR", "ETH/eur", "ETH/EUR/USD", "E TH/EUR", "", "ETH/USDC"]
)
def test_what_is_no_pair_is_refused_by_name(pair: str) -> None:
    with pytest.raises(ValueError, match="is no pair") as caught:
        TablePrices({pair: "1"})
    assert repr(pair) in str(caught.value)


@pytest.mark.parametrize("value", ["", "0", "-1", "1e3", "NaN", "1/3", "2,5", "one"])
def test_what_is_no_price_is_refused_by_name(value: str) -> None:
    with pytest.raises(ValueError, match="is no price for ETH/EUR"):
        TablePrices({"ETH/EUR": value})
