"""What a relayer knows before it acts: by the word of two nodes."""

from __future__ import annotations

from typing import Any

import pytest

from payd.chains.evm.survey import TIP_FALLBACK, Survey, survey
from payd.chains.rpc import NodesDown
from payd.core.gas import Market
from tests.chains.evm.json import block_json
from tests.chains.rpc_node import FakeNode, Says, open_rpc
from tests.receiver import Does

ADDRESS = "0x" + "0a" * 20
NOW_S = 5_010


def node(count: int = 7, number: int = 100, time_s: int = 5_000, **more: Any) -> FakeNode:
    """A node that says so."""
    block = block_json(number=hex(number), timestamp=hex(time_s), baseFeePerGas=hex(50))
    results = {
        "eth_getTransactionCount": lambda of, when: hex(count) if (of, when) == (ADDRESS, "latest") else None,
        "eth_getBlockByNumber": lambda which, full: block if (which, full) == ("latest", False) else None,
        "eth_getBalance": hex(1_000 + number),
        "eth_maxPriorityFeePerGas": hex(3),
        "eth_gasPrice": hex(58),
    }
    return FakeNode(results | more)


async def test_one_node_is_believed_where_there_is_one() -> None:
    async with open_rpc(node()) as rpc:
        assert await survey(rpc, ADDRESS, NOW_S) == Survey(100, 5_000, 7, 7, 1_100, Market(50, 3))
        assert rpc.posts == 2  # The other asked it who it is.


async def test_of_two_nodes_the_higher_count_and_the_earlier_time_count_and_the_lower_count_is_sure() -> None:
    async with open_rpc(node(7, 100, 5_000), node(8, 99, 4_998)) as rpc:
        assert await survey(rpc, ADDRESS, NOW_S) == Survey(100, 4_998, 8, 7, 1_100, Market(50, 3))


@pytest.mark.parametrize(
    ("counts", "count"), [((7, 10**6, 7), 7), ((10**6, 7, 7), 7), ((7, 8, 8), 8), ((0, 8, 8), 8)]
)
async def test_where_two_of_three_nodes_count_otherwise_what_two_have_counted_is_sure(
    counts: tuple[int, ...], count: int
) -> None:
    async with open_rpc(*[node(one) for one in counts]) as rpc:
        found = await survey(rpc, ADDRESS, NOW_S)
        assert (found.count, found.sure) == (count, count)


async def test_while_others_are_away_one_node_is_sure_of_nothing_and_no_later_than_we_are() -> None:
    away = FakeNode(does=Does(status=503))
    for nodes in ((node(7, time_s=NOW_S + 1), away), (away, node(7, time_s=NOW_S + 1), away)):
        async with open_rpc(*nodes) as rpc:
            found = await survey(rpc, ADDRESS, NOW_S)
            assert (found.count, found.sure, found.time_s) == (7, 0, NOW_S)
    async with open_rpc(node(7, time_s=NOW_S - 1), away) as rpc:
        assert (await survey(rpc, ADDRESS, NOW_S)).time_s == NOW_S - 1


async def test_whoever_names_the_higher_block_does_not_name_the_price_alone() -> None:
    dear = block_json(number=hex(101), timestamp=hex(5_000), baseFeePerGas=hex(10**12))
    liar = node(eth_getBlockByNumber=dear, eth_maxPriorityFeePerGas=hex(10**12), eth_getBalance=hex(0))
    for nodes in ((node(), liar), (liar, node())):
        async with open_rpc(*nodes) as rpc:
            assert await survey(rpc, ADDRESS, NOW_S) == Survey(101, 5_000, 7, 7, 1_100, Market(50, 3))


async def test_of_two_tips_the_lower_counts_and_no_tip_is_no_word() -> None:
    async with open_rpc(node(eth_maxPriorityFeePerGas=hex(9)), node()) as rpc:
        assert (await survey(rpc, ADDRESS, NOW_S)).market.tip == 3
    async with open_rpc(node(eth_maxPriorityFeePerGas=hex(0)), node()) as rpc:
        assert (await survey(rpc, ADDRESS, NOW_S)).market.tip == 3
    async with open_rpc(*[node(eth_maxPriorityFeePerGas=hex(0)) for _ in range(2)]) as rpc:
        assert (await survey(rpc, ADDRESS, NOW_S)).market.tip == 0


async def test_of_three_nodes_two_are_asked() -> None:
    nodes = [node(), node(), node()]
    async with open_rpc(*nodes) as rpc:
        await survey(rpc, ADDRESS, NOW_S)
        assert [one.count("eth_getBalance") for one in nodes] == [1, 1, 0]


@pytest.mark.parametrize(
    ("more", "tip"),
    [
        ({"eth_maxPriorityFeePerGas": Says(-32601, "no such method")}, 8),
        ({"eth_maxPriorityFeePerGas": Says(-32601, "no"), "eth_gasPrice": hex(40)}, 0),
        (
            {"eth_maxPriorityFeePerGas": Says(-32601, "no"), "eth_gasPrice": Says(-32601, "no")},
            TIP_FALLBACK,
        ),
    ],
)
async def test_a_node_that_suggests_no_tip_is_asked_for_its_price(more: dict[str, Any], tip: int) -> None:
    async with open_rpc(node(**more)) as rpc:
        assert (await survey(rpc, ADDRESS, NOW_S)).market == Market(50, tip)


async def test_a_chain_without_a_base_fee_has_one_of_nothing() -> None:
    block = block_json(number=hex(9))
    block.pop("baseFeePerGas", None)
    async with open_rpc(node(eth_getBlockByNumber=block)) as rpc:
        assert (await survey(rpc, ADDRESS, NOW_S)).market == Market(0, 3)


@pytest.mark.parametrize(
    "more",
    [
        {"eth_getTransactionCount": "seven"},
        {"eth_getTransactionCount": Says(-32000, "what?")},
        {"eth_getBlockByNumber": None},
        {"eth_getBlockByNumber": {"number": "0x1"}},
        {"eth_getBalance": "-0x1"},
        {"eth_maxPriorityFeePerGas": []},
    ],
)
async def test_a_node_that_talks_nonsense_is_left_out(more: dict[str, Any]) -> None:
    async with open_rpc(node(**more), node(9)) as rpc:
        assert (await survey(rpc, ADDRESS, NOW_S)).count == 9
    async with open_rpc(node(**more)) as rpc:
        with pytest.raises(NodesDown):
            await survey(rpc, ADDRESS, NOW_S)
