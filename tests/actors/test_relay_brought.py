"""What landed by the word of nodes: doubted until the chain shows it."""

from __future__ import annotations

import structlog

from payd.actors.relay_flight import BROUGHT
from payd.actors.relay_queue import BROUGHT_AGAIN_MS
from payd.actors.relayer import IDLE_S
from payd.core.relay import SEND_MARGIN_S
from payd.store.chain_cursors import Cursor, move_cursor
from payd.store.db import Database, Tx
from tests.actors.relay_bench import CHAIN, UNTIL_S, Bench, buyer_address, open_bench
from tests.actors.relay_chain import STATE_SELECTOR, Block, PoolNode
from tests.actors.test_relay_queue import show_paid
from tests.actors.test_relayer import processing

AGAIN_S = IDLE_S


def say_used(node: PoolNode, said: int) -> None:
    """Have a node say that every authorization was used, 1, or none, 0."""
    honest = node._call

    def call(to: str, data: bytes, head: Block) -> str:
        return f"0x{said:064x}" if data[:4] == STATE_SELECTOR else honest(to, data, head)

    node._call = call  # type: ignore[method-assign]


def read_up_to(tx: Tx, number: int) -> None:
    """The watcher has read the chain so far."""
    move_cursor(tx, CHAIN, "head", None, Cursor(number, "0xb1", 1))


async def tick_and_mine(bench: Bench) -> None:
    """What the next minute brings."""
    await bench.tick(AGAIN_S)
    bench.mine()
    await bench.tick(1)


async def test_what_a_reorg_took_before_the_watcher_saw_it_is_sent(realm_db: Database) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        payment_id = await processing(realm_db, 1)
        owed = await bench.owe(payment_id)
        bench.chain.use(owed.data, owed.target)
        await bench.tick()
        assert (bench.state(payment_id), bench.job(payment_id).reason) == ("landed", BROUGHT)
        bench.chain.reorg(1)
        await tick_and_mine(bench)
        assert bench.landed(owed)
        assert (bench.state(payment_id), bench.job(payment_id).reason) == ("landed", None)


async def test_what_reverted_because_of_a_block_that_a_reorg_took_is_sent_again(realm_db: Database) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        payment_id = await processing(realm_db, 1)
        owed = await bench.owe(payment_id)
        await bench.tick()
        used = bench.chain.head.state.used
        bench.chain.use(owed.data, owed.target)
        bench.mine()
        await bench.tick()
        assert bench.job(payment_id).reason == BROUGHT
        bench.chain.forget(used)
        await tick_and_mine(bench)
        assert bench.landed(owed)
        assert (bench.state(payment_id), bench.job(payment_id).reason) == ("landed", None)


async def test_one_node_that_said_so_once_while_the_other_was_away_is_not_the_last_word(
    realm_db: Database,
) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        payment_id = await processing(realm_db, 1)
        owed = await bench.owe(payment_id)
        bench.nodes[0].status = 503
        say_used(bench.nodes[1], 1)
        await bench.tick()
        assert bench.state(payment_id) == "landed"
        bench.nodes[0].status = None
        del bench.nodes[1]._call
        await tick_and_mine(bench)
        assert bench.landed(owed)


async def test_what_reverted_is_sent_again_although_the_one_node_that_answered_said_it_did_not(
    realm_db: Database,
) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        payment_id = await processing(realm_db, 1)
        owed = await bench.owe(payment_id)
        await bench.tick()
        bench.chain.refused[buyer_address(0)] = "paused"
        [mined] = bench.mine()
        bench.nodes[0].status = 503
        honest = bench.nodes[1].result

        def result(method: str, *params: object) -> object:
            said = honest(method, *params)
            return said | {"status": "0x1"} if params == (mined,) else said

        bench.nodes[1].result = result  # type: ignore[method-assign]
        await bench.tick(1)
        assert (bench.state(payment_id), bench.landed(owed)) == ("landed", False)
        bench.chain.refused.clear()
        bench.nodes[0].status = None
        await tick_and_mine(bench)
        assert not bench.landed(owed), "the watcher has not read that block"
        await realm_db.write(read_up_to, bench.chain.head.number)
        await tick_and_mine(bench)
        assert bench.landed(owed)


async def test_what_was_brought_or_cancelled_lands_again_without_a_word(realm_db: Database) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        payment_id = await processing(realm_db, 1)
        owed = await bench.owe(payment_id)
        bench.chain.use(owed.data, owed.target)
        with structlog.testing.capture_logs() as logs:
            for _ in range(5):
                await bench.tick(AGAIN_S)
                assert bench.state(payment_id) == "landed"
        assert bench.nodes[0].sent == []
        assert [one["event"] for one in logs].count("relayer.brought_by_others") == 1


async def test_nodes_are_asked_again_once_a_minute_and_only_of_what_is_not_shown(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        payment_id = await processing(realm_db, 1)
        owed = await bench.owe(payment_id)
        bench.chain.use(owed.data, owed.target)
        await bench.tick()
        calls = bench.nodes[0].calls
        calls.clear()
        await bench.tick(AGAIN_S - 1)
        assert calls["eth_call"] == 0
        await bench.tick(1)
        assert calls["eth_call"] == 2

        await realm_db.write(show_paid, payment_id)
        calls.clear()
        await bench.tick(AGAIN_S)
        assert calls["eth_call"] == 0


async def test_a_relayer_that_is_busy_asks_no_more_often(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        payment_id = await processing(realm_db, 1)
        owed = await bench.owe(payment_id, 1)
        bench.chain.use(owed.data, owed.target)
        await bench.owe("pay_2", 2)
        await bench.tick()
        calls = bench.nodes[0].calls
        calls.clear()
        for _ in range(10):
            await bench.tick(BROUGHT_AGAIN_MS / 1000 / 10 - 0.1)
        assert calls["eth_call"] == 0
        await bench.tick(1)
        assert calls["eth_call"] == 2


async def test_what_is_late_is_not_doubted(realm_db: Database) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        payment_id = await processing(realm_db, 1)
        owed = await bench.owe(payment_id)
        bench.chain.use(owed.data, owed.target)
        await bench.tick()
        bench.chain.mine(time_s=UNTIL_S - SEND_MARGIN_S)
        say_used(bench.nodes[1], 0)
        await bench.tick(AGAIN_S)
        await bench.tick(AGAIN_S)
        assert bench.state(payment_id) == "landed", "it would be given up at once"


async def test_while_nothing_can_be_sent_nothing_is_doubted(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        payment_id = await processing(realm_db, 1)
        owed = await bench.owe(payment_id)
        bench.chain.use(owed.data, owed.target)
        await bench.tick()
        bench.spend(max_fee=1)
        await bench.tick(AGAIN_S)
        await bench.tick(AGAIN_S)
        assert bench.state(payment_id) == "landed"
