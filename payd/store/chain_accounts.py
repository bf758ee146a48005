"""How far each account of a chain was listed, where chains are read by account.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from typing import TypeAlias

import msgspec

from payd.store.chain_cursors import CursorKind

Tx: TypeAlias = sqlite3.Connection


class AccountCursor(msgspec.Struct, frozen=True):
    """Everything up to a transaction was read, and is final.

    Attributes:
        address: Whose transactions are listed.
        tx_id: The last one; empty: none so far.
        slot: The one that it is in; nothing below it is looked for.
    """

    address: str
    tx_id: str
    slot: int


def account_cursors(tx: Tx, chain: str, kind: CursorKind) -> dict[str, AccountCursor]:
    """How far each account was listed, by its address."""
    rows = tx.execute(
        "SELECT address, tx_id, slot FROM chain_accounts WHERE chain = ? AND kind = ?", (chain, kind)
    )
    return {row[0]: AccountCursor(*row) for row in rows}


def move_accounts(tx: Tx, chain: str, kind: CursorKind, cursors: Sequence[AccountCursor]) -> None:
    """Note how far accounts were listed; in the transaction with what was found."""
    tx.executemany(
        "INSERT INTO chain_accounts (chain, address, kind, tx_id, slot) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET tx_id = excluded.tx_id, slot = excluded.slot",
        [(chain, one.address, kind, one.tx_id, one.slot) for one in cursors],
    )


def keep_accounts(tx: Tx, chain: str, addresses: Collection[str]) -> int:
    """Forget all other accounts: once they are looked for again, then from that time on. How many rows."""
    rows = tx.execute("SELECT DISTINCT address FROM chain_accounts WHERE chain = ?", (chain,)).fetchall()
    gone = [(chain, address) for (address,) in rows if address not in addresses]
    for one in gone:
        tx.execute("DELETE FROM chain_accounts WHERE chain = ? AND address = ?", one)
    return len(gone)
