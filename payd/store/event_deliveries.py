"""Events by how their deliveries stand: what reconciliation asks for.

Source: DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import Final, NamedTuple, TypeAlias

from payd.store.deliveries import narrow
from payd.store.events import COLUMNS, EventRow
from payd.store.rows import SEQ_MAX

Tx: TypeAlias = sqlite3.Connection

# An event that was owed to several endpoints, one after the other, stands as it does with the last of them.
_LAST: Final = (
    "event_seq IS NOT NULL AND NOT EXISTS"
    " (SELECT 1 FROM deliveries n WHERE n.event_seq = o.event_seq AND n.seq > o.seq)"
)


class Told(NamedTuple):
    """An event, and the `seq` of its newest delivery: the list's cursor."""

    seq: int
    event: EventRow


def events_by_delivery(
    tx: Tx,
    account_id: str,
    state: str,
    *,
    event_type: str | None = None,
    payment_id: str | None = None,
    merchants: Collection[str] | None = None,
    before_seq: int | None = None,
    limit: int,
) -> list[Told]:
    """A page of the account's events whose newest delivery is in this state, newest delivery first.

    What was owed to no endpoint has no delivery and is in no state: `replay-missing` finds it.

    Args:
        tx: A connection.
        account_id: Whose.
        state: pending, succeeded, failed or cancelled.
        event_type: Only this type.
        payment_id: Only of this payment.
        merchants: Only of their payments.
        before_seq: A `Told.seq`; only deliveries older than this.
        limit: How many at most.
    """
    where = ["account_id = ?", "state = ?", "seq < ?", _LAST]
    values: list[str | int] = [account_id, state, SEQ_MAX if before_seq is None else before_seq]
    if event_type is not None:
        where.append("event_type = ?")
        values.append(event_type)
    is_few = narrow(tx, where, values, payment_id, merchants)
    road = "NOT INDEXED" if is_few else "INDEXED BY deliveries_by_state"
    columns = ", ".join(f"e.{name}" for name in COLUMNS.split(", "))
    rows = tx.execute(
        f"SELECT d.seq, {columns} FROM deliveries d JOIN events e ON e.seq = d.event_seq WHERE d.seq IN"
        f" (SELECT seq FROM deliveries o {road} WHERE {' AND '.join(where)} ORDER BY seq DESC LIMIT ?)"
        " ORDER BY d.seq DESC",
        (*values, limit),
    )
    return [Told(row[0], EventRow(*row[1:])) for row in rows]
