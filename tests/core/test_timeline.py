"""A payment's story: every version is told with its cause, also when the events are gone."""

from __future__ import annotations

import pytest

from payd.core.payment import open_payment, transition
from payd.core.status import Status
from payd.core.timeline import (
    DeliveryTried,
    EventKept,
    KeptEvent,
    Moved,
    Offered,
    QuoteOut,
    WalletTold,
    in_order,
    transitions_of,
)
from tests.ledger import BUYER, triggers_to
from tests.store.test_payments import payment


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("requires_action", [("requires_action", "creation", "")]),
        (
            "settled",
            [
                ("requires_action", "creation", ""),
                ("processing", "a commitment of funds", BUYER),
                ("succeeded", "a confirmed transfer", "0x1"),
                ("succeeded", "a settlement", "0x1"),
            ],
        ),
        ("failed", [("requires_action", "creation", ""), ("failed", "a failure", "why")]),
        (
            "failed_after",
            [
                ("requires_action", "creation", ""),
                ("processing", "a commitment of funds", BUYER),
                ("failed", "a failure", "why"),
            ],
        ),
        ("expired", [("requires_action", "creation", ""), ("expired", "expiry", "")]),
        ("cancelled", [("requires_action", "creation", ""), ("cancelled", "a cancellation", "why")]),
    ],
)
def test_every_version_is_told_without_its_event(state: str, told: list[tuple[str, str, str]]) -> None:
    draft = payment(1)
    moved = open_payment(draft)
    events = [KeptEvent("evt_0", 0, moved.event_type, moved.occurred_at_ms)]
    for n, trigger in enumerate(triggers_to(state, tx_id="0x1", reason="why"), 1):
        moved = transition(moved.payment, trigger, draft.created_at_ms + n)
        events.append(KeptEvent(f"evt_{n}", n, moved.event_type, moved.occurred_at_ms))

    bare = transitions_of(moved.payment, [])
    assert [(one.status.value, one.cause, one.detail) for one in bare] == told
    assert [one.version for one in bare] == list(range(moved.payment.version + 1))
    assert [one.event_type for one in bare] == [event.type for event in events]
    full = transitions_of(moved.payment, events)
    assert [one.at_ms for one in full] == [event.created_at_ms for event in events]


def test_a_cause_comes_before_what_follows_from_it_in_the_same_millisecond() -> None:
    quote = QuoteOut("opt_1", "asset", BUYER, 5, "to", 99)
    entries = [
        DeliveryTried(2, "dlv_1", "payment.created", 1, "auto", 200, None, None, 5),
        EventKept(1, "evt_1", "payment.created", 0),
        Moved(1, 0, Status.REQUIRES_ACTION, "payment.created", "creation", ""),
        WalletTold(1, "0x1"),
        Offered(1, (quote, quote)),
    ]

    assert in_order(entries) == entries[::-1]
    assert Offered(1, (quote, quote)).accounts == (BUYER,)
