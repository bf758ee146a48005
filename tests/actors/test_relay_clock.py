"""The wall clock is set back while the relayer waits: nothing waits until it shows the same time again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from payd.actors.relay_broadcast import REFUSED_WAIT_MS
from payd.actors.relay_flight import DOUBT_MS, REFUSED_MS
from payd.actors.relayer import IDLE_S
from payd.clock import Clock
from payd.core.relay import RETRY_FIRST_MS
from payd.store.db import Database
from tests.actors.relay_bench import LIMITS, Bench, buyer_address, open_bench
from tests.actors.relay_chain import CHAIN_ID, Refusal, SignedTx
from tests.actors.test_relayer import processing
from tests.virtual_wall import VirtualWall

HOUR_MS: Final = 3_600_000
AGAIN_S: Final = REFUSED_WAIT_MS // 1000 + 1


class SetBack(VirtualWall):
    """A wall clock that was an hour ahead until somebody saw it."""

    ahead_ms = HOUR_MS

    def __call__(self) -> int:
        """Unix milliseconds."""
        return super().__call__() + self.ahead_ms


@asynccontextmanager
async def open_ahead(db: Database) -> AsyncIterator[tuple[Bench, SetBack]]:
    """A relayer by a clock that is ahead."""
    async with open_bench(db) as bench:
        wall = SetBack()
        bench.clock = Clock(wall)
        bench.restarted()
        yield bench, wall


async def test_what_a_node_forgets_is_sent_again(realm_db: Database) -> None:
    async with open_ahead(realm_db) as (bench, wall):
        await bench.owe()
        await bench.tick()
        bench.nodes[0].pool.clear()
        wall.ahead_ms = 0
        await bench.tick(LIMITS.resend_ms / 1000)
        assert len(bench.pool) == 1


async def test_what_waits_is_paid_better(realm_db: Database) -> None:
    async with open_ahead(realm_db) as (bench, wall):
        await bench.owe()
        await bench.tick()
        [first] = bench.pool
        wall.ahead_ms = 0
        for _ in range(2):
            await bench.tick(LIMITS.bump_after_ms / 1000)
        assert bench.pool[0].max_fee > first.max_fee


async def test_what_the_chain_refused_is_tried_again(realm_db: Database) -> None:
    async with open_ahead(realm_db) as (bench, wall):
        bench.chain.refused[buyer_address(0)] = "paused"
        owed = await bench.owe()
        await bench.tick()
        bench.chain.refused.clear()
        wall.ahead_ms = 0
        await bench.tick(RETRY_FIRST_MS / 1000)
        bench.mine()
        assert bench.landed(owed)


async def test_a_nonce_that_something_else_used_is_given_up(realm_db: Database) -> None:
    async with open_ahead(realm_db) as (bench, wall):
        owed = await bench.owe()
        await bench.tick()
        bench.nodes[0].pool.clear()
        stolen = bench.signer.sign(CHAIN_ID, 0, buyer_address(99), b"", 100_000, LIMITS.max_fee, 0)
        bench.chain.mine([SignedTx.of(stolen.raw)])
        await bench.tick(AGAIN_S)
        wall.ahead_ms = 0
        for _ in range(2):
            await bench.tick(DOUBT_MS / 1000)
        bench.mine()
        assert bench.landed(owed)


async def test_what_no_node_takes_is_emptied_once(realm_db: Database) -> None:
    async with open_ahead(realm_db) as (bench, wall):

        def hook(tx: SignedTx) -> None:
            raise Refusal(-32000, "rejected by policy")

        bench.nodes[0].hook = hook
        bench.spend(max_fee=bench.chain.base_fee + 1)
        await bench.owe()
        await bench.tick()
        wall.ahead_ms = 0
        for _ in range(0, 2 * REFUSED_MS // 1000, AGAIN_S):
            await bench.tick(AGAIN_S)
        [waiting] = bench.open()
        assert len(waiting.attempts) == 2
        assert bench.relayer.stats().fillers == 1


async def test_what_others_are_said_to_have_brought_is_doubted_again(realm_db: Database) -> None:
    async with open_ahead(realm_db) as (bench, wall):
        payment_id = await processing(realm_db, 1)
        owed = await bench.owe(payment_id)
        bench.chain.use(owed.data, owed.target)
        await bench.tick()
        assert bench.state(payment_id) == "landed"
        bench.nodes[0].calls.clear()
        wall.ahead_ms = 0
        await bench.tick(IDLE_S)
        assert bench.nodes[0].calls["eth_call"] == 2
