"""The live realm of a house under a seed, on an EVM chain: its nodes, and wallets that pay on it.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

import trio

from payd.chains.evm.ending import GIVEN_UP_S
from payd.config import Config
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
    furnish_live,
    live_through,
    lives_of,
    nodes_of,
    run_live,
    shop_with,
)
from tests.simulation.chance import Chance
from tests.simulation.nodes import CHAIN, Node
from tests.simulation.settings import Settings, settings_of, with_delays
from tests.simulation.shopkeeper import Shopkeeper
from tests.simulation.trouble import Trouble, blocks_of
from tests.simulation.wallets import MERCHANT, OWN_WALLETS, Wallet
from tests.simulation.world import Steps

DEPTHS: Final = ("1", "2", "4", '"safe"', '"finalized"')
FINALS: Final = ('"finalized"', "16")

CONFIGURATION: Final = """
[rates]
source = "table"
table = { @rates }

[webhooks]
canary = false

[settlements]
change_delay_s = @delay

[notify]
url = "@notify"

[[assets]]
asset = "@usdc"
symbol = "USDC"
name = "USD Coin"
decimals = 6
par = "USD"
@kind

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
ASSETS: Final = (USDC, USDT, ETH)
ACCOUNTS: Final = tuple(f"{CHAIN}:{wallet}" for wallet in OWN_WALLETS)
RATES: Final = '"USDC/USD" = "1", "USDT/USD" = "1", "ETH/USD" = "2500"'
EIP3009: Final = 'kind = "eip3009"\ndomain = { name = "USD Coin", version = "2" }'


KNOBS: Final = {
    "depth": DEPTHS,
    "final": FINALS,
    "sponsor": ("true", "true", "false"),
    "kind": (EIP3009, EIP3009, 'kind = "erc20"'),
    "rates": (RATES, RATES, RATES.replace("2500", "2400"), RATES.partition(', "ETH')[0]),
    "id": (CHAIN,),
    "usdc": (USDC,),
}
"""What an operator may set."""


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

    trouble: Trouble

    def __init__(
        self,
        folder: Path,
        seed: int,
        at: Furnished,
        steps: Steps,
        nursery: trio.Nursery,
        settings: Sequence[Settings],
    ) -> None:
        super().__init__(folder, seed, at, steps, nursery, settings, CONFIGURATION)
        self.chain = Chain(self.chance.of("chain"), START_MS // 1000)
        self.nodes = [
            Node(self.chain, self.chance.of(f"node{place}"))
            for place in range(nodes_of(self.chance.of("nodes")))
        ]
        depth, rng = blocks_of("finalized"), self.chance.of("trouble")
        self.trouble = Trouble(self.chain, self.nodes, rng, self.true_s, depth, self._prices)
        self.put_up(self.nodes)

    def believe(self, config: Config) -> None:
        """How deep what has happened is believed from now on."""
        for chain in config.chains:
            self.trouble.believe(blocks_of(chain.depth.depth_for(None)))

    def become_calm(self) -> None:
        """From now on the nodes are well, and nothing that was sent is lost for good."""
        super().become_calm()
        rng = self.chance.of("lost")
        for one in self.chain.lost:
            if one.nonce >= self.chain.count_of(one.sender):
                instead = Sent(one.sender, one.sender, nonce=one.nonce, hash=self.chain.name())
                self.chain.send(rng.choice((one, instead)))

    def _prices(self) -> dict[str, tuple[str, str, int]]:
        """What the newest payments ask for in USDC."""
        return {
            one.payment_id: (
                USDC_TOKEN,
                self.ledger.changes.wallet_of(one.payment_id, USDC) or MERCHANT,
                int(one.value) * 10**4,
            )
            for one in list(self.ledger.payments.values())[-4:]
        }

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
        rng, happened = self.chance.of("shopkeeper"), self.trouble.happened
        keeper = Shopkeeper(
            self.door, self.at, self.ledger, rng, ASSETS, ACCOUNTS, happened, holds_back=self.holds_back
        )

        def buyer(name: str, rng: Random) -> Buyer:
            return Buyer(name, self.door, self.ledger, rng, keeper.shops, self.wallet)

        await shop_with(self, calm, keeper, buyer)

    def left(self, common: Aftermath, path: Path) -> LiveAftermath:
        """What is left, of this file among all."""
        return LiveAftermath(
            common=common,
            rows=read_live_rows(path),
            onchain=Onchain.of(self.chain, CHAIN, OWN_WALLETS),
            read=frozenset().union(*(node.read for node in self.nodes)),
            destinations=self.destinations(path),
        )


def simulate_live(folder: Path, seed: int) -> LiveHistory:
    """The whole history of a seed in the live realm, in an empty folder."""
    return run_live(_simulate, folder, seed)


async def _simulate(folder: Path, seed: int, steps: Steps) -> LiveHistory:
    chance = Chance(seed)
    nodes = nodes_of(chance.of("nodes"))
    settings = settings_of(chance.of("configuration"), lives_of(chance), nodes, KNOBS)
    settings = with_delays(settings, chance.of("delays"))
    settled = dict.fromkeys(ASSETS, ACCOUNTS[0])
    at = await furnish_live(folder, seed, settings[0].text(CONFIGURATION), settled)

    async def make(nursery: trio.Nursery) -> LiveWorld:
        return LiveWorld(folder, seed, at, steps, nursery, settings)

    return await live_through(seed, at, steps, make)
