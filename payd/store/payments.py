"""Payments: one row each, written together with what follows from it.

A row's columns are what lists and timers ask for; its body is the whole `core.payment.Payment`.
"""

from __future__ import annotations

import sqlite3
from typing import Final, Literal, TypeAlias

import msgspec

from payd.core.caip import canonical_asset, parse_asset
from payd.core.money import ASSET_PREFIX
from payd.core.payment import Payment, Transition
from payd.store.deliveries import owe
from payd.store.events import insert_event

Tx: TypeAlias = sqlite3.Connection

encode_payment: Final = msgspec.msgpack.Encoder().encode
decode_payment: Final = msgspec.msgpack.Decoder(Payment).decode


class TwoWriters(RuntimeError):
    """The row is not at the version that the transition started from: its actor is not its only writer."""


class EventToStore(msgspec.Struct, frozen=True):
    """A transition's event: its frozen bytes, and ids for it and for the delivery it may owe."""

    id: str
    body: bytes
    delivery_id: str
    message_id: str


def insert_payment(tx: Tx, moved: Transition, event: EventToStore, due_at_ms: int | None) -> str | None:
    """Store a new payment with its first event. Returns the webhook endpoint to wake, if one is owed it."""
    payment = moved.payment
    tx.execute(
        "INSERT INTO payments (id, account_id, merchant_id, reference_id, currency, value, status, version,"
        " created_at_ms, due_at_ms, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            payment.id,
            payment.account_id,
            payment.merchant_id,
            payment.reference_id,
            payment.currency,
            payment.value,
            payment.status.value,
            payment.version,
            payment.created_at_ms,
            due_at_ms,
            encode_payment(payment),
        ),
    )
    return _tell(tx, moved, event)


def record_transition(tx: Tx, moved: Transition, event: EventToStore, due_at_ms: int | None) -> str | None:
    """Store the state after a transition and its event together, or neither.

    The version in the WHERE clause is a second check that one actor owns the payment. A parked payment that
    moves is looked after again.

    Returns:
        The webhook endpoint to wake, if one is owed the event.

    Raises:
        TwoWriters: Another transition was stored meanwhile.
    """
    after = moved.payment
    asset, network = _paid_with(after)
    changed = tx.execute(
        "UPDATE payments SET status = ?, version = ?, asset = ?, network = ?, due_at_ms = ?,"
        " parked_at_ms = NULL, body = ?"
        " WHERE id = ? AND version = ?",
        (
            after.status.value,
            after.version,
            asset,
            network,
            due_at_ms,
            encode_payment(after),
            after.id,
            after.version - 1,
        ),
    ).rowcount
    if changed != 1:
        raise TwoWriters(f"two writers for {after.id}")
    return _tell(tx, moved, event)


def find_payment(tx: Tx, payment_id: str) -> Payment | None:
    """A payment by its id."""
    row = tx.execute("SELECT body FROM payments WHERE id = ?", (payment_id,)).fetchone()
    return None if row is None else decode_payment(row[0])


def due_payments(tx: Tx, after: tuple[int, str], until_ms: int, limit: int) -> list[tuple[int, str]]:
    """A page of `(due_at_ms, id)` of payments due by then, earliest first; `after` is the last one's."""
    return tx.execute(
        "SELECT due_at_ms, id FROM payments"
        " WHERE (due_at_ms, id) > (?, ?) AND due_at_ms <= ? AND parked_at_ms IS NULL"
        " ORDER BY due_at_ms, id LIMIT ?",
        (*after, until_ms, limit),
    ).fetchall()


def next_payment_due_ms(tx: Tx) -> int | None:
    """When the next payment is due; None when none waits for anything."""
    row = tx.execute(
        "SELECT due_at_ms FROM payments WHERE due_at_ms IS NOT NULL AND parked_at_ms IS NULL"
        " ORDER BY due_at_ms LIMIT 1"
    ).fetchone()
    return None if row is None else int(row[0])


def park_payment(tx: Tx, payment_id: str, now_ms: int) -> None:
    """Take a payment that is due and cannot be tended out of the due-time index, for a person to look at.

    One that is not due has moved meanwhile, and stays.
    """
    tx.execute(
        "UPDATE payments SET parked_at_ms = ? WHERE id = ? AND due_at_ms <= ? AND parked_at_ms IS NULL",
        (now_ms, payment_id, now_ms),
    )


def unpark_payments(tx: Tx) -> None:
    """Put every parked payment back into the due-time index."""
    tx.execute("UPDATE payments SET parked_at_ms = NULL WHERE parked_at_ms IS NOT NULL")


def count_parked(tx: Tx) -> int:
    """How many payments are parked."""
    row = tx.execute("SELECT count(*) FROM payments WHERE parked_at_ms IS NOT NULL").fetchone()
    return int(row[0])


class PaymentFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which payments a list shows, and in which order. Times are Unix milliseconds."""

    account_id: str
    start_ms: int | None = None
    end_ms: int | None = None
    statuses: tuple[str, ...] = ()
    merchants: tuple[str, ...] | None = None
    asset: str | None = None
    """Canonical, as the networks."""

    networks: tuple[str, ...] = ()
    reference_prefix: str | None = None
    currency: str | None = None
    sort_by: Literal["date", "amount"] = "date"
    descending: bool = True


def list_payments(
    tx: Tx, chosen: PaymentFilter, after: tuple[int, int] | None, limit: int
) -> list[tuple[int, Payment]]:
    """A page of payments as `(seq, payment)`; `after` is the last one's `(sort value, seq)`."""
    where, values = _conditions(chosen)
    column = "created_at_ms" if chosen.sort_by == "date" else "value"
    if after is not None:
        where.append(f"({column}, seq) {'<' if chosen.descending else '>'} (?, ?)")
        values += after
    direction = "DESC" if chosen.descending else "ASC"
    rows = tx.execute(
        f"SELECT seq, body FROM payments WHERE {' AND '.join(where)}"
        f" ORDER BY {column} {direction}, seq {direction} LIMIT ?",
        (*values, limit),
    )
    return [(seq, decode_payment(body)) for seq, body in rows]


def _conditions(chosen: PaymentFilter) -> tuple[list[str], list[str | int]]:
    where = ["account_id = ?"]
    values: list[str | int] = [chosen.account_id]
    for text, value in (
        ("created_at_ms >= ?", chosen.start_ms),
        ("created_at_ms < ?", chosen.end_ms),
        ("asset = ?", chosen.asset),
        ("currency = ?", chosen.currency),
    ):
        if value is not None:
            where.append(text)
            values.append(value)
    for column, chosen_values in (
        ("status", chosen.statuses),
        ("merchant_id", chosen.merchants),
        ("network", chosen.networks),
    ):
        if chosen_values or (column == "merchant_id" and chosen_values is not None):
            where.append(f"{column} IN ({','.join('?' * len(chosen_values))})")
            values += chosen_values
    if chosen.reference_prefix is not None:
        where.append("reference_id >= ? AND reference_id < ?")
        values += [chosen.reference_prefix, chosen.reference_prefix + "\U0010ffff"]
    return where, values


def _paid_with(payment: Payment) -> tuple[str | None, str | None]:
    if payment.processing is None:
        return None, None
    asset = parse_asset(payment.processing.option_amount.unit.removeprefix(ASSET_PREFIX))
    return canonical_asset(asset), payment.processing.chain


def _tell(tx: Tx, moved: Transition, event: EventToStore) -> str | None:
    payment = moved.payment
    event_seq = insert_event(
        tx,
        event_id=event.id,
        account_id=payment.account_id,
        payment_id=payment.id,
        version=payment.version,
        event_type=moved.event_type,
        created_at_ms=moved.occurred_at_ms,
        body=event.body,
    )
    return owe(
        tx,
        event_seq=event_seq,
        event_type=moved.event_type,
        account_id=payment.account_id,
        payment_id=payment.id,
        delivery_id=event.delivery_id,
        message_id=event.message_id,
        now_ms=moved.occurred_at_ms,
    )
