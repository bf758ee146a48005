"""Prices of the exchange Coinbase: what it exchanges one unit for, in every currency that it knows.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final

import msgspec

from payd.chains.market.http import BadStatus, PublicService
from payd.chains.market.source import FRESH_MS, UNLISTED_MS, NoSpot, SourceFailed, Spot, read_price
from payd.net.http import Client

URL: Final = "https://api.coinbase.com"
# It deals in both as if they were the same, whatever the market says: its one is no evidence.
PEGGED: Final = frozenset({("USDC", "USD")})

_UNLISTED: Final = NoSpot("not listed", kept_ms=UNLISTED_MS)
_UNKNOWN_STATUSES: Final = frozenset({400, 404})


class _Rates(msgspec.Struct, frozen=True):
    currency: str
    rates: dict[str, str]


class _Body(msgspec.Struct, frozen=True):
    data: _Rates


class CoinbaseSource:
    """Coinbase's public interface; keeps nothing.

    Args:
        client: Such as `http.market_client` makes.
        base_url: Of the interface.

    Raises:
        InvalidParams: The URL cannot be called.
    """

    def __init__(self, client: Client, base_url: str = URL) -> None:
        self.name = "coinbase"
        self.provider = "coinbase"
        self._service = PublicService(client, base_url)

    async def spot(self, base: str, quote: str, now_ms: int) -> Spot | NoSpot:
        """What one major unit of `base` is exchanged for in `quote`; see `Source`."""
        if (base, quote) in PEGGED:
            return NoSpot("pegged there", kept_ms=UNLISTED_MS)
        try:
            answer = await self._service.get("/v2/exchange-rates", {"currency": base}, _Body)
        except BadStatus as bad:
            if bad.status in _UNKNOWN_STATUSES:
                return _UNLISTED
            raise
        if answer.said.data.currency != base:
            raise SourceFailed("rates of another currency than the one asked for")
        text = answer.said.data.rates.get(quote)
        if text is None:
            return _UNLISTED
        value = read_price(text)
        at_ms = now_ms - answer.age_ms
        return NoSpot("no sane price") if value is None else Spot(value, at_ms, at_ms + FRESH_MS)
