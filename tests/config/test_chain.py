"""What any chain's table may say of its nodes, and what is shown of it."""

from __future__ import annotations

import pytest

from payd.config.chain import shown_node
from tests.config.conftest import Loaded, Problems

KEYED = "https://eth.example/v2/hunter2?key=hunter2"


def test_a_node_is_shown_by_scheme_and_host() -> None:
    assert shown_node(KEYED) == "https://eth.example"
    assert shown_node("wss://[::1]:8546/hunter2#hunter2") == "wss://[::1]:8546"


@pytest.mark.parametrize("chain", ["eip155:8453", "solana:mainnet"])
def test_a_key_in_a_nodes_url_is_in_no_repr(loaded: Loaded, chain: str) -> None:
    text = f'[[chains]]\nid = "{chain}"\nrpc = ["{KEYED}"]\nws = "wss://eth.example/hunter2"\n'
    config = loaded(text)
    assert config.chains[0].rpc == (KEYED,)
    assert "hunter2" not in repr(config)


@pytest.mark.parametrize("chain", ["eip155:8453", "solana:mainnet"])
def test_the_same_node_twice_does_not_agree_with_itself(problems: Problems, chain: str) -> None:
    [problem] = problems(f'[[chains]]\nid = "{chain}"\nrpc = ["{KEYED}", "{KEYED}"]\n')
    assert problem.startswith("payd.toml:3: chains[0].rpc must be a list of 1 to 8 different")
    assert "hunter2" not in problem
