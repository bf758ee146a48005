"""The audit: who did what to whom, written in the transaction of the act."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any, TypeAlias

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
        actor: The id of a key, "cli" or "server".
        act: Such as `endpoint.rotate`.
        subject: The id of what was touched.
        details: Whatever helps later; never a secret.

    Source: DESIGN.md, "3. Two realms".
    """
    tx.execute(
        "INSERT INTO audit (at_ms, account_id, actor, act, subject, details) VALUES (?, ?, ?, ?, ?, ?)",
        (at_ms, account_id, actor, act, subject, json.dumps(dict(details or {}), sort_keys=True)),
    )
