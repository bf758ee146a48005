"""Whatever nodes, forks and restarts do together: in the end all is as the chain has it.

A short run has fewer seeds.
"""

from __future__ import annotations

from random import Random

import pytest
import trio
from solders.transaction import VersionedTransaction

from payd.chains.rpc import NodesDown
from payd.chains.rpc_errors import BadAnswer
from payd.store.db import Database
from payd.store.submissions import StoredSubmission
from tests.actors.solana_watching import DOWN, FINALIZED
from tests.actors.submitting import Submitting, open_submitting
from tests.live.solana import BUYER, USDC_MINT, pubkey
from tests.short import IS_SHORT

STEPS = 60


class Chaos:
    """One run of it, with two nodes of which one at least is well at any time."""

    def __init__(self, bench: Submitting, random: Random) -> None:
        self.bench = bench
        self.solana = bench.solana
        self.random = random
        self.owed: list[StoredSubmission] = []
        self.linked: dict[str, str] = {}
        self.void: set[str] = set()
        self.good: list[StoredSubmission] = []

    async def step(self) -> None:
        """Something happens; then everyone does what is due."""
        often = (self.owe, self.go_on, self.go_on, self.fork)
        acts = (
            *often,
            *often,
            self.undo,
            self.link,
            self.change,
            self.heal,
            self.heal,
            self.restart,
            self.wait,
        )
        await self.random.choice(acts)()
        await self.work()

    async def owe(self) -> None:
        value = self.random.choice([25_000_000, 25_000_000, 25_000_000, 10**15])
        owed = await self.bench.owe(f"s{len(self.owed)}", value=value)
        self.owed.append(owed)
        if value > 10**10:
            self.void.add(owed.tx_id)

    async def link(self) -> None:
        name = f"l{len(self.linked)}"
        payment = await self.solana.sell(name)
        self.linked[payment] = await self.solana.pay(payment)

    async def go_on(self) -> None:
        await self.solana.local.slots(self.random.choice([1, 1, 1, 1, 2, 5, 60]))

    async def fork(self) -> None:
        # What is final is never undone.
        self.solana.ledger.fork(self.random.randint(1, FINALIZED - 1))
        await self.solana.local.slots(1)

    async def undo(self) -> None:
        """What was just confirmed and read is undone."""
        await self.owe()
        await self.work()
        await self.go_on()
        await self.work()
        await self.fork()

    async def change(self) -> None:
        """The second node is in trouble, and both may swallow what they are sent."""
        node = self.solana.nodes[1]
        node.does = self.random.choice([None, None, DOWN])
        node.lag = self.random.choice([0, 0, 2, 30])
        for one in self.solana.nodes:
            one.mode = self.random.choice(["normal", "normal", "blackhole", "drop"])
            one.index_lag = self.random.choice([0, 0, 3])

    async def heal(self) -> None:
        for node in self.solana.nodes:
            node.does, node.lag, node.mode, node.index_lag = None, 0, "normal", 0

    async def restart(self) -> None:
        self.bench.submitter = self.bench.another()
        self.solana.watcher = self.solana.another()

    async def wait(self) -> None:
        self.solana.ledger.ahead_s += 5
        await trio.sleep(self.random.choice([1, 5, 61]))

    async def work(self) -> None:
        await self.solana.watcher.run_once()
        try:
            await self.bench.submitter.run_once()
        except (NodesDown, BadAnswer):
            await trio.sleep(1)

    def is_good(self, one: StoredSubmission) -> bool:
        """Whether its blockhash has time left; a fork may have taken the block that it was of."""
        ledger = self.solana.ledger
        blockhash = str(VersionedTransaction.from_bytes(one.raw).message.recent_blockhash)
        return ledger.is_fresh(blockhash) and ledger.tip.height + 10 < one.valid_until_height

    async def end(self) -> None:
        """All is well for long enough."""
        await self.heal()
        self.good = [one for one in self.owed if one.tx_id not in self.void and self.is_good(one)]
        for _ in range(5):
            await trio.sleep(3)
            await self.work()
            await self.solana.local.slots(1)
        for _ in range(8):
            await trio.sleep(61)
            self.solana.ledger.ahead_s += 5
            await self.solana.local.slots(40)
            await self.work()


@pytest.mark.parametrize("seed", range(8 if IS_SHORT else 25))
async def test_in_the_end_all_is_as_the_chain_has_it(realm_db: Database, seed: int) -> None:
    async with open_submitting(realm_db, 2) as bench:
        chaos = Chaos(bench, Random(seed))  # a seed, and no secret
        for _ in range(STEPS):
            await chaos.step()
        await chaos.end()

        landed = bench.solana.ledger.landed
        for one in chaos.owed:
            landing = landed.get(one.tx_id)
            has_paid = landing is not None and landing.err is None
            assert bench.states(one) == ["landed" if has_paid else "dead"], one.payment_id
            check_shown(bench, one.tx_id)
        assert bench.states(*chaos.good) == ["landed"] * len(chaos.good), "it had the time to land"
        for payment, tx_id in chaos.linked.items():
            check_shown(bench, tx_id)
            assert payment in bench.solana.told or tx_id not in landed
        assert bench.solana.watcher.stats().trouble == bench.solana.watcher.stats().second_trouble == ""
        assert bench.submitter.stats().in_flight == bench.submitter.stats().queued == 0


def check_shown(bench: Submitting, tx_id: str) -> None:
    """What is stored of it is where the chain has it, or is still being asked about."""
    landing = bench.solana.ledger.landed.get(tx_id)
    shown = [one for one in bench.solana.shown(tx_id) if one.block_hash is not None]
    if landing is not None and landing.err is None:
        assert [one.block_number for one in shown] == [landing.block.slot]
    else:
        assert all(one.awaits == "depth" for one in shown), "what vanished is told until it is denied"


async def test_the_buyer_pays_for_nothing_twice(realm_db: Database) -> None:
    async with open_submitting(realm_db, 2) as bench:
        before = await bench.solana.local.tokens(pubkey(BUYER), USDC_MINT)
        chaos = Chaos(bench, Random(7))  # a seed, and no secret
        for _ in range(STEPS):
            await chaos.step()
        await chaos.end()
        paid = sum(
            one.err is None
            for tx_id, one in bench.solana.ledger.landed.items()
            if tx_id in {*chaos.linked.values(), *(one.tx_id for one in chaos.owed)}
        )
        assert before - await bench.solana.local.tokens(pubkey(BUYER), USDC_MINT) == paid * 25_000_000
