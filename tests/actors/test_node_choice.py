"""Which node is read: the next one where one is in trouble, and a second one for the second reading."""

from __future__ import annotations

import pytest
import trio

from payd.actors import node_choice
from payd.actors.node_choice import (
    REST_S,
    SECOND_WAIT_S,
    STANDS_S,
    UNREADABLE_S,
    UNREADABLE_TRIES,
    NodeChoice,
)
from payd.chains.rpc import Node, NodesDown
from payd.chains.unread import Contradicted, Unread
from payd.store.chain_cursors import find_cursor
from tests.actors.watching import DOWN, Watching
from tests.chains.fake_chain import token_transfer
from tests.chains.rpc_node import Says
from tests.receiver import Does
from tests.till import CHAIN, PRICE


async def test_another_node_is_read_where_one_fails(two_nodes: Watching) -> None:
    payment = await two_nodes.till.sell()
    paid = two_nodes.pay(payment)
    two_nodes.nodes[0].does = DOWN
    assert await two_nodes.watcher.run_once()
    assert two_nodes.till.kinds(paid.hash) == ["matched"]


async def test_the_node_that_is_further_is_read_while_another_lags(two_nodes: Watching) -> None:
    payment = await two_nodes.till.sell()
    two_nodes.views[0].lag = 5
    paid = two_nodes.pay(payment)
    # The first one is asked, has nothing new, and is believed for now.
    await two_nodes.watcher.run_once()
    two_nodes.views[0].lag = 20
    await two_nodes.watcher.run_once()
    assert two_nodes.till.kinds(paid.hash) == ["matched"]


async def test_a_transaction_that_no_node_can_tell_of_does_not_hold_up_the_others(watching: Watching) -> None:
    payment = await watching.till.sell()
    strange = token_transfer(PRICE)
    watching.views[0].denies.add(strange.hash)
    watching.chain.mine(strange)
    paid = watching.pay(payment)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watching.watcher.run)
        await trio.sleep(100)
        assert watching.till.shown(paid.hash) == []
        await trio.sleep(100)
        nursery.cancel_scope.cancel()
    assert watching.till.kinds(paid.hash) == ["matched"]
    assert watching.till.shown(strange.hash) == []
    assert watching.watcher.stats().skipped == 1


async def test_however_many_were_read_past_in_a_year_the_next_one_holds_up_nobody_either(
    watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_choice, "SKIPPED_MAX", 2)
    payment = await watching.till.sell()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watching.watcher.run)
        for _ in range(3):
            strange = token_transfer(PRICE)
            watching.views[0].denies.add(strange.hash)
            watching.chain.mine(strange)
            await trio.sleep(2 * UNREADABLE_S)
        paid = watching.pay(payment)
        await trio.sleep(2 * UNREADABLE_S)
        nursery.cancel_scope.cancel()
    assert watching.till.kinds(paid.hash) == ["matched"]
    assert watching.watcher.stats().skipped == 2


@pytest.mark.parametrize("tells", [True, False])
async def test_what_was_read_past_is_tried_once_more_when_it_is_final(
    watching: Watching, tells: bool
) -> None:
    payment = await watching.till.sell()
    paid = watching.pay(payment)
    watching.views[0].denies.add(paid.hash)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watching.watcher.run)
        await trio.sleep(200)
        assert watching.till.shown(paid.hash) == []
        assert watching.watcher.stats().skipped == 1
        if tells:
            watching.views[0].denies.clear()
        watching.chain.mine_empty(watching.chain.final_depth)
        await trio.sleep(200)
        nursery.cancel_scope.cancel()
    assert watching.till.kinds(paid.hash) == (["matched"] if tells else [])
    assert watching.watcher.stats().skipped == (0 if tells else 1)
    assert watching.watcher.stats().final == watching.chain.head.number - watching.chain.final_depth


async def test_what_a_node_tells_of_no_more_does_not_hold_up_the_second_reading(watching: Watching) -> None:
    paid = watching.pay(await watching.till.sell())
    await watching.watcher.run_once()
    watching.views[0].denies.add(paid.hash)
    watching.chain.mine_empty(watching.chain.final_depth)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watching.watcher.run)
        await trio.sleep(200)
        nursery.cancel_scope.cancel()
    assert watching.watcher.stats().skipped == 1
    assert watching.watcher.stats().final == watching.chain.head.number - watching.chain.final_depth


async def test_what_one_of_two_nodes_cannot_tell_of_ends_the_second_reading_for_an_hour_and_not_for_ever(
    two_nodes: Watching,
) -> None:
    paid = two_nodes.pay(await two_nodes.till.sell())
    two_nodes.views[1].denies.add(paid.hash)
    await two_nodes.watcher.run_once()
    two_nodes.chain.mine_empty(two_nodes.chain.final_depth)
    final = two_nodes.chain.head.number - two_nodes.chain.final_depth
    async with trio.open_nursery() as nursery:
        nursery.start_soon(two_nodes.watcher.run)
        await trio.sleep(SECOND_WAIT_S - 60)
        assert final_of(two_nodes) != final
        assert paid.hash in two_nodes.watcher.stats().second_trouble
        await trio.sleep(180)
        nursery.cancel_scope.cancel()
    assert final_of(two_nodes) == final
    assert two_nodes.watcher.stats().skipped == 0
    assert two_nodes.watcher.stats().second_trouble == ""


async def test_what_is_no_transactions_trouble_has_none_read_past(two_nodes: Watching) -> None:
    skipped: set[str] = set()
    choice = NodeChoice(two_nodes.rpc, skipped)
    for node in two_nodes.rpc.nodes * UNREADABLE_TRIES:
        choice.rest(node, Unread("the node has no clock"))
        await trio.sleep(UNREADABLE_S)
    assert skipped == set()


@pytest.mark.parametrize("is_second", [True, False])
async def test_one_node_is_read_alone_only_once_and_only_for_the_second_reading(
    two_nodes: Watching, is_second: bool
) -> None:
    choice = NodeChoice(two_nodes.rpc, set())
    first, second = two_nodes.rpc.nodes
    for _ in range(UNREADABLE_TRIES + 1):
        choice.rest(second, Unread("it is gone", "0x01"), set() if is_second else None)
        await trio.sleep(SECOND_WAIT_S / UNREADABLE_TRIES)
    assert choice.another(first) is (first if is_second else second)
    assert choice.another(first) is second


@pytest.mark.parametrize("tells", [True, False])
async def test_what_no_node_could_tell_of_is_asked_of_each_once_more(
    two_nodes: Watching, tells: bool
) -> None:
    paid = two_nodes.pay(await two_nodes.till.sell())
    for view in two_nodes.views:
        view.denies.add(paid.hash)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(two_nodes.watcher.run)
        await trio.sleep(300)
        assert two_nodes.watcher.stats().skipped == 1
        if tells:
            two_nodes.views[0].denies.clear()
        two_nodes.chain.mine_empty(two_nodes.chain.final_depth)
        await trio.sleep(400)
        nursery.cancel_scope.cancel()
    assert final_of(two_nodes) == two_nodes.chain.head.number - two_nodes.chain.final_depth
    assert two_nodes.till.kinds(paid.hash) == (["matched"] if tells else [])
    assert two_nodes.watcher.stats().skipped == (0 if tells else 1)


async def test_a_transaction_that_one_node_denies_is_not_read_past_while_another_can_tell_of_it(
    two_nodes: Watching,
) -> None:
    unread = Unread("the node does not have 0x01, of which it told", "0x01")
    skipped: set[str] = set()
    choice = NodeChoice(two_nodes.rpc, skipped)
    first, second = two_nodes.rpc.nodes

    async def fail(node: Node, seconds: float) -> None:
        for _ in range(UNREADABLE_TRIES):
            choice.rest(node, unread)
            await trio.sleep(seconds / UNREADABLE_TRIES)
        choice.rest(node, unread)

    await fail(first, SECOND_WAIT_S)
    assert skipped == set()
    await fail(second, UNREADABLE_S)
    assert skipped == {"0x01"}


async def test_a_node_that_is_away_is_waited_for_before_a_transaction_is_read_past(
    two_nodes: Watching,
) -> None:
    unread = Unread("the node does not have 0x01, of which it told", "0x01")
    skipped: set[str] = set()
    choice = NodeChoice(two_nodes.rpc, skipped)
    for _ in range(UNREADABLE_TRIES):
        choice.rest(two_nodes.rpc.nodes[0], unread)
    await trio.sleep(SECOND_WAIT_S)
    two_nodes.nodes[1].does = DOWN
    await two_nodes.rpc.heads()
    assert skipped == set()
    choice.rest(two_nodes.rpc.nodes[0], unread)
    assert skipped == {"0x01"}


async def test_the_second_reading_waits_for_a_node_that_is_away(two_nodes: Watching) -> None:
    payment = await two_nodes.till.sell()
    paid = two_nodes.pay(payment)
    two_nodes.views[0].hides.add(paid.hash)
    two_nodes.nodes[1].does = DOWN
    two_nodes.chain.mine_empty(30)
    final = two_nodes.watcher.stats().final
    assert await two_nodes.watcher.run_once()
    assert two_nodes.watcher.stats().final == final
    assert two_nodes.watcher.stats().second_trouble != ""
    two_nodes.nodes[1].does = None
    await trio.sleep(120)
    assert await two_nodes.watcher.run_once()
    assert two_nodes.till.kinds(paid.hash) == ["matched"]
    assert two_nodes.watcher.stats().final == two_nodes.chain.head.number - two_nodes.chain.final_depth


async def test_the_second_reading_does_not_wait_for_ever(two_nodes: Watching) -> None:
    await two_nodes.watcher.run_once()
    two_nodes.nodes[1].does = DOWN
    two_nodes.chain.mine_empty(30)
    final = two_nodes.watcher.stats().final
    await two_nodes.watcher.run_once()
    await trio.sleep(SECOND_WAIT_S)
    await two_nodes.watcher.run_once()
    assert two_nodes.watcher.stats().final == final
    await trio.sleep(1)
    for _ in range(2):
        await two_nodes.watcher.run_once()
    assert two_nodes.watcher.stats().final == two_nodes.chain.head.number - two_nodes.chain.final_depth


def final_of(watching: Watching) -> int | None:
    """Up to where the second reading came, whichever server did it."""
    cursor = watching.till.db.point(find_cursor, CHAIN, "final")
    return None if cursor is None else cursor.number


async def test_what_a_server_missed_while_it_was_off_waits_for_the_second_node_as_long(
    two_nodes: Watching,
) -> None:
    """The chain went on for hours; nobody has waited for that node yet."""
    await two_nodes.watcher.run_once()
    final = final_of(two_nodes)
    begun_s = two_nodes.chain.head.time_s
    two_nodes.chain.mine_empty(4000)
    await trio.sleep(two_nodes.chain.head.time_s - begun_s)
    two_nodes.nodes[1].does = DOWN
    watcher = two_nodes.another()
    for _ in range(5):
        await watcher.run_once()
        await trio.sleep(SECOND_WAIT_S / 10)
    assert final_of(two_nodes) == final
    two_nodes.nodes[1].does = None
    await trio.sleep(120)
    for _ in range(5):
        await watcher.run_once()
    assert final_of(two_nodes) == two_nodes.chain.head.number - two_nodes.chain.final_depth


async def test_a_node_that_answers_at_times_and_is_never_read_is_not_waited_for_either(
    two_nodes: Watching,
) -> None:
    first, second = two_nodes.rpc.nodes
    choice = NodeChoice(two_nodes.rpc, set())
    two_nodes.nodes[1].does = DOWN
    waited_s, chosen = 0.0, choice.another(first)
    while chosen is not first:
        assert waited_s < 2 * SECOND_WAIT_S
        if chosen is second:
            with pytest.raises(NodesDown):
                await two_nodes.rpc.batch([("eth_blockNumber",)], second)
        await trio.sleep(5)
        waited_s, chosen = waited_s + 5, choice.another(first)
    assert waited_s > SECOND_WAIT_S
    assert choice.compared(first, second, anew=True)
    assert choice.another(first) is not first


@pytest.mark.parametrize("says", [Says(-32000, "the index is being built"), Says(-32601, "no such method")])
async def test_a_node_that_refuses_for_ever_what_is_asked_a_second_time_is_not_waited_for_either(
    two_nodes: Watching, says: Says
) -> None:
    """What becomes of payments that are never paid is told by what is final: it would never be told."""
    await two_nodes.till.sell()
    await two_nodes.watcher.run_once()
    final = final_of(two_nodes)
    two_nodes.nodes[1].results["eth_getLogs"] = says
    two_nodes.chain.mine_empty(30)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(two_nodes.watcher.run)
        await trio.sleep(SECOND_WAIT_S - 60)
        assert final_of(two_nodes) == final
        await trio.sleep(180)
        for _ in range(3):
            assert final_of(two_nodes) == two_nodes.chain.head.number - two_nodes.chain.final_depth
            assert two_nodes.watcher.stats().second_trouble != "", "it is still tried, and a person may know"
            two_nodes.chain.mine_empty(10)
            await trio.sleep(120)
        del two_nodes.nodes[1].results["eth_getLogs"]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("contradicts", [True, False])
async def test_a_node_that_contradicts_the_other_is_tried_again_for_ever(
    two_nodes: Watching, contradicts: bool
) -> None:
    choice = NodeChoice(two_nodes.rpc, set())
    first, second = two_nodes.rpc.nodes
    trouble = Contradicted("the nodes name different final blocks") if contradicts else Unread("it is behind")
    assert choice.another(first) is second
    await trio.sleep(SECOND_WAIT_S + 1)
    choice.rest(second, trouble, set())
    assert choice.another(first) is (second if contradicts else first)
    await trio.sleep(REST_S)
    assert choice.another(first) is second


async def test_the_preferred_node_is_asked_again_after_a_rest(two_nodes: Watching) -> None:
    first, second = two_nodes.rpc.nodes
    choice = NodeChoice(two_nodes.rpc, set())
    bad = {first}

    async def work(node: Node) -> str:
        await trio.lowlevel.checkpoint()
        if node in bad:
            raise Unread("it contradicts itself")
        return node.name

    assert await choice.try_each(work) == (second.name, second)
    bad.clear()
    assert await choice.try_each(work) == (second.name, second)
    await trio.sleep(REST_S)
    assert await choice.try_each(work) == (first.name, first)


async def test_a_node_that_stands_still_is_read_after_one_that_goes_on(two_nodes: Watching) -> None:
    first, second = two_nodes.rpc.nodes
    choice = NodeChoice(two_nodes.rpc, set())

    async def work(node: Node) -> str:
        await trio.lowlevel.checkpoint()
        return node.name

    two_nodes.chain.mine_empty(100)
    two_nodes.views[0].lag = 100
    for head in (7, 8):
        await choice.compare(head)
        assert await choice.try_each(work) == (first.name, first)
        await trio.sleep(STANDS_S - 1)
    await choice.compare(8)
    assert await choice.try_each(work) == (first.name, first)
    await trio.sleep(STANDS_S)
    await choice.compare(8)

    assert await choice.try_each(work) == (second.name, second)


async def test_each_node_is_tried_once_and_the_last_trouble_is_told(two_nodes: Watching) -> None:
    tried: list[Node] = []

    async def work(node: Node) -> None:
        await trio.lowlevel.checkpoint()
        tried.append(node)
        raise Unread(f"trouble {len(tried)}")

    with pytest.raises(Unread, match="trouble 2"):
        await NodeChoice(two_nodes.rpc, set()).try_each(work)
    assert tried == list(two_nodes.rpc.nodes)


async def test_where_all_nodes_rest_at_their_own_wish_none_is_asked(watching: Watching) -> None:
    watching.nodes[0].does = Does(status=429, headers=(("retry-after", "30"),))
    assert not await watching.watcher.run_once()
    with pytest.raises(NodesDown):
        await NodeChoice(watching.rpc, set()).try_each(watching.rpc.heads)  # type: ignore[arg-type]


async def test_a_transaction_is_read_past_only_after_many_tries_and_a_while(watching: Watching) -> None:
    [node] = watching.rpc.nodes
    skipped: set[str] = set()
    quick = NodeChoice(watching.rpc, skipped)
    for _ in range(UNREADABLE_TRIES + 5):
        quick.rest(node, Unread("it is gone", "0x01"))
    assert skipped == set()

    slow = NodeChoice(watching.rpc, skipped)
    for _ in range(UNREADABLE_TRIES - 1):
        slow.rest(node, Unread("it is gone", "0x01"))
        await trio.sleep(UNREADABLE_S)
    slow.rest(node, Unread("the block is gone"))
    assert skipped == set()
    slow.rest(node, Unread("it is gone", "0x01"))
    assert skipped == {"0x01"}
