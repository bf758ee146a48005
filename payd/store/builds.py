"""Transactions that were built for a wallet to sign: until when each can land, and what it may cost us.

A build that we signed first as fee payer can be brought to the chain by anybody who has the buyer's
signature. What it may cost is reserved from its hand-out until it has landed or cannot any more.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from payd.store.rows import upsert_rows, values_of

Tx: TypeAlias = sqlite3.Connection

BuildState = Literal["out", "landed", "void"]

_COLUMNS: Final = (
    "message_hash, payment_id, chain, buyer, valid_until_height, created_at_ms, tx_id, cost, state, opens"
)


class Build(msgspec.Struct, frozen=True):
    """One built transaction.

    Attributes:
        message_hash: SHA-256 of its message, 32 bytes.
        chain: CAIP-2.
        buyer: CAIP-10, canonical.
        valid_until_height: The last block height at which the chain takes it.
        tx_id: Where we pay its fee, and so signed first; None: the buyer pays.
        cost: What it costs us at most if it lands, in smallest units of the chain's coin; then what it did.
        state: out: handed out. landed: final on the chain. void: it can not land any more.
        opens: The account that it creates where nobody did before; None: none.
    """

    message_hash: bytes
    payment_id: str
    chain: str
    buyer: str
    valid_until_height: int
    created_at_ms: int
    tx_id: str | None = None
    cost: int = 0
    state: BuildState = "out"
    opens: str | None = None


class Spending(msgspec.Struct, frozen=True):
    """What was spent since some time, or may still be: in smallest units, and by how many transactions."""

    cost: int
    count: int


def hash_message(message: bytes) -> bytes:
    """What a build is known by."""
    return hashlib.sha256(message).digest()


def insert_build(tx: Tx, build: Build) -> None:
    """Store a build before a wallet gets it; one with the same message stays as it is."""
    row = msgspec.structs.astuple(build)
    upsert_rows(tx, f"INSERT INTO builds ({_COLUMNS})", [row], "ON CONFLICT DO NOTHING")


def find_build(tx: Tx, message_hash: bytes) -> Build | None:
    """The build of a message."""
    row = tx.execute(f"SELECT {_COLUMNS} FROM builds WHERE message_hash = ?", (message_hash,)).fetchone()
    return None if row is None else Build(*row)


def spent_on_builds(tx: Tx, chain: str, since_ms: int) -> Spending:
    """What we paid for, or may still have to, on a chain."""
    return _spending(tx, "state IN ('out', 'landed') AND created_at_ms >= ?", chain, since_ms)


def spent_on_payment(tx: Tx, chain: str, payment_id: str) -> Spending:
    """What we paid for, or may still have to, for one payment."""
    return _spending(tx, "state IN ('out', 'landed') AND payment_id = ?", chain, payment_id)


def reserved_on_builds(tx: Tx, chain: str) -> Spending:
    """What we may still have to pay for on a chain."""
    return _spending(tx, "state = 'out'", chain)


def _spending(tx: Tx, where: str, *values: str | int) -> Spending:
    """The rent of an account counts with each that would create it: its owner may close it in between."""
    cost, count = tx.execute(
        "SELECT coalesce(sum(cost), 0), count(*) FROM builds"
        f" WHERE chain = ? AND tx_id IS NOT NULL AND {where}",
        values,
    ).fetchone()
    return Spending(cost, count)


def count_opening(tx: Tx, chain: str, account: str) -> int:
    """How many that are out would create the account at our cost."""
    (count,) = tx.execute(
        "SELECT count(*) FROM builds WHERE chain = ? AND state = 'out' AND tx_id IS NOT NULL AND opens = ?",
        (chain, account),
    ).fetchone()
    return int(count)


def builds_of_buyer(tx: Tx, chain: str, buyer: str, since_ms: int, besides: str = "") -> int:
    """How many payments of one account, but for the one named, we paid for or may still have to."""
    row = tx.execute(
        "SELECT count(DISTINCT payment_id) FROM builds WHERE chain = ? AND buyer = ? AND tx_id IS NOT NULL"
        " AND state IN ('out', 'landed') AND created_at_ms >= ? AND payment_id <> ?",
        (chain, buyer, since_ms, besides),
    ).fetchone()
    return int(row[0])


def last_height_of(tx: Tx, chain: str, payment_id: str, besides: bytes) -> int | None:
    """The last block height at which something that was built for a payment can land; None: nothing can.

    Args:
        tx: The step's transaction.
        chain: CAIP-2.
        payment_id: Of the payment.
        besides: The hash of the message that is left out.
    """
    (height,) = tx.execute(
        "SELECT max(valid_until_height) FROM builds WHERE payment_id = ? AND chain = ? AND message_hash <> ?"
        " AND state <> 'void'",
        (payment_id, chain, besides),
    ).fetchone()
    return None if height is None else int(height)


def builds_out(tx: Tx, chain: str, limit: int) -> list[Build]:
    """Those that we may still have to pay for, oldest first."""
    rows = tx.execute(
        f"SELECT {_COLUMNS} FROM builds WHERE chain = ? AND state = 'out' AND tx_id IS NOT NULL"
        " ORDER BY created_at_ms LIMIT ?",
        (chain, limit),
    )
    return [Build(*row) for row in rows]


def end_builds(tx: Tx, ended: Sequence[tuple[bytes, Literal["landed", "void"], int]]) -> None:
    """Note what became of builds: `(message_hash, state, cost)`, the cost as it was in the end."""
    tx.executemany(
        "UPDATE builds SET state = ?, cost = ? WHERE message_hash = ? AND state = 'out'",
        [(state, cost, message_hash) for message_hash, state, cost in ended],
    )


def prune_own_builds(tx: Tx, before_ms: int, limit: int) -> int:
    """Forget what buyers pay the fee of, of payments that wait for nothing; how many, `limit` at most."""
    return _prune(tx, "builds_own", "b.tx_id IS NULL", before_ms, limit)


def prune_paid_builds(tx: Tx, before_ms: int, limit: int) -> int:
    """Forget what we paid the fee of, or had reserved it for, likewise."""
    return _prune(tx, "builds_by_date", "b.tx_id IS NOT NULL AND b.state <> 'out'", before_ms, limit)


def _prune(tx: Tx, road: str, which: str, before_ms: int, limit: int) -> int:
    pruned = 0
    for chain in values_of(tx, "SELECT min(chain) FROM builds WHERE chain > ?"):
        pruned += tx.execute(
            f"DELETE FROM builds WHERE message_hash IN (SELECT b.message_hash FROM builds b INDEXED BY {road}"
            f" WHERE b.chain = ? AND b.created_at_ms < ? AND {which}"
            " AND NOT EXISTS (SELECT 1 FROM payments p WHERE p.id = b.payment_id"
            " AND p.status IN ('requires_action', 'processing')) LIMIT ?)",
            (chain, before_ms, limit - pruned),
        ).rowcount
    return pruned
