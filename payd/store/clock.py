"""A realm's clock: its offset, and the job that is moving it."""

from __future__ import annotations

import sqlite3
from typing import Final, TypeAlias

import msgspec

from payd.core.errors import InvalidParams

Tx: TypeAlias = sqlite3.Connection

# Times end with the year 9999. The clock never goes back: who tries things against one server for years, some
# days further with each run, is to meet no end of it.
OFFSET_MAX_MS: Final = 1000 * 365 * 86_400_000


class ClockRow(msgspec.Struct, frozen=True):
    """The stored clock. A job runs while `offset_ms` is behind `target_offset_ms`."""

    offset_ms: int
    target_offset_ms: int
    job_id: str | None
    job_events: int

    @property
    def running(self) -> bool:
        """Whether a job still has to move the clock."""
        return self.offset_ms < self.target_offset_ms


def get_clock(tx: Tx) -> ClockRow:
    """The clock as stored."""
    return ClockRow(
        *tx.execute("SELECT offset_ms, target_offset_ms, job_id, job_events FROM clock").fetchone()
    )


def start_clock_job(tx: Tx, job_id: str, advance_ms: int) -> ClockRow:
    """Aim the clock further ahead; a running job is lengthened and keeps its id.

    Raises:
        InvalidParams: It would be more than `OFFSET_MAX_MS` ahead.
    """
    row = get_clock(tx)
    if max(row.offset_ms, row.target_offset_ms) + advance_ms > OFFSET_MAX_MS:
        raise InvalidParams("The test clock goes at most 1000 years ahead of the real one, in all.")
    if row.running:
        tx.execute("UPDATE clock SET target_offset_ms = target_offset_ms + ?", (advance_ms,))
    else:
        tx.execute(
            "UPDATE clock SET target_offset_ms = offset_ms + ?, job_id = ?, job_events = 0",
            (advance_ms, job_id),
        )
    return get_clock(tx)


def move_clock(tx: Tx, offset_ms: int) -> None:
    """Store a new offset; it only grows."""
    tx.execute("UPDATE clock SET offset_ms = max(offset_ms, ?)", (offset_ms,))


def count_clock_events(tx: Tx, after_seq: int) -> int:
    """Add the events since then to the job's count; returns the newest event's cursor."""
    (count, newest) = tx.execute(
        "SELECT count(*), coalesce(max(seq), ?) FROM events WHERE seq > ?", (after_seq, after_seq)
    ).fetchone()
    tx.execute("UPDATE clock SET job_events = job_events + ?", (count,))
    return int(newest)


def newest_event_seq(tx: Tx) -> int:
    """The cursor of the newest event, 0 when there is none."""
    (newest,) = tx.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
    return int(newest)
