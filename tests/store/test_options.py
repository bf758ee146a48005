"""Options in the store: stable ids, immutable quotes, frozen routes, bounded everything."""

from __future__ import annotations

import msgspec
import pytest

from payd.core.errors import RateLimited
from payd.core.option import OPTIONS_STORED_MAX, QUOTES_VALID_MAX, Build, Offer, Quote, WalletRpc
from payd.store import options as store
from payd.store.db import Database
from payd.store.merchants import Merchant, delete_merchant, insert_merchant, update_merchant
from payd.store.options import (
    HINTS_STORED_MAX,
    HINTS_UNKNOWN_MAX,
    Route,
    account_of,
    accounts_offered,
    asset_key_of,
    hand_out,
    hand_out_resolved,
    insert_hints,
    keep_hints,
    quotes_for,
    quotes_in,
    quotes_of,
    routes_of,
    told_before,
)
from payd.store.settlements import Settlement, delete_settlement, insert_settlement, set_destination

ASSET, KEY, WALLET = "eip155:1/slip44:60", "eip155:1/slip44:60", "eip155:1:0xaa"
ROUTE = Route(ASSET, KEY, "crypto_1", WALLET)
CALL = WalletRpc("eip155:1", "eth_sendTransaction", [{"to": "0x1", "n": 1}])
ACTIONS = (CALL, Build("data"))
MERCHANT = Merchant("mrch_1", "acct_1", "Café", "shop@example.com", None, "active", 1000)

WINDOW_END_MS = 900_000


def offer(account: str = "eip155:1:0xbb", *, amount: int = 10**30, until_ms: int = 601_000) -> Offer:
    return Offer(ASSET, account, amount, ACTIONS, 1, until_ms)


async def hand(
    db: Database,
    given: Offer,
    new_id: str,
    now_ms: int = 1000,
    payment: str = "pay_1",
    route: Route = ROUTE,
) -> Quote:
    (quote,) = await db.write(hand_out, payment, [(route, given, new_id)], now_ms, WINDOW_END_MS)
    return quote


async def settle(db: Database, settlement_id: str, destination: str = WALLET, asset: str = ASSET) -> None:
    await db.write(insert_settlement, Settlement(settlement_id, "mrch_1", asset, asset, destination, 1000))


def destinations(db: Database, payment: str = "pay_1") -> list[str]:
    return [route.destination for route in db.point(routes_of, payment, "mrch_1")]


async def stored(db: Database, table: str) -> int:
    (count,) = await db.read(lambda tx: tx.execute(f"SELECT count(*) FROM {table}").fetchone())
    return int(count)


# Routes


async def test_a_merchants_destinations_are_routes_in_their_order(realm_db: Database) -> None:
    await realm_db.write(insert_merchant, MERCHANT)
    assert destinations(realm_db) == []
    await settle(realm_db, "crypto_9", "eip155:2:0xcc", "eip155:2/slip44:60")
    await settle(realm_db, "crypto_1")
    assert realm_db.point(routes_of, "pay_1", "mrch_1")[1] == ROUTE
    assert destinations(realm_db) == ["eip155:2:0xcc", WALLET]
    assert realm_db.point(routes_of, "pay_1", "mrch_2") == []


async def test_a_destination_is_frozen_for_the_payment_that_was_offered_it(realm_db: Database) -> None:
    await realm_db.write(insert_merchant, MERCHANT)
    await settle(realm_db, "crypto_1")
    await hand(realm_db, offer(), "opt_1")
    await realm_db.write(set_destination, "crypto_1", "eip155:1:0xdd", 2000)
    assert destinations(realm_db) == [WALLET]
    assert destinations(realm_db, "pay_2") == ["eip155:1:0xdd"]


async def test_a_payment_goes_where_its_own_merchant_says_and_no_frozen_route_speaks_for_another_asset(
    realm_db: Database,
) -> None:
    for number in (1, 2):
        await realm_db.write(insert_merchant, msgspec.structs.replace(MERCHANT, id=f"mrch_{number}"))
    await settle(realm_db, "crypto_1")
    await settle(realm_db, "crypto_2", "eip155:1:0xcc", "eip155:1/erc20:0xab")
    theirs = Settlement("crypto_3", "mrch_2", ASSET, ASSET, "eip155:1:0xee", 1000)
    await realm_db.write(insert_settlement, theirs)
    await hand(realm_db, offer(), "opt_1")

    assert destinations(realm_db) == [WALLET, "eip155:1:0xcc"]
    assert [one.destination for one in realm_db.point(routes_of, "pay_2", "mrch_2")] == ["eip155:1:0xee"]


async def test_a_removed_route_stays_gone_for_its_payment_when_the_asset_comes_back(
    realm_db: Database,
) -> None:
    await realm_db.write(insert_merchant, MERCHANT)
    await settle(realm_db, "crypto_1")
    await hand(realm_db, offer(), "opt_1")
    await realm_db.write(delete_settlement, "crypto_1")
    assert destinations(realm_db) == []
    await settle(realm_db, "crypto_2", "eip155:1:0xdd")
    assert destinations(realm_db) == []
    assert destinations(realm_db, "pay_2") == ["eip155:1:0xdd"]


async def test_a_merchant_that_is_not_active_takes_nothing(realm_db: Database) -> None:
    await realm_db.write(insert_merchant, MERCHANT)
    await settle(realm_db, "crypto_1")
    for status in ("inactive", "suspended"):
        await realm_db.write(update_merchant, msgspec.structs.replace(MERCHANT, status=status))
        assert destinations(realm_db) == []
    await realm_db.write(update_merchant, MERCHANT)
    assert destinations(realm_db) == [WALLET]
    await realm_db.write(delete_merchant, "acct_1", "mrch_1", 2000)
    assert destinations(realm_db) == []


# Options and quotes


async def test_a_quote_is_read_as_it_was_handed_out(realm_db: Database) -> None:
    handed = await hand(realm_db, offer(), "opt_1")
    assert handed == Quote("opt_1", "pay_1", ASSET, "eip155:1:0xbb", 10**30, WALLET, ACTIONS, 1000, 601_000)
    assert realm_db.point(quotes_of, "pay_1", "opt_1") == [handed]
    assert realm_db.point(asset_key_of, "pay_1", "opt_1") == KEY


async def test_an_option_of_another_payment_is_none(realm_db: Database) -> None:
    await hand(realm_db, offer(), "opt_1")
    assert realm_db.point(quotes_of, "pay_2", "opt_1") == []
    assert realm_db.point(quotes_of, "pay_1", "opt_2") == []
    assert realm_db.point(asset_key_of, "pay_2", "opt_1") is None
    assert realm_db.point(asset_key_of, "pay_1", "opt_2") is None
    await hand(realm_db, offer("eip155:1:0xcc"), "opt_3", payment="pay_2")
    assert realm_db.point(account_of, "pay_1", "opt_1") == "eip155:1:0xbb"
    assert realm_db.point(account_of, "pay_2", "opt_1") is None
    assert realm_db.point(account_of, "pay_1", "opt_3") is None
    assert realm_db.point(accounts_offered, "pay_2") == {"eip155:1:0xcc"}


async def test_the_id_stays_for_payment_asset_and_account(realm_db: Database) -> None:
    first = await hand(realm_db, offer(), "opt_1")
    again = await hand(realm_db, offer(amount=7, until_ms=900_000), "opt_2", 300_000)
    other = await hand(realm_db, offer("eip155:1:0xcc"), "opt_3")
    elsewhere = await hand(realm_db, offer(), "opt_4", payment="pay_2")
    assert [one.option_id for one in (first, again, other, elsewhere)] == ["opt_1", "opt_1", "opt_3", "opt_4"]
    assert realm_db.point(quotes_of, "pay_1", "opt_1") == [again, first]


async def test_an_account_in_another_spelling_has_the_same_option_and_is_told_its_own(
    realm_db: Database,
) -> None:
    first = await hand(realm_db, offer("eip155:1:0xBB"), "opt_1")
    again = await hand(realm_db, offer("eip155:1:0xbb"), "opt_2")
    assert again == msgspec.structs.replace(first, account="eip155:1:0xbb")
    assert realm_db.point(quotes_of, "pay_1", "opt_1") == [first]


async def test_a_fresh_quote_is_handed_out_again_and_an_old_one_renewed(realm_db: Database) -> None:
    first = await hand(realm_db, offer(), "opt_1")
    assert await hand(realm_db, offer(until_ms=901_000), "x", 301_000) == first
    renewed = await hand(realm_db, offer(until_ms=901_002), "x", 301_002)
    assert (renewed.valid_from_ms, renewed.valid_until_ms) == (301_002, 901_002)
    assert await stored(realm_db, "quotes") == 2
    assert realm_db.point(quotes_of, "pay_1", "opt_1") == [renewed]


async def test_a_quote_that_was_renewed_is_newer_than_what_was_quoted_in_between(realm_db: Database) -> None:
    await hand(realm_db, offer(amount=1), "opt_1")
    between = await hand(realm_db, offer(amount=2, until_ms=901_000), "x", 2000)
    renewed = await hand(realm_db, offer(amount=1, until_ms=902_000), "x", 301_003)

    assert realm_db.point(quotes_of, "pay_1", "opt_1") == [renewed, between]


async def test_a_quote_that_cannot_be_longer_is_not_stored_again(realm_db: Database) -> None:
    first = await hand(realm_db, offer(), "opt_1")
    assert await hand(realm_db, offer(), "x", 600_000) == first


async def test_a_price_that_comes_back_is_the_quote_that_said_it(realm_db: Database) -> None:
    first = await hand(realm_db, offer(amount=1), "opt_1")
    await hand(realm_db, offer(amount=2), "x")
    assert await hand(realm_db, offer(amount=1), "x") == first
    assert await stored(realm_db, "quotes") == 2


@pytest.mark.parametrize("change", ["amount", "actions", "destination"])
async def test_a_quote_that_says_something_else_is_a_new_one(realm_db: Database, change: str) -> None:
    first = await hand(realm_db, offer(), "opt_1")
    given, route = offer(), ROUTE
    if change == "amount":
        given = offer(amount=5)
    elif change == "actions":
        given = msgspec.structs.replace(given, actions=ACTIONS[:1])
    else:
        route = msgspec.structs.replace(ROUTE, destination="eip155:1:0xdd")
    assert await hand(realm_db, given, "x", 1001, route=route) != first
    assert len(realm_db.point(quotes_of, "pay_1", "opt_1")) == 2


async def test_only_quotes_that_have_not_ended_are_valid_whatever_the_clock_did(realm_db: Database) -> None:
    handed = await hand(realm_db, offer(), "opt_1", 1000)
    assert realm_db.point(quotes_of, "pay_1", "opt_1", 999) == [handed]
    assert realm_db.point(quotes_of, "pay_1", "opt_1", 601_000) == [handed]
    assert realm_db.point(quotes_of, "pay_1", "opt_1", 601_001) == []


async def test_an_option_with_as_many_valid_quotes_as_it_may_have_gives_the_newest_again(
    realm_db: Database,
) -> None:
    handed = [await hand(realm_db, offer(amount=n + 1), "opt_1", 1000 + n) for n in range(QUOTES_VALID_MAX)]
    assert await hand(realm_db, offer(amount=99), "x", 2000) == handed[-1]
    assert realm_db.point(quotes_of, "pay_1", "opt_1", 2000) == handed[::-1]
    late = await hand(realm_db, offer(amount=99, until_ms=900_000), "x", 601_001)
    assert late.amount == 99
    assert realm_db.point(quotes_of, "pay_1", "opt_1", 601_001) == [late]


async def test_a_resolved_build_is_stored_once_and_has_its_own_room(realm_db: Database) -> None:
    built = [await hand(realm_db, offer(amount=n + 1), "opt_1") for n in range(QUOTES_VALID_MAX)]
    resolved = [msgspec.structs.replace(one, actions=(CALL, CALL)) for one in built]
    for one in [*resolved, *resolved]:
        await realm_db.write(hand_out_resolved, one)
    assert realm_db.point(quotes_of, "pay_1", "opt_1", 1000) == resolved[::-1] + built[::-1]
    with pytest.raises(RateLimited):
        await realm_db.write(hand_out_resolved, msgspec.structs.replace(resolved[0], amount=99))
    longer = msgspec.structs.replace(resolved[0], valid_until_ms=602_000)
    await realm_db.write(hand_out_resolved, longer)
    assert realm_db.point(quotes_of, "pay_1", "opt_1", 602_000) == [longer]


async def test_a_payment_is_offered_to_so_many_accounts_and_known_ones_stay(realm_db: Database) -> None:
    many = [(ROUTE, offer(f"eip155:1:{n}"), f"opt_{n}") for n in range(OPTIONS_STORED_MAX + 1)]
    assert len(await realm_db.write(hand_out, "pay_1", many, 1000, WINDOW_END_MS)) == OPTIONS_STORED_MAX
    with pytest.raises(RateLimited) as found:
        await hand(realm_db, offer("eip155:1:new"), "opt_new")
    assert found.value.details["retryAfterS"] > 0
    mixed = [(ROUTE, offer("eip155:1:new"), "opt_new"), (ROUTE, offer("eip155:1:7"), "x")]
    assert [one.option_id for one in await realm_db.write(hand_out, "pay_1", mixed, 1000, WINDOW_END_MS)] == [
        "opt_7"
    ]
    assert await stored(realm_db, "options") == OPTIONS_STORED_MAX
    await hand(realm_db, offer(), "opt_other", payment="pay_2")


async def test_a_payment_has_so_many_quotes_and_then_its_valid_ones(
    realm_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "QUOTES_STORED_MAX", 3)
    given = [(ROUTE, offer(f"eip155:1:{n}"), f"opt_{n}") for n in range(5)]
    assert len(await realm_db.write(hand_out, "pay_1", given, 1000, WINDOW_END_MS)) == 3
    assert (await hand(realm_db, offer("eip155:1:0", amount=7), "x")).amount == 10**30
    with pytest.raises(RateLimited):
        await hand(realm_db, offer("eip155:1:0", until_ms=900_000), "x", 601_001)
    assert (await stored(realm_db, "options"), await stored(realm_db, "quotes")) == (3, 3)
    assert await realm_db.write(hand_out, "pay_1", [], 1000, WINDOW_END_MS) == []


async def test_room_is_counted_by_options_and_by_the_payments_own_quotes(
    realm_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "OPTIONS_STORED_MAX", 2)
    monkeypatch.setattr(store, "QUOTES_STORED_MAX", 3)
    for amount in (1, 2, 3):
        await hand(realm_db, offer(amount=amount), "opt_other", payment="pay_2")
    for amount in (1, 2):
        await hand(realm_db, offer(amount=amount), "opt_1")
    assert (await hand(realm_db, offer("eip155:1:0xcc"), "opt_2")).option_id == "opt_2"


async def test_of_quotes_that_say_the_same_the_newest_counts(realm_db: Database) -> None:
    await hand(realm_db, offer(), "opt_1")
    newer = await hand(realm_db, offer(until_ms=900_000), "opt_1", 400_000)
    assert realm_db.point(quotes_of, "pay_1", "opt_1", 500_000) == [newer]


# Hints


async def test_hints_are_kept_once_and_so_many_an_option(realm_db: Database) -> None:
    await hand(realm_db, offer(), "opt_1")
    await realm_db.write(keep_hints, "pay_1", "opt_1", ["0xa", "0xb", "0xa"], 1000)
    await realm_db.write(keep_hints, "pay_1", "opt_1", ["0xb"], 2000)
    await realm_db.write(keep_hints, "pay_1", "opt_1", [f"0x{number}" for number in range(500)], 3000)
    rows = await realm_db.read(lambda tx: tx.execute("SELECT hash, told_at_ms FROM hints").fetchall())
    assert len(rows) == HINTS_STORED_MAX
    assert {("0xa", 1000), ("0xb", 1000)} <= set(rows)
    await realm_db.write(keep_hints, "pay_1", "opt_1", ["0xnew"], 4000)
    assert await stored(realm_db, "hints") == HINTS_STORED_MAX
    await hand(realm_db, offer("eip155:1:0xcc"), "opt_2")
    await hand(realm_db, offer(), "opt_3", payment="pay_2")
    for payment, option in (("pay_1", "opt_2"), ("pay_2", "opt_3")):
        await realm_db.write(keep_hints, payment, option, [f"0x{option}"], 5000)
    assert await stored(realm_db, "hints") == HINTS_STORED_MAX + 2, "what others told takes no room"
    for payment in ("pay_1", "pay_2"):
        await realm_db.write(keep_hints, payment, "opt_x", [f"0x{number}" for number in range(500)], 6000)
    assert await stored(realm_db, "hints") == HINTS_STORED_MAX + 2 + 2 * HINTS_UNKNOWN_MAX


async def test_only_all_that_was_told_for_an_option_of_the_payment_was_told_before(
    realm_db: Database,
) -> None:
    await hand(realm_db, offer(), "opt_1")
    await realm_db.write(keep_hints, "pay_1", "opt_1", ["0xa"], 1000)
    await realm_db.write(keep_hints, "pay_1", "opt_x", ["0xb"], 1000)

    assert realm_db.point(told_before, "pay_1", ["0xa"])
    for told in (["0xa", "0xc"], ["0xb"]):
        assert not realm_db.point(told_before, "pay_1", told)
    assert not realm_db.point(told_before, "pay_2", ["0xa"])


async def test_options_that_were_never_handed_out_leave_few_hints_and_take_no_room(
    realm_db: Database,
) -> None:
    await hand(realm_db, offer(), "opt_1")
    for option_id in ("opt_a", "opt_b", ""):
        hashes = [f"0x{option_id}{number}" for number in range(6)]
        await realm_db.write(keep_hints, "pay_1", option_id, hashes, 1000)
    assert await stored(realm_db, "hints") == HINTS_UNKNOWN_MAX
    await realm_db.write(keep_hints, "pay_1", "opt_1", ["0xreal"], 1000)
    assert await stored(realm_db, "hints") == HINTS_UNKNOWN_MAX + 1


async def test_the_hashes_of_a_confirm_that_moves_a_payment_are_kept_all(realm_db: Database) -> None:
    hashes = [f"0x{number}" for number in range(HINTS_STORED_MAX + 5)]
    await realm_db.write(insert_hints, "pay_1", "opt_1", hashes, 1000)
    assert await stored(realm_db, "hints") == len(hashes)


async def test_every_quote_of_a_payment_in_an_asset_is_listed_valid_or_not(realm_db: Database) -> None:
    first = await hand(realm_db, offer(), "opt_1")
    second = await hand(realm_db, offer(amount=7), "opt_9", now_ms=2000)
    third = await hand(realm_db, offer("eip155:1:0xcc"), "opt_2")
    await hand(realm_db, offer(), "opt_3", payment="pay_2")
    assert realm_db.point(quotes_in, "pay_1", KEY) == [third, second, first]
    assert realm_db.point(quotes_in, "pay_1", "eip155:10/slip44:60") == []


async def test_what_an_account_holds_of_an_asset_now_is_found_without_its_options_id(
    realm_db: Database,
) -> None:
    first = await hand(realm_db, offer(amount=1), "opt_1")
    second = await hand(realm_db, offer(amount=2, until_ms=700_000), "opt_2", 2000)
    await hand(realm_db, offer("eip155:1:0xcc"), "opt_3")
    await hand(realm_db, offer(), "opt_4", payment="pay_2")
    bb = "eip155:1:0xbb"
    assert realm_db.point(quotes_for, "pay_1", KEY, bb, 3000) == [second, first]
    assert realm_db.point(quotes_for, "pay_1", KEY, bb, 601_001) == [second]
    assert realm_db.point(quotes_for, "pay_1", KEY, "eip155:1:0xdd", 3000) == []
    assert realm_db.point(quotes_for, "pay_1", "eip155:1/slip44:61", bb, 3000) == []


async def test_what_a_quote_brings_to_its_destination_is_kept(realm_db: Database) -> None:
    less = msgspec.structs.replace(offer(), due=10**30 - 7)

    quote = await hand(realm_db, less, "opt_1")

    assert quote.settlement_value == 10**30 - 7
    assert realm_db.point(quotes_of, "pay_1", "opt_1") == [quote]
    assert (await hand(realm_db, offer("eip155:1:other"), "opt_2")).settlement_value == 10**30
