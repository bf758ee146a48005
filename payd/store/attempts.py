"""Attempts: the log of every HTTP request of a delivery, and what follows from one."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
import outcome

from payd.core import endpoint as rules
from payd.core.endpoint import Endpoint, EndpointState
from payd.core.fault import HELD, FaultKind
from payd.core.notice import NoticeType, notice_type
from payd.core.retry import ATTEMPTS_MAX, next_attempt_at_ms
from payd.store.deliveries import FRESH, RETRY
from payd.store.endpoints import cancel_pending, columns_of, endpoint_of_id, endpoint_of_row, save_endpoint
from payd.store.faults import close_use
from payd.store.notices import Notices
from payd.store.rows import change_rows, find_rows, insert_rows

Tx: TypeAlias = sqlite3.Connection
Trigger: TypeAlias = Literal["auto", "manual", "replay", "test"]

HEADERS_BYTES_MAX: Final = 4096
# A busy endpoint succeeds thousands of times a minute; its row need not say so each time.
SUCCESS_EVERY_MS: Final = 60_000
# Each may have 20 KiB of an answer. The schedule makes 8; who sends by hand looks at the last ones.
LOG_SHOWN_MAX: Final = 50


class AttemptEnd(NamedTuple):
    """How one HTTP request of a delivery ended. `error_class` is None exactly for a success.

    Attributes:
        error: What happened, in words for a person; "" for a success.
        headers: Of the answer, a line each, at most `HEADERS_BYTES_MAX`.
        is_whole: Whether `body` is all of the answer's body.
        dns_ms: How long it took to find the address; None on a connection that was there.
        connect_ms: To connect; None likewise.
        tls_ms: To agree on TLS; None likewise.
        total_ms: With the body, where `duration_ms` ends with the status line; None without a request.
        retry_after_s: What the receiver asked for.
        jitter: 0 to 1: how much of a step's largest jitter to add.
        fault: What was done to it on purpose.
        held_until_ms: When a delivery that was held back on purpose is due.
    """

    trigger: Trigger
    at_ms: int
    ended_at_ms: int
    status: int | None
    error_class: str | None
    duration_ms: int
    remote_ip: str | None
    body: bytes
    error: str = ""
    headers: bytes = b""
    is_whole: bool = True
    dns_ms: int | None = None
    connect_ms: int | None = None
    tls_ms: int | None = None
    total_ms: int | None = None
    retry_after_s: int | None = None
    jitter: float = 0.0
    fault: FaultKind | None = None
    held_until_ms: int | None = None


class Recorded(NamedTuple):
    """What the step made of an attempt."""

    state: str
    next_at_ms: int | None
    endpoint: Endpoint
    n: int
    notice: NoticeType | None


class AttemptRow(NamedTuple):
    """One entry of a delivery's log."""

    n: int
    trigger: str
    at_ms: int
    status: int | None
    error_class: str | None
    error: str | None
    duration_ms: int
    dns_ms: int | None
    connect_ms: int | None
    tls_ms: int | None
    total_ms: int | None
    remote_ip: str | None
    retry_after_s: int | None
    next_at_ms: int | None
    headers: bytes | None
    body: bytes
    truncated: bool
    fault: str | None


def record_attempt(tx: Tx, delivery_id: str, end: AttemptEnd, notices: Notices) -> Recorded:
    """Log an attempt and draw every consequence: the delivery's state, its next time, the endpoint's clock.

    An attempt by hand settles the delivery when it succeeds and changes nothing when it fails. An endpoint
    that has failed for too long is disabled here, and what it is owed is cancelled; the notice of that is
    owed in the same step. A canary is not sent again. What was done on purpose tells nothing about the
    endpoint; a copy changes nothing, and what was held back has used no attempt.

    Args:
        tx: The step's transaction.
        delivery_id: Whose attempt it was; the delivery is there.
        end: How it ended.
        notices: Writes and owes what the operator is told.

    Source: SPEC.md, "Delivery rules".
    """
    seq, kind, state, attempts, next_at_ms, n, *before = tx.execute(_BEFORE, (delivery_id,)).fetchone()
    if end.fault is not None:
        close_use(tx, delivery_id)
    if end.fault == "duplicate":
        _log_attempts(tx, [(delivery_id, n, end, None)])
        return Recorded(state, next_at_ms, endpoint_of_row(before), n, None)
    by_schedule = end.trigger in ("auto", "replay") and end.fault not in HELD
    attempts += by_schedule
    if end.fault in HELD:
        next_at_ms = end.held_until_ms if state == "pending" else next_at_ms
    elif end.error_class is None:
        state, next_at_ms = "succeeded", None
    elif by_schedule and state == "pending":
        next_at_ms = next_attempt_at_ms(
            ATTEMPTS_MAX if kind == "canary" else attempts,
            end.ended_at_ms,
            jitter=end.jitter,
            retry_after_s=end.retry_after_s,
        )
        state = "failed" if next_at_ms is None else "pending"
    # A replay that fails goes on as a replay, behind what is fresh.
    tx.execute(
        "UPDATE deliveries SET state = ?, attempts = ?, last_status = ?, next_at_ms = ?,"
        " reason = CASE WHEN ? = 'succeeded' THEN NULL ELSE reason END,"
        " priority = CASE WHEN priority = ? AND ? THEN ? ELSE priority END WHERE seq = ?",
        (state, attempts, end.status, next_at_ms, state, FRESH, by_schedule, RETRY, seq),
    )
    endpoint, notice = endpoint_of_row(before), None
    if end.fault is None:
        endpoint, notice = _move_failure_clock(tx, endpoint, end, notices)
    if endpoint.state is EndpointState.DISABLED and state == "pending":
        state, next_at_ms = "cancelled", None
    _log_attempts(tx, [(delivery_id, n, end, next_at_ms)])
    return Recorded(state, next_at_ms, endpoint, n, notice)


def record_successes(
    tx: Tx, asked: Sequence[tuple[str, AttemptEnd]], *, notices: Notices
) -> list[outcome.Outcome[Recorded]]:
    """As `record_attempt`, of deliveries that succeeded by schedule; see `Database.write_together`.

    Args:
        tx: The step's transaction.
        asked: A delivery and how its attempt ended, each delivery once.
        notices: Writes and owes what the operator is told.
    """
    found = {row[0]: row[1:] for row in find_rows(tx, _BEFORE_ALL, [(each,) for each, _ in asked])}
    assert len(found) == len(asked), "a delivery is there, and has one attempt by schedule at a time"
    endpoints: dict[str, Endpoint] = {}
    recorded: list[Recorded] = []
    for delivery_id, end in asked:
        _, n, *before = found[delivery_id]
        endpoint = endpoint_of_row(before)
        # Each goes on from what those before it made of their endpoint.
        endpoint, notice = _move_failure_clock(tx, endpoints.get(endpoint.id, endpoint), end, notices)
        endpoints[endpoint.id] = endpoint
        recorded.append(Recorded("succeeded", None, endpoint, n, notice))
    change_rows(tx, _SUCCEED, "WHERE seq = column1", [(found[each][0], end.status) for each, end in asked])
    _log_attempts(tx, [(each, one.n, end, None) for (each, end), one in zip(asked, recorded, strict=True)])
    return [outcome.Value(one) for one in recorded]


def record_interrupted(
    tx: Tx, delivery_id: str, trigger: Trigger, at_ms: int, ended_at_ms: int, fault: FaultKind | None
) -> None:
    """Log an attempt that was cut off on this side: the receiver may have it, and the budget has it not."""
    if fault is not None:
        close_use(tx, delivery_id)
    end = AttemptEnd(
        trigger,
        at_ms,
        ended_at_ms,
        status=None,
        error_class="interrupted",
        duration_ms=ended_at_ms - at_ms,
        remote_ip=None,
        body=b"",
        error="The endpoint was deleted while the request was under way.",
        fault=fault,
    )
    (n,) = tx.execute(f"SELECT {_NEXT_N} FROM deliveries d WHERE id = ?", (delivery_id,)).fetchone()
    _log_attempts(tx, [(delivery_id, n, end, None)])


def record_test(
    tx: Tx,
    *,
    delivery_id: str,
    message_id: str,
    endpoint: Endpoint,
    event_type: str,
    body: bytes,
    end: AttemptEnd,
    notices: Notices,
) -> Recorded:
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
    notice = None
    if end.error_class is None:
        now = endpoint_of_id(tx, endpoint.id)
        assert now is not None, "endpoints are marked deleted, never removed"
        endpoint, notice = _move_failure_clock(tx, now, end, notices)
    _log_attempts(tx, [(delivery_id, 1, end, None)])
    return Recorded(state, None, endpoint, 1, notice)


def attempts_of(tx: Tx, delivery_id: str) -> list[AttemptRow]:
    """The newest of a delivery's log, at most `LOG_SHOWN_MAX`, oldest attempt first."""
    rows = tx.execute(
        "SELECT n, trigger, at_ms, status, error_class, error, duration_ms, dns_ms, connect_ms, tls_ms,"
        " total_ms, remote_ip, retry_after_s, next_at_ms, headers, body, truncated, fault FROM attempts"
        " WHERE delivery_id = ? ORDER BY seq DESC LIMIT ?",
        (delivery_id, LOG_SHOWN_MAX),
    )
    return [AttemptRow._make((*row[:-2], bool(row[-2]), row[-1])) for row in rows][::-1]


_NEXT_N: Final = "(SELECT coalesce(max(a.n), 0) + 1 FROM attempts a WHERE a.delivery_id = d.id)"
_BEFORE: Final = (
    f"SELECT d.seq, d.kind, d.state, d.attempts, d.next_at_ms, {_NEXT_N}, {columns_of('p')}"
    " FROM deliveries d JOIN endpoints p ON p.id = d.endpoint_id WHERE d.id = ?"
)
_BEFORE_ALL: Final = (
    f"SELECT d.id, d.seq, {_NEXT_N}, {columns_of('p')} FROM asked"
    " CROSS JOIN deliveries d ON d.id = asked.column1 CROSS JOIN endpoints p ON p.id = d.endpoint_id"
)
_SUCCEED: Final = (
    "UPDATE deliveries SET state = 'succeeded', attempts = attempts + 1, last_status = column2,"
    f" next_at_ms = NULL, reason = NULL, priority = CASE priority WHEN {FRESH} THEN {RETRY} ELSE priority END"
)


def _log_attempts(tx: Tx, made: Sequence[tuple[str, int, AttemptEnd, int | None]]) -> None:
    """Store attempts, at least one: of which delivery, its number, how it ended, when the next is due."""
    insert_rows(
        tx,
        "INSERT INTO attempts (delivery_id, n, trigger, at_ms, status, error_class, error, duration_ms,"
        " dns_ms, connect_ms, tls_ms, total_ms, remote_ip, retry_after_s, next_at_ms, headers, body,"
        " truncated, fault)",
        [
            (
                delivery_id,
                n,
                end.trigger,
                end.at_ms,
                end.status,
                end.error_class,
                end.error or None,
                end.duration_ms,
                end.dns_ms,
                end.connect_ms,
                end.tls_ms,
                end.total_ms,
                end.remote_ip,
                end.retry_after_s,
                next_at_ms,
                end.headers or None,
                end.body,
                not end.is_whole,
                end.fault,
            )
            for delivery_id, n, end, next_at_ms in made
        ],
    )


def _move_failure_clock(
    tx: Tx, before: Endpoint, end: AttemptEnd, notices: Notices
) -> tuple[Endpoint, NoticeType | None]:
    after = rules.after_attempt(before, end.error_class is None, end.ended_at_ms)
    if _is_worth_storing(before, after):
        save_endpoint(tx, after, end.ended_at_ms)
    if before.state is EndpointState.ENABLED and after.state is EndpointState.DISABLED:
        cancel_pending(tx, after)
    notice = notice_type(before, after)
    if notice is not None:
        notices.owe(tx, notice, after, end.ended_at_ms, end.status, end.error_class)
    return after, notice


def _is_worth_storing(before: Endpoint, after: Endpoint) -> bool:
    """Whether more has changed than the time of the last success, which is kept to the minute."""
    last_ms, now_ms = before.last_success_at_ms, after.last_success_at_ms
    if last_ms is None or now_ms is None or now_ms - last_ms >= SUCCESS_EVERY_MS:
        return True
    return msgspec.structs.replace(after, last_success_at_ms=last_ms) != before
