"""Transfers that a chain showed, whether or not they paid for something; each is stored once."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from payd.core.transfer import Kind
from payd.store.rows import upsert_rows

Tx: TypeAlias = sqlite3.Connection

_COLUMNS: Final = (
    "account_id, payment_id, chain, tx_id, log_index, asset, value, sender, recipient, kind, seen_at_ms,"
    " block_number, block_hash"
)


class Follow(msgspec.Struct, frozen=True):
    """Which stored transfer pays a payment, and when the chain is to be looked at again for it.

    Attributes:
        chain: CAIP-2.
        tx_id: Of the transfer.
        block_hash: The block that it is in; once it is in another one, nothing of what was found holds.
        awaits: Until the head is at `look_at`, or its block is final; None: nothing more is to come.
        look_at: A block number.
    """

    chain: str
    tx_id: str
    block_hash: str
    awaits: Literal["depth", "final"] | None
    look_at: int | None = None


class Transfer(msgspec.Struct, frozen=True):
    """One stored transfer.

    Attributes:
        value: In minor units of the asset.
        block_number: Where it is, or was before a reorg took it; None of what no real chain showed.
        block_hash: The block that it is in; None once a reorg took it, until it is seen again.
    """

    account_id: str | None
    payment_id: str | None
    chain: str
    tx_id: str
    log_index: int
    asset: str
    value: str
    sender: str
    recipient: str
    kind: Kind
    seen_at_ms: int
    block_number: int | None = None
    block_hash: str | None = None

    @property
    def is_on_chain(self) -> bool:
        """Whether its chain shows it, as far as was read."""
        return self.block_number is None or self.block_hash is not None


def match_transfers(tx: Tx, transfers: Sequence[Transfer]) -> bool:
    """Store transfers that pay for something, or claim those that were seen before and paid for nothing.

    Returns:
        False when one of them paid for something else: it can pay for nothing again.
    """
    matched = upsert_rows(
        tx,
        f"INSERT INTO transfers ({_COLUMNS})",
        [msgspec.structs.astuple(one) for one in transfers],
        "ON CONFLICT DO UPDATE SET kind = excluded.kind, account_id = excluded.account_id,"
        " payment_id = excluded.payment_id WHERE kind <> 'matched' OR payment_id = excluded.payment_id",
    )
    return matched == len(transfers)


def keep_unpaid(tx: Tx, transfer: Transfer) -> None:
    """Store a transfer that pays for nothing; one that is there stays as it is."""
    row = msgspec.structs.astuple(transfer)
    upsert_rows(tx, f"INSERT INTO transfers ({_COLUMNS})", [row], "ON CONFLICT DO NOTHING")


def follow_transfer(tx: Tx, payment_id: str, follow: Follow) -> bool:
    """Note when the transfer that pays a payment is looked at next.

    Returns:
        False when there is none such in this block: a reorg took it, or it pays for something else.
    """
    changed = tx.execute(
        "UPDATE transfers SET awaits = ?, look_at = ? WHERE payment_id = ? AND chain = ? AND tx_id = ?"
        " AND kind = 'matched' AND block_hash = ?",
        (follow.awaits, follow.look_at, payment_id, follow.chain, follow.tx_id, follow.block_hash),
    )
    return changed.rowcount >= 1


def transfers_of_payment(tx: Tx, payment_id: str) -> list[Transfer]:
    """What was seen for a payment, oldest first."""
    rows = tx.execute(f"SELECT {_COLUMNS} FROM transfers WHERE payment_id = ? ORDER BY seq", (payment_id,))
    return [Transfer(*row) for row in rows]


def transfers_in(tx: Tx, chain: str, tx_id: str) -> list[Transfer]:
    """What was seen of a transaction, in the order of its logs."""
    rows = tx.execute(
        f"SELECT {_COLUMNS} FROM transfers WHERE chain = ? AND tx_id = ? ORDER BY log_index", (chain, tx_id)
    )
    return [Transfer(*row) for row in rows]


def list_transfers(
    tx: Tx, account_id: str, *, matched: bool | None, before_seq: int | None, limit: int
) -> list[tuple[int, Transfer]]:
    """A page of the account's transfers as `(seq, transfer)`, newest first."""
    where, values = ["account_id = ?"], [account_id]
    if matched is not None:
        where.append("kind = 'matched'" if matched else "kind <> 'matched'")
    if before_seq is not None:
        where.append("seq < ?")
    # What paid for nothing is little among much; SQLite does not know that.
    road = "INDEXED BY transfers_unpaid" if matched is False else ""
    rows = tx.execute(
        f"SELECT seq, {_COLUMNS} FROM transfers {road} WHERE {' AND '.join(where)} ORDER BY seq DESC LIMIT ?",
        (*values, *([] if before_seq is None else [before_seq]), limit),
    )
    return [(row[0], Transfer(*row[1:])) for row in rows]


def paid_among(tx: Tx, payment_ids: Sequence[str]) -> set[str]:
    """Those of the payments that a transfer pays which a chain shows."""
    marks = ",".join("?" * len(payment_ids))
    rows = tx.execute(
        f"SELECT payment_id FROM transfers WHERE payment_id IN ({marks}) AND kind = 'matched'"
        " AND block_hash IS NOT NULL",
        payment_ids,
    )
    return {payment_id for (payment_id,) in rows}
