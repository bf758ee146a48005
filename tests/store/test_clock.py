"""A realm's clock in the store: one job at a time, an offset that only grows, events counted."""

from __future__ import annotations

import pytest

from payd.core.errors import InvalidParams
from payd.store.clock import (
    OFFSET_MAX_MS,
    ClockRow,
    count_clock_events,
    get_clock,
    move_clock,
    newest_event_seq,
    start_clock_job,
)
from payd.store.db import Database, Tx
from payd.store.events import insert_events


def add_event(tx: Tx, number: int) -> int:
    return insert_events(
        tx, [(f"evt_{number}", "acct_1", "pay_1", number, "payment.created", number, b"{}")]
    )[0]


async def test_a_fresh_clock_is_not_moved_and_has_no_job(realm_db: Database) -> None:
    row = realm_db.point(get_clock)
    assert row == ClockRow(0, 0, None, 0)
    assert not row.running


async def test_a_job_runs_until_the_offset_is_where_it_aimed(realm_db: Database) -> None:
    row = await realm_db.write(start_clock_job, "job_1", 5000)
    assert (row, row.running) == (ClockRow(0, 5000, "job_1", 0), True)
    await realm_db.write(move_clock, 4999)
    assert realm_db.point(get_clock).running
    await realm_db.write(move_clock, 5000)
    assert not realm_db.point(get_clock).running


async def test_a_running_job_is_lengthened_and_keeps_its_name_and_count(realm_db: Database) -> None:
    await realm_db.write(start_clock_job, "job_1", 5000)
    await realm_db.write(move_clock, 1000)
    await realm_db.write(add_event, 1)
    await realm_db.write(count_clock_events, 0)
    row = await realm_db.write(start_clock_job, "job_2", 500)
    assert row == ClockRow(1000, 5500, "job_1", 1)


async def test_a_new_job_counts_from_nought(realm_db: Database) -> None:
    await realm_db.write(start_clock_job, "job_1", 10)
    await realm_db.write(add_event, 1)
    await realm_db.write(count_clock_events, 0)
    await realm_db.write(move_clock, 10)
    assert await realm_db.write(start_clock_job, "job_2", 7) == ClockRow(10, 17, "job_2", 0)


async def test_the_offset_only_grows(realm_db: Database) -> None:
    await realm_db.write(move_clock, 5000)
    await realm_db.write(move_clock, 4000)
    assert realm_db.point(get_clock).offset_ms == 5000


async def test_events_are_counted_once(realm_db: Database) -> None:
    assert realm_db.point(newest_event_seq) == 0
    seqs = [await realm_db.write(add_event, number) for number in range(3)]
    assert realm_db.point(newest_event_seq) == seqs[-1]
    assert await realm_db.write(count_clock_events, seqs[0]) == seqs[-1]
    assert realm_db.point(get_clock).job_events == 2
    assert await realm_db.write(count_clock_events, seqs[-1]) == seqs[-1]
    assert realm_db.point(get_clock).job_events == 2


async def test_a_pipeline_moves_it_by_days_with_each_of_twenty_runs_a_day_for_years(
    realm_db: Database,
) -> None:
    runs, each_ms = 20 * 3 * 365, 5 * 86_400_000
    await realm_db.write(move_clock, (runs - 1) * each_ms)
    await realm_db.write(start_clock_job, "job_1", each_ms)
    assert realm_db.point(get_clock).target_offset_ms == runs * each_ms


async def test_the_clock_has_an_end_that_no_job_goes_beyond(realm_db: Database) -> None:
    await realm_db.write(start_clock_job, "job_1", OFFSET_MAX_MS - 1)
    with pytest.raises(InvalidParams, match="1000 years"):
        await realm_db.write(start_clock_job, "job_1", 2)
    await realm_db.write(start_clock_job, "job_1", 1)
    await realm_db.write(move_clock, OFFSET_MAX_MS)
    with pytest.raises(InvalidParams):
        await realm_db.write(start_clock_job, "job_2", 1)
