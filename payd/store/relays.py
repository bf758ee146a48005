"""What the relayer owes and what it sent: jobs, their transactions, and every signed form of each."""

from __future__ import annotations

import sqlite3
from typing import TypeAlias

from payd.core.relay import RelayJob

Tx: TypeAlias = sqlite3.Connection


def insert_job(tx: Tx, payment_id: str, job: RelayJob, now_ms: int) -> None:
    """Owe a payment a call; in the transaction that commits its funds, and once for each payment."""
    tx.execute(
        "INSERT INTO relay_jobs (payment_id, chain, buyer, target, data, valid_until_s, state, created_at_ms)"
        " VALUES (?, ?, ?, ?, ?, ?, 'queued', ?)",
        (payment_id, job.chain, job.buyer, job.target, job.data, job.valid_until_s, now_ms),
    )
