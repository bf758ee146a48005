"""The data of a build action: says how an amount is divided, and nothing that passes."""

from __future__ import annotations

import base64

import pytest

from payd.chains.solana.plan import DATA_CHARS_MAX, Plan, read_plan, write_plan
from payd.core.errors import InvalidParams

OPERATOR = "Gh9ZwEmdLJ8DscKNTkTqPbNwLNNBjuSzaG9Vp2KGtKJr"


@pytest.mark.parametrize(
    ("amount", "fee", "operator"), [(1, 0, None), (25_000_000, 30_000, OPERATOR), (2**64 - 1, 0, None)]
)
def test_what_is_written_is_read(amount: int, fee: int, operator: str | None) -> None:
    assert read_plan(write_plan(amount, fee, operator)) == Plan(str(amount), str(fee), operator)


def test_the_same_plan_is_the_same_data_and_fits_an_url() -> None:
    data = write_plan(25_000_000, 30_000, OPERATOR)

    assert data == write_plan(25_000_000, 30_000, OPERATOR)
    assert data.replace("-", "").replace("_", "").isalnum()
    assert len(data) <= DATA_CHARS_MAX


def test_nobody_is_named_for_a_fee_that_is_not_taken() -> None:
    assert write_plan(25, 0, OPERATOR) == write_plan(25, 0, None)


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "data",
    [
        "",
        "nonsense",
        "=",
        "é",
        "A" * (DATA_CHARS_MAX + 1),
        encoded("[]"),
        encoded("{}"),
        encoded('{"amount": 25}'),
        encoded('{"amount": "-25"}'),
        encoded('{"amount": "٢"}'),
        encoded('{"amount": "25", "fee": "1e3"}'),
        encoded('{"amount": "25", "more": 1}'),
        encoded("\ud800".encode("utf-8", "surrogatepass").decode("latin-1")),
    ],
)
def test_other_data_is_refused_in_words(data: str) -> None:
    with pytest.raises(InvalidParams, match="as it was handed out"):
        read_plan(data)
