"""Replay jobs: durable, resumed after a restart, and never sending one delivery twice for one job."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

from payd.core.endpoint import EndpointState, wants
from payd.core.errors import EndpointDisabled, RateLimited
from payd.store.deliveries import REPLAY, insert_delivery, requeue
from payd.store.endpoints import endpoint_of_id, get_endpoint
from payd.store.events import cursor_before

Tx: TypeAlias = sqlite3.Connection
Kind: TypeAlias = Literal["recover", "replay-missing"]

# Rows looked at in one step: short enough for the payments that wait to be stored behind it.
BATCH_ROWS_MAX: Final = 100
# More jobs at once would only look at the same rows again.
RUNNING_MAX: Final = 10
# By how much a wall clock that is set back may have put events out of the order of their times.
SET_BACK_MAX_MS: Final = 2 * 3_600_000


class JobRow(NamedTuple):
    """A job with its counts: found, put in the queue, delivered, and ended otherwise."""

    id: str
    kind: str
    since_ms: int
    state: str
    matched: int
    queued: int
    done: int
    failed: int


def start_job(tx: Tx, *, job_id: str, account_id: str, kind: Kind, since_ms: int, now_ms: int) -> JobRow:
    """Store a job over everything from `since_ms` until now.

    Raises:
        NotFound: The account has no endpoint.
        EndpointDisabled: Enable it first.
        RateLimited: `RUNNING_MAX` jobs are at work.
    """
    endpoint = get_endpoint(tx, account_id)
    if endpoint.state is not EndpointState.ENABLED:
        raise EndpointDisabled("The webhook endpoint is disabled; POST /v1/webhooks/endpoint/enable first.")
    (running,) = tx.execute(
        "SELECT count(*) FROM webhook_jobs WHERE endpoint_id = ? AND state = 'running'", (endpoint.id,)
    ).fetchone()
    if running >= RUNNING_MAX:
        raise RateLimited(
            f"{running} replay jobs are running; wait for one to end.", details={"retryAfterS": 10}
        )
    # A delivery may fail for good long after its event: `recover` looks at all that failed.
    cursor_seq = 0 if kind == "recover" else cursor_before(tx, account_id, since_ms - SET_BACK_MAX_MS)
    tx.execute(
        "INSERT INTO webhook_jobs"
        " (id, account_id, endpoint_id, kind, since_ms, until_ms, state, cursor_seq, created_at_ms)"
        " VALUES (?, ?, ?, ?, ?, ?, 'running', ?, ?)",
        (job_id, account_id, endpoint.id, kind, since_ms, now_ms, cursor_seq, now_ms),
    )
    return JobRow(job_id, kind, since_ms, "running", 0, 0, 0, 0)


def find_job(tx: Tx, account_id: str, job_id: str) -> JobRow | None:
    """A job and its counts. It runs until everything that it queued has ended."""
    row = tx.execute(
        "SELECT id, kind, since_ms, state, matched, queued FROM webhook_jobs WHERE id = ? AND account_id = ?",
        (job_id, account_id),
    ).fetchone()
    if row is None:
        return None
    job_id, kind, since_ms, state, matched, queued = row
    done, failed, pending = tx.execute(
        "SELECT coalesce(sum(d.state = 'succeeded'), 0),"
        " coalesce(sum(d.state IN ('failed', 'cancelled')), 0), coalesce(sum(d.state = 'pending'), 0)"
        " FROM webhook_job_deliveries j JOIN deliveries d ON d.id = j.delivery_id WHERE j.job_id = ?",
        (job_id,),
    ).fetchone()
    if state == "done" and pending:
        state = "running"
    return JobRow(job_id, kind, since_ms, state, matched, queued, done, failed)


def running_jobs(tx: Tx) -> list[tuple[str, str]]:
    """Every job that has rows left to look at, with its endpoint."""
    return list(tx.execute("SELECT id, endpoint_id FROM webhook_jobs WHERE state = 'running' ORDER BY id"))


def advance_job(tx: Tx, job_id: str, now_ms: int, fresh_id: Callable[[str], str]) -> bool:
    """Do the next batch of a job.

    Args:
        tx: The step's transaction: cursor and what the batch queued are stored together.
        job_id: Which.
        now_ms: The realm's time.
        fresh_id: Makes an id for a prefix, for deliveries that were never owed before.

    Returns:
        Whether there is more to do.
    """
    row = tx.execute(
        "SELECT kind, account_id, endpoint_id, since_ms, until_ms, cursor_seq FROM webhook_jobs"
        " WHERE id = ? AND state = 'running'",
        (job_id,),
    ).fetchone()
    if row is None:
        return False
    job = _Job(job_id, *row)
    page = _failed_page(tx, job) if job.kind == "recover" else _missing_page(tx, job, now_ms, fresh_id)
    for delivery_id in page.deliveries:
        requeue(tx, delivery_id, now_ms)
    tx.executemany(
        "INSERT INTO webhook_job_deliveries (job_id, delivery_id) VALUES (?, ?)",
        [(job_id, delivery_id) for delivery_id in page.deliveries],
    )
    tx.execute(
        "UPDATE webhook_jobs SET cursor_seq = ?, matched = matched + ?, queued = queued + ?, state = ?"
        " WHERE id = ?",
        (
            page.cursor_seq,
            len(page.deliveries),
            len(page.deliveries),
            "running" if page.more else "done",
            job_id,
        ),
    )
    return page.more


class _Job(NamedTuple):
    id: str
    kind: str
    account_id: str
    endpoint_id: str
    since_ms: int
    until_ms: int
    cursor_seq: int


class _Page(NamedTuple):
    deliveries: list[str]
    cursor_seq: int
    more: bool


def _failed_page(tx: Tx, job: _Job) -> _Page:
    """Deliveries that failed for good within the job's time, whenever their event was."""
    rows = tx.execute(
        "SELECT d.seq, d.id, d.kind = 'event' AND d.endpoint_id = ? AND coalesce("
        "  (SELECT a.at_ms + a.duration_ms FROM attempts a WHERE a.delivery_id = d.id"
        "   ORDER BY a.seq DESC LIMIT 1), d.created_at_ms) >= ?"
        " FROM deliveries d"
        " WHERE d.account_id = ? AND d.state = 'failed' AND d.seq > ? AND d.created_at_ms <= ?"
        " ORDER BY d.seq LIMIT ?",
        (job.endpoint_id, job.since_ms, job.account_id, job.cursor_seq, job.until_ms, BATCH_ROWS_MAX),
    ).fetchall()
    return _Page([row[1] for row in rows if row[2]], _last_seq(rows, job), len(rows) == BATCH_ROWS_MAX)


def _missing_page(tx: Tx, job: _Job, now_ms: int, fresh_id: Callable[[str], str]) -> _Page:
    """Events that the endpoint wants and never received: not owed then, or cancelled when it was disabled."""
    endpoint = endpoint_of_id(tx, job.endpoint_id)
    assert endpoint is not None, "endpoints are marked deleted, never removed"
    rows = tx.execute(
        "SELECT e.seq, e.type, e.payment_id, e.created_at_ms >= ?, d.id, d.state FROM events e"
        " LEFT JOIN deliveries d ON d.event_seq = e.seq AND d.endpoint_id = ?"
        " WHERE e.account_id = ? AND e.seq > ? AND e.created_at_ms <= ? ORDER BY e.seq LIMIT ?",
        (job.since_ms, job.endpoint_id, job.account_id, job.cursor_seq, job.until_ms, BATCH_ROWS_MAX),
    ).fetchall()
    deliveries = []
    for seq, event_type, payment_id, in_reach, delivery_id, state in rows:
        if not in_reach or not wants(endpoint, event_type) or state not in (None, "cancelled"):
            continue
        if delivery_id is None:
            delivery_id = fresh_id("dlv_")
            insert_delivery(
                tx,
                delivery_id=delivery_id,
                message_id=fresh_id("msg_"),
                account_id=job.account_id,
                endpoint_id=job.endpoint_id,
                event_seq=seq,
                event_type=event_type,
                payment_id=payment_id,
                priority=REPLAY,
                now_ms=now_ms,
            )
        deliveries.append(delivery_id)
    return _Page(deliveries, _last_seq(rows, job), len(rows) == BATCH_ROWS_MAX)


def _last_seq(rows: list[tuple[int, ...]], job: _Job) -> int:
    return rows[-1][0] if rows else job.cursor_seq
