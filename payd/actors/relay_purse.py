"""What the relayer may spend: what is left of a day's budget, and what its account holds.

Memory only, read again from rows and from the chain with every tick.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final

from payd.actors.relay_alarms import Alarms
from payd.core.gas import Market, first_fees

# What a payment needs, about: an authorization of a token behind a proxy, and room for a smart wallet.
PAYMENT_GAS: Final = 150_000
# An account that holds less than so many payments' gas should be funded now.
BALANCE_LOW_PAYMENTS: Final = 20


class Purse:
    """What is left to spend on one chain. All amounts in smallest units of its native coin.

    Args:
        per_day: What may be spent in 24 hours.
        max_fee_limit: What a unit of gas may cost.
        alarms: Told when there is too little.

    Attributes:
        balance: Of the relayer's account; None: not known yet.
        spent: In the last 24 hours.
    """

    def __init__(self, per_day: int, max_fee_limit: int, alarms: Alarms) -> None:
        self._per_day = per_day
        self._max_fee_limit = max_fee_limit
        self._alarms = alarms
        self._reserved = 0
        self._payment = 0
        self._is_too_dear = False
        self.balance: int | None = None
        self.spent = 0

    def update(self, *, balance: int, spent: int, reserved: int, market: Market) -> None:
        """What the chain and the rows say now; `reserved` is what open transactions may still cost."""
        fees = first_fees(market, self._max_fee_limit)
        self.balance, self.spent, self._reserved = balance, spent, reserved
        self._payment = PAYMENT_GAS * (self._max_fee_limit if fees is None else fees.max_fee)
        self._is_too_dear = fees is None
        if self._is_too_dear:
            self._alarms.note("fee_limit", base_fee=market.base_fee)
        if balance - reserved < BALANCE_LOW_PAYMENTS * self._payment:
            self._alarms.note("balance_low", balance=balance)
        self._has(self._payment)

    def can_pay_one(self) -> bool:
        """Whether another payment's gas can be paid, as far as is known."""
        if self.balance is None or self._is_too_dear:
            return False
        return self._payment <= min(self._left_today, self.balance - self._reserved)

    def take(self, cost: int) -> bool:
        """Reserve what a transaction may cost at most. False when there is too little for it."""
        if not self._has(cost):
            return False
        self._reserved += cost
        return True

    def _has(self, cost: int) -> bool:
        has_budget = cost <= self._left_today
        has_coins = self.balance is not None and cost <= self.balance - self._reserved
        if not has_budget:
            self._alarms.note("budget", spent=self.spent)
        if not has_coins:
            self._alarms.note("balance_empty", balance=self.balance)
        return has_budget and has_coins

    @property
    def _left_today(self) -> int:
        return self._per_day - self.spent - self._reserved
