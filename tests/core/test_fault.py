"""Whom a fault touches, and whom never."""

from __future__ import annotations

import msgspec
import pytest

from payd.core.fault import (
    FAULT_KINDS,
    FORGED,
    HELD,
    REORDER_MAX_MS,
    STALE_BY_S,
    WORDS,
    Fault,
    FaultKind,
    held_until_ms,
    is_over,
    touches,
)
from payd.core.retry import ATTEMPTS_MAX
from payd.core.signature import TOLERANCE_S

NOW = 1_000_000


def fault(kind: FaultKind = "drop", **more: object) -> Fault:
    plain = Fault("flt_1", "ep_1", kind, None, (), None, 2, 2, None, NOW)
    return msgspec.structs.replace(plain, **more)


def hits(one: Fault, *, attempts: int = 0, met: bool = False, event: str = "payment.created") -> bool:
    return touches(one, event_type=event, payment_id="pay_t1", attempts=attempts, met=met, now_ms=NOW)


def test_every_kind_has_its_words_and_is_forged_held_or_neither() -> None:
    assert WORDS.keys() == set(FAULT_KINDS)
    assert set(FAULT_KINDS) - FORGED - HELD == {"duplicate", "drop"}
    assert STALE_BY_S > TOLERANCE_S


@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_the_last_attempt_of_a_delivery_is_never_touched(kind: FaultKind) -> None:
    assert hits(fault(kind), attempts=ATTEMPTS_MAX - 2)
    assert not hits(fault(kind), attempts=ATTEMPTS_MAX - 1)


@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_a_fault_for_some_deliveries_touches_each_once(kind: FaultKind) -> None:
    assert hits(fault(kind))
    assert not hits(fault(kind), met=True)
    assert not hits(fault(kind, left=0))


@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_a_fault_for_a_time_touches_every_attempt_that_it_can(kind: FaultKind) -> None:
    timed = fault(kind, deliveries=None, left=None, until_ms=NOW + 1)
    assert hits(timed)
    assert hits(timed, met=True) is (kind in FORGED or kind == "drop")
    assert not hits(fault(kind, deliveries=None, left=None, until_ms=NOW))


def test_a_fault_is_over_when_it_is_used_up_late_or_ended() -> None:
    assert not is_over(fault(), NOW)
    assert is_over(fault(left=0), NOW)
    assert is_over(fault(until_ms=NOW), NOW)
    assert is_over(fault(ended_at_ms=NOW), NOW)


def test_a_fault_may_be_for_some_types_and_for_one_payment() -> None:
    assert not hits(fault(events=("payment.settled",)))
    assert hits(fault(events=("payment.settled", "payment.created")))
    assert hits(fault(payment_id="pay_t1"))
    assert not hits(fault(payment_id="pay_t2"))


def test_while_one_waits_to_be_overtaken_the_next_goes_first() -> None:
    assert not hits(fault("reorder", held="dlv_1"))
    assert hits(fault("delay", held="dlv_1"))


def test_what_is_held_back_goes_in_the_end() -> None:
    assert held_until_ms(fault("delay", delay_ms=5), NOW) == NOW + 5
    assert held_until_ms(fault("reorder"), NOW) == NOW + REORDER_MAX_MS
