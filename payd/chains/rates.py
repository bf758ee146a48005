"""Rates from a fixed table, so that a test payment costs the same today and tomorrow.

Everything is valued in US dollars by an exact fraction; a rate is the quotient of two values. An asset that
stands for a currency is worth what that currency is worth, so that the two are one to one.

Source: DESIGN.md, "9. Test realm".
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Final

import msgspec

from payd.chains.assets import Asset
from payd.core.money import Rate

# What the table does not know is worth one dollar: any currency and any asset can be tried in a test.
UNKNOWN_USD: Final = Fraction(1)

CURRENCIES_USD: Final[Mapping[str, Fraction]] = MappingProxyType(
    {
        "USD": Fraction(1),
        "EUR": Fraction("1.10"),
        "GBP": Fraction("1.25"),
        "CHF": Fraction("1.20"),
        "CAD": Fraction("0.72"),
        "AUD": Fraction("0.65"),
        "JPY": Fraction("0.0065"),
        "CNY": Fraction("0.14"),
        "INR": Fraction("0.012"),
        "BRL": Fraction("0.18"),
        "KWD": Fraction("3.25"),
    }
)
"""US dollars for one major unit of a currency: round figures chosen for tests, no market's."""

ASSETS_USD: Final[Mapping[str, Fraction]] = MappingProxyType(
    {
        "ETH": Fraction(3000),
        "BNB": Fraction(600),
        "SOL": Fraction(150),
        "AVAX": Fraction(20),
        "POL": Fraction("0.25"),
    }
)
"""US dollars for one major unit of a volatile asset, by symbol: round figures for tests, no market's."""


class RateTable(msgspec.Struct, frozen=True):
    """Values in US dollars: of currencies by ISO 4217 code, of volatile assets by symbol."""

    currencies_usd: Mapping[str, Fraction] = CURRENCIES_USD
    assets_usd: Mapping[str, Fraction] = ASSETS_USD

    def rate(self, currency: str, asset: Asset | None) -> Rate:
        """Major units of the asset for one major unit of the currency.

        Args:
            currency: ISO 4217 code.
            asset: The asset's row; None for one that payd does not know.
        """
        quotient = self._currency_usd(currency) / self._asset_usd(asset)
        return Rate(quotient.numerator, quotient.denominator)

    def _currency_usd(self, code: str) -> Fraction:
        return self.currencies_usd.get(code, UNKNOWN_USD)

    def _asset_usd(self, asset: Asset | None) -> Fraction:
        if asset is None:
            return UNKNOWN_USD
        if asset.par is not None:
            return self._currency_usd(asset.par)
        return self.assets_usd.get(asset.symbol, UNKNOWN_USD)
