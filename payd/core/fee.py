"""The operator's fee on a payment.

Source: SPEC.md, "Webhook event envelope"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final

import msgspec

from payd.core.money import AmountWire

BASE_PLUS_PERCENT: Final = "base_plus_percent"


class FeeRule(msgspec.Struct, frozen=True):
    """A fixed part and a share of the amount: 2.9 % is 29/1000.

    Attributes:
        base_amount: Smallest units of the asset, for every payment.
        numerator: Of the share.
        denominator: Of the share.

    Raises:
        ValueError: A part is negative, or the share is more than the whole.
    """

    base_amount: int
    numerator: int
    denominator: int

    def __post_init__(self) -> None:
        """Refuse a rule that no payment could bear."""
        if self.base_amount < 0 or not 0 <= self.numerator <= self.denominator or self.denominator == 0:
            raise ValueError("a fee is a base that is not negative and a share from 0 to 1")


class Percent(msgspec.Struct, frozen=True):
    """An exact share, as integer strings."""

    numerator: str
    denominator: str


class Fee(msgspec.Struct, frozen=True):
    """A fee as webhooks show it; all amounts in the unit that the buyer pays in."""

    kind: str
    base_amount: AmountWire
    percent: Percent
    percent_amount: AmountWire
    total_amount: AmountWire


def fee_total(rule: FeeRule, amount: int) -> int:
    """The fee on `amount` in smallest units: base and share, never more than `amount`."""
    return min(rule.base_amount + _percent_amount(rule, amount), amount)


def compute_fee(rule: FeeRule, amount: int, unit: str) -> Fee:
    """The fee on a payment of `amount` smallest units, for the wire.

    Args:
        rule: What the operator takes.
        amount: What leaves the buyer.
        unit: Of all amounts, such as `caip19/eip155:8453/erc20:0x…`.
    """
    return Fee(
        kind=BASE_PLUS_PERCENT,
        base_amount=AmountWire(unit, str(rule.base_amount)),
        percent=Percent(str(rule.numerator), str(rule.denominator)),
        percent_amount=AmountWire(unit, str(_percent_amount(rule, amount))),
        total_amount=AmountWire(unit, str(fee_total(rule, amount))),
    )


def _percent_amount(rule: FeeRule, amount: int) -> int:
    # Down: the fee is never more than the share that was agreed.
    return amount * rule.numerator // rule.denominator
