"""Changes of destinations that are held back: asked for, taken back, and applied once.

Each of these is one transaction with its audit and its notice, so that a change is either still waiting or
has happened, whenever the process ends.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import sqlite3
from typing import Final, TypeAlias

import msgspec

from payd.core.errors import InvalidParams
from payd.core.event import iso_ms
from payd.core.notice import (
    CHANGE_CANCELLED,
    CHANGE_REQUESTED,
    DESTINATION_ADDED,
    DESTINATION_CHANGED,
    DESTINATION_DELETED,
    Moved,
    MovedType,
)
from payd.core.settlement_change import SettlementChange, is_same_account
from payd.store.audit import insert_audit
from payd.store.merchants import find_merchant
from payd.store.notices import FreshId, owe_moved
from payd.store.settlements import Settlement, find_settlement, set_destination

Tx: TypeAlias = sqlite3.Connection

SERVER: Final = "server"
"""Who the audit says applied a change, or dropped one."""

_COLUMNS: Final = "settlement_id, merchant_id, account_id, destination, actor, asked_at_ms, due_at_ms"

_ACTS: Final[dict[MovedType, str]] = {
    CHANGE_REQUESTED: "settlement.change_request",
    DESTINATION_CHANGED: "settlement.change",
    CHANGE_CANCELLED: "settlement.change_cancel",
    DESTINATION_DELETED: "settlement.delete",
    DESTINATION_ADDED: "settlement.create",
}


def find_change(tx: Tx, settlement_id: str) -> SettlementChange | None:
    """The change of a settlement that waits."""
    row = tx.execute(
        f"SELECT {_COLUMNS} FROM settlement_changes WHERE settlement_id = ?", (settlement_id,)
    ).fetchone()
    return None if row is None else SettlementChange(*row)


def changes_of(tx: Tx, merchant_id: str) -> dict[str, SettlementChange]:
    """The changes of a merchant that wait, by the settlement's id; at most one a settlement."""
    rows = tx.execute(f"SELECT {_COLUMNS} FROM settlement_changes WHERE merchant_id = ?", (merchant_id,))
    return {row[0]: SettlementChange(*row) for row in rows}


def next_change_of(tx: Tx, account_id: str) -> SettlementChange | None:
    """The account's change that takes effect next; none of a merchant that was deleted ever does."""
    row = tx.execute(
        f"SELECT {_COLUMNS} FROM settlement_changes c WHERE account_id = ? AND EXISTS"
        " (SELECT 1 FROM merchants m WHERE m.id = c.merchant_id AND m.deleted_at_ms IS NULL)"
        " ORDER BY due_at_ms LIMIT 1",
        (account_id,),
    ).fetchone()
    return None if row is None else SettlementChange(*row)


def changes_waiting(tx: Tx) -> list[SettlementChange]:
    """Every change that waits, the next one first; none in a database that is older than they are."""
    if tx.execute("SELECT 1 FROM sqlite_schema WHERE name = 'settlement_changes'").fetchone() is None:
        return []
    rows = tx.execute(f"SELECT {_COLUMNS} FROM settlement_changes ORDER BY due_at_ms, settlement_id")
    return [SettlementChange(*row) for row in rows]


def put_change(tx: Tx, change: SettlementChange) -> None:
    """Hold a change back, in the place of one that waits."""
    tx.execute(
        f"INSERT OR REPLACE INTO settlement_changes ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
        msgspec.structs.astuple(change),
    )


def drop_change(tx: Tx, settlement_id: str) -> SettlementChange | None:
    """Forget the change of a settlement that waits; returns it, if there was one."""
    change = find_change(tx, settlement_id)
    tx.execute("DELETE FROM settlement_changes WHERE settlement_id = ?", (settlement_id,))
    return change


def changes_due(tx: Tx, now_ms: int, limit: int) -> list[str]:
    """Settlements whose change is to be applied now, those first that wait longest."""
    rows = tx.execute(
        "SELECT settlement_id FROM settlement_changes WHERE due_at_ms <= ? ORDER BY due_at_ms LIMIT ?",
        (now_ms, limit),
    )
    return [str(row[0]) for row in rows]


def next_change_ms(tx: Tx) -> int | None:
    """When the next change is due; None when none waits."""
    (due_at_ms,) = tx.execute("SELECT min(due_at_ms) FROM settlement_changes").fetchone()
    return None if due_at_ms is None else int(due_at_ms)


def apply_change(tx: Tx, settlement_id: str, fresh_id: FreshId, now_ms: int) -> SettlementChange | None:
    """Apply a change that is due, once; of a merchant that was deleted meanwhile it is dropped.

    Returns:
        What was applied; None where it was taken back, replaced or applied before.
    """
    change = find_change(tx, settlement_id)
    if change is None or change.due_at_ms > now_ms:
        return None
    drop_change(tx, settlement_id)
    settlement = find_settlement(tx, change.merchant_id, settlement_id)
    if settlement is None or find_merchant(tx, change.merchant_id) is None:
        insert_audit(
            tx,
            at_ms=now_ms,
            account_id=change.account_id,
            actor=SERVER,
            act="settlement.change_drop",
            subject=settlement_id,
            details={
                "merchant": change.merchant_id,
                "to": change.destination,
                "askedBy": change.actor,
                "why": "the merchant was deleted",
            },
        )
        return None
    set_destination(tx, settlement_id, change.destination, now_ms)
    moved = Moved(
        settlement_id,
        change.merchant_id,
        change.account_id,
        settlement.asset,
        settlement.destination,
        change.destination,
        change.actor,
    )
    record_moved(tx, DESTINATION_CHANGED, moved, now_ms, actor=SERVER, fresh_id=fresh_id)
    return change


def record_moved(
    tx: Tx, kind: MovedType, moved: Moved, now_ms: int, *, actor: str, fresh_id: FreshId | None
) -> None:
    """Write what happens to a destination into the audit, and owe the operator a notice of it.

    Args:
        tx: The step's transaction.
        kind: What happens.
        moved: To what; its `actor` is who asked for it.
        now_ms: The realm's time.
        actor: Who does it now.
        fresh_id: Makes ids for a notice; None where the operator is not told, as in test mode.
    """
    details = {"merchant": moved.merchant_id, "asset": moved.asset, "from": moved.old, "to": moved.new}
    details |= {"appliesAt": moved.applies_at}
    if moved.actor != actor:
        details["askedBy"] = moved.actor
    insert_audit(
        tx,
        at_ms=now_ms,
        account_id=moved.account_id,
        actor=actor,
        act=_ACTS[kind],
        subject=moved.settlement_id,
        details={name: value for name, value in details.items() if value is not None},
    )
    if fresh_id is not None:
        owe_moved(tx, kind, moved, fresh_id, now_ms)


def vacate(tx: Tx, settlement: Settlement, until_ms: int) -> None:
    """Remember where a deleted settlement led: until then its asset can be registered for that alone."""
    tx.execute(
        "INSERT OR REPLACE INTO vacancies (merchant_id, asset_key, destination, until_ms)"
        " VALUES (?, ?, ?, ?)",
        (settlement.merchant_id, settlement.asset_key, settlement.destination, until_ms),
    )


def has_vacancy(tx: Tx, merchant_id: str) -> bool:
    """Whether the merchant took something once that was deleted, and was not registered again."""
    row = tx.execute("SELECT 1 FROM vacancies WHERE merchant_id = ? LIMIT 1", (merchant_id,))
    return row.fetchone() is not None


def occupy(tx: Tx, settlement: Settlement, now_ms: int) -> None:
    """Let a new settlement be registered, unless it changes what a deletion left behind too soon.

    Raises:
        InvalidParams: The asset's destination was deleted lately, and this is another one.
    """
    key = (settlement.merchant_id, settlement.asset_key)
    row = tx.execute(
        "SELECT destination, until_ms FROM vacancies WHERE merchant_id = ? AND asset_key = ?", key
    ).fetchone()
    if row is None:
        return
    destination, until_ms = row
    if now_ms < until_ms and not is_same_account(destination, settlement.destination):
        raise InvalidParams(
            f"The destination of {settlement.asset} was deleted a short while ago. Until {iso_ms(until_ms)}"
            f" it can be registered for {destination} alone, and after that for any address: [settlements]"
            " change_delay_s holds changes back.",
            details={"asset": settlement.asset, "until": iso_ms(until_ms)},
        )
    tx.execute("DELETE FROM vacancies WHERE merchant_id = ? AND asset_key = ?", key)
