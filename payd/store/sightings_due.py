"""Which transfers a chain has to be looked at for, now that it has gone on, and whether it is worth hurrying.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple, TypeAlias

from payd.core.status import OVER

Tx: TypeAlias = sqlite3.Connection

_OVER: Final = ", ".join(f"'{status.value}'" for status in OVER)


class Due(NamedTuple):
    """A payment whose transfer is to be looked at; `over`: it ended otherwise, and will not be paid by it."""

    seq: int
    payment_id: str
    over: bool


def due_sightings(
    tx: Tx, chain: str, head: int, finalized: int | None, after_seq: int, limit: int
) -> list[Due]:
    """Transfers whose block is deep enough, or final, for them to be looked at; in the order of `seq`.

    And those whose payments ended otherwise, wherever they are.
    """
    rows = tx.execute(
        "SELECT t.seq, t.payment_id, p.status FROM transfers t JOIN payments p ON p.id = t.payment_id"
        " WHERE t.chain = ? AND t.awaits IS NOT NULL AND t.seq > ? AND (t.block_hash IS NOT NULL"
        " AND (t.awaits = 'depth' AND t.look_at <= ? OR t.awaits = 'final' AND t.block_number <= ?)"
        f" OR p.status IN ({_OVER})) ORDER BY t.seq LIMIT ?",
        (chain, after_seq, head, -1 if finalized is None else finalized, limit),
    )
    return [Due(seq, payment_id, status in OVER) for seq, payment_id, status in rows]


def give_up(tx: Tx, chain: str) -> int:
    """Let go of transfers that were to pay for payments which then ended otherwise; how many."""
    return tx.execute(
        "UPDATE transfers SET kind = 'late', awaits = NULL, look_at = NULL WHERE chain = ?"
        " AND awaits IS NOT NULL AND payment_id IN"
        " (SELECT p.id FROM payments p WHERE p.id = transfers.payment_id"
        f" AND p.status IN ({_OVER}))",
        (chain,),
    ).rowcount


def is_busy(tx: Tx, chain: str, now_ms: int) -> bool:
    """Whether something may happen on the chain soon: a window is open, a transfer or the relayer waits.

    What a reorg took from a payment that has succeeded may never come again, and is not waited for.
    """
    row = tx.execute(
        "SELECT EXISTS (SELECT 1 FROM watches WHERE chain = :chain AND until_ms >= :now_ms)"
        " OR EXISTS (SELECT 1 FROM transfers t JOIN payments p ON p.id = t.payment_id WHERE t.chain = :chain"
        " AND t.awaits IS NOT NULL AND (t.block_hash IS NOT NULL OR p.status <> 'succeeded'))"
        " OR EXISTS (SELECT 1 FROM relay_jobs WHERE chain = :chain AND state IN ('queued', 'sent'))"
        " OR EXISTS (SELECT 1 FROM submissions WHERE chain = :chain AND state = 'open')",
        {"chain": chain, "now_ms": now_ms},
    ).fetchone()
    return bool(row[0])
