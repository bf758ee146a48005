"""Two nodes must agree where there are two, and one that is wrong neither proves nor hides anything."""

from __future__ import annotations

import pytest

from payd.chains.rpc_wire import Results
from payd.chains.witnesses import Proof, View, Witnesses
from payd.core.caip import ChainId
from payd.core.errors import ChainUnavailable
from tests.chains.rpc_node import FakeNode, open_rpc
from tests.receiver import Does

CHAIN = ChainId("eip155", "8453")
CALLS = [("eth_gasPrice",)]

DEEP = FakeNode({"eth_gasPrice": "deep"})
SHALLOW = FakeNode({"eth_gasPrice": "shallow"})
NOTHING = FakeNode({"eth_gasPrice": "nothing"})
DOWN = FakeNode(does=Does(status=503))


def view(results: Results) -> View:
    """What an answer of these nodes says."""
    return View(shows=results[0] in ("deep", "shallow"), is_deep=results[0] == "deep")


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([DEEP], "deep"),
        ([SHALLOW], "shallow"),
        ([NOTHING], "none"),
        ([DEEP, DEEP], "deep"),
        ([DEEP, SHALLOW], "shallow"),
        ([DEEP, NOTHING], "none"),
        ([NOTHING, DEEP, DEEP], "deep"),
        ([NOTHING, SHALLOW, DEEP], "shallow"),
        ([NOTHING, NOTHING, DEEP], "none"),
        ([DOWN, DEEP, DEEP], "deep"),
    ],
)
async def test_a_transfer_is_proven_by_two_where_there_are_two(
    nodes: list[FakeNode], expected: Proof
) -> None:
    async with open_rpc(*nodes) as rpc:
        witnesses = Witnesses(rpc, CHAIN)

        assert await witnesses.weigh("0x1", CALLS, view) == expected
        assert witnesses.disagreements == (expected == "none")


@pytest.mark.parametrize("nodes", [[DOWN], [DEEP, DOWN], [DOWN, DOWN, DEEP]])
async def test_fewer_than_must_agree_are_no_answer(nodes: list[FakeNode]) -> None:
    async with open_rpc(*nodes) as rpc:
        with pytest.raises(ChainUnavailable):
            await Witnesses(rpc, CHAIN).weigh("0x1", CALLS, view)


def shown(results: Results) -> object | None:
    """What an answer of these nodes shows."""
    return None if results[0] == "nothing" else results[0]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([DEEP], "deep"),
        ([NOTHING], None),
        ([DEEP, DEEP], "deep"),
        ([DEEP, SHALLOW], None),
        ([DEEP, NOTHING], None),
        ([NOTHING, DEEP, DEEP], "deep"),
        ([SHALLOW, DEEP, DEEP], "deep"),
        ([DEEP, SHALLOW, NOTHING], None),
        ([DOWN, DEEP, DEEP], "deep"),
    ],
)
async def test_what_two_show_the_same_is_what_the_nodes_show(
    nodes: list[FakeNode], expected: str | None
) -> None:
    async with open_rpc(*nodes) as rpc:
        witnesses = Witnesses(rpc, CHAIN)

        assert await witnesses.same("0x1", CALLS, shown) == expected
        assert witnesses.disagreements == (expected is None)


async def test_one_that_answers_alone_shows_nothing_where_there_are_two() -> None:
    async with open_rpc(DEEP, DOWN) as rpc:
        with pytest.raises(ChainUnavailable):
            await Witnesses(rpc, CHAIN).same("0x1", CALLS, shown)
