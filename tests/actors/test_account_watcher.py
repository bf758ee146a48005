"""The watcher of a Solana chain: walk, repair and hints are one, and pace and telling are every watcher's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio

from payd.actors import account_walk
from payd.actors.watcher import IDLE_S, TELL_AT_ONCE_MAX
from payd.chains.solana.keys import TOKEN, token_account
from payd.chains.solana.subscription import Wanted
from payd.core.errors import StoreUnavailable
from tests.actors.solana_watching import DOWN, WINDOW_S, SolanaWatching
from tests.live.solana import MERCHANT, USDC_MINT, keypair, memo, pubkey, tx_id_of


async def test_a_transaction_that_somebody_tells_of_is_read_at_once(solana: SolanaWatching) -> None:
    payment = await solana.sell()
    paid = await solana.pay(payment)
    await solana.watcher.found(paid)
    assert (solana.kinds(paid), solana.told) == (["matched"], [payment])
    await solana.watcher.found(paid)
    assert (solana.count("transfers"), solana.told) == (1, [payment])


async def test_what_one_node_has_not_another_may_have(two_solanas: SolanaWatching) -> None:
    solana = two_solanas
    one, two = await solana.sell("1"), await solana.sell("2")
    first, second = await solana.pay(one), await solana.pay(two)
    solana.nodes[0].hides |= {first, second}
    await solana.watcher.found(first)
    solana.nodes[0].does = DOWN
    await solana.watcher.found(second)
    assert solana.told == [one, two]


async def test_what_no_node_has_is_no_news(solana: SolanaWatching) -> None:
    raw = await solana.local.signed([memo("x")], keypair(MERCHANT))
    await solana.watcher.found(tx_id_of(raw))
    assert (solana.told, solana.count("transfers")) == ([], 0)


async def test_a_hint_of_a_transaction_has_it_read_and_one_of_an_account_has_all_listed(
    solana: SolanaWatching,
) -> None:
    one, two = await solana.sell("1"), await solana.sell("2")
    hints_send, hints_receive = trio.open_memory_channel[str](10)
    wanted, breaks = Wanted(), 0

    async def follow(hear: Callable[[str], None]) -> str:
        nonlocal breaks
        breaks += 1
        if breaks < 3:
            return "no route"
        async for hint in hints_receive:
            hear(hint)
        return "it was cut off"

    solana.watcher = solana.another(poll_ms=100_000, wanted=wanted, follow_news=follow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(solana.watcher.run)
        await trio.sleep(20)
        assert set(wanted.addresses()) == {str(token_account(pubkey(MERCHANT), USDC_MINT, TOKEN))}
        first = await solana.pay(one)
        solana.nodes[0].index_lag = 100
        await hints_send.send(first)
        await trio.sleep(0.01)
        assert solana.kinds(first) == ["matched"]
        solana.nodes[0].index_lag = 0
        second = await solana.pay(two)
        await hints_send.send("")
        await trio.sleep(0.5)
        assert solana.kinds(second) == ["matched"]
        assert solana.wakes > 0
        nursery.cancel_scope.cancel()
    assert sorted(solana.told)[0] == one


async def test_hints_are_read_again_each_time_and_not_twice_at_once_nor_all_at_once(
    solana: SolanaWatching,
) -> None:
    """As of what a fork moved; and whoever sends many is not to have nodes asked for each."""
    hints_send, hints_receive = trio.open_memory_channel[str](100)
    now: list[str] = []
    read: list[str] = []
    most = 0

    async def follow(hear: Callable[[str], None]) -> str:
        async for hint in hints_receive:
            hear(hint)
        return "it was cut off"

    async def found(tx_id: str) -> None:
        nonlocal most
        now.append(tx_id)
        most = max(most, len(now))
        assert now.count(tx_id) == 1
        await trio.sleep(1)
        now.remove(tx_id)
        read.append(tx_id)
        if tx_id == "unlucky":
            raise StoreUnavailable("The disk is full.")

    solana.watcher = solana.another(poll_ms=100_000, follow_news=follow)
    solana.watcher.found = found  # type: ignore[method-assign]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(solana.watcher.run)
        await trio.sleep(1)
        for hint in ("unlucky", "one", "one"):
            await hints_send.send(hint)
        await trio.sleep(2)
        await hints_send.send("one")
        await trio.sleep(2)
        assert sorted(read) == ["one", "one", "unlucky"]
        for number in range(2 * TELL_AT_ONCE_MAX):
            await hints_send.send(f"many-{number}")
        await trio.sleep(2)
        nursery.cancel_scope.cancel()
    assert most == TELL_AT_ONCE_MAX


async def test_accounts_are_listed_often_only_until_the_window_is_read_to_its_end(
    solana: SolanaWatching,
) -> None:
    async def ticks_in(seconds: float) -> int:
        before = solana.watcher.stats().ticks
        await trio.sleep(seconds)
        return solana.watcher.stats().ticks - before

    async with trio.open_nursery() as nursery:
        nursery.start_soon(solana.watcher.run)
        await trio.sleep(1)
        assert await ticks_in(10 * IDLE_S) in (9, 10, 11)
        await solana.sell()
        solana.watcher.wake()
        await trio.sleep(0.1)
        assert await ticks_in(100) in (49, 50, 51)
        await trio.sleep(WINDOW_S)
        assert await ticks_in(100) in (49, 50, 51), "the window is open by the chain's own clock"
        await solana.later(WINDOW_S + 60)
        await trio.sleep(5)
        assert await ticks_in(10 * IDLE_S) in (9, 10, 11)
        nursery.cancel_scope.cancel()


async def test_payments_are_told_again_until_their_transfers_are_followed_no_more(
    solana: SolanaWatching,
) -> None:
    payment = await solana.sell()
    await solana.pay(payment)
    await solana.watcher.run_once()
    await solana.watcher.run_once()
    assert solana.told == [payment, payment]


async def test_accounts_are_listed_again_from_where_it_was_stored_and_no_further(
    solana: SolanaWatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    paid = await solana.pay(await solana.sell())
    await solana.local.slots(60)  # so long final that the account is done with
    write, fails = solana.db.write, iter([True])

    async def store(step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if step is account_walk._advance and next(fails, False):
            raise StoreUnavailable("the disk is full")
        return await write(step, *args, **kwargs)

    monkeypatch.setattr(solana.db, "write", store)
    assert not await solana.watcher.run_once()
    step = await solana.walk.step(solana.rpc.nodes[0])
    assert [one.sighting.tx_id for one in step.noted] == [paid]
