"""The audit: who did what to whom, written in the transaction of the act."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from payd.store.rows import SEQ_MAX

Tx: TypeAlias = sqlite3.Connection


def insert_audit(
    tx: Tx,
    *,
    at_ms: int,
    account_id: str | None,
    actor: str,
    act: str,
    subject: str,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Record an act in its own transaction, so that neither is there without the other.

    Args:
        tx: The step's transaction.
        at_ms: The realm's time.
        account_id: Whose data was touched.
        actor: The id of a key, an app or a person, "cli" or "server".
        act: Such as `endpoint.rotate`.
        subject: The id of what was touched.
        details: Whatever helps later; never a secret.

    Source: DESIGN.md, "3. Two realms".
    """
    tx.execute(
        "INSERT INTO audit (at_ms, account_id, actor, act, subject, details) VALUES (?, ?, ?, ?, ?, ?)",
        (at_ms, account_id, actor, act, subject, json.dumps(dict(details or {}), sort_keys=True)),
    )


class Act(NamedTuple):
    """One row of the audit. `at_ms` is Unix milliseconds of the realm, in the office by the wall."""

    seq: int
    at_ms: int
    actor: str
    act: str
    subject: str
    details: dict[str, Any]


def list_audit(tx: Tx, account_id: str, before_seq: int | None, limit: int) -> list[Act]:
    """What was done in an account, newest first, from before `before_seq` on."""
    rows = tx.execute(
        "SELECT seq, at_ms, actor, act, subject, details FROM audit WHERE account_id = ? AND seq < ?"
        " ORDER BY seq DESC LIMIT ?",
        (account_id, SEQ_MAX if before_seq is None else before_seq, limit),
    )
    return [
        Act(seq, at_ms, actor, act, subject, json.loads(details))
        for seq, at_ms, actor, act, subject, details in rows
    ]
