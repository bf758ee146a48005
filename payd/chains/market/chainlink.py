"""Prices of Chainlink's feeds: contracts that tell the value of something in dollars, read through a node.

A feed is believed when it says itself that it is the one of the table, and while it is younger than its own
heartbeat and a tenth. What has no feed of its own is crossed through the dollar.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from payd.chains.market.source import FRESH_MS, UNLISTED_MS, NoSpot, Spot, sane

DESCRIPTION: Final = bytes.fromhex("7284e416")
DECIMALS: Final = bytes.fromhex("313ce567")
LATEST_ROUND_DATA: Final = bytes.fromhex("feaf968c")
PIVOT: Final = "USD"
# After an outage of the sequencer the prices that were waiting come first.
GRACE_MS: Final = 3_600_000
# How far a block's clock may be ahead of ours.
AHEAD_MAX_MS: Final = 60_000

_WORD: Final = 32
_ROUND_WORDS: Final = 5
_FEEDS: Final = Path(__file__).parents[1] / "data" / "feeds.json"
_WEEK_MS: Final = 7 * 86_400_000
_HOUR_MS: Final = 3_600_000
# The epoch was a Thursday. Currencies are exchanged until Friday and from Sunday at 17:00 in New York, which
# is 21:00 or 22:00 UTC by the season.
_FRIDAY_CLOSE_MS: Final = (24 + 21) * _HOUR_MS
_SUNDAY_OPEN_MS: Final = (3 * 24 + 22) * _HOUR_MS

_UNLISTED: Final = NoSpot("not listed", kept_ms=UNLISTED_MS)

Call: TypeAlias = Callable[[str, bytes], Awaitable[bytes]]
"""Asks a node what a contract (`0x…`) answers to calldata; raises `SourceFailed` when none answers."""


class Feed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A feed of the table.

    Attributes:
        address: Of the contract.
        heartbeat_s: At least this often it writes a value.
        decimals: Of its values.
        rests_on_weekends: It tells the rate of currencies, which are not exchanged on weekends.
    """

    address: str
    heartbeat_s: int
    decimals: int
    rests_on_weekends: bool = False


class ChainFeeds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The feeds of one chain by their pair, such as `ETH/USD`.

    Attributes:
        feeds: See above.
        sequencer: The contract that tells whether the chain's sequencer works; None where there is none.
    """

    feeds: Mapping[str, Feed]
    sequencer: str | None = None


class _Round(msgspec.Struct, frozen=True):
    answer: int
    started_at_ms: int
    updated_at_ms: int


@cache
def shipped_feeds() -> Mapping[str, ChainFeeds]:
    """The table as it ships, by CAIP-2 chain; read once."""
    return msgspec.json.decode(_FEEDS.read_bytes(), type=dict[str, ChainFeeds])


class ChainlinkSource:
    """The feeds of one chain.

    Args:
        chain: CAIP-2, for the name.
        call: Through this chain's nodes.
        feeds: Such as `shipped_feeds()[chain]`.
    """

    def __init__(self, chain: str, call: Call, feeds: ChainFeeds) -> None:
        self.name = f"chainlink/{chain}"
        self.provider = "chainlink"
        self._call = call
        self._feeds = feeds
        self._verified: set[str] = set()

    async def spot(self, base: str, quote: str, now_ms: int) -> Spot | NoSpot:
        """The value that feeds tell for one major unit of `base` in `quote`; see `Source`."""
        if f"{base}/{quote}" in self._feeds.feeds:
            pairs = [f"{base}/{quote}"]
        else:
            pairs = [f"{base}/{PIVOT}", f"{quote}/{PIVOT}"]
        if not all(pair in self._feeds.feeds for pair in pairs):
            return _UNLISTED
        down = await self._sequencer_problem(now_ms)
        if down is not None:
            return down
        spots = []
        for pair in pairs:
            spot = await self._read(pair, now_ms)
            if isinstance(spot, NoSpot):
                return spot
            spots.append(spot)
        return _crossed(spots)

    async def _sequencer_problem(self, now_ms: int) -> NoSpot | None:
        if self._feeds.sequencer is None:
            return None
        said = _round_of(await self._call(self._feeds.sequencer, LATEST_ROUND_DATA))
        if said is None or said.started_at_ms == 0:
            return NoSpot("the sequencer's feed has no answer")
        if said.answer != 0:
            return NoSpot("the sequencer is down")
        if now_ms - said.started_at_ms < GRACE_MS:
            return NoSpot("the sequencer is back for less than an hour")
        return None

    async def _read(self, pair: str, now_ms: int) -> Spot | NoSpot:
        feed = self._feeds.feeds[pair]
        if feed.rests_on_weekends and _is_weekend(now_ms):
            return NoSpot("a rate of currencies, on a weekend")
        if not await self._is_the_one(pair, feed):
            return NoSpot("the contract is not this feed", kept_ms=UNLISTED_MS)
        said = _round_of(await self._call(feed.address, LATEST_ROUND_DATA))
        if said is None:
            return NoSpot("no answer of a feed")
        value = sane(Fraction(said.answer, 10**feed.decimals))
        if value is None:
            return NoSpot("no sane price")
        if said.updated_at_ms > now_ms + AHEAD_MAX_MS:
            return NoSpot("a price of the future")
        # The heartbeat in milliseconds, and a tenth.
        good_until_ms = said.updated_at_ms + feed.heartbeat_s * 1100
        if now_ms >= good_until_ms:
            return NoSpot("too old")
        return Spot(value, min(said.updated_at_ms, now_ms), min(good_until_ms, now_ms + FRESH_MS))

    async def _is_the_one(self, pair: str, feed: Feed) -> bool:
        """Whether the contract says that it is the feed of the table; asked until it does, and then never."""
        if pair not in self._verified:
            description = await self._call(feed.address, DESCRIPTION)
            decimals = await self._call(feed.address, DECIMALS)
            if description == _encoded(pair.replace("/", " / ")) and decimals == _word(feed.decimals):
                self._verified.add(pair)
        return pair in self._verified


def _crossed(spots: list[Spot]) -> Spot | NoSpot:
    """One value as it is; of two the first over the second, as old as the older one."""
    if len(spots) == 1:
        return spots[0]
    over, under = spots
    value = sane(over.value / under.value)
    if value is None:
        return NoSpot("no sane price")
    return Spot(value, min(over.at_ms, under.at_ms), min(over.good_until_ms, under.good_until_ms))


def _round_of(data: bytes) -> _Round | None:
    """What `latestRoundData()` returned: round, answer, begun, updated, answered in; None: it is not that."""
    if len(data) != _ROUND_WORDS * _WORD:
        return None
    words = [data[at : at + _WORD] for at in range(0, len(data), _WORD)]
    answer = int.from_bytes(words[1], "big", signed=True)
    return _Round(answer, int.from_bytes(words[2], "big") * 1000, int.from_bytes(words[3], "big") * 1000)


def _word(number: int) -> bytes:
    return number.to_bytes(_WORD, "big")


def _encoded(text: str) -> bytes:
    """A short text as a contract returns it: where it begins, its length, and itself in one word."""
    return _word(_WORD) + _word(len(text)) + text.encode("ascii").ljust(_WORD, b"\0")


def _is_weekend(now_ms: int) -> bool:
    return _FRIDAY_CLOSE_MS <= now_ms % _WEEK_MS < _SUNDAY_OPEN_MS
