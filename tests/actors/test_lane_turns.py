"""Who goes next at one endpoint, where more is owed than the receiver takes."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from payd.actors.lane import TURNS
from payd.store.db import Database, Tx
from payd.store.deliveries import FRESH, REPLAY, RETRY, pending_heads, requeue
from payd.store.endpoints import switch_endpoint
from tests.actors.lane_bench import Bench, open_bench
from tests.store.test_deliveries import happen


@pytest.fixture
async def bench(realm_db: Database) -> Bench:
    """A lane that does not run yet, to a receiver that takes one request at a time."""
    bench = await open_bench(realm_db)
    bench.share = 1
    return bench


async def owe(bench: Bench, number: int, priority: int = FRESH) -> None:
    """Owe a fresh event, or one that was sent before and is due again, or a replay."""
    await happen(bench.db, number, now_ms=bench.clock.now_ms())

    def sent_before(tx: Tx) -> None:
        values = (priority, int(priority == RETRY), f"dlv_{number}")
        tx.execute("UPDATE deliveries SET priority = ?, attempts = ? WHERE id = ?", values)

    await bench.db.write(sent_before)


async def answer(bench: Bench, number: int) -> None:
    """Have the receiver take so many, one after the other; whenever it took one, another event happens."""
    for _ in range(number):
        await owe(bench, 1000 + len(bench.started))
        bench.lane.note_owed()
        bench.ends[bench.started[-1]].set()
        await bench.settle()


async def test_what_is_due_again_and_what_is_replayed_have_their_turns_among_ever_fresh_ones(
    bench: Bench,
) -> None:
    for number in range(3):
        await owe(bench, number)
    for number, priority in [(11, RETRY), (12, RETRY), (21, REPLAY), (22, REPLAY)]:
        await owe(bench, number, priority)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.lane.run)
        await bench.settle()
        await answer(bench, 2 * len(TURNS) - 1)
        nursery.cancel_scope.cancel()

    others = [name for name in bench.started if name in ("dlv_11", "dlv_12", "dlv_21", "dlv_22")]
    assert others == ["dlv_11", "dlv_21", "dlv_12", "dlv_22"]
    assert bench.started[:4] == ["dlv_0", "dlv_1", "dlv_2", "dlv_11"]


async def test_a_turn_of_what_is_not_there_is_a_fresh_one_s(bench: Bench) -> None:
    for number in range(2 * len(TURNS)):
        await owe(bench, number)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.lane.run)
        await bench.settle()
        await answer(bench, 2 * len(TURNS) - 1)
        nursery.cancel_scope.cancel()

    assert bench.started == [f"dlv_{number}" for number in range(2 * len(TURNS))]


async def test_fresh_ones_alone_have_no_other_queue_looked_at_for_each(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await owe(bench, 1)
    looked_at: list[int] = []
    point = bench.db.point

    def watched(query: Any, *args: Any) -> Any:
        if query is pending_heads:
            looked_at.append(args[1])
        return point(query, *args)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.lane.run)
        await bench.settle()
        monkeypatch.setattr(bench.db, "point", watched)
        await answer(bench, 3 * len(TURNS))
        nursery.cancel_scope.cancel()

    assert looked_at.count(FRESH) == 3 * len(TURNS)
    assert looked_at.count(RETRY) + looked_at.count(REPLAY) <= 2


async def test_what_was_cancelled_and_is_replayed_is_sent_once_though_it_was_looked_up_before(
    bench: Bench,
) -> None:
    bench.share = 2
    for number in range(20):
        await owe(bench, number, RETRY)

    def off_and_on(tx: Tx) -> None:
        for act in ("disable", "enable"):
            switch_endpoint(tx, account_id="acct_1", act=act, now_ms=0, actor="test")
        for number in range(20):
            requeue(tx, f"dlv_{number}", 0)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.lane.run)
        await bench.settle()
        await bench.db.write(off_and_on)
        bench.lane.wake()
        for number in range(20):
            bench.ends[bench.started[number]].set()
            await bench.settle()

    assert bench.retired
    assert sorted(bench.started) == sorted(f"dlv_{number}" for number in range(20))
