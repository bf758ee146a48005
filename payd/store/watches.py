"""What transfers carry, and the payment that each is then for; written with the option that is handed out."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from payd.store.rows import values_of

Tx: TypeAlias = sqlite3.Connection

# SQLite takes more parameters than this in one statement.
BINDINGS_AT_ONCE: Final = 500


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


def chains_watched(tx: Tx, payment_ids: Sequence[str]) -> list[tuple[str, str]]:
    """The chains on which payments were offered to be paid, and are looked for: `(payment, chain)`."""
    marks = ",".join("?" * len(payment_ids))
    return tx.execute(
        f"SELECT DISTINCT payment_id, chain FROM watches WHERE payment_id IN ({marks})", payment_ids
    ).fetchall()


def find_watch(tx: Tx, binding: bytes, asset_key: str) -> Watch | None:
    """The watch of a binding in this asset."""
    row = tx.execute(
        "SELECT binding, asset_key, payment_id, chain, destination, until_ms FROM watches"
        " WHERE binding = ? AND asset_key = ?",
        (binding, asset_key),
    ).fetchone()
    return None if row is None else Watch(*row)


def known_bindings(tx: Tx, bindings: Sequence[bytes], chain: str) -> set[tuple[bytes, str]]:
    """Those of the bindings that were handed out on this chain, each with the asset that it was for."""
    known: set[tuple[bytes, str]] = set()
    for start in range(0, len(bindings), BINDINGS_AT_ONCE):
        some = bindings[start : start + BINDINGS_AT_ONCE]
        marks = ",".join("?" * len(some))
        known.update(
            tx.execute(
                f"SELECT binding, asset_key FROM watches WHERE binding IN ({marks}) AND chain = ?",
                (*some, chain),
            )
        )
    return known


def watched_on(tx: Tx, chain: str, after_ms: int) -> set[tuple[str, str]]:
    """What is looked for on a chain, of windows that close after that: asset and destination, canonical."""
    rows = tx.execute(
        "SELECT DISTINCT asset_key, destination FROM watches WHERE chain = ? AND until_ms > ?",
        (chain, after_ms),
    )
    return set(rows)


def closing_bindings(tx: Tx, chain: str, from_ms: int, to_ms: int) -> list[bytes]:
    """What binds transfers to payments that wait for one, and whose windows close from then until then."""
    rows = tx.execute(
        "SELECT DISTINCT w.binding FROM watches w JOIN payments p ON p.id = w.payment_id"
        " WHERE w.chain = ? AND w.until_ms >= ? AND w.until_ms < ?"
        " AND p.status IN ('requires_action', 'processing') ORDER BY w.until_ms, w.binding",
        (chain, from_ms, to_ms),
    )
    return [bytes(row[0]) for row in rows]


def first_closing_ms(tx: Tx, chain: str, from_ms: int, to_ms: int) -> int | None:
    """When the first window ends, from then until then, of a payment that may yet be paid; None: none."""
    (until_ms,) = tx.execute(
        "SELECT min(w.until_ms) FROM watches w JOIN payments p ON p.id = w.payment_id"
        " WHERE w.chain = ? AND w.until_ms >= ? AND w.until_ms < ?"
        " AND p.status IN ('requires_action', 'processing')",
        (chain, from_ms, to_ms),
    ).fetchone()
    return None if until_ms is None else int(until_ms)


def account_watching(tx: Tx, chain: str, destination: str) -> str | None:
    """The account of a payment that was offered to be paid to this destination; None: there is none."""
    row = tx.execute(
        "SELECT p.account_id FROM watches w JOIN payments p ON p.id = w.payment_id"
        " WHERE w.chain = ? AND w.destination = ? LIMIT 1",
        (chain, destination),
    ).fetchone()
    return None if row is None else str(row[0])


def watched_by_open(tx: Tx, chain: str) -> set[tuple[str, str]]:
    """What is looked for on a chain by payments that still wait for something, however long already."""
    found: set[tuple[str, str]] = set()
    for waiting in ("due_at_ms IS NOT NULL AND p.parked_at_ms IS NULL", "parked_at_ms IS NOT NULL"):
        found.update(
            tx.execute(
                "SELECT DISTINCT w.asset_key, w.destination FROM payments p"
                f" CROSS JOIN watches w ON w.payment_id = p.id WHERE p.{waiting} AND w.chain = ?",
                (chain,),
            )
        )
    return found


def prune_watches(tx: Tx, before_ms: int, limit: int) -> int:
    """Forget what was looked for in windows that closed before that, `limit` rows at most; how many.

    What a payment is still looked for by stays.
    """
    pruned = 0
    for chain in values_of(tx, "SELECT min(chain) FROM watches WHERE chain > ?"):
        pruned += tx.execute(
            "DELETE FROM watches WHERE (binding, asset_key) IN"
            " (SELECT w.binding, w.asset_key FROM watches w WHERE w.chain = ? AND w.until_ms < ?"
            " AND NOT EXISTS (SELECT 1 FROM payments p WHERE p.id = w.payment_id"
            " AND p.status IN ('requires_action', 'processing')) LIMIT ?)",
            (chain, before_ms, limit - pruned),
        ).rowcount
    return pruned
