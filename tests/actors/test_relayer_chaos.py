"""Whatever comes, in whatever order: no job is paid for twice, no nonce has two uses, in the end all land."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from payd.chains.rpc import NodesDown
from payd.store.db import open_database
from payd.store.relays import reopen_above
from tests.actors.relay_bench import CHAIN, LIMITS, Bench, buyer_address, open_bench
from tests.actors.relay_chain import GWEI, SignedTx

Act: TypeAlias = tuple[str, int]

NODES: Final = 2
# What happens all the time.
DAILY: Final = ("job", "tick", "tick", "mine", "mine")
# What else happens to a relayer whose key is its own, on a chain that takes nothing back.
ORDINARY: Final = (*DAILY, "wait", "mine_old", "forget", "kill", "down", "lag", "hide", "drop", "fee")
# Then gas may be wasted, and everything else holds.
UNUSUAL: Final = (*DAILY, *DAILY, "wait", "kill", "bring", "refuse", "steal", "reorg", "reorg_told")


def acts(names: tuple[str, ...]) -> st.SearchStrategy[list[Act]]:
    """A history."""
    return st.lists(st.tuples(st.sampled_from(names), st.integers(0, 7)), min_size=12, max_size=30)


class History:
    """Does to a bench what an act says."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.jobs = 0
        self.refused: set[int] = set()
        self.sent: list[SignedTx] = []
        # Above which blocks the watcher has yet to say that a reorg took them; it is never long in coming.
        self.untold: list[int] = []
        for node in bench.nodes:
            node.hook = self.sent.append

    async def do(self, act: Act) -> None:
        """One of them."""
        name, number = act
        bench, node = self.bench, self.bench.nodes[number % NODES]
        match name:
            case "job":
                await bench.owe(f"pay_{self.jobs}", self.jobs)
                self.jobs += 1
            case "tick":
                await self.tick(0.5)
            case "wait":
                await self.tick(number * 10)
            case "mine":
                bench.mine()
            case "mine_old":
                bench.chain.mine([tx for tx in self.sent if tx.sender == bench.signer.address][number:])
            case "forget":
                node.pool.clear()
            case "kill":
                await self.killed(number)
            case "down":
                node.status = None if node.status else 503
            case "lag":
                node.lag = 0 if node.lag else number
            case "hide":
                node.hides = not node.hides
            case "drop":
                node.drops = not node.drops
            case "fee":
                bench.chain.base_fee = (number + 1) * 10 * GWEI
            case _:
                await self.do_unusual(name, number)

    async def do_unusual(self, name: str, number: int) -> None:
        """What strangers do, and what a chain takes back."""
        bench, head = self.bench, self.bench.chain.head
        depth = min(number % 3 + 1, len(bench.chain.blocks) - 1)
        match name:
            case "bring" if number < self.jobs:
                owed = bench.job(f"pay_{number}")
                bench.chain.use(owed.data, owed.target)
            case "refuse":
                self.refused.add(number)
                if bench.chain.refused.pop(buyer_address(number), None) is None:
                    bench.chain.refused[buyer_address(number)] = "paused"
            case "steal":
                nonce = head.state.counts.get(bench.signer.address, 0)
                signed = bench.signer.sign(8453, nonce, buyer_address(99), b"", 100_000, 900 * GWEI, GWEI)
                bench.chain.mine([SignedTx.of(signed.raw)])
            case "reorg" | "reorg_told" if depth:
                bench.chain.reorg(depth)
                self.untold.append(head.number - depth)
                if name == "reorg_told":
                    await self.tell()

    async def tell(self) -> None:
        """What the watcher does about reorgs."""
        if self.untold:
            await self.bench.db.write(reopen_above, CHAIN, min(self.untold))
            self.untold.clear()

    async def tick(self, after_s: float) -> None:
        """A tick; nodes may be down."""
        try:
            await self.bench.tick(after_s)
        except NodesDown:
            return

    async def killed(self, number: int) -> None:
        """A tick that ends as with SIGKILL, when a node has seen so many transactions."""
        left = number + 1

        def hook(tx: SignedTx) -> None:
            nonlocal left
            self.sent.append(tx)
            left -= 1
            if left == 0:
                scope.cancel()

        with trio.CancelScope() as scope:
            for node in self.bench.nodes:
                node.hook = hook
            await self.tick(1)
        for node in self.bench.nodes:
            node.hook = self.sent.append
        self.bench.restarted()

    async def heal(self) -> None:
        """Good nodes and contracts, and as much time as it takes."""
        self.bench.chain.base_fee = 10 * GWEI
        self.bench.chain.refused.clear()
        for node in self.bench.nodes:
            node.status, node.lag, node.hides, node.drops = None, 0, False, False
            node.tidy()
        await self.tell()
        for _ in range(60):
            await self.tick(61)
            stats = self.bench.relayer.stats()
            if not (stats.in_flight or stats.queued):
                break
            self.bench.mine()
        await self.tick(61)


async def check_history(history: list[Act], *, is_ordinary: bool) -> None:
    with TemporaryDirectory() as folder:
        async with (
            open_database(Path(folder) / "live.db", "realm", inline=True) as db,
            open_bench(db, nodes=NODES) as bench,
        ):
            lived = History(bench)
            for act in history:
                await lived.do(act)
                if is_ordinary:
                    assert len({one.job_seq for one in bench.open()}) == len(bench.open())
            await lived.heal()
            check_end(lived, is_ordinary=is_ordinary)


def check_end(lived: History, *, is_ordinary: bool) -> None:
    bench = lived.bench
    calls: defaultdict[int, set[bytes]] = defaultdict(set)
    for tx in lived.sent:
        calls[tx.nonce].add(tx.data)
        assert tx.max_fee <= LIMITS.max_fee
    assert all(len(data) == 1 for data in calls.values()), "a nonce was used for two jobs"
    for number in range(lived.jobs):
        owed = bench.job(f"pay_{number}")
        assert owed.state == "landed" or number in lived.refused, owed
        assert owed.state in ("landed", "dead"), owed
        if owed.state == "landed":
            assert bench.chain.is_used(owed.data, owed.target)
    assert bench.open() == []
    if is_ordinary:
        assert bench.chain.head.state.counts.get(bench.signer.address, 0) == lived.jobs


@settings(max_examples=40)
@given(acts(ORDINARY))
def test_each_job_lands_with_one_transaction_whatever_nodes_and_crashes_do(history: list[Act]) -> None:
    trio.run(lambda: check_history(history, is_ordinary=True), clock=MockClock(autojump_threshold=0))


@settings(max_examples=40)
@given(acts(UNUSUAL))
def test_each_job_lands_whatever_strangers_and_reorgs_do(history: list[Act]) -> None:
    trio.run(lambda: check_history(history, is_ordinary=False), clock=MockClock(autojump_threshold=0))
