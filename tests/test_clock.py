"""The realm's clock: never early, never back, and every sleeper hears when it is moved."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from payd.clock import RECHECK_S, Clock, http_date, monotonic_s, system_wall_ms
from tests.virtual_wall import VirtualWall

HOUR_MS = 3_600_000


async def test_a_virtual_wall_follows_trios_clock() -> None:
    wall = VirtualWall(start_ms=1000)
    await trio.sleep(2.5)
    assert wall() == 3500


async def test_a_realms_time_is_the_walls_plus_its_offset_and_real_time_is_not_shifted() -> None:
    clock = Clock(VirtualWall(start_ms=1000), offset_ms=50)
    clock.move_to_offset(HOUR_MS)
    assert clock.now_ms() == 1000 + HOUR_MS
    assert clock.real_ms() == 1000
    assert clock.offset_ms == HOUR_MS


async def test_a_sleeper_wakes_when_its_time_has_come_and_not_before() -> None:
    clock = Clock(VirtualWall(start_ms=0))
    await clock.sleep_until_ms(28 * HOUR_MS)
    assert clock.now_ms() == 28 * HOUR_MS


async def test_a_wall_clock_that_runs_slow_is_waited_for_to_the_end() -> None:
    started_s = trio.current_time()
    clock = Clock(lambda: int((trio.current_time() - started_s) * 900))
    await clock.sleep_until_ms(1000)
    assert clock.now_ms() >= 1000


async def test_a_time_that_has_passed_is_not_waited_for_but_lets_others_run() -> None:
    clock = Clock(VirtualWall(start_ms=1000))
    with trio.testing.assert_checkpoints():
        await clock.sleep_until_ms(1000)
    assert clock.now_ms() == 1000


async def test_moving_the_clock_wakes_whoever_is_due_and_leaves_the_others(
    nursery: trio.Nursery,
) -> None:
    clock = Clock(VirtualWall(start_ms=0))
    woken: list[int] = []

    async def sleeper(at_ms: int) -> None:
        await clock.sleep_until_ms(at_ms)
        woken.append(at_ms)

    nursery.start_soon(sleeper, HOUR_MS)
    nursery.start_soon(sleeper, 3 * HOUR_MS)
    await trio.testing.wait_all_tasks_blocked()
    clock.move_to_offset(2 * HOUR_MS)
    await trio.testing.wait_all_tasks_blocked()

    assert woken == [HOUR_MS]
    await trio.sleep(3600)
    await trio.testing.wait_all_tasks_blocked()
    assert woken == [HOUR_MS, 3 * HOUR_MS]


async def test_a_wall_clock_that_is_set_forward_is_noticed_soon() -> None:
    wall_ms = 0
    clock = Clock(lambda: wall_ms)
    started_s = trio.current_time()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(clock.sleep_until_ms, HOUR_MS)
        await trio.testing.wait_all_tasks_blocked()
        wall_ms = HOUR_MS

    assert trio.current_time() - started_s <= RECHECK_S


async def test_a_realms_clock_never_goes_back() -> None:
    clock = Clock(VirtualWall(), offset_ms=10)
    with pytest.raises(AssertionError, match="only goes forward"):
        clock.move_to_offset(9)


def test_the_systems_clocks_are_in_the_units_of_their_names() -> None:
    assert 1_700_000_000_000 < system_wall_ms() < 5_000_000_000_000
    earlier_s = monotonic_s()
    assert 0 <= monotonic_s() - earlier_s < 60


def test_http_has_the_walls_date_in_whole_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    walls = {
        784_111_777_999: "Sun, 06 Nov 1994 08:49:37 GMT",  # RFC 9110, section 5.6.7
        784_111_778_000: "Sun, 06 Nov 1994 08:49:38 GMT",
        951_868_799_000: "Tue, 29 Feb 2000 23:59:59 GMT",
    }
    for wall_ms, date in walls.items():
        monkeypatch.setattr("payd.clock.system_wall_ms", lambda wall_ms=wall_ms: wall_ms)
        assert http_date() == date
