"""Settlements: where a merchant wants an asset to go. One for each (merchant, canonical asset)."""

from __future__ import annotations

import sqlite3
from typing import Final, TypeAlias

import msgspec

from payd.core.errors import InvalidParams, SettlementAssetConflict

Tx: TypeAlias = sqlite3.Connection

# More assets than there are; lists of them are not paged, and each offer to a buyer walks them all.
SETTLEMENTS_MAX: Final = 200

_COLUMNS: Final = "id, merchant_id, asset, asset_key, destination, created_at_ms"


class Settlement(msgspec.Struct, frozen=True):
    """One destination. `asset` as the merchant wrote it, `asset_key` canonical."""

    id: str
    merchant_id: str
    asset: str
    asset_key: str
    destination: str
    created_at_ms: int


def insert_settlement(tx: Tx, settlement: Settlement) -> None:
    """Register a destination.

    Raises:
        SettlementAssetConflict: The merchant has one for the asset.
        InvalidParams: The merchant has as many as it may have.
    """
    taken = tx.execute(
        "SELECT 1 FROM settlements WHERE merchant_id = ? AND asset_key = ?",
        (settlement.merchant_id, settlement.asset_key),
    ).fetchone()
    if taken:
        raise SettlementAssetConflict(
            f"A settlement for {settlement.asset} exists. Change its destination with PUT instead.",
            details={"asset": settlement.asset},
        )
    (count,) = tx.execute(
        "SELECT count(*) FROM settlements WHERE merchant_id = ?", (settlement.merchant_id,)
    ).fetchone()
    if count >= SETTLEMENTS_MAX:
        raise InvalidParams(f"The merchant has {SETTLEMENTS_MAX} settlements, which is the most.")
    tx.execute(
        f"INSERT INTO settlements ({_COLUMNS}, updated_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*msgspec.structs.astuple(settlement), settlement.created_at_ms),
    )


def find_settlement(tx: Tx, merchant_id: str, settlement_id: str) -> Settlement | None:
    """One settlement of a merchant."""
    row = tx.execute(
        f"SELECT {_COLUMNS} FROM settlements WHERE id = ? AND merchant_id = ?", (settlement_id, merchant_id)
    ).fetchone()
    return None if row is None else Settlement(*row)


def list_settlements(tx: Tx, merchant_id: str) -> list[Settlement]:
    """All settlements of a merchant, in the order in which they were registered."""
    rows = tx.execute(
        f"SELECT {_COLUMNS} FROM settlements WHERE merchant_id = ? ORDER BY rowid", (merchant_id,)
    )
    return [Settlement(*row) for row in rows]


def has_settlement(tx: Tx, merchant_id: str) -> bool:
    """Whether the merchant can be paid at all."""
    row = tx.execute("SELECT 1 FROM settlements WHERE merchant_id = ? LIMIT 1", (merchant_id,))
    return row.fetchone() is not None


def settled_on(tx: Tx, chain: str) -> set[tuple[str, str]]:
    """What merchants want on this chain, and where: canonical assets, and destinations as they wrote them."""
    rows = tx.execute(
        "SELECT DISTINCT asset_key, destination FROM settlements WHERE asset_key > ? AND asset_key < ?",
        (f"{chain}/", f"{chain}0"),  # "0" comes after "/"
    )
    return set(rows)


def assets_taken(tx: Tx, account_id: str) -> list[str]:
    """What the account's merchants take or took: canonical assets, in order."""
    rows = tx.execute(
        "SELECT DISTINCT s.asset_key FROM merchants m JOIN settlements s ON s.merchant_id = m.id"
        " WHERE m.account_id = ? ORDER BY 1 LIMIT ?",
        (account_id, SETTLEMENTS_MAX),
    )
    return [str(row[0]) for row in rows]


def account_at(tx: Tx, destination: str) -> str | None:
    """The account of the merchant whose destination this is, of several the first one's; None: nobody's.

    Args:
        tx: A reading transaction.
        destination: Canonical CAIP-10. Capitals do not matter on EVM chains alone.
    """
    row = tx.execute(
        "SELECT m.account_id FROM settlements s JOIN merchants m ON m.id = s.merchant_id"
        " WHERE s.destination = :sought COLLATE NOCASE"
        " AND (s.destination = :sought OR :sought LIKE 'eip155:%')"
        " ORDER BY m.deleted_at_ms IS NOT NULL, s.rowid LIMIT 1",
        {"sought": destination},
    ).fetchone()
    return None if row is None else str(row[0])


def set_destination(tx: Tx, settlement_id: str, destination: str, now_ms: int) -> None:
    """Point a settlement at another wallet."""
    tx.execute(
        "UPDATE settlements SET destination = ?, updated_at_ms = ? WHERE id = ?",
        (destination, now_ms, settlement_id),
    )


def delete_settlement(tx: Tx, settlement_id: str) -> None:
    """Take a destination away for good; payments that were offered it are watched all the same."""
    tx.execute("DELETE FROM settlements WHERE id = ?", (settlement_id,))
