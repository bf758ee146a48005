"""One live chain and who works on it: its nodes, what is known of it, who reads it and who pays gas on it."""

from __future__ import annotations

from dataclasses import dataclass

from payd.actors.relayer import Relayer
from payd.actors.watcher import Watcher
from payd.chains.evm.chain import EvmChain
from payd.chains.market.prices import Prices
from payd.chains.rpc import Rpc


@dataclass(frozen=True, slots=True)
class LiveChain:
    """A chain of the live realm.

    Attributes:
        name: CAIP-2.
        relayer: None where buyers pay their gas themselves.
        prices: What things cost; the same one for all chains.
    """

    name: str
    rpc: Rpc
    chain: EvmChain
    watcher: Watcher
    relayer: Relayer | None
    prices: Prices
