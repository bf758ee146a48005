"""Payments in any state as rows, made as their actors make them: for tests and benches of what reads them."""

from __future__ import annotations

from itertools import count
from typing import Any, Final

from payd.core.event import encode_event
from payd.core.money import asset_amount
from payd.core.payment import (
    FundsCommitted,
    Payment,
    PaymentCancelled,
    PaymentFailed,
    Processing,
    SettlementCompleted,
    TransferConfirmed,
    Transition,
    Trigger,
    WindowClosed,
    open_payment,
    transition,
)
from payd.store.db import Tx
from payd.store.outbox import EventToStore
from tests.inserts import insert_payment, record_transition

START_MS: Final = 1_780_000_000_000
CHAIN: Final = "eip155:8453"
USDC: Final = f"{CHAIN}/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"
BUYER: Final = f"{CHAIN}:0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"

_numbers = count(1)


def triggers_to(
    state: str, *, asset: str = USDC, buyer: str = BUYER, tx_id: str, reason: str
) -> list[Trigger]:
    """What brings a new payment there."""
    amount = asset_amount(asset, 1_000_000)
    funds = FundsCommitted(Processing(0, amount, amount, buyer, asset.partition("/")[0]))
    paid: list[Trigger] = [funds, TransferConfirmed(tx_id)]
    ways: dict[str, list[Trigger]] = {
        "requires_action": [],
        "processing": [funds],
        "succeeded": paid,
        "settled": [*paid, SettlementCompleted(tx_id)],
        "failed": [PaymentFailed(reason)],
        "failed_after": [funds, PaymentFailed(reason)],
        "expired": [WindowClosed()],
        "cancelled": [PaymentCancelled(reason)],
    }
    return ways[state]


def run_sql(tx: Tx, /, statement: str, *values: object) -> None:
    """One statement, for what no actor would do."""
    tx.execute(statement, values)


TAIL: Final = 36
"""What an id has behind its prefix, characters."""


def sell(
    tx: Tx,
    /,
    state: str = "requires_action",
    *,
    number: int = 0,
    at_ms: int = START_MS,
    took_ms: int = 5000,
    asset: str = USDC,
    buyer: str = BUYER,
    tx_id: str = "",
    reason: str = "cancelled_by_user",
    **fields: Any,
) -> Payment:
    """A payment that was created at `at_ms` and came to this state in so many milliseconds."""
    number = number or next(_numbers)
    known: dict[str, Any] = {
        "id": f"pay_t{number}",
        "account_id": "acct_1",
        "merchant_id": "mrch_1",
        "reference_id": f"R-{number}",
        "currency": "USD",
        "value": 2500,
        "created_at_ms": at_ms,
        "expires_at_ms": at_ms + 900_000,
        "updated_at_ms": at_ms,
    }
    draft = Payment(**known | fields)
    moved = open_payment(draft)
    insert_payment(tx, moved, event_of(moved), None)
    tx_id = tx_id or f"0x{number:064x}"
    for trigger in triggers_to(state, asset=asset, buyer=buyer, tx_id=tx_id, reason=reason):
        moved = transition(moved.payment, trigger, at_ms + took_ms)
        record_transition(tx, moved, event_of(moved), None)
    return moved.payment


def event_of(moved: Transition) -> EventToStore:
    """The event of a transition, by ids that follow from the payment's."""
    number, version = moved.payment.id[5:], moved.payment.version
    # Of a payment with a well-formed id, so are these.
    name = f"{version}{number[1:]}" if len(number) == TAIL else f"t{number}v{version}"
    return EventToStore(
        f"evt_{name}", encode_event(moved, f"evt_{name}", live=False), f"dlv_{name}", f"msg_{name}"
    )
