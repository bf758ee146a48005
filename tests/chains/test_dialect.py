"""What holds of the nodes of every kind of chain, in whatever words they say it."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from payd.chains.dialect import LIMITED_WORDS, Dialect, has
from payd.chains.evm.dialect import EvmDialect
from payd.chains.rpc import RpcError
from payd.chains.solana.dialect import SolanaDialect

NOW_S = 1_780_000_000
EVM, SOLANA = EvmDialect(8453), SolanaDialect("5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp")
DIALECTS: list[Dialect] = [EVM, SOLANA]
# What is not of the dialect, or of no dialect at all.
STRANGE: list[Any] = [None, True, -1, 1.5, "", "latest", [], {}, {"result": 7}, RpcError(-32000, "no")]

each = pytest.mark.parametrize("dialect", DIALECTS, ids=["evm", "solana"])


@pytest.mark.parametrize(
    ("dialect", "identity", "head"),
    [(EVM, "0x2105", "0x10"), (SOLANA, "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d", 16)],
)
def test_a_node_of_the_chain_is_known_and_its_head_read(dialect: Dialect, identity: Any, head: Any) -> None:
    assert dialect.identity_in(identity) == dialect.chain
    assert dialect.head_in(dialect.head_call, head) == 16
    assert dialect.head_in(dialect.identity_call, head) is None


def test_when_the_newest_block_was_made_is_read() -> None:
    assert EVM.time_in({"number": "0x10", "timestamp": "0x6a180e00"}) == 0x6A180E00
    data = b64encode(bytes(32) + NOW_S.to_bytes(8, "little")).decode()
    owner = "Sysvar1111111111111111111111111111111111111"
    clock = {"lamports": 1, "owner": owner, "data": [data, "base64"], "executable": False}
    assert SOLANA.time_in({"context": {"slot": 7}, "value": [clock]}) == NOW_S
    assert SOLANA.time_in({"context": {"slot": 7}, "value": [None]}) is None
    assert SOLANA.time_in({"context": {"slot": 7}, "value": [clock | {"data": ["AA==", "base64"]}]}) is None


@each
def test_what_is_strange_is_neither_a_chain_nor_a_head(dialect: Dialect) -> None:
    for result in STRANGE:
        assert dialect.identity_in(result) is None
        assert dialect.head_in(dialect.head_call, result) is None
        assert dialect.time_in(result) is None


def test_nodes_of_one_kind_of_chain_are_none_of_another() -> None:
    assert SOLANA.identity_in("0x2105") is None
    assert EVM.identity_in("5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d") is None


@each
@pytest.mark.parametrize("words", LIMITED_WORDS)
def test_a_limit_is_patience_whatever_the_chain(dialect: Dialect, words: str) -> None:
    assert dialect.kind_of(dialect.head_call[0], -32000, f"You have hit a {words.upper()}.") == "limited"


@each
def test_a_method_that_a_node_has_not_another_may_have(dialect: Dialect) -> None:
    assert dialect.kind_of("unheardOf", -32601, "Method not found") == "cannot"


@each
def test_of_a_transaction_nothing_is_known_from_words_that_nobody_knows(dialect: Dialect) -> None:
    for error in (RpcError(-32000, "odd"), RpcError(0, "", {"err": "Odd"})):
        assert dialect.verdict_of(error) == "other"


@each
def test_bytes_that_are_sent_are_all_there(dialect: Dialect) -> None:
    sent = {dialect.send_call(bytes([first, second]))[1] for first in range(16) for second in range(16)}

    assert len(sent) == 256


def test_one_of_the_words_is_enough() -> None:
    assert has("the request limit is reached", ("quota", "request limit"))
    assert not has("all is well", ("quota", "request limit"))
    assert not has("all is well", ())
