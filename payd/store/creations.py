"""New payments: those that come at the same moment are few statements, however many they are.

Source: DESIGN.md, "5. A payment is an actor"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache, partial
from typing import NamedTuple, TypeAlias

import outcome

from payd.core.errors import InvalidParams, NotFound, PaydError
from payd.core.idempotency import Record
from payd.core.payment import Payment
from payd.store.idempotency import IdempotentRequest, Outcome, find_answers, keep_answers, replay_of
from payd.store.merchants import NO_MERCHANT, standing
from payd.store.outbox import event_of, put_out
from payd.store.payments import Move, encode_payment
from payd.store.rows import insert_rows

Tx: TypeAlias = sqlite3.Connection


class Creation(NamedTuple):
    """A payment that is asked for, the answer if it can be made, and the request if that has a key."""

    move: Move
    answer: Outcome
    request: IdempotentRequest | None = None


class Created(NamedTuple):
    """What a request is answered, and the webhook endpoint to tell, if a payment was made and one is owed."""

    answer: Outcome
    endpoint_id: str | None


def create_payments(tx: Tx, asked: Sequence[Creation]) -> list[outcome.Outcome[Created]]:
    """Make payments of merchants that can be paid, each once for its key; see `Database.write_together`.

    They are looked at in their order: a second request under a key gets the answer of the first, and of a
    refused one nothing is kept.

    Returns:
        For each what came of it, or why its payment cannot be: `NotFound`, `InvalidParams`,
        `IdempotencyConflict`.
    """
    merchant = cache(partial(standing, tx))
    kept = find_answers(tx, [one.request for one in asked if one.request is not None])
    new: list[Creation] = []

    def refuse_or_replay(one: Creation) -> outcome.Outcome[Created] | None:
        """None where a payment is to be made."""
        request, answer, payment = one.request, one.answer, one.move.payment
        try:
            if request is not None and (replay := replay_of(kept.get(request.place), request)) is not None:
                return outcome.Value(Created(replay, None))
            _check_payable(merchant(payment.merchant_id), payment)
        except PaydError as refusal:
            return outcome.Error(refusal)
        if request is not None:
            kept[request.place] = Record(answer.status, answer.body, request.fingerprint, request.request_id)
        new.append(one)
        return None

    ends = [refuse_or_replay(one) for one in asked]
    endpoints = iter(insert_payments(tx, [one.move for one in new]) if new else ())
    if answered := [(one.request, one.answer) for one in new if one.request is not None]:
        keep_answers(tx, answered)
    return [
        end or outcome.Value(Created(one.answer, next(endpoints)))
        for one, end in zip(asked, ends, strict=True)
    ]


def _check_payable(known: tuple[str, str, bool] | None, draft: Payment) -> None:
    account_id, status, has_destination = known or ("", "", False)
    if account_id != draft.account_id:
        raise NotFound(NO_MERCHANT)
    if status != "active":
        raise InvalidParams(f"The merchant is {status}; only an active merchant can be paid.")
    if not has_destination:
        raise InvalidParams(
            "The merchant has no destination to be paid at. Register one first:"
            f" POST /v1/merchants/{draft.merchant_id}/settlements/crypto."
        )


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
