"""Idempotency records: the answer of a request, stored in the transaction of its effect.

Steps run one after the other on the writer's thread, so the step is the lock: of fifty requests with one key
the first does the work and the others find its answer.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from payd.core.idempotency import Record, decide

Tx: TypeAlias = sqlite3.Connection


class IdempotentRequest(msgspec.Struct, frozen=True):
    """A request under a key: `scope` and `fingerprint` are SHA-256 digests."""

    account_id: str
    scope: bytes
    fingerprint: bytes
    request_id: str
    now_ms: int


class Outcome(msgspec.Struct, frozen=True):
    """An answer's status and bytes; `original_request` is set when it is a replay."""

    status: int
    body: bytes
    original_request: str | None = None


def find_replay(tx: Tx, request: IdempotentRequest | None) -> Outcome | None:
    """The stored answer of an earlier request with this key; None when there is none.

    Raises:
        IdempotencyConflict: The earlier request had another body.
    """
    if request is None:
        return None
    row = tx.execute(
        "SELECT status, body, fingerprint, request_id FROM idempotency WHERE account_id = ? AND scope = ?",
        (request.account_id, request.scope),
    ).fetchone()
    record = decide(None if row is None else Record(*row), request.fingerprint)
    return None if record is None else Outcome(record.status, record.body, record.request_id)


def keep_answer(tx: Tx, request: IdempotentRequest | None, outcome: Outcome) -> None:
    """Store the answer in the transaction of its effect."""
    if request is None:
        return
    tx.execute(
        "INSERT INTO idempotency (account_id, scope, fingerprint, status, body, request_id, created_at_ms)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            request.account_id,
            request.scope,
            request.fingerprint,
            outcome.status,
            outcome.body,
            request.request_id,
            request.now_ms,
        ),
    )


def once(tx: Tx, request: IdempotentRequest | None, work: Callable[[Tx], Outcome]) -> Outcome:
    """Do the work and keep its answer, or give the answer that was kept.

    Raises:
        IdempotencyConflict: The key was used with another body.
    """
    replay = find_replay(tx, request)
    if replay is not None:
        return replay
    outcome = work(tx)
    keep_answer(tx, request, outcome)
    return outcome


def prune_answers(tx: Tx, before_ms: int, limit: int) -> int:
    """Forget at most `limit` answers older than that; returns how many."""
    return tx.execute(
        "DELETE FROM idempotency WHERE (account_id, scope) IN"
        " (SELECT account_id, scope FROM idempotency WHERE created_at_ms < ? LIMIT ?)",
        (before_ms, limit),
    ).rowcount
