"""People who sign in to the dashboard, and their part in each account. They live in the office.

Source: DESIGN.md, "3. Two realms".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from payd.core.errors import InvalidParams, NotFound
from payd.core.roles import Role
from payd.store.audit import insert_audit
from payd.store.links import drop_resets, take_back_of

# Lists of people are not paged: an account is a shop, and its staff fits on a page.
USERS_MAX: Final = 200

_COLUMNS: Final = "u.id, u.email, u.password_hash, u.password_set_at_ms, u.totp_sealed, u.created_at_ms"


class User(msgspec.Struct, frozen=True):
    """A person.

    Attributes:
        id: `usr_…`.
        email: Lower case; what they sign in with.
        password_hash: As `argon2` writes it, with its parameters.
        password_set_at_ms: Unix milliseconds.
        totp_sealed: The secret of their authenticator app, sealed for `app_subject`; None without one.
        created_at_ms: Unix milliseconds.
    """

    id: str
    email: str
    password_hash: str
    password_set_at_ms: int
    totp_sealed: bytes | None
    created_at_ms: int


class Member(NamedTuple):
    """A person's part in an account."""

    user: User
    role: Role
    since_ms: int


def insert_user(tx: sqlite3.Connection, user: User) -> User:
    """Store a new person.

    Raises:
        InvalidParams: There is one with this e-mail.
    """
    if find_user_by_email(tx, user.email) is not None:
        raise InvalidParams(f"There is a user with the e-mail {user.email} already.")
    tx.execute(
        "INSERT INTO users (id, email, password_hash, password_set_at_ms, totp_sealed, created_at_ms)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        msgspec.structs.astuple(user),
    )
    return user


def find_user(tx: sqlite3.Connection, user_id: str) -> User | None:
    """The person with this id."""
    row = tx.execute(f"SELECT {_COLUMNS} FROM users u WHERE u.id = ?", (user_id,)).fetchone()
    return None if row is None else User(*row)


def find_user_by_email(tx: sqlite3.Connection, email: str) -> User | None:
    """The person who signs in with this e-mail, in lower case."""
    row = tx.execute(f"SELECT {_COLUMNS} FROM users u WHERE u.email = ?", (email,)).fetchone()
    return None if row is None else User(*row)


def is_anyone(tx: sqlite3.Connection) -> bool:
    """Whether there is any user at all."""
    return tx.execute("SELECT 1 FROM users LIMIT 1").fetchone() is not None


def put_membership(
    tx: sqlite3.Connection, *, account_id: str, user_id: str, role: Role, actor: str, now_ms: int
) -> None:
    """Give a person a part in an account, or another one than before, with its audit row.

    Who is an owner no more may invite nobody: invitations that they made are taken back, or they could come
    back by one as what they were.

    Raises:
        InvalidParams: The account would be left without an owner, or has too many people.
    """
    before = role_in(tx, account_id, user_id)
    if before is Role.OWNER and role is not Role.OWNER:
        _check_other_owner(tx, account_id, user_id)
    count = tx.execute("SELECT count(*) FROM memberships WHERE account_id = ?", (account_id,)).fetchone()[0]
    if before is None and count >= USERS_MAX:
        raise InvalidParams(f"An account has {USERS_MAX} users at most.")
    tx.execute(
        "INSERT INTO memberships (account_id, user_id, role, created_at_ms) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (account_id, user_id) DO UPDATE SET role = excluded.role",
        (account_id, user_id, role.value, now_ms),
    )
    taken_back = 0 if role is Role.OWNER else take_back_of(tx, account_id, user_id)
    insert_audit(
        tx,
        at_ms=now_ms,
        account_id=account_id,
        actor=actor,
        act="user.add" if before is None else "user.role",
        subject=user_id,
        details={"role": role.value}
        | ({} if before is None else {"before": before.value})
        | _taken_back(taken_back),
    )


def remove_membership(
    tx: sqlite3.Connection, *, account_id: str, user_id: str, actor: str, now_ms: int
) -> None:
    """Take a person's part in an account away, with its audit row; who has none left is forgotten.

    Invitations that they made are taken back, or they could come back by one.

    Raises:
        NotFound: They have none.
        InvalidParams: The account would be left without an owner.
    """
    before = role_in(tx, account_id, user_id)
    if before is None:
        raise NotFound("There is no such user in this account.")
    if before is Role.OWNER:
        _check_other_owner(tx, account_id, user_id)
    tx.execute("DELETE FROM memberships WHERE account_id = ? AND user_id = ?", (account_id, user_id))
    tx.execute("DELETE FROM sessions WHERE account_id = ? AND user_id = ?", (account_id, user_id))
    user = find_user(tx, user_id)
    insert_audit(
        tx,
        at_ms=now_ms,
        account_id=account_id,
        actor=actor,
        act="user.remove",
        subject=user_id,
        details={"email": user.email if user else "", "role": before.value}
        | _taken_back(take_back_of(tx, account_id, user_id)),
    )
    if not accounts_of(tx, user_id):
        for table in ("sessions", "passkeys", "recovery_codes", "links"):
            tx.execute(f"DELETE FROM {table} WHERE user_id = ?", (user_id,))
        tx.execute("DELETE FROM users WHERE id = ?", (user_id,))


def set_password(tx: sqlite3.Connection, user_id: str, password_hash: str, now_ms: int) -> None:
    """Give a person another password; a link to reset the one before opens nothing any more."""
    tx.execute(
        "UPDATE users SET password_hash = ?, password_set_at_ms = ? WHERE id = ?",
        (password_hash, now_ms, user_id),
    )
    drop_resets(tx, user_id)


def role_in(tx: sqlite3.Connection, account_id: str, user_id: str) -> Role | None:
    """A person's part in an account; None if they have none."""
    row = tx.execute(
        "SELECT role FROM memberships WHERE account_id = ? AND user_id = ?", (account_id, user_id)
    ).fetchone()
    return None if row is None else Role(row[0])


def accounts_of(tx: sqlite3.Connection, user_id: str) -> list[tuple[str, str]]:
    """The accounts that a person has a part in, as ids and names; the first one they joined first."""
    rows = tx.execute(
        "SELECT a.id, a.name FROM memberships m JOIN accounts a ON a.id = m.account_id"
        " WHERE m.user_id = ? ORDER BY m.created_at_ms, a.id",
        (user_id,),
    )
    return [(account_id, name) for account_id, name in rows]


def names_of(tx: sqlite3.Connection, user_ids: Sequence[str]) -> dict[str, str]:
    """The e-mails of these people, as far as there are such."""
    marks = ",".join("?" * len(user_ids))
    return dict(tx.execute(f"SELECT id, email FROM users WHERE id IN ({marks})", tuple(user_ids)))


def list_users(tx: sqlite3.Connection) -> list[User]:
    """All people, oldest first."""
    return [
        User(*row) for row in tx.execute(f"SELECT {_COLUMNS} FROM users u ORDER BY u.created_at_ms, u.id")
    ]


def list_members(tx: sqlite3.Connection, account_id: str) -> list[Member]:
    """The people of an account, oldest first."""
    rows = tx.execute(
        f"SELECT {_COLUMNS}, m.role, m.created_at_ms FROM memberships m JOIN users u ON u.id = m.user_id"
        " WHERE m.account_id = ? ORDER BY m.created_at_ms, u.id",
        (account_id,),
    )
    return [Member(User(*row[:-2]), Role(row[-2]), row[-1]) for row in rows]


def _taken_back(invitations: int) -> dict[str, str]:
    return {"invitationsTakenBack": str(invitations)} if invitations else {}


def _check_other_owner(tx: sqlite3.Connection, account_id: str, user_id: str) -> None:
    other = tx.execute(
        "SELECT 1 FROM memberships WHERE account_id = ? AND user_id <> ? AND role = ? LIMIT 1",
        (account_id, user_id, Role.OWNER.value),
    ).fetchone()
    if other is None:
        raise InvalidParams("This is the account's only owner. Make somebody else an owner first.")
