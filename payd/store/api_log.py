"""The log of API requests: who asked for what and how it ended, for some days.

What a success said is never kept, nor what anybody sent; of a refusal its own words, which hold no secret.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from payd.store.retention import Pruned
from payd.store.rows import SEQ_MAX, insert_rows

Tx: TypeAlias = sqlite3.Connection

# A refusal's JSON is a sentence or two; a list of issues can be longer.
ERROR_BYTES_MAX: Final = 2048
SUBJECT_MAX: Final = 80
# Some 100 MB. Errors and writes fill it in weeks; a backend that asks all day for statuses would in hours.
ROWS_MAX: Final = 500_000
# For the keys' last use: some milliseconds, and what was used lately is among them.
LOOKED_AT: Final = 20_000


class Logged(msgspec.Struct, frozen=True):
    """One request.

    Attributes:
        actor: The key's or app's id.
        route: The path's template.
        subject: The id in the path, else of what was made, else of the merchant that was named; or empty.
        error: The refusal's body; None of a success.
    """

    at_ms: int
    account_id: str
    actor: str
    request_id: str
    method: str
    route: str
    subject: str
    status: int
    took_ms: int
    error: bytes | None

    @property
    def path(self) -> str:
        """The path as it was asked for, as far as it is kept: its first id."""
        begin, opened, rest = self.route.partition("{")
        return self.route if not opened or not self.subject else begin + self.subject + rest.partition("}")[2]


class LogRow(msgspec.Struct, frozen=True):
    """A request as the dashboard shows it; the key's name and end are None of an app."""

    seq: int
    logged: Logged
    key_name: str | None
    key_last4: str | None


class LogFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which requests of an account are shown; None: any. `statuses` are the first and the last.

    A merchant's are those that name it, and those on one of its payments.
    """

    account_id: str
    actor: str | None = None
    method: str | None = None
    route: str | None = None
    request_id: str | None = None
    subject: str | None = None
    merchant_id: str | None = None
    refused: bool | None = None
    statuses: tuple[int, int] | None = None
    start_ms: int | None = None
    end_ms: int | None = None


_COLUMNS: Final = "at_ms, account_id, actor, request_id, method, route, subject, status, took_ms, error"


def insert_logged(tx: Tx, entries: Sequence[Logged]) -> None:
    """Store some requests at once, at least one, each cut to what may be kept."""
    rows = [msgspec.structs.astuple(_cut(entry)) for entry in entries]
    insert_rows(tx, f"INSERT INTO api_log ({_COLUMNS})", rows)


def list_logged(tx: Tx, chosen: LogFilter, before_seq: int | None, limit: int) -> list[LogRow]:
    """A page of requests, newest first, older than `before_seq`."""
    return _select(tx, chosen, ("l.seq < ?", before_seq), "l.seq DESC", limit)


def _select(tx: Tx, chosen: LogFilter, place: tuple[str, int | None], order: str, limit: int) -> list[LogRow]:
    where, values = ["l.account_id = ?"], [chosen.account_id]
    more: list[int] = []
    for column, value in (
        ("actor", chosen.actor),
        ("method", chosen.method),
        ("route", chosen.route),
        ("request_id", chosen.request_id),
        ("subject", chosen.subject),
    ):
        if value is not None:
            where.append(f"l.{column} = ?")
            values.append(value)
    if chosen.merchant_id is not None:
        where.append("? IN (l.subject, (SELECT merchant_id FROM payments WHERE id = l.subject))")
        values.append(chosen.merchant_id)
    if chosen.refused is not None:
        where.append("l.status >= 400" if chosen.refused else "l.status < 400")
    lowest, highest = chosen.statuses or (None, None)
    for condition, number in (
        ("l.status >= ?", lowest),
        ("l.status <= ?", highest),
        ("l.at_ms >= ?", chosen.start_ms),
        ("l.at_ms < ?", chosen.end_ms),
        place,
    ):
        if number is not None:
            where.append(condition)
            more.append(number)
    rows = tx.execute(
        f"SELECT l.seq, {', '.join(f'l.{name}' for name in _COLUMNS.split(', '))}, k.name, k.last4"
        f" FROM api_log l LEFT JOIN api_keys k ON k.id = l.actor WHERE {' AND '.join(where)}"
        f" ORDER BY {order} LIMIT ?",
        (*values, *more, limit),
    )
    return [LogRow(row[0], Logged(*row[1:-2]), row[-2], row[-1]) for row in rows]


def logged_after(tx: Tx, chosen: LogFilter, after_seq: int, limit: int) -> list[LogRow]:
    """What was written behind a cursor, oldest first: what somebody who follows goes on with."""
    return _select(tx, chosen, ("l.seq > ?", after_seq), "l.seq", limit)


def newest_logged(tx: Tx) -> int:
    """The cursor behind which there is nothing yet; 0 before the first request."""
    (newest,) = tx.execute("SELECT coalesce(max(seq), 0) FROM api_log").fetchone()
    return int(newest)


def last_used(tx: Tx, account_id: str) -> dict[str, int]:
    """When keys and apps asked last, by their ids, as far as `LOOKED_AT` requests of the account go back."""
    rows = tx.execute(
        "SELECT actor, max(at_ms) FROM (SELECT actor, at_ms FROM api_log WHERE account_id = ?"
        " ORDER BY seq DESC LIMIT ?) GROUP BY actor",
        (account_id, LOOKED_AT),
    )
    return dict(rows.fetchall())


def prune_logged(tx: Tx, after_seq: int, before_ms: int, limit: int, now_ms: int = SEQ_MAX) -> Pruned:
    """Forget requests from before that, and the oldest of more than `ROWS_MAX`, among the `limit` next rows.

    `now_ms` is as in `store.retention`.
    """
    spare_seq = newest_logged(tx) - ROWS_MAX
    rows = tx.execute(
        "SELECT seq, at_ms FROM api_log WHERE seq > ? ORDER BY seq LIMIT ?", (after_seq, limit)
    ).fetchall()
    gone = [(seq,) for seq, at_ms in rows if at_ms < before_ms or seq <= spare_seq]
    tx.executemany("DELETE FROM api_log WHERE seq = ?", gone)
    is_over = len(rows) < limit or any(
        before_ms <= at_ms <= now_ms and seq > spare_seq for seq, at_ms in rows
    )
    return Pruned(len(gone), None if is_over else rows[-1][0])


def _cut(entry: Logged) -> Logged:
    error = None if entry.error is None else entry.error[:ERROR_BYTES_MAX]
    return msgspec.structs.replace(entry, error=error, subject=entry.subject[:SUBJECT_MAX])
