"""Refunds that a merchant made from its own wallet, recorded once a payment."""

from __future__ import annotations

import sqlite3
from typing import TypeAlias

from payd.core.errors import AlreadyRefunded

Tx: TypeAlias = sqlite3.Connection


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
