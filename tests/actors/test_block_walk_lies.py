"""Blocks that one node makes up: what they seemed to pay is in nobody's way for long."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from payd.chains.evm.binding import payment_tag
from payd.chains.evm.evidence import Evidence
from payd.core.caip import parse_chain
from payd.store.db import Database
from payd.store.sightings import take_back
from tests.actors.watching import Watching, open_watching
from tests.chains.fake_chain import FakeTransaction, token_transfer
from tests.till import CHAIN, PRICE


def make_up(watching: Watching, payment: str) -> FakeTransaction:
    """Have one node tell of a transfer in a block that no other one has, between two that all have."""
    made_up = token_transfer(PRICE, payment_tag(payment))
    chain = deepcopy(watching.chain)
    at = len(chain.blocks) - 20
    chain.blocks[at] = replace(chain.blocks[at], hash="0x" + "66" * 32, transactions=(made_up,))
    watching.views[0].chain = chain
    return made_up


async def test_a_transfer_between_blocks_that_are_read_at_once_is_denied_once_they_are_final(
    realm_db: Database,
) -> None:
    async with open_watching(realm_db, nodes=2) as two:
        payment = await two.till.sell()
        two.chain.mine_empty(40)
        made_up = make_up(two, payment)
        await two.watcher.run_once()
        assert two.till.kinds(made_up.hash) == ["matched"]
        two.views[0].chain = two.chain
        paid = two.pay(payment)
        await two.watcher.run_once()
        assert two.till.kinds(paid.hash) == ["surplus"]

        evidence = Evidence(two.rpc, parse_chain(CHAIN))
        [row] = two.till.shown(made_up.hash)
        assert not await evidence.deny(row, 50)
        assert await evidence.deny(row, "finalized")
        await realm_db.write(take_back, row)
        assert two.till.kinds(paid.hash) == ["matched"]


@pytest.mark.parametrize("back", [0, 30], ids=["by its hash", "in a range"])
async def test_a_number_that_one_node_gives_a_block_puts_nothing_off_for_ever(
    realm_db: Database, back: int
) -> None:
    """A transfer is looked at again when the chain has come to a number, which no other node would mend."""
    async with open_watching(realm_db, nodes=2) as two:
        paid = two.pay(await two.till.sell())
        block = two.chain.head
        two.chain.mine_empty(back)
        honest = two.nodes[0].results["eth_getTransactionReceipt"]

        def told(tx_id: str) -> Any:
            return honest(tx_id) | {"blockNumber": hex(2**40)}

        two.nodes[0].results["eth_getTransactionReceipt"] = told
        assert await two.watcher.run_once()
        [row] = two.till.shown(paid.hash)
        assert (row.kind, row.block_number, row.look_at) == ("matched", block.number, block.number)
