"""Nodes that answer only so many calls a second: what is too much at once is read piece by piece."""

from __future__ import annotations

from collections import deque
from typing import Any

import trio

from payd.actors.account_walk import BEGIN_SLOTS
from tests.actors.solana_watching import PRICE, WINDOW_S, SolanaWatching
from tests.live.anvil import Refused
from tests.live.solana import BUYER, MERCHANT, SOL, STRANGER, USDC_MINT, pay_sol, pubkey

CALLS_A_S = 10


def limit(solana: SolanaWatching) -> None:
    """Have the node count calls, those of batches each for itself, as providers do."""
    honest = solana.nodes[0].ask
    asked: deque[float] = deque(maxlen=CALLS_A_S + 1)

    def ask(method: str, *params: Any) -> Any:
        asked.append(trio.current_time())
        if len(asked) > CALLS_A_S and asked[-1] - asked[0] < 1:
            raise Refused(-32429, "rate limited")
        return honest(method, *params)

    solana.nodes[0].ask = ask  # type: ignore[method-assign]


async def watch(solana: SolanaWatching, seconds: float) -> None:
    """Have it read for so long."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(solana.watcher.run)
        await trio.sleep(seconds)
        nursery.cancel_scope.cancel()


async def test_more_payments_than_a_node_tells_of_in_a_second_are_all_found(solana: SolanaWatching) -> None:
    payments = [await solana.sell(str(number)) for number in range(30)]
    paid = [await solana.pay(payment) for payment in payments]
    limit(solana)
    await watch(solana, 60)
    assert [solana.kinds(one) for one in paid] == [["matched"]] * len(paid)


async def test_more_accounts_than_a_public_node_lists_in_ten_seconds_are_all_read(
    solana: SolanaWatching,
) -> None:
    """Its limit counts the calls of a batch, and it refuses all of the batch."""
    for place in range(100, 160):
        await solana.sell(f"at {place}", to=place)
    payment = await solana.sell()
    paid = await solana.pay(payment)
    solana.nodes[0].calls_in_10_s = 40
    async with trio.open_nursery() as nursery:
        nursery.start_soon(solana.watcher.run)
        for _ in range(30):
            await trio.sleep(10)
            await solana.later()
        nursery.cancel_scope.cancel()
    assert solana.kinds(paid) == ["matched"]
    assert solana.walk.read_until_s() > solana.now_ms // 1000 - 150


async def test_a_stranger_who_sends_much_dust_stops_nobodys_payment(solana: SolanaWatching) -> None:
    payment = await solana.sell()
    for _ in range(30):
        await solana.pay("pay_of_nobody", 1)
    paid = await solana.pay(payment)
    limit(solana)
    await watch(solana, 60)
    assert solana.kinds(paid) == ["matched"]


async def test_more_windows_than_a_node_lists_in_a_second_close_all_the_same(solana: SolanaWatching) -> None:
    other = await solana.local.give(pubkey(MERCHANT), USDC_MINT, 0, at=pubkey(99))
    strange = await solana.local.give(pubkey(STRANGER), USDC_MINT, 0, at=pubkey(98))
    payments = [await solana.sell(str(number)) for number in range(30)]
    await solana.pay(payments[3], PRICE, target=strange)
    paid = await solana.pay(payments[7], target=other)
    await solana.later()
    await solana.watcher.run_once()
    await solana.later(WINDOW_S + 60)
    limit(solana)
    await watch(solana, 120)
    assert solana.walk.read_until_s() * 1000 > solana.payment(payments[-1]).expires_at_ms
    assert solana.kinds(paid) == ["matched"]


async def test_what_an_account_got_in_the_time_before_is_listed_once(solana: SolanaWatching) -> None:
    """It may be a thousand transactions, and nobody pays there for days."""
    old = await solana.send([pay_sol(pubkey(BUYER), pubkey(MERCHANT), 10**7)])
    await solana.local.slots(BEGIN_SLOTS + 10)
    await solana.later()
    await solana.watcher.run_once()
    payment = await solana.sell(asset=SOL)
    honest, listed = solana.nodes[0].ask, list[Any]()

    def ask(method: str, *params: Any) -> Any:
        said = honest(method, *params)
        if method == "getSignaturesForAddress" and params[0] == str(pubkey(MERCHANT)):
            listed.append([one["signature"] for one in said])
        return said

    solana.nodes[0].ask = ask  # type: ignore[method-assign]
    for _ in range(3):
        await solana.later()
        await solana.watcher.run_once()
    # Of each of the two readings the first.
    assert [old in one for one in listed] == [True, True, False, False, False, False]

    await solana.another().run_once()
    assert listed[-1] == []
    paid = await solana.pay_in_sol(payment)
    await solana.watcher.run_once()
    assert (solana.kinds(paid), solana.shown(old)) == (["matched"], [])
