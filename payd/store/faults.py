"""Faults that are made on purpose: stored, taken by an attempt, over when they have done what they should."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec

from payd.core.errors import InvalidState, NotFound
from payd.core.fault import Fault, is_over, touches
from payd.store.rows import insert_rows

Tx: TypeAlias = sqlite3.Connection

# One attempt looks at all of them; a person keeps an eye on a handful.
ACTIVE_MAX: Final = 20
# Those that are over, of an endpoint; with what they touched.
KEPT_MAX: Final = 100

_COLUMNS: Final = (
    'id, endpoint_id, kind, delay_ms, events, payment_id, deliveries, "left", until_ms, created_at_ms,'
    " injected, held, ended_at_ms"
)


def add_fault(tx: Tx, fault: Fault) -> Fault:
    """Store a fault; it touches deliveries from the next attempt on.

    Raises:
        InvalidState: The endpoint has `ACTIVE_MAX` that are not over.
    """
    stored = list_faults(tx, fault.endpoint_id)
    active = [one for one in stored if not is_over(one, fault.created_at_ms)]
    if len(active) >= ACTIVE_MAX:
        raise InvalidState(
            f"{ACTIVE_MAX} faults are active at this endpoint; end some first.",
            details={"active": len(active)},
        )
    _forget(tx, [one.id for one in stored if is_over(one, fault.created_at_ms)][KEPT_MAX - 1 :])
    values = [" ".join(one) if isinstance(one, tuple) else one for one in msgspec.structs.astuple(fault)]
    insert_rows(tx, f"INSERT INTO faults ({_COLUMNS})", [values])
    return fault


def list_faults(tx: Tx, endpoint_id: str) -> list[Fault]:
    """All that are kept of an endpoint, newest first."""
    rows = tx.execute(
        f"SELECT {_COLUMNS} FROM faults WHERE endpoint_id = ? ORDER BY seq DESC", (endpoint_id,)
    )
    return [_fault(row) for row in rows.fetchall()]


def end_faults(tx: Tx, endpoint_id: str, fault_id: str | None, now_ms: int) -> list[Fault]:
    """End one fault, or all; what is held back is due now. Returns those that were not over.

    Raises:
        NotFound: The endpoint has no such fault.
    """
    stored = [one for one in list_faults(tx, endpoint_id) if fault_id in (None, one.id)]
    if fault_id is not None and not stored:
        raise NotFound("There is no such fault.")
    for fault in stored:
        _release(tx, fault, now_ms)
    ended = [one for one in stored if not is_over(one, now_ms)]
    tx.executemany("UPDATE faults SET ended_at_ms = ? WHERE id = ?", [(now_ms, one.id) for one in ended])
    return ended


def endpoints_with_faults(tx: Tx, now_ms: int) -> set[str]:
    """The endpoints that have a fault which is not over, or which still holds something back."""
    rows = tx.execute(
        "SELECT DISTINCT endpoint_id FROM faults WHERE held IS NOT NULL OR (ended_at_ms IS NULL"
        ' AND "left" IS NOT 0 AND (until_ms IS NULL OR until_ms > ?))',
        (now_ms,),
    )
    return {endpoint_id for (endpoint_id,) in rows}


def take_fault(tx: Tx, delivery_id: str, now_ms: int) -> Fault | None:
    """The fault that touches a delivery's next attempt, counted; the oldest where several would.

    One that was taken for this delivery and whose attempt was never logged, because the server ended, is
    given again.
    """
    delivery = tx.execute(
        "SELECT endpoint_id, event_type, payment_id, attempts FROM deliveries WHERE id = ?", (delivery_id,)
    ).fetchone()
    endpoint_id, event_type, payment_id, attempts = delivery
    stored = list_faults(tx, endpoint_id)[::-1]
    rows = tx.execute(
        "SELECT fault_id, open FROM fault_uses WHERE delivery_id = ?"
        " AND fault_id IN (SELECT id FROM faults WHERE endpoint_id = ?)",
        (delivery_id, endpoint_id),
    )
    uses: dict[str, int] = dict(rows.fetchall())
    for fault in stored:
        if uses.get(fault.id):
            return fault
    for fault in stored:
        if fault.held == delivery_id:
            # Its minute is over, and nothing else came.
            tx.execute("UPDATE faults SET held = NULL WHERE id = ?", (fault.id,))
        if touches(
            fault,
            event_type=event_type,
            payment_id=payment_id,
            attempts=attempts,
            met=fault.id in uses,
            now_ms=now_ms,
        ):
            tx.execute("INSERT OR REPLACE INTO fault_uses VALUES (?, ?, 1)", (fault.id, delivery_id))
            tx.execute(
                'UPDATE faults SET "left" = "left" - 1, injected = injected + 1, held = ? WHERE id = ?',
                (delivery_id if fault.kind == "reorder" else fault.held, fault.id),
            )
            return fault
    return None


def close_use(tx: Tx, delivery_id: str) -> None:
    """The attempt that a fault touched is logged: call it in the same step."""
    tx.execute("UPDATE fault_uses SET open = 0 WHERE delivery_id = ? AND open", (delivery_id,))


def release_held(tx: Tx, endpoint_id: str, delivery_id: str, now_ms: int) -> bool:
    """Have due now what a fault held back until this delivery had its attempt; whether there was any.

    A fault for one payment waits for another event of that payment, whatever its type.
    """
    (payment_id,) = tx.execute("SELECT payment_id FROM deliveries WHERE id = ?", (delivery_id,)).fetchone()
    released = False
    for fault in list_faults(tx, endpoint_id):
        if fault.held not in (None, delivery_id) and fault.payment_id in (None, payment_id):
            _release(tx, fault, now_ms)
            released = True
    return released


def _release(tx: Tx, fault: Fault, now_ms: int) -> None:
    if fault.held is not None:
        tx.execute(
            "UPDATE deliveries SET next_at_ms = ? WHERE id = ? AND state = 'pending' AND next_at_ms > ?",
            (now_ms, fault.held, now_ms),
        )
        tx.execute("UPDATE faults SET held = NULL WHERE id = ?", (fault.id,))


def _forget(tx: Tx, fault_ids: Sequence[str]) -> None:
    tx.executemany("DELETE FROM fault_uses WHERE fault_id = ?", [(one,) for one in fault_ids])
    tx.executemany("DELETE FROM faults WHERE id = ?", [(one,) for one in fault_ids])


def _fault(row: Sequence[Any]) -> Fault:
    fields = list(row)
    fields[4] = tuple(fields[4].split())
    return Fault(*fields)
