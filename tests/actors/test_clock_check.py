"""Our clock is held against the nodes' own: who is wrong alone is not believed, and what is over is over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
import trio
from structlog.testing import capture_logs

from payd.actors.clock_check import AGAIN_S, EVERY_S, ClockCheck
from payd.chains.evm.dialect import EvmDialect
from payd.chains.rpc import Rpc
from payd.clock import Clock
from tests.chains.rpc_node import CHAIN_ID, FakeNode, open_client, urls
from tests.receiver import Does, Received
from tests.virtual_wall import VirtualWall

NOW_S = 1_780_000_000


@dataclass
class Timed:
    """A node with a clock; it is right, and has a block every two seconds, until it is told otherwise.

    Attributes:
        off_s: How far its clock is ahead of the true time; None: it tells none.
        lags_s: How old its newest block is.
    """

    off_s: float | None = 0.0
    lags_s: float = 2.0
    true: VirtualWall = field(default_factory=lambda: VirtualWall(NOW_S * 1000))
    node: FakeNode = field(default_factory=FakeNode)

    def __call__(self, received: Received) -> Does:
        """The script of a `Receiver`."""
        now_s = self.true() / 1000
        block = {"number": "0x10", "timestamp": hex(round(now_s - self.lags_s))}
        self.node.results["eth_getBlockByNumber"] = block
        if self.off_s is None:
            return self.node(received)
        date = format_datetime(datetime.fromtimestamp(now_s + self.off_s, UTC), usegmt=True)
        return replace(self.node(received), headers=(("Date", date),))


class Wall:
    """Our clock: so many seconds ahead of the true time."""

    def __init__(self, ahead_s: float) -> None:
        self.ahead_s = ahead_s
        self.true = VirtualWall(NOW_S * 1000)

    def __call__(self) -> int:
        """Unix milliseconds."""
        return self.true() + round(self.ahead_s * 1000)


@asynccontextmanager
async def checking(wall: Wall, *nodes: Timed, again: int = 0) -> AsyncIterator[ClockCheck]:
    """Two looks were taken; all nodes are of one chain, and the first is configured so many times more."""
    async with open_client(*nodes) as client:
        chosen = urls(1) * again + urls(len(nodes))
        check = ClockCheck(Clock(wall), [Rpc(chosen, EvmDialect(CHAIN_ID), client=client)])
        await check.run_once()
        assert check.off_s is None, "one look alone raises no alarm"
        await check.run_once()
        yield check


async def test_a_clock_that_is_right_is_no_matter() -> None:
    async with checking(Wall(0), Timed(), Timed()) as check:
        assert check.off_s is None
        assert check.skew_s == pytest.approx(0, abs=1)


@pytest.mark.parametrize("ahead_s", [95, -95])
@pytest.mark.parametrize("nodes", [1, 2, 3])
async def test_a_clock_that_is_off_is_known_by_any_number_of_nodes(ahead_s: int, nodes: int) -> None:
    async with checking(Wall(ahead_s), *(Timed() for _ in range(nodes))) as check:
        assert check.off_s == pytest.approx(ahead_s, abs=1)


@pytest.mark.parametrize("wrong_s", [300, -300])
@pytest.mark.parametrize("others", [0, 1, 2])
async def test_a_node_whose_clock_is_wrong_raises_no_alarm(wrong_s: float, others: int) -> None:
    async with checking(Wall(0), Timed(off_s=wrong_s), *(Timed() for _ in range(others))) as check:
        assert check.off_s is None


@pytest.mark.parametrize("ahead_s", [95, -95])
async def test_a_node_on_the_same_machine_or_one_that_lags_hides_nothing(ahead_s: int) -> None:
    async with checking(Wall(ahead_s), Timed(off_s=ahead_s), Timed(lags_s=900), Timed()) as check:
        assert check.off_s == pytest.approx(ahead_s, abs=1)


@pytest.mark.parametrize("lie_s", [300, -300])
async def test_a_node_that_lies_with_its_blocks_raises_none_alone_and_hides_none(lie_s: float) -> None:
    liar = Timed(off_s=lie_s, lags_s=2 - lie_s)
    async with checking(Wall(0), liar, Timed()) as check:
        assert check.off_s is None
    async with checking(Wall(95), liar, Timed(), Timed()) as check:
        assert check.off_s == pytest.approx(95, abs=1)


async def test_a_block_of_the_future_shows_that_we_are_behind_where_nodes_tell_no_time() -> None:
    async with checking(Wall(-95), Timed(off_s=None), Timed(off_s=None)) as check:
        assert check.off_s == pytest.approx(-93, abs=1)


async def test_two_urls_of_one_host_have_one_vote() -> None:
    liar = Timed(off_s=300, lags_s=-298)
    async with checking(Wall(0), liar, Timed(), again=2) as check:
        assert check.off_s is None


async def test_it_is_told_once_and_goes_away_by_itself() -> None:
    wall = Wall(95)
    with capture_logs() as lines:
        async with checking(wall, Timed()) as check, trio.open_nursery() as nursery:
            nursery.start_soon(check.run)
            await trio.sleep(5 * AGAIN_S)
            was_s = check.off_s
            wall.ahead_s = 0
            await trio.sleep(AGAIN_S)
            assert (was_s is None, check.off_s is None) == (False, True)
            nursery.cancel_scope.cancel()

    said = [(one["log_level"], one["event"]) for one in lines if one["event"].startswith("clock.")]
    assert said == [("warning", "clock.off"), ("info", "clock.right_again")]
    assert [one["seconds"] for one in lines if one["event"] == "clock.off"] == [95]


async def test_where_no_node_answers_what_was_known_goes_on() -> None:
    node = Timed()
    async with checking(Wall(95), node) as check:
        node.node.does = Does(status=500)
        await check.run_once()
        await check.run_once()
        assert check.off_s is not None


async def test_it_costs_a_call_every_few_minutes() -> None:
    node = Timed()
    async with checking(Wall(0), node) as check, trio.open_nursery() as nursery:
        before = len(node.node.asked)
        nursery.start_soon(check.run)
        await trio.sleep(10 * EVERY_S - 1)
        assert len(node.node.asked) - before == 10
        nursery.cancel_scope.cancel()


async def test_without_chains_nothing_is_known() -> None:
    check = ClockCheck(Clock(Wall(95)), [])
    await check.run_once()
    await check.run_once()
    assert (check.skew_s, check.off_s) == (None, None)
