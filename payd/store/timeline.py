"""Everything that the rows say about one payment, as the entries of its timeline.

Each kind of row has an index on its payment, so that a timeline costs what it shows.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Final, TypeAlias

import msgspec

from payd.core.payment import Payment
from payd.core.timeline import (
    Acted,
    Answered,
    Built,
    DeliveryOwed,
    DeliveryTried,
    Entry,
    EventKept,
    KeptEvent,
    Offered,
    Parked,
    QuoteOut,
    Refunded,
    Relayed,
    TransferSeen,
    WalletTold,
    in_order,
    transitions_of,
)
from payd.store.payments import find_payment

Tx: TypeAlias = sqlite3.Connection
Kind: TypeAlias = Callable[[Tx, str], Iterable[Entry]]
"""Reads the entries of one kind of row, of a payment."""

# Of each kind of row. A payment has a handful of each; wallets that ask for days, and people who send again
# by hand, make hundreds.
ROWS_MAX: Final = 1000


class Timeline(msgspec.Struct, frozen=True):
    """A payment and what happened to it, oldest first.

    Attributes:
        is_whole: Whether nothing was left out; else the oldest of some kind of entry are.
    """

    payment: Payment
    entries: tuple[Entry, ...]
    is_whole: bool


def read_timeline(tx: Tx, account_id: str, payment_id: str) -> Timeline | None:
    """The whole story of an account's payment; None when it has no such payment."""
    payment = find_payment(tx, payment_id)
    if payment is None or payment.account_id != account_id:
        return None
    events = [
        KeptEvent(*row)
        for row in tx.execute(
            "SELECT id, version, type, created_at_ms FROM events WHERE payment_id = ? ORDER BY version",
            (payment_id,),
        )
    ]
    kinds = [list(kind(tx, payment_id)) for kind in _KINDS]
    entries: list[Entry] = [
        *transitions_of(payment, events),
        *(EventKept(one.created_at_ms, one.id, one.type, one.version) for one in events),
        *(entry for kind in kinds for entry in kind[::-1][:ROWS_MAX][::-1]),
    ]
    return Timeline(payment, tuple(in_order(entries)), all(len(kind) <= ROWS_MAX for kind in kinds))


def _offers(tx: Tx, payment_id: str) -> Iterator[Entry]:
    rows = tx.execute(
        "SELECT q.valid_from_ms, o.id, o.asset, o.account, q.amount, q.destination, q.valid_until_ms"
        " FROM options o JOIN quotes q ON q.option_id = o.id WHERE o.payment_id = ? ORDER BY q.seq",
        (payment_id,),
    ).fetchall()
    for at_ms, handed in groupby(sorted(rows, key=lambda row: row[0]), key=lambda row: row[0]):
        yield Offered(
            at_ms,
            tuple(
                QuoteOut(option_id, asset, account, int(amount), destination, until_ms)
                for _, option_id, asset, account, amount, destination, until_ms in handed
            ),
        )


def _relays(tx: Tx, payment_id: str) -> Iterator[Entry]:
    """What the relayer owed, and each signed form of the transactions that it sent for it."""
    job = tx.execute(
        "SELECT seq, chain, state, reason, created_at_ms FROM relay_jobs WHERE payment_id = ?", (payment_id,)
    ).fetchone()
    if job is None:
        return
    seq, chain, state, reason, created_at_ms = job
    yield Relayed(created_at_ms, "owed", chain, None, state if reason is None else f"{state}: {reason}")
    for at_ms, tx_id, fate in tx.execute(
        "SELECT a.sent_at_ms, a.hash, t.state FROM relay_transactions t"
        " JOIN relay_attempts a ON a.transaction_seq = t.seq"
        " WHERE t.job_seq = ? AND a.sent_at_ms IS NOT NULL ORDER BY a.sent_at_ms",
        (seq,),
    ).fetchall():
        yield Relayed(at_ms, "sent", chain, tx_id, fate)


def _submissions(tx: Tx, payment_id: str) -> Iterator[Entry]:
    row = tx.execute(
        "SELECT chain, tx_id, state, reason, created_at_ms, sent_at_ms FROM submissions WHERE payment_id = ?",
        (payment_id,),
    ).fetchone()
    if row is None:
        return
    chain, tx_id, state, reason, created_at_ms, sent_at_ms = row
    yield Relayed(created_at_ms, "owed", chain, tx_id, state if reason is None else f"{state}: {reason}")
    if sent_at_ms is not None:
        yield Relayed(sent_at_ms, "sent", chain, tx_id, state)


def _transfers(tx: Tx, payment_id: str) -> Iterator[Entry]:
    rows = tx.execute(
        "SELECT t.seen_at_ms, t.chain, t.tx_id, t.asset, t.value, t.sender, t.kind,"
        " t.block_number, t.block_hash IS NOT NULL OR t.block_number IS NULL, t.assigned,"
        " (SELECT c.number FROM chain_cursors c WHERE c.chain = t.chain AND c.kind = 'head')"
        " FROM transfers t WHERE t.payment_id = ? ORDER BY t.seq",
        (payment_id,),
    )
    for at_ms, chain, tx_id, asset, value, sender, kind, block, on_chain, by_hand, head in rows:
        counted = block is not None and on_chain and head is not None and head >= block
        yield TransferSeen(
            at_ms,
            chain,
            tx_id,
            asset,
            int(value),
            sender,
            kind,
            head - block + 1 if counted else None,
            bool(on_chain),
            bool(by_hand),
        )


def _acts(tx: Tx, payment_id: str) -> Iterator[Entry]:
    rows = tx.execute(
        "SELECT at_ms, actor, act, details FROM audit WHERE subject = ? ORDER BY seq", (payment_id,)
    )
    return (Acted(at_ms, actor, act, json.loads(details)) for at_ms, actor, act, details in rows.fetchall())


def _rows(make: Callable[..., Entry], query: str) -> Kind:
    """A kind whose rows are its entries."""
    return lambda tx, payment_id: [make(*row) for row in tx.execute(query, (payment_id,)).fetchall()]


# Deliveries by way of their events, which have an index on the payment.
_DELIVERIES: Final = "FROM events e JOIN deliveries d ON d.event_seq = e.seq"

_KINDS: Final[tuple[Kind, ...]] = (
    _offers,
    _rows(Answered, "SELECT collected_at_ms FROM collected WHERE payment_id = ? ORDER BY seq"),
    _rows(
        Built, "SELECT created_at_ms, chain, buyer FROM builds WHERE payment_id = ? ORDER BY created_at_ms"
    ),
    _rows(WalletTold, "SELECT told_at_ms, hash FROM hints WHERE payment_id = ? ORDER BY told_at_ms"),
    _relays,
    _submissions,
    _transfers,
    _acts,
    _rows(
        DeliveryOwed,
        "SELECT d.created_at_ms, d.id, d.event_type, d.endpoint_id, d.state, d.reason, d.next_at_ms"
        f" {_DELIVERIES} WHERE e.payment_id = ? ORDER BY d.seq",
    ),
    _rows(
        DeliveryTried,
        "SELECT a.at_ms, d.id, d.event_type, a.n, a.trigger, a.status, a.error_class, a.error, a.duration_ms,"
        f" a.fault {_DELIVERIES} JOIN attempts a ON a.delivery_id = d.id"
        " WHERE e.payment_id = ? ORDER BY a.seq",
    ),
    _rows(Refunded, "SELECT created_at_ms, tx_id, note FROM refunds WHERE payment_id = ?"),
    _rows(Parked, "SELECT parked_at_ms FROM payments WHERE id = ? AND parked_at_ms IS NOT NULL"),
)
