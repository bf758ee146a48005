"""What the relayer sent: transactions, and every signed form of each, stored before it was sent.

A transaction is `open` until its nonce is used: by one of its forms, then it is `mined`, or by something
else, then it is `lost`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

from payd.core.gas import Fees
from payd.store.relays import Job, requeue_job

Tx: TypeAlias = sqlite3.Connection

# The number of no job: of a transaction that only uses a nonce.
NO_JOB: Final = 0
# Sums are made in units of a billion: SQLite's integers end at nine whole coins of 18 decimals.
_GIGA: Final = 10**9

REVERTED: Final = "It reverted on the chain."


class Attempt(msgspec.Struct, frozen=True):
    """One signed form of a transaction. `sent_at_ms`: when a node took it first; None: none has."""

    hash: str
    raw: bytes
    fees: Fees
    made_at_ms: int
    sent_at_ms: int | None = None


class OpenTransaction(msgspec.Struct, frozen=True):
    """A nonce that waits to be used, with every form that was signed for it, the cheapest first."""

    seq: int
    job_seq: int
    nonce: int
    gas: int
    attempts: tuple[Attempt, ...]

    @property
    def newest(self) -> Attempt:
        """The form that offers most; of several, the one that was signed last."""
        return self.attempts[-1]

    @property
    def is_out(self) -> bool:
        """Whether a node has taken any form of it."""
        return any(attempt.sent_at_ms is not None for attempt in self.attempts)

    @property
    def reserved(self) -> int:
        """Smallest units of the native coin that it may cost at most."""
        return self.gas * self.newest.fees.max_fee


class Mined(msgspec.Struct, frozen=True):
    """How a transaction ended. `spent` in smallest units of the native coin."""

    block_number: int
    status: int
    spent: int


def open_transactions(tx: Tx, chain: str, sender: str, limit: int) -> list[OpenTransaction]:
    """The transactions that are not known to be mined or lost, the lowest nonce first."""
    rows = tx.execute(
        "SELECT seq, job_seq, nonce, gas FROM relay_transactions"
        " WHERE chain = ? AND sender = ? AND state = 'open' ORDER BY nonce LIMIT ?",
        (chain, sender, limit),
    ).fetchall()
    return [
        OpenTransaction(seq, job_seq, nonce, gas, _attempts(tx, seq)) for seq, job_seq, nonce, gas in rows
    ]


def next_nonce(tx: Tx, chain: str, sender: str, count: int) -> int:
    """The nonce to take next, where the chain has counted so many: never one that may still be used."""
    row = tx.execute(
        "SELECT nonce FROM relay_transactions WHERE chain = ? AND sender = ? AND state <> 'lost'"
        " ORDER BY nonce DESC LIMIT 1",
        (chain, sender),
    ).fetchone()
    return count if row is None else max(count, int(row[0]) + 1)


def add_transaction(
    tx: Tx, job: Job, sender: str, nonce: int, gas: int, attempt: Attempt, now_ms: int
) -> OpenTransaction | None:
    """Store a signed transaction for a queued job, before it is sent.

    Returns:
        None when the job is not queued any more, or the nonce is taken.
    """
    if next_nonce(tx, job.chain, sender, nonce) != nonce:
        return None
    taken = tx.execute(
        "UPDATE relay_jobs SET state = 'sent', left_us = 1, reason = NULL WHERE seq = ? AND state = 'queued'",
        (job.seq,),
    )
    if taken.rowcount != 1:
        return None
    return _insert(tx, job.seq, job.chain, sender, nonce, gas, attempt, now_ms)


def add_filler(
    tx: Tx, chain: str, sender: str, nonce: int, gas: int, attempt: Attempt, now_ms: int
) -> OpenTransaction | None:
    """Store a transaction that belongs to no job, before it is sent: it uses a nonce, so that others can be.

    Returns:
        None when the nonce is taken.
    """
    taken = tx.execute(
        "SELECT 1 FROM relay_transactions WHERE chain = ? AND sender = ? AND nonce = ?",
        (chain, sender, nonce),
    ).fetchone()
    return None if taken else _insert(tx, NO_JOB, chain, sender, nonce, gas, attempt, now_ms)


def add_attempt(tx: Tx, transaction_seq: int, attempt: Attempt, gas: int) -> bool:
    """Store another form of an open transaction, and the gas that it allows for, before it is sent.

    Returns:
        Whether it was open.
    """
    changed = tx.execute(
        "UPDATE relay_transactions SET gas = ? WHERE seq = ? AND state = 'open'", (gas, transaction_seq)
    )
    if changed.rowcount != 1:
        return False
    _insert_attempt(tx, transaction_seq, attempt)
    return True


def note_sent(tx: Tx, hashes: Iterable[str], now_ms: int) -> None:
    """A node has taken these forms; the first time counts."""
    for one in hashes:
        tx.execute(
            "UPDATE relay_attempts SET sent_at_ms = ? WHERE hash = ? AND sent_at_ms IS NULL", (now_ms, one)
        )


def note_mined(
    tx: Tx,
    transaction: OpenTransaction,
    mined: Mined,
    *,
    landed: str | None,
    retry_at_ms: int,
    reason: str = REVERTED,
) -> bool:
    """Note that an open transaction was mined, and what that means for its job.

    Args:
        tx: The step's transaction.
        transaction: Which.
        mined: How it ended; of a form that does nothing for the job, as if it had reverted.
        landed: Where it reverted: who had brought the job to the chain before; None: nobody has.
        retry_at_ms: When the job is tried again, where nobody has.
        reason: Why it has to be.

    Returns:
        Whether it was open.
    """
    changed = tx.execute(
        "UPDATE relay_transactions SET state = 'mined', block_number = ?, status = ?, spent = ?"
        " WHERE seq = ? AND state = 'open'",
        (mined.block_number, mined.status, str(mined.spent), transaction.seq),
    )
    if changed.rowcount != 1:
        return False
    if mined.status == 1 or landed is not None:
        tx.execute(
            "UPDATE relay_jobs SET state = 'landed', reason = ? WHERE seq = ?", (landed, transaction.job_seq)
        )
    elif requeue_job(tx, transaction.job_seq, retry_at_ms, reason):
        tx.execute("UPDATE relay_jobs SET tries = tries + 1 WHERE seq = ?", (transaction.job_seq,))
    return True


def count_reverts(tx: Tx, job_seq: int) -> int:
    """How many transactions for a job the chain has mined in vain."""
    query = "SELECT COUNT(*) FROM relay_transactions WHERE job_seq = ? AND state = 'mined' AND status = 0"
    return int(tx.execute(query, (job_seq,)).fetchone()[0])


def note_lost(tx: Tx, transaction: OpenTransaction, now_ms: int) -> bool:
    """Note that something else used the nonce: the job takes another. Returns whether it was open."""
    changed = tx.execute(
        "UPDATE relay_transactions SET state = 'lost' WHERE seq = ? AND state = 'open'", (transaction.seq,)
    )
    if changed.rowcount == 1:
        requeue_job(tx, transaction.job_seq, now_ms, "Another transaction used its nonce.")
    return changed.rowcount == 1


def spent_since(tx: Tx, chain: str, since_ms: int) -> int:
    """Smallest units of the native coin that the transactions since then have cost, rounded up."""
    row = tx.execute(
        "SELECT SUM(CAST(spent AS INTEGER) / ? + 1) FROM relay_transactions"
        " WHERE chain = ? AND created_at_ms >= ? AND spent IS NOT NULL",
        (_GIGA, chain, since_ms),
    ).fetchone()
    return int(row[0] or 0) * _GIGA


def _insert(
    tx: Tx, job_seq: int, chain: str, sender: str, nonce: int, gas: int, attempt: Attempt, now_ms: int
) -> OpenTransaction:
    seq = tx.execute(
        "INSERT INTO relay_transactions (job_seq, chain, sender, nonce, gas, state, created_at_ms)"
        " VALUES (?, ?, ?, ?, ?, 'open', ?)",
        (job_seq, chain, sender, nonce, gas, now_ms),
    ).lastrowid
    assert seq is not None, "an INSERT gives a row its number"
    _insert_attempt(tx, seq, attempt)
    return OpenTransaction(seq, job_seq, nonce, gas, (attempt,))


def _insert_attempt(tx: Tx, transaction_seq: int, attempt: Attempt) -> None:
    tx.execute(
        "INSERT INTO relay_attempts (hash, transaction_seq, raw, max_fee, tip, made_at_ms)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (
            attempt.hash,
            transaction_seq,
            attempt.raw,
            str(attempt.fees.max_fee),
            str(attempt.fees.tip),
            attempt.made_at_ms,
        ),
    )


def _attempts(tx: Tx, transaction_seq: int) -> tuple[Attempt, ...]:
    rows = tx.execute(
        "SELECT hash, raw, max_fee, tip, made_at_ms, sent_at_ms FROM relay_attempts"
        " WHERE transaction_seq = ?",
        (transaction_seq,),
    )
    found = [
        Attempt(one, raw, Fees(int(max_fee), int(tip)), made_at_ms, sent_at_ms)
        for one, raw, max_fee, tip, made_at_ms, sent_at_ms in rows
    ]
    return tuple(sorted(found, key=lambda attempt: (attempt.fees.max_fee, attempt.made_at_ms)))
