"""Merchants: who receives payments."""

from __future__ import annotations

import sqlite3
from typing import Final, TypeAlias

import msgspec

from payd.core.collect import Field
from payd.store.logos import delete_logo

Tx: TypeAlias = sqlite3.Connection

_COLUMNS: Final = "id, account_id, name, email, icon_url, status, created_at_ms, collect"

NO_MERCHANT: Final = (
    "There is no merchant with this Merchant-Id in the mode of this key; test and live have their own."
)

_encode_fields: Final = msgspec.json.Encoder().encode
_decode_fields: Final = msgspec.json.Decoder(tuple[Field, ...]).decode


class Merchant(msgspec.Struct, frozen=True):
    """One merchant. `status` is active, inactive or suspended; `collect` is what it asks of its buyers."""

    id: str
    account_id: str
    name: str
    email: str
    icon_url: str | None
    status: str
    created_at_ms: int
    collect: tuple[Field, ...] = ()


def insert_merchant(tx: Tx, merchant: Merchant) -> None:
    """Store a new merchant."""
    *values, collect = msgspec.structs.astuple(merchant)
    tx.execute(
        f"INSERT INTO merchants ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (*values, _encode_fields(collect)),
    )


def find_merchant(tx: Tx, merchant_id: str) -> Merchant | None:
    """A merchant that was not deleted."""
    row = tx.execute(
        f"SELECT {_COLUMNS} FROM merchants WHERE id = ? AND deleted_at_ms IS NULL", (merchant_id,)
    ).fetchone()
    return None if row is None else _merchant(row)


def standing(tx: Tx, merchant_id: str) -> tuple[str, str, bool] | None:
    """Whose merchant it is, its status, and whether it has a destination; None of a deleted one."""
    row = tx.execute(
        "SELECT account_id, status, EXISTS (SELECT 1 FROM settlements s WHERE s.merchant_id = merchants.id)"
        " FROM merchants WHERE id = ? AND deleted_at_ms IS NULL",
        (merchant_id,),
    ).fetchone()
    return None if row is None else (row[0], row[1], bool(row[2]))


def account_of_merchant(tx: Tx, merchant_id: str) -> str | None:
    """Whose merchant it is, also of a deleted one: its payments stay."""
    row = tx.execute("SELECT account_id FROM merchants WHERE id = ?", (merchant_id,)).fetchone()
    return None if row is None else str(row[0])


def named_merchants(tx: Tx, ids: list[str]) -> dict[str, tuple[str, str | None]]:
    """Name and icon by id, also of deleted merchants: their payments are still shown."""
    marks = ",".join("?" * len(ids))
    rows = tx.execute(f"SELECT id, name, icon_url FROM merchants WHERE id IN ({marks})", ids)
    return {merchant_id: (name, icon_url) for merchant_id, name, icon_url in rows}


def fields_asked(tx: Tx, merchant_id: str) -> tuple[Field, ...]:
    """What a merchant asks of its buyers, also a deleted one: its payments stay."""
    row = tx.execute("SELECT collect FROM merchants WHERE id = ?", (merchant_id,)).fetchone()
    return () if row is None else _decode_fields(row[0])


def update_merchant(tx: Tx, merchant: Merchant) -> None:
    """Store changed fields of a merchant."""
    tx.execute(
        "UPDATE merchants SET name = ?, email = ?, icon_url = ?, status = ?, collect = ? WHERE id = ?",
        (
            merchant.name,
            merchant.email,
            merchant.icon_url,
            merchant.status,
            _encode_fields(merchant.collect),
            merchant.id,
        ),
    )


def delete_merchant(tx: Tx, account_id: str, merchant_id: str, now_ms: int) -> bool:
    """Mark a merchant deleted; its payments stay, its logo goes. Returns whether the account ever had it."""
    tx.execute(
        "UPDATE merchants SET deleted_at_ms = ? WHERE id = ? AND account_id = ? AND deleted_at_ms IS NULL",
        (now_ms, merchant_id, account_id),
    )
    row = tx.execute("SELECT 1 FROM merchants WHERE id = ? AND account_id = ?", (merchant_id, account_id))
    if row.fetchone() is None:
        return False
    delete_logo(tx, merchant_id)
    return True


def list_merchants(
    tx: Tx,
    account_id: str,
    *,
    only: list[str] | None = None,
    status: str | None = None,
    search: str | None = None,
    after: tuple[int, str] | None = None,
    limit: int,
) -> tuple[list[Merchant], int]:
    """A page of the account's merchants, oldest first, and how many match in all.

    Args:
        tx: A reading transaction.
        account_id: Whose.
        only: When given, no other ids.
        status: When given, no other status.
        search: Part of a name or an id; case does not matter.
        after: `(created_at_ms, id)` of the last one seen.
        limit: At most this many.
    """
    where = ["account_id = ?", "deleted_at_ms IS NULL"]
    values: list[str | int] = [account_id]
    if only is not None:
        where.append(f"id IN ({','.join('?' * len(only))})")
        values += only
    if status is not None:
        where.append("status = ?")
        values.append(status)
    if search is not None:
        # SQLite's own lower() knows ASCII only.
        tx.create_function("casefold", 1, str.casefold, deterministic=True)
        where.append("(instr(casefold(name), ?) OR instr(id, ?))")
        values += [search.casefold(), search.casefold()]
    condition = " AND ".join(where)
    (total,) = tx.execute(f"SELECT count(*) FROM merchants WHERE {condition}", values).fetchone()
    if after is not None:
        condition += " AND (created_at_ms, id) > (?, ?)"
        values += after
    rows = tx.execute(
        f"SELECT {_COLUMNS} FROM merchants WHERE {condition} ORDER BY created_at_ms, id LIMIT ?",
        (*values, limit),
    )
    return [_merchant(row) for row in rows], total


def _merchant(row: tuple[str, str, str, str, str | None, str, int, bytes]) -> Merchant:
    return Merchant(*row[:-1], _decode_fields(row[-1]))
