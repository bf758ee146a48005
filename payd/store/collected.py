"""What buyers answered, sealed; and the end of what nobody needs any more.

Who has only the database reads none of it; whoever opens it must name the payment that it belongs to.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from payd.core.caip import parse_account
from payd.core.collect import Answered, holder_of
from payd.core.errors import RateLimited
from payd.core.payment import Payment
from payd.core.status import Status
from payd.store.payments import find_payment
from payd.store.retention import Pruned
from payd.store.rows import prune_rows
from payd.store.seal import Seal

Tx: TypeAlias = sqlite3.Connection

# Of one payment. An answer of the gateway has no more options, and a buyer fills in the form for one or two.
HOLDERS_MAX: Final = 50

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(list[Answered]).decode


class Collected(msgspec.Struct, frozen=True):
    """What was answered for one holder, still sealed."""

    payment_id: str
    holder: str
    sealed: bytes
    collected_at_ms: int

    def open(self, seal: Seal) -> list[Answered]:
        """The answers.

        Raises:
            SealBroken: Another key sealed them.
        """
        return _decode(seal.open(self.sealed, subject_of(self.payment_id, self.holder)))


def sealed_answers(seal: Seal, payment_id: str, holder: str, answers: Sequence[Answered]) -> bytes:
    """Answers, readable only with the key, and only as those of this payment and holder."""
    return seal.seal(_encode(list(answers)), subject_of(payment_id, holder))


def put_collected(tx: Tx, collected: Collected) -> None:
    """Store answers, in place of earlier ones of the same holder.

    Raises:
        RateLimited: The payment has those of as many holders as it may have.
    """
    (others,) = tx.execute(
        "SELECT count(*) FROM collected WHERE payment_id = ? AND holder <> ?",
        (collected.payment_id, collected.holder),
    ).fetchone()
    if others >= HOLDERS_MAX:
        raise RateLimited(
            f"Details were given for {HOLDERS_MAX} accounts, which is the most.", details={"retryAfterS": 60}
        )
    tx.execute(
        "INSERT INTO collected (payment_id, holder, sealed, collected_at_ms) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (payment_id, holder)"
        " DO UPDATE SET sealed = excluded.sealed, collected_at_ms = excluded.collected_at_ms",
        (collected.payment_id, collected.holder, collected.sealed, collected.collected_at_ms),
    )


def holders_of(tx: Tx, payment_id: str) -> frozenset[str]:
    """Whose answers a payment has."""
    rows = tx.execute("SELECT holder FROM collected WHERE payment_id = ?", (payment_id,))
    return frozenset(str(holder) for (holder,) in rows)


def buyers_answers(tx: Tx, payment: Payment) -> Collected | None:
    """The answers of who paid; None before funds are committed, or where nothing was asked."""
    holder = _buyer(payment)
    if holder is None:
        return None
    row = tx.execute(
        "SELECT payment_id, holder, sealed, collected_at_ms FROM collected"
        " WHERE payment_id = ? AND holder = ?",
        (payment.id, holder),
    ).fetchone()
    return None if row is None else Collected(*row)


def prune_collected(tx: Tx, before_ms: int, limit: int) -> int:
    """Forget answers that were given before that; returns how many."""
    return prune_rows(tx, "collected", "seq", "collected_at_ms", before_ms, limit)


def sort_collected(tx: Tx, after_seq: int, before_ms: int, limit: int) -> Pruned:
    """Forget answers of who did not pay, among the `limit` next ones that were not looked at since.

    Args:
        tx: The step's transaction.
        after_seq: Go on after this row.
        before_ms: Those of payments that have not moved since then; a form may just be on its way.
        limit: How many rows to look at.
    """
    rows = tx.execute(
        "SELECT seq, payment_id, holder FROM collected WHERE of_buyer = 0 AND seq > ? ORDER BY seq LIMIT ?",
        (after_seq, limit),
    ).fetchall()
    gone = 0
    for seq, payment_id, holder in rows:
        payment = find_payment(tx, payment_id)
        assert payment is not None, "payments are never deleted"
        if payment.status is Status.REQUIRES_ACTION or payment.updated_at_ms >= before_ms:
            continue
        if _buyer(payment) == holder:
            tx.execute("UPDATE collected SET of_buyer = 1 WHERE seq = ?", (seq,))
        else:
            gone += tx.execute("DELETE FROM collected WHERE seq = ?", (seq,)).rowcount
    return Pruned(gone, rows[-1][0] if len(rows) == limit else None)


def _buyer(payment: Payment) -> str | None:
    if payment.processing is None or payment.processing.buyer is None:
        return None
    return holder_of(parse_account(payment.processing.buyer))


def subject_of(payment_id: str, holder: str) -> str:
    """What answers are sealed for."""
    return f"collected:{payment_id}:{holder}"
