"""Watches: what a transfer carries leads to one payment, and each is stored once."""

from __future__ import annotations

from payd.store.db import Database
from payd.store.watches import Watch, chains_watched, find_watch, insert_watches

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


async def test_a_binding_found_in_another_asset_still_names_its_payment(realm_db: Database) -> None:
    await realm_db.write(insert_watches, [watch(), watch(asset=ETH)])

    assert realm_db.point(find_watch, TAG, ETH) == watch(asset=ETH)
    found = realm_db.point(find_watch, TAG, "eip155:1/erc20:0xother")
    assert found is not None
    assert found.payment_id == "pay_1"


async def test_what_is_watched_already_stays_as_it_is(realm_db: Database) -> None:
    await realm_db.write(insert_watches, [watch()])
    await realm_db.write(insert_watches, [watch(until_ms=99)])

    assert realm_db.point(find_watch, TAG, USDC) == watch()


async def test_a_payment_is_looked_for_on_each_chain_it_was_offered_on(realm_db: Database) -> None:
    await realm_db.write(insert_watches, [watch(), watch(b"n" * 32), watch(asset=ETH)])

    assert sorted(realm_db.point(chains_watched, "pay_1")) == ["eip155:1", "eip155:8453"]
    assert realm_db.point(chains_watched, "pay_2") == []
