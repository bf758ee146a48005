"""The heap of deadlines: everything is tended when due, whether it came by row or by word."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from payd.actors import deadlines
from payd.actors.deadlines import WINDOW_MS, Deadlines, Due
from payd.clock import Clock
from tests.virtual_wall import VirtualWall

START_MS = 1_780_000_000_000


class Rows:
    """The due-time index, and who was tended when."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.due: dict[str, int] = {}
        self.tended: list[tuple[str, int]] = []
        self.loads = 0
        self.load_s = 0.0

    async def load(self, after: Due, until_ms: int, limit: int) -> list[Due]:
        self.loads += 1
        rows = sorted((at, key) for key, at in self.due.items() if after < (at, key) and at <= until_ms)
        await trio.sleep(self.load_s)
        return rows[:limit]

    async def tend(self, key: str) -> None:
        await trio.lowlevel.checkpoint()
        self.tended.append((key, self.clock.now_ms() - START_MS))
        self.due.pop(key, None)

    async def tend_quick(self, key: str) -> None:
        """All but one are never done."""
        if key != "quick":
            await trio.sleep_forever()
        await self.tend(key)


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


async def test_a_deadline_that_comes_while_the_index_is_read_is_not_lost() -> None:
    async with running() as (rows, heap):
        rows.load_s = 0.5
        await trio.sleep(WINDOW_MS / 1000 + 0.1)
        soon_ms = rows.clock.now_ms() + 1000
        rows.due["soon"] = soon_ms
        heap.add("soon", soon_ms)
        await trio.sleep(2)

        assert rows.tended == [("soon", soon_ms - START_MS)]


async def test_a_reload_while_the_index_is_read_reads_it_once_more() -> None:
    async with running() as (rows, heap):
        rows.load_s = 0.5
        await trio.sleep(WINDOW_MS / 1000 + 0.1)
        rows.due["unseen"] = START_MS
        heap.reload()
        await trio.sleep(2)

        assert [key for key, _ in rows.tended] == ["unseen"]


async def test_a_reload_while_a_later_page_is_read_loses_none_of_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deadlines, "LOADED_MAX", 2)
    rows = Rows(Clock(VirtualWall(START_MS)))
    rows.due = {key: START_MS + at_s * 1000 for key, at_s in (("a", 10), ("b", 10), ("c", 20), ("d", 20))}
    heap, load = Deadlines(rows.clock, lambda *args: reading(*args), rows.tend), rows.load

    async def reading(after: Due, until_ms: int, limit: int) -> list[Due]:
        found = await load(after, until_ms, limit)
        if rows.loads == 2:
            heap.reload()
        return found

    async with trio.open_nursery() as nursery:
        await nursery.start(heap.run)
        await trio.sleep(40)
        nursery.cancel_scope.cancel()

    assert sorted(rows.tended) == [("a", 10_000), ("b", 10_000), ("c", 20_000), ("d", 20_000)]


async def test_rows_that_stay_due_hide_none_behind_them_and_are_read_once_a_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deadlines, "LOADED_MAX", 5)
    rows = Rows(Clock(VirtualWall(START_MS)))
    rows.due = {f"stuck{number:02}": START_MS - number for number in range(12)} | {
        "behind": START_MS + 70_000
    }
    times: list[tuple[str, int]] = []

    async def stay(key: str) -> None:
        times.append((key, rows.clock.now_ms() - START_MS))

    heap = Deadlines(rows.clock, rows.load, stay)
    async with trio.open_nursery() as nursery:
        await nursery.start(heap.run)
        await trio.sleep(100)
        nursery.cancel_scope.cancel()

    assert ("behind", 70_000) in times
    assert [key for key, _ in times].count("stuck00") == 2
    assert rows.loads == 2 * 3


async def test_the_next_page_is_read_when_the_last_one_is_tended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "LOADED_MAX", 5)
    rows = Rows(Clock(VirtualWall(START_MS)))
    rows.due = {f"k{number:02}": START_MS - 1 for number in range(40)}
    at_once = most = 0

    async def slow(key: str) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await trio.sleep(1)
        at_once -= 1
        rows.due.pop(key, None)

    heap = Deadlines(rows.clock, rows.load, slow)
    async with trio.open_nursery() as nursery:
        await nursery.start(heap.run)
        await trio.sleep(0.5)
        heap.add("k00", START_MS)
        await trio.sleep(0.1)
        assert rows.loads == 2
        await trio.sleep(9)
        nursery.cancel_scope.cancel()

    assert rows.due == {}
    assert most <= 2 * 5


async def test_many_that_are_slow_keep_nobody_waiting() -> None:
    rows = Rows(Clock(VirtualWall(START_MS)))
    rows.due = {f"slow{number}": START_MS for number in range(1000)}

    heap = Deadlines(rows.clock, rows.load, rows.tend_quick)
    async with trio.open_nursery() as nursery:
        await nursery.start(heap.run)
        heap.add("quick", START_MS + 5000)
        await trio.sleep(10)
        nursery.cancel_scope.cancel()

    assert rows.tended == [("quick", 5000)]


async def test_after_the_wall_clock_was_set_back_far_the_index_is_read_again() -> None:
    wall = VirtualWall(START_MS)
    back_ms = 0
    rows = Rows(Clock(lambda: wall() - back_ms))
    heap = Deadlines(rows.clock, rows.load, rows.tend)
    async with trio.open_nursery() as nursery:
        await nursery.start(heap.run)
        await trio.sleep(1)
        back_ms = 3_600_000
        rows.due["untold"] = rows.clock.now_ms() + 100_000
        await trio.sleep(200)
        nursery.cancel_scope.cancel()

    assert rows.tended == [("untold", -back_ms + 101_000)]


async def test_whoever_waits_for_the_end_of_a_tend_goes_on_then() -> None:
    async with running(a=5) as (rows, heap):
        with trio.fail_after(6):
            await heap.ended.park()

        assert [key for key, _ in rows.tended] == ["a"]
        assert not heap.busy


async def test_what_was_due_first_goes_before_what_follows_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "LOADED_MAX", 8)
    monkeypatch.setattr(deadlines, "TOGETHER_MAX", 3)
    rows = Rows(Clock(VirtualWall(START_MS)))
    rows.due = {"alone": START_MS - 100}
    handed: list[str] = []

    async def together(keys: Sequence[str]) -> list[str]:
        handed.extend(keys)
        await trio.sleep(0.1)
        for key in keys:
            rows.due.pop(key)
            if key.startswith("first"):
                rows.due[f"then{key}"] = rows.clock.now_ms()
                heap.add(f"then{key}", rows.clock.now_ms())
        return []

    heap = Deadlines(rows.clock, rows.load, rows.tend, together)
    async with trio.open_nursery() as nursery:
        await nursery.start(heap.run)
        await trio.sleep(1)
        rows.due = {f"first{number:02}": START_MS + number for number in range(30)}
        heap.reload()
        await trio.sleep(10)
        nursery.cancel_scope.cancel()

    assert rows.tended.pop(0) == ("alone", 0)
    assert handed[:30] == [f"first{number:02}" for number in range(30)]
    assert sorted(handed[30:] + [key for key, _ in rows.tended]) == [f"thenfirst{n:02}" for n in range(30)]
    assert rows.due == {}


@pytest.mark.parametrize("are_handed_over", [True, False])
async def test_while_no_more_are_taken_it_sleeps(
    are_handed_over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that is: past the end of the window that was read."""
    monkeypatch.setattr(deadlines, "LOADED_MAX", 5)
    rows = Rows(Clock(VirtualWall(START_MS)))
    rows.due = {f"slow{number:02}": START_MS - 100 + number for number in range(12)}

    async def tend(_: str) -> None:
        await trio.sleep_forever()

    async def together(keys: Sequence[str]) -> Sequence[str]:
        await trio.sleep(math.inf)
        return keys

    heap = Deadlines(rows.clock, rows.load, tend, together if are_handed_over else None)
    slept, looks = heap._sleep, 0

    async def count() -> None:
        nonlocal looks
        looks += 1
        assert looks < 20
        await slept()

    monkeypatch.setattr(heap, "_sleep", count)
    async with trio.open_nursery() as nursery:
        await nursery.start(heap.run)
        heap.add("due", START_MS)
        await trio.sleep(10 * WINDOW_MS / 1000)
        nursery.cancel_scope.cancel()


async def test_who_was_looked_after_when_it_ended_is_looked_after_when_it_runs_again() -> None:
    """The supervisor starts it anew, as after an index that could not be read."""
    rows = Rows(Clock(VirtualWall(START_MS)))
    rows.due = {key: START_MS - 1 for key in "abcdef"}

    async def together(keys: Sequence[str]) -> Sequence[str]:
        return keys

    async def end(key: str) -> None:
        nursery.cancel_scope.cancel()
        await rows.tend(key)

    heap = Deadlines(rows.clock, rows.load, end, together)
    async with trio.open_nursery() as nursery:
        await nursery.start(heap.run)
        await trio.sleep(1)
    assert rows.tended == []

    heap._tend = rows.tend
    async with trio.open_nursery() as nursery:
        await nursery.start(heap.run)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert sorted(key for key, _ in rows.tended) == list("abcdef")
    assert not heap.busy


async def test_who_was_to_come_again_when_it_ended_comes_once_when_it_runs_again() -> None:
    rows = Rows(Clock(VirtualWall(START_MS)))
    rows.due = {"a": START_MS - 2, "b": START_MS - 1}

    async def hang(keys: Sequence[str]) -> Sequence[str]:
        await trio.sleep_forever()
        raise AssertionError

    heap = Deadlines(rows.clock, rows.load, rows.tend, hang)
    async with trio.open_nursery() as nursery:
        await nursery.start(heap.run)
        await trio.sleep(1)
        heap.add("a", START_MS + 1)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()

    heap._together = None
    async with trio.open_nursery() as nursery:
        await nursery.start(heap.run)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert sorted(key for key, _ in rows.tended) == ["a", "b"]


async def test_whoever_waits_for_the_end_of_a_tend_goes_on_when_it_runs_again() -> None:
    """What was being tended ended with the run before, and it may be that nothing is due any more."""
    rows = Rows(Clock(VirtualWall(START_MS)))
    heap = Deadlines(rows.clock, rows.load, rows.tend)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(heap.ended.park)
        await trio.testing.wait_all_tasks_blocked()
        assert heap.ended.statistics().tasks_waiting == 1
        await nursery.start(heap.run)
        assert heap.ended.statistics().tasks_waiting == 0
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("are_handed_over", "quick_at_ms"), [(True, 1000), (False, 500)])
async def test_more_than_a_page_of_slow_ones_keep_nobody_waiting(
    are_handed_over: bool, quick_at_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "LOADED_MAX", 5)
    rows = Rows(Clock(VirtualWall(START_MS)))
    rows.due = {f"slow{number:02}": START_MS - 100 + number for number in range(20)}

    async def together(keys: Sequence[str]) -> Sequence[str]:
        await trio.sleep(1)
        return keys

    heap = Deadlines(rows.clock, rows.load, rows.tend_quick, together if are_handed_over else None)
    async with trio.open_nursery() as nursery:
        await nursery.start(heap.run)
        heap.add("quick", START_MS + 500)
        await trio.sleep(10)
        nursery.cancel_scope.cancel()

    assert rows.tended == [("quick", quick_at_ms)]


async def test_several_that_are_due_are_handed_over_at_once_and_who_is_left_is_tended_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deadlines, "TOGETHER_MAX", 3)
    rows = Rows(Clock(VirtualWall(START_MS)))
    rows.due = {key: START_MS - 10 + place for place, key in enumerate("abcdefg")} | {
        "later": START_MS + 5000
    }
    handed: list[list[str]] = []

    async def together(keys: Sequence[str]) -> list[str]:
        handed.append(list(keys))
        await trio.sleep(1)
        for key in keys:
            rows.due.pop(key) if key not in "bc" else None
        return [key for key in keys if key in "bc"]

    heap = Deadlines(rows.clock, rows.load, rows.tend, together)
    async with trio.open_nursery() as nursery:
        await nursery.start(heap.run)
        await trio.sleep(0.5)
        heap.add("a", START_MS)
        await trio.sleep(10)
        assert not heap.busy
        nursery.cancel_scope.cancel()

    assert sorted(handed) == [["a", "b", "c"], ["d", "e", "f"]]
    # What came for one while it was handed over is not lost.
    assert sorted(rows.tended) == [("a", 1000), ("b", 1000), ("c", 1000), ("g", 0), ("later", 5000)]
