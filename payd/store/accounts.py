"""Accounts: who owns merchants, keys and endpoints. They live in the office, what they own in the realms."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

import msgspec

from payd.core.errors import InvalidParams, NotFound
from payd.core.text import is_one_line
from payd.core.version import check_move
from payd.store.audit import insert_audit

NAME_MAX: Final = 100  # it stands on one line wherever it is shown
ACCOUNTS_MAX: Final = 10_000  # lists of accounts are not paged

_COLUMNS: Final = "id, name, api_version, created_at_ms"


class Account(msgspec.Struct, frozen=True, rename="camel"):
    """One account. `api_version` is pinned at creation; `created_at_ms` is Unix milliseconds."""

    id: str
    name: str
    api_version: str
    created_at_ms: int


def insert_account(tx: sqlite3.Connection, account: Account) -> Account:
    """Store a new account.

    Raises:
        InvalidParams: The name is taken or unusable, or there are too many accounts.
    """
    check_name(account.name)
    if tx.execute("SELECT 1 FROM accounts WHERE name = ?", (account.name,)).fetchone():
        raise InvalidParams(f"There is an account named {account.name}. Choose another name.")
    if tx.execute("SELECT count(*) FROM accounts").fetchone()[0] >= ACCOUNTS_MAX:
        raise InvalidParams(f"There are {ACCOUNTS_MAX} accounts; more cannot be made.")
    tx.execute(
        f"INSERT INTO accounts ({_COLUMNS}) VALUES (?, ?, ?, ?)",
        (account.id, account.name, account.api_version, account.created_at_ms),
    )
    return account


def rename_account(tx: sqlite3.Connection, account_id: str, name: str, *, actor: str, now_ms: int) -> Account:
    """Give an account another name; the same again is no act.

    Raises:
        NotFound: There is no such account.
        InvalidParams: The name is another's, or unusable.
    """
    check_name(name)
    account = _existing(tx, account_id)
    if name == account.name:
        return account
    if tx.execute("SELECT 1 FROM accounts WHERE name = ?", (name,)).fetchone():
        raise InvalidParams(f"There is an account named {name}. Choose another name.")
    tx.execute("UPDATE accounts SET name = ? WHERE id = ?", (name, account_id))
    _audit(tx, account_id, "account.rename", account.name, name, actor, now_ms)
    return msgspec.structs.replace(account, name=name)


def move_account(
    tx: sqlite3.Connection,
    account_id: str,
    version: str,
    *,
    versions: Sequence[str],
    actor: str,
    now_ms: int,
) -> Account:
    """Pin an account to a newer version of the API; the same again is no act.

    Raises:
        NotFound: There is no such account.
        UnknownApiVersion: There is no such version.
        InvalidApiVersion: It is a preview.
        ApiVersionDowngrade: It is older than the account's own.
    """
    account = _existing(tx, account_id)
    check_move(account.api_version, version, versions)
    if version == account.api_version:
        return account
    tx.execute("UPDATE accounts SET api_version = ? WHERE id = ?", (version, account_id))
    _audit(tx, account_id, "account.version", account.api_version, version, actor, now_ms)
    return msgspec.structs.replace(account, api_version=version)


def find_account(tx: sqlite3.Connection, account_id: str) -> Account | None:
    """The account with this id: one indexed read."""
    row = tx.execute(f"SELECT {_COLUMNS} FROM accounts WHERE id = ?", (account_id,)).fetchone()
    return None if row is None else Account(*row)


def choose_account(tx: sqlite3.Connection, wanted: str | None) -> Account:
    """The account with this id or name; without one, the only account there is.

    Raises:
        NotFound: There is none.
        InvalidParams: There are several, and nobody said which.
    """
    if wanted is not None:
        row = tx.execute(
            f"SELECT {_COLUMNS} FROM accounts WHERE id = ? OR name = ?", (wanted, wanted)
        ).fetchone()
        if row is None:
            raise NotFound(f"There is no account {wanted}. `payd account list` shows those there are.")
        return Account(*row)
    rows = tx.execute(f"SELECT {_COLUMNS} FROM accounts ORDER BY id LIMIT 2").fetchall()
    if not rows:
        raise NotFound("There is no account yet. Make one: `payd account create NAME`")
    if len(rows) > 1:
        raise InvalidParams("There are several accounts. Say which one: --account NAME")
    return Account(*rows[0])


def list_accounts(tx: sqlite3.Connection) -> list[Account]:
    """All accounts, oldest first; at most `ACCOUNTS_MAX`."""
    return [Account(*row) for row in tx.execute(f"SELECT {_COLUMNS} FROM accounts ORDER BY id")]


def _existing(tx: sqlite3.Connection, account_id: str) -> Account:
    account = find_account(tx, account_id)
    if account is None:
        raise NotFound(f"There is no account {account_id}.")
    return account


def _audit(
    tx: sqlite3.Connection, account_id: str, act: str, before: str, after: str, actor: str, now_ms: int
) -> None:
    insert_audit(
        tx,
        at_ms=now_ms,
        account_id=account_id,
        actor=actor,
        act=act,
        subject=account_id,
        details={"from": before, "to": after},
    )


def check_name(name: str) -> None:
    """Refuse a name that cannot be shown on one line.

    Raises:
        InvalidParams: It is empty, too long, or not printable.
    """
    if not name.strip() or len(name) > NAME_MAX or not is_one_line(name) or name != name.strip():
        raise InvalidParams(f"A name is 1 to {NAME_MAX} printable characters, without spaces at its ends.")
