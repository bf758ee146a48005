"""Refunds that a merchant made from its own wallet, recorded once a payment, and those on their way."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from payd.core.errors import AlreadyRefunded
from payd.core.payment import Payment
from payd.store.payments import decode_payment

Tx: TypeAlias = sqlite3.Connection


class Refund(NamedTuple):
    """A refund as it was recorded: when, and by which transaction and with which words, if any."""

    at_ms: int
    tx_id: str | None
    note: str | None


class RefundOut(NamedTuple):
    """A refund that was brought to its chain.

    valid_until: the last block height at which it can land.
    """

    tx_id: str
    valid_until: int


def insert_refund(tx: Tx, payment_id: str, tx_id: str | None, note: str | None, now_ms: int) -> None:
    """Record a refund.

    Raises:
        AlreadyRefunded: One is recorded.
    """
    added = tx.execute(
        "INSERT INTO refunds (payment_id, tx_id, note, created_at_ms) VALUES (?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (payment_id, tx_id, note, now_ms),
    ).rowcount
    if not added:
        raise AlreadyRefunded("A refund of this payment is recorded already.")


def is_refunded(tx: Tx, payment_id: str) -> bool:
    """Whether a refund of the payment is recorded."""
    return tx.execute("SELECT 1 FROM refunds WHERE payment_id = ?", (payment_id,)).fetchone() is not None


def refunds_of(tx: Tx, payment_ids: Sequence[str]) -> dict[str, Refund]:
    """The refunds that are recorded of some payments, by payment."""
    marks = ",".join("?" * len(payment_ids))
    rows = tx.execute(
        f"SELECT payment_id, created_at_ms, tx_id, note FROM refunds WHERE payment_id IN ({marks})",
        payment_ids,
    )
    return {payment_id: Refund(*row) for payment_id, *row in rows}


def refunded_by(tx: Tx, account_id: str, tx_id: str) -> list[Payment]:
    """The account's payments whose refund this transaction is recorded to be."""
    rows = tx.execute(
        "SELECT p.body FROM refunds r JOIN payments p ON p.id = r.payment_id"
        " WHERE r.tx_id = ? AND p.account_id = ?",
        (tx_id, account_id),
    )
    return [decode_payment(body) for (body,) in rows]


def refund_out(tx: Tx, payment_id: str) -> RefundOut | None:
    """The refund of a payment that was brought to its chain and may still land, for all that is known."""
    row = tx.execute(
        "SELECT tx_id, valid_until FROM refunds_out WHERE payment_id = ?", (payment_id,)
    ).fetchone()
    return None if row is None else RefundOut(*row)


def send_out(tx: Tx, payment_id: str, out: RefundOut, now_ms: int) -> RefundOut | None:
    """Note that a refund is about to be brought to its chain; the other one, where one was before.

    Then this one must not be: both could land.
    """
    tx.execute(
        "INSERT INTO refunds_out (payment_id, tx_id, valid_until, brought_at_ms) VALUES (?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (payment_id, *out, now_ms),
    )
    stored = refund_out(tx, payment_id)
    return None if stored is None or stored.tx_id == out.tx_id else stored


def forget_out(tx: Tx, payment_id: str, tx_id: str) -> None:
    """It cannot land any more, or it failed: another one may be brought."""
    tx.execute("DELETE FROM refunds_out WHERE payment_id = ? AND tx_id = ?", (payment_id, tx_id))
