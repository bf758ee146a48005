"""Nodes that answer only so many calls a second, as providers do: those of a batch each for itself."""

from __future__ import annotations

import pytest
import trio

from payd.chains.evm.binding import payment_tag
from payd.store.db import Database
from tests.actors.watching import Watching, open_watching
from tests.chains.fake_chain import token_transfer
from tests.till import PRICE


async def watch(watching: Watching, seconds: float) -> None:
    """Have it read for so long."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watching.watcher.run)
        await trio.sleep(seconds)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("whole", [False, True], ids=["one by one", "all of it"])
async def test_more_payments_in_a_block_than_a_node_tells_of_in_a_second_are_all_found(
    realm_db: Database, nodes: int, whole: bool
) -> None:
    async with open_watching(realm_db, nodes=nodes) as watching:
        payments = [await watching.till.sell(str(number)) for number in range(20)]
        paid = [token_transfer(PRICE, payment_tag(payment)) for payment in payments]
        watching.chain.mine(*paid)
        for node in watching.nodes:
            node.calls_a_s, node.refuses_whole = 15, whole
        await watch(watching, 60)
        assert [watching.till.kinds(one.hash) for one in paid] == [["matched"]] * len(paid)
