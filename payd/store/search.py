"""One box that finds anything of an account: what it is, and where its page is.

Every way is an index; each brings a handful. Another account's things are never among them.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias

import msgspec

from payd.core.payment import Payment
from payd.core.search import Sought
from payd.store.merchants import list_merchants
from payd.store.payments import PaymentFilter, decode_payment, list_payments

Tx: TypeAlias = sqlite3.Connection

HitKind = Literal["payment", "merchant", "event", "delivery", "transfer", "settlement", "request", "key"]

# Of each kind; who gets as many looks in the list, where the rest is.
HITS_MAX: Final = 10
# A name is looked for in every merchant's; the words of who looks for a reference are rarely one.
NAME_MIN: Final = 2


class Hit(msgspec.Struct, frozen=True):
    """One thing that was found.

    Attributes:
        kind: What it is, and with `id` where its page is.
        id: Its own; of a transfer the transaction's.
        label: What a person knows it by, such as a payment's reference.
        why: What the text was for it: `id`, `reference`, `transaction`, `buyer`, `sender`, `destination`,
            `name`, `refund`.
        at_ms: When it was made; None where nobody kept that.
        payment_id: The payment that it belongs to; None: to none, or it is one.
        merchant_id: Of a settlement, whose.
    """

    kind: HitKind
    id: str
    label: str
    why: str
    at_ms: int | None = None
    payment_id: str | None = None
    merchant_id: str | None = None


class Found(msgspec.Struct, frozen=True):
    """What was found, the most exact first; `jump` is the one thing that was meant, if there is only one."""

    hits: tuple[Hit, ...]
    jump: Hit | None


def find_anything(tx: Tx, account_id: str, sought: Sought) -> Found:
    """Everything of the account that the text may mean, `HITS_MAX` of each kind at most."""
    hits: dict[tuple[str, str], Hit] = {}
    for hit in _hits(tx, account_id, sought):
        hits.setdefault((hit.kind, hit.id), hit)
    found = tuple(hits.values())
    return Found(found, _meant(sought, found))


def _hits(tx: Tx, account_id: str, sought: Sought) -> Iterator[Hit]:
    if sought.id is not None:
        yield from _by_id(tx, account_id, sought.id, str(sought.kind))
    if sought.tx_id is not None:
        yield from _by_transaction(tx, account_id, sought.tx_id)
    if sought.address is not None:
        yield from _by_address(tx, account_id, sought.address)
    yield from _by_words(tx, account_id, sought)


def _meant(sought: Sought, hits: tuple[Hit, ...]) -> Hit | None:
    """Who pastes an id or a transaction means that, whatever else is called so."""
    if len(hits) == 1:
        return hits[0]
    exact = [hit for hit in hits if hit.why in ("id", "transaction")]
    of_payments = [hit for hit in exact if hit.kind == "payment"]
    if len(of_payments) == 1 and all(hit.payment_id == of_payments[0].id for hit in exact if hit.payment_id):
        return of_payments[0]
    same = [hit for hit in hits if hit.kind == "payment" and hit.label == sought.text]
    return exact[0] if len(exact) == 1 else same[0] if len(same) == 1 and not exact else None


# What is found by an id of its kind.
_BY_ID: Final = {
    "merchant": "SELECT 'merchant', id, name, 'id', created_at_ms, NULL, NULL FROM merchants"
    " WHERE id = :sought AND account_id = :account",
    "event": "SELECT 'event', id, type, 'id', created_at_ms, payment_id, NULL FROM events"
    " WHERE id = :sought AND account_id = :account",
    "message": "SELECT 'delivery', id, event_type, 'id', created_at_ms, payment_id, NULL FROM deliveries"
    " WHERE message_id = :sought AND +account_id = :account",
    "delivery": "SELECT 'delivery', id, event_type, 'id', created_at_ms, payment_id, NULL FROM deliveries"
    " WHERE id = :sought AND +account_id = :account",
    "settlement": "SELECT 'settlement', s.id, s.asset, 'id', s.created_at_ms, NULL, m.id FROM settlements s"
    " JOIN merchants m ON m.id = s.merchant_id WHERE s.id = :sought AND m.account_id = :account",
    "key": "SELECT 'key', id, name, 'id', created_at_ms, NULL, NULL FROM api_keys"
    " WHERE id = :sought AND account_id = :account",
    "request": "SELECT 'request', request_id, method || ' ' || route, 'id', at_ms, NULL, NULL FROM api_log"
    " WHERE request_id = :sought AND account_id = :account",
}


def _by_id(tx: Tx, account_id: str, any_id: str, kind: str) -> Iterator[Hit]:
    if kind == "payment":
        rows = tx.execute("SELECT body FROM payments WHERE id = ? AND account_id = ?", (any_id, account_id))
        yield from (_payment_hit(decode_payment(body), "id") for (body,) in rows)
    elif kind in _BY_ID:
        yield from _rows(tx, _BY_ID[kind], any_id, account_id)


# Payments that a transaction is told of, each way with its index.
_BY_TRANSACTION: Final = (
    ("transaction", "SELECT id FROM payments WHERE tx_id = ?"),
    ("transaction", "SELECT payment_id FROM hints WHERE hash = ?"),
    (
        "transaction",
        "SELECT j.payment_id FROM relay_attempts a JOIN relay_transactions t ON t.seq = a.transaction_seq"
        " JOIN relay_jobs j ON j.seq = t.job_seq WHERE a.hash = ?",
    ),
    ("transaction", "SELECT payment_id FROM submissions WHERE tx_id = ?"),
    ("refund", "SELECT payment_id FROM refunds WHERE tx_id = ?"),
)


def _by_transaction(tx: Tx, account_id: str, tx_id: str) -> Iterator[Hit]:
    for why, query in _BY_TRANSACTION:
        # More than one payment is told of the same transaction only where somebody made it up.
        for (payment_id,) in tx.execute(f"{query} LIMIT {HITS_MAX}", (tx_id,)).fetchall():
            row = tx.execute(
                "SELECT body FROM payments WHERE id = ? AND account_id = ?", (payment_id, account_id)
            ).fetchone()
            if row is not None:
                yield _payment_hit(decode_payment(row[0]), why)
    yield from _rows(
        tx,
        "SELECT 'transfer', tx_id, kind, 'transaction', seen_at_ms, payment_id, NULL FROM transfers"
        " WHERE tx_id = :sought AND +account_id = :account ORDER BY seq LIMIT 10",
        tx_id,
        account_id,
    )


def _by_address(tx: Tx, account_id: str, address: str) -> Iterator[Hit]:
    rows = tx.execute(
        "SELECT body FROM payments WHERE account_id = ? AND buyer_address = ?"
        " ORDER BY created_at_ms DESC, seq DESC LIMIT ?",
        (account_id, address, HITS_MAX),
    )
    yield from (_payment_hit(decode_payment(body), "buyer") for (body,) in rows)
    yield from _rows(
        tx,
        "SELECT 'transfer', tx_id, kind, 'sender', seen_at_ms, payment_id, NULL FROM transfers"
        " WHERE sender_address = :sought AND account_id = :account AND kind <> 'matched'"
        " ORDER BY seq DESC LIMIT 10",
        address,
        account_id,
    )
    yield from _rows(
        tx,
        "SELECT 'settlement', s.id, m.name, 'destination', s.created_at_ms, NULL, m.id FROM merchants m"
        " JOIN settlements s ON s.merchant_id = m.id WHERE m.account_id = :account"
        " AND m.deleted_at_ms IS NULL AND lower(substr(s.destination, -length(:sought))) = :sought LIMIT 10",
        address,
        account_id,
    )


def _by_words(tx: Tx, account_id: str, sought: Sought) -> Iterator[Hit]:
    words = Sought(sought.text)
    for _, payment in list_payments(tx, PaymentFilter(account_id=account_id, text=words), None, HITS_MAX):
        yield _payment_hit(payment, "reference")
    if sought.is_words and len(sought.text) >= NAME_MIN:
        merchants, _ = list_merchants(tx, account_id, search=sought.text, limit=HITS_MAX)
        for one in merchants:
            yield Hit("merchant", one.id, one.name, "name", one.created_at_ms)


def _payment_hit(payment: Payment, why: str) -> Hit:
    return Hit("payment", payment.id, payment.reference_id, why, payment.created_at_ms)


def _rows(tx: Tx, query: str, sought: str, account_id: str) -> Iterator[Hit]:
    rows: list[tuple[Any, ...]] = tx.execute(query, {"sought": sought, "account": account_id}).fetchall()
    return (Hit(*row) for row in rows)
