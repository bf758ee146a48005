"""Attempts: the log of every HTTP request of a delivery, and what follows from one."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple, TypeAlias

from payd.core import endpoint as rules
from payd.core.endpoint import Endpoint, EndpointState
from payd.core.retry import next_attempt_at_ms
from payd.store.deliveries import FRESH, RETRY
from payd.store.endpoints import cancel_pending, endpoint_of_id, save_endpoint

Tx: TypeAlias = sqlite3.Connection


class AttemptEnd(NamedTuple):
    """How one HTTP request of a delivery ended. `error_class` is None exactly for a success."""

    trigger: str
    at_ms: int
    ended_at_ms: int
    status: int | None
    error_class: str | None
    duration_ms: int
    remote_ip: str | None
    body: bytes
    retry_after_s: int | None = None
    jitter: float = 0.0


class Recorded(NamedTuple):
    """What the step made of an attempt."""

    state: str
    next_at_ms: int | None
    endpoint: Endpoint
    disabled: bool
    n: int


class AttemptRow(NamedTuple):
    """One entry of a delivery's log."""

    n: int
    trigger: str
    at_ms: int
    status: int | None
    error_class: str | None
    duration_ms: int
    remote_ip: str | None
    body: bytes


def record_attempt(tx: Tx, delivery_id: str, end: AttemptEnd) -> Recorded:
    """Log an attempt and draw every consequence: the delivery's state, its next time, the endpoint's clock.

    An attempt by hand settles the delivery when it succeeds and changes nothing when it fails. An endpoint
    that has failed for too long is disabled here, and what it is owed is cancelled.

    Source: SPEC.md, "Delivery rules".
    """
    endpoint_id, state, attempts, next_at_ms = tx.execute(
        "SELECT endpoint_id, state, attempts, next_at_ms FROM deliveries WHERE id = ?", (delivery_id,)
    ).fetchone()
    n = _log_attempt(tx, delivery_id, end)
    by_schedule = end.trigger in ("auto", "replay")
    attempts += by_schedule
    if end.error_class is None:
        state, next_at_ms = "succeeded", None
    elif by_schedule and state == "pending":
        next_at_ms = next_attempt_at_ms(
            attempts, end.ended_at_ms, jitter=end.jitter, retry_after_s=end.retry_after_s
        )
        state = "failed" if next_at_ms is None else "pending"
    # A replay that fails goes on as a replay, behind what is fresh.
    tx.execute(
        "UPDATE deliveries SET state = ?, attempts = ?, last_status = ?, next_at_ms = ?,"
        " reason = CASE WHEN ? = 'succeeded' THEN NULL ELSE reason END,"
        " priority = CASE WHEN priority = ? AND ? THEN ? ELSE priority END WHERE id = ?",
        (state, attempts, end.status, next_at_ms, state, FRESH, by_schedule, RETRY, delivery_id),
    )
    endpoint, disabled = _move_failure_clock(tx, endpoint_id, end)
    if disabled and state == "pending":
        state, next_at_ms = "cancelled", None
    return Recorded(state, next_at_ms, endpoint, disabled, n)


def record_test(
    tx: Tx,
    *,
    delivery_id: str,
    message_id: str,
    endpoint: Endpoint,
    event_type: str,
    body: bytes,
    end: AttemptEnd,
) -> None:
    """Store a test delivery with its one attempt; only its success tells something about the endpoint."""
    state = "succeeded" if end.error_class is None else "failed"
    tx.execute(
        "INSERT INTO deliveries (id, message_id, account_id, endpoint_id, event_type, body, kind, state,"
        " last_status, created_at_ms) VALUES (?, ?, ?, ?, ?, ?, 'test', ?, ?, ?)",
        (
            delivery_id,
            message_id,
            endpoint.account_id,
            endpoint.id,
            event_type,
            body,
            state,
            end.status,
            end.at_ms,
        ),
    )
    _log_attempt(tx, delivery_id, end)
    if end.error_class is None:
        _move_failure_clock(tx, endpoint.id, end)


def attempts_of(tx: Tx, delivery_id: str) -> list[AttemptRow]:
    """A delivery's log, oldest attempt first."""
    rows = tx.execute(
        "SELECT n, trigger, at_ms, status, error_class, duration_ms, remote_ip, body FROM attempts"
        " WHERE delivery_id = ? ORDER BY seq",
        (delivery_id,),
    )
    return [AttemptRow(*row) for row in rows]


def _log_attempt(tx: Tx, delivery_id: str, end: AttemptEnd) -> int:
    (last,) = tx.execute(
        "SELECT coalesce(max(n), 0) FROM attempts WHERE delivery_id = ?", (delivery_id,)
    ).fetchone()
    tx.execute(
        "INSERT INTO attempts"
        " (delivery_id, n, trigger, at_ms, status, error_class, duration_ms, remote_ip, body)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            delivery_id,
            last + 1,
            end.trigger,
            end.at_ms,
            end.status,
            end.error_class,
            end.duration_ms,
            end.remote_ip,
            end.body,
        ),
    )
    return int(last) + 1


def _move_failure_clock(tx: Tx, endpoint_id: str, end: AttemptEnd) -> tuple[Endpoint, bool]:
    before = endpoint_of_id(tx, endpoint_id)
    assert before is not None, "endpoints are marked deleted, never removed"
    after = rules.after_attempt(before, end.error_class is None, end.ended_at_ms)
    save_endpoint(tx, after, end.ended_at_ms)
    disabled = before.state is EndpointState.ENABLED and after.state is EndpointState.DISABLED
    if disabled:
        cancel_pending(tx, after)
    return after, disabled
