"""Payments: one row each, written together with what follows from it.

A row's columns are what lists and timers ask for; its body is the whole `core.payment.Payment`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from payd.core.caip import canonical_asset, parse_account, parse_asset
from payd.core.money import ASSET_PREFIX
from payd.core.payment import Payment, Transition
from payd.core.search import Sought
from payd.store.events import sold_few
from payd.store.outbox import EventToStore, event_of, put_out
from payd.store.rows import change_rows
from payd.store.tallies import count_transitions

Tx: TypeAlias = sqlite3.Connection

# So many are sorted in no time; of more, the newest are soon found by date.
FEW: Final = 2000
# After every text that begins the same.
LAST: Final = "\U0010ffff"

encode_payment: Final = msgspec.msgpack.Encoder().encode
decode_payment: Final = msgspec.msgpack.Decoder(Payment).decode

_CHANGE: Final = (
    "UPDATE payments SET status = column3, version = column2 + 1, asset = column4, network = column5,"
    " buyer_address = column6, tx_id = column7, due_at_ms = column8, parked_at_ms = NULL, body = column9"
)
_AT_VERSION: Final = "WHERE id = column1 AND version = column2"


class TwoWriters(RuntimeError):
    """The row is not at the version that the transition started from: its actor is not its only writer."""


class Move(NamedTuple):
    """A transition to be stored, with its event, and when its payment must be looked at next."""

    moved: Transition
    event: EventToStore
    due_at_ms: int | None

    @property
    def payment(self) -> Payment:
        """The payment as it is then."""
        return self.moved.payment


def record_transitions(tx: Tx, moves: Sequence[Move]) -> list[str | None]:
    """Store the states after transitions of payments, at least one, and their events together, or nothing.

    The version in the WHERE clause is a second check that one actor owns the payment. A parked payment that
    moves is looked after again.

    Returns:
        For each the webhook endpoint to tell, if one is owed the event.

    Raises:
        TwoWriters: Another transition of one of them was stored meanwhile.
    """
    if change_rows(tx, _CHANGE, _AT_VERSION, [_changed_row(move) for move in moves]) != len(moves):
        raise TwoWriters(f"two writers for {' or '.join(move.payment.id for move in moves)}")
    count_transitions(tx, [move.moved for move in moves])
    return put_out(tx, [event_of(move.moved, move.event) for move in moves])


def _changed_row(move: Move) -> tuple[object, ...]:
    after = move.payment
    return (
        after.id,
        after.version - 1,
        after.status.value,
        *_paid_with(after),
        _buyer_address(after),
        None if after.success is None else after.success.tx_id,
        move.due_at_ms,
        encode_payment(after),
    )


def find_payment(tx: Tx, payment_id: str) -> Payment | None:
    """A payment by its id."""
    row = tx.execute("SELECT body FROM payments WHERE id = ?", (payment_id,)).fetchone()
    return None if row is None else decode_payment(row[0])


def find_payments(tx: Tx, payment_ids: Sequence[str]) -> list[Payment]:
    """Those of the payments that there are, in no order."""
    marks = ",".join("?" * len(payment_ids))
    rows = tx.execute(f"SELECT body FROM payments WHERE id IN ({marks})", payment_ids)
    return [decode_payment(body) for (body,) in rows]


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
    text: Sought | None = None
    """What somebody typed: a reference's beginning, or anything else that a payment is known by."""

    until_seq: int | None = None
    """Nothing that was made after this one."""

    sort_by: Literal["date", "amount"] = "date"
    descending: bool = True


def list_payments(
    tx: Tx, chosen: PaymentFilter, after: tuple[int, int] | None, limit: int
) -> list[tuple[int, Payment]]:
    """A page of payments as `(seq, payment)`; `after` is the last one's `(sort value, seq)`."""
    where, values = conditions(chosen)
    column = "created_at_ms" if chosen.sort_by == "date" else "value"
    if after is not None:
        where.append(f"({column}, seq) {'<' if chosen.descending else '>'} (?, ?)")
        values += after
    direction = "DESC" if chosen.descending else "ASC"
    # The page is found and sorted by indexes, before any body is read.
    rows = tx.execute(
        f"SELECT p.seq, p.body FROM (SELECT seq FROM payments {_road(tx, chosen)} WHERE {' AND '.join(where)}"
        f" ORDER BY {column} {direction}, seq {direction} LIMIT ?) JOIN payments p USING (seq)"
        f" ORDER BY p.{column} {direction}, p.seq {direction}",
        (*values, limit),
    )
    return [(seq, decode_payment(body)) for seq, body in rows]


def _road(tx: Tx, chosen: PaymentFilter) -> str:
    """The index that a list by date is read from; SQLite does not know how many pass which filter.

    The one by date has every column that a filter may ask for, and costs the same for whatever few pass. What
    begins with few references, is of merchants that sold little, or is one status or merchant alone, is found
    faster by its own index.
    """
    if chosen.text is None and chosen.merchants and sold_few(tx, chosen.merchants):
        return "INDEXED BY payments_by_merchant"
    if chosen.sort_by != "date":
        return ""
    if chosen.text is not None and not chosen.text.is_words:
        return "NOT INDEXED"
    prefix = chosen.reference_prefix if chosen.text is None else chosen.text.text
    if prefix is not None:
        few = _begin_so(tx, chosen.account_id, prefix) < FEW
        return f"INDEXED BY payments_by_{'reference' if few else 'date'}"
    others = chosen.asset is not None or chosen.currency is not None or bool(chosen.networks)
    if others or len(chosen.statuses) + len(chosen.merchants or ()) != 1:
        return "INDEXED BY payments_by_date"
    return f"INDEXED BY payments_by_{'status' if chosen.statuses else 'merchant'}"


def _begin_so(tx: Tx, account_id: str, prefix: str) -> int:
    """How many of the account's references begin so; no more than `FEW` are counted."""
    (count,) = tx.execute(
        "SELECT count(*) FROM (SELECT 1 FROM payments INDEXED BY payments_by_reference"
        " WHERE account_id = ? AND reference_id >= ? AND reference_id < ? LIMIT ?)",
        (account_id, prefix, prefix + LAST, FEW),
    ).fetchone()
    return int(count)


def conditions(chosen: PaymentFilter) -> tuple[list[str], list[str | int]]:
    """The filter in SQL: conditions that all hold, and their values."""
    where = ["account_id = ?"]
    values: list[str | int] = [chosen.account_id]
    for text, value in (
        ("created_at_ms >= ?", chosen.start_ms),
        ("created_at_ms < ?", chosen.end_ms),
        ("asset = ?", chosen.asset),
        ("currency = ?", chosen.currency),
        ("seq <= ?", chosen.until_seq),
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
        _begin_with(chosen.reference_prefix, where, values)
    if chosen.text is not None:
        _known_by(chosen.account_id, chosen.text, where, values)
    return where, values


def _begin_with(prefix: str, where: list[str], values: list[str | int]) -> None:
    where.append("reference_id >= ? AND reference_id < ?")
    values += [prefix, prefix + LAST]


def _known_by(account_id: str, sought: Sought, where: list[str], values: list[str | int]) -> None:
    """Words begin a reference. What looks like something else is that, or exactly a reference."""
    if sought.is_words:
        return _begin_with(sought.text, where, values)
    ways = ["SELECT seq FROM payments WHERE account_id = ? AND reference_id = ?"]
    values += [account_id, sought.text]
    for way, value in (
        ("SELECT seq FROM payments WHERE id = ?", sought.id),
        ("SELECT seq FROM payments WHERE tx_id = ?", sought.tx_id),
        ("SELECT p.seq FROM hints h JOIN payments p ON p.id = h.payment_id WHERE h.hash = ?", sought.tx_id),
        (
            "SELECT p.seq FROM transfers t JOIN payments p ON p.id = t.payment_id WHERE t.tx_id = ?",
            sought.tx_id,
        ),
    ):
        if value is not None:
            ways.append(way)
            values.append(value)
    if sought.address is not None:
        ways.append("SELECT seq FROM payments WHERE account_id = ? AND buyer_address = ?")
        values += [account_id, sought.address]
    where.append(f"seq IN ({' UNION '.join(ways)})")
    return None


def _paid_with(payment: Payment) -> tuple[str | None, str | None]:
    if payment.processing is None:
        return None, None
    return _canonical(payment.processing.option_amount.unit), payment.processing.chain


# Merchants take few assets, in many payments.
@lru_cache(maxsize=256)
def _canonical(unit: str) -> str:
    return canonical_asset(parse_asset(unit.removeprefix(ASSET_PREFIX)))


def _buyer_address(payment: Payment) -> str | None:
    """What the buyer's payments are looked up by: on all chains, however a person writes it."""
    if payment.processing is None or payment.processing.buyer is None:
        return None
    return parse_account(payment.processing.buyer).address.lower()
