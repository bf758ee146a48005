"""Amounts and dates look as each language writes them, and never lose a digit."""

from __future__ import annotations

import re

import pytest
from babel import localedata

from payd.web.checkout.locale import asset, fiat, instant
from payd.web.checkout.words import LANGUAGES, Language

ENGLISH, GERMAN = Language("en"), Language("de")


@pytest.mark.parametrize(
    ("value", "currency", "text"),
    [
        (1250, "USD", "$12.50"),
        (5, "EUR", "€0.05"),
        (2500, "JPY", "¥2,500"),
        (1_234_567, "KWD", "KWD1,234.567"),
        (12_345, "ALL", "ALL123.45"),  # CLDR rounds it, as nobody has coins of it
        (999_999_999_999_999_999, "USD", "$9,999,999,999,999,999.99"),
        (1, "XAU", "XAU1"),
    ],
)
def test_an_amount_has_the_decimals_of_its_currency(value: int, currency: str, text: str) -> None:
    assert fiat(ENGLISH, value, currency) == text


@pytest.mark.parametrize(
    ("tag", "region", "text"),
    [
        ("de", None, "1.250,00\xa0€"),
        ("de", "AT", "€\xa01.250,00"),
        ("fr", None, "1\u202f250,00\xa0€"),
        ("es", None, "1.250,00\xa0€"),
        ("pt", None, "€\xa01.250,00"),
        ("pt", "PT", "1\xa0250,00\xa0€"),
        ("ar", "EG", "\u200f1,250.00\xa0€"),
        ("ja", None, "€1,250.00"),
        ("zh", None, "€1,250.00"),
        ("en", "ZZ", "€1,250.00"),
    ],
)
def test_an_amount_looks_as_in_the_buyers_country(tag: str, region: str | None, text: str) -> None:
    assert fiat(Language(tag, region), 125_000, "EUR") == text


@pytest.mark.parametrize(
    ("value", "decimals", "english", "german"),
    [
        (12_500_000, 6, "12.50", "12,50"),
        (4_125_000_000_000_000, 18, "0.004125", "0,004125"),
        (1_000_000_000_000, 6, "1,000,000.00", "1.000.000,00"),
        (7, 0, "7", "7"),
        (7, 1, "0.7", "0,7"),
        (1, 18, "0.000000000000000001", "0,000000000000000001"),
        (10**30 + 1, 18, "1,000,000,000,000.000000000000000001", "1.000.000.000.000,000000000000000001"),
    ],
)
def test_an_on_chain_amount_loses_only_zeros_that_say_nothing(
    value: int, decimals: int, english: str, german: str
) -> None:
    assert asset(ENGLISH, value, decimals) == english
    assert asset(GERMAN, value, decimals) == german


@pytest.mark.parametrize("code", LANGUAGES)
def test_every_language_writes_the_digits_that_wallets_show(code: str) -> None:
    texts = (fiat(Language(code), 123_456, "EUR"), asset(Language(code), 123_456, 2))
    assert [re.sub(r"[^0-9]", "", text) for text in texts] == ["123456", "123456"]


def test_an_instant_is_in_utc_and_says_so() -> None:
    assert instant(ENGLISH, 1_780_000_000_000) == "May 28, 2026, 8:26 PM UTC"
    assert instant(GERMAN, 1_780_000_000_000) == "28.05.2026, 20:26 UTC"
    assert instant(Language("ja"), 1_780_000_000_000) == "2026/05/28 20:26 UTC"
    assert instant(Language("zh", "TW"), 1_780_000_000_000) == "2026年5月28日 20:26 UTC"


def test_every_region_of_every_language_has_amounts_and_dates() -> None:
    """Of what Babel knows of a place, only what is read is kept."""
    places = [tag.split("_") for tag in localedata.locale_identifiers()]
    found = {Language(code, more[-1]) for code, *more in places if code in LANGUAGES and more}
    regions = {one for one in found if len(one.region or "") == 2}
    assert len(regions) > 200
    for language in regions:
        for currency in ("EUR", "USD", "INR", "XAF"):
            assert re.sub("[^0-9]", "", fiat(language, 1_234_567_890, currency))[:3] == "123"
        assert re.sub("[^0-9]", "", asset(language, 123_456, 2)) == "123456"
        assert re.search("2026|26|69", instant(language, 1_780_000_000_000))
