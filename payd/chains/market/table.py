"""Prices that the operator wrote down, for a shop that sets its own or that reaches no market.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from payd.chains.assets import Asset
from payd.chains.market.prices import Priced
from payd.chains.market.source import Pair, read_price
from payd.core.money import MINOR_UNITS, Rate

_SYMBOL: Final = re.compile(r"[^\s/]{1,32}")


class TablePrices:
    """Fixed prices. A pair that is not written down has none: no inverse and no cross is guessed.

    Args:
        table: What one major unit is worth in a currency: `{"USDC/USD": "1", "ETH/EUR": "2500.5"}`.

    Raises:
        ValueError: A pair or a value cannot be read; the message names it.
    """

    def __init__(self, table: Mapping[str, str]) -> None:
        self._values: dict[Pair, Fraction] = {
            _read_pair(key): _read(key, text) for key, text in table.items()
        }

    async def price(self, currency: str, asset: Asset, now_ms: int) -> Priced | None:
        """What an asset costs in a currency; see `market.Prices`."""
        value = self._values.get((asset.symbol, currency))
        if value is None:
            return None
        is_par = currency == asset.par and value == 1
        return Priced(Rate(value.denominator, value.numerator), ("table",), now_ms, stable=is_par)


def _read_pair(text: str) -> Pair:
    symbol, _, currency = text.partition("/")
    if _SYMBOL.fullmatch(symbol) is None or currency not in MINOR_UNITS:
        raise ValueError(f"{text!r} is no pair: a symbol and a currency, such as ETH/EUR")
    return symbol, currency


def _read(key: str, text: str) -> Fraction:
    value = read_price(text)
    if value is None:
        raise ValueError(f"{text!r} is no price for {key}: digits such as 2500.5, more than 0")
    return value
