"""Tallies: what payments came to, a few small rows for each quarter of an hour."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from payd.core.payment import Transition
from payd.core.period import QUARTER_MS, Days, day_of
from payd.core.tally import Counted, Tally, What, tallies_of

Tx: TypeAlias = sqlite3.Connection

# A payment has up to 18 digits, and a column 18 and a half.
BILLION: Final = 10**9

_decode_rows: Final = msgspec.json.Decoder(list[tuple[int, What, str, int, int, int]]).decode


def count_transitions(tx: Tx, moves: Sequence[Transition]) -> None:
    """Count payments that end, in the transaction in which they do."""
    counts: Counter[tuple[str, int, What, str]] = Counter()
    values: Counter[tuple[str, int, What, str]] = Counter()
    for moved in moves:
        at_ms = moved.occurred_at_ms // QUARTER_MS * QUARTER_MS
        for tally in tallies_of(moved):
            row = (moved.payment.account_id, at_ms, tally.what, tally.name)
            counts[row] += tally.count
            values[row] += tally.value
    for row, count in counts.items():
        tx.execute(
            "INSERT INTO tallies (account_id, at_ms, what, name, count, value_e9, value_rest)"
            " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count,"
            " value_e9 = value_e9 + excluded.value_e9, value_rest = value_rest + excluded.value_rest",
            (*row, count, *divmod(values[row], BILLION)),
        )


def read_tallies(tx: Tx, account_id: str, days: Days) -> list[Counted]:
    """What an account's payments came to, by day."""
    # As one value: for each row that it fetches, a thread gives the interpreter away and waits for it again.
    (rows,) = tx.execute(
        "SELECT json_group_array(json_array(at_ms, what, name, count, value_e9, value_rest)) FROM ("
        " SELECT min(at_ms) AS at_ms, what, name, sum(count) AS count, sum(value_e9) AS value_e9,"
        " sum(value_rest) AS value_rest FROM tallies"
        " WHERE account_id = :account AND at_ms >= :start AND at_ms < :end"
        " GROUP BY (at_ms - :start) / 86400000, what, name)",
        {"account": account_id, "start": days.start_ms, "end": days.end_ms},
    ).fetchone()
    return [
        Counted(day_of(at_ms, days.offset_min), Tally(what, name, count, value_e9 * BILLION + rest))
        for at_ms, what, name, count, value_e9, rest in _decode_rows(rows)
    ]


def count_created(tx: Tx, account_id: str, start_ms: int, count_max: int) -> int:
    """How many payments were created since then; no more than that are counted."""
    (count,) = tx.execute(
        "SELECT count(*) FROM (SELECT 1 FROM payments WHERE account_id = ? AND created_at_ms >= ? LIMIT ?)",
        (account_id, start_ms, count_max),
    ).fetchone()
    return int(count)


def count_open(tx: Tx, account_id: str, count_max: int) -> int:
    """How many payments have not ended; no more than that are counted."""
    (count,) = tx.execute(
        "SELECT count(*) FROM (SELECT 1 FROM payments WHERE account_id = ?"
        " AND status IN ('requires_action', 'processing') LIMIT ?)",
        (account_id, count_max),
    ).fetchone()
    return int(count)
