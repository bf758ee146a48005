"""A call is tried before it costs gas: what is left of it, what it needs, and what the contract says."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from payd.chains.evm.abi import MULTICALL3, Call, aggregate3_call
from payd.chains.evm.codec import to_data
from payd.chains.evm.trial import WORDS_MAX, Trial, by_two, is_refused, try_calls
from payd.chains.rpc import NodesDown
from tests.chains.evm.test_legs import NO, TOKEN, YES, signed
from tests.chains.rpc_node import FakeNode, Says, open_rpc

SENDER = "0x" + "0a" * 20
FIRST, SECOND = signed(b"\1" * 32), signed(b"\2" * 32)
BOTH = aggregate3_call([Call(TOKEN, FIRST, may_fail=False), Call(TOKEN, SECOND, may_fail=False)])
REVERT = Says(3, "execution reverted: paused")
GAS_MAX = 1_000_000
LEAST = 21_000 + sum(16 if byte else 4 for byte in FIRST)


def node(used: Collection[bytes] = (), call: Any = "0x", estimate: Any = "0x186a0") -> FakeNode:
    """A node on which these nonces are used, and which says that to a call."""

    def called(asked: dict[str, str], block: str) -> Any:
        assert block == "latest"
        data = bytes.fromhex(asked["data"][2:])
        if "from" not in asked:
            return YES if data[-32:] in used else NO
        assert asked["from"] == SENDER
        return call

    return FakeNode({"eth_call": called, "eth_estimateGas": estimate})


async def tried(given: FakeNode, *calls: tuple[str, bytes]) -> list[Trial]:
    """The trials on one node."""
    async with open_rpc(given) as rpc:
        return await try_calls(rpc, SENDER, calls, GAS_MAX)


async def test_a_call_that_would_be_carried_out_is_sent_with_a_margin_of_gas() -> None:
    assert await tried(node(), (TOKEN, FIRST)) == [Trial("go", TOKEN, FIRST, 130_000)]


async def test_an_estimate_of_what_any_such_transaction_costs_is_one() -> None:
    [trial] = await tried(node(estimate=hex(LEAST)), (TOKEN, FIRST))
    assert (trial.verdict, trial.gas) == ("go", LEAST * 5 // 4 + 5_000)


async def test_many_calls_are_tried_in_two_requests() -> None:
    one = node()
    trials = await tried(one, *[(TOKEN, FIRST)] * 16)
    assert len(trials) == 16
    assert [len(methods) for methods in one.asked] == [1, 16, 32]


async def test_no_call_is_no_trial() -> None:
    assert await tried(node()) == []


async def test_what_was_used_is_not_tried() -> None:
    one = node({b"\1" * 32})
    assert await tried(one, (TOKEN, FIRST), (TOKEN, SECOND)) == [
        Trial("used"),
        Trial("go", TOKEN, SECOND, 130_000),
    ]
    assert one.count("eth_estimateGas") == 1


async def test_of_two_authorizations_the_one_that_is_left_is_tried() -> None:
    assert await tried(node(), (MULTICALL3, BOTH)) == [Trial("go", MULTICALL3, BOTH, 130_000)]
    assert await tried(node({b"\1" * 32}), (MULTICALL3, BOTH)) == [Trial("go", TOKEN, SECOND, 130_000)]
    assert await tried(node({b"\1" * 32, b"\2" * 32}), (MULTICALL3, BOTH)) == [Trial("used")]


async def test_a_call_of_another_kind_is_tried_as_it_is() -> None:
    assert await tried(node(), (TOKEN, b"\x01\x02")) == [Trial("go", TOKEN, b"\x01\x02", 130_000)]


@pytest.mark.parametrize(
    ("said", "verdict", "words"),
    [
        ({"call": REVERT}, "refused", "execution reverted: paused"),
        ({"estimate": REVERT}, "refused", "execution reverted: paused"),
        ({"call": Says(-32000, "invalid opcode: INVALID")}, "refused", "invalid opcode: INVALID"),
        ({"estimate": Says(-32000, "Out of gas")}, "refused", "Out of gas"),
        ({"call": Says(-32000, "out of memory")}, "unknown", "out of memory"),
        ({"estimate": Says(-32015, "gateway timeout")}, "unknown", "gateway timeout"),
        ({"estimate": Says(-32000, "no idea\n\x1b[31m")}, "unknown", "no idea  [31m"),
        ({"estimate": "many"}, "unknown", "the estimate is not a quantity: 'many'"),
        (
            {"estimate": hex(LEAST - 1)},
            "unknown",
            f"the estimate is {LEAST - 1}, and no such call needs less than {LEAST}",
        ),
        ({"estimate": hex(GAS_MAX)}, "refused", "It needs 1255000 units of gas, and 1000000 are allowed."),
    ],
)
async def test_what_is_not_sent_has_words(said: dict[str, Any], verdict: str, words: str) -> None:
    [trial] = await tried(node(**said), (TOKEN, FIRST))
    assert (trial.verdict, trial.words) == (verdict, words)
    assert trial.gas == 0


async def test_words_of_a_contract_are_cut() -> None:
    [trial] = await tried(node(call=Says(3, "execution reverted: " + "x" * 5000)), (TOKEN, FIRST))
    assert len(trial.words) == WORDS_MAX


@pytest.mark.parametrize("state", ["0x", to_data(b"\2".rjust(32, b"\0")), Says(3, "execution reverted")])
async def test_a_token_that_does_not_tell_the_state_is_in_doubt(state: Any) -> None:
    given = FakeNode({"eth_call": state, "eth_estimateGas": hex(1)})
    [trial, other] = await tried(given, (TOKEN, FIRST), (TOKEN, SECOND))
    assert trial.verdict == other.verdict == "unknown"
    assert given.count("eth_estimateGas") == 0


async def test_nodes_that_are_down_say_nothing() -> None:
    async with open_rpc(FakeNode(chain_id=1)) as rpc:
        with pytest.raises(NodesDown):
            await try_calls(rpc, SENDER, [(TOKEN, FIRST)], GAS_MAX)


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        ((REVERT, REVERT), True),
        ((REVERT, Says(-32000, "invalid opcode: INVALID")), True),
        ((REVERT, "0x"), False),
        (("0x", REVERT), False),
        ((REVERT, Says(-32000, "no idea")), False),
        ((REVERT, Says(-32015, "gateway timeout")), False),
    ],
)
async def test_a_call_is_refused_for_good_when_both_nodes_say_that_it_reverts(
    said: tuple[Any, Any], refused: bool
) -> None:
    async with open_rpc(*(node(call=one) for one in said)) as rpc:
        assert await is_refused(rpc, SENDER, TOKEN, FIRST) == refused


async def test_silence_refuses_nothing() -> None:
    async with open_rpc(FakeNode(chain_id=1)) as rpc:
        assert not await is_refused(rpc, SENDER, TOKEN, FIRST)


@pytest.mark.parametrize("liar", [0, 1, 2])
async def test_of_three_nodes_two_say_whether_a_call_is_refused(liar: int) -> None:
    for honest, refused in ((REVERT, True), ("0x", False)):
        lie = "0x" if refused else REVERT
        nodes = [node(call=lie if place == liar else honest) for place in range(3)]
        async with open_rpc(*nodes) as rpc:
            assert await is_refused(rpc, SENDER, TOKEN, FIRST) == refused


async def test_one_node_alone_refuses_nothing_for_good_while_the_other_is_away() -> None:
    for nodes in ((node(call=REVERT), FakeNode(chain_id=1)), (FakeNode(chain_id=1), node(call=REVERT))):
        async with open_rpc(*nodes) as rpc:
            assert not await is_refused(rpc, SENDER, TOKEN, FIRST)


async def test_what_was_brought_to_the_chain_is_not_refused_for_good() -> None:
    brought = node({b"\1" * 32}, call=Says(3, "execution reverted: authorization is used"))
    async with open_rpc(node(call=REVERT), brought) as rpc:
        assert not await is_refused(rpc, SENDER, TOKEN, FIRST)


@pytest.mark.parametrize("liar", [0, 1, 2])
async def test_what_one_node_speaks_against_goes_by_the_word_of_two_others(liar: int) -> None:
    for lie in (node(call=REVERT), node({b"\1" * 32}), node(estimate=hex(GAS_MAX)), FakeNode(chain_id=1)):
        nodes = [node(estimate=hex(100_000 + place)) for place in range(3)]
        nodes[liar] = lie
        async with open_rpc(*nodes) as rpc:
            trial = await by_two(rpc, SENDER, (TOKEN, FIRST), GAS_MAX)
            dearest = max(100_000 + place for place in range(3) if place != liar)
            assert trial == Trial("go", TOKEN, FIRST, dearest * 5 // 4 + 5_000)


async def test_no_two_nodes_no_word() -> None:
    for nodes in ((node(), node(), node(call=REVERT))[1:], (node(), node(call=REVERT), node({b"\1" * 32}))):
        async with open_rpc(*nodes) as rpc:
            assert await by_two(rpc, SENDER, (TOKEN, FIRST), GAS_MAX) is None
