"""What a chain is read for: all that may be paid there, as long as it may be."""

from __future__ import annotations

import trio

from payd.actors.watch_list import REFRESH_S, WatchList
from payd.chains.assets import AssetBook
from payd.chains.evm.binding import payment_tag
from payd.clock import Clock
from payd.core.caip import parse_chain
from payd.core.payment import PaymentCancelled
from payd.store.settlements import set_destination
from tests.actors.watching import Watching
from tests.chains.evm.json import OTHER_SHOP, OTHER_TOKEN, SHOP, THIRD, TOKEN
from tests.chains.fake_chain import coin_transfer, token_transfer
from tests.till import CHAIN, ETH, EURC, PRICE, START_MS, USDC, WINDOW_MS, account


async def test_the_coin_pays_while_it_is_offered_and_is_not_read_otherwise(watching: Watching) -> None:
    payment = await watching.till.sell()
    watching.chain.mine(unread := coin_transfer(7))
    await watching.watcher.run_once()
    assert watching.till.shown(unread.hash) == []

    await watching.till.offer(payment, asset=ETH, value=10**16)
    paid, failed, bare = (
        coin_transfer(10**16, payment_tag(payment)),
        coin_transfer(10**16, payment_tag(payment), status=0),
        coin_transfer(10**16),
    )
    watching.chain.mine(failed, bare)
    watching.chain.mine_empty(2)
    watching.chain.mine(paid)
    await watching.watcher.run_once()
    assert [(one.kind, one.log_index) for one in watching.till.shown(paid.hash)] == [("matched", -1)]
    assert watching.till.kinds(bare.hash) == ["unmatched"]
    assert watching.till.shown(failed.hash) == []


async def test_a_token_that_no_merchant_takes_is_seen_all_the_same(watching: Watching) -> None:
    usdt = "0xfde4c96c8593536e31f229ea8f37b2ada2699bb2"
    mistaken = token_transfer(PRICE, token=usdt)
    watching.chain.mine(mistaken)
    await watching.watcher.run_once()
    assert watching.till.kinds(mistaken.hash) == ["unmatched"]


async def test_money_is_looked_for_until_a_day_after_the_window(watching: Watching) -> None:
    payment = await watching.till.sell(merchant=1)
    await watching.till.db.write(lambda tx: tx.execute("DELETE FROM settlements"))
    await watching.till.move(payment, PaymentCancelled("cancelled_by_user"))
    await trio.sleep(WINDOW_MS / 1000 + 24 * 3600 - 60)
    watching.chain.mine_empty(round((WINDOW_MS / 1000 + 24 * 3600 - 60) / 2))
    late = watching.pay(payment)
    await watching.watcher.run_once()
    await trio.sleep(200)
    watching.chain.mine_empty(100)
    await watching.watcher.run_once()
    too_late = watching.pay(payment)
    await watching.watcher.run_once()
    assert watching.till.kinds(late.hash) == ["late"]
    assert watching.till.shown(too_late.hash) == []


async def test_many_destinations_are_asked_for_in_pieces(watching: Watching) -> None:
    for number in range(501):
        await watching.till.settle(number + 3, USDC, f"0x{number + 0xABC000:040x}")
    await trio.sleep(61)
    paid = token_transfer(PRICE, to=f"0x{0xABC000 + 500:040x}")
    watching.chain.mine(paid)
    before = watching.rpc.calls["eth_getLogs"]
    await watching.watcher.run_once()
    assert watching.rpc.calls["eth_getLogs"] - before == 2 + 2  # and again what has become final


async def test_tokens_alone_are_looked_for_by_their_address(watching: Watching) -> None:
    watched = await watch_list(watching).everything()
    assert {len(token) for token in watched.tokens} == {42}
    assert watched.native == ETH


def watch_list(watching: Watching) -> WatchList:
    return WatchList(watching.till.db, watching.clock, parse_chain(CHAIN), AssetBook())


def now_s(watching: Watching) -> int:
    return watching.clock.now_ms() // 1000


async def test_every_known_token_is_read_and_every_registered_destination(watching: Watching) -> None:
    watched = await watch_list(watching).at(now_s(watching))
    assert {TOKEN, OTHER_TOKEN} <= watched.tokens
    assert watched.destinations == {SHOP, OTHER_SHOP}
    assert watched.native is None


async def test_what_is_handed_out_is_watched_at_once(watching: Watching) -> None:
    watched = watch_list(watching)
    await watched.at(now_s(watching))
    await trio.sleep(1)
    await watching.till.sell(asset=ETH, at_ms=watching.clock.now_ms())
    assert (await watched.at(now_s(watching))).native == ETH


async def test_what_is_handed_out_after_the_wall_clock_was_set_back_is_watched_at_once(
    watching: Watching,
) -> None:
    walls = [START_MS + 2 * WINDOW_MS, START_MS]
    clock = Clock(lambda: walls[0])
    watched = WatchList(watching.till.db, clock, parse_chain(CHAIN), AssetBook())
    await watched.at(START_MS // 1000)
    walls.pop(0)
    await watching.till.sell(asset=ETH, at_ms=clock.now_ms())
    assert (await watched.at(START_MS // 1000)).native == ETH


async def test_a_destination_that_was_offered_is_watched_after_it_was_changed(watching: Watching) -> None:
    await watching.till.sell()
    await watching.till.db.write(set_destination, f"crypto_1_{USDC}", account(THIRD), START_MS)
    watched = await watch_list(watching).at(now_s(watching))
    assert watched.destinations == {SHOP, OTHER_SHOP, THIRD}


async def test_a_new_destination_is_watched_within_a_minute(watching: Watching) -> None:
    watched = watch_list(watching)
    await watched.at(now_s(watching))
    await watching.till.settle(1, EURC, THIRD)
    await trio.sleep(REFRESH_S)
    assert THIRD in (await watched.at(now_s(watching))).destinations


async def test_a_window_that_closes_between_two_refreshes_stays_watched(watching: Watching) -> None:
    await watching.till.db.write(lambda tx: tx.execute("DELETE FROM settlements"))
    watched = watch_list(watching)
    await watched.at(now_s(watching))
    await watching.till.sell(at_ms=watching.clock.now_ms(), window_ms=10_000)
    for _ in range(20):
        await trio.sleep(7)
        assert (await watched.at(now_s(watching))).destinations == {SHOP}


async def test_blocks_of_last_week_are_read_for_what_was_open_then(watching: Watching) -> None:
    await watching.till.db.write(lambda tx: tx.execute("DELETE FROM settlements"))
    payment = await watching.till.sell(asset=ETH)
    await watching.till.move(payment, PaymentCancelled("cancelled_by_user"))
    then_s = now_s(watching)
    await trio.sleep(7 * 24 * 3600)
    watched = watch_list(watching)
    assert (await watched.at(now_s(watching))).native is None
    assert (await watched.at(then_s)).native == ETH
    assert (await watched.at(then_s)).destinations == {SHOP}


async def test_for_a_single_transaction_everything_is_watched_that_ever_was(watching: Watching) -> None:
    await watching.till.db.write(lambda tx: tx.execute("DELETE FROM settlements"))
    await watching.till.sell()
    await trio.sleep(20 * 24 * 3600)
    watched = await watch_list(watching).everything()
    assert (watched.destinations, watched.native) == ({SHOP}, ETH)
    assert TOKEN in watched.tokens


async def test_a_payment_that_waits_is_looked_for_however_long_it_takes(watching: Watching) -> None:
    payment = await watching.till.sell(asset=ETH)
    await watching.till.commit(payment, asset=ETH)
    await trio.sleep(7 * 24 * 3600)
    assert (await watch_list(watching).at(now_s(watching))).native == ETH
