"""Asking nodes: who cannot answer is not believed, and a contract's words are made fit to be shown."""

from __future__ import annotations

import pytest

from payd.chains.asking import answered, read
from payd.chains.evm.abi import decode_uint
from payd.chains.evm.asking import SAID_CHARS_MAX, decoded, eth_call, refused_by_contract, said
from payd.chains.rpc import RpcError
from payd.chains.rpc_errors import BadAnswer
from payd.core.errors import ChainUnavailable
from tests.chains.evm.json import BUYER, TOKEN
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


def test_a_call_is_made_in_somebodys_name_or_in_nobodys() -> None:
    assert eth_call(TOKEN, b"\1", sender=BUYER) == (
        "eth_call",
        {"to": TOKEN, "data": "0x01", "from": BUYER},
        "latest",
    )
    assert eth_call(TOKEN, b"\1", block="0x7") == ("eth_call", {"to": TOKEN, "data": "0x01"}, "0x7")


def test_what_a_contract_refuses_or_returns_in_another_form_is_nothing() -> None:
    assert decoded(WORD, decode_uint) == 7
    assert decoded("0x", decode_uint) is None
    assert decoded(None, decode_uint) is None
    assert decoded(RpcError(3, "execution reverted"), decode_uint) is None


def test_an_error_is_no_answer() -> None:
    assert answered(WORD) == WORD
    with pytest.raises(BadAnswer):
        answered(RpcError(-32000, "no"))


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (RpcError(3, "execution reverted"), True),
        (RpcError(-32015, "VM execution error."), True),
        (RpcError(-32000, "invalid opcode: INVALID"), True),
        (RpcError(-32000, "out of gas"), True),
        (RpcError(-32000, "something else"), False),
        (WORD, False),
        (None, False),
    ],
)
def test_only_the_contracts_own_refusal_speaks_of_the_call(result: object, expected: bool) -> None:
    assert refused_by_contract(result) is expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("execution reverted: FiatTokenV2: invalid signature", "FiatTokenV2: invalid signature"),
        ("execution reverted", ""),
        ("VM execution error.", ""),
        ("reverted: \x1b[31mred\x00\u202eabc", "[31mred  abc"),
        ("x" * 500, "x" * SAID_CHARS_MAX),
    ],
)
def test_a_contracts_words_are_bounded_and_printable(message: str, expected: str) -> None:
    assert said(RpcError(3, message)) == expected
