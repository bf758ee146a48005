"""What transfers carry, and the payment that each is then for; written with the option that is handed out."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

Tx: TypeAlias = sqlite3.Connection


class Watch(msgspec.Struct, frozen=True):
    """One binding of a payment in one asset. `destination` is CAIP-10, `until_ms` the end of its window."""

    binding: bytes
    asset_key: str
    payment_id: str
    chain: str
    destination: str
    until_ms: int


def insert_watches(tx: Tx, watches: Sequence[Watch]) -> None:
    """Store what to look for; what is stored already stays as it is."""
    tx.executemany(
        "INSERT INTO watches (binding, asset_key, payment_id, chain, destination, until_ms)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [msgspec.structs.astuple(watch) for watch in watches],
    )


def chains_watched(tx: Tx, payment_id: str) -> list[str]:
    """The chains on which the payment was offered to be paid, and is looked for."""
    rows = tx.execute("SELECT DISTINCT chain FROM watches WHERE payment_id = ?", (payment_id,))
    return [str(row[0]) for row in rows]


def find_watch(tx: Tx, binding: bytes, asset_key: str) -> Watch | None:
    """The watch of a binding in this asset; of another asset of the same payment if there is only that."""
    row = tx.execute(
        "SELECT binding, asset_key, payment_id, chain, destination, until_ms FROM watches WHERE binding = ?"
        " ORDER BY asset_key = ? DESC LIMIT 1",
        (binding, asset_key),
    ).fetchone()
    return None if row is None else Watch(*row)
