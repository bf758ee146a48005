"""Exchanges and feeds that say what a test wants, in the form in which the real ones answer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any
from urllib.parse import parse_qs, urlsplit

import trio
from eth_abi.abi import encode
from eth_utils.crypto import keccak

from payd.chains.assets import Asset, find_asset
from payd.chains.market.source import FRESH_MS, NoSpot, SourceFailed, Spot
from payd.core.caip import parse_asset
from payd.net.http import Client
from tests.receiver import Does, Received, Receiver, Script

# A Wednesday: every exchange is open.
NOW_MS = 1_780_488_000_000

KRAKEN = "http://kraken.test"
COINBASE = "http://coinbase.test"


def known_asset(text: str) -> Asset:
    found = find_asset(parse_asset(text))
    assert found is not None
    return found


ETH = known_asset("eip155:8453/slip44:60")
USDC = known_asset("eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913")
EURC = known_asset("eip155:8453/erc20:0x60a3E35Cc302bFA44Cb288Bc5a4F316Fdb1adb42")
SOL = known_asset("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp/slip44:501")
USDT0 = known_asset("eip155:42161/erc20:0xFd086bC7CD5C481DCC9C85ebE478A1C0b69FCbb9")

# What Kraken calls pairs that it has had for long; the others it calls by their letters.
LEGACY = {"ETH/EUR": "XETHZEUR", "ETH/USD": "XETHZUSD", "USDT/USD": "USDTZUSD", "EUR/USD": "ZEURZUSD"}


def kraken_name(pair: str) -> str:
    return LEGACY.get(pair, pair.replace("/", ""))


def listing(pair: str, status: str = "online") -> dict[str, Any]:
    """An entry of `AssetPairs`, as recorded."""
    base, quote = pair.split("/")
    return {
        "altname": base + quote,
        "wsname": pair,
        "aclass_base": "currency",
        "base": f"X{base}",
        "aclass_quote": "currency",
        "quote": f"Z{quote}",
        "lot": "unit",
        "cost_decimals": 5,
        "pair_decimals": 2,
        "lot_decimals": 8,
        "lot_multiplier": 1,
        "leverage_buy": [2, 3, 4, 5],
        "leverage_sell": [2, 3, 4, 5],
        "fees": [[0, 0.4], [10000, 0.35]],
        "fees_maker": [[0, 0.25], [10000, 0.2]],
        "fee_volume_currency": "ZUSD",
        "margin_call": 80,
        "margin_stop": 40,
        "ordermin": "0.001",
        "costmin": "0.45",
        "tick_size": "0.01",
        "status": status,
    }


def ticker(bid: str, ask: str) -> dict[str, Any]:
    """An entry of `Ticker`, as recorded."""
    return {
        "a": [ask, "7", "7.000"],
        "b": [bid, "6", "6.000"],
        "c": [ask, "0.82270000"],
        "v": ["59528.91437761", "81253.27399644"],
        "p": ["318.07435", "317.36101"],
        "t": [12629, 17724],
        "l": ["305.10000", "305.10000"],
        "h": ["326.50000", "326.50000"],
        "o": "316.49932",
    }


def says(value: object, **headers: str) -> Does:
    """An answer in JSON."""
    kind = (("content-type", "application/json"),)
    return Does(body=json.dumps(value).encode(), headers=(*kind, *headers.items()))


@dataclass
class Exchanges:
    """Kraken and Coinbase in one place, told apart by their paths.

    Attributes:
        books: Kraken's best bids and asks by pair.
        suspended: Its pairs that are not traded.
        rates: Coinbase's rates by currency.
        kraken: What Kraken does instead.
        coinbase: What Coinbase does instead.
    """

    books: dict[str, tuple[str, str]] = field(default_factory=dict)
    suspended: set[str] = field(default_factory=set)
    rates: dict[str, dict[str, str]] = field(default_factory=dict)
    kraken: Script | None = None
    coinbase: Script | None = None

    def __call__(self, received: Received) -> Does:
        """The script."""
        parts = urlsplit(received.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path == "/v2/exchange-rates":
            return self.coinbase(received) if self.coinbase else self._rates(query["currency"])
        if self.kraken is not None:
            return self.kraken(received)
        assert parts.path in ("/0/public/AssetPairs", "/0/public/Ticker")
        return self._kraken(query["pair"], parts.path.endswith("Ticker"))

    def _rates(self, currency: str) -> Does:
        if currency not in self.rates:
            wrong = [{"id": "invalid_request", "message": "Currency is invalid"}]
            return Does(status=400, body=json.dumps({"errors": wrong}).encode())
        return says({"data": {"currency": currency, "rates": {currency: "1", **self.rates[currency]}}})

    def _kraken(self, asked: str, is_ticker: bool) -> Does:
        pair = next((one for one in self.books if asked in (kraken_name(one), one.replace("/", ""))), None)
        if pair is None:
            return says({"error": ["EQuery:Unknown asset pair"]})
        status = "cancel_only" if pair in self.suspended else "online"
        entry = ticker(*self.books[pair]) if is_ticker else listing(pair, status)
        return says({"error": [], "result": {kraken_name(pair): entry}})


async def resolve_public(_host: str) -> list[str]:
    await trio.lowlevel.checkpoint()
    return ["93.184.216.34"]


@asynccontextmanager
async def open_line(script: Script) -> AsyncIterator[tuple[Client, Receiver]]:
    """A client that reaches one real HTTP peer in memory, whatever the host, in virtual time."""
    problem: SourceFailed | None = None
    async with trio.open_nursery() as nursery:
        receiver = Receiver(nursery, script)
        client = Client(may_call=lambda _: True, resolve=resolve_public, dial=receiver.dial)
        try:
            yield client, receiver
        except SourceFailed as failed:
            problem = failed
        await client.aclose()
        nursery.cancel_scope.cancel()
    if problem is not None:
        # Not in the nursery, which would wrap it.
        raise problem


def selector(signature: str) -> bytes:
    return keccak(text=signature)[:4]


def words(types: str, *values: object) -> bytes:
    """What a contract returns, encoded by the library."""
    return encode(types.split(), values)


@dataclass
class FakeFeed:
    """A contract of Chainlink's, its answers encoded by the library."""

    description: str
    answer: int
    updated_at_s: int = NOW_MS // 1000
    started_at_s: int = NOW_MS // 1000
    decimals: int = 8

    def __call__(self, data: bytes) -> bytes:
        """What it returns to calldata."""
        if data == selector("description()"):
            return words("string", self.description)
        if data == selector("decimals()"):
            return words("uint8", self.decimals)
        assert data == selector("latestRoundData()")
        types = "uint80 int256 uint256 uint256 uint80"
        return words(types, 2**64 + 7, self.answer, self.started_at_s, self.updated_at_s, 2**64 + 7)


@dataclass
class Node:
    """A node whose contracts answer by a table; an address without one answers nothing."""

    contracts: Mapping[str, FakeFeed] = field(default_factory=dict)
    calls: list[tuple[str, bytes]] = field(default_factory=list)
    down: bool = False

    async def call(self, address: str, data: bytes) -> bytes:
        """As `chainlink.Call`."""
        await trio.lowlevel.checkpoint()
        self.calls.append((address, data))
        if self.down:
            raise SourceFailed("no node answered")
        contract = self.contracts.get(address)
        return b"" if contract is None else contract(data)


@dataclass
class Says:
    """A source that says what it is told to."""

    name: str = "one"
    provider: str = ""
    answer: Spot | NoSpot | str | None = None
    values: dict[tuple[str, str], str] = field(default_factory=dict)
    delay_s: float = 0.0
    asked: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.provider = self.provider or self.name

    async def spot(self, base: str, quote: str, now_ms: int) -> Spot | NoSpot:
        """As `source.Source`; an `answer` of words is a failure."""
        self.asked.append((base, quote))
        await trio.sleep(self.delay_s)
        if isinstance(self.answer, str):
            raise SourceFailed(self.answer)
        if self.answer is not None:
            return self.answer
        text = self.values.get((base, quote))
        return NoSpot("not listed") if text is None else spot(text, now_ms)


def spot(value: str | Fraction, at_ms: int = NOW_MS) -> Spot:
    """A price as the exchanges give it: good for two minutes."""
    return Spot(Fraction(value), at_ms, at_ms + FRESH_MS)
