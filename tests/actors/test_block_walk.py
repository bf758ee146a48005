"""The walk along a chain: no block is left out, no reorg unnoticed, and few requests are made."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from payd.actors.block_walk import BlockWalk
from payd.actors.walk import GONE_S, LAG_S
from payd.actors.watcher import Watcher
from payd.chains.evm.binding import authorization_nonce, payment_tag
from payd.chains.rpc import LAG_MAX
from payd.chains.rpc_node import BACKOFF_MAX_S, DEADLINE_S
from payd.core.relay import RelayJob
from payd.store.chain_cursors import Cursor, TwoReaders, blocks_below
from payd.store.db import Database
from payd.store.relays import insert_job
from payd.store.sightings import matched_of
from payd.store.transfers import Follow, follow_transfer
from tests.actors.watching import DOWN, Watching, open_watching
from tests.chains.evm.json import BUYER, TOKEN
from tests.chains.fake_chain import FakeChain, relayed_transfer, token_transfer
from tests.chains.rpc_node import Says
from tests.till import CHAIN, PRICE, START_MS, account


def blocks_of(watching: Watching, payment_id: str) -> list[str | None]:
    return [one.block_hash for one in watching.till.db.point(matched_of, payment_id)]


async def test_the_first_start_reads_nothing_of_the_past(realm_db: Database) -> None:
    async with open_watching(realm_db, begun=False) as watching:
        watching.chain.mine(token_transfer(PRICE))
        assert await watching.watcher.run_once()
        assert watching.watcher.stats().read == watching.chain.head.number
        assert watching.till.count("transfers") == 0
        assert watching.rpc.calls["eth_getLogs"] == 0


async def test_a_round_takes_few_requests(watching: Watching) -> None:
    payment = await watching.till.sell()
    assert await watching.posts() == 1  # the head, the cursor's block, and what is final
    watching.chain.mine()
    assert await watching.posts() == 2 + 1  # its logs; and again those of the block that has become final
    watching.pay(payment)
    assert await watching.posts() == 3 + 1  # the transaction and its receipt
    watching.chain.mine_empty(5)
    assert await watching.posts() == 3 + 1  # the headers between


async def test_a_thousand_open_payments_cost_what_ten_cost(watching: Watching) -> None:
    costs = []
    for first, last in ((0, 10), (10, 1000)):
        for number in range(first, last):
            await watching.till.sell(str(number))
        watching.pay("pay_l0")
        before = watching.rpc.calls.copy(), watching.rpc.posts
        await watching.watcher.run_once()
        costs.append((watching.rpc.calls - before[0], watching.rpc.posts - before[1]))
    assert costs[0] == costs[1]


async def test_a_node_that_lags_is_no_reorg(watching: Watching) -> None:
    payment = await watching.till.sell()
    paid = watching.pay(payment)
    await watching.watcher.run_once()
    read = watching.watcher.stats().read
    watching.views[0].lag = 7
    watching.told.clear()
    assert await watching.watcher.run_once()
    assert blocks_of(watching, payment) == [watching.chain.head.hash]
    assert (watching.watcher.stats().read, watching.watcher.stats().reorgs) == (read, 0)
    assert watching.told == []
    watching.views[0].lag = 0
    watching.chain.mine()
    await watching.watcher.run_once()
    assert watching.till.kinds(paid.hash) == ["matched"]


async def test_a_node_that_lags_may_refuse_to_speak_of_what_it_does_not_have(watching: Watching) -> None:
    results, words = watching.nodes[0].results, Says(-32019, "block is out of range")
    honest = results["eth_getBlockByNumber"]
    results["eth_getBlockByNumber"] = lambda *asked: honest(*asked) or words
    watching.views[0].lag = 3
    assert await watching.watcher.run_once()
    assert watching.watcher.stats().trouble == ""


async def test_an_empty_list_of_a_machine_that_does_not_have_the_block_is_not_believed(
    watching: Watching,
) -> None:
    payment = await watching.till.sell()
    paid = watching.pay(payment)
    watching.views[0].ghosts = 1
    read = watching.watcher.stats().read
    assert not await watching.watcher.run_once()
    assert watching.watcher.stats().read == read
    watching.views[0].ghosts = 0
    assert await watching.watcher.run_once()
    assert watching.till.kinds(paid.hash) == ["matched"]


@pytest.mark.parametrize("method", ["eth_getTransactionReceipt", "eth_getTransactionByHash"])
async def test_a_range_whose_receipts_are_missing_is_read_again(watching: Watching, method: str) -> None:
    payment = await watching.till.sell()
    paid = watching.pay(payment)
    results = watching.nodes[0].results
    honest, results[method] = results[method], None
    read = watching.watcher.stats().read
    assert not await watching.watcher.run_once()
    assert (watching.watcher.stats().read, watching.till.count("transfers")) == (read, 0)
    results[method] = honest
    assert await watching.watcher.run_once()
    assert watching.till.kinds(paid.hash) == ["matched"]


async def test_a_long_time_away_is_read_in_ranges(watching: Watching) -> None:
    payment = await watching.till.sell()
    paid = watching.pay(payment)
    watching.chain.mine_empty(2500)
    newest = watching.pay(payment)
    before = watching.rpc.calls["eth_getLogs"]
    await watching.watcher.run_once()
    assert [watching.till.kinds(one.hash) for one in (paid, newest)] == [["matched"], ["surplus"]]
    assert watching.watcher.stats().blocks_behind == 0
    # Two of long ago, three ranges with their last blocks, eight single ones; one and three ranges again.
    assert watching.rpc.calls["eth_getLogs"] - before == 2 + 3 * 2 + 8 + 1 + 3


async def test_a_range_that_is_too_wide_for_a_node_is_halved(watching: Watching) -> None:
    payment = await watching.till.sell()
    watching.views[0].range_max = 300
    paid = watching.pay(payment)
    watching.chain.mine_empty(2000)
    assert await watching.watcher.run_once()
    assert watching.till.kinds(paid.hash) == ["matched"]
    assert watching.watcher.stats().blocks_behind == 0


@pytest.mark.parametrize("words", [None, "context deadline exceeded", "request timed out"])
async def test_a_node_that_is_too_slow_for_a_range_is_asked_for_less(
    watching: Watching, words: str | None
) -> None:
    payment = await watching.till.sell()
    paid = watching.pay(payment)
    watching.chain.mine_empty(2000)
    [node] = watching.nodes
    honest = node.results["eth_getLogs"]

    def slow(wanted: dict[str, str]) -> Any:
        first, last = (int(wanted.get(end, "0x0"), 16) for end in ("fromBlock", "toBlock"))
        if last - first < 300:
            return honest(wanted)
        node.delay_s = 0.0 if words else DEADLINE_S + 1
        return Says(-32000, words or "nobody hears it")

    node.results["eth_getLogs"] = slow
    for _ in range(5):
        await watching.watcher.run_once()
        node.delay_s = 0.0
        await trio.sleep(BACKOFF_MAX_S)
    assert watching.watcher.stats().blocks_behind == 0
    assert watching.till.kinds(paid.hash) == ["matched"]


async def test_a_second_watcher_of_the_same_rows_stores_nothing(watching: Watching) -> None:
    payment = await watching.till.sell()
    watching.pay(payment)
    both = (watching.watcher, watching.another())
    failed = []

    async def read(watcher: Watcher) -> None:
        try:
            await watcher.run_once()
        except BaseExceptionGroup as group:
            failed.append(group)

    async with trio.open_nursery() as nursery:
        for watcher in both:
            nursery.start_soon(read, watcher)
    [group] = failed
    assert group.subgroup(TwoReaders) is not None
    assert watching.till.count("transfers") == 1


async def test_a_reorg_takes_a_transfer_and_it_pays_nothing(watching: Watching) -> None:
    payment = await watching.till.sell()
    watching.pay(payment)
    watching.chain.mine_empty(2)
    await watching.watcher.run_once()
    watching.chain.reorg(3)
    watching.told.clear()
    assert await watching.watcher.run_once()
    assert blocks_of(watching, payment) == []
    assert watching.watcher.stats().reorgs == 1
    assert watching.watcher.stats().deepest_reorg == 3
    watching.chain.mine_empty(50)
    await watching.watcher.run_once()
    assert watching.told == []


async def test_a_transfer_that_a_reorg_moves_keeps_its_row(watching: Watching) -> None:
    payment = await watching.till.sell()
    paid = watching.pay(payment)
    await watching.watcher.run_once()
    others = [token_transfer(1), token_transfer(2)]
    watching.chain.reorg(1, [], [*others, paid])
    await watching.watcher.run_once()
    assert blocks_of(watching, payment) == [watching.chain.head.hash]
    assert [one.log_index for one in watching.till.shown(paid.hash)] == [0]
    assert watching.told == [payment, payment]
    assert watching.till.count("transfers") == 3


async def test_a_reorg_while_the_server_was_away_is_found_at_its_start(watching: Watching) -> None:
    payment = await watching.till.sell()
    watching.pay(payment)
    await watching.watcher.run_once()
    watching.chain.reorg(1)
    watching.chain.mine_empty(30)
    await watching.another().run_once()
    assert blocks_of(watching, payment) == []


async def test_a_reorg_to_a_shorter_chain_is_followed_once_that_is_longer(watching: Watching) -> None:
    payment = await watching.till.sell()
    watching.pay(payment)
    watching.chain.mine_empty(2)
    await watching.watcher.run_once()
    watching.chain.reorg(3, [])
    await watching.watcher.run_once()
    assert len(blocks_of(watching, payment)) == 1
    watching.chain.mine_empty(2)
    await watching.watcher.run_once()
    assert blocks_of(watching, payment) == []


async def test_a_reorg_deeper_than_what_is_kept_begins_again_where_it_was_final(watching: Watching) -> None:
    payment = await watching.till.sell()
    paid = watching.pay(payment)
    await watching.watcher.run_once()
    await watching.till.db.write(lambda tx: tx.execute("DELETE FROM chain_blocks"))
    watching.chain.reorg(5, [paid], [], [], [], [], [])
    assert await watching.watcher.run_once()
    assert blocks_of(watching, payment) == [watching.chain.blocks[97].hash]


async def test_another_history_from_before_what_was_final_is_followed(watching: Watching) -> None:
    payment = await watching.till.sell()
    paid = watching.pay(payment)
    watching.chain.mine_empty(40)
    await watching.watcher.run_once()
    watching.chain.reorg(60, [], [paid], *[[]] * 60)
    assert await watching.watcher.run_once()
    # What was final was never the chain's: nothing that was read since tells what was not.
    assert blocks_of(watching, payment) == [
        block.hash for block in watching.chain.blocks if paid in block.transactions
    ]
    watching.chain.mine_empty(1)
    assert await watching.watcher.run_once()
    assert watching.watcher.stats().blocks_behind == 0
    assert watching.watcher.stats().second_trouble == ""


async def test_one_node_on_another_fork_is_not_followed_while_others_stand_by_the_block(
    two_nodes: Watching,
) -> None:
    payment = await two_nodes.till.sell()
    paid = two_nodes.pay(payment)
    await two_nodes.watcher.run_once()
    fork = await forked(two_nodes, depth=1)
    assert await two_nodes.watcher.run_once()
    assert blocks_of(two_nodes, payment) == [two_nodes.chain.head.hash]
    assert two_nodes.watcher.stats().reorgs == 0

    # Once it is ahead of all others, it is where the chain is.
    fork.mine_empty(3)
    await trio.sleep(60)
    assert await two_nodes.watcher.run_once()
    assert blocks_of(two_nodes, payment) == []
    assert two_nodes.till.kinds(paid.hash) == ["matched"]


async def forked(watching: Watching, depth: int) -> FakeChain:
    """Put the first node on a fork of its own, which is as long as the chain."""
    fork = FakeChain(0)
    fork.blocks = list(watching.chain.blocks)
    fork.reorg(1)
    fork.reorg(depth + 1, *[[]] * depth)
    watching.views[0].chain = fork
    return fork


async def test_a_payment_that_had_succeeded_is_an_alarm(watching: Watching) -> None:
    payment = await watching.till.sell()
    paid = watching.pay(payment)
    await watching.watcher.run_once()
    await watching.till.succeed(payment, paid.hash)
    watching.chain.reorg(1)
    await watching.watcher.run_once()
    assert watching.watcher.stats().lost == 1
    watching.chain.mine(paid)
    watching.told.clear()
    await watching.watcher.run_once()
    assert watching.told == [payment]


async def test_what_one_node_hides_is_found_with_another_once_it_is_final(two_nodes: Watching) -> None:
    payment = await two_nodes.till.sell()
    paid = two_nodes.pay(payment)
    two_nodes.views[0].hides.add(paid.hash)
    await two_nodes.watcher.run_once()
    assert two_nodes.till.shown(paid.hash) == []
    two_nodes.chain.mine_empty(two_nodes.chain.final_depth)
    await two_nodes.watcher.run_once()
    assert two_nodes.till.kinds(paid.hash) == ["matched"]
    assert two_nodes.told == [payment]


async def test_what_was_read_from_the_node_that_hides_is_not_read_from_it_alone_again(
    two_nodes: Watching,
) -> None:
    payment = await two_nodes.till.sell()
    paid = two_nodes.pay(payment)
    two_nodes.views[0].hides.add(paid.hash)
    await two_nodes.watcher.run_once()
    assert two_nodes.till.shown(paid.hash) == []
    # From now on the other one is preferred, and the first one reads for the second time.
    two_nodes.views[0].lag = LAG_MAX + 1
    two_nodes.chain.mine_empty(two_nodes.chain.final_depth + LAG_MAX + 1)
    await two_nodes.rpc.heads()
    await two_nodes.watcher.run_once()
    two_nodes.views[0].lag = 0
    await two_nodes.watcher.run_once()
    assert two_nodes.till.kinds(paid.hash) == ["matched"]


async def test_what_was_hidden_before_a_second_node_came_is_found_with_it(realm_db: Database) -> None:
    async with open_watching(realm_db, 2, begun=False) as watching:
        watching.nodes[1].does = DOWN
        await watching.rpc.heads()
        await watching.watcher.run_once()
        payment = await watching.till.sell()
        paid = watching.pay(payment)
        watching.views[0].hides.add(paid.hash)
        watching.chain.mine_empty(2 * watching.chain.final_depth)
        await watching.watcher.run_once()
        assert watching.till.shown(paid.hash) == []
        watching.nodes[1].does = None
        await trio.sleep(BACKOFF_MAX_S)
        await watching.watcher.run_once()
        assert watching.till.kinds(paid.hash) == ["matched"]


async def test_nodes_that_name_different_final_blocks_end_the_second_reading(two_nodes: Watching) -> None:
    fork = await forked(two_nodes, depth=1)
    fork.mine_empty(63)
    two_nodes.chain.mine_empty(60)
    final = two_nodes.watcher.stats().final
    assert await two_nodes.watcher.run_once()
    assert two_nodes.watcher.stats().read == fork.head.number
    assert two_nodes.watcher.stats().final == final
    assert "different final blocks" in two_nodes.watcher.stats().second_trouble


async def test_a_chain_without_the_tag_is_final_so_many_blocks_deep(realm_db: Database) -> None:
    async with open_watching(realm_db, final=10) as watching:
        watching.views[0].has_final = False
        payment = await watching.till.sell()
        paid = watching.pay(payment)
        await watching.watcher.run_once()
        follow = Follow(CHAIN, paid.hash, watching.chain.head.hash, "final")
        await watching.till.db.write(follow_transfer, payment, follow)
        watching.told.clear()
        watching.chain.mine_empty(9)
        await watching.watcher.run_once()
        assert watching.told == []
        watching.chain.mine()
        await watching.watcher.run_once()
        await watching.watcher.run_once()
        assert watching.told == [payment]


async def test_a_node_that_does_not_know_what_is_final_is_read_all_the_same(watching: Watching) -> None:
    watching.views[0].has_final = False
    payment = await watching.till.sell()
    paid = watching.pay(payment)
    assert await watching.watcher.run_once()
    assert watching.till.kinds(paid.hash) == ["matched"]


@pytest.mark.parametrize("depth", [5, 2])
async def test_a_shorter_fork_is_followed_after_a_while_where_it_can_be_told_from_a_lag(
    watching: Watching, depth: int
) -> None:
    payment = await watching.till.sell()
    for _ in range(10):
        watching.chain.mine()
        await watching.watcher.run_once()
    paid = token_transfer(PRICE, payment_tag(payment))
    watching.chain.reorg(depth, *[()] * (depth - 2), [paid])
    assert await watching.watcher.run_once()
    assert watching.watcher.stats().reorgs == 0
    await trio.sleep(LAG_S)
    assert await watching.watcher.run_once()
    assert (watching.watcher.stats().reorgs, watching.watcher.stats().deepest_reorg) == (1, depth)
    assert watching.watcher.stats().read == watching.chain.head.number
    assert watching.till.kinds(paid.hash) == ["matched"]


async def test_a_chain_that_was_started_anew_is_followed_in_the_end(watching: Watching) -> None:
    payment = await watching.till.sell()
    watching.chain.reorg(90, [])
    paid = watching.pay(payment)
    for _ in range(2):
        await watching.watcher.run_once()
        assert watching.watcher.stats().reorgs == 0
        await trio.sleep(GONE_S / 2)
    assert await watching.watcher.run_once()
    later = watching.pay(payment)
    assert await watching.watcher.run_once()
    assert watching.watcher.stats().read == watching.chain.head.number
    # What was final is not the chain's, so that its past is read too.
    assert [watching.till.kinds(one.hash) for one in (paid, later)] == [["matched"], ["surplus"]]


async def test_blocks_that_a_node_made_up_are_left_once_it_is_gone(two_nodes: Watching) -> None:
    payment = await two_nodes.till.sell()
    fork = await forked(two_nodes, depth=1)
    fork.mine_empty(1000)
    await two_nodes.watcher.run_once()
    assert two_nodes.watcher.stats().read == fork.head.number
    paid = two_nodes.pay(payment)
    two_nodes.nodes[0].does = DOWN
    for _ in range(2):
        await two_nodes.watcher.run_once()
        await trio.sleep(GONE_S / 2)
    assert await two_nodes.watcher.run_once()
    assert two_nodes.watcher.stats().read == two_nodes.chain.head.number
    assert two_nodes.till.kinds(paid.hash) == ["matched"]


async def test_a_reorg_opens_the_relayers_transactions_again(watching: Watching) -> None:
    payment = await watching.till.sell()
    relayed = watching.chain.mine(relayed_transfer(PRICE, authorization_nonce(payment)))
    job = RelayJob(CHAIN, account(BUYER), TOKEN, b"", 2_000_000_000)
    await watching.till.db.write(insert_job, payment, job, START_MS)
    await watching.till.db.write(
        lambda tx: tx.execute(
            "INSERT INTO relay_transactions (job_seq, chain, sender, nonce, gas, state, block_number, status,"
            " created_at_ms) VALUES (1, ?, 'relayer', 0, 100000, 'mined', ?, 1, 0)",
            (CHAIN, relayed.number),
        )
    )
    await watching.watcher.run_once()
    watching.chain.reorg(1)
    await watching.watcher.run_once()
    state = watching.till.db.point(
        lambda tx: tx.execute("SELECT state, block_number FROM relay_transactions").fetchone()
    )
    assert state == ("open", None)


async def test_two_rounds_at_once_are_made_one_after_the_other(watching: Watching) -> None:
    payment = await watching.till.sell()
    watching.pay(payment)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watching.watcher.run_once)
        nursery.start_soon(watching.watcher.run_once)
    assert watching.watcher.stats().ticks == 3
    assert watching.till.count("transfers") == 1


async def test_nothing_is_read_a_second_time_before_the_first(watching: Watching) -> None:
    walk = watching.watcher._walk
    assert isinstance(walk, BlockWalk)
    before = watching.till.db.point(blocks_below, CHAIN, 10**9, 10**9)
    read = watching.chain.blocks[85]
    final = await walk.reader.headers(watching.rpc.nodes[0], [95])
    assert final[0] is not None
    noted, more = await walk.second_reading(
        watching.rpc.nodes[:1],
        Cursor(final[0].number, final[0].hash, final[0].time_s),
        Cursor(read.number, read.hash, read.time_s),
    )
    assert (list(noted), more) == ([], False)
    assert walk.cursor("final") == Cursor(read.number, read.hash, read.time_s)
    # Where a reorg begins is looked for among what was read for the first time.
    assert watching.till.db.point(blocks_below, CHAIN, 10**9, 10**9) == before


async def test_a_reorg_that_is_deeper_than_most_is_followed_from_where_it_begins(watching: Watching) -> None:
    for _ in range(60):
        watching.chain.mine()
        await watching.watcher.run_once()
    watching.chain.reorg(50)
    await watching.watcher.run_once()
    assert watching.watcher.stats().deepest_reorg == 50
