"""Prices of the exchange Kraken: what its best buyer pays.

A pair is asked for by its everyday name and known by the name that Kraken answers with (`XETHZEUR`); that it
is the right one, its `wsname` says. Where an asset and one of a few currencies do not meet in a pair, both
are crossed through the dollar.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Final, Generic, TypeVar

import msgspec

from payd.chains.market.http import PublicService
from payd.chains.market.source import (
    FRESH_MS,
    PAIRS_KEPT_MAX,
    UNLISTED_MS,
    NoSpot,
    Pair,
    SourceFailed,
    Spot,
    read_price,
    sane,
)
from payd.net.http import Client

URL: Final = "https://api.kraken.com"
PIVOT: Final = "USD"
# Currencies that it exchanges for dollars. What else has the letters of one is a coin, such as MNT or ERN.
CROSSED: Final = frozenset({"AUD", "EUR", "GBP"})
# How long it is believed that a pair is traded, under this name.
LISTED_MS: Final = 600_000
# Asks this much above bids are no market that a price can be taken from.
WIDTH_MAX: Final = Fraction(1, 100)

_UNKNOWN: Final = "EQuery:Unknown asset pair"
_UNLISTED: Final = NoSpot("not listed", kept_ms=UNLISTED_MS)
_UNPRINTABLE: Final = re.compile("[^ -~]")

T = TypeVar("T")
# Price, and volumes.
_Level = Annotated[list[str], msgspec.Meta(min_length=1, max_length=8)]


class _Envelope(msgspec.Struct, Generic[T], frozen=True):
    error: list[str]
    result: dict[str, T] = {}


class _Listing(msgspec.Struct, frozen=True):
    wsname: str
    status: str


class _Ticker(msgspec.Struct, frozen=True):
    a: _Level
    b: _Level


class _Book(msgspec.Struct, frozen=True):
    bid: Fraction
    ask: Fraction
    at_ms: int


class _Name(msgspec.Struct, frozen=True):
    name: str
    learned_at_ms: int


class KrakenSource:
    """Kraken's public interface; keeps the names of pairs and no prices.

    Args:
        client: Such as `http.market_client` makes.
        base_url: Of the interface.

    Raises:
        InvalidParams: The URL cannot be called.
    """

    def __init__(self, client: Client, base_url: str = URL) -> None:
        self.name = "kraken"
        self.provider = "kraken"
        self._service = PublicService(client, base_url)
        self._names: dict[Pair, _Name] = {}

    async def spot(self, base: str, quote: str, now_ms: int) -> Spot | NoSpot:
        """What the best buyer pays for one major unit of `base` in `quote`; see `Source`."""
        book = await self._book((base, quote), now_ms)
        if isinstance(book, _Book):
            return Spot(book.bid, book.at_ms, book.at_ms + FRESH_MS)
        if book != _UNLISTED or base == PIVOT or quote not in CROSSED:
            return book
        sold = await self._book((base, PIVOT), now_ms)
        if isinstance(sold, NoSpot):
            return sold
        bought = await self._book((quote, PIVOT), now_ms)
        if isinstance(bought, NoSpot):
            return bought
        value = sane(sold.bid / bought.ask)
        at_ms = min(sold.at_ms, bought.at_ms)
        return NoSpot("no sane price") if value is None else Spot(value, at_ms, at_ms + FRESH_MS)

    async def _book(self, pair: Pair, now_ms: int) -> _Book | NoSpot:
        name = await self._name(pair, now_ms)
        if isinstance(name, NoSpot):
            return name
        answer = await self._service.get("/0/public/Ticker", {"pair": name}, _Envelope[_Ticker])
        if _is_unknown(answer.said.error):
            return _UNLISTED
        if list(answer.said.result) != [name]:
            raise SourceFailed("a ticker of another pair than the one asked for")
        return _book_of(answer.said.result[name], now_ms - answer.age_ms)

    async def _name(self, pair: Pair, now_ms: int) -> str | NoSpot:
        known = self._names.get(pair)
        if known is not None and 0 <= now_ms - known.learned_at_ms < LISTED_MS:
            return known.name
        answer = await self._service.get("/0/public/AssetPairs", {"pair": "".join(pair)}, _Envelope[_Listing])
        if _is_unknown(answer.said.error):
            return _UNLISTED
        found = [name for name, one in answer.said.result.items() if one.wsname == "/".join(pair)]
        if len(found) != 1:
            # The letters of two pairs can run together to the same.
            return _UNLISTED
        [name] = found
        if answer.said.result[name].status != "online":
            return NoSpot("not traded now")
        if len(self._names) >= PAIRS_KEPT_MAX:
            self._names.clear()
        self._names[pair] = _Name(name, now_ms)
        return name


def _is_unknown(errors: list[str]) -> bool:
    """Whether Kraken does not know the pair.

    Raises:
        SourceFailed: It says something else.
    """
    if errors == [_UNKNOWN]:
        return True
    if errors:
        raise SourceFailed("it says " + _UNPRINTABLE.sub("?", errors[0]))
    return False


def _book_of(ticker: _Ticker, at_ms: int) -> _Book | NoSpot:
    bid, ask = read_price(ticker.b[0]), read_price(ticker.a[0])
    if bid is None or ask is None:
        return NoSpot("no sane price")
    if not bid <= ask <= bid * (1 + WIDTH_MAX):
        return NoSpot("no buyers and sellers close to each other")
    return _Book(bid, ask, at_ms)
