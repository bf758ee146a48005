"""What the relayer may spend: never more than a day's budget, nor than its account holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from payd.actors.relay_alarms import Alarms
from payd.actors.relay_purse import BALANCE_LOW_PAYMENTS, PAYMENT_GAS, Purse
from payd.core.gas import Market

MARKET = Market(10, 1)
A_PAYMENT = PAYMENT_GAS * 21
RICH = 1000 * A_PAYMENT


def purse(
    *, per_day: int = RICH, balance: int = RICH, spent: int = 0, reserved: int = 0, market: Market = MARKET
) -> tuple[Purse, Alarms]:
    """One that knows how it stands."""
    alarms = Alarms("eip155:1")
    made = Purse(per_day, 100, alarms)
    made.update(balance=balance, spent=spent, reserved=reserved, market=market)
    alarms.settle()
    return made, alarms


def test_nothing_is_spent_before_the_balance_is_known() -> None:
    made = Purse(RICH, 100, Alarms("eip155:1"))
    assert not made.can_pay_one()
    assert not made.take(1)


def test_a_payment_can_be_paid_to_the_last_unit() -> None:
    assert purse(per_day=A_PAYMENT)[0].can_pay_one()
    assert not purse(per_day=A_PAYMENT - 1)[0].can_pay_one()
    assert purse(balance=A_PAYMENT)[0].can_pay_one()
    assert not purse(balance=A_PAYMENT - 1)[0].can_pay_one()
    assert purse(reserved=RICH - A_PAYMENT)[0].can_pay_one()
    assert not purse(reserved=RICH - A_PAYMENT + 1)[0].can_pay_one()
    assert not purse(per_day=2 * RICH, reserved=RICH - A_PAYMENT + 1)[0].can_pay_one()
    assert purse(spent=RICH - A_PAYMENT)[0].can_pay_one()
    assert not purse(spent=RICH - A_PAYMENT + 1)[0].can_pay_one()


def test_nothing_is_paid_while_gas_is_above_the_limit() -> None:
    assert purse(market=Market(99, 1))[0].can_pay_one()
    assert not purse(market=Market(100, 1))[0].can_pay_one()


def test_alarms_say_what_is_missing() -> None:
    assert purse()[1].active == frozenset()
    low = BALANCE_LOW_PAYMENTS * A_PAYMENT
    assert purse(balance=low)[1].active == frozenset()
    assert purse(balance=low - 1)[1].active == {"balance_low"}
    assert purse(balance=A_PAYMENT - 1)[1].active == {"balance_low", "balance_empty"}
    assert purse(spent=RICH)[1].active == {"budget"}
    assert purse(market=Market(100, 0))[1].active == {"fee_limit"}


def test_what_is_refused_is_an_alarm() -> None:
    made, alarms = purse(per_day=2 * A_PAYMENT)
    assert not made.take(3 * A_PAYMENT)
    alarms.settle()
    assert alarms.active == {"budget"}
    made, alarms = purse(balance=30 * A_PAYMENT)
    assert not made.take(31 * A_PAYMENT)
    alarms.settle()
    assert alarms.active == {"balance_empty"}


@given(
    st.integers(0, RICH),
    st.integers(0, RICH),
    st.integers(0, RICH),
    st.integers(0, RICH),
    st.lists(st.integers(1, 100 * A_PAYMENT), max_size=20),
)
def test_no_more_is_taken_than_there_is(
    per_day: int, balance: int, spent: int, reserved: int, costs: list[int]
) -> None:
    made, _ = purse(per_day=per_day, balance=balance, spent=spent, reserved=reserved)
    taken = sum(cost for cost in costs if made.take(cost))
    assert taken == 0 or taken + reserved <= balance
    assert taken == 0 or taken + reserved + spent <= per_day
