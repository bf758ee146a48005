"""Links that open once: the first setup, an invitation, a new password. Their tokens are stored hashed.

Source: DESIGN.md, "3. Two realms".
"""

from __future__ import annotations

import sqlite3
from typing import Final, Literal, TypeAlias

import msgspec

from payd.core.errors import InvalidParams
from payd.core.roles import Role
from payd.store.audit import insert_audit
from payd.store.rows import insert_rows, prune_rows

Tx: TypeAlias = sqlite3.Connection

Purpose = Literal["setup", "invite", "reset"]

LIFETIME_MS: Final[dict[Purpose, int]] = {
    "setup": 24 * 3_600_000,
    "invite": 7 * 86_400_000,
    "reset": 24 * 3_600_000,
}
OPEN_MAX: Final = 100
"""Invitations of one account that are open at once."""

_COLUMNS: Final = "id, purpose, account_id, user_id, role, email, created_by, created_at_ms, expires_at_ms"


class Link(msgspec.Struct, frozen=True):
    """What a link is for; the token is only in the link itself."""

    id: str
    purpose: Purpose
    account_id: str | None
    user_id: str | None
    role: Role | None
    email: str | None
    created_by: str
    created_at_ms: int
    expires_at_ms: int


def insert_link(tx: Tx, link: Link, token_hash: bytes) -> Link:
    """Store a new link with its audit, of a reset in each account of the person.

    Of a setup and of a person's reset only the newest opens.

    Raises:
        InvalidParams: The account has too many open invitations.
    """
    if link.purpose == "invite":
        if len(list_invitations(tx, link.account_id or "", link.created_at_ms)) >= OPEN_MAX:
            raise InvalidParams(f"There are {OPEN_MAX} open invitations. Take some back first.")
    else:
        tx.execute("DELETE FROM links WHERE purpose = ? AND user_id IS ?", (link.purpose, link.user_id))
    stored = msgspec.structs.replace(link, role=link.role and link.role.value)
    row = (*msgspec.structs.astuple(stored), token_hash)
    insert_rows(tx, f"INSERT INTO links ({_COLUMNS}, token_hash)", [row])
    concerned: list[str | None] = [link.account_id]
    if link.purpose == "reset":
        rows = tx.execute("SELECT account_id FROM memberships WHERE user_id = ?", (link.user_id,))
        concerned = [account_id for (account_id,) in rows] or [None]
    for account_id in concerned:
        insert_audit(
            tx,
            at_ms=link.created_at_ms,
            account_id=account_id,
            actor=link.created_by,
            act=f"link.{link.purpose}",
            subject=link.user_id or link.email or link.id,
            details={} if link.role is None else {"role": link.role.value},
        )
    return link


def find_link(tx: Tx, purpose: Purpose, token_hash: bytes, now_ms: int) -> Link | None:
    """What a token opens now; None if it is unknown, used or over."""
    row = tx.execute(
        f"SELECT {_COLUMNS} FROM links WHERE token_hash = ? AND purpose = ? AND used_at_ms IS NULL"
        " AND expires_at_ms > ?",
        (token_hash, purpose, now_ms),
    ).fetchone()
    return None if row is None else _link(row)


def use_link(tx: Tx, purpose: Purpose, token_hash: bytes, now_ms: int) -> Link:
    """Take what a token opens; it opens nothing afterwards.

    Raises:
        InvalidParams: It opens nothing now.
    """
    link = find_link(tx, purpose, token_hash, now_ms)
    if link is None:
        raise InvalidParams("This link was used already, or is too old. Ask for a new one.")
    tx.execute("UPDATE links SET used_at_ms = ? WHERE id = ?", (now_ms, link.id))
    return link


def list_invitations(tx: Tx, account_id: str, now_ms: int) -> list[Link]:
    """The account's invitations that are open, newest first."""
    rows = tx.execute(
        f"SELECT {_COLUMNS} FROM links WHERE account_id = ? AND purpose = 'invite' AND used_at_ms IS NULL"
        " AND expires_at_ms > ? ORDER BY created_at_ms DESC, id",
        (account_id, now_ms),
    )
    return [_link(row) for row in rows]


def take_back(tx: Tx, *, account_id: str, link_id: str, actor: str, now_ms: int) -> bool:
    """Close an invitation of the account, with its audit row; False if it has none such."""
    gone = tx.execute(
        "DELETE FROM links WHERE id = ? AND account_id = ? AND purpose = 'invite' AND used_at_ms IS NULL",
        (link_id, account_id),
    ).rowcount
    if gone:
        insert_audit(
            tx, at_ms=now_ms, account_id=account_id, actor=actor, act="link.take_back", subject=link_id
        )
    return gone == 1


def take_back_of(tx: Tx, account_id: str, user_id: str) -> int:
    """Close the account's open invitations that a person made; returns how many."""
    return tx.execute(
        "DELETE FROM links WHERE account_id = ? AND created_by = ? AND purpose = 'invite'"
        " AND used_at_ms IS NULL",
        (account_id, user_id),
    ).rowcount


def drop_resets(tx: Tx, user_id: str) -> None:
    """Forget the links by which a person could get another password."""
    tx.execute("DELETE FROM links WHERE purpose = 'reset' AND user_id = ?", (user_id,))


def prune_links(tx: Tx, before_ms: int, limit: int) -> int:
    """Forget links that were over before that, `limit` at a time; returns how many."""
    return prune_rows(tx, "links", "id", "expires_at_ms", before_ms, limit)


def _link(row: tuple[object, ...]) -> Link:
    link = Link(*row)  # type: ignore[arg-type]
    return link if link.role is None else msgspec.structs.replace(link, role=Role(link.role))
