"""Idempotency records: the answer of a request, stored in the transaction of its effect.

Steps run one after the other on the writer's thread, so the step is the lock: of fifty requests with one key
the first does the work and the others find its answer. A step for many requests looks at them in their order.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from payd.core.idempotency import Record, decide
from payd.store.rows import find_rows, insert_rows, prune_rows

Tx: TypeAlias = sqlite3.Connection
Place: TypeAlias = tuple[str, bytes]


class IdempotentRequest(msgspec.Struct, frozen=True):
    """A request under a key: `scope` and `fingerprint` are SHA-256 digests."""

    account_id: str
    scope: bytes
    fingerprint: bytes
    request_id: str
    now_ms: int

    @property
    def place(self) -> Place:
        """Where its answer is kept: the account and the scope."""
        return self.account_id, self.scope


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
    return replay_of(find_answers(tx, [request]).get(request.place), request)


def replay_of(kept: Record | None, request: IdempotentRequest) -> Outcome | None:
    """What a request gets that finds this under its key; None when it is the first.

    Raises:
        IdempotencyConflict: The earlier request had another body.
    """
    record = decide(kept, request.fingerprint)
    return None if record is None else Outcome(record.status, record.body, record.request_id)


def find_answers(tx: Tx, requests: Sequence[IdempotentRequest]) -> dict[Place, Record]:
    """The answers that were kept under the keys of these requests."""
    rows = find_rows(
        tx,
        "SELECT i.account_id, i.scope, i.status, i.body, i.fingerprint, i.request_id"
        " FROM asked CROSS JOIN idempotency i ON (i.account_id, i.scope) = (asked.column1, asked.column2)",
        [request.place for request in requests],
    )
    return {(account_id, scope): Record(*record) for account_id, scope, *record in rows}


def keep_answer(tx: Tx, request: IdempotentRequest | None, outcome: Outcome) -> None:
    """Store the answer in the transaction of its effect."""
    if request is not None:
        keep_answers(tx, [(request, outcome)])


def keep_answers(tx: Tx, answered: Sequence[tuple[IdempotentRequest, Outcome]]) -> None:
    """As `keep_answer`, of some requests, at least one, each with a key of its own.

    Raises:
        sqlite3.IntegrityError: There is an answer under one of the keys.
    """
    insert_rows(
        tx,
        "INSERT INTO idempotency (account_id, scope, fingerprint, status, body, request_id, created_at_ms)",
        [
            (
                *request.place,
                request.fingerprint,
                outcome.status,
                outcome.body,
                request.request_id,
                request.now_ms,
            )
            for request, outcome in answered
        ],
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
    return prune_rows(tx, "idempotency", "account_id, scope", "created_at_ms", before_ms, limit)
