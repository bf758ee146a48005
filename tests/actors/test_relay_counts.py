"""A node that counts wrongly: nothing is signed for a nonce that one node alone has named."""

from __future__ import annotations

import pytest

from payd.actors.relay_flight import GAP_MS, STUCK_MS
from payd.actors.relayer import QUEUE_OLD_MS
from payd.store.db import Database
from tests.actors.relay_bench import LIMITS, buyer, buyer_address, open_bench
from tests.actors.relay_chain import GWEI, PoolNode, SignedTx
from tests.actors.test_relay_flight import stranger


def count_as(node: PoolNode, count: int) -> None:
    """Have one node say that the chain has counted so many."""
    honest = node.result

    def result(method: str, *params: object) -> object:
        said = honest(method, *params)
        return hex(count) if method == "eth_getTransactionCount" else said

    node.result = result  # type: ignore[method-assign]


def be_honest(node: PoolNode) -> None:
    """Have it say what is true again."""
    del node.result


async def test_one_node_that_counts_a_million_once_changes_no_nonce(realm_db: Database) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        first = await bench.owe("pay_1", 1)
        count_as(bench.nodes[1], 10**6)
        await bench.tick()
        assert (bench.state("pay_1"), bench.open()) == ("queued", [])

        be_honest(bench.nodes[1])
        second = await bench.owe("pay_2", 2)
        await bench.tick(5)
        assert [one.nonce for one in bench.open()] == [0, 1]
        bench.mine()
        await bench.tick(5)
        assert bench.landed(first)
        assert bench.landed(second)
        assert bench.relayer.stats().fillers == 0


@pytest.mark.parametrize("nodes", [2, 3])
async def test_one_that_counts_a_million_while_the_others_are_away_changes_no_nonce(
    realm_db: Database, nodes: int
) -> None:
    """A gap of a million, filled nonce by nonce, would hold up every payment for ever."""
    async with open_bench(realm_db, nodes=nodes) as bench:
        owed = await bench.owe()
        count_as(bench.nodes[1], 10**6)
        others = [node for node in bench.nodes if node is not bench.nodes[1]]
        for node in others:
            node.status = 503
        await bench.tick()
        assert (bench.state(), bench.open()) == ("queued", [])
        assert "count_in_doubt" in bench.relayer.stats().alarms

        for node in others:
            node.status = None
        be_honest(bench.nodes[1])
        await bench.tick(61)
        assert [one.nonce for one in bench.open()] == [0]
        bench.mine()
        await bench.tick(5)
        assert bench.landed(owed)


async def test_what_our_own_rows_explain_is_believed_of_one_while_the_others_are_away(
    realm_db: Database,
) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        await bench.owe("pay_1", 1)
        await bench.tick()
        bench.mine()
        bench.nodes[1].status = 503
        await bench.owe("pay_2", 2)
        await bench.tick(61)
        assert [one.nonce for one in bench.open()] == [1]


async def test_a_node_that_counts_wrongly_for_long_is_an_alarm(realm_db: Database) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        await bench.owe()
        count_as(bench.nodes[0], 1)
        await bench.tick()
        assert bench.relayer.stats().alarms == {"count_in_doubt"}
        assert not bench.relayer.can_relay(buyer(9)), "nobody is asked to sign what is not sent"
        await bench.tick(QUEUE_OLD_MS / 1000)
        assert bench.open() == []
        assert "queue_old" in bench.relayer.stats().alarms
        be_honest(bench.nodes[0])
        await bench.tick(5)
        assert bench.relayer.can_relay(buyer(9))
        assert len(bench.open()) == 1


@pytest.mark.parametrize("liar", [0, 1, 2])
async def test_of_three_nodes_one_that_counts_wrongly_for_long_stops_nothing(
    realm_db: Database, liar: int
) -> None:
    async with open_bench(realm_db, nodes=3) as bench:
        count_as(bench.nodes[liar], 10**6)
        first = await bench.owe("pay_1", 1)
        await bench.tick()
        assert [one.nonce for one in bench.open()] == [0]
        bench.mine()
        second = await bench.owe("pay_2", 2)
        await bench.tick(5)
        assert [one.nonce for one in bench.open()] == [1]
        bench.mine()
        await bench.tick(5)
        assert bench.landed(first)
        assert bench.landed(second)
        assert bench.relayer.stats().alarms == frozenset()


async def test_what_our_own_rows_explain_is_believed_of_one_node(realm_db: Database) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        await bench.owe("pay_1", 1)
        await bench.tick()
        bench.mine()
        bench.nodes[1].lag = 1
        await bench.owe("pay_2", 2)
        await bench.tick()
        assert [one.nonce for one in bench.open()] == [1], "a node that lags holds up nothing"


async def test_what_every_node_counts_is_believed_without_rows(realm_db: Database) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        signed = bench.signer.sign(8453, 0, buyer_address(9), b"", 100_000, 400 * GWEI, GWEI)
        bench.chain.mine([SignedTx.of(signed.raw)])
        bench.nodes[1].lag = 1
        await bench.owe()
        await bench.tick()
        assert bench.open() == []
        bench.nodes[1].lag = 0
        await bench.tick(5)
        assert [one.nonce for one in bench.open()] == [1]


async def test_a_long_gap_that_is_filled_nonce_by_nonce_is_an_alarm(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        count_as(bench.nodes[0], 1000)
        await bench.owe()
        await bench.tick()
        be_honest(bench.nodes[0])
        for _ in range(STUCK_MS // GAP_MS):
            await bench.tick(5)
            await bench.tick(GAP_MS / 1000)
            bench.mine()
        assert bench.relayer.stats().fillers > 1
        assert "stuck" in bench.relayer.stats().alarms
        assert not bench.relayer.can_relay(buyer(7))


async def test_what_is_counted_is_neither_sent_again_nor_paid_better_while_nodes_contradict(
    realm_db: Database,
) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        await bench.owe()
        await bench.tick()
        bench.nodes[1].hides = True
        bench.mine()
        await bench.tick(LIMITS.bump_after_ms / 1000)
        assert bench.state() == "sent"
        [counted] = bench.open()
        assert len(counted.attempts) == len(bench.nodes[0].sent) == 1


async def test_a_nonce_of_nobody_is_not_used_while_the_budget_is_spent(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        bench.chain.mine([stranger(bench, 0)])
        await bench.owe()
        await bench.tick()
        bench.chain.reorg(1)
        bench.spend(gas_per_day=1)
        for _ in range(2):
            await bench.tick(GAP_MS / 1000)
        assert [one.nonce for one in bench.open()] == [1]
        assert "budget" in bench.relayer.stats().alarms
        bench.spend(gas_per_day=LIMITS.gas_per_day)
        for _ in range(2):
            await bench.tick(GAP_MS / 1000)
        assert [one.nonce for one in bench.open()] == [0, 1]
