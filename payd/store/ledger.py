"""The dashboard's list of payments: what has come since it was shown, and how its rows are now.

The page itself is `store.payments.list_payments`. A page's rows never move: it says how many are new, and its
rows are looked up again by their ids.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final, TypeAlias

from payd.core.payment import Payment
from payd.store.payments import PaymentFilter, conditions, decode_payment

Tx: TypeAlias = sqlite3.Connection

# More than this is shown as "more than": nobody counts further, and neither does a query.
NEW_MAX: Final = 100
# A page of the list has no more rows.
ROWS_MAX: Final = 200


def newest_seq(tx: Tx) -> int:
    """The place of the newest payment of the realm: what a list is new since; 0 before the first."""
    (seq,) = tx.execute("SELECT max(seq) FROM payments").fetchone()
    return seq or 0


def currencies_used(tx: Tx, account_id: str) -> list[str]:
    """The currencies that the account's payments are in, in order: one look at an index for each."""
    rows = tx.execute(
        "WITH RECURSIVE used (code) AS (SELECT min(currency) FROM payments INDEXED BY payments_by_amount"
        " WHERE account_id = :account UNION ALL SELECT (SELECT min(currency) FROM payments"
        " INDEXED BY payments_by_amount WHERE account_id = :account AND currency > code)"
        " FROM used WHERE code IS NOT NULL) SELECT code FROM used WHERE code IS NOT NULL",
        {"account": account_id},
    )
    return [str(row[0]) for row in rows]


def count_new(tx: Tx, chosen: PaymentFilter, since_seq: int) -> int:
    """How many payments that pass the filter were made since then; at most `NEW_MAX` are counted."""
    where, values = conditions(chosen)
    # By the place and no other index: what is new is little, whatever the filter leaves of the rest.
    (count,) = tx.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM payments NOT INDEXED WHERE seq > ? AND {' AND '.join(where)}"
        " LIMIT ?)",
        (since_seq, *values, NEW_MAX),
    ).fetchone()
    return int(count)


def payments_by_id(tx: Tx, account_id: str, payment_ids: Sequence[str]) -> list[Payment]:
    """These payments as they are now, in the order asked for; another account's are not there.

    Args:
        tx: A reading transaction.
        account_id: Whose.
        payment_ids: At most `ROWS_MAX`; what is beyond is not looked at.
    """
    asked = list(dict.fromkeys(payment_ids))[:ROWS_MAX]
    rows = tx.execute(
        f"SELECT id, body FROM payments WHERE id IN ({','.join('?' * len(asked))}) AND +account_id = ?",
        (*asked, account_id),
    )
    found = {payment_id: body for payment_id, body in rows}
    return [decode_payment(found[payment_id]) for payment_id in asked if payment_id in found]
