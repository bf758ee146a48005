"""API keys of one realm: their hashes, scopes and merchants. The key itself is never stored.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"; SPEC.md, "Authentication".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from typing import Final, Literal

import msgspec

from payd.core.errors import InvalidParams, NotFound
from payd.core.ids import LIVE_KEY_PREFIX, TEST_KEY_PREFIX, api_key_realm, hash_api_key
from payd.store.accounts import check_name
from payd.store.audit import insert_audit

SCOPES: Final = (
    "merchants:read",
    "merchants:write",
    "settlements:write",
    "payments:read",
    "payments:write",
    "webhooks:read",
    "webhooks:write",
    "webhooks:secret",
    "gateway",
    "test",
)
"""Everything that a key can be allowed to do."""

DEFAULT_SCOPES: Final[dict[Literal["test", "live"], tuple[str, ...]]] = {
    "test": SCOPES,
    "live": ("merchants:read", "payments:read", "payments:write"),
}
"""What a key may do when its maker does not say."""

LISTENER: Final = "payd listen"
"""The name of the keys that listeners get, each until it is not heard of any more; nobody else's has it."""

LISTENER_SCOPES: Final = ("webhooks:read",)

# Active keys of an account: one for each of its servers and people, and lists are not paged.
KEYS_MAX: Final = 200
# Merchants that a key is limited to: read on every request.
MERCHANTS_MAX: Final = 100

_COLUMNS: Final = "id, account_id, prefix, last4, name, scopes, merchants, created_at_ms, revoked_at_ms"


class Key(msgspec.Struct, frozen=True, rename="camel"):
    """What is known of a key.

    Attributes:
        id: `key_…`.
        account_id: Whose data it opens.
        prefix: `svc_test_` or `svc_`; with `last4` enough for a person to recognise it.
        last4: Its last four characters.
        name: For people.
        scopes: Some of `SCOPES`.
        merchants: The merchants it is limited to; None is all of the account.
        created_at_ms: Unix milliseconds.
        revoked_at_ms: Since when it opens nothing.
    """

    id: str
    account_id: str
    prefix: str
    last4: str
    name: str
    scopes: frozenset[str]
    merchants: frozenset[str] | None
    created_at_ms: int
    revoked_at_ms: int | None = None


def insert_key(
    tx: sqlite3.Connection,
    *,
    key_id: str,
    account_id: str,
    api_key: str,
    name: str,
    scopes: Collection[str] | None,
    merchants: Sequence[str] | None,
    actor: str,
    now_ms: int,
    is_listener: bool = False,
) -> Key:
    """Store the hash of a new key, with its audit row.

    Args:
        tx: The step's transaction.
        key_id: A fresh `key_…`.
        account_id: Whose key it is.
        api_key: The key, from `core.ids.make_api_key`; shown to its owner once and forgotten.
        name: For people.
        scopes: Some of `SCOPES`; None is the default of its realm.
        merchants: Limit it to these merchants of the account; None is no limit.
        actor: Who does it, as `insert_audit` takes it.
        now_ms: The realm's time.
        is_listener: Whether it is made for a listener, and ends with it.

    Raises:
        InvalidParams: A scope is unknown, the name is unusable or a listener's, or the account has too many
            keys.
        NotFound: A merchant is not the account's.
    """
    realm = api_key_realm(api_key)
    assert realm is not None, "core.ids.make_api_key made it"
    _check_key_name(name, is_listener=is_listener)
    key = Key(
        id=key_id,
        account_id=account_id,
        prefix=TEST_KEY_PREFIX if realm == "test" else LIVE_KEY_PREFIX,
        last4=api_key[-4:],
        name=name,
        scopes=_checked_scopes(DEFAULT_SCOPES[realm] if scopes is None else scopes),
        merchants=None if merchants is None else _checked_merchants(tx, account_id, merchants),
        created_at_ms=now_ms,
    )
    active = "SELECT count(*) FROM api_keys WHERE account_id = ? AND revoked_at_ms IS NULL"
    if tx.execute(active, (account_id,)).fetchone()[0] >= KEYS_MAX:
        raise InvalidParams(f"The account has {KEYS_MAX} keys. Revoke one that is not in use.")
    scope_text = " ".join(scope for scope in SCOPES if scope in key.scopes)
    merchant_text = None if key.merchants is None else " ".join(sorted(key.merchants))
    tx.execute(
        f"INSERT INTO api_keys (hash, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
        (
            hash_api_key(api_key), key.id, account_id, key.prefix, key.last4, name, scope_text, merchant_text,
            now_ms,
        ),
    )  # fmt: skip
    insert_audit(
        tx,
        at_ms=now_ms,
        account_id=account_id,
        actor=actor,
        act="key.create",
        subject=key.id,
        details={"name": name, "last4": key.last4, "scopes": scope_text, "merchants": merchant_text},
    )
    return key


def find_key(tx: sqlite3.Connection, key_hash: bytes) -> Key | None:
    """The key with this hash unless it is revoked: one indexed read, made for every request."""
    key = find_made_key(tx, key_hash)
    return None if key is None or key.revoked_at_ms is not None else key


def find_made_key(tx: sqlite3.Connection, key_hash: bytes) -> Key | None:
    """The key with this hash, also when it is revoked."""
    row = tx.execute(f"SELECT {_COLUMNS} FROM api_keys WHERE hash = ?", (key_hash,)).fetchone()
    return None if row is None else _key(row)


def list_keys(tx: sqlite3.Connection, account_id: str, revoked_since_ms: int = 0) -> list[Key]:
    """The account's keys, oldest first; of revoked ones those that were it since then."""
    rows = tx.execute(
        f"SELECT {_COLUMNS} FROM api_keys"
        " WHERE account_id = ? AND coalesce(revoked_at_ms, ?) >= ? ORDER BY id",
        (account_id, revoked_since_ms, revoked_since_ms),
    )
    return [_key(row) for row in rows]


def listener_keys(tx: sqlite3.Connection) -> list[Key]:
    """The keys of listeners, of all accounts, that are not revoked, oldest first; reads all keys.

    By what they may do as well: an earlier payd let people give their own keys that name.
    """
    rows = tx.execute(
        f"SELECT {_COLUMNS} FROM api_keys WHERE name = ? AND scopes = ? AND merchants IS NULL"
        " AND revoked_at_ms IS NULL ORDER BY id",
        (LISTENER, " ".join(LISTENER_SCOPES)),
    )
    return [_key(row) for row in rows]


def revoke_key(tx: sqlite3.Connection, *, account_id: str, key_id: str, actor: str, now_ms: int) -> Key:
    """Make a key open nothing from now on, with its audit row; one that was revoked before stays as it is.

    Raises:
        NotFound: The account has no such key.
    """
    row = tx.execute(
        f"SELECT {_COLUMNS} FROM api_keys WHERE id = ? AND account_id = ?", (key_id, account_id)
    ).fetchone()
    if row is None:
        raise NotFound(f"There is no key {key_id}. `payd key list` shows the ids.")
    key = _key(row)
    if key.revoked_at_ms is not None:
        return key
    tx.execute("UPDATE api_keys SET revoked_at_ms = ? WHERE id = ?", (now_ms, key_id))
    insert_audit(
        tx,
        at_ms=now_ms,
        account_id=account_id,
        actor=actor,
        act="key.revoke",
        subject=key_id,
        details={"name": key.name, "last4": key.last4},
    )
    return msgspec.structs.replace(key, revoked_at_ms=now_ms)


def _key(row: tuple[str, str, str, str, str, str, str | None, int, int | None]) -> Key:
    limited_to = None if row[6] is None else frozenset(row[6].split())
    return Key(*row[:5], frozenset(row[5].split()), limited_to, *row[7:])


def _check_key_name(name: str, *, is_listener: bool) -> None:
    check_name(name)
    if name == LISTENER and not is_listener:
        raise InvalidParams(
            f"{LISTENER} is the name of keys that it makes for itself, and that are revoked once nobody"
            " listens with them. Choose another name."
        )


def _checked_scopes(scopes: Collection[str]) -> frozenset[str]:
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown:
        raise InvalidParams(f"There is no scope {unknown[0]}. Scopes are: {', '.join(SCOPES)}.")
    if not scopes:
        raise InvalidParams("A key needs at least one scope.")
    return frozenset(scopes)


def _checked_merchants(tx: sqlite3.Connection, account_id: str, merchants: Sequence[str]) -> frozenset[str]:
    if not 1 <= len(merchants) <= MERCHANTS_MAX:
        raise InvalidParams(f"A key can be limited to 1 to {MERCHANTS_MAX} merchants.")
    for merchant_id in merchants:
        if not tx.execute(
            "SELECT 1 FROM merchants WHERE id = ? AND account_id = ? AND deleted_at_ms IS NULL",
            (merchant_id, account_id),
        ).fetchone():
            raise NotFound(f"There is no merchant {merchant_id}. `payd merchant list` shows the ids.")
    return frozenset(merchants)
