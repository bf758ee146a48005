"""Amounts and dates as a language writes them, in Western digits everywhere, as wallets show them.

Source: DESIGN.md, "11. Pages"; the Unicode CLDR, through Babel.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal, localcontext
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from payd.core.money import exponent, format_units
from payd.web.checkout.words import ENGLISH, Language

if TYPE_CHECKING:
    from babel import Locale

# Fewer digits than this after the point look like no amount of money.
ASSET_DIGITS_MIN: Final = 2
# Of an amount: Python's own 28 would round what a chain can hold.
DIGITS_MAX: Final = 100

BETWEEN: Final[Mapping[str, str]] = MappingProxyType({"ar": "، ", "ja": " ", "zh": " "})
"""What stands between a date and a time, where that is no comma: as browsers have it."""

# A stranger may ask for every region there is.
LOCALES_MAX: Final = 64

# What is read of a locale. The rest, such as the names of all countries, takes a megabyte for each language.
READ: Final = frozenset(
    {
        *("number_symbols", "default_numbering_system", "numbering_systems", "decimal_formats"),
        *("currency_formats", "currency_symbols", "currency_names", "currency_names_plural"),
        *("date_formats", "time_formats", "datetime_formats"),
        *("months", "days", "day_periods", "day_period_rules", "eras"),
    }
)


def fiat(language: Language, value: int, currency: str) -> str:
    """An amount of a currency's minor units, with all its decimals: `€1,250.00`, `1.250,00 €`."""
    locale = _locale(language)
    digits = exponent(currency)
    pattern = copy.copy(locale.currency_formats["standard"])
    pattern.frac_prec = (digits, digits)  # CLDR rounds some currencies to what is used in cash
    number = Decimal(format_units(value, digits))
    with localcontext(prec=DIGITS_MAX):
        return str(pattern.apply(number, locale, currency=currency, currency_digits=False))


def asset(language: Language, value: int, decimals: int) -> str:
    """An on-chain amount in major units without the zeros that say nothing: `12.50`, `0,004125`."""
    number = format_units(value, decimals)
    said = len(number.partition(".")[2].rstrip("0"))
    digits = max(said, min(ASSET_DIGITS_MIN, decimals))
    locale = _locale(language)
    pattern = copy.copy(locale.decimal_formats[None])
    pattern.frac_prec = (digits, digits)
    with localcontext(prec=DIGITS_MAX):
        return str(pattern.apply(Decimal(number), locale))


def sample(language: Language) -> str:
    """A number from which a script sees how this language writes them: `1,234,567.8`, `12.34.567,8`."""
    return asset(language, 12_345_678, 1)


def instant(language: Language, at_ms: int) -> str:
    """An instant in UTC, as the page's script writes it in the buyer's own zone."""
    from babel.dates import format_date, format_time

    at, locale = datetime.fromtimestamp(at_ms / 1000, UTC), _locale(language)
    date, time = format_date(at, "medium", locale), format_time(at, "short", locale=locale)
    return f"{date}{BETWEEN.get(language.code, ', ')}{time} UTC".replace("\u202f", " ")


@lru_cache(maxsize=LOCALES_MAX)
def _locale(language: Language) -> Locale:
    from babel import Locale, UnknownLocaleError, localedata  # 60 ms that no start should wait for

    for tag in (language.tag, language.code, ENGLISH):
        try:
            locale = Locale.parse(tag, sep="-")
        except (UnknownLocaleError, ValueError):
            continue
        for name in (str(locale), locale.language, "root"):
            data = localedata.load(name)
            for key in data.keys() - READ:
                del data[key]
        return locale
    raise AssertionError(language)
