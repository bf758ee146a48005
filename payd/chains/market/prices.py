"""What an asset costs in a currency, by several sources that agree; no price rather than a wrong one.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol, TypeVar

import msgspec
import structlog
import trio

from payd.chains.assets import Asset
from payd.chains.market.agreement import (
    SPREAD_MAX,
    STABLE_SPREAD_MAX,
    Accepted,
    Agreed,
    Problem,
    agree,
    at_par,
)
from payd.chains.market.source import AskedSource, NoSpot, Pair, Source, SourceHealth, Spot
from payd.core.money import Rate

# Pairs whose last price or problem is known; a shop has a few currencies and a dozen assets.
PAIRS_KEPT_MAX: Final = 1024

# What markets call an asset whose symbol is another: USDT0 is USDT on another chain.
TICKERS: Final[Mapping[str, str]] = MappingProxyType({"USDT0": "USDT"})
_TICKER: Final = re.compile("[A-Z0-9]{1,12}")

log = structlog.get_logger("payd.rates")

T = TypeVar("T")


class Priced(msgspec.Struct, frozen=True):
    """What an asset costs.

    Attributes:
        rate: Major units of the asset for one major unit of the currency.
        sources: Whose word it is.
        at_ms: When the oldest word that was used was true; of a feed on a chain that can be a day ago.
        stable: The asset stands for the currency, and the rate is one to one.
    """

    rate: Rate
    sources: tuple[str, ...]
    at_ms: int
    stable: bool


class Prices(Protocol):
    """Whoever can say what an asset costs."""

    async def price(self, currency: str, asset: Asset, now_ms: int) -> Priced | None:
        """What an asset costs in a currency; None: nobody can say, and the asset is not offered.

        Args:
            currency: ISO 4217 code.
            asset: The asset's row.
            now_ms: Unix milliseconds.
        """


class MarketPrices:
    """Prices that sources agree on.

    They are asked when somebody wants to know, all at once, and never for longer than `source.WAIT_S`.

    Args:
        sources: In any order, of two providers at least for volatile assets.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = tuple(AskedSource(source) for source in sources)
        self._last: dict[Pair, Accepted] = {}
        self._problems: dict[Pair, Problem] = {}

    async def price(self, currency: str, asset: Asset, now_ms: int) -> Priced | None:
        """What an asset costs in a currency; see `Prices`."""
        base = TICKERS.get(asset.symbol, asset.symbol)
        pair = (base, currency)
        if _TICKER.fullmatch(base) is None:
            self._note(pair, Problem.UNKNOWN_SYMBOL, {})
            return None
        answers = await self._ask_all(pair, now_ms)
        is_par = currency == asset.par
        heard = _by_provider(answers)
        if is_par:
            outcome = at_par(heard)
        else:
            spread_max = SPREAD_MAX if asset.par is None else STABLE_SPREAD_MAX
            outcome = agree(heard, spread_max, self._last.get(pair), now_ms)
        self._note(pair, outcome, answers)
        if isinstance(outcome, Problem):
            return None
        if not is_par:
            _put(self._last, pair, Accepted(outcome.value, now_ms))
        rate = Rate(outcome.value.denominator, outcome.value.numerator)
        return Priced(rate, outcome.providers, outcome.at_ms, stable=is_par)

    def health(self, now_ms: int) -> list[SourceHealth]:
        """How each source has done since the start."""
        return [source.health(now_ms) for source in self._sources]

    async def _ask_all(self, pair: Pair, now_ms: int) -> dict[AskedSource, Spot | NoSpot]:
        answers: dict[AskedSource, Spot | NoSpot] = {}

        async def ask(source: AskedSource) -> None:
            answers[source] = await source.spot(*pair, now_ms)

        async with trio.open_nursery() as nursery:
            for source in self._sources:
                nursery.start_soon(ask, source)
        return answers

    def _note(
        self, pair: Pair, outcome: Agreed | Problem, answers: Mapping[AskedSource, Spot | NoSpot]
    ) -> None:
        """Say it once when a price goes, or goes for another reason, and once when it is back."""
        before = self._problems.get(pair)
        base, currency = pair
        if isinstance(outcome, Agreed):
            if self._problems.pop(pair, None) is not None:
                log.info("rates.available", symbol=base, currency=currency, sources=outcome.providers)
        elif outcome is not before:
            _put(self._problems, pair, outcome)
            said = {source.source.name: _words(answer) for source, answer in answers.items()}
            log.warning("rates.unavailable", symbol=base, currency=currency, problem=outcome.value, said=said)


def _by_provider(answers: Mapping[AskedSource, Spot | NoSpot]) -> dict[str, Spot]:
    """The youngest spot of each provider: its sources are one word."""
    heard: dict[str, Spot] = {}
    for source, answer in answers.items():
        provider = source.source.provider
        if isinstance(answer, Spot) and (provider not in heard or answer.at_ms > heard[provider].at_ms):
            heard[provider] = answer
    return heard


def _words(answer: Spot | NoSpot) -> str:
    # Six digits, for people only.
    return answer.why if isinstance(answer, NoSpot) else f"{float(answer.value):.6g}"


def _put(kept: dict[Pair, T], pair: Pair, value: T) -> None:
    kept.pop(pair, None)
    if len(kept) >= PAIRS_KEPT_MAX:
        del kept[next(iter(kept))]
    kept[pair] = value
