"""A node that goes on along a fork of its own: of three, the two others are the chain."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio

from payd.actors.node_choice import SECOND_WAIT_S
from payd.chains.evm.binding import payment_tag
from payd.store.db import Database
from tests.actors.test_block_walk_closing import closed_s, pass_until, sell
from tests.actors.watching import Watching, open_watching
from tests.chains.fake_chain import FakeChain, token_transfer
from tests.till import PRICE


@pytest.fixture
async def three(realm_db: Database) -> AsyncIterator[Watching]:
    async with open_watching(realm_db, nodes=3) as watching:
        yield watching


def fork(watching: Watching, place: int = 0) -> FakeChain:
    """Put a node on a fork of its own, which begins above what was read."""
    watching.chain.mine()
    other = FakeChain(0)
    other.blocks = list(watching.chain.blocks)
    other.reorg(1, [])
    watching.views[place].chain = other
    return other


async def go_on(watching: Watching, other: FakeChain, *, every_s: int, ticks: int, ahead: int = 0) -> None:
    """So many ticks of the watcher, between which each chain has its blocks."""
    for _ in range(ticks):
        await pass_until(watching, watching.chain.head.time_s + every_s)
        other.mine_empty(len(watching.chain.blocks) + ahead - len(other.blocks))
        await watching.watcher.run_once()


@pytest.mark.parametrize("ahead", [0, 40], ids=["as long as the chain", "longer than it"])
async def test_what_was_paid_is_found_though_the_first_of_three_nodes_is_on_a_fork(
    three: Watching, ahead: int
) -> None:
    payment, ends_s = await sell(three)
    await three.watcher.run_once()
    other = fork(three)
    paid = three.pay(payment)
    await go_on(three, other, every_s=40, ticks=15, ahead=ahead)
    assert three.till.kinds(paid.hash) == ["matched"]
    assert closed_s(three) > ends_s


async def test_who_goes_on_alone_is_not_followed_again(three: Watching) -> None:
    """It is asked first, and longer than the chain: for two who go on along that, it is not the chain."""
    await sell(three)
    await three.watcher.run_once()
    other = fork(three)
    await go_on(three, other, every_s=40, ticks=15, ahead=40)
    assert three.watcher.stats().reorgs == 1
    await go_on(three, other, every_s=40, ticks=5, ahead=40)
    assert three.watcher.stats().reorgs == 1
    assert three.watcher.stats().read == three.chain.head.number


async def test_who_goes_on_alone_is_followed_where_the_others_stand_still(three: Watching) -> None:
    payment = await three.till.sell()
    await three.watcher.run_once()
    other = fork(three)
    three.chain.mine_empty(3)
    await three.watcher.run_once()
    paid = token_transfer(PRICE, payment_tag(payment))
    other.mine(paid)
    for _ in range(10):
        other.mine_empty(20)
        await trio.sleep(40)
        await three.watcher.run_once()
    assert three.till.kinds(paid.hash) == ["matched"]
    assert three.watcher.stats().read == other.head.number


async def test_one_that_stands_still_on_a_block_of_its_own_keeps_no_window_open_for_ever(
    realm_db: Database,
) -> None:
    async with open_watching(realm_db, nodes=2) as two:
        _, ends_s = await sell(two)
        await two.watcher.run_once()
        fork(two, 1)
        await two.watcher.run_once()
        await pass_until(two, ends_s + 2)
        await two.watcher.run_once()
        assert closed_s(two) < ends_s
        await trio.sleep(SECOND_WAIT_S + 60)
        two.chain.mine()
        await two.watcher.run_once()
        assert closed_s(two) > ends_s


async def test_no_window_closes_by_the_word_of_a_node_that_another_contradicts(realm_db: Database) -> None:
    async with open_watching(realm_db, nodes=2) as two:
        payment, ends_s = await sell(two)
        await two.watcher.run_once()
        other = fork(two)
        paid = two.pay(payment)
        await go_on(two, other, every_s=int(SECOND_WAIT_S / 4), ticks=8)
        assert closed_s(two) < ends_s
        two.views[0].chain = two.chain
        await trio.sleep(60)
        await two.watcher.run_once()
        assert two.till.kinds(paid.hash) == ["matched"]
        assert closed_s(two) > ends_s
