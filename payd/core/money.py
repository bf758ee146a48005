"""Money: currencies and their minor units, amounts on the wire, rates, and exact conversion.

Inside, an amount is an integer in the smallest unit of its currency or asset; decimal strings exist at the
wire only.

Source: SPEC.md, "Payment amount object"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Final

import msgspec

from payd.core.errors import Issue, ParamsValidation

FIAT_PREFIX: Final = "iso4217/"
ASSET_PREFIX: Final = "caip19/"
# The largest power of ten whose every number fits a signed 64-bit column.
VALUE_DIGITS_MAX: Final = 18
# Digits of what one of an asset is worth that say something, and decimals in which that is counted.
WORTH_DIGITS: Final = 6
WORTH_DECIMALS: Final = 18

_VALUE: Final = re.compile(f"[1-9][0-9]{{0,{VALUE_DIGITS_MAX - 1}}}")

# ISO 4217, list one (active codes) by the digits of the minor unit. Codes without one count whole units.
_CODES: Final = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
    " XAG XAU XBA XBB XBC XBD XDR XPD XPT XSU XTS XUA XXX",
    2: "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF"
    " CHE CHF CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD"
    " GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL"
    " MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR"
    " PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP"
    " TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST XAD XCD XCG YER ZAR ZMW ZWG",
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
MINOR_UNITS: Final[Mapping[str, int]] = MappingProxyType(
    {code: digits for digits, codes in _CODES.items() for code in codes.split()}
)


class AmountWire(msgspec.Struct, frozen=True):
    """An amount as it is written: `{"unit": "iso4217/EUR", "value": "1250"}`."""

    unit: str
    value: str


def fiat_amount(code: str, minor: int) -> AmountWire:
    """`minor` smallest units of the currency `code`, for the wire."""
    return AmountWire(FIAT_PREFIX + code, str(minor))


def asset_amount(asset: str, value: int) -> AmountWire:
    """`value` smallest units of the CAIP-19 asset `asset`, for the wire."""
    return AmountWire(ASSET_PREFIX + asset, str(value))


def exponent(code: str) -> int:
    """How many decimal digits the minor unit of `code` has; 0 where it has none.

    Raises:
        KeyError: ISO 4217 has no such active code.
    """
    return MINOR_UNITS[code]


def parse_fiat(unit: str, value: str) -> tuple[str, int]:
    """The currency code and the minor units of an amount a merchant asks for.

    Args:
        unit: `iso4217/` and a known code, in capitals.
        value: 1 to 18 ASCII digits, the first not 0.

    Raises:
        ParamsValidation: One issue each for `amount.unit` and `amount.value`, where they are wrong.
    """
    code = unit.removeprefix(FIAT_PREFIX)
    issues = []
    if not unit.startswith(FIAT_PREFIX) or code not in MINOR_UNITS:
        words = "must be iso4217/ and a known currency code in capitals, such as iso4217/EUR"
        issues.append(Issue("amount.unit", words))
    if _VALUE.fullmatch(value) is None:
        words = (
            f"must be a whole number of minor units, as 12.50 USD is 1250: 1 to {VALUE_DIGITS_MAX} digits, "
            "not zero, no leading zero"
        )
        issues.append(Issue("amount.value", words))
    if issues:
        raise ParamsValidation.of(*issues)
    return code, int(value)


class Rate(msgspec.Struct, frozen=True):
    """Major units of an asset for one major unit of a currency, as an exact fraction.

    Raises:
        ValueError: Either part is not positive.
    """

    numerator: int
    denominator: int

    def __post_init__(self) -> None:
        """Refuse a rate at which something would be free or endless."""
        if self.numerator <= 0 or self.denominator <= 0:
            raise ValueError("a rate is a positive fraction")


def convert_up(minor: int, exponent: int, rate: Rate, decimals: int) -> int:
    """What `minor` units of a currency cost in the smallest units of an asset, rounded up.

    Up, so that a merchant is never paid less than was asked for.

    Args:
        minor: Minor units of the currency.
        exponent: Decimal digits of the currency's minor unit.
        rate: Major units of the asset for one major unit of the currency.
        decimals: Decimal digits of the asset's smallest unit.
    """
    dividend: int = minor * rate.numerator * 10**decimals
    divisor: int = rate.denominator * 10**exponent
    return -(-dividend // divisor)


def round_worth(worth: Fraction) -> int:
    """What one of an asset is worth, counted in 10^-18, by its first `WORTH_DIGITS` digits; 0 below that."""
    scaled = int(worth * 10**WORTH_DECIMALS)
    step: int = 10 ** max(0, len(str(scaled)) - WORTH_DIGITS)
    return (scaled + step // 2) // step * step


def format_units(value: int, decimals: int) -> str:
    """`value` smallest units as a decimal number with all its digits: 1250 with 2 decimals is `12.50`."""
    if decimals == 0:
        return str(value)
    digits = str(abs(value)).rjust(decimals + 1, "0")
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[:-decimals]}.{digits[-decimals:]}"


def short_units(value: int, decimals: int) -> str:
    """As `format_units`, as exact, without zeros at its end: 2500000 with 6 decimals is `2.5`."""
    digits = format_units(value, decimals)
    return digits.rstrip("0").rstrip(".") if "." in digits else digits
