"""Supervision: what crashes starts again, later and later; what was asked for goes on without its asker."""

from __future__ import annotations

import pytest
import structlog
import trio

from payd.actors.supervisor import RESTART, Backoff, do_all, in_background, keep_running
from payd.core.errors import InternalError, StoreUnavailable


async def test_a_task_that_crashes_or_ends_is_started_again_with_backoff() -> None:
    starts: list[float] = []
    begun = trio.current_time()

    async def crash() -> None:
        starts.append(trio.current_time() - begun)
        if len(starts) % 2:
            raise ZeroDivisionError

    with trio.move_on_after(10):
        await keep_running("crash", crash)

    assert starts == [0.0, 0.5, 1.5, 3.5, 7.5]


async def test_a_run_that_lasted_clears_the_count_of_failures() -> None:
    starts: list[float] = []
    begun = trio.current_time()

    async def last_a_while() -> None:
        starts.append(trio.current_time() - begun)
        await trio.sleep(100)
        raise ZeroDivisionError

    with trio.move_on_after(310):
        await keep_running("steady", last_a_while)

    assert [round(at, 1) for at in starts] == [0.0, 100.5, 201.0, 301.5]


async def test_a_crash_inside_a_nursery_is_a_crash() -> None:
    starts = 0

    async def crash_inside() -> None:
        nonlocal starts
        starts += 1
        async with trio.open_nursery():
            raise ZeroDivisionError

    with trio.move_on_after(1):
        await keep_running("group", crash_inside)

    assert starts == 2


async def test_the_end_of_the_process_is_not_swallowed() -> None:
    async def leave() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await keep_running("leave", leave)


def test_delays_double_up_to_the_last() -> None:
    assert [Backoff(1, 5).delay_s(failures) for failures in (1, 2, 3, 4, 50)] == [1, 2, 4, 5, 5]
    assert RESTART.last_s == 60


async def test_background_work_gives_its_result_or_its_error() -> None:
    async def work() -> int:
        await trio.sleep(1)
        return 7

    async def fail() -> None:
        raise ValueError("no")

    async with trio.open_nursery() as nursery:
        assert await in_background(nursery, work) == 7
        with pytest.raises(ValueError, match="no"):
            await in_background(nursery, fail)


async def test_background_work_goes_on_when_nobody_waits_any_more() -> None:
    done: list[bool] = []

    async def work() -> None:
        await trio.sleep(2)
        done.append(True)

    async with trio.open_nursery() as nursery:
        with trio.move_on_after(1):
            await in_background(nursery, work)
        assert done == []

    assert done == [True]


async def test_who_waits_for_work_that_is_cancelled_is_told() -> None:
    answers: list[str] = []

    async def wait(nursery: trio.Nursery) -> None:
        try:
            await in_background(nursery, trio.sleep_forever)
        except InternalError as stopped:
            answers.append(stopped.message)

    async with trio.open_nursery() as outer, trio.open_nursery() as nursery:
        outer.start_soon(wait, nursery)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()

    assert answers == ["The server is stopping."]


def test_a_delay_stays_the_last_one_however_often_it_failed() -> None:
    assert Backoff(1.0, 60.0).delay_s(100_000) == 60.0


async def test_a_chore_that_crashes_is_told_once_and_keeps_no_other_from_running() -> None:
    async def count() -> int:
        await trio.lowlevel.checkpoint()
        return 3

    async def crash() -> int:
        raise ZeroDivisionError

    with structlog.testing.capture_logs() as logged:
        counts = await do_all({"first": count, "broken": crash, "last": count})

    assert counts == {"first": 3, "last": 3}
    assert [(entry["event"], entry["chore"]) for entry in logged] == [("chore.crashed", "broken")]


async def test_chores_end_where_nothing_can_be_stored() -> None:
    begun: list[str] = []

    async def begin() -> int:
        begun.append("one")
        raise StoreUnavailable("The disk is full.")

    with pytest.raises(StoreUnavailable):
        await do_all({"first": begin, "second": begin})

    assert begun == ["one"]
