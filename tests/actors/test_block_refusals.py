"""Nodes of EVM chains that are not read though they answer: what they say is not all there was."""

from __future__ import annotations

import pytest
import trio
from structlog.testing import capture_logs

from payd.actors.block_refusals import GAP_BLOCKS
from payd.actors.block_walk import RANGE_MAX
from payd.actors.walk import GONE_S
from payd.chains.evm.proof import Watched
from payd.chains.evm.reading import Reader
from payd.chains.rpc import Node
from payd.store.chain_cursors import find_cursor, kept_hash
from payd.store.db import Database
from tests.actors.watching import Watching, open_watching
from tests.chains.evm.json import THIRD
from tests.chains.fake_chain import FakeTransaction, token_transfer
from tests.receiver import Does
from tests.till import CHAIN, PRICE

# From one look to the next.
LOOK_S = 200


async def sold_and_paid_while_nobody_looked(watching: Watching, name: str = "1") -> FakeTransaction:
    """What paid a payment; strangers paid each other just before, and each node has pruned all of that."""
    payment = await watching.till.sell(name)
    watching.chain.mine(token_transfer(PRICE, to=THIRD))
    paid = watching.pay(payment)
    watching.chain.mine_empty(2 * GAP_BLOCKS)
    for view in watching.views:
        view.first_block = len(watching.chain.blocks) - GAP_BLOCKS
    return paid


async def look(watching: Watching, times: int) -> None:
    for _ in range(times):
        await watching.watcher.run_once()
        await trio.sleep(LOOK_S)


def behind(watching: Watching) -> int:
    return watching.chain.head.number - (watching.watcher.stats().read or 0)


async def test_nothing_is_read_past_by_a_node_that_has_pruned_what_came_while_payd_was_stopped(
    watching: Watching,
) -> None:
    paid = await sold_and_paid_while_nobody_looked(watching)
    await look(watching, 3)
    assert behind(watching) > 2 * GAP_BLOCKS
    watching.views[0].first_block = 0
    await look(watching, 1)
    assert behind(watching) == 0
    assert watching.till.kinds(paid.hash) == ["matched"]


async def test_of_two_nodes_the_one_that_has_it_all_is_read(realm_db: Database) -> None:
    async with open_watching(realm_db, 2) as watching:
        paid = await sold_and_paid_while_nobody_looked(watching)
        watching.views[1].first_block = 0
        await look(watching, 4)
        assert behind(watching) == 0
        assert watching.till.kinds(paid.hash) == ["matched"]


async def test_what_no_node_has_for_long_is_read_past_and_operators_are_told(watching: Watching) -> None:
    await sold_and_paid_while_nobody_looked(watching)
    watching.chain.mine_empty(2000)
    watching.views[0].first_block = watching.chain.head.number
    with capture_logs() as logs:
        await look(watching, int(GONE_S // LOOK_S) + 2)
    assert behind(watching) == 0
    critical = [one["event"] for one in logs if one["log_level"] == "critical"]
    assert critical == ["chain.history_gone"], "once, however many pieces are read"

    await sold_and_paid_while_nobody_looked(watching, "2")
    await look(watching, 1)
    assert behind(watching) > 2 * GAP_BLOCKS, "the next time it is waited for anew"


async def test_after_a_moment_nobody_is_asked_what_is_still_there(watching: Watching) -> None:
    await sold_and_paid_while_nobody_looked(watching)
    watching.views[0].first_block = 0
    await look(watching, 1)
    watching.chain.mine(token_transfer(PRICE, to=THIRD))
    watching.chain.mine_empty(GAP_BLOCKS - 1)
    receipts = watching.rpc.calls["eth_getTransactionReceipt"]
    await look(watching, 1)
    assert behind(watching) == 0
    assert watching.rpc.calls["eth_getTransactionReceipt"] == receipts
    watching.chain.mine(token_transfer(PRICE, to=THIRD))
    watching.chain.mine_empty(GAP_BLOCKS)
    await look(watching, 1)
    assert watching.rpc.calls["eth_getTransactionReceipt"] == receipts + 1


async def test_behind_what_the_only_node_says_that_it_has_pruned_both_readings_go_on_after_long(
    realm_db: Database, watching: Watching
) -> None:
    lost = await sold_and_paid_while_nobody_looked(watching)
    view = watching.views[0]
    view.refuses = True
    await look(watching, 3)
    assert behind(watching) > 2 * GAP_BLOCKS
    with capture_logs() as logs:
        await look(watching, int(GONE_S // LOOK_S))
    assert behind(watching) == 0
    [gone] = [one for one in logs if one["log_level"] == "critical"]
    assert (gone["event"], gone["read"]) == ("chain.history_gone", view.first_block - 1)
    assert watching.till.kinds(lost.hash) == []
    last = watching.chain.blocks[view.first_block - 1]
    assert realm_db.point(kept_hash, CHAIN, last.number) == last.hash

    payment = await watching.till.sell("2")
    paid = watching.pay(payment)
    watching.chain.mine_empty(watching.chain.final_depth + 1)
    await look(watching, 2)
    assert watching.till.kinds(paid.hash) == ["matched"]
    final = realm_db.point(find_cursor, CHAIN, "final")
    assert final is not None
    assert final.number == watching.chain.head.number - watching.chain.final_depth


async def test_a_node_of_a_quiet_chain_that_refuses_what_is_old_is_found_out(watching: Watching) -> None:
    """No transaction of the next blocks tells whether it has their logs."""
    watching.chain.mine_empty(4)
    await sold_and_paid_while_nobody_looked(watching)
    watching.views[0].refuses = True
    await look(watching, int(GONE_S // LOOK_S) + 2)
    assert behind(watching) == 0


async def test_nothing_is_passed_that_is_not_final(watching: Watching) -> None:
    await sold_and_paid_while_nobody_looked(watching)
    view = watching.views[0]
    view.refuses, watching.chain.final_depth = True, GAP_BLOCKS + 1
    await look(watching, int(GONE_S // LOOK_S) + 2)
    assert behind(watching) > 2 * GAP_BLOCKS
    watching.chain.mine_empty(1)
    await look(watching, 2)
    assert behind(watching) == 0


async def test_a_node_that_gives_no_logs_at_all_has_nothing_passed(watching: Watching) -> None:
    paid = await sold_and_paid_while_nobody_looked(watching)
    view = watching.views[0]
    view.refuses, view.first_block = True, watching.chain.head.number + 1
    watching.chain.final_depth = 1
    await look(watching, int(GONE_S // LOOK_S) + 2)
    assert behind(watching) > 2 * GAP_BLOCKS
    view.first_block = 0
    await look(watching, 2)
    assert watching.till.kinds(paid.hash) == ["matched"]


async def test_a_node_that_refuses_now_and_then_has_nothing_passed(
    watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked twice before something is passed, and says otherwise."""
    asked = set[int]()

    async def gives(_reader: Reader, _node: Node, _watched: Watched, number: int) -> bool:
        await trio.lowlevel.checkpoint()
        was_asked = number in asked
        asked.add(number)
        return was_asked or number == watching.chain.head.number

    monkeypatch.setattr(Reader, "gives", gives)
    await sold_and_paid_while_nobody_looked(watching)
    watching.views[0].refuses, watching.chain.final_depth = True, 1
    await look(watching, int(GONE_S // LOOK_S) + 2)
    assert asked
    assert behind(watching) > 2 * GAP_BLOCKS


async def paid_and_not_final(watching: Watching, hidden_by: int) -> FakeTransaction:
    """What paid a payment, and one node hid; every node has pruned it when the chain says what is final."""
    watching.chain.mine(token_transfer(PRICE, to=THIRD))
    watching.chain.mine_empty(watching.chain.final_depth - 1)
    await look(watching, 1)
    for view in watching.views:
        view.has_final = False
    payment = await watching.till.sell("1")
    paid = watching.pay(payment)
    watching.views[hidden_by].hides.add(paid.hash)
    for _ in range(5):
        watching.chain.mine_empty(GAP_BLOCKS // 2)
        await look(watching, 1)
    assert behind(watching) == 0
    for view in watching.views:
        view.has_final, view.first_block = True, watching.chain.head.number
    return paid


def read_again(db: Database) -> int:
    final = db.point(find_cursor, CHAIN, "final")
    assert final is not None
    return final.number


async def test_nothing_is_read_again_by_nodes_that_have_pruned_it(
    realm_db: Database, watching: Watching
) -> None:
    paid = await paid_and_not_final(watching, hidden_by=0)
    before = read_again(realm_db)
    await look(watching, 3)
    assert read_again(realm_db) == before
    watching.views[0].first_block, watching.views[0].hides = 0, set()
    await look(watching, 2)
    assert read_again(realm_db) > before
    assert watching.till.kinds(paid.hash) == ["matched"]


async def test_one_node_that_has_it_all_is_enough_for_the_second_reading(realm_db: Database) -> None:
    async with open_watching(realm_db, 2) as watching:
        paid = await paid_and_not_final(watching, hidden_by=0)
        before = read_again(realm_db)
        watching.views[1].first_block = 0
        await look(watching, 3)
        assert read_again(realm_db) > before
        assert watching.till.kinds(paid.hash) == ["matched"]


async def test_operators_are_told_once_of_each_node_by_which_the_second_reading_goes_on(
    realm_db: Database,
) -> None:
    async with open_watching(realm_db, 2) as watching:
        await paid_and_not_final(watching, hidden_by=0)
        for view in watching.views:
            view.has_final, view.first_block = False, 0
        for _ in range(RANGE_MAX):
            watching.chain.mine(token_transfer(PRICE, to=THIRD))
        await look(watching, 1)
        for view in watching.views:
            view.has_final, view.first_block = True, watching.chain.head.number
        with capture_logs() as logs:
            await look(watching, int(GONE_S // LOOK_S) + 4)
    critical = [one["node"] for one in logs if one["log_level"] == "critical"]
    assert sorted(critical) == sorted(node.name for node in watching.rpc.nodes)


async def test_nothing_is_read_again_by_one_that_has_it_while_the_other_is_down(realm_db: Database) -> None:
    async with open_watching(realm_db, 2) as watching:
        await paid_and_not_final(watching, hidden_by=0)
        before = read_again(realm_db)
        for view in watching.views:
            view.first_block = 0
        watching.nodes[1].does = Does(status=500)
        await look(watching, 3)
        assert read_again(realm_db) == before


async def test_the_second_reading_goes_on_behind_what_is_refused_for_long(
    realm_db: Database, watching: Watching
) -> None:
    await paid_and_not_final(watching, hidden_by=0)
    before = read_again(realm_db)
    watching.views[0].refuses, watching.views[0].first_block = True, watching.chain.head.number - GAP_BLOCKS
    with capture_logs() as logs:
        await look(watching, int(GONE_S // LOOK_S) + 1)
        assert read_again(realm_db) == before
        await look(watching, 2)
    assert read_again(realm_db) == watching.chain.head.number - watching.chain.final_depth
    assert [one["event"] for one in logs if one["log_level"] == "critical"] == ["chain.history_gone"]
