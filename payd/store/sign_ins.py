"""Who tried to sign in, how, and what came of it."""

from __future__ import annotations

import sqlite3
from typing import Final, Literal, NamedTuple, TypeAlias

from payd.store.rows import prune_rows
from payd.store.sessions import USER_AGENT_MAX

Tx: TypeAlias = sqlite3.Connection

Way = Literal["password", "code", "recovery", "passkey", "link"]
Outcome = Literal["in", "next", "refused"]
"""Signed in; on to the second factor; wrong."""

EMAIL_MAX: Final = 254
KEPT_MS: Final = 90 * 86_400_000


class SignIn(NamedTuple):
    """One try."""

    at_ms: int
    user_id: str | None
    email: str
    way: Way
    outcome: Outcome
    ip: str
    user_agent: str


def insert_sign_in(tx: Tx, one: SignIn) -> None:
    """Store a try."""
    tx.execute(
        "INSERT INTO sign_ins (at_ms, user_id, email, way, outcome, ip, user_agent)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        one._replace(email=one.email[:EMAIL_MAX], user_agent=one.user_agent[:USER_AGENT_MAX]),
    )


def list_sign_ins(tx: Tx, user_id: str, limit: int) -> list[SignIn]:
    """The last tries with a person's e-mail, newest first."""
    rows = tx.execute(
        "SELECT at_ms, user_id, email, way, outcome, ip, user_agent FROM sign_ins WHERE user_id = ?"
        " ORDER BY seq DESC LIMIT ?",
        (user_id, limit),
    )
    return [SignIn(*row) for row in rows]


def prune_sign_ins(tx: Tx, before_ms: int, limit: int) -> int:
    """Forget tries from before that, `limit` at a time; returns how many."""
    return prune_rows(tx, "sign_ins", "seq", "at_ms", before_ms, limit)
