"""How far each chain was read, and the newest blocks of it: where to go on, and where a reorg begins.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

import msgspec

Tx: TypeAlias = sqlite3.Connection

CursorKind = Literal["head", "final", "closed"]
"""head: the newest block that was read. final: read for a second time up to here, once it was final. closed:
read from another node up to here before that, because a window ended."""

# A reorg that reaches deeper than the blocks that are kept is followed from where the chain was final.
BLOCKS_KEPT: Final = 1024


class TwoReaders(RuntimeError):
    """The cursor is not where the reading began: its watcher is not its only reader."""


class Cursor(msgspec.Struct, frozen=True):
    """A block; `time_s` by the chain's own clock."""

    number: int
    hash: str
    time_s: int


def find_cursor(tx: Tx, chain: str, kind: CursorKind) -> Cursor | None:
    """Up to where the chain was read; None before it ever was."""
    row = tx.execute(
        "SELECT number, hash, time_s FROM chain_cursors WHERE chain = ? AND kind = ?", (chain, kind)
    ).fetchone()
    return None if row is None else Cursor(*row)


def closed_until_s(tx: Tx, chain: str) -> int:
    """The time up to which windows close, by two nodes' word where there are two; 0 before the first."""
    closed = find_cursor(tx, chain, "closed")
    return 0 if closed is None else closed.time_s


def move_cursor(tx: Tx, chain: str, kind: CursorKind, before: Cursor | None, after: Cursor) -> None:
    """Note that the chain was read from `before` up to `after`; in the transaction with what was found.

    Raises:
        TwoReaders: The cursor has been moved since the reading began.
    """
    if find_cursor(tx, chain, kind) != before:
        raise TwoReaders(f"two readers of {chain}")
    tx.execute(
        "INSERT INTO chain_cursors (chain, kind, number, hash, time_s) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET number = excluded.number, hash = excluded.hash, time_s = excluded.time_s",
        (chain, kind, after.number, after.hash, after.time_s),
    )


def turn_back(tx: Tx, chain: str, to: Cursor) -> None:
    """Have the chain read again from this block on; what was known of the blocks above it is forgotten.

    Its time is one node's word: nothing ends by it that two have not read.
    """
    tx.execute(
        "UPDATE chain_cursors SET number = :number, hash = :hash,"
        " time_s = iif(kind = 'head', :time_s, min(time_s, :time_s))"
        " WHERE chain = :chain AND (kind = 'head' OR number >= :number)",
        {"number": to.number, "hash": to.hash, "time_s": to.time_s, "chain": chain},
    )
    tx.execute("DELETE FROM chain_blocks WHERE chain = ? AND number >= ?", (chain, to.number))
    keep_blocks(tx, chain, [(to.number, to.hash)])


def keep_blocks(tx: Tx, chain: str, blocks: Iterable[tuple[int, str]]) -> None:
    """Keep numbers and hashes of blocks that were read, and forget those that are `BLOCKS_KEPT` below."""
    tx.executemany(
        "INSERT INTO chain_blocks (chain, number, hash) VALUES (?, ?, ?)"
        " ON CONFLICT DO UPDATE SET hash = excluded.hash",
        [(chain, number, block_hash) for number, block_hash in blocks],
    )
    tx.execute(
        "DELETE FROM chain_blocks WHERE chain = :chain"
        " AND number <= (SELECT max(number) FROM chain_blocks WHERE chain = :chain) - :kept",
        {"chain": chain, "kept": BLOCKS_KEPT},
    )


def kept_hash(tx: Tx, chain: str, number: int) -> str | None:
    """The hash of a block that was read; None where it is not kept."""
    query = "SELECT hash FROM chain_blocks WHERE chain = ? AND number = ?"
    row = tx.execute(query, (chain, number)).fetchone()
    return None if row is None else str(row[0])


def blocks_below(tx: Tx, chain: str, number: int, limit: int) -> list[tuple[int, str]]:
    """The newest kept blocks below this one as `(number, hash)`, newest first."""
    return tx.execute(
        "SELECT number, hash FROM chain_blocks WHERE chain = ? AND number < ? ORDER BY number DESC LIMIT ?",
        (chain, number, limit),
    ).fetchall()
