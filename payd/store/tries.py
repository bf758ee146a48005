"""Tries at the door: counted before they are looked at, so that many at once are no way around the wait."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from typing import TypeAlias

from payd.core.tries import ADDRESS, FORGOTTEN_MS, Patience, wait_ms
from payd.store.rows import prune_rows

Tx: TypeAlias = sqlite3.Connection

Who: TypeAlias = tuple[Patience, str]
"""Who tries: a kind, and which one of it."""


def begin_try(tx: Tx, whos: Sequence[Who], now_ms: int) -> int:
    """Count a try of all of `whos`; returns how many milliseconds it is too early, which counts nothing."""
    found = [_count_of(tx, who) for who in whos]
    wait = max(
        wait_ms(patience, count, last_at_ms, now_ms)
        for (patience, _), (count, last_at_ms) in zip(whos, found, strict=True)
    )
    if wait:
        return wait
    for who, (count, last_at_ms) in zip(whos, found, strict=True):
        fresh = 1 if now_ms - last_at_ms >= FORGOTTEN_MS else count + 1
        tx.execute(
            "INSERT INTO tries (who, count, last_at_ms) VALUES (?, ?, ?)"
            " ON CONFLICT (who) DO UPDATE SET count = excluded.count, last_at_ms = excluded.last_at_ms",
            (_name(who), fresh, now_ms),
        )
    return 0


def forgive(tx: Tx, whos: Sequence[Who]) -> None:
    """It was right: what was wrong before it is forgotten; of an address, this try alone."""
    for who in whos:
        if who[0] is ADDRESS:
            tx.execute("UPDATE tries SET count = count - 1 WHERE who = ? AND count > 0", (_name(who),))
        else:
            tx.execute("DELETE FROM tries WHERE who = ?", (_name(who),))


def prune_tries(tx: Tx, before_ms: int, limit: int) -> int:
    """Forget who has not tried since then, `limit` at a time; returns how many."""
    return prune_rows(tx, "tries", "who", "last_at_ms", before_ms, limit)


def _count_of(tx: Tx, who: Who) -> tuple[int, int]:
    row = tx.execute("SELECT count, last_at_ms FROM tries WHERE who = ?", (_name(who),)).fetchone()
    return (0, 0) if row is None else row


def _name(who: Who) -> str:
    # What strangers type has any length, and is nobody's to read.
    patience, which = who
    return f"{patience.kind} {hashlib.sha256(which.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
