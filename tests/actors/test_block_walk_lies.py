"""Blocks that one node makes up: what they seemed to pay is in nobody's way for long."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

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
