"""Whether a node still has the logs of old blocks: told by what it certainly had, and by nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from payd.chains.evm.history import BLOCKS, LOGS, TRANSACTIONS, remembers
from payd.chains.rpc import Rpc
from payd.chains.unread import Unread
from tests.chains.evm.json import THIRD, TOKEN
from tests.chains.fake_chain import FakeChain, FakeTransaction, View, receipt_json, token_transfer
from tests.chains.rpc_node import Says, open_rpc


def quiet() -> FakeTransaction:
    """Does something that makes no log."""
    return FakeTransaction(THIRD, THIRD)


@dataclass
class Desk:
    """A node of a chain, some blocks below whose head people live."""

    chain: FakeChain
    view: View
    rpc: Rpc

    def live(self, *blocks: list[FakeTransaction]) -> int:
        """Blocks with these transactions, far below the newest. Returns the first one's number."""
        first = len(self.chain.blocks)
        for transactions in blocks:
            self.chain.mine(*transactions)
        self.chain.mine_empty(100)
        return first

    async def remembers(self, first: int) -> bool:
        return await remembers(self.rpc, self.rpc.nodes[0], first)


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    chain = FakeChain()
    view = View(chain)
    async with open_rpc(view.node()) as rpc:
        yield Desk(chain, view, rpc)


async def test_who_shows_a_log_that_was_made_there_remembers(desk: Desk) -> None:
    first = desk.live([quiet(), token_transfer(1)])
    assert await desk.remembers(first)
    posts = desk.rpc.posts
    assert await desk.remembers(first)
    assert desk.rpc.posts - posts == 3


@pytest.mark.parametrize("empty", range(BLOCKS))
async def test_who_has_pruned_the_block_does_not(desk: Desk, empty: int) -> None:
    first = desk.live(*[[]] * empty, [token_transfer(1)])
    desk.view.first_block = first + BLOCKS
    assert not await desk.remembers(first)


async def test_who_has_receipts_and_lists_no_logs_does_not(desk: Desk) -> None:
    """The index by which logs are found can be pruned alone."""
    transfers = [token_transfer(1), token_transfer(2)]
    first = desk.live(transfers)
    desk.view.hides = {one.hash for one in transfers}
    assert not await desk.remembers(first)


async def test_one_log_of_several_is_enough(desk: Desk) -> None:
    """Some nodes list none of what the chain itself did, or have no receipts of that."""
    transfers = [token_transfer(number) for number in range(LOGS)]
    first = desk.live(transfers)
    desk.view.hides = {one.hash for one in transfers[1:]}
    assert await desk.remembers(first)
    desk.view.denies = {transfers[1].hash}
    assert await desk.remembers(first)


async def test_a_receipt_like_no_other_is_passed_over(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    odd, plain = token_transfer(1), token_transfer(2)
    first = desk.live([odd, plain])

    def receipt(block: Any, transaction: FakeTransaction) -> Any:
        return {**receipt_json(block, transaction), **({"logs": "?"} if transaction == odd else {})}

    monkeypatch.setattr("tests.chains.fake_chain.receipt_json", receipt)
    assert await desk.remembers(first)
    desk.view.hides = {odd.hash, plain.hash}
    assert not await desk.remembers(first)


async def test_where_nothing_can_be_told_by_what_happened_it_is_taken_to_remember(desk: Desk) -> None:
    assert await desk.remembers(desk.live())
    assert await desk.remembers(desk.live([quiet()] * TRANSACTIONS, [quiet()]))
    late = desk.live(*[[]] * BLOCKS, [token_transfer(1)])
    desk.view.first_block = len(desk.chain.blocks)
    assert await desk.remembers(late), "nobody looks that far"


@pytest.mark.parametrize("method", ["eth_getBlockByNumber", "eth_getTransactionReceipt", "eth_getLogs"])
async def test_who_cannot_answer_is_not_read(desk: Desk, method: str) -> None:
    first = desk.live([token_transfer(1, to=TOKEN)])
    desk.view.says[method] = Says(-32000, "pruned history unavailable")
    with pytest.raises(Unread):
        await desk.remembers(first)
