"""Money: currencies, amounts, rates, conversion."""

from __future__ import annotations

from fractions import Fraction

import iso4217
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.core.errors import ParamsValidation
from payd.core.money import (
    MINOR_UNITS,
    AmountWire,
    Rate,
    asset_amount,
    convert_up,
    exponent,
    fiat_amount,
    format_units,
    parse_fiat,
    round_worth,
    short_units,
)

values = st.integers(1, 10**18 - 1)
decimals = st.integers(0, 24)
rates = st.builds(Rate, st.integers(1, 10**12), st.integers(1, 10**12))


def issues_of(unit: str, value: str) -> list[str]:
    with pytest.raises(ParamsValidation) as caught:
        parse_fiat(unit, value)
    return [issue.field for issue in caught.value.issues]


def test_the_table_is_all_of_iso_4217_with_no_minor_unit_read_as_whole_units() -> None:
    assert dict(MINOR_UNITS) == {currency.code: currency.exponent or 0 for currency in iso4217.Currency}


@pytest.mark.parametrize(("code", "digits"), [("USD", 2), ("JPY", 0), ("BHD", 3), ("CLF", 4), ("XAU", 0)])
def test_a_currency_has_the_digits_of_its_minor_unit(code: str, digits: int) -> None:
    assert exponent(code) == digits


@given(st.sampled_from(sorted(MINOR_UNITS)), values)
def test_an_amount_that_was_written_reads_back_the_same(code: str, minor: int) -> None:
    wire = fiat_amount(code, minor)

    assert parse_fiat(wire.unit, wire.value) == (code, minor)


@pytest.mark.parametrize(
    "unit", ["", "USD", "iso4217/", "iso4217/usd", "iso4217/BGN", "iso4217/USD ", "ISO4217/USD", "caip19/USD"]
)
def test_a_unit_is_exactly_iso4217_and_a_known_code(unit: str) -> None:
    assert issues_of(unit, "1") == ["amount.unit"]


@pytest.mark.parametrize(
    "value",
    ["", "0", "00", "01", "-1", "+1", " 1", "1\n", "1.0", "1e3", "0x1", "1_000", "１", "١", "9" * 19],
)
def test_a_value_is_digits_without_leading_zero_and_not_zero(value: str) -> None:
    assert issues_of("iso4217/USD", value) == ["amount.value"]


def test_eighteen_digits_are_the_most() -> None:
    assert parse_fiat("iso4217/USD", "9" * 18) == ("USD", 10**18 - 1)


def test_both_fields_are_named_when_both_are_wrong() -> None:
    assert issues_of("dollars", "ten") == ["amount.unit", "amount.value"]


def test_an_amount_is_written_as_unit_and_value() -> None:
    asset = "eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"

    assert msgspec.json.encode(asset_amount(asset, 10)) == (
        f'{{"unit":"caip19/{asset}","value":"10"}}'.encode()
    )
    assert fiat_amount("EUR", 1250) == AmountWire("iso4217/EUR", "1250")


@given(values, st.integers(0, 4), rates, decimals)
def test_a_conversion_is_exact_and_rounds_up_by_less_than_one_unit(
    minor: int, digits: int, rate: Rate, asset_decimals: int
) -> None:
    exact = Fraction(minor, 10**digits) * Fraction(rate.numerator, rate.denominator) * 10**asset_decimals

    assert 0 <= convert_up(minor, digits, rate, asset_decimals) - exact < 1


@pytest.mark.parametrize(
    ("minor", "digits", "rate", "asset_decimals", "units"),
    [
        (1000, 2, Rate(1, 1), 6, 10_000_000),
        (1000, 0, Rate(1, 150), 6, 6_666_667),
        (1, 2, Rate(1, 1), 0, 1),
        (1, 2, Rate(1, 3000), 18, 3_333_333_333_334),
    ],
)
def test_a_conversion_goes_from_minor_units_to_smallest_units(
    minor: int, digits: int, rate: Rate, asset_decimals: int, units: int
) -> None:
    assert convert_up(minor, digits, rate, asset_decimals) == units


@pytest.mark.parametrize(("numerator", "denominator"), [(0, 1), (-1, 1), (1, 0), (1, -1)])
def test_a_rate_is_positive(numerator: int, denominator: int) -> None:
    with pytest.raises(ValueError, match="positive"):
        Rate(numerator, denominator)


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (1250, 2, "12.50"),
        (5, 2, "0.05"),
        (0, 2, "0.00"),
        (1250, 0, "1250"),
        (-5, 2, "-0.05"),
        (1, 18, "0." + "0" * 17 + "1"),
    ],
)
def test_units_are_shown_with_all_their_decimals(value: int, digits: int, text: str) -> None:
    assert format_units(value, digits) == text


@given(st.integers(-(10**30), 10**30), decimals)
def test_shown_units_are_the_same_number(value: int, digits: int) -> None:
    assert Fraction(format_units(value, digits)) == Fraction(value, 10**digits)


@pytest.mark.parametrize(
    ("worth", "shown"),
    [
        (Fraction(1), 10**18),
        (Fraction(1, 3), 333_333 * 10**12),
        (Fraction(1_234_567_890), 1_234_570_000 * 10**18),
        (Fraction(2, 10**18), 2),
        (Fraction(1, 10**19), 0),
    ],
)
def test_a_worth_has_the_digits_that_say_something(worth: Fraction, shown: int) -> None:
    assert round_worth(worth) == shown


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (25_000_000, 6, "25"),
        (25_500_000, 6, "25.5"),
        (1, 6, "0.000001"),
        (1, 9, "0.000000001"),
        (10**18, 9, "1000000000"),
        (2**64 - 1, 9, "18446744073.709551615"),
        (100, 0, "100"),
        (120, 1, "12"),
    ],
)
def test_an_amount_is_exact_without_exponent_and_zeros(value: int, decimals: int, text: str) -> None:
    assert short_units(value, decimals) == text
