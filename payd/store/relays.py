"""What the relayer owes: jobs, from the commitment that made them to the chain, and what a reorg takes back.

A job is `queued` until a transaction for it is stored, then `sent`. It has `landed` once the chain has
carried it out, by whoever's hand, and is `dead` once it is given up. What was sent is in
`relay_transactions.py`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from payd.core.relay import RETRY_LAST_MS, RelayJob
from payd.store.rows import values_of

Tx: TypeAlias = sqlite3.Connection

JobState = Literal["queued", "sent", "landed", "dead"]

# Of the jobs that have landed, new ones alone are in doubt: so many are looked at.
BROUGHT_LOOK_MAX: Final = 1000

_COLUMNS: Final = (
    "seq, payment_id, chain, buyer, target, data, valid_until_s, state, left_us, tries, reason, created_at_ms"
)
# Of a job: no transaction for it is open.
_NOT_OPEN: Final = (
    "NOT EXISTS (SELECT 1 FROM relay_transactions WHERE job_seq = relay_jobs.seq AND state = 'open')"
)


class Job(msgspec.Struct, frozen=True):
    """A stored job.

    Attributes:
        left_us: Whether its bytes were ever sent, or were about to be: it may land by anyone's hand.
        tries: How often the chain refused or reverted it.
        reason: Why it waits or is dead, or that somebody else brought it there; for people.
    """

    seq: int
    payment_id: str
    chain: str
    buyer: str
    target: str
    data: bytes
    valid_until_s: int
    state: JobState
    left_us: bool
    tries: int
    reason: str | None
    created_at_ms: int


def insert_job(tx: Tx, payment_id: str, job: RelayJob, now_ms: int) -> None:
    """Owe a payment a call; in the transaction that commits its funds, and once for each payment."""
    tx.execute(
        "INSERT INTO relay_jobs (payment_id, chain, buyer, target, data, valid_until_s, state, created_at_ms)"
        " VALUES (?, ?, ?, ?, ?, ?, 'queued', ?)",
        (payment_id, job.chain, job.buyer, job.target, job.data, job.valid_until_s, now_ms),
    )


def find_job(tx: Tx, payment_id: str) -> Job | None:
    """What the relayer owes a payment, or owed it."""
    row = tx.execute(f"SELECT {_COLUMNS} FROM relay_jobs WHERE payment_id = ?", (payment_id,)).fetchone()
    return None if row is None else _job(row)


def job_of_seq(tx: Tx, seq: int) -> Job | None:
    """A job by its number."""
    row = tx.execute(f"SELECT {_COLUMNS} FROM relay_jobs WHERE seq = ?", (seq,)).fetchone()
    return None if row is None else _job(row)


def due_jobs(tx: Tx, chain: str, now_ms: int, limit: int) -> list[Job]:
    """The queued jobs whose time to be tried has come, oldest first.

    One that was put off further than any is, and does not wait for its end, was so by a wall clock that was
    ahead, and set back since.
    """
    rows = tx.execute(
        f"SELECT {_COLUMNS} FROM relay_jobs WHERE chain = ? AND state = 'queued' AND (next_try_at_ms <= ?"
        " OR (next_try_at_ms > ? AND next_try_at_ms <> valid_until_s * 1000)) ORDER BY seq LIMIT ?",
        (chain, now_ms, now_ms + RETRY_LAST_MS, limit),
    )
    return [_job(row) for row in rows]


def late_jobs(tx: Tx, chain: str, valid_until_s: int, limit: int) -> list[Job]:
    """The queued jobs that the chain refuses from that time of its own on, or from an earlier one."""
    rows = tx.execute(
        f"SELECT {_COLUMNS} FROM relay_jobs WHERE chain = ? AND state = 'queued' AND valid_until_s <= ?"
        " ORDER BY seq LIMIT ?",
        (chain, valid_until_s, limit),
    )
    return [_job(row) for row in rows]


def count_queued(tx: Tx, chain: str, at_most: int) -> int:
    """How many jobs are queued, counted up to a bound."""
    counted = "SELECT 1 FROM relay_jobs WHERE chain = ? AND state = 'queued' LIMIT ?"
    return int(tx.execute(f"SELECT COUNT(*) FROM ({counted})", (chain, at_most)).fetchone()[0])


def oldest_queued_ms(tx: Tx, chain: str) -> int | None:
    """Since when the job that was queued first waits."""
    row = tx.execute(
        "SELECT created_at_ms FROM relay_jobs WHERE chain = ? AND state = 'queued' ORDER BY seq LIMIT 1",
        (chain,),
    ).fetchone()
    return None if row is None else int(row[0])


def count_of_buyer(tx: Tx, chain: str, buyer: str, since_ms: int) -> int:
    """How many jobs of one account came since then."""
    row = tx.execute(
        "SELECT COUNT(*) FROM relay_jobs WHERE chain = ? AND buyer = ? AND created_at_ms >= ?",
        (chain, buyer, since_ms),
    ).fetchone()
    return int(row[0])


def put_off_job(tx: Tx, seq: int, until_ms: int, reason: str, *, refused: bool) -> None:
    """Try a queued job again later; `refused`: the chain itself said no, which is counted."""
    tx.execute(
        "UPDATE relay_jobs SET next_try_at_ms = ?, reason = ?, tries = tries + ?"
        " WHERE seq = ? AND state = 'queued'",
        (until_ms, reason, refused, seq),
    )


def land_job(tx: Tx, seq: int, brought_by: str) -> bool:
    """Note that somebody else brought a queued job to the chain. Returns whether it was queued."""
    return _end_queued(tx, seq, "landed", brought_by)


def unshown_jobs(tx: Tx, chain: str, valid_after_s: int) -> list[int]:
    """The numbers of jobs that landed by the word of nodes, and of which the chain shows nothing yet.

    Those whose payments still wait for it, and that the chain takes after that time of its own. What we
    brought ourselves is shown by its block, once that was read.
    """
    own = "SELECT MAX(block_number) FROM relay_transactions WHERE job_seq = job.seq AND status = 1"
    read = "SELECT number FROM chain_cursors WHERE chain = ? AND kind = 'head'"
    newest = (
        "SELECT seq, payment_id, valid_until_s, reason FROM relay_jobs"
        " WHERE chain = ? AND state = 'landed' ORDER BY seq DESC LIMIT ?"
    )
    rows = tx.execute(
        f"SELECT job.seq FROM ({newest}) AS job JOIN payments ON payments.id = job.payment_id"
        f" WHERE (job.reason IS NOT NULL OR ({own}) <= ({read}))"
        " AND job.valid_until_s > ? AND payments.status = 'processing'"
        " AND NOT EXISTS (SELECT 1 FROM transfers WHERE transfers.payment_id = job.payment_id"
        " AND kind = 'matched' AND block_hash IS NOT NULL)",
        (chain, BROUGHT_LOOK_MAX, chain, valid_after_s),
    )
    return [int(row[0]) for row in rows]


def doubt_job(tx: Tx, seq: int) -> bool:
    """Queue a job anew that is said to have landed, unless a transaction for it is open.

    Returns:
        Whether it was.
    """
    changed = tx.execute(
        "UPDATE relay_jobs SET state = 'queued', next_try_at_ms = 0 WHERE seq = ? AND state = 'landed'"
        f" AND {_NOT_OPEN}",
        (seq,),
    )
    return changed.rowcount == 1


def kill_job(tx: Tx, seq: int, reason: str) -> bool:
    """Give a queued job up. Returns whether it was queued."""
    return _end_queued(tx, seq, "dead", reason)


def untold_deaths(tx: Tx, chain: str, limit: int) -> list[str]:
    """The processing payments whose jobs are dead without ever having left: nobody has told them so far."""
    rows = tx.execute(
        "SELECT relay_jobs.payment_id FROM relay_jobs JOIN payments ON payments.id = relay_jobs.payment_id"
        " WHERE relay_jobs.chain = ? AND relay_jobs.state = 'dead' AND relay_jobs.left_us = 0"
        " AND payments.status = 'processing' ORDER BY relay_jobs.seq DESC LIMIT ?",
        (chain, limit),
    )
    return [str(row[0]) for row in rows]


def requeue_job(tx: Tx, job_seq: int, retry_at_ms: int, reason: str) -> bool:
    """Queue a sent job anew, unless another transaction for it is open. Returns whether it was."""
    changed = tx.execute(
        "UPDATE relay_jobs SET state = 'queued', next_try_at_ms = ?, reason = ?"
        f" WHERE seq = ? AND state = 'sent' AND {_NOT_OPEN}",
        (retry_at_ms, reason, job_seq),
    )
    return changed.rowcount == 1


def reopen_above(tx: Tx, chain: str, number: int) -> int:
    """Take back what was mined in the blocks above: its transactions are open again, and sent again.

    So are the jobs that others had brought to the chain: their blocks are not known, and asking costs little.

    Returns:
        How many transactions.
    """
    mined: list[tuple[int, int]] = []
    for sender in _senders(tx, chain):
        # Of one sender, a higher nonce is never mined in a lower block.
        rows = tx.execute(
            "SELECT seq, job_seq, block_number FROM relay_transactions"
            " WHERE chain = ? AND sender = ? AND state = 'mined' ORDER BY nonce DESC",
            (chain, sender),
        )
        for seq, job_seq, block_number in rows:
            if block_number <= number:
                break
            mined.append((seq, job_seq))
        rows.close()
    _reopen(tx, mined)
    _requeue_brought(tx, chain)
    return len(mined)


def is_over_from(tx: Tx, chain: str, sender: str, count: int) -> bool:
    """Whether any is over whose nonce the chain has not counted, so that it can not be."""
    query = (
        "SELECT 1 FROM relay_transactions"
        " WHERE chain = ? AND sender = ? AND nonce >= ? AND state <> 'open' LIMIT 1"
    )
    return tx.execute(query, (chain, sender, count)).fetchone() is not None


def reopen_from(tx: Tx, chain: str, sender: str, count: int, limit: int) -> int:
    """Take back what does not hold of nonces that the chain has not counted; the lowest first.

    Returns:
        How many transactions.
    """
    rows = tx.execute(
        "SELECT seq, job_seq FROM relay_transactions"
        " WHERE chain = ? AND sender = ? AND nonce >= ? AND state <> 'open' ORDER BY nonce LIMIT ?",
        (chain, sender, count, limit),
    ).fetchall()
    _reopen(tx, rows)
    return len(rows)


def abandon_others(tx: Tx, chain: str, sender: str) -> int:
    """Give up what is open of another key, which is not at hand any more; its jobs are queued anew.

    It may be mined all the same: then the chain refuses the second call, and the job has landed.

    Returns:
        How many transactions.
    """
    rows = tx.execute(
        "UPDATE relay_transactions SET state = 'lost' WHERE chain = ? AND sender <> ? AND state = 'open'"
        " RETURNING job_seq",
        (chain, sender),
    ).fetchall()
    for (job_seq,) in rows:
        requeue_job(tx, job_seq, 0, "Its key was changed.")
    return len(rows)


def others_are_open(tx: Tx, chain: str, sender: str) -> bool:
    """Whether anything is open of another key."""
    query = "SELECT 1 FROM relay_transactions WHERE chain = ? AND sender <> ? AND state = 'open' LIMIT 1"
    return tx.execute(query, (chain, sender)).fetchone() is not None


def _reopen(tx: Tx, transactions: Sequence[tuple[int, int]]) -> None:
    for seq, _ in transactions:
        tx.execute(
            "UPDATE relay_transactions SET state = 'open', block_number = NULL, status = NULL, spent = NULL"
            " WHERE seq = ?",
            (seq,),
        )
        tx.execute("UPDATE relay_attempts SET sent_at_ms = NULL WHERE transaction_seq = ?", (seq,))
    for _, job_seq in transactions:
        tx.execute(
            "UPDATE relay_jobs SET state = 'sent', reason = NULL WHERE seq = ? AND state <> 'dead'"
            " AND NOT EXISTS (SELECT 1 FROM relay_transactions"
            " WHERE job_seq = relay_jobs.seq AND state = 'mined' AND status = 1)",
            (job_seq,),
        )


def _requeue_brought(tx: Tx, chain: str) -> None:
    newest = "SELECT seq FROM relay_jobs WHERE chain = ? AND state = 'landed' ORDER BY seq DESC LIMIT ?"
    tx.execute(
        "UPDATE relay_jobs SET state = 'queued', next_try_at_ms = 0, reason = NULL"
        f" WHERE seq IN ({newest}) AND reason IS NOT NULL AND {_NOT_OPEN}",
        (chain, BROUGHT_LOOK_MAX),
    )


def _end_queued(tx: Tx, seq: int, state: JobState, reason: str) -> bool:
    changed = tx.execute(
        "UPDATE relay_jobs SET state = ?, reason = ? WHERE seq = ? AND state = 'queued'",
        (state, reason, seq),
    )
    return changed.rowcount == 1


def _senders(tx: Tx, chain: str) -> list[str]:
    """The keys that ever sent on a chain: one, or two after a change."""
    return values_of(tx, "SELECT min(sender) FROM relay_transactions WHERE chain = ? AND sender > ?", chain)


def _job(row: tuple[object, ...]) -> Job:
    found = Job(*row)  # type: ignore[arg-type]
    return msgspec.structs.replace(found, left_us=bool(found.left_us))
