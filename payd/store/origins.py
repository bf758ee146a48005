"""The origins whose pages may show a merchant's checkout in a frame."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TypeAlias

Tx: TypeAlias = sqlite3.Connection


def list_origins(tx: Tx, merchant_id: str) -> tuple[str, ...]:
    """A merchant's origins as it wrote them, also of a deleted one: its payments are still shown."""
    return origins_of(tx, [merchant_id]).get(merchant_id, ())


def origins_of(tx: Tx, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The origins of several merchants, by id; who has none is not there."""
    marks = ",".join("?" * len(ids))
    rows = tx.execute(
        f"SELECT merchant_id, origin FROM checkout_origins WHERE merchant_id IN ({marks})"
        " ORDER BY merchant_id, place",
        ids,
    )
    found: dict[str, tuple[str, ...]] = {}
    for merchant_id, origin in rows:
        found[merchant_id] = (*found.get(merchant_id, ()), origin)
    return found


def replace_origins(tx: Tx, merchant_id: str, origins: Sequence[str]) -> None:
    """Store these, and no others."""
    tx.execute("DELETE FROM checkout_origins WHERE merchant_id = ?", (merchant_id,))
    tx.executemany(
        "INSERT INTO checkout_origins (merchant_id, place, origin) VALUES (?, ?, ?)",
        [(merchant_id, place, origin) for place, origin in enumerate(origins)],
    )
