"""Replay jobs: durable, resumed after a restart, and never sending one delivery twice for one job."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

from payd.core.endpoint import Endpoint, EndpointState
from payd.core.errors import EndpointDisabled, NotFound, RateLimited
from payd.store.deliveries import REPLAY, NewDelivery, insert_deliveries, requeue
from payd.store.endpoints import endpoint_of_id, get_endpoint
from payd.store.events import SET_BACK_MAX_MS, cursor_before

Tx: TypeAlias = sqlite3.Connection
Kind: TypeAlias = Literal["recover", "replay-missing"]

# Rows looked at in one step: short enough for the payments that wait to be stored behind it.
BATCH_ROWS_MAX: Final = 100
# More jobs at once would only look at the same rows again.
RUNNING_MAX: Final = 10
# The newest are what a person looks for.
LISTED_MAX: Final = 50


class JobRow(NamedTuple):
    """A job with its counts.

    Attributes:
        matched: Found.
        queued: Put in the queue; each of these counts in one of the others, or waits for its first attempt.
        done: Delivered.
        failed: Ended otherwise.
        taken_back: Not sent any more, because the job was cancelled.
        retrying: Refused so far; tried again.
    """

    id: str
    kind: str
    since_ms: int
    state: str
    matched: int
    queued: int
    done: int
    failed: int
    taken_back: int = 0
    retrying: int = 0


def start_job(tx: Tx, *, job_id: str, account_id: str, kind: Kind, since_ms: int, now_ms: int) -> JobRow:
    """Store a job over everything from `since_ms` until now.

    Raises:
        NotFound: The account has no endpoint.
        EndpointDisabled: Enable it first.
        RateLimited: `RUNNING_MAX` jobs are at work.
    """
    endpoint = get_endpoint(tx, account_id)
    if endpoint.state is not EndpointState.ENABLED:
        act = "resume" if endpoint.state is EndpointState.PAUSED else "enable"
        words = f"The webhook endpoint is {endpoint.state}; POST /v1/webhooks/endpoint/{act} first."
        raise EndpointDisabled(words)
    (running,) = tx.execute(
        "SELECT count(*) FROM webhook_jobs WHERE endpoint_id = ? AND state = 'running'", (endpoint.id,)
    ).fetchone()
    if running >= RUNNING_MAX:
        words = f"{running} replay jobs are running; wait for one to end, or cancel one."
        raise RateLimited(words, details={"retryAfterS": 10})
    cursor_seq = _first_seq(tx, account_id, kind, since_ms)
    tx.execute(
        "INSERT INTO webhook_jobs"
        " (id, account_id, endpoint_id, kind, since_ms, until_ms, state, cursor_seq, created_at_ms)"
        " VALUES (?, ?, ?, ?, ?, ?, 'running', ?, ?)",
        (job_id, account_id, endpoint.id, kind, since_ms, now_ms, cursor_seq, now_ms),
    )
    return JobRow(job_id, kind, since_ms, "running", 0, 0, 0, 0)


def find_job(tx: Tx, account_id: str, job_id: str) -> JobRow | None:
    """A job and its counts. It runs until everything that it queued has ended."""
    row = tx.execute(f"{_ROW} WHERE id = ? AND account_id = ?", (job_id, account_id)).fetchone()
    return None if row is None else _with_counts(tx, row)


def list_jobs(tx: Tx, account_id: str) -> list[JobRow]:
    """The account's newest jobs, newest first, at most `LISTED_MAX`."""
    rows = tx.execute(f"{_ROW} WHERE account_id = ? ORDER BY id DESC LIMIT ?", (account_id, LISTED_MAX))
    return [_with_counts(tx, row) for row in rows.fetchall()]


def running_jobs(tx: Tx) -> list[tuple[str, str]]:
    """Every job that has rows left to look at or to take back, with its endpoint."""
    return list(
        tx.execute(
            "SELECT id, endpoint_id FROM webhook_jobs WHERE state IN ('running', 'cancelling') ORDER BY id"
        )
    )


def cancel_job(tx: Tx, account_id: str, job_id: str) -> None:
    """End a job: it queues nothing more, and what it queued and was not sent yet is taken back soon.

    Harmless when it has ended.

    Raises:
        NotFound: The account has no such job.
    """
    row = tx.execute(
        "SELECT endpoint_id FROM webhook_jobs WHERE id = ? AND account_id = ?", (job_id, account_id)
    ).fetchone()
    if row is None:
        raise NotFound("There is no such job.")
    tx.execute(
        "UPDATE webhook_jobs SET state = 'cancelling' WHERE id = ? AND state <> 'cancelled'"
        f" AND (state = 'running' OR EXISTS ({_NOT_SENT}))",
        (job_id, job_id, row[0], REPLAY),
    )


class Preview(NamedTuple):
    """How many deliveries a job would queue, and up to where that was looked for."""

    matched: int
    cursor_seq: int


def preview_job(
    tx: Tx, *, account_id: str, kind: Kind, since_ms: int, now_ms: int, after: Preview | None = None
) -> Preview:
    """How many deliveries a job of this kind would queue now.

    Looks at every row that the job would: run it where a long query is ended, or `after` an earlier look, to
    whose number what came since is added.

    Raises:
        NotFound: The account has no endpoint.
    """
    endpoint = get_endpoint(tx, account_id)
    matched, cursor_seq = after or Preview(0, _first_seq(tx, account_id, kind, since_ms))
    job, more = _Job("", now_ms, kind, account_id, endpoint.id, since_ms, now_ms, cursor_seq), True
    while more:
        page = _failed_page(tx, job) if kind == "recover" else _missing_page(tx, job, endpoint)
        matched += len(page.deliveries)
        job, more = job._replace(cursor_seq=page.cursor_seq), page.more
    return Preview(matched, job.cursor_seq)


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
        "SELECT kind, account_id, endpoint_id, since_ms, until_ms, cursor_seq, state FROM webhook_jobs"
        " WHERE id = ? AND state IN ('running', 'cancelling')",
        (job_id,),
    ).fetchone()
    if row is None:
        return False
    job = _Job(job_id, now_ms, *row[:-1])
    if row[-1] == "cancelling":
        return _take_back(tx, job)
    if job.kind == "recover":
        page = _failed_page(tx, job)
    else:
        endpoint = endpoint_of_id(tx, job.endpoint_id)
        assert endpoint is not None, "endpoints are marked deleted, never removed"
        page = _missing_page(tx, job, endpoint)
    queued = [_queue(tx, job, each, now_ms, fresh_id) for each in page.deliveries]
    tx.executemany(
        "INSERT INTO webhook_job_deliveries (job_id, delivery_id) VALUES (?, ?)",
        [(job_id, delivery_id) for delivery_id in queued],
    )
    tx.execute(
        "UPDATE webhook_jobs SET cursor_seq = ?, matched = matched + ?, queued = queued + ?, state = ?"
        " WHERE id = ?",
        (page.cursor_seq, len(queued), len(queued), "running" if page.more else "done", job_id),
    )
    return page.more


class _Job(NamedTuple):
    """A job as a batch of it begins, at `now_ms`."""

    id: str
    now_ms: int
    kind: str
    account_id: str
    endpoint_id: str
    since_ms: int
    until_ms: int
    cursor_seq: int


class _Found(NamedTuple):
    """A delivery to send again, or the event that none was owed for."""

    delivery_id: str | None
    event_seq: int
    event_type: str
    payment_id: str


class _Page(NamedTuple):
    deliveries: list[_Found]
    cursor_seq: int
    more: bool


# Of a row: it was made before the job. What is of the future was made by a clock that was set back since.
_WAS_THERE: Final = "({0}.created_at_ms <= :until_ms OR {0}.created_at_ms > :now_ms)"
# Whether nobody queued it again since.
_IS_LAST: Final = (
    "NOT EXISTS (SELECT 1 FROM webhook_job_deliveries later"
    " WHERE later.delivery_id = d.id AND later.job_id > j.job_id)"
)
# What a job queued and nobody sent or queued again: by way of what its endpoint is owed, which gets less.
_NOT_SENT: Final = (
    "SELECT d.seq FROM deliveries d CROSS JOIN webhook_job_deliveries j"
    " ON j.job_id = ? AND j.delivery_id = d.id"
    f" WHERE d.endpoint_id = ? AND d.priority = ? AND d.state = 'pending' AND {_IS_LAST}"
)
_ROW: Final = "SELECT id, kind, since_ms, state, matched, queued FROM webhook_jobs"


def _with_counts(tx: Tx, row: tuple[str, str, int, str, int, int]) -> JobRow:
    job_id, kind, since_ms, state, matched, queued = row
    # What ended, and was queued again by a later job, is that one's: a job that is done stays so.
    done, ended, taken_back, pending, retrying = tx.execute(
        "SELECT coalesce(sum(d.state = 'succeeded'), 0),"
        " coalesce(sum(d.state IN ('failed', 'cancelled')), 0),"
        " coalesce(sum(d.state IN ('failed', 'cancelled') AND d.reason = 'job_cancelled'), 0),"
        f" coalesce(sum(d.state = 'pending' AND {_IS_LAST}), 0),"
        f" coalesce(sum(d.state = 'pending' AND d.attempts > 0 AND {_IS_LAST}), 0)"
        " FROM webhook_job_deliveries j JOIN deliveries d ON d.id = j.delivery_id WHERE j.job_id = ?",
        (job_id,),
    ).fetchone()
    if state == "done" and pending:
        state = "running"
    return JobRow(
        job_id,
        kind,
        since_ms,
        "cancelled" if state == "cancelling" else state,
        matched,
        queued,
        done,
        ended - taken_back,
        taken_back,
        retrying,
    )


def _first_seq(tx: Tx, account_id: str, kind: Kind, since_ms: int) -> int:
    # A delivery may fail for good long after its event: `recover` looks at all that failed.
    return 0 if kind == "recover" else cursor_before(tx, account_id, since_ms - SET_BACK_MAX_MS)


def _failed_page(tx: Tx, job: _Job) -> _Page:
    """Deliveries that failed for good within the job's time, whenever their event was."""
    rows = tx.execute(
        "SELECT d.seq, d.id, d.event_seq, d.event_type, d.payment_id,"
        " d.kind = 'event' AND d.endpoint_id = :endpoint_id"
        " AND coalesce((SELECT a.at_ms + a.duration_ms FROM attempts a WHERE a.delivery_id = d.id"
        "   ORDER BY a.seq DESC LIMIT 1), d.created_at_ms) >= :since_ms"
        " FROM deliveries d WHERE d.account_id = :account_id AND d.state = 'failed' AND d.seq > :cursor_seq"
        f" AND {_WAS_THERE.format('d')} ORDER BY d.seq LIMIT {BATCH_ROWS_MAX}",
        job._asdict(),
    ).fetchall()
    return _page(job, [(row[0], _Found(*row[1:5]) if row[5] else None) for row in rows])


def _missing_page(tx: Tx, job: _Job, endpoint: Endpoint) -> _Page:
    """Events that the endpoint wants and never received: not owed then, or cancelled when it was disabled."""
    rows = tx.execute(
        "SELECT e.seq, d.id, e.type, e.payment_id,"
        " e.created_at_ms >= :since_ms AND coalesce(d.state, 'cancelled') = 'cancelled' FROM events e"
        " LEFT JOIN deliveries d ON d.event_seq = e.seq AND d.endpoint_id = :endpoint_id"
        " WHERE e.account_id = :account_id AND e.seq > :cursor_seq"
        f" AND {_WAS_THERE.format('e')} ORDER BY e.seq LIMIT {BATCH_ROWS_MAX}",
        job._asdict(),
    ).fetchall()
    return _page(
        job,
        [
            (seq, _Found(delivery_id, seq, event_type, payment_id))
            if is_missing and event_type in endpoint.events
            else (seq, None)
            for seq, delivery_id, event_type, payment_id, is_missing in rows
        ],
    )


def _page(job: _Job, rows: list[tuple[int, _Found | None]]) -> _Page:
    found = [each for _, each in rows if each is not None]
    return _Page(found, rows[-1][0] if rows else job.cursor_seq, len(rows) == BATCH_ROWS_MAX)


def _queue(tx: Tx, job: _Job, found: _Found, now_ms: int, fresh_id: Callable[[str], str]) -> str:
    if found.delivery_id is not None:
        requeue(tx, found.delivery_id, now_ms)
        return found.delivery_id
    delivery_id = fresh_id("dlv_")
    new = NewDelivery(
        id=delivery_id,
        message_id=fresh_id("msg_"),
        account_id=job.account_id,
        endpoint_id=job.endpoint_id,
        event_seq=found.event_seq,
        event_type=found.event_type,
        payment_id=found.payment_id,
        priority=REPLAY,
        now_ms=now_ms,
    )
    insert_deliveries(tx, [new])
    return delivery_id


def _take_back(tx: Tx, job: _Job) -> bool:
    """Put the next batch of what a cancelled job queued back to where a later job finds it."""
    state = "failed" if job.kind == "recover" else "cancelled"
    taken = tx.execute(
        "UPDATE deliveries SET state = ?, reason = 'job_cancelled', next_at_ms = NULL"
        f" WHERE seq IN ({_NOT_SENT} LIMIT ?)",
        (state, job.id, job.endpoint_id, REPLAY, BATCH_ROWS_MAX),
    ).rowcount
    if taken == BATCH_ROWS_MAX:
        return True
    tx.execute("UPDATE webhook_jobs SET state = 'cancelled' WHERE id = ?", (job.id,))
    return False
