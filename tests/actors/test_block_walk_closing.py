"""Windows that end: no node alone says that nobody has paid, nor how late it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any

import msgspec
import pytest
import trio

from payd.actors.block_walk import _together
from payd.actors.node_choice import SECOND_WAIT_S
from payd.actors.watcher import IDLE_S
from payd.chains.evm.answers import Block
from payd.chains.evm.reading import Piece
from payd.chains.unread import Unread
from payd.core.option import QUOTE_GRACE_MS
from payd.core.payment import PaymentCancelled
from payd.store.chain_cursors import closed_until_s, find_cursor
from payd.store.db import Database
from tests.actors.watching import DOWN, Watching, open_watching
from tests.chains.evm.json import OTHER_SHOP, THIRD
from tests.chains.fake_chain import token_transfer
from tests.store.shown import seen
from tests.till import CHAIN, EURC, PRICE, account

WINDOW_S = 30


@pytest.fixture
async def two(realm_db: Database) -> AsyncIterator[Watching]:
    async with open_watching(realm_db, nodes=2) as watching:
        yield watching


async def sell(watching: Watching, name: str = "1") -> tuple[str, int]:
    """A payment that is open for half a minute by the chain, and when that ends."""
    at_s = watching.chain.head.time_s
    await pass_until(watching, at_s)
    payment = await watching.till.sell(
        name, at_ms=at_s * 1000, valid_ms=WINDOW_S * 1000, window_ms=WINDOW_S * 1000
    )
    return payment, at_s + WINDOW_S


async def pass_until(watching: Watching, time_s: int) -> None:
    """Empty blocks up to the first one that is not older; and our clock is there too."""
    while watching.chain.head.time_s < time_s:
        watching.chain.mine()
    await trio.sleep(max(0, watching.chain.head.time_s - watching.clock.now_ms() // 1000))


def closed_s(watching: Watching) -> int:
    """Up to when windows may close."""
    return watching.till.db.point(closed_until_s, CHAIN)


async def test_where_no_window_ends_no_other_node_is_asked(two: Watching) -> None:
    await sell(two)
    two.chain.mine()
    await two.watcher.run_once()
    asked = two.rpc.nodes[1].posts
    two.chain.mine()
    two.views[0].has_final = False  # no second reading either
    await two.watcher.run_once()

    assert two.rpc.nodes[1].posts == asked


async def test_a_range_of_a_machine_that_does_not_have_all_of_it_closes_no_window(realm_db: Database) -> None:
    """It gives the logs that it has, and the one node's other machines have newer blocks."""
    async with open_watching(realm_db) as one:
        payment, ends_s = await sell(one)
        before = one.chain.head.number
        paid = one.pay(payment)
        await pass_until(one, ends_s + 60)
        one.views[0].ghosts = one.chain.head.number - before
        one.views[0].has_final = False  # nor is it read again before the payment has expired
        assert not await one.watcher.run_once()
        assert closed_s(one) < ends_s
        one.views[0].ghosts = 0
        assert await one.watcher.run_once()

        assert closed_s(one) > ends_s
        assert one.till.kinds(paid.hash) == ["matched"]


async def test_what_the_node_that_is_read_hides_another_one_shows_before_the_window_closes(
    two: Watching,
) -> None:
    payment, ends_s = await sell(two)
    paid = two.pay(payment)
    two.views[0].hides.add(paid.hash)
    await two.watcher.run_once()
    assert two.till.kinds(paid.hash) == []
    await pass_until(two, ends_s + 2)
    two.told.clear()
    await two.watcher.run_once()

    assert closed_s(two) > ends_s
    assert two.till.kinds(paid.hash) == ["matched"]
    assert two.told == [payment]


async def test_what_the_node_hid_that_was_read_before_closes_no_window_by_its_own_word(two: Watching) -> None:
    """It reads first; then the other one does, and windows would close by the word of this one again."""
    payment, ends_s = await sell(two)
    paid = two.pay(payment)
    two.views[0].hides.add(paid.hash)
    two.views[0].has_final = two.views[1].has_final = False  # no second reading
    await two.watcher.run_once()
    assert two.till.kinds(paid.hash) == []
    read = two.chain.head.number
    await pass_until(two, ends_s + 2)
    two.views[0].lag = two.chain.head.number - read + 1
    await two.watcher.run_once()
    assert closed_s(two) < ends_s
    two.views[0].lag = 0
    await two.watcher.run_once()

    assert closed_s(two) > ends_s
    assert two.till.kinds(paid.hash) == ["matched"]


async def test_what_a_node_hid_that_an_operator_replaced_closes_no_window_unread(watching: Watching) -> None:
    """Another node is the only one after the start: it reads itself what the one before it had read."""
    payment, ends_s = await sell(watching)
    paid = watching.pay(payment)
    watching.views[0].hides.add(paid.hash)
    watching.views[0].has_final = False  # no second reading
    await watching.watcher.run_once()
    assert watching.till.kinds(paid.hash) == []
    watching.views[0].hides.clear()
    await pass_until(watching, ends_s + 2)
    await watching.another().run_once()

    assert closed_s(watching) > ends_s
    assert watching.till.kinds(paid.hash) == ["matched"]


@pytest.mark.parametrize("results_hash", [None, b"results"])
async def test_the_window_of_what_is_processing_is_read_to_its_end_too(
    two: Watching, results_hash: bytes | None
) -> None:
    """What was only seen may come to nothing, and be paid by another transfer in time."""
    payment, ends_s = await sell(two)
    await two.till.commit(payment, results_hash=results_hash)
    paid = two.pay(payment)
    two.views[0].hides.add(paid.hash)
    await pass_until(two, ends_s + 2)
    await two.watcher.run_once()

    assert closed_s(two) > ends_s
    assert two.till.kinds(paid.hash) == ["matched"]


async def test_a_window_closes_as_far_as_another_node_has_the_same_blocks(two: Watching) -> None:
    _, ends_s = await sell(two)
    await pass_until(two, ends_s + 10)
    two.views[1].lag = 8
    await two.watcher.run_once()
    assert closed_s(two) < ends_s
    two.views[1].lag = 2
    await two.watcher.run_once()

    assert ends_s < closed_s(two) < two.chain.head.time_s


async def test_a_window_that_takes_more_than_one_reading_is_not_left_until_idle_ticks_come(
    two: Watching,
) -> None:
    """As where the other node gives logs of a few blocks at once, or all transactions are read."""
    _, ends_s = await sell(two)
    await pass_until(two, ends_s + 2)
    two.views[1].range_max = 4
    async with trio.open_nursery() as nursery:
        nursery.start_soon(two.watcher.run)
        await trio.sleep(1)
        assert closed_s(two) < ends_s
        await trio.sleep(IDLE_S - 2)
        nursery.cancel_scope.cancel()

    assert closed_s(two) > ends_s


async def test_a_node_whose_clock_is_ahead_closes_no_window(two: Watching) -> None:
    _, ends_s = await sell(two)
    two.views[0].ahead_s = 90
    two.chain.mine()
    await two.watcher.run_once()
    assert two.watcher.stats().read_time_s == two.chain.head.time_s + 90
    assert closed_s(two) < ends_s
    await pass_until(two, ends_s + 2)
    await two.watcher.run_once()

    assert ends_s < closed_s(two) <= two.chain.head.time_s


async def test_a_second_node_whose_clock_is_ahead_closes_none_either(two: Watching) -> None:
    _, ends_s = await sell(two)
    two.views[1].ahead_s = 90
    await pass_until(two, ends_s + 2)
    await two.watcher.run_once()

    assert ends_s < closed_s(two) <= two.chain.head.time_s


async def test_what_is_final_is_as_late_as_the_node_says_whose_clock_is_behind(two: Watching) -> None:
    await sell(two)
    two.views[1].ahead_s = 90
    two.chain.mine_empty(5)
    await two.watcher.run_once()
    final = two.till.db.point(find_cursor, CHAIN, "final")
    assert final is not None

    assert final.time_s == two.chain.blocks[final.number].time_s


async def test_what_a_node_alone_names_final_it_must_have_as_well(watching: Watching) -> None:
    """Behind one address may be several nodes."""
    final = watching.watcher.stats().final
    honest = watching.nodes[0].results["eth_getBlockByNumber"]

    def of_two(tag: str, full: bool) -> Any:
        said = honest(tag, full)
        return {**said, "hash": "0x" + "ab" * 32} if tag == "finalized" else said

    watching.nodes[0].results["eth_getBlockByNumber"] = of_two
    watching.chain.mine_empty(5)
    await watching.watcher.run_once()

    assert watching.watcher.stats().final == final
    assert "different final blocks" in watching.watcher.stats().second_trouble


async def test_blocks_that_one_node_made_up_close_no_window(two: Watching) -> None:
    _, ends_s = await sell(two)
    await two.watcher.run_once()
    honest = len(two.chain.blocks)
    await pass_until(two, ends_s + 2)
    made_up = len(two.chain.blocks) - honest
    two.views[1].lag = made_up
    await two.watcher.run_once()
    assert closed_s(two) < ends_s

    # The chain goes on without them, and the node that told of them comes back to it.
    two.chain.reorg(made_up)
    two.views[1].lag = 0
    await pass_until(two, ends_s + 4)
    await two.watcher.run_once()
    assert ends_s < closed_s(two)


async def test_of_two_nodes_that_are_as_far_on_other_blocks_neither_closes_a_window(two: Watching) -> None:
    _, ends_s = await sell(two)
    await two.watcher.run_once()
    await pass_until(two, ends_s - 10)
    other = deepcopy(two.chain)
    two.views[1].chain = other
    await pass_until(two, ends_s + 2)
    other.reorg(1, *[()] * (1 + two.chain.head.number - other.head.number))
    assert other.head.number == two.chain.head.number
    await two.watcher.run_once()
    assert closed_s(two) < ends_s


async def test_no_piece_of_another_branch_closes_anything_though_it_ends_before_the_newest_block(
    two: Watching,
) -> None:
    _, ends_s = await sell(two)
    await two.watcher.run_once()
    await pass_until(two, ends_s - 10)
    other = deepcopy(two.chain)
    two.views[1].chain = other
    two.views[1].range_max = 4
    await pass_until(two, ends_s + 2)
    other.reorg(8, *[()] * (8 + two.chain.head.number - other.head.number))
    for _ in range(5):
        await two.watcher.run_once()

    closed = two.till.db.point(find_cursor, CHAIN, "closed")
    assert closed is not None
    assert closed.hash == two.chain.blocks[closed.number].hash
    assert closed.time_s < ends_s


async def test_while_the_others_are_away_windows_stay_open_and_not_for_ever(two: Watching) -> None:
    _, ends_s = await sell(two)
    two.nodes[1].does = DOWN
    await pass_until(two, ends_s + 2)
    await two.watcher.run_once()
    assert closed_s(two) < ends_s
    await trio.sleep(SECOND_WAIT_S - 60)
    two.chain.mine()
    await two.watcher.run_once()
    assert closed_s(two) < ends_s
    await trio.sleep(120)
    two.chain.mine()
    await two.watcher.run_once()

    assert closed_s(two) > ends_s


async def test_a_node_whose_clock_is_ahead_reads_nothing_a_second_time_alone(two: Watching) -> None:
    await sell(two)
    await two.watcher.run_once()
    final = two.watcher.stats().final
    two.views[0].ahead_s = 2 * int(SECOND_WAIT_S)
    two.nodes[1].does = DOWN
    two.chain.mine_empty(5)
    await two.watcher.run_once()
    two.chain.mine()
    await two.watcher.run_once()

    assert two.watcher.stats().final == final


async def test_of_one_node_alone_no_time_is_believed_that_is_far_ahead_of_ours(watching: Watching) -> None:
    _, ends_s = await sell(watching)
    watching.views[0].ahead_s = 3600
    watching.chain.mine()
    await watching.watcher.run_once()
    assert closed_s(watching) < ends_s
    watching.views[0].ahead_s = 0
    await pass_until(watching, ends_s + 2)
    await watching.watcher.run_once()

    assert closed_s(watching) > ends_s


async def test_nor_where_it_has_that_block_as_final(watching: Watching) -> None:
    watching.chain.final_depth = 0
    _, ends_s = await sell(watching)
    await pass_until(watching, ends_s + QUOTE_GRACE_MS // 1000 - 40)
    _, later_s = await sell(watching, "2")
    watching.views[0].ahead_s = 3600
    watching.chain.mine()
    await watching.watcher.run_once()
    await trio.sleep(60)
    await watching.watcher.run_once()

    assert ends_s < closed_s(watching) < later_s


async def test_who_was_away_for_a_window_that_ended_otherwise_is_waited_for_anew(two: Watching) -> None:
    payment, ends_s = await sell(two)
    two.nodes[1].does = DOWN
    await pass_until(two, ends_s + 2)
    await two.watcher.run_once()
    assert closed_s(two) < ends_s
    await two.till.move(payment, PaymentCancelled("cancelled_by_user"))
    two.chain.mine()
    await two.watcher.run_once()
    await trio.sleep(SECOND_WAIT_S + 60)
    _, ends_s = await sell(two, "2")
    await pass_until(two, ends_s + 2)
    await two.watcher.run_once()

    assert closed_s(two) < ends_s


async def test_who_goes_away_after_a_window_has_closed_is_waited_for_from_then_on(two: Watching) -> None:
    _, ends_s = await sell(two)
    await pass_until(two, ends_s + 2)
    await two.watcher.run_once()
    assert closed_s(two) > ends_s
    ends_s = two.chain.head.time_s + 6  # soon: no round between the two has no window to close
    await two.till.sell("2", at_ms=(ends_s - WINDOW_S) * 1000, window_ms=WINDOW_S * 1000)
    two.nodes[1].does = DOWN
    await trio.sleep(SECOND_WAIT_S + 60)
    await pass_until(two, ends_s + 2)
    await two.watcher.run_once()

    assert closed_s(two) < ends_s


async def test_at_the_first_start_no_window_is_taken_to_be_closed_by_a_clock_that_is_ahead(
    realm_db: Database,
) -> None:
    async with open_watching(realm_db, begun=False) as watching:
        watching.views[0].ahead_s = 3600
        await watching.watcher.run_once()

        assert closed_s(watching) < watching.clock.now_ms() // 1000


async def test_what_a_node_shows_that_gives_few_blocks_at_once_is_all_counted(two: Watching) -> None:
    payment = await two.till.sell()
    two.chain.mine(token_transfer(PRICE, to=THIRD))  # it has other logs of then
    paid = two.pay(payment)
    first, second = two.views
    first.hides.add(paid.hash)
    first.has_final = second.has_final = False
    two.chain.mine_empty(900)
    await two.watcher.run_once()
    assert two.till.shown(paid.hash) == []
    # Another machine of the first node shows it, in the first of several ranges.
    first.hides.clear()
    second.hides.add(paid.hash)
    first.range_max = 300
    first.has_final = second.has_final = True
    await two.watcher.run_once()
    assert two.till.kinds(paid.hash) == ["matched"]


@pytest.mark.parametrize(
    "other", [{"value": 1}, {"binding": None}, {"recipient": account(OTHER_SHOP)}, {"asset": EURC}], ids=str
)
def test_nodes_that_do_not_show_the_same_of_a_transfer_are_both_not_believed(other: dict[str, Any]) -> None:
    block = Block(number=100, hash="0xa100", parent_hash="0xa99", time_s=7)
    one = Piece((block,), (seen("pay_l1"), seen(tx_id="0x02")))

    hidden = msgspec.structs.replace(one, transfers=one.transfers[:1])
    assert (
        set(_together(one, hidden).transfers) == set(_together(hidden, one).transfers) == set(one.transfers)
    )
    with pytest.raises(Unread):
        _together(one, Piece((block,), (seen("pay_l1", **other),)))


def test_nodes_that_have_other_blocks_are_both_not_believed() -> None:
    block = Block(number=100, hash="0xa100", parent_hash="0xa99", time_s=7)
    with pytest.raises(Unread):
        _together(Piece((block,), ()), Piece((msgspec.structs.replace(block, hash="0xb100"),), ()))
