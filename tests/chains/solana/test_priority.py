"""The price of a compute unit: what three quarters of the blocks were content with, in steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from payd.chains.rpc_errors import BadAnswer
from payd.chains.solana.priority import PRICE_MIN, price_of


def told(*fees: int) -> list[dict[str, int]]:
    return [{"slot": slot, "prioritizationFee": fee} for slot, fee in enumerate(fees)]


@pytest.mark.parametrize(
    ("fees", "price"),
    [
        ((), PRICE_MIN),
        ((0, 0, 0, 0), PRICE_MIN),
        ((PRICE_MIN, PRICE_MIN), PRICE_MIN),
        ((PRICE_MIN + 1,), 2 * PRICE_MIN),
        ((0, 0, 0, 50_000), 80_000),
        ((0, 0, 50_000, 0, 0), PRICE_MIN),
        ((50_000, 50_000, 0, 1_000_000), 1_280_000),
    ],
)
def test_the_price_is_that_of_three_quarters_of_the_blocks(fees: Sequence[int], price: int) -> None:
    assert price_of(told(*fees)) == price


def test_prices_that_are_near_each_other_are_the_same() -> None:
    assert price_of(told(41_000, 41_000)) == price_of(told(79_000, 79_000))


@pytest.mark.parametrize("answer", [None, {}, [1], [{"slot": 1}], told(-1), told(2**64), told(True)])
def test_another_answer_is_a_bad_one(answer: Any) -> None:
    with pytest.raises(BadAnswer):
        price_of(answer)
