"""Builds in the store: what each may cost us is reserved until it has landed, or cannot any more."""

from __future__ import annotations

from typing import Any

import msgspec

from payd.store.builds import (
    Build,
    Spending,
    builds_of_buyer,
    builds_out,
    count_opening,
    end_builds,
    find_build,
    hash_message,
    insert_build,
    last_height_of,
    reserved_on_builds,
    spent_on_builds,
    spent_on_payment,
)
from payd.store.db import Database

CHAIN = "solana:local"
BUYER = f"{CHAIN}:buyer"
OURS = Build(hash_message(b"one"), "pay_1", CHAIN, BUYER, 300, 1000, "5sig", 10_000)


async def put(db: Database, message: bytes, **changes: Any) -> Build:
    """A stored build."""
    build = msgspec.structs.replace(OURS, message_hash=hash_message(message), **changes)
    await db.write(insert_build, build)
    return build


def spent(db: Database, since_ms: int = 0) -> tuple[int, int]:
    """What was spent, or may still be."""
    spending = db.point(spent_on_builds, CHAIN, since_ms)
    return spending.cost, spending.count


async def test_a_build_is_found_by_its_message(realm_db: Database) -> None:
    build = await put(realm_db, b"one")

    assert realm_db.point(find_build, hash_message(b"one")) == build
    assert realm_db.point(find_build, hash_message(b"two")) is None


async def test_the_same_message_is_stored_once_as_it_was_first(realm_db: Database) -> None:
    build = await put(realm_db, b"one")
    await put(realm_db, b"one", payment_id="pay_2", cost=1)

    assert realm_db.point(find_build, hash_message(b"one")) == build
    await realm_db.write(end_builds, [(build.message_hash, "landed", 7)])
    await put(realm_db, b"one")
    assert realm_db.point(reserved_on_builds, CHAIN) == Spending(0, 0), "what has landed is not out again"


async def test_what_is_out_is_reserved_and_what_can_not_land_any_more_is_free_again(
    realm_db: Database,
) -> None:
    one, two = await put(realm_db, b"one"), await put(realm_db, b"two", payment_id="pay_2")
    assert spent(realm_db) == (20_000, 2)

    await realm_db.write(end_builds, [(one.message_hash, "void", 0), (two.message_hash, "landed", 5_000)])

    assert spent(realm_db) == (5_000, 1)
    assert realm_db.point(builds_out, CHAIN, 10) == []


async def test_what_the_buyer_pays_for_costs_us_nothing(realm_db: Database) -> None:
    await put(realm_db, b"one", tx_id=None, cost=0)

    assert spent(realm_db) == (0, 0)
    assert realm_db.point(builds_out, CHAIN, 10) == []
    assert realm_db.point(builds_of_buyer, CHAIN, BUYER, 0) == 0


async def test_a_day_has_its_own_budget(realm_db: Database) -> None:
    await put(realm_db, b"one", created_at_ms=999)
    await put(realm_db, b"two", created_at_ms=1000)

    assert spent(realm_db, 1000) == (10_000, 1)


async def test_an_account_is_counted_by_payments_however_often_it_asks(realm_db: Database) -> None:
    await put(realm_db, b"one")
    await put(realm_db, b"again")
    await put(realm_db, b"other", payment_id="pay_2")
    await put(realm_db, b"stranger", payment_id="pay_3", buyer=f"{CHAIN}:stranger")
    await put(realm_db, b"earlier", payment_id="pay_4", created_at_ms=999)
    void = await put(realm_db, b"void", payment_id="pay_5")
    landed = await put(realm_db, b"landed", payment_id="pay_6")
    await realm_db.write(end_builds, [(void.message_hash, "void", 0), (landed.message_hash, "landed", 5_000)])

    assert realm_db.point(builds_of_buyer, CHAIN, BUYER, 1000) == 3
    assert realm_db.point(builds_of_buyer, CHAIN, BUYER, 1000, "pay_2") == 2


async def test_what_is_out_is_what_we_may_still_have_to_pay_for_on_a_chain(realm_db: Database) -> None:
    one = await put(realm_db, b"one")
    await put(realm_db, b"two", payment_id="pay_2", cost=7, created_at_ms=1001)
    await put(realm_db, b"theirs", tx_id=None, cost=0)
    await put(realm_db, b"elsewhere", chain="solana:other")

    assert realm_db.point(reserved_on_builds, CHAIN) == Spending(10_007, 2)
    assert [build.payment_id for build in realm_db.point(builds_out, CHAIN, 10)] == ["pay_1", "pay_2"]
    assert spent(realm_db) == (10_007, 2)

    await realm_db.write(end_builds, [(one.message_hash, "landed", 5_000)])
    assert realm_db.point(reserved_on_builds, CHAIN) == Spending(7, 1)


async def test_what_is_spent_on_a_payment_is_what_landed_and_what_may_land(realm_db: Database) -> None:
    landed, void = await put(realm_db, b"landed"), await put(realm_db, b"void")
    await put(realm_db, b"out")
    await put(realm_db, b"theirs", tx_id=None, cost=0)
    await put(realm_db, b"other", payment_id="pay_2", cost=7)
    await put(realm_db, b"elsewhere", chain="solana:other")
    await realm_db.write(end_builds, [(landed.message_hash, "landed", 5_000), (void.message_hash, "void", 0)])

    assert realm_db.point(spent_on_payment, CHAIN, landed.payment_id) == Spending(15_000, 2)
    assert realm_db.point(spent_on_payment, CHAIN, "pay_2") == Spending(7, 1)
    assert realm_db.point(spent_on_payment, CHAIN, "pay_3") == Spending(0, 0)


async def test_an_end_is_noted_once(realm_db: Database) -> None:
    one = await put(realm_db, b"one")
    await realm_db.write(end_builds, [(one.message_hash, "landed", 5_000)])
    await realm_db.write(end_builds, [(one.message_hash, "void", 0)])

    assert spent(realm_db) == (5_000, 1)


async def test_the_last_height_is_that_of_whatever_else_can_still_land_for_a_payment(
    realm_db: Database,
) -> None:
    one = await put(realm_db, b"one", valid_until_height=400)
    assert realm_db.point(last_height_of, CHAIN, "pay_1", one.message_hash) is None
    await put(realm_db, b"theirs", tx_id=None, valid_until_height=300)
    two = await put(realm_db, b"two", valid_until_height=350)
    await put(realm_db, b"other", payment_id="pay_2", valid_until_height=500)
    await put(realm_db, b"elsewhere", chain="solana:other", valid_until_height=500)

    assert realm_db.point(last_height_of, CHAIN, "pay_1", one.message_hash) == 350
    assert realm_db.point(last_height_of, CHAIN, "pay_1", b"") == 400
    await realm_db.write(end_builds, [(two.message_hash, "void", 0)])
    assert realm_db.point(last_height_of, CHAIN, "pay_1", one.message_hash) == 300


async def test_who_opens_an_account_at_our_cost_is_known_while_it_may_land(realm_db: Database) -> None:
    one = await put(realm_db, b"one", opens="account")
    await put(realm_db, b"two", opens="account")
    await put(realm_db, b"theirs", opens="account", tx_id=None, cost=0)
    assert realm_db.point(count_opening, CHAIN, "account") == 2
    assert realm_db.point(count_opening, CHAIN, "other") == 0
    assert realm_db.point(count_opening, "solana:other", "account") == 0

    await realm_db.write(end_builds, [(one.message_hash, "void", 0)])

    assert realm_db.point(count_opening, CHAIN, "account") == 1
