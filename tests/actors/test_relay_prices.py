"""A node that names wrong prices alone: it costs no more gas, and holds up nothing for long."""

from __future__ import annotations

from typing import Any

import pytest

from payd.actors.relay_broadcast import REFUSED_WAIT_MS
from payd.store.db import Database
from tests.actors.relay_bench import LIMITS, buyer, open_bench
from tests.actors.relay_chain import GWEI, PoolNode

BUMP_S = LIMITS.bump_after_ms / 1000


def lie(node: PoolNode, **said: Any) -> None:
    """Have one node name the next block, that base fee, and what it says of anything else."""
    honest = node.result

    def result(method: str, *params: object) -> object:
        answer = honest(method, *params)
        if method == "eth_getBlockByNumber":
            number = hex(int(answer["number"], 16) + 1)
            return {
                **answer,
                "number": number,
                "baseFeePerGas": said.get("base_fee", answer["baseFeePerGas"]),
            }
        return said.get(method, answer)

    node.result = result  # type: ignore[method-assign]


@pytest.mark.parametrize("liar", [0, 1])
async def test_a_tip_that_one_node_alone_names_is_not_paid(realm_db: Database, liar: int) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        lie(bench.nodes[liar], eth_maxPriorityFeePerGas=hex(490 * GWEI))
        await bench.owe()
        await bench.tick()
        [sent] = bench.pool
        assert (sent.max_fee, sent.tip) == (21 * GWEI, GWEI)


async def test_a_base_fee_that_one_node_alone_names_stops_nothing(realm_db: Database) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        lie(bench.nodes[1], base_fee=hex(LIMITS.max_fee))
        await bench.owe()
        await bench.tick()
        assert bench.relayer.can_relay(buyer(7))
        bench.mine()
        await bench.tick()
        assert bench.state() == "landed"


async def test_a_balance_that_one_node_alone_names_stops_nothing(realm_db: Database) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        lie(bench.nodes[1], eth_getBalance=hex(0))
        await bench.owe()
        await bench.tick()
        assert bench.state() == "sent"
        assert bench.relayer.stats().alarms == frozenset()


async def test_a_price_that_is_too_low_by_the_word_of_one_node_is_raised_until_it_is_mined(
    realm_db: Database,
) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        lie(bench.nodes[1], base_fee=hex(0), eth_maxPriorityFeePerGas=hex(0))
        await bench.owe()
        await bench.tick()
        assert bench.mine() == []
        for _ in range(30):
            await bench.tick(BUMP_S)
            bench.mine()
        assert bench.state() == "landed"


@pytest.mark.parametrize(
    ("base_fee", "suggested", "least", "seconds"),
    [
        (0, 0, GWEI, 240),  # BNB Smart Chain, where nodes may suggest nothing
        (0, GWEI // 10, GWEI, 30),
        (30 * GWEI, 3 * GWEI // 2, 25 * GWEI, 30),  # Polygon
    ],
)
async def test_a_tip_that_is_below_what_nodes_take_is_found_soon(
    realm_db: Database, base_fee: int, suggested: int, least: int, seconds: int
) -> None:
    """They suggest what they do not take, and no method tells what they do."""
    async with open_bench(realm_db, least_tip=least) as bench:
        bench.chain.base_fee, bench.chain.tip = base_fee, suggested
        owed = await bench.owe()
        await bench.tick()
        assert bench.pool == []
        for _ in range(0, seconds, REFUSED_WAIT_MS // 1000 + 1):
            await bench.tick(REFUSED_WAIT_MS / 1000 + 1)
        [sent] = bench.pool
        assert least <= sent.tip <= 2 * least
        bench.mine()
        await bench.tick()
        assert bench.landed(owed)
