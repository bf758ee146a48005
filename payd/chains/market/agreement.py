"""When sources agree on a price: fresh ones only, two at least, close to each other; else there is none.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final

import msgspec

from payd.chains.market.source import Spot

PROVIDERS_MIN: Final = 2
SPREAD_MAX: Final = Fraction(1, 100)
# Of what stands for a currency.
STABLE_SPREAD_MAX: Final = Fraction(5, 1000)
# How far from its currency a stablecoin still counts as the same.
PAR_BAND: Final = Fraction(5, 1000)
# A source that says half or half as much again of what all agreed on is heard with a second one only …
JUMP_MAX: Final = Fraction(1, 2)
# … for so long after they agreed.
JUMP_WINDOW_MS: Final = 600_000


class Agreed(msgspec.Struct, frozen=True):
    """A price that sources agreed on.

    Attributes:
        value: What one major unit is worth.
        at_ms: When the oldest word was true.
        providers: Whose word it is.
    """

    value: Fraction
    at_ms: int
    providers: tuple[str, ...]


class Accepted(msgspec.Struct, frozen=True):
    """The last price that was agreed on, and when."""

    value: Fraction
    at_ms: int


class Problem(enum.StrEnum):
    """Why there is no price."""

    UNKNOWN_SYMBOL = "no source can know this symbol"
    SILENT = "no source has a fresh price"
    ALONE = "fewer than two sources have a fresh price"
    SPREAD = "the sources are too far apart"
    OFF_PAR = "it is not worth what it stands for"


def agree(
    heard: Mapping[str, Spot], spread_max: Fraction, last: Accepted | None, now_ms: int
) -> Agreed | Problem:
    """The median of what providers say, or why there is none.

    Args:
        heard: Fresh spots by provider.
        spread_max: The most that the highest may be above the lowest, as a share of the median.
        last: The last price of this pair that was agreed on.
        now_ms: Unix milliseconds.
    """
    believed = {
        provider: spot
        for provider, spot in heard.items()
        if not _jumped(spot.value, last, now_ms) or _is_seconded(provider, heard, spread_max)
    }
    if len(believed) < PROVIDERS_MIN:
        return Problem.ALONE if heard else Problem.SILENT
    values = [spot.value for spot in believed.values()]
    if not are_close(values, spread_max):
        return Problem.SPREAD
    return Agreed(median(values), min(spot.at_ms for spot in believed.values()), tuple(sorted(believed)))


def at_par(heard: Mapping[str, Spot]) -> Agreed | Problem:
    """One, while every provider that can be heard says about one, and one of them can be heard.

    One is enough here: it chooses no price, it only keeps the par from being used.
    """
    if not heard:
        return Problem.SILENT
    if any(abs(spot.value - 1) > PAR_BAND for spot in heard.values()):
        return Problem.OFF_PAR
    return Agreed(Fraction(1), min(spot.at_ms for spot in heard.values()), tuple(sorted(heard)))


def median(values: Iterable[Fraction]) -> Fraction:
    """The middle one, or the mean of the two in the middle; exact."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def are_close(values: Iterable[Fraction], spread_max: Fraction) -> bool:
    """Whether the highest is at most a share of the median above the lowest."""
    ordered = sorted(values)
    return ordered[-1] - ordered[0] <= spread_max * median(ordered)


def _jumped(value: Fraction, last: Accepted | None, now_ms: int) -> bool:
    if last is None or abs(now_ms - last.at_ms) > JUMP_WINDOW_MS:
        return False
    return abs(value - last.value) > JUMP_MAX * last.value


def _is_seconded(provider: str, heard: Mapping[str, Spot], spread_max: Fraction) -> bool:
    """Whether another provider says about the same."""
    value = heard[provider].value
    return any(
        are_close((value, spot.value), spread_max) for other, spot in heard.items() if other != provider
    )
