"""What was read past because no node could tell of it is read again, for a day, and by itself."""

from __future__ import annotations

import pytest
import trio

from payd.actors import skipped
from payd.actors.node_choice import UNREADABLE_S
from payd.actors.skipped import AT_ONCE_MAX, FIRST_S, TRIES_MAX, SkippedTurns
from tests.actors.solana_watching import SolanaWatching
from tests.actors.watching import Watching

DAY_S = 86_400
# In place of minutes, which are many ticks.
SOON_S = 10.0


async def test_each_has_its_turns_after_growing_pauses_and_no_more_after_a_day(
    autojump_clock: trio.testing.MockClock,
) -> None:
    turns, asked = SkippedTurns(), []
    for minute in range(2 * DAY_S // 60):
        asked += [minute for _ in turns.due({"one"})]
        await trio.sleep(60)
    assert asked == [5, 15, 35, 75, 155, 315, 635, 1275]
    assert len(asked) == TRIES_MAX


async def test_many_take_turns_and_what_was_read_since_has_none(
    autojump_clock: trio.testing.MockClock,
) -> None:
    turns, passed = SkippedTurns(), {str(number) for number in range(AT_ONCE_MAX + 1)}
    assert turns.due(passed) == []
    await trio.sleep(FIRST_S)
    first = turns.due(passed)
    second = turns.due(passed)
    assert (len(first), len(second)) == (AT_ONCE_MAX, 1)
    assert {*first, *second} == passed
    await trio.sleep(DAY_S)
    assert turns.due({"0"}) == ["0"]


async def test_a_payment_that_solana_nodes_could_not_tell_of_is_found_once_they_can(
    solana: SolanaWatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skipped, "FIRST_S", SOON_S)
    payment = await solana.sell()
    paid = await solana.pay(payment)
    solana.nodes[0].denies.add(paid)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(solana.watcher.run)
        await trio.sleep(UNREADABLE_S + 10)
        await solana.later()
        await trio.sleep(UNREADABLE_S + 10)
        assert paid in solana.walk.skipped_again
        await trio.sleep(SOON_S)
        assert solana.kinds(paid) == []
        solana.nodes[0].denies.clear()
        await trio.sleep(8 * SOON_S)
        nursery.cancel_scope.cancel()
    assert solana.kinds(paid) == ["matched"]
    assert solana.told[-1] == payment
    assert solana.watcher.stats().skipped == 0


@pytest.mark.parametrize("tells", [True, False])
async def test_so_is_one_of_another_chain_and_what_is_never_told_of_stays_counted(
    watching: Watching, tells: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skipped, "FIRST_S", SOON_S)
    paid = watching.pay(await watching.till.sell())
    watching.views[0].denies.add(paid.hash)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watching.watcher.run)
        await trio.sleep(140)
        watching.chain.mine_empty(watching.chain.final_depth)
        await trio.sleep(140)
        assert watching.till.kinds(paid.hash) == []
        if tells:
            watching.views[0].denies.clear()
        await trio.sleep(16 * SOON_S)
        nursery.cancel_scope.cancel()
    assert watching.till.kinds(paid.hash) == (["matched"] if tells else [])
    assert watching.watcher.stats().skipped == (0 if tells else 1)
