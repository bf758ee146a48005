"""What is forgotten with age: deliveries, attempts, events, secrets, jobs, relays, submissions, the audit.

Each function does a little, for a transaction that holds nobody up. Payments stay, and their transfers. What
is of a time after `now_ms` was made while the clock was ahead: it stays, and keeps nothing behind it.

Source: DESIGN.md, "7. Events and webhooks"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from payd.core.status import OVER
from payd.store.payments import decode_payment, find_payment
from payd.store.relay_transactions import NO_JOB
from payd.store.rows import SEQ_MAX, prune_rows

Tx: TypeAlias = sqlite3.Connection

# As much of the file as may lie unused before it is given back: what is written next takes it again.
FREE_PAGES_KEPT: Final = 2048
# Given back in one transaction: each page is moved, which costs as much as writing it.
VACUUM_PAGES: Final = 128

# Payments on either side of a time that are asked what was forgotten: what changes late is among the newest.
LOOKED_AT: Final = 200

# Of a transaction `t`: it may still be mined, or its nonce is the last one that payd knows to be used. The
# next nonce follows on that, so that a node which lags cannot have one used twice.
_IN_USE: Final = (
    "(t.state = 'open' OR NOT EXISTS (SELECT 1 FROM relay_transactions n WHERE n.chain = t.chain"
    " AND n.sender = t.sender AND n.nonce > t.nonce AND n.state <> 'lost'))"
)

# Jobs that are forgotten and whose deliveries are not: from one job to the next, over what each counts.
_JOBS_GONE: Final = (
    "WITH RECURSIVE jobs(id) AS (SELECT min(job_id) FROM webhook_job_deliveries UNION ALL"
    " SELECT (SELECT min(job_id) FROM webhook_job_deliveries WHERE job_id > jobs.id) FROM jobs"
    " WHERE jobs.id IS NOT NULL)"
    " SELECT id FROM jobs WHERE id IS NOT NULL AND id NOT IN (SELECT id FROM webhook_jobs)"
)


class Pruned(NamedTuple):
    """How many rows went, and the cursor to go on from; None when the rest is younger."""

    rows: int
    after_seq: int | None


def prune_deliveries(tx: Tx, after_seq: int, before_ms: int, limit: int, now_ms: int = SEQ_MAX) -> Pruned:
    """Forget deliveries that were created before that, with their logs, among the `limit` next rows.

    One that is still to be sent stays, but for those of an endpoint that was on hold all that time; so does
    one that is counted by a replay job.
    """
    rows = tx.execute(
        "SELECT d.seq, d.id, d.created_at_ms,"
        " d.state = 'pending' AND NOT (p.state = 'paused' AND p.off_since_ms < ?)"
        " OR EXISTS (SELECT 1 FROM webhook_job_deliveries j WHERE j.delivery_id = d.id) FROM deliveries d"
        " JOIN endpoints p ON p.id = d.endpoint_id WHERE d.seq > ? ORDER BY d.seq LIMIT ?",
        (before_ms, after_seq, limit),
    ).fetchall()
    gone = [(seq, each) for seq, each, at_ms, stays in rows if at_ms < before_ms and not stays]
    tx.executemany("DELETE FROM attempts WHERE delivery_id = ?", [(each,) for _, each in gone])
    tx.executemany("DELETE FROM fault_uses WHERE delivery_id = ?", [(each,) for _, each in gone])
    tx.executemany("DELETE FROM deliveries WHERE seq = ?", [(seq,) for seq, _ in gone])
    return Pruned(len(gone), _go_on([(row[0], row[2]) for row in rows], before_ms, limit, now_ms))


def prune_events(tx: Tx, after_seq: int, before_ms: int, limit: int, now_ms: int = SEQ_MAX) -> Pruned:
    """Forget events from before that of which no delivery is left, among the `limit` next rows.

    Each account's go in their order: a listener whose cursor is at one that is left misses none behind it.
    The newest stays whatever its age: the next one is numbered after it, and listeners resume by numbers.
    """
    rows = tx.execute(
        "SELECT seq, account_id, created_at_ms,"
        " EXISTS (SELECT 1 FROM deliveries d WHERE d.event_seq = events.seq)"
        " OR seq = (SELECT max(seq) FROM events) FROM events WHERE seq > ? ORDER BY seq LIMIT ?",
        (after_seq, limit),
    ).fetchall()
    left = "SELECT 1 FROM events WHERE account_id = ? AND seq <= ? AND created_at_ms <= ? LIMIT 1"
    accounts = {row[1] for row in rows}
    keeping = {each for each in accounts if tx.execute(left, (each, after_seq, now_ms)).fetchone()}
    gone = []
    for seq, account_id, at_ms, stays in rows:
        if at_ms < before_ms and not stays and account_id not in keeping:
            gone.append((seq,))
        elif at_ms <= now_ms:
            keeping.add(account_id)
    tx.executemany("DELETE FROM events WHERE seq = ?", gone)
    return Pruned(len(gone), _go_on([(row[0], row[2]) for row in rows], before_ms, limit, now_ms))


def lacks_events(tx: Tx, account_id: str, after_ms: int) -> bool:
    """Whether events of the account that happened after that were forgotten.

    Its payments tell, which stay: the first that were made since then have not their first event, or the last
    from before changed since then and have not their last.
    """
    made_since = tx.execute(
        "SELECT 1 FROM (SELECT id FROM payments WHERE account_id = ? AND created_at_ms > ?"
        " ORDER BY created_at_ms, seq LIMIT ?) p"
        " WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.payment_id = p.id AND e.version = 0) LIMIT 1",
        (account_id, after_ms, LOOKED_AT),
    ).fetchone()
    if made_since is not None:
        return True
    older = tx.execute(
        "SELECT p.body FROM (SELECT id, version, body FROM payments WHERE account_id = ?"
        " AND created_at_ms <= ? ORDER BY created_at_ms DESC, seq DESC LIMIT ?) p"
        " WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.payment_id = p.id AND e.version = p.version)",
        (account_id, after_ms, LOOKED_AT),
    )
    return any(decode_payment(body).updated_at_ms > after_ms for (body,) in older)


def prune_jobs(tx: Tx, before_ms: int, limit: int) -> int:
    """Forget replay jobs that were started before that, `limit` rows at a time; returns how many rows.

    A job goes before what it counts: what is left of one, also by a crash, is never less than it says.
    """
    jobs = tx.execute(
        "DELETE FROM webhook_jobs WHERE id IN (SELECT id FROM webhook_jobs"
        " WHERE created_at_ms < ? AND state IN ('done', 'cancelled') LIMIT ?)",
        (before_ms, limit),
    ).rowcount
    if jobs:
        return jobs
    return tx.execute(
        "DELETE FROM webhook_job_deliveries WHERE (job_id, delivery_id) IN (SELECT job_id, delivery_id"
        f" FROM webhook_job_deliveries WHERE job_id IN ({_JOBS_GONE}) LIMIT ?)",
        (limit,),
    ).rowcount


def prune_secrets(tx: Tx, before_ms: int, limit: int) -> int:
    """Forget signing secrets that ran out before that; returns how many."""
    return prune_rows(tx, "endpoint_secrets", "seq", "expires_at_ms", before_ms, limit)


def prune_audit(tx: Tx, before_ms: int, limit: int) -> int:
    """Forget what was done before that, `limit` acts at a time; returns how many. Of a realm or the office.

    It is in the order of its making, but for a clock that was set back: those acts wait.
    """
    rows = tx.execute("SELECT seq, at_ms FROM audit ORDER BY seq LIMIT ?", (limit,)).fetchall()
    gone = [(seq,) for seq, at_ms in rows if at_ms < before_ms]
    tx.executemany("DELETE FROM audit WHERE seq = ?", gone)
    return len(gone)


def prune_endpoints(tx: Tx, before_ms: int, limit: int) -> int:
    """Forget endpoints that were deleted before that, with their secrets and faults; returns how many.

    One got nothing after its end: where the oldest delivery of all is younger, none of its own is left.
    """
    gone = tx.execute(
        "SELECT id FROM endpoints e WHERE state = 'deleted' AND updated_at_ms < ?"
        " AND updated_at_ms < coalesce((SELECT created_at_ms FROM deliveries ORDER BY seq LIMIT 1), 1 << 62)"
        " AND NOT EXISTS (SELECT 1 FROM webhook_jobs j WHERE j.endpoint_id = e.id) LIMIT ?",
        (before_ms, limit),
    ).fetchall()
    tx.executemany("DELETE FROM endpoint_secrets WHERE endpoint_id = ?", gone)
    tx.executemany(
        "DELETE FROM fault_uses WHERE fault_id IN (SELECT id FROM faults WHERE endpoint_id = ?)", gone
    )
    tx.executemany("DELETE FROM faults WHERE endpoint_id = ?", gone)
    tx.executemany("DELETE FROM endpoints WHERE id = ?", gone)
    return len(gone)


def prune_keys(tx: Tx, before_ms: int, limit: int) -> int:
    """Forget keys that were revoked before that; returns how many. The audit knew them as long."""
    return prune_rows(tx, "api_keys", "id", "revoked_at_ms", before_ms, limit)


def prune_apps(tx: Tx, before_ms: int, limit: int) -> int:
    """Forget app ids that were revoked before that; returns how many."""
    return prune_rows(tx, "apps", "id", "revoked_at_ms", before_ms, limit)


def prune_vacancies(tx: Tx, before_ms: int, limit: int) -> int:
    """Forget what had to be kept free until then; returns how many.

    Long after that: where there is one, a new destination is news to the operator.
    """
    return prune_rows(tx, "vacancies", "merchant_id, asset_key", "until_ms", before_ms, limit)


def prune_relays(tx: Tx, after_seq: int, before_ms: int, limit: int, now_ms: int = SEQ_MAX) -> Pruned:
    """Forget what the relayer did for payments that were over before that, among the `limit` next jobs.

    What was signed is the proof of what gas was spent on; after so long nobody asks, and no reorg goes back
    that far.
    """
    rows = tx.execute(
        "SELECT j.seq, j.created_at_ms, j.payment_id, j.state IN ('queued', 'sent') OR EXISTS (SELECT 1 FROM"
        f" relay_transactions t WHERE t.job_seq = j.seq AND {_IN_USE}) FROM relay_jobs j"
        " WHERE j.seq > ? ORDER BY j.seq LIMIT ?",
        (after_seq, limit),
    ).fetchall()
    old = [row for row in rows if row[1] < before_ms]
    gone = [seq for seq, _, payment_id, stays in old if not stays and _was_over(tx, payment_id, before_ms)]
    for seq in gone:
        _forget_transactions(tx, [row[0] for row in _transactions_of(tx, seq)])
        tx.execute("DELETE FROM relay_jobs WHERE seq = ?", (seq,))
    return Pruned(len(gone), _go_on([row[:2] for row in rows], before_ms, limit, now_ms))


def prune_submissions(tx: Tx, after_seq: int, before_ms: int, limit: int, now_ms: int = SEQ_MAX) -> Pruned:
    """Forget what was brought to a chain as it was, likewise, among the `limit` next ones."""
    rows = tx.execute(
        "SELECT seq, created_at_ms, payment_id, state = 'open' FROM submissions"
        " WHERE seq > ? ORDER BY seq LIMIT ?",
        (after_seq, limit),
    ).fetchall()
    old = [row for row in rows if row[1] < before_ms]
    gone = [(seq,) for seq, _, payment_id, stays in old if not stays and _was_over(tx, payment_id, before_ms)]
    tx.executemany("DELETE FROM submissions WHERE seq = ?", gone)
    return Pruned(len(gone), _go_on([row[:2] for row in rows], before_ms, limit, now_ms))


def prune_fillers(tx: Tx, before_ms: int, limit: int) -> int:
    """Forget transactions of no job that were made before that; returns how many."""
    rows = tx.execute(
        "SELECT t.seq FROM relay_transactions t WHERE t.job_seq = ? AND t.created_at_ms < ?"
        f" AND NOT {_IN_USE} LIMIT ?",
        (NO_JOB, before_ms, limit),
    ).fetchall()
    _forget_transactions(tx, [seq for (seq,) in rows])
    return len(rows)


def shrink(tx: Tx) -> bool:
    """Give a few unused pages of the file back to the system. Returns whether there are more to give.

    A file that was made before its pages could be given back keeps them for what is written next.
    """
    (free,) = tx.execute("PRAGMA freelist_count").fetchone()
    (mode,) = tx.execute("PRAGMA auto_vacuum").fetchone()
    spare = free - FREE_PAGES_KEPT
    if mode == 0 or spare <= 0:
        return False
    for _ in range(min(spare, VACUUM_PAGES)):
        # Page by page: a step of this pragma frees one, and the driver takes one step of what has no columns.
        tx.execute("PRAGMA incremental_vacuum(1)")
    return bool(spare > VACUUM_PAGES)


def _go_on(rows: Sequence[tuple[int, int]], before_ms: int, limit: int, now_ms: int) -> int | None:
    """The cursor behind a page of rows, as `(seq, at_ms)` in the order of their making, or None at the end.

    A row that is young ends it; one of a time that has not come yet may be of any.
    """
    is_over = len(rows) < limit or any(before_ms <= at_ms <= now_ms for _, at_ms in rows)
    return None if is_over else rows[-1][0]


def _was_over(tx: Tx, payment_id: str, before_ms: int) -> bool:
    """Whether nothing has happened to a payment since then, and nothing more is to come."""
    payment = find_payment(tx, payment_id)
    if payment is None or payment.updated_at_ms >= before_ms:
        return False
    return payment.settled is not None or payment.status in OVER


def _transactions_of(tx: Tx, job_seq: int) -> list[Any]:
    return tx.execute("SELECT seq FROM relay_transactions WHERE job_seq = ?", (job_seq,)).fetchall()


def _forget_transactions(tx: Tx, seqs: list[int]) -> None:
    tx.executemany("DELETE FROM relay_attempts WHERE transaction_seq = ?", [(seq,) for seq in seqs])
    tx.executemany("DELETE FROM relay_transactions WHERE seq = ?", [(seq,) for seq in seqs])
