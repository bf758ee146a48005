"""Deliveries over an endpoint's life and the world's: pauses, crowds, downtimes, clocks that jump."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio

from payd.actors.deliveries import IN_FLIGHT_MAX, POLL_S
from payd.actors.lane import SPREAD_MAX_S
from payd.clock import Clock
from payd.core.errors import StoreUnavailable
from payd.core.retry import RETRY_DELAYS_S
from payd.store.db import Database
from payd.store.deliveries import astray
from tests.outbox import make_outbox, open_outbox
from tests.receiver import Does, always
from tests.virtual_wall import VirtualWall

HOUR_S = 3600


class JumpingWall:
    """A wall clock that somebody sets."""

    def __init__(self) -> None:
        self._wall = VirtualWall()
        self.jump_ms = 0

    def __call__(self) -> int:
        return self._wall() + self.jump_ms


async def test_what_happens_during_a_pause_is_sent_in_order_when_it_ends(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test")
        await outbox.register("a.test")
        await outbox.switch("pause")
        ids = [await outbox.happen(payment_id="pay_1") for _ in range(5)]
        await trio.sleep(2 * HOUR_S)
        assert receiver.received == []
        assert outbox.deliveries.next_due_ms() is None, "nothing is due that may not be sent"
        await outbox.switch("resume")
        await outbox.drained()

        assert [received.body.split(b'"')[3].decode() for received in receiver.received] == ids


async def test_a_pause_holds_retries_back_and_costs_them_nothing(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test", always(Does(status=500)))
        await outbox.register("a.test")
        await outbox.happen()
        await trio.sleep(1)
        await outbox.switch("pause")
        await trio.sleep(HOUR_S)
        assert len(receiver.received) == 1
        await outbox.switch("resume")
        await outbox.advance(40 * HOUR_S)

        assert len(receiver.received) == 8
        [row] = outbox.rows()
        assert row.state == "failed"


async def test_a_pause_is_over_a_restart_too(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        await outbox.register("a.test")
        await outbox.switch("pause")
        await outbox.happen()
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test")
        await trio.sleep(HOUR_S)
        assert receiver.received == []
        await outbox.switch("resume")
        await outbox.drained()
        assert len(receiver.received) == 1


async def test_a_crowd_of_slow_receivers_leaves_room_for_others(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        for number in range(60):
            outbox.host(f"slow{number}.test", always(Does(status=500, delay_s=14)))
            await outbox.register(f"slow{number}.test", f"acct_slow{number}")
            for _ in range(12):
                await outbox.happen(account_id=f"acct_slow{number}")
        await trio.sleep(1)
        held = outbox.deliveries.in_flight
        assert 60 * 2 <= held < IN_FLIGHT_MAX
        receiver = outbox.host("a.test")
        await outbox.register("a.test")
        started_s = trio.current_time()
        await outbox.happen()
        while not receiver.received:
            await trio.sleep(0.01)

        assert trio.current_time() - started_s < 0.1
        assert all(lane.in_flight >= 1 for lane in outbox.deliveries._lanes.values())


async def test_after_our_downtime_a_receiver_is_not_met_by_everything_at_once(realm_db: Database) -> None:
    clock = Clock(VirtualWall())
    async with open_outbox(realm_db, clock=clock) as outbox:
        await outbox.register("a.test")
        await outbox.switch("pause")
        for _ in range(50):
            await outbox.happen()
    await trio.sleep(600)
    async with open_outbox(realm_db, clock=clock) as outbox:
        receiver = outbox.host("a.test", always(Does(delay_s=1)))
        await outbox.switch("resume")
        await trio.sleep(0.5)
        assert len(receiver.received) == 1
        await trio.sleep(1)
        assert len(receiver.received) == 3
        await trio.sleep(10)
        assert len(outbox.rows()) == len(receiver.received) == 50


@pytest.mark.parametrize("live", [True, False])
async def test_after_our_downtime_the_endpoints_of_one_receiver_begin_at_moments_of_their_own(
    realm_db: Database, live: bool
) -> None:
    clock = Clock(VirtualWall())
    accounts = [f"acct_{number}" for number in range(20)]
    async with trio.open_nursery() as nursery:
        stopped = make_outbox(realm_db, nursery, clock=clock)
        for account_id in accounts:
            await stopped.register("a.test", account_id)
            await stopped.happen(account_id=account_id)
    await trio.sleep(600)
    started_s = trio.current_time()
    async with open_outbox(realm_db, clock=clock, jitter=live) as outbox:
        receiver = outbox.host("a.test")
        received = await receiver.count(len(accounts))
        after_s = sorted(one.at_s - started_s for one in received)

    assert after_s[-1] <= SPREAD_MAX_S
    assert len(set(after_s)) == (len(accounts) if live else 1)
    assert (after_s[-1] - after_s[0] > 1) == live


async def test_when_the_wall_clock_jumps_ahead_what_became_due_is_sent_and_the_schedule_goes_on(
    realm_db: Database,
) -> None:
    wall = JumpingWall()
    async with open_outbox(realm_db, clock=Clock(wall)) as outbox:
        receiver = outbox.host("a.test", always(Does(status=500)))
        await outbox.register("a.test")
        await outbox.happen()
        await trio.sleep(10)
        assert len(receiver.received) == 2
        wall.jump_ms = 3 * 24 * HOUR_S * 1000
        await trio.sleep(POLL_S + 1)
        assert len(receiver.received) == 3, "the one that was due five minutes later"
        await trio.sleep(RETRY_DELAYS_S[3] - 60)
        assert len(receiver.received) == 3
        await trio.sleep(120)
        assert len(receiver.received) == 4
        [row] = outbox.rows()
        assert row.state == "pending"


@pytest.mark.parametrize("fails", [0, 1])
async def test_when_the_wall_clock_is_set_back_nothing_waits_for_the_time_it_showed(
    fails: int, realm_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the store cannot be read at that moment."""
    left, look = 0, realm_db.look

    async def look_or_fail(query: Callable[..., Any], *args: Any) -> Any:
        nonlocal left
        if query is astray and left:
            left -= 1
            raise StoreUnavailable("The store cannot be read at the moment.")
        return await look(query, *args)

    monkeypatch.setattr(realm_db, "look", look_or_fail)
    wall = JumpingWall()
    wall.jump_ms = 30 * 24 * HOUR_S * 1000
    async with open_outbox(realm_db, clock=Clock(wall)) as outbox:
        receiver = outbox.host("a.test", always(Does(status=500)))
        await outbox.register("a.test")
        await outbox.happen()
        await trio.sleep(10)
        assert len(receiver.received) == 2
        wall.jump_ms, left = 0, fails
        await trio.sleep(POLL_S)
        await trio.sleep(RETRY_DELAYS_S[2] - POLL_S)
        assert len(receiver.received) == 2, "never early"
        await trio.sleep(2 * POLL_S)
        assert len(receiver.received) == 3


@pytest.mark.parametrize("restarts", [False, True])
async def test_what_happened_on_hold_does_not_wait_for_the_time_that_a_wrong_clock_showed(
    restarts: bool, realm_db: Database
) -> None:
    wall = JumpingWall()
    wall.jump_ms = 5 * HOUR_S * 1000
    clock = Clock(wall)
    async with open_outbox(realm_db, clock=clock) as outbox:
        receiver = outbox.host("a.test")
        await outbox.register("a.test")
        await outbox.switch("pause")
        await outbox.happen()
        if not restarts:
            wall.jump_ms = 0
            await trio.sleep(2 * POLL_S)
            await outbox.switch("resume")
            await trio.sleep(1)
            assert len(receiver.received) == 1
    if restarts:
        wall.jump_ms = 0
        async with open_outbox(realm_db, clock=clock) as outbox:
            receiver = outbox.host("a.test")
            await trio.sleep(1)
            await outbox.switch("resume")
            await trio.sleep(1)
            assert len(receiver.received) == 1


async def test_a_small_step_back_makes_nothing_early_and_nothing_lost(realm_db: Database) -> None:
    wall = JumpingWall()
    async with open_outbox(realm_db, clock=Clock(wall)) as outbox:
        receiver = outbox.host("a.test", always(Does(status=500)))
        await outbox.register("a.test")
        await outbox.happen()
        await trio.sleep(1)
        wall.jump_ms = -60_000
        await trio.sleep(40)
        assert len(receiver.received) == 1
        await trio.sleep(60)
        assert len(receiver.received) == 2
