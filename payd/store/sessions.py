"""Sessions of people who are signed in: rows, so that each can be seen and ended. Tokens are stored hashed.

Source: DESIGN.md, "3. Two realms".
"""

from __future__ import annotations

import sqlite3
from typing import Final

import msgspec

from payd.core.ids import Realm
from payd.core.roles import Role
from payd.store.rows import prune_rows
from payd.store.users import User

IDLE_MS: Final = 12 * 3_600_000
"""A session that was not used for so long is over."""
LIFETIME_MS: Final = 7 * 86_400_000
"""So long a session lasts at most, however much it is used."""
SEEN_EVERY_MS: Final = 60_000
"""How exactly it is stored when a session was used: a write on every view would be an fsync on every view."""
SESSIONS_MAX: Final = 50
"""Sessions of one person; signing in once more ends the one that was used longest ago."""
USER_AGENT_MAX: Final = 300

_COLUMNS: Final = (
    "s.id, s.user_id, s.account_id, s.mode, s.created_at_ms, s.seen_at_ms, s.proved_at_ms, s.ip, s.user_agent"
)


class Session(msgspec.Struct, frozen=True):
    """One browser of one person.

    Attributes:
        id: `ses_…`; it stays when the token changes.
        user_id: Whose.
        account_id: Whose data it shows now.
        mode: Where it was last.
        created_at_ms: When the person signed in; times are Unix milliseconds by the wall.
        seen_at_ms: When it was used last, to the minute.
        proved_at_ms: When the person last showed who they are, by password, code or passkey.
        ip: From where they signed in.
        user_agent: With what, as it says.
    """

    id: str
    user_id: str
    account_id: str
    mode: Realm
    created_at_ms: int
    seen_at_ms: int
    proved_at_ms: int
    ip: str
    user_agent: str

    def is_over(self, now_ms: int) -> bool:
        """Whether it opens nothing any more; neither does one that a wrong clock dated so far ahead."""
        return abs(now_ms - self.seen_at_ms) >= IDLE_MS or abs(now_ms - self.created_at_ms) >= LIFETIME_MS


class SignedIn(msgspec.Struct, frozen=True):
    """Who a session's token stands for, and what they may do in the account that it shows."""

    session: Session
    user: User
    role: Role


def insert_session(tx: sqlite3.Connection, session: Session, token_hash: bytes) -> Session:
    """Store a new session; the person's oldest one makes room if they have too many."""
    tx.execute(
        "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE user_id = ?"
        " ORDER BY seen_at_ms DESC LIMIT -1 OFFSET ?)",
        (session.user_id, SESSIONS_MAX - 1),
    )
    tx.execute(
        "INSERT INTO sessions (id, token_hash, user_id, account_id, mode, created_at_ms, seen_at_ms,"
        " proved_at_ms, ip, user_agent) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            session.id, token_hash, session.user_id, session.account_id, session.mode, session.created_at_ms,
            session.seen_at_ms, session.proved_at_ms, session.ip, session.user_agent[:USER_AGENT_MAX],
        ),
    )  # fmt: skip
    return session


def find_session(tx: sqlite3.Connection, token_hash: bytes, now_ms: int) -> SignedIn | None:
    """Who a token stands for; None when it is unknown, over, or its person has no part in the account now."""
    row = tx.execute(
        f"SELECT {_COLUMNS}, u.id, u.email, u.password_hash, u.password_set_at_ms, u.totp_sealed,"
        " u.created_at_ms, m.role FROM sessions s JOIN users u ON u.id = s.user_id"
        " JOIN memberships m ON m.user_id = s.user_id AND m.account_id = s.account_id"
        " WHERE s.token_hash = ?",
        (token_hash,),
    ).fetchone()
    if row is None:
        return None
    session, user = Session(*row[:9]), User(*row[9:15])
    return None if session.is_over(now_ms) else SignedIn(session, user, Role(row[15]))


def has_session(tx: sqlite3.Connection, session_id: str) -> bool:
    """Whether a session is there: nobody has ended it."""
    return tx.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)).fetchone() is not None


def list_sessions(tx: sqlite3.Connection, user_id: str, now_ms: int) -> list[Session]:
    """A person's sessions that are not over, the one used last first."""
    rows = tx.execute(
        f"SELECT {_COLUMNS} FROM sessions s WHERE s.user_id = ? ORDER BY s.seen_at_ms DESC, s.id DESC",
        (user_id,),
    )
    return [session for row in rows if not (session := Session(*row)).is_over(now_ms)]


def touch_session(tx: sqlite3.Connection, session_id: str, now_ms: int, *, mode: Realm) -> None:
    """Store that it is in use, and in which mode."""
    tx.execute(
        "UPDATE sessions SET seen_at_ms = max(seen_at_ms, ?), mode = ? WHERE id = ?",
        (now_ms, mode, session_id),
    )


def show_account(tx: sqlite3.Connection, session_id: str, account_id: str) -> None:
    """Have it show another account's data from now on."""
    tx.execute("UPDATE sessions SET account_id = ? WHERE id = ?", (account_id, session_id))


def renew_session(tx: sqlite3.Connection, session_id: str, token_hash: bytes, now_ms: int) -> bool:
    """Give a session whose person has just shown who they are another token; False if it is gone."""
    changed = tx.execute(
        "UPDATE sessions SET token_hash = ?, proved_at_ms = ? WHERE id = ?",
        (token_hash, now_ms, session_id),
    )
    return changed.rowcount == 1


def end_session(tx: sqlite3.Connection, user_id: str, session_id: str) -> bool:
    """End one of a person's sessions; False if there is none."""
    changed = tx.execute("DELETE FROM sessions WHERE id = ? AND user_id = ?", (session_id, user_id))
    return changed.rowcount == 1


def end_sessions(tx: sqlite3.Connection, user_id: str, *, but: str | None = None) -> int:
    """End all sessions of a person, `but` one; returns how many."""
    return tx.execute("DELETE FROM sessions WHERE user_id = ? AND id IS NOT ?", (user_id, but)).rowcount


def prune_sessions(tx: sqlite3.Connection, before_ms: int, limit: int) -> int:
    """Forget sessions that began before that, `limit` at a time; returns how many."""
    return prune_rows(tx, "sessions", "id", "created_at_ms", before_ms, limit)
