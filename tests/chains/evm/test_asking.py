"""Asking a contract: its refusal is an answer, and its words are made fit to be shown."""

from __future__ import annotations

import pytest

from payd.chains.evm.abi import decode_uint
from payd.chains.evm.asking import SAID_CHARS_MAX, decoded, eth_call, refused_by_contract, said
from payd.chains.rpc import RpcError
from tests.chains.evm.json import BUYER, TOKEN

WORD = "0x" + "00" * 31 + "07"


def test_a_call_is_made_in_somebodys_name_or_in_nobodys() -> None:
    assert eth_call(TOKEN, b"\1", sender=BUYER) == (
        "eth_call",
        {"to": TOKEN, "data": "0x01", "from": BUYER},
        "latest",
    )
    assert eth_call(TOKEN, b"\1") == ("eth_call", {"to": TOKEN, "data": "0x01"}, "latest")


def test_what_a_contract_refuses_or_returns_in_another_form_is_nothing() -> None:
    assert decoded(WORD, decode_uint) == 7
    assert decoded("0x", decode_uint) is None
    assert decoded(None, decode_uint) is None
    assert decoded(RpcError(3, "execution reverted"), decode_uint) is None


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (RpcError(3, "execution reverted"), True),
        (RpcError(-32015, "VM execution error."), True),
        (RpcError(-32000, "invalid opcode: INVALID"), True),
        (RpcError(-32000, "out of gas"), True),
        (RpcError(-32000, "something else"), False),
        (RpcError(-32015, "gateway timeout", kind="cannot"), False),
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
