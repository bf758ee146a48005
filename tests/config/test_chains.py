"""A table of chains is of one of two kinds, which its id tells."""

from __future__ import annotations

import pytest

from payd.config import EvmChainConfig, SolanaChainConfig, chain_config
from tests.config.conftest import Loaded, Problems

RPC = 'rpc = ["https://a.example"]\n'


def test_the_id_tells_of_which_kind_a_chain_is(loaded: Loaded) -> None:
    text = f'[[chains]]\nid = "solana:mainnet"\n{RPC}[[chains]]\nid = "eip155:1"\n{RPC}'
    assert [type(chain) for chain in loaded(text).chains] == [SolanaChainConfig, EvmChainConfig]


def test_a_chain_is_made_of_what_is_given_and_what_ships() -> None:
    given = {"rpc": ("https://a.example",), "poll_ms": 77}
    assert chain_config({"id": "eip155:1", **given}).poll_ms == 77
    assert chain_config({"id": "solana:TQeXUnUQS3Kz8DEDrAZtE81ovTnN5a3P", **given}).poll_ms == 77


@pytest.mark.parametrize("id", ['"bip122:000000000019d6689c085ae165831e93"', '"mainnet"', "8453", "[]"])
def test_a_chain_of_no_kind_is_refused_with_both_kinds(problems: Problems, id: str) -> None:
    [problem] = problems(f"[[chains]]\nid = {id}\n{RPC}")
    assert problem.startswith("payd.toml:2: chains[0].id must be the CAIP-2 id of an EVM chain, such as")
    assert "or of a Solana one" in problem


def test_a_chain_without_an_id_asks_for_one(problems: Problems) -> None:
    [problem] = problems(f"[[chains]]\n{RPC}")
    assert problem.startswith("payd.toml:1: chains[0].id is missing: the CAIP-2 id of an EVM chain")


def test_a_misspelled_key_is_named_with_the_one_of_its_kind(problems: Problems) -> None:
    [problem] = problems(f'[[chains]]\nid = "solana:mainnet"\n{RPC}unit_price = 5\n')
    assert "unknown key chains[0].unit_price; did you mean chains[0].unit_price_max" in problem
