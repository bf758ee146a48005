"""One live chain and who works on it: its nodes, what is known of it, who reads it and who brings things."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import msgspec

from payd.actors.watcher import Watcher, WatcherStats
from payd.chains.base import Chain
from payd.chains.market.prices import Prices
from payd.chains.rpc import Rpc
from payd.core.errors import StoreUnavailable

if TYPE_CHECKING:
    from payd.actors.relay_stats import RelayerStats
    from payd.chains.defaults import DepthPolicy


class Evidence(Protocol):
    """Proves transfers; counts how often nodes did not agree."""

    disagreements: int


class Proving(Chain, Protocol):
    """A chain of real nodes."""

    @property
    def evidence(self) -> Evidence:
        """What its proofs rest on."""


class Bringing(Protocol):
    """Brings to a chain what buyers signed: `Relayer` on EVM chains, `Submitter` on Solana."""

    async def run(self) -> None:
        """Work for ever."""

    async def run_once(self) -> None:
        """Do all that is due, then return."""

    def wake(self) -> None:
        """There is something new to bring, or the chain has moved."""

    def stats(self) -> RelayerStats:
        """For metrics and the doctor."""


@dataclass(frozen=True, slots=True)
class LiveChain:
    """A chain of the live realm.

    Attributes:
        name: CAIP-2.
        relayer: None where buyers bring everything there themselves.
        prices: What things cost; the same one for all chains.
        depth: Confirmations that a transfer has before its payment succeeds.
    """

    name: str
    rpc: Rpc
    chain: Proving
    watcher: Watcher
    relayer: Bringing | None
    prices: Prices
    depth: DepthPolicy

    def reading(self) -> WatcherStats:
        """How its reading goes; where nothing was read since the start, up to when it was read before."""
        stats = self.watcher.stats()
        if stats.read_time_s is not None:
            return stats
        try:
            before_s = self.watcher.read_until_s()
        except StoreUnavailable:
            return stats
        return msgspec.structs.replace(stats, read_time_s=before_s) if before_s else stats
