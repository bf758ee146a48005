"""New payments: those that come at the same moment are few statements, however many they are.

Source: DESIGN.md, "5. A payment is an actor".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache, partial
from typing import TypeAlias

import outcome

from payd.core.errors import InvalidParams, NotFound
from payd.core.payment import Payment, Transition
from payd.store.merchants import standing
from payd.store.outbox import EventToStore, event_of, put_out
from payd.store.payments import Move, encode_payment
from payd.store.rows import insert_rows

Tx: TypeAlias = sqlite3.Connection


def create_payments(tx: Tx, asked: Sequence[Move]) -> list[outcome.Outcome[str | None]]:
    """Store those whose merchant can be paid; see `Database.write_together`.

    Returns:
        For each the webhook endpoint to wake, if one is owed the event; or why its payment cannot be.
    """
    known = cache(partial(standing, tx))
    checks = [outcome.capture(_check_payable, known(one.payment.merchant_id), one.payment) for one in asked]
    payable = [one for one, checked in zip(asked, checks, strict=True) if isinstance(checked, outcome.Value)]
    owed = iter(insert_payments(tx, payable) if payable else ())
    return [
        outcome.Value(next(owed)) if isinstance(checked, outcome.Value) else checked for checked in checks
    ]


def check_payable(tx: Tx, draft: Payment) -> None:
    """Whether a payment's merchant can be paid.

    Raises:
        NotFound: The account has no such merchant.
        InvalidParams: It is not active, or has no destination.
    """
    _check_payable(standing(tx, draft.merchant_id), draft)


def _check_payable(known: tuple[str, str, bool] | None, draft: Payment) -> None:
    account_id, status, has_destination = known or ("", "", False)
    if account_id != draft.account_id:
        raise NotFound("There is no merchant with this Merchant-Id.")
    if status != "active":
        raise InvalidParams(f"The merchant is {status}; only an active merchant can be paid.")
    if not has_destination:
        raise InvalidParams(
            "The merchant has no destination to be paid at. Register one first:"
            f" POST /v1/merchants/{draft.merchant_id}/settlements/crypto."
        )


def insert_payment(tx: Tx, moved: Transition, event: EventToStore, due_at_ms: int | None) -> str | None:
    """Store a new payment with its first event. Returns the webhook endpoint to wake, if one is owed it."""
    return insert_payments(tx, [Move(moved, event, due_at_ms)])[0]


def insert_payments(tx: Tx, new: Sequence[Move]) -> list[str | None]:
    """Store new payments, at least one, with their first events. Returns the webhook endpoints to tell."""
    insert_rows(
        tx,
        "INSERT INTO payments (id, account_id, merchant_id, reference_id, currency, value, status, version,"
        " created_at_ms, due_at_ms, body)",
        [_payment_row(one) for one in new],
    )
    return put_out(tx, [event_of(one.moved, one.event) for one in new])


def _payment_row(new: Move) -> tuple[object, ...]:
    payment = new.payment
    return (
        payment.id,
        payment.account_id,
        payment.merchant_id,
        payment.reference_id,
        payment.currency,
        payment.value,
        payment.status.value,
        payment.version,
        payment.created_at_ms,
        new.due_at_ms,
        encode_payment(payment),
    )
