"""The operator's fee."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.core.fee import FeeRule, compute_fee, fee_total

UNIT = "caip19/eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"

amounts = st.integers(0, 10**30)
rules = st.integers(1, 10**6).flatmap(
    lambda whole: st.builds(FeeRule, st.integers(0, 10**9), st.integers(0, whole), st.just(whole))
)


def test_a_fee_of_2_9_percent_on_10_usdc_reads_as_webhooks_show_it() -> None:
    rule = FeeRule(base_amount=0, numerator=29, denominator=1000)
    fee = compute_fee(rule, 10_000_000, UNIT)

    assert msgspec.to_builtins(fee) == {
        "kind": "base_plus_percent",
        "base_amount": {"unit": UNIT, "value": "0"},
        "percent": {"numerator": "29", "denominator": "1000"},
        "percent_amount": {"unit": UNIT, "value": "290000"},
        "total_amount": {"unit": UNIT, "value": "290000"},
    }
    assert list(msgspec.to_builtins(fee)) == [
        "kind",
        "base_amount",
        "percent",
        "percent_amount",
        "total_amount",
    ]


def test_base_and_share_add_up() -> None:
    fee = compute_fee(FeeRule(300_000, 29, 1000), 10_000_000, UNIT)

    assert (fee.base_amount.value, fee.percent_amount.value, fee.total_amount.value) == (
        "300000",
        "290000",
        "590000",
    )


def test_the_share_is_rounded_down() -> None:
    assert fee_total(FeeRule(0, 29, 1000), 99) == 2


def test_a_fee_never_takes_more_than_the_amount() -> None:
    rule = FeeRule(300_000, 29, 1000)

    assert fee_total(rule, 1000) == 1000
    assert compute_fee(rule, 1000, UNIT).total_amount.value == "1000"


@given(rules, amounts)
def test_a_fee_is_from_nothing_to_the_whole_amount_and_as_agreed(rule: FeeRule, amount: int) -> None:
    total = fee_total(rule, amount)

    assert 0 <= total <= amount
    assert total <= rule.base_amount + amount * rule.numerator / rule.denominator * (1 + 1e-9)


@pytest.mark.parametrize(
    ("base", "numerator", "denominator"), [(-1, 1, 2), (0, -1, 2), (0, 3, 2), (0, 0, 0), (0, -2, -1)]
)
def test_a_rule_that_no_payment_could_bear_is_refused(base: int, numerator: int, denominator: int) -> None:
    with pytest.raises(ValueError, match="share from 0 to 1"):
        FeeRule(base, numerator, denominator)
