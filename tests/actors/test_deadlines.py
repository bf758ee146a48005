"""The heap of deadlines: everything is tended when due, whether it came by row or by word."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from payd.actors import deadlines
from payd.actors.deadlines import WINDOW_MS, Deadlines
from payd.clock import Clock, VirtualWall

START_MS = 1_780_000_000_000


class Rows:
    """The due-time index, and who was tended when."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.due: dict[str, int] = {}
        self.tended: list[tuple[str, int]] = []
        self.loads = 0

    async def load(self, until_ms: int, limit: int) -> list[tuple[int, str]]:
        self.loads += 1
        await trio.lowlevel.checkpoint()
        return sorted((at, key) for key, at in self.due.items() if at <= until_ms)[:limit]

    async def tend(self, key: str) -> None:
        await trio.lowlevel.checkpoint()
        self.tended.append((key, self.clock.now_ms() - START_MS))
        self.due.pop(key, None)


@asynccontextmanager
async def running(**due_s: float) -> AsyncIterator[tuple[Rows, Deadlines]]:
    rows = Rows(Clock(VirtualWall(START_MS)))
    rows.due = {key: START_MS + round(at * 1000) for key, at in due_s.items()}
    heap = Deadlines(rows.clock, rows.load, rows.tend)
    async with trio.open_nursery() as nursery:
        await nursery.start(heap.run)
        yield rows, heap
        nursery.cancel_scope.cancel()


async def test_rows_that_are_due_at_start_are_tended_at_once() -> None:
    async with running(old=-3600, now=0) as (rows, _):
        await trio.sleep(0.01)

        assert [key for key, _ in rows.tended] == ["old", "now"]


async def test_each_key_is_tended_when_it_is_due_and_not_before() -> None:
    async with running(a=5, b=59, c=61, d=3600) as (rows, _):
        await trio.sleep(4000)

        assert rows.tended == [("a", 5000), ("b", 59000), ("c", 61000), ("d", 3_600_000)]


async def test_a_new_deadline_sooner_than_all_others_wakes_the_heap() -> None:
    async with running(late=50) as (rows, heap):
        await trio.sleep(1)
        rows.due["soon"] = START_MS + 2000
        heap.add("soon", START_MS + 2000)
        await trio.sleep(60)

        assert rows.tended == [("soon", 2000), ("late", 50000)]


async def test_a_deadline_beyond_the_window_is_left_to_the_index() -> None:
    async with running() as (rows, heap):
        await trio.sleep(1)
        far_ms = rows.clock.now_ms() + WINDOW_MS * 10
        heap.add("far", far_ms)
        rows.due["far"] = far_ms
        await trio.sleep(WINDOW_MS / 1000 * 12)

        assert rows.tended == [("far", far_ms - START_MS)]


async def test_when_the_clock_is_moved_what_became_due_is_tended_now() -> None:
    async with running(tomorrow=86_400) as (rows, _):
        await trio.sleep(1)
        rows.clock.move_to_offset(86_400_000)
        await trio.sleep(0.01)

        assert [key for key, _ in rows.tended] == ["tomorrow"]


async def test_more_rows_than_one_refill_takes_are_all_tended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "LOADED_MAX", 10)
    async with running(**{f"k{number:03}": -number for number in range(55)}) as (rows, _):
        await trio.sleep(1)

        assert len({key for key, _ in rows.tended}) == 55


async def test_a_deadline_that_comes_while_its_key_is_tended_is_not_lost() -> None:
    rows = Rows(Clock(VirtualWall(START_MS)))
    times: list[int] = []

    async def slow(key: str) -> None:
        times.append(rows.clock.now_ms() - START_MS)
        await trio.sleep(2)

    heap = Deadlines(rows.clock, rows.load, slow)
    async with trio.open_nursery() as nursery:
        await nursery.start(heap.run)
        heap.add("a", START_MS)
        await trio.sleep(1)
        heap.add("a", START_MS + 1000)
        await trio.sleep(5)
        nursery.cancel_scope.cancel()

    assert times == [0, 2000]


async def test_an_idle_heap_reads_the_index_once_a_window() -> None:
    async with running() as (rows, _):
        await trio.sleep(3600)

        assert rows.loads <= 3600 / (WINDOW_MS / 1000) + 2
