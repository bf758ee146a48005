"""What was taken by the receiver and is not on the disk yet: it holds no place, and what follows it waits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from payd.actors.lane import IN_FLIGHT_MAX, UNRECORDED_MAX
from payd.store.db import Database
from tests.actors.lane_bench import Bench, open_bench
from tests.store.test_deliveries import happen


@asynccontextmanager
async def running(db: Database, owed: int) -> AsyncIterator[Bench]:
    """A lane at work that is owed so much, where nothing is recorded for now."""
    bench = await open_bench(db)
    bench.recorded = trio.Event()
    for number in range(owed):
        await happen(db, number, now_ms=bench.clock.now_ms())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.lane.run)
        await bench.settle()
        yield bench
        nursery.cancel_scope.cancel()


async def test_what_the_receiver_has_taken_gives_its_place_to_the_next(realm_db: Database) -> None:
    async with running(realm_db, IN_FLIGHT_MAX + 2) as bench:
        bench.ends["dlv_3"].set()
        await bench.settle()

        assert bench.started[-1] == f"dlv_{IN_FLIGHT_MAX}"
        assert bench.lane.in_flight == IN_FLIGHT_MAX
        assert "dlv_3" in bench.lane.claimed
        assert bench.lane.is_sending_due_by(bench.clock.now_ms())


async def test_what_failed_keeps_its_place_until_the_store_says_what_follows(realm_db: Database) -> None:
    async with running(realm_db, IN_FLIGHT_MAX + 2) as bench:
        bench.error_class = "http_status"
        bench.ends["dlv_3"].set()
        await bench.settle()

        assert len(bench.started) == IN_FLIGHT_MAX


async def test_so_much_is_sent_ahead_of_the_disk_and_no_more(realm_db: Database) -> None:
    async with running(realm_db, 2 * (IN_FLIGHT_MAX + UNRECORDED_MAX)) as bench:
        begun = 0
        while begun < len(bench.started):
            begun = len(bench.started)
            for event in bench.ends.values():
                event.set()
            await bench.settle()
        # The last of them were under way when there was no more room to take others in their place.
        assert UNRECORDED_MAX <= begun < UNRECORDED_MAX + IN_FLIGHT_MAX
        assert bench.lane.in_flight == 0

        bench.recorded.set()
        await bench.settle()
        assert len(bench.started) > begun


async def test_a_later_event_of_the_payment_waits_for_the_disk(realm_db: Database) -> None:
    async with running(realm_db, 1) as bench:
        await happen(realm_db, 1, payment_id="pay_0", now_ms=bench.clock.now_ms())
        bench.lane.wake()
        bench.ends["dlv_0"].set()
        await bench.settle()
        assert bench.started == ["dlv_0"]

        bench.recorded.set()
        await bench.settle()
        assert bench.started == ["dlv_0", "dlv_1"]
