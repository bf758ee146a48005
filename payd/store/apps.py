"""App ids of one realm: how wallets and the checkout page say who they are. They are public and open no data.

Source: SPEC.md, "Authentication".
"""

from __future__ import annotations

import sqlite3
from typing import Final

import msgspec

from payd.core.errors import InvalidParams, NotFound
from payd.store.accounts import check_name
from payd.store.audit import insert_audit

CHECKOUT_NAME: Final = "Checkout page"
APPS_MAX: Final = 200  # active ones of an account: lists are not paged

_COLUMNS: Final = "id, account_id, name, created_at_ms, revoked_at_ms"


class App(msgspec.Struct, frozen=True, rename="camel"):
    """One app id; `account_id` is None for the checkout page's own."""

    id: str
    account_id: str | None
    name: str
    created_at_ms: int
    revoked_at_ms: int | None = None


def insert_app(
    tx: sqlite3.Connection, *, app_id: str, account_id: str | None, name: str, actor: str, now_ms: int
) -> App:
    """Store a new app id, with its audit row.

    Raises:
        InvalidParams: The name is unusable, or the account has too many apps.
    """
    check_name(name)
    active = "SELECT count(*) FROM apps WHERE account_id IS ? AND revoked_at_ms IS NULL"
    if tx.execute(active, (account_id,)).fetchone()[0] >= APPS_MAX:
        raise InvalidParams(f"The account has {APPS_MAX} apps. Revoke one that is not in use.")
    tx.execute(f"INSERT INTO apps ({_COLUMNS}) VALUES (?, ?, ?, ?, NULL)", (app_id, account_id, name, now_ms))
    insert_audit(
        tx,
        at_ms=now_ms,
        account_id=account_id,
        actor=actor,
        act="app.create",
        subject=app_id,
        details={"name": name},
    )
    return App(app_id, account_id, name, now_ms)


def find_app(tx: sqlite3.Connection, app_id: str) -> App | None:
    """The app with this id unless it is revoked: one indexed read."""
    row = tx.execute(
        f"SELECT {_COLUMNS} FROM apps WHERE id = ? AND revoked_at_ms IS NULL", (app_id,)
    ).fetchone()
    return None if row is None else App(*row)


def list_apps(tx: sqlite3.Connection, account_id: str) -> list[App]:
    """The account's apps, revoked ones too, oldest first."""
    rows = tx.execute(f"SELECT {_COLUMNS} FROM apps WHERE account_id = ? ORDER BY id", (account_id,))
    return [App(*row) for row in rows]


def revoke_app(tx: sqlite3.Connection, *, account_id: str, app_id: str, actor: str, now_ms: int) -> App:
    """Make an app id identify nobody from now on, with its audit row; revoking it twice changes nothing.

    Raises:
        NotFound: The account has no such app.
    """
    row = tx.execute(
        f"SELECT {_COLUMNS} FROM apps WHERE id = ? AND account_id = ?", (app_id, account_id)
    ).fetchone()
    if row is None:
        raise NotFound(f"There is no app {app_id}. `payd app list` shows the ids.")
    app = App(*row)
    if app.revoked_at_ms is not None:
        return app
    tx.execute("UPDATE apps SET revoked_at_ms = ? WHERE id = ?", (now_ms, app_id))
    insert_audit(
        tx,
        at_ms=now_ms,
        account_id=account_id,
        actor=actor,
        act="app.revoke",
        subject=app_id,
        details={"name": app.name},
    )
    return msgspec.structs.replace(app, revoked_at_ms=now_ms)


def ensure_checkout_app(tx: sqlite3.Connection, *, app_id: str, now_ms: int) -> str:
    """The checkout page's own app id; `app_id` becomes it when the realm has none yet."""
    row = tx.execute("SELECT id FROM apps WHERE account_id IS NULL AND revoked_at_ms IS NULL").fetchone()
    if row is not None:
        return str(row[0])
    return insert_app(
        tx, app_id=app_id, account_id=None, name=CHECKOUT_NAME, actor="server", now_ms=now_ms
    ).id
