"""The live realm of a house under a seed: a chain, its nodes, and wallets that pay on it.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import trio

from payd.chains.evm.ending import GIVEN_UP_S
from payd.config import load
from payd.server import open_house
from payd.store.keys import SCOPES
from payd.web.commands import run_command
from payd.web.house import House, Realm
from tests.crash.aftermath import Aftermath, all_details, all_events
from tests.crash.live_truths import LiveAftermath, read_live_rows
from tests.crash.onchain import Onchain
from tests.crash.process import Furnished, environment
from tests.crash.rows import read_rows
from tests.receiver import Receiver
from tests.shop import START_MS
from tests.simulation.buyers import Buyer
from tests.simulation.chain import BLOCK_S, Chain, Sent
from tests.simulation.chance import Chance
from tests.simulation.chance import run as run_by_chance
from tests.simulation.disk import Fault
from tests.simulation.door import connect, plain_webhooks, relaying, urls
from tests.simulation.followers import follow_account, follow_newest
from tests.simulation.nodes import CHAIN, Node
from tests.simulation.relayed import RELAYER_KEY
from tests.simulation.trouble import Trouble, blocks_of
from tests.simulation.wallets import MERCHANT, Wallet
from tests.simulation.world import (
    HEAR_MAX_S,
    HOOK,
    PAGES,
    Chore,
    Life,
    Steps,
    World,
    digest_of,
    heard,
)

BUYERS: Final = 3
LIVES_MAX: Final = 4
DEPTHS: Final = ("1", "2", "4", '"safe"', '"finalized"')
FINALS: Final = ('"finalized"', "16")
# What nobody waits for any more: long after what nodes have forgotten is given up.
REST_MAX_S: Final = GIVEN_UP_S + 4 * 3600.0
REST_LOOK_S: Final = 120.0
# What a house says of chains that turn and of nodes that lie.
EXPECTED: Final = frozenset(
    {
        "chain.other_history",
        "chain.reorg_after_success",
        "chain.transaction_skipped",
        "request.failed",  # a 503 while no node answers; any other failure is a problem of its own
        "rpc.other_chain",
    }
)

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


class LiveWorld(World):
    """A world whose house takes payments on a chain.

    Attributes:
        chain: What is true.
        nodes: What is said of it.
    """

    realm = "live"
    steps_max = 30_000
    # A chain that goes on for a day is long to read.
    gaps_s = (0.1, 5.0, 600.0, 7200.0)
    # Quotes are by the machine's clock, blocks by the chain's: payd allows for two minutes between them.
    jumps_ms = (-20_000, -2000, 3000, 20_000)

    def __init__(self, folder: Path, seed: int, at: Furnished, steps: Steps, nursery: trio.Nursery) -> None:
        super().__init__(folder, seed, at, steps, nursery)
        self.chain = Chain(self.chance.of("chain"), START_MS // 1000)
        self._turning = trio.CancelScope()
        self.nodes = [
            Node(self.chain, self.chance.of(f"node{place}"))
            for place in range(nodes_of(self.chance.of("nodes")))
        ]
        depth = blocks_of(self.config.chains[0].depth.depth_for(None))
        self.trouble = Trouble(self.chain, self.nodes, self.chance.of("trouble"), depth, self._prices)
        self._receivers = [Receiver(nursery, node) for node in self.nodes]

    def chores(self, life: Life, realm: Realm) -> list[Chore]:
        """What is done in a house that nobody asks for."""
        chores = super().chores(life, realm)
        for one in realm.live_chains:
            connect(one.rpc, partial(self._dial_node, life))
            chores.append(one.watcher.run)
            if one.relayer is not None:
                chores.append(one.relayer.run)
        return chores

    async def _dial_node(self, life: Life, place: int) -> trio.abc.Stream:
        receiver = self._receivers[place]
        # What is kept of each request is of no use here.
        receiver.received.clear()
        return await self.dial(life, receiver, "", 0)

    def become_calm(self) -> None:
        """From now on the nodes are well, and nothing that was sent is lost for good."""
        super().become_calm()
        self._turning.cancel()
        for node in self.nodes:
            node.be_good()
        rng = self.chance.of("lost")
        for one in self.chain.lost:
            if one.nonce >= self.chain.count_of(one.sender):
                instead = Sent(one.sender, one.sender, nonce=one.nonce, hash=self.chain.name())
                self.chain.send(rng.choice((one, instead)))

    async def turn(self) -> None:
        """What goes wrong with the chain and its nodes, until all is calm."""
        with self._turning:
            await self.trouble.make()

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

    def true_s(self) -> int:
        """The time by the chain's clock, which nobody sets."""
        return START_MS // 1000 + round(trio.current_time() - self.began_s)


def nodes_of(rng: Random) -> int:
    """How many nodes a chain has."""
    return rng.choice((1, 2, 3))


def configuration(rng: Random, nodes: int) -> str:
    """payd.toml of a house that takes payments on the chain."""
    values = {
        "id": CHAIN,
        "rpc": json.dumps(urls(nodes)),
        "depth": rng.choice(DEPTHS),
        "final": rng.choice(FINALS),
        "sponsor": rng.choice(("true", "true", "false")),
    }
    text = CONFIGURATION
    for name, value in values.items():
        text = text.replace(f"@{name}", value)
    return text


async def furnish_live(folder: Path, seed: int, text: str) -> Furnished:
    """Make a data directory with what is needed to be paid."""
    (folder / "data").mkdir(mode=0o700)
    (folder / "data" / "payd.toml").write_text(text)
    config = load(None, environment(folder))
    async with open_house(
        config, inline=True, wall=lambda: START_MS, entropy=Random(seed).randbytes
    ) as house:

        async def do(command: str, **args: Any) -> dict[str, Any]:
            return await _do(house, command, **args)

        await do("account.create", name="main")
        key = (await do("key.create", mode="live", scopes=list(SCOPES)))["apiKey"]
        merchant = (await do("merchant.create", mode="live", name="Shop", email="shop@example.com"))["id"]
        for asset in (USDC, USDT, ETH):
            to = f"{CHAIN}:{MERCHANT}"
            await do("destination.add", mode="live", merchant=merchant, asset=asset, destination=to)
        secret = (await do("webhook.set", mode="live", url=HOOK))["secret"]
        return Furnished(folder, key, merchant, secret)


async def _do(house: House, command: str, **args: Any) -> dict[str, Any]:
    made = await run_command(house, command, msgspec.json.encode(args))
    found: dict[str, Any] = msgspec.to_builtins(made)
    return found


class LiveHistory(msgspec.Struct, frozen=True):
    """What a seed came to, in the live realm.

    Attributes:
        left: What is left.
        steps: Task steps.
        faults: What the disks did.
        happened: What else did, by name.
        digest: Of everything that people were told and that is stored: the same seed, the same digest.
    """

    left: LiveAftermath
    steps: int
    faults: tuple[Fault, ...]
    happened: dict[str, int]
    digest: str


def simulate_live(folder: Path, seed: int) -> LiveHistory:
    """The whole history of a seed in the live realm, in an empty folder."""
    steps = Steps()
    with plain_webhooks(), relaying(RELAYER_KEY):
        return run_by_chance(partial(_simulate, folder, seed, steps), seed, steps)


async def _simulate(folder: Path, seed: int, steps: Steps) -> LiveHistory:
    chance = Chance(seed)
    text = configuration(chance.of("configuration"), nodes_of(chance.of("nodes")))
    at = await furnish_live(folder, seed, text)
    async with trio.open_nursery() as nursery:
        world = LiveWorld(folder, seed, at, steps, nursery)
        shutil.move(folder / "data", world.folder_of(0))
        lives = world.chance.of("number of lives").randrange(1, LIVES_MAX + 1)
        calm = trio.Event()
        with heard(world, EXPECTED):
            nursery.start_soon(world.go_on)
            nursery.start_soon(world.turn)
            nursery.start_soon(follow_account, world)
            for number in range(PAGES):
                nursery.start_soon(follow_newest, world, world.chance.of(f"page{number}"))
            nursery.start_soon(world.go_through, lives, calm)
            await _shop(world, calm)
            await _rest(world.folder_of(lives) / "live.db")
            door = world.door()
            events = await all_events(door, at)
            details = await all_details(door, at, world.ledger)
            with trio.move_on_after(HEAR_MAX_S):
                while len(world.ledger.heard) < len(events):
                    await trio.sleep(1)
            nursery.cancel_scope.cancel()
    path = world.folder_of(lives) / "live.db"
    left = LiveAftermath(
        common=Aftermath(
            seed=seed,
            at=at,
            ledger=world.ledger,
            received=world.receiver.received,
            events=events,
            details=details,
            rows=read_rows(path),
            exit_code=0,
            deaths=lives,
            ready_after_s=[],
            complaints=[] if world.faults else world.complaints,
        ),
        rows=read_live_rows(path),
        onchain=Onchain.of(world.chain, CHAIN, MERCHANT),
        read=frozenset().union(*(node.read for node in world.nodes)),
    )
    digest = digest_of(left.common)
    return LiveHistory(left, steps.taken, tuple(world.faults), dict(world.trouble.happened), digest)


async def _shop(world: LiveWorld, calm: trio.Event) -> None:
    """People, until all is calm and what they began is finished."""
    async with trio.open_nursery() as shop:
        for number in range(BUYERS):
            draws = world.chance.of(f"buyer{number}")
            shopper = Buyer(f"buyer{number}", world.door, world.at, world.ledger, draws, world.wallet)
            shop.start_soon(shopper.run, calm)


async def _rest(path: Path) -> None:
    """Wait until nothing is left to be done, or until nobody waits for that any more."""
    with trio.move_on_after(REST_MAX_S):
        while True:
            await trio.sleep(REST_LOOK_S)
            if _is_at_rest(path):
                return


def _is_at_rest(path: Path) -> bool:
    db = sqlite3.connect(path)
    try:
        [open_ones] = db.execute(
            "SELECT (SELECT count(*) FROM payments WHERE status IN ('requires_action', 'processing'))"
            " + (SELECT count(*) FROM payments p WHERE status = 'succeeded' AND NOT EXISTS"
            " (SELECT 1 FROM events e WHERE e.payment_id = p.id AND e.type = 'payment.settled'))"
            " + (SELECT count(*) FROM deliveries WHERE state = 'pending')"
            " + (SELECT count(*) FROM transfers WHERE awaits IS NOT NULL AND block_hash IS NOT NULL)"
        ).fetchone()
    finally:
        db.close()
    return bool(open_ones == 0)
