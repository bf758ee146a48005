"""Payments in words: each status has a word and a shape, each amount its unit."""

from __future__ import annotations

import pytest

from payd.core.money import AmountWire, asset_amount, fiat_amount
from payd.core.status import Status
from payd.web.dashboard.payments_view import STATUS_WORDS, amount_words
from payd.web.schema import Words
from tests.ledger import USDC


def test_every_status_has_a_word_of_its_own() -> None:
    assert {*STATUS_WORDS} == {one.value for one in Status}
    assert len({mark.word for mark in STATUS_WORDS.values()}) == len(Status)


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (fiat_amount("EUR", 2500), "25.00 EUR"),
        (fiat_amount("JPY", 2500), "2500 JPY"),
        (asset_amount(USDC, 27_130_000), "27.13 USDC"),
        (asset_amount(USDC, 27_000_000), "27 USDC"),
        (asset_amount(USDC, 1), "0.000001 USDC"),
        (asset_amount("eip155:8453/slip44:60", 10**20), "100 ETH"),
    ],
)
def test_amounts_have_the_digits_that_say_something(amount: AmountWire, words: str) -> None:
    assert amount_words(amount, Words(())) == words
