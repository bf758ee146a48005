"""The live realm of a house under a seed, on an EVM chain: its nodes, and wallets that pay on it.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Final

import trio

from payd.chains.evm.ending import GIVEN_UP_S
from tests.crash.aftermath import Aftermath
from tests.crash.live_truths import LiveAftermath, read_live_rows
from tests.crash.onchain import Onchain
from tests.crash.process import Furnished
from tests.shop import START_MS
from tests.simulation.buyers import Buyer
from tests.simulation.chain import BLOCK_S, Chain, Sent
from tests.simulation.chain_world import (
    ChainWorld,
    LiveHistory,
    filled,
    furnish_live,
    live_through,
    nodes_of,
    run_live,
    shop_with,
)
from tests.simulation.chance import Chance
from tests.simulation.door import urls
from tests.simulation.nodes import CHAIN, Node
from tests.simulation.trouble import Trouble, blocks_of
from tests.simulation.wallets import MERCHANT, Wallet
from tests.simulation.world import Steps

DEPTHS: Final = ("1", "2", "4", '"safe"', '"finalized"')
FINALS: Final = ('"finalized"', "16")

CONFIGURATION: Final = """
[rates]
source = "table"
table = { "USDC/USD" = "1", "USDT/USD" = "1", "ETH/USD" = "2500" }

[webhooks]
canary = false

[[chains]]
id = "@id"
rpc = @rpc
depth = @depth
final = @final
sponsor = @sponsor
"""
USDC: Final = f"{CHAIN}/erc20:0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"
USDC_TOKEN: Final = USDC.rpartition(":")[2].lower()
USDT: Final = f"{CHAIN}/erc20:0xdAC17F958D2ee523a2206206994597C13D831ec7"
ETH: Final = f"{CHAIN}/slip44:60"


class LiveWorld(ChainWorld):
    """A world whose house takes payments on an EVM chain.

    Attributes:
        chain: What is true.
        nodes: What is said of it.
    """

    # Some nodes prune what is an hour old.
    gaps_s = (5.0, 600.0, 3600.0, 7200.0)
    # Long after what nodes have forgotten is given up.
    rest_max_s = GIVEN_UP_S + 4 * 3600.0

    def __init__(self, folder: Path, seed: int, at: Furnished, steps: Steps, nursery: trio.Nursery) -> None:
        super().__init__(folder, seed, at, steps, nursery)
        self.chain = Chain(self.chance.of("chain"), START_MS // 1000)
        self.nodes = [
            Node(self.chain, self.chance.of(f"node{place}"))
            for place in range(nodes_of(self.chance.of("nodes")))
        ]
        depth = blocks_of(self.config.chains[0].depth.depth_for(None))
        self.trouble = Trouble(
            self.chain, self.nodes, self.chance.of("trouble"), self.true_s, depth, self._prices
        )
        self.put_up(self.nodes)

    def become_calm(self) -> None:
        """From now on the nodes are well, and nothing that was sent is lost for good."""
        super().become_calm()
        rng = self.chance.of("lost")
        for one in self.chain.lost:
            if one.nonce >= self.chain.count_of(one.sender):
                instead = Sent(one.sender, one.sender, nonce=one.nonce, hash=self.chain.name())
                self.chain.send(rng.choice((one, instead)))

    def _prices(self) -> dict[str, tuple[str, int]]:
        """What the newest payments ask for in USDC."""
        newest = list(self.ledger.payments.values())[-4:]
        return {one.payment_id: (USDC_TOKEN, int(one.value) * 10**4) for one in newest}

    def wallet(self, address: str) -> Wallet:
        """Of an account, in lower case."""
        return Wallet(self.chain, address, self.true_s)

    async def go_on(self) -> None:
        """Blocks, for ever."""
        while True:
            await trio.sleep(BLOCK_S)
            self.chain.mine(self.true_s())

    async def shop(self, calm: trio.Event) -> None:
        """People, until all is calm and what they began is finished."""

        def buyer(name: str, rng: Random) -> Buyer:
            return Buyer(name, self.door, self.at, self.ledger, rng, self.wallet)

        await shop_with(self, calm, buyer)

    def left(self, common: Aftermath, path: Path) -> LiveAftermath:
        """What is left, of this file among all."""
        return LiveAftermath(
            common=common,
            rows=read_live_rows(path),
            onchain=Onchain.of(self.chain, CHAIN, MERCHANT),
            read=frozenset().union(*(node.read for node in self.nodes)),
        )


def configuration(rng: Random, nodes: int) -> str:
    """payd.toml of a house that takes payments on the chain."""
    return filled(
        CONFIGURATION,
        id=CHAIN,
        rpc=json.dumps(urls(nodes)),
        depth=rng.choice(DEPTHS),
        final=rng.choice(FINALS),
        sponsor=rng.choice(("true", "true", "false")),
    )


def simulate_live(folder: Path, seed: int) -> LiveHistory:
    """The whole history of a seed in the live realm, in an empty folder."""
    return run_live(_simulate, folder, seed)


async def _simulate(folder: Path, seed: int, steps: Steps) -> LiveHistory:
    chance = Chance(seed)
    text = configuration(chance.of("configuration"), nodes_of(chance.of("nodes")))
    settled = dict.fromkeys((USDC, USDT, ETH), f"{CHAIN}:{MERCHANT}")
    at = await furnish_live(folder, seed, text, settled)

    async def make(nursery: trio.Nursery) -> LiveWorld:
        return LiveWorld(folder, seed, at, steps, nursery)

    return await live_through(seed, at, steps, make)
