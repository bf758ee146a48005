"""What an account has done so far in one realm, for the list of what comes next."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from payd.core.status import Status
from payd.store.keys import LISTENER


class FirstSteps(NamedTuple):
    """Which of the first things are done; each is one indexed read."""

    merchant: bool
    destination: bool
    key: bool
    payment: bool
    paid: bool
    webhook: bool


def first_steps(tx: sqlite3.Connection, account_id: str) -> FirstSteps:
    """What the account has in this realm."""

    def has(query: str, *values: str) -> bool:
        return tx.execute(f"SELECT 1 {query} LIMIT 1", (account_id, *values)).fetchone() is not None

    return FirstSteps(
        merchant=has("FROM merchants WHERE account_id = ? AND deleted_at_ms IS NULL"),
        destination=has(
            "FROM merchants m JOIN settlements s ON s.merchant_id = m.id"
            " WHERE m.account_id = ? AND m.deleted_at_ms IS NULL"
        ),
        # Nobody has the key of a listener but itself.
        key=has("FROM api_keys WHERE account_id = ? AND revoked_at_ms IS NULL AND name <> ?", LISTENER),
        payment=has("FROM payments WHERE account_id = ?"),
        paid=has("FROM payments WHERE account_id = ? AND status = ?", Status.SUCCEEDED.value),
        webhook=has("FROM endpoints WHERE account_id = ? AND state <> 'deleted'"),
    )
