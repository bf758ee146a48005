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
ELSEWHERE = FakeNode({"eth_gasPrice": "elsewhere"})
DOWN = FakeNode(does=Does(status=503))


def view(results: Results) -> View:
    """What an answer of these nodes says."""
    return View(shows=results[0] in ("deep", "shallow"), is_deep=results[0] in ("deep", "elsewhere"))


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
        ([ELSEWHERE, SHALLOW, DEEP], "shallow"),
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


BEHIND = FakeNode({"eth_gasPrice": "behind"})


def shown(results: Results) -> object | None:
    """What an answer of these nodes shows; nothing is shown as well as anything else."""
    return {"deep": 0, "shallow": 1}.get(str(results[0]))


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([DEEP], 0),
        ([NOTHING], None),
        ([DEEP, DEEP], 0),
        ([DEEP, SHALLOW], None),
        ([DEEP, NOTHING], None),
        ([NOTHING, DEEP], None),
        ([DEEP, BEHIND], 0),
        ([BEHIND, DEEP], 0),
        ([BEHIND, BEHIND], None),
        ([DEEP, DOWN], 0),
        ([DOWN, NOTHING], None),
        ([NOTHING, DEEP, DEEP], 0),
        ([SHALLOW, DEEP, DEEP], 0),
        ([DEEP, SHALLOW, NOTHING], None),
        ([DEEP, BEHIND, NOTHING], None),
        ([DEEP, BEHIND, DOWN], 0),
        ([DOWN, DEEP, DEEP], 0),
    ],
)
async def test_two_show_what_they_agree_on_and_one_alone_what_nobody_contradicts(
    nodes: list[FakeNode], expected: int | None
) -> None:
    async with open_rpc(*nodes) as rpc:
        witnesses = Witnesses(rpc, CHAIN)

        found = await witnesses.shown("0x1", CALLS, shown, lambda results: results[0] != "behind")

        assert found == expected
        contradicted = found is None and any(node in (DEEP, SHALLOW) for node in nodes)
        assert witnesses.disagreements == contradicted


async def test_where_no_node_answers_nothing_is_said_to_be_shown() -> None:
    async with open_rpc(DOWN, DOWN) as rpc:
        with pytest.raises(ChainUnavailable):
            await Witnesses(rpc, CHAIN).shown("0x1", CALLS, shown, lambda _: True)


@pytest.mark.parametrize(
    ("nodes", "agreed"),
    [
        ([DEEP], "deep"),
        ([BEHIND], None),
        ([DEEP, DEEP], "deep"),
        ([DEEP, SHALLOW], None),
        ([DEEP, BEHIND], None),
        ([DEEP, SHALLOW, DEEP], "deep"),
        ([BEHIND, DEEP, DEEP], "deep"),
        ([DEEP, BEHIND, SHALLOW], None),
        ([DOWN, DEEP, DEEP], "deep"),
    ],
)
async def test_what_two_say_is_agreed_on_and_a_third_is_asked_where_they_do_not(
    nodes: list[FakeNode], agreed: str | None
) -> None:
    async with open_rpc(*nodes) as rpc:
        witnesses = Witnesses(rpc, CHAIN)

        said = await witnesses.views(CALLS, lambda results: results[0] if results[0] != "behind" else None)

        assert witnesses.agreed(said) == agreed


async def test_too_few_have_no_view() -> None:
    async with open_rpc(DEEP, DOWN) as rpc:
        with pytest.raises(ChainUnavailable):
            await Witnesses(rpc, CHAIN).views(CALLS, lambda results: results[0])
