"""Asking nodes: who cannot answer is not believed."""

from __future__ import annotations

import pytest

from payd.chains.asking import answered, read
from payd.chains.evm.asking import eth_call
from payd.chains.rpc import RpcError
from payd.chains.rpc_errors import BadAnswer
from payd.core.errors import ChainUnavailable
from tests.chains.evm.json import TOKEN
from tests.chains.rpc_node import FakeNode, Says, open_rpc
from tests.receiver import Does

WORD = "0x" + "00" * 31 + "07"


async def test_results_come_from_one_node_in_order_with_what_a_contract_refused_among_them() -> None:
    node = FakeNode({"eth_gasPrice": "0x7", "eth_call": Says(3, "execution reverted: paused")})
    async with open_rpc(node) as rpc:
        price, refused = await read(rpc, [("eth_gasPrice",), eth_call(TOKEN, b"\1")])

    assert price == "0x7"
    assert isinstance(refused, RpcError)


@pytest.mark.parametrize(
    "node",
    [
        FakeNode(does=Does(status=503)),
        FakeNode({"eth_call": Says(-32601, "the method does not exist")}),
        FakeNode({"eth_call": Says(-32000, "missing trie node")}),
    ],
)
async def test_a_chain_whose_nodes_cannot_answer_is_unavailable(node: FakeNode) -> None:
    async with open_rpc(node) as rpc:
        with pytest.raises(ChainUnavailable) as refusal:
            await read(rpc, [eth_call(TOKEN, b"\1")])

    assert "node0" not in refusal.value.message


def test_an_error_is_no_answer() -> None:
    assert answered(WORD) == WORD
    with pytest.raises(BadAnswer):
        answered(RpcError(-32000, "no"))
