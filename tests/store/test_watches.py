"""Watches: what a transfer carries leads to one payment, and each is stored once."""

from __future__ import annotations

from payd.chains.evm.binding import authorization_nonce, payment_tag
from payd.core.payment import PaymentCancelled
from payd.store.db import Database
from payd.store.watches import (
    BINDINGS_AT_ONCE,
    Watch,
    account_watching,
    chains_watched,
    closing_bindings,
    find_watch,
    first_closing_ms,
    insert_watches,
    known_bindings,
    prune_watches,
    watched_by_open,
    watched_on,
)
from tests.chains.evm.json import OTHER_SHOP, SHOP, THIRD
from tests.store.shown import seen, show
from tests.till import CHAIN, START_MS, WINDOW_MS, Till, account
from tests.till import ETH as BASE_ETH
from tests.till import USDC as BASE_USDC

TAG = b"t" * 32
USDC = "eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"
ETH = "eip155:1/slip44:60"


def watch(binding: bytes = TAG, asset: str = USDC, payment: str = "pay_1", until_ms: int = 7) -> Watch:
    return Watch(binding, asset, payment, asset.partition("/")[0], "eip155:8453:0xshop", until_ms)


async def test_a_binding_leads_to_its_payment(realm_db: Database) -> None:
    await realm_db.write(insert_watches, [watch(), watch(b"n" * 32, payment="pay_2")])

    assert realm_db.point(find_watch, TAG, USDC) == watch()
    assert realm_db.point(find_watch, b"n" * 32, USDC) == watch(b"n" * 32, payment="pay_2")
    assert realm_db.point(find_watch, b"?" * 32, USDC) is None


async def test_a_binding_found_in_another_asset_than_it_was_handed_out_for_names_no_payment(
    realm_db: Database,
) -> None:
    await realm_db.write(insert_watches, [watch(), watch(asset=ETH)])

    assert realm_db.point(find_watch, TAG, ETH) == watch(asset=ETH)
    assert realm_db.point(find_watch, TAG, "eip155:1/erc20:0xother") is None


async def test_a_binding_whose_watch_in_this_asset_was_pruned_since_it_was_read_names_no_payment(
    realm_db: Database,
) -> None:
    till = await Till(realm_db).open()
    payment = await till.sell()
    await till.offer(payment, asset=BASE_ETH)
    await till.db.write(lambda tx: tx.execute("DELETE FROM watches WHERE asset_key = ?", (BASE_USDC,)))

    await show(till, seen(payment))

    assert till.kinds("0x01") == ["unmatched"]


async def test_what_is_watched_already_stays_as_it_is(realm_db: Database) -> None:
    await realm_db.write(insert_watches, [watch()])
    await realm_db.write(insert_watches, [watch(until_ms=99)])

    assert realm_db.point(find_watch, TAG, USDC) == watch()


async def test_a_payment_is_looked_for_on_each_chain_it_was_offered_on(realm_db: Database) -> None:
    await realm_db.write(insert_watches, [watch(), watch(b"n" * 32), watch(asset=ETH)])

    both = [("pay_1", "eip155:1"), ("pay_1", "eip155:8453")]
    assert sorted(realm_db.point(chains_watched, ["pay_1", "pay_2"])) == both
    assert realm_db.point(chains_watched, ["pay_2"]) == []


async def test_bindings_are_known_on_the_chain_that_they_were_handed_out_on(realm_db: Database) -> None:
    await realm_db.write(insert_watches, [watch(), watch(asset=ETH), watch(b"n" * 32, asset=ETH)])
    many = [number.to_bytes(32, "big") for number in range(2 * BINDINGS_AT_ONCE)]

    asked = [*many, TAG, b"n" * 32]
    assert realm_db.point(known_bindings, asked, "eip155:8453") == {(TAG, USDC)}
    assert realm_db.point(known_bindings, asked, "eip155:1") == {(TAG, ETH), (b"n" * 32, ETH)}
    assert realm_db.point(known_bindings, [], "eip155:1") == set()


async def test_what_is_watched_on_a_chain_ends_with_its_window(realm_db: Database) -> None:
    await realm_db.write(insert_watches, [watch(), watch(b"n" * 32), watch(asset=ETH)])

    assert realm_db.point(watched_on, "eip155:8453", 6) == {(USDC, "eip155:8453:0xshop")}
    assert realm_db.point(watched_on, "eip155:8453", 7) == set()


async def test_a_payment_that_waits_is_looked_for_after_its_window(realm_db: Database) -> None:
    till = await Till(realm_db).open()
    open_one, over = await till.sell("1"), await till.sell("2", asset=BASE_ETH)
    await till.move(over, PaymentCancelled("cancelled_by_user"))
    assert realm_db.point(watched_by_open, CHAIN) == {(BASE_USDC, account(SHOP))}
    assert realm_db.point(watched_by_open, "eip155:1") == set()

    await till.db.write(lambda tx: tx.execute("UPDATE payments SET parked_at_ms = 1"))
    assert (BASE_USDC, account(SHOP)) in realm_db.point(watched_by_open, CHAIN)
    await till.commit(open_one)
    assert (BASE_USDC, account(SHOP)) in realm_db.point(watched_by_open, CHAIN)


async def test_a_destination_belongs_to_the_account_that_was_paid_there(realm_db: Database) -> None:
    till = await Till(realm_db).open()
    await till.sell("1")
    await till.sell("2", merchant=2)

    assert realm_db.point(account_watching, CHAIN, account(SHOP)) == "acct_1"
    assert realm_db.point(account_watching, CHAIN, account(OTHER_SHOP)) == "acct_2"
    assert realm_db.point(account_watching, CHAIN, account(THIRD)) is None


async def test_old_watches_are_forgotten_a_few_at_a_time_but_for_payments_that_wait(
    realm_db: Database,
) -> None:
    till = await Till(realm_db).open()
    over_ms = START_MS + WINDOW_MS
    for name in ("1", "2", "3"):
        await till.sell(name)
    await till.sell("4", asset=BASE_USDC.replace("8453", "10"))
    for name in ("2", "3", "4"):
        await till.move(f"pay_l{name}", PaymentCancelled("cancelled_by_user"))

    assert await realm_db.write(prune_watches, over_ms, 99) == 0
    assert await realm_db.write(prune_watches, over_ms + 1, 5) == 5
    assert await realm_db.write(prune_watches, over_ms + 1, 5) == 1
    assert await realm_db.write(prune_watches, over_ms + 1, 5) == 0
    await till.commit("pay_l1")
    assert await realm_db.write(prune_watches, over_ms + 1, 5) == 0
    assert realm_db.point(chains_watched, ["pay_l1"]) == [("pay_l1", CHAIN)]
    assert till.count("watches") == 2


async def test_windows_that_close_are_told_by_what_binds_their_payments_while_these_wait(
    realm_db: Database,
) -> None:
    till = await Till(realm_db).open()
    end_ms = START_MS + WINDOW_MS
    for name in ("1", "2", "3"):
        await till.sell(name)
    await till.offer("pay_l1", asset=BASE_ETH)
    await till.move("pay_l2", PaymentCancelled("cancelled_by_user"))
    await till.commit("pay_l3")
    wanted = {
        binding
        for name in ("1", "3")
        for binding in (payment_tag(f"pay_l{name}"), authorization_nonce(f"pay_l{name}"))
    }

    found = realm_db.point(closing_bindings, CHAIN, end_ms, end_ms + 1)
    assert (set(found), len(found)) == (wanted, 4)
    assert realm_db.point(closing_bindings, CHAIN, end_ms - 99, end_ms) == []
    assert realm_db.point(closing_bindings, CHAIN, end_ms + 1, end_ms + 99) == []
    assert realm_db.point(closing_bindings, "eip155:10", 0, end_ms + 99) == []


async def test_the_first_window_that_ends_is_that_of_a_payment_which_may_yet_be_paid(
    realm_db: Database,
) -> None:
    till = await Till(realm_db).open()
    for place, name in enumerate("123"):
        await till.sell(name, at_ms=START_MS + place * 1000)
    ends_ms = START_MS + WINDOW_MS
    await till.move("pay_l1", PaymentCancelled("cancelled_by_user"))
    await till.commit("pay_l2")

    def first(from_ms: int, to_ms: int) -> int | None:
        return realm_db.point(first_closing_ms, CHAIN, from_ms, to_ms)

    assert first(0, ends_ms + 9000) == ends_ms + 1000
    assert first(ends_ms + 1000, ends_ms + 1001) == ends_ms + 1000
    assert first(ends_ms, ends_ms + 1000) is None
    assert first(ends_ms + 1001, ends_ms + 9000) == ends_ms + 2000
    assert realm_db.point(first_closing_ms, "eip155:1", 0, ends_ms + 9000) is None
