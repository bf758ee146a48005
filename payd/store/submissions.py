"""Signed transactions that are owed to a chain as they are: open until final there, or unable to land."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from payd.core.submission import Submission

Tx: TypeAlias = sqlite3.Connection

SubmissionState = Literal["open", "landed", "dead"]

_COLUMNS: Final = (
    "seq, payment_id, chain, buyer, tx_id, raw, valid_until_height, state, left_us, reason, created_at_ms,"
    " sent_at_ms"
)


class StoredSubmission(msgspec.Struct, frozen=True):
    """A stored submission.

    Attributes:
        left_us: Whether its bytes were ever sent, or were about to be: it may land by anyone's hand.
        reason: Why it is dead; for people.
        sent_at_ms: When it was sent last.
    """

    seq: int
    payment_id: str
    chain: str
    buyer: str
    tx_id: str
    raw: bytes
    valid_until_height: int
    state: SubmissionState
    left_us: bool
    reason: str | None
    created_at_ms: int
    sent_at_ms: int | None


def insert_submission(tx: Tx, payment_id: str, submission: Submission, now_ms: int) -> None:
    """Owe a chain a transaction; in the transaction that commits its funds, and once for each payment."""
    tx.execute(
        "INSERT INTO submissions (payment_id, chain, buyer, tx_id, raw, valid_until_height, state,"
        " created_at_ms) VALUES (?, ?, ?, ?, ?, ?, 'open', ?)",
        (
            payment_id,
            submission.chain,
            submission.buyer,
            submission.tx_id,
            submission.raw,
            submission.valid_until_height,
            now_ms,
        ),
    )


def find_submission(tx: Tx, payment_id: str) -> StoredSubmission | None:
    """What is owed for a payment, or was."""
    row = tx.execute(f"SELECT {_COLUMNS} FROM submissions WHERE payment_id = ?", (payment_id,)).fetchone()
    return None if row is None else _stored(row)


def payment_bringing(tx: Tx, chain: str, tx_id: str) -> str | None:
    """The payment that a transaction was given for."""
    row = tx.execute(
        "SELECT payment_id FROM submissions WHERE chain = ? AND tx_id = ?", (chain, tx_id)
    ).fetchone()
    return None if row is None else str(row[0])


def open_submissions(tx: Tx, chain: str, after_seq: int, limit: int) -> list[StoredSubmission]:
    """Those that may still land, oldest first."""
    rows = tx.execute(
        f"SELECT {_COLUMNS} FROM submissions WHERE chain = ? AND state = 'open' AND seq > ?"
        " ORDER BY seq LIMIT ?",
        (chain, after_seq, limit),
    )
    return [_stored(row) for row in rows]


def latest_submissions(tx: Tx, chain: str, limit: int) -> list[StoredSubmission]:
    """Those of the open ones that never left, and after them the newest, as many as there is room for."""
    rows = tx.execute(
        f"SELECT {_COLUMNS} FROM submissions WHERE seq IN (SELECT seq FROM submissions"
        " WHERE chain = ? AND state = 'open' ORDER BY left_us, seq DESC LIMIT ?) ORDER BY left_us, seq DESC",
        (chain, limit),
    )
    return [_stored(row) for row in rows]


def count_open(tx: Tx, chain: str) -> tuple[int, int]:
    """How many may still land: those that have left, and those that have not."""
    left, stays = tx.execute(
        "SELECT coalesce(sum(left_us), 0), coalesce(sum(1 - left_us), 0) FROM submissions"
        " WHERE chain = ? AND state = 'open'",
        (chain,),
    ).fetchone()
    return int(left), int(stays)


def untold_ends(tx: Tx, chain: str, limit: int) -> list[str]:
    """The processing payments whose transactions are dead, newest first: nothing has come of that so far."""
    rows = tx.execute(
        "SELECT s.payment_id FROM submissions s JOIN payments p ON p.id = s.payment_id"
        " WHERE s.chain = ? AND s.state = 'dead' AND p.status = 'processing' ORDER BY s.seq DESC LIMIT ?",
        (chain, limit),
    )
    return [str(row[0]) for row in rows]


def note_leaving(tx: Tx, seqs: Sequence[int], now_ms: int) -> None:
    """Note that they are about to be sent; stored before any node sees them."""
    tx.executemany(
        "UPDATE submissions SET left_us = 1, sent_at_ms = ? WHERE seq = ?", [(now_ms, seq) for seq in seqs]
    )


def end_submission(tx: Tx, seq: int, state: Literal["landed", "dead"], reason: str | None = None) -> bool:
    """Note what became of one. Returns whether it was open."""
    changed = tx.execute(
        "UPDATE submissions SET state = ?, reason = ? WHERE seq = ? AND state = 'open'",
        (state, reason, seq),
    )
    return changed.rowcount == 1


def _stored(row: tuple[object, ...]) -> StoredSubmission:
    found = StoredSubmission(*row)  # type: ignore[arg-type]
    return msgspec.structs.replace(found, left_us=bool(found.left_us))
