"""A source of prices: what it answers, and how it is asked. One question at a time, none twice in a
moment, and none for a while after it failed.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final, Protocol

import msgspec
import trio

# Everything that any asset costs in any currency is between these, with room; what is outside is a fault.
PRICE_MIN: Final = Fraction(1, 10**12)
PRICE_MAX: Final = Fraction(10**12)
# How long a price without a time of its own is good for, and how long any is used that was not read again.
FRESH_MS: Final = 120_000
# An answer younger than this is not asked for again.
REFRESH_MS: Final = 25_000
# A pair that a source does not list is asked for again after this.
UNLISTED_MS: Final = 3_600_000

BACKOFF_MIN_MS: Final = 5_000
BACKOFF_MAX_MS: Final = 300_000
# A buyer waits for this: for the source itself, and with the wait for others who ask it.
ASK_S: Final = 3.0
WAIT_S: Final = 6.0

PAIRS_KEPT_MAX: Final = 256  # a shop has a few currencies and a dozen assets
WORDS_MAX: Final = 120

# No sign, exponent, NaN or endless digits: what a price looks like, and nothing else that `Fraction` reads.
_PRICE: Final = re.compile(r"[0-9]{1,18}(\.[0-9]{1,40})?")

Pair = tuple[str, str]


class Spot(msgspec.Struct, frozen=True):
    """What one major unit of a base is worth in a quote currency, says one source.

    Attributes:
        value: Within `PRICE_MIN` and `PRICE_MAX`.
        at_ms: When it was true, Unix milliseconds.
        good_until_ms: From when on it is too old to use.
    """

    value: Fraction
    at_ms: int
    good_until_ms: int


class NoSpot(msgspec.Struct, frozen=True):
    """The source works and has no price for this pair.

    Attributes:
        why: The same words for the same reason.
        kept_ms: How long not to ask again.
    """

    why: str
    kept_ms: int = REFRESH_MS


class SourceFailed(Exception):
    """The source does not work now; the message says how, for a log."""


class Source(Protocol):
    """Somebody who knows prices.

    Attributes:
        name: Unlike any other's, for logs and metrics.
        provider: Whose word it is: two sources of one provider count as one.
    """

    name: str
    provider: str

    async def spot(self, base: str, quote: str, now_ms: int) -> Spot | NoSpot:
        """Ask for the value of one major unit of `base` in `quote`.

        Args:
            base: The symbol of an asset, letters and digits.
            quote: ISO 4217 code.
            now_ms: Unix milliseconds.

        Raises:
            SourceFailed: No answer, or none that can be understood.
        """


class SourceHealth(msgspec.Struct, frozen=True):
    """How a source has done since the start.

    Attributes:
        source: Its name.
        ok_age_ms: Since it last answered; None: it never did.
        failures: How many times it failed.
        error: What went wrong the last time; empty when it went well.
    """

    source: str
    ok_age_ms: int | None
    failures: int
    error: str


class _Kept(msgspec.Struct, frozen=True):
    answer: Spot | NoSpot
    asked_at_ms: int


def read_price(text: str) -> Fraction | None:
    """The exact value of a price in decimal digits; None when it is no price that anything can have."""
    if _PRICE.fullmatch(text) is None:
        return None
    return sane(Fraction(text))


def sane(value: Fraction) -> Fraction | None:
    """The value, or None when nothing can cost that."""
    return value if PRICE_MIN <= value <= PRICE_MAX else None


class AskedSource:
    """A source as the rest of the house asks it; never raises for what the source does."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._lock = trio.Lock()
        self._kept: dict[Pair, _Kept] = {}
        self._failures = 0
        self._failures_in_a_row = 0
        self._failed_at_ms = 0
        self._ok_at_ms: int | None = None
        self._error = ""

    async def spot(self, base: str, quote: str, now_ms: int) -> Spot | NoSpot:
        """The value of one major unit of `base` in `quote`, fresh at `now_ms`; within `WAIT_S` seconds."""
        pair = (base, quote)
        if self._is_due(pair, now_ms):
            with trio.move_on_after(WAIT_S):
                async with self._lock:
                    # Whoever was first has asked for us all.
                    if self._is_due(pair, now_ms):
                        await self._refresh(pair, now_ms)
        return self._usable(pair, now_ms)

    def health(self, now_ms: int) -> SourceHealth:
        """How it has done since the start."""
        age_ms = None if self._ok_at_ms is None else max(0, now_ms - self._ok_at_ms)
        return SourceHealth(self.source.name, age_ms, self._failures, self._error)

    def _is_due(self, pair: Pair, now_ms: int) -> bool:
        if self._failures_in_a_row and _is_within(now_ms, self._failed_at_ms, self._backoff_ms()):
            return False
        kept = self._kept.get(pair)
        if kept is None:
            return True
        lifetime_ms = REFRESH_MS if isinstance(kept.answer, Spot) else kept.answer.kept_ms
        return not _is_within(now_ms, kept.asked_at_ms, lifetime_ms)

    async def _refresh(self, pair: Pair, now_ms: int) -> None:
        try:
            with trio.fail_after(ASK_S):
                answer = await self.source.spot(*pair, now_ms)
        except SourceFailed as failed:
            self._note_failure(str(failed), now_ms)
        except trio.TooSlowError:
            self._note_failure(f"no answer within {ASK_S:g} s", now_ms)
        else:
            self._failures_in_a_row, self._error, self._ok_at_ms = 0, "", now_ms
            self._keep(pair, _Kept(answer, now_ms))

    def _keep(self, pair: Pair, kept: _Kept) -> None:
        self._kept.pop(pair, None)
        if len(self._kept) >= PAIRS_KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[pair] = kept

    def _usable(self, pair: Pair, now_ms: int) -> Spot | NoSpot:
        kept = self._kept.get(pair)
        if kept is None:
            return NoSpot("no answer")
        if isinstance(kept.answer, Spot) and not (
            _is_within(now_ms, kept.asked_at_ms, FRESH_MS) and now_ms < kept.answer.good_until_ms
        ):
            return NoSpot("too old")
        return kept.answer

    def _note_failure(self, words: str, now_ms: int) -> None:
        self._failures += 1
        self._failures_in_a_row += 1
        self._failed_at_ms = now_ms
        self._error = words[:WORDS_MAX]

    def _backoff_ms(self) -> int:
        doublings = min(self._failures_in_a_row - 1, 10)
        return min(BACKOFF_MIN_MS << doublings, BACKOFF_MAX_MS)


def _is_within(now_ms: int, since_ms: int, span_ms: int) -> bool:
    """Whether `now_ms` is less than a span after `since_ms`.

    Two callers can come with their instants in the wrong order; a clock that was set back further than
    `FRESH_MS` makes everything due.
    """
    return -FRESH_MS <= now_ms - since_ms < span_ms
