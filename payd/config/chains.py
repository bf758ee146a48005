"""`[[chains]]`: the blockchains that live payments are made on, one table each.

What a table leaves out is filled in from what payd ships for its chain, so that who reads a `ChainConfig`
asks nobody else. A chain is of one of two kinds, each with keys of its own: `evm_chain.py`,
`solana_chain.py`.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from payd.config.evm_chain import EVM_ROW, EvmChainConfig
from payd.config.keys import Rows
from payd.config.solana_chain import SOLANA_ROW, SolanaChainConfig

__all__ = ["CHAIN_ROWS", "ChainConfig", "EvmChainConfig", "SolanaChainConfig", "chain_config"]

ChainConfig = EvmChainConfig | SolanaChainConfig

CHAIN_ROWS: Final = Rows("id", {"eip155:": EVM_ROW, "solana:": SOLANA_ROW})


def chain_config(given: Mapping[str, Any]) -> ChainConfig:
    """A chain from what is configured of it: `id`, `rpc` and whatever else, all of it parsed."""
    made = CHAIN_ROWS.kind_of(given["id"]).make(given)
    assert isinstance(made, EvmChainConfig | SolanaChainConfig)
    return made
