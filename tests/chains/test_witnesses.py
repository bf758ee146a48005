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
