"""The watcher: it reads on whatever nodes do, and payments hear of what was stored."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import trio

from payd.actors.walk import GONE_S, LAG_S
from payd.actors.watcher import IDLE_S, SOCKET_RETRY, TELL_AT_ONCE_MAX, TELL_MAX, TICK_GAP_S
from payd.chains.evm.binding import authorization_nonce, payment_tag
from payd.core.payment import PaymentCancelled
from payd.store.db import Database
from payd.store.transfers import Follow, follow_transfer
from tests.actors.watching import DOWN, Watching, open_watching
from tests.chains.evm.json import OTHER_SHOP, THIRD
from tests.chains.fake_chain import relayed_transfer, token_transfer
from tests.till import CHAIN, ETH, PRICE, USDC, WINDOW_MS


async def test_a_tagged_transfer_is_stored_and_its_payment_told(watching: Watching) -> None:
    payment = await watching.till.sell()
    paid = watching.pay(payment)
    assert await watching.watcher.run_once()
    [sighting] = watching.till.shown(paid.hash)
    assert (sighting.kind, sighting.payment_id) == ("matched", payment)
    assert (sighting.block_number, sighting.block_hash) == (
        watching.chain.head.number,
        watching.chain.head.hash,
    )
    assert sighting.block_time_s == watching.chain.head.time_s
    assert watching.told == [payment]
    assert watching.wakes == 1


async def test_an_authorization_that_anybody_brought_to_the_token_pays(watching: Watching) -> None:
    payment = await watching.till.sell()
    paid = relayed_transfer(PRICE, authorization_nonce(payment))
    watching.chain.mine(paid)
    await watching.watcher.run_once()
    assert [(one.kind, one.log_index) for one in watching.till.shown(paid.hash)] == [("matched", 1)]


async def test_a_sender_that_nobody_announced_pays(watching: Watching) -> None:
    payment = await watching.till.sell()
    paid = watching.pay(payment, sender=THIRD)
    await watching.watcher.run_once()
    assert watching.till.kinds(paid.hash) == ["matched"]


async def test_two_payments_of_one_payer_with_one_amount_are_both_paid(watching: Watching) -> None:
    one, two = await watching.till.sell("1"), await watching.till.sell("2")
    second = token_transfer(PRICE, payment_tag(two))
    first = token_transfer(PRICE, payment_tag(one))
    watching.chain.mine(second, first)
    await watching.watcher.run_once()
    assert [each.payment_id for each in watching.till.shown(first.hash)] == [one]
    assert [each.payment_id for each in watching.till.shown(second.hash)] == [two]
    assert sorted(watching.told) == [one, two]


async def test_what_does_not_pay_is_shown_as_what_it_is(watching: Watching) -> None:
    payment = await watching.till.sell()
    exact = watching.pay(payment)
    await watching.watcher.run_once()
    again, other = watching.pay(payment), await watching.till.sell("2")
    less, dust = watching.pay(other, PRICE - 1), token_transfer(1, to=OTHER_SHOP)
    nothing = token_transfer(0)
    wrong_token = token_transfer(PRICE, payment_tag(other), token="0x" + "66" * 20)
    watching.chain.mine(dust, nothing, wrong_token)
    await watching.watcher.run_once()
    kinds = [watching.till.kinds(one.hash) for one in (exact, again, less, dust, nothing, wrong_token)]
    assert kinds == [["matched"], ["surplus"], ["partial"], ["unmatched"], [], []]
    assert [one.account_id for one in watching.till.shown(dust.hash)] == ["acct_2"]
    assert watching.told.count(other) == 0


async def test_a_tag_that_was_handed_out_on_another_chain_or_for_another_asset_binds_nothing(
    watching: Watching,
) -> None:
    elsewhere = await watching.till.sell("1", asset=USDC.replace("8453", "10"))
    in_coins = await watching.till.sell("2", asset=ETH)
    one, two = watching.pay(elsewhere), watching.pay(in_coins)
    await watching.watcher.run_once()
    shown = [*watching.till.shown(one.hash), *watching.till.shown(two.hash)]
    assert [(each.kind, each.payment_id) for each in shown] == [("unmatched", None)] * 2
    assert watching.told == []


async def test_a_new_watcher_knows_how_far_the_chain_was_read_before_it_reads_itself(
    watching: Watching,
) -> None:
    """Up to the newest block, though no window has closed for long, or ever."""
    watching.chain.mine_empty(30)
    assert await watching.watcher.run_once()
    assert watching.another().read_until_s() == watching.chain.head.time_s


# Nodes that fail.


async def test_a_block_that_was_missed_while_the_node_was_down_is_read_afterwards(
    watching: Watching,
) -> None:
    payment = await watching.till.sell()
    watching.nodes[0].does = DOWN
    paid = watching.pay(payment)
    watching.chain.mine_empty(3)
    assert not await watching.watcher.run_once()
    assert watching.watcher.stats().trouble != ""
    watching.nodes[0].does = None
    await trio.sleep(60)
    assert await watching.watcher.run_once()
    assert watching.till.kinds(paid.hash) == ["matched"]
    assert watching.watcher.stats().trouble == ""


async def test_a_node_that_never_catches_up_is_trouble(watching: Watching) -> None:
    watching.views[0].lag = 7
    assert await watching.watcher.run_once()
    await trio.sleep(LAG_S - 1)
    assert await watching.watcher.run_once()
    await trio.sleep(2)
    assert not await watching.watcher.run_once()
    assert "7 blocks behind" in watching.watcher.stats().trouble


async def test_a_node_that_has_caught_up_lags_anew_the_next_time(watching: Watching) -> None:
    """Days of short lags together are no chain that was started anew."""
    for _ in range(2):
        watching.views[0].lag = 7
        assert await watching.watcher.run_once()
        watching.views[0].lag = 0
        assert await watching.watcher.run_once()
        await trio.sleep(GONE_S)
    assert watching.watcher.stats().reorgs == 0


async def test_a_killed_server_reads_the_same_again(watching: Watching) -> None:
    payment = await watching.till.sell()
    paid = watching.pay(payment)

    async def die(*args: object) -> None:
        raise KeyboardInterrupt

    honest = watching.till.db.write
    watching.till.db.write = die  # type: ignore[assignment,method-assign]
    with pytest.raises(BaseExceptionGroup):
        await watching.watcher.run_once()
    watching.till.db.write = honest  # type: ignore[method-assign]
    assert watching.till.count("transfers") == 0

    await watching.another().run_once()
    assert watching.till.kinds(paid.hash) == ["matched"]
    await watching.another().run_once()
    assert watching.till.count("transfers") == 1


# Telling.


async def test_payments_are_told_again_until_their_transfers_are_followed_no_more(watching: Watching) -> None:
    payment = await watching.till.sell()
    paid = watching.pay(payment)
    await watching.watcher.run_once()
    block = watching.chain.head
    await watching.watcher.run_once()
    assert watching.told == [payment, payment]

    follow = Follow(CHAIN, paid.hash, block.hash, "depth", block.number + 2)
    await watching.till.db.write(follow_transfer, payment, follow)
    watching.told.clear()
    watching.chain.mine()
    await watching.watcher.run_once()
    assert watching.told == []
    watching.chain.mine()
    await watching.watcher.run_once()
    assert watching.told == [payment]

    await watching.till.db.write(follow_transfer, payment, Follow(CHAIN, paid.hash, block.hash, "final"))
    watching.told.clear()
    watching.chain.mine_empty(17)
    await watching.watcher.run_once()
    assert watching.told == []
    watching.chain.mine()
    await watching.watcher.run_once()
    assert watching.told == [payment]


async def test_many_payments_are_told_a_few_at_once_and_all_in_time(realm_db: Database) -> None:
    async with open_watching(realm_db) as watching:
        count = TELL_MAX + 10
        payments = [await watching.till.sell(str(number)) for number in range(count)]
        now = most = 0
        told: list[str] = []

        async def news(payment_id: str, chain: str) -> None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await trio.sleep(1)
            now -= 1
            told.append(payment_id)

        watcher = watching.another()
        watcher._news = news
        watching.chain.mine(*(token_transfer(PRICE, payment_tag(payment)) for payment in payments))
        await watcher.run_once()
        assert len(told) == TELL_MAX
        await watcher.run_once()
        assert set(told) == set(payments)
        assert most == TELL_AT_ONCE_MAX


async def test_who_is_slow_to_hear_is_told_once_at_a_time(watching: Watching) -> None:
    """What is told asks nodes: twice at once would only be slower."""
    payment = await watching.till.sell()
    watching.pay(payment)
    now, most, told = 0, 0, 0

    async def news(payment_id: str, chain: str) -> None:
        nonlocal now, most, told
        now, told = now + 1, told + 1
        most = max(most, now)
        await trio.sleep(5)
        now -= 1

    watcher = watching.another()
    watcher._news = news
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watcher.run)
        await trio.sleep(30)
        nursery.cancel_scope.cancel()
    assert most == 1
    assert told > 3, "and again until its transfer is followed no more"


async def test_a_payment_that_ended_meanwhile_is_not_told_any_more(watching: Watching) -> None:
    payment = await watching.till.sell()
    paid = watching.pay(payment)
    await watching.watcher.run_once()
    await watching.till.move(payment, PaymentCancelled("cancelled_by_user"))
    watching.told.clear()
    await watching.watcher.run_once()
    await watching.watcher.run_once()
    assert watching.told == []
    assert watching.till.kinds(paid.hash) == ["late"]


# Pace.


async def ticks_in(watching: Watching, seconds: float) -> int:
    before = watching.watcher.stats().ticks
    await trio.sleep(seconds)
    return watching.watcher.stats().ticks - before


async def test_the_head_is_asked_for_often_only_while_something_is_open(watching: Watching) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watching.watcher.run)
        await trio.sleep(1)
        assert await ticks_in(watching, 10 * IDLE_S) in (9, 10, 11)
        await watching.till.sell(at_ms=watching.clock.now_ms())
        watching.watcher.wake()
        await trio.sleep(0.1)
        assert await ticks_in(watching, 100) in (49, 50, 51)
        await trio.sleep(WINDOW_MS / 1000)
        assert await ticks_in(watching, 100) in (49, 50, 51), "the window is open by the chain's own clock"
        watching.chain.mine_empty(WINDOW_MS // 2000 + 1)
        await trio.sleep(5)
        assert await ticks_in(watching, 10 * IDLE_S) in (9, 10, 11)
        nursery.cancel_scope.cancel()


async def test_a_wake_reads_now_and_many_wakes_not_more_often_than_that(watching: Watching) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watching.watcher.run)
        await trio.sleep(1)
        payment = await watching.till.sell()
        paid = watching.pay(payment)
        watching.watcher.wake()
        await trio.sleep(0.01)
        assert watching.till.kinds(paid.hash) == ["matched"]
        before = watching.watcher.stats().ticks
        for _ in range(1000):
            watching.watcher.wake()
            await trio.sleep(0.01)
        assert watching.watcher.stats().ticks - before <= 10 / TICK_GAP_S + 1
        nursery.cancel_scope.cancel()


async def test_a_failing_chain_is_asked_less_often_and_never_given_up(watching: Watching) -> None:
    await watching.till.sell()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watching.watcher.run)
        await trio.sleep(1)
        watching.nodes[0].does = DOWN
        await trio.sleep(300)
        assert 150 / 15 <= await ticks_in(watching, 150) <= 150 / 15 + 2
        assert watching.watcher.stats().failures > 10
        watching.nodes[0].does = None
        paid = token_transfer(PRICE)
        watching.chain.mine(paid)
        await trio.sleep(80)
        assert watching.till.kinds(paid.hash) == ["unmatched"]
        watching.nodes[0].does = DOWN
        assert await ticks_in(watching, 10) >= 4, "what is new may be over soon"
        nursery.cancel_scope.cancel()


async def test_a_socket_that_is_cut_off_is_opened_again_less_and_less_often(watching: Watching) -> None:
    """Unless it was of use for a while."""
    opened: list[float] = []

    async def follow(hear: Callable[[int], None]) -> str:
        opened.append(trio.current_time())
        if len(opened) == 9:
            await trio.sleep(SOCKET_RETRY.last_s)
        return "it was cut off"

    watching.watcher = watching.another(follow_heads=follow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watching.watcher.run)
        await trio.sleep(600)
        nursery.cancel_scope.cancel()
    waits_s = [after - before for before, after in pairwise(opened)]
    assert waits_s[:3] == [SOCKET_RETRY.delay_s(failures) for failures in (1, 2, 3)]
    assert waits_s[7] == SOCKET_RETRY.last_s
    assert waits_s[8] == SOCKET_RETRY.last_s + SOCKET_RETRY.first_s


async def test_heads_are_hints_that_a_broken_socket_does_not_take_along(watching: Watching) -> None:
    payment = await watching.till.sell()
    heads_send, heads_receive = trio.open_memory_channel[int](10)
    broken = 0

    async def follow(hear: Callable[[int], None]) -> str:
        nonlocal broken
        if broken < 3:
            broken += 1
            return "no route"
        async for number in heads_receive:
            hear(number)
        return "it was cut off"

    watching.watcher = watching.another(poll_ms=100_000, follow_heads=follow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watching.watcher.run)
        await trio.sleep(20)
        paid = watching.pay(payment)
        await heads_send.send(watching.chain.head.number)
        await trio.sleep(0.01)
        assert watching.till.kinds(paid.hash) == ["matched"]
        nursery.cancel_scope.cancel()
    assert broken == 3


async def test_where_nothing_is_open_heads_are_not_followed(watching: Watching) -> None:
    heads_send, heads_receive = trio.open_memory_channel[int](100)

    async def follow(hear: Callable[[int], None]) -> str:
        async for number in heads_receive:
            hear(number)
        return "it was cut off"

    watching.watcher = watching.another(follow_heads=follow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watching.watcher.run)
        await trio.sleep(1)
        ticks = watching.watcher.stats().ticks
        for _ in range(5):
            watching.chain.mine()
            await heads_send.send(watching.chain.head.number)
            await trio.sleep(2)
        assert watching.watcher.stats().ticks == ticks
        nursery.cancel_scope.cancel()


async def test_the_store_may_be_away_for_a_while(watching: Watching) -> None:
    payment = await watching.till.sell()
    paid = watching.pay(payment)
    watching.till.db._failure = "the disk is full"
    assert not await watching.watcher.run_once()
    watching.till.db._failure = None
    assert await watching.watcher.run_once()
    assert watching.till.kinds(paid.hash) == ["matched"]
