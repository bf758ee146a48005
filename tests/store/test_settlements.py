"""Settlements in the store: one for each canonical asset of a merchant."""

from __future__ import annotations

import msgspec
import pytest

from payd.core.errors import InvalidParams, SettlementAssetConflict
from payd.store.db import Database, Tx
from payd.store.merchants import Merchant, delete_merchant, insert_merchant
from payd.store.settlements import (
    SETTLEMENTS_MAX,
    Settlement,
    account_at,
    assets_taken,
    delete_settlement,
    find_settlement,
    has_settlement,
    insert_settlement,
    list_settlements,
    set_destination,
    settled_on,
)


def settlement(number: int, asset: str = "eip155:1/slip44:60", merchant: str = "mrch_1") -> Settlement:
    return Settlement(f"crypto_{number}", merchant, asset.upper(), asset, "eip155:1:0xa", 1000)


async def test_settlements_are_listed_as_written_in_their_order(realm_db: Database) -> None:
    wanted = [settlement(number, f"eip155:{number}/slip44:60") for number in (3, 1, 2)]
    for one in wanted:
        await realm_db.write(insert_settlement, one)
    assert realm_db.point(list_settlements, "mrch_1") == wanted
    assert realm_db.point(list_settlements, "mrch_2") == []


async def test_the_same_asset_of_the_same_merchant_is_a_conflict(realm_db: Database) -> None:
    await realm_db.write(insert_settlement, settlement(1))
    with pytest.raises(SettlementAssetConflict) as found:
        await realm_db.write(insert_settlement, settlement(2))
    assert "PUT" in found.value.message
    await realm_db.write(insert_settlement, settlement(3, merchant="mrch_2"))


async def test_a_conflict_takes_back_what_its_step_did_before(realm_db: Database) -> None:
    await realm_db.write(insert_settlement, settlement(1))

    def both(tx: Tx) -> None:
        insert_settlement(tx, settlement(2, "eip155:2/slip44:60"))
        insert_settlement(tx, settlement(3))

    with pytest.raises(SettlementAssetConflict):
        await realm_db.write(both)
    assert [one.id for one in realm_db.point(list_settlements, "mrch_1")] == ["crypto_1"]


async def test_a_merchant_has_so_many(realm_db: Database) -> None:
    def fill(tx: Tx) -> None:
        for number in range(SETTLEMENTS_MAX):
            insert_settlement(tx, settlement(number, f"eip155:{number}/slip44:60"))

    await realm_db.write(fill)
    with pytest.raises(InvalidParams):
        await realm_db.write(insert_settlement, settlement(999, "eip155:999/slip44:60"))
    await realm_db.write(insert_settlement, settlement(999, merchant="mrch_2"))


async def test_a_settlement_is_found_under_its_merchant_only(realm_db: Database) -> None:
    await realm_db.write(insert_settlement, settlement(1))
    assert realm_db.point(find_settlement, "mrch_1", "crypto_1") == settlement(1)
    assert realm_db.point(find_settlement, "mrch_2", "crypto_1") is None
    assert realm_db.point(find_settlement, "mrch_1", "crypto_2") is None


async def test_a_destination_is_changed_and_taken_away(realm_db: Database) -> None:
    await realm_db.write(insert_settlement, settlement(1))
    await realm_db.write(set_destination, "crypto_1", "eip155:1:0xb", 2000)
    found = realm_db.point(find_settlement, "mrch_1", "crypto_1")
    assert found is not None
    assert (found.destination, found.created_at_ms) == ("eip155:1:0xb", 1000)
    await realm_db.write(delete_settlement, "crypto_1")
    assert realm_db.point(find_settlement, "mrch_1", "crypto_1") is None


async def test_a_change_or_deletion_of_one_destination_leaves_all_others_where_they_lead(
    realm_db: Database,
) -> None:
    others = [settlement(2, "eip155:2/slip44:60"), settlement(3, merchant="mrch_2")]
    for one in (settlement(1), *others):
        await realm_db.write(insert_settlement, one)
    await realm_db.write(set_destination, "crypto_1", "eip155:1:0xb", 2000)
    await realm_db.write(delete_settlement, "crypto_1")
    assert [realm_db.point(find_settlement, one.merchant_id, one.id) for one in others] == others


async def test_whether_a_merchant_can_be_paid_at_all(realm_db: Database) -> None:
    assert not realm_db.point(has_settlement, "mrch_1")
    await realm_db.write(insert_settlement, settlement(1))
    assert realm_db.point(has_settlement, "mrch_1")
    assert not realm_db.point(has_settlement, "mrch_2")


async def test_destinations_are_listed_by_chain(realm_db: Database) -> None:
    for number, asset in enumerate(("eip155:1/slip44:60", "eip155:1/erc20:0xab", "eip155:10/slip44:60")):
        one = msgspec.structs.replace(settlement(number, asset), destination=f"eip155:1:0xA{number}")
        await realm_db.write(insert_settlement, one)
    assert realm_db.point(settled_on, "eip155:1") == {
        ("eip155:1/slip44:60", "eip155:1:0xA0"),
        ("eip155:1/erc20:0xab", "eip155:1:0xA1"),
    }
    assert realm_db.point(settled_on, "eip155:10") == {("eip155:10/slip44:60", "eip155:1:0xA2")}
    assert realm_db.point(settled_on, "eip155:100") == set()


async def test_a_destination_leads_to_the_account_that_has_it_and_first_to_one_that_is_still_there(
    realm_db: Database,
) -> None:
    for number in (1, 2):
        merchant = Merchant(
            f"mrch_{number}", f"acct_{number}", "Café", "shop@example.com", None, "active", 1000
        )
        await realm_db.write(insert_merchant, merchant)
        one = settlement(number, merchant=merchant.id)
        await realm_db.write(insert_settlement, msgspec.structs.replace(one, destination="eip155:1:0xAb"))
    assert realm_db.point(account_at, "eip155:1:0xab") == "acct_1"
    await realm_db.write(delete_merchant, "acct_1", "mrch_1", 2000)
    assert realm_db.point(account_at, "eip155:1:0xab") == "acct_2"
    await realm_db.write(delete_merchant, "acct_2", "mrch_2", 2000)
    assert realm_db.point(account_at, "eip155:1:0xab") == "acct_1"
    assert realm_db.point(account_at, "eip155:1:0xac") is None


async def test_where_capitals_count_a_destination_in_others_is_somebody_elses(realm_db: Database) -> None:
    for number, destination in ((1, "solana:x:ABc"), (2, "solana:x:abc")):
        await realm_db.write(insert_merchant, merchant_of(number))
        one = msgspec.structs.replace(
            settlement(number, "solana:x/token:M", f"mrch_{number}"), destination=destination
        )
        await realm_db.write(insert_settlement, one)
    assert realm_db.point(account_at, "solana:x:abc") == "acct_2"
    assert realm_db.point(account_at, "solana:x:ABc") == "acct_1"
    assert realm_db.point(account_at, "solana:x:aBC") is None


def merchant_of(number: int) -> Merchant:
    return Merchant(f"mrch_{number}", f"acct_{number}", "Shop", "a@example.com", None, "active", 1000)


async def test_what_is_settled_on_a_chain_is_each_asset_with_its_places(realm_db: Database) -> None:
    wanted = [
        settlement(1, "solana:x/token:M"),
        settlement(2, "solana:x/slip44:501"),
        settlement(3, "solana:x/token:M", "mrch_2"),
        settlement(4, "solana:xy/token:M"),
    ]
    for one in wanted:
        await realm_db.write(insert_settlement, one)
    place = wanted[0].destination
    assert realm_db.point(settled_on, "solana:x") == {
        ("solana:x/token:M", place),
        ("solana:x/slip44:501", place),
    }


async def test_an_account_hears_of_what_its_own_merchants_take(realm_db: Database) -> None:
    for number, asset in ((1, "eip155:10/slip44:60"), (2, "eip155:1/slip44:60")):
        await realm_db.write(insert_merchant, merchant_of(number))
        await realm_db.write(insert_settlement, settlement(number, asset, f"mrch_{number}"))
    await realm_db.write(insert_merchant, msgspec.structs.replace(merchant_of(1), id="mrch_3"))
    for number, asset in ((3, "eip155:10/slip44:60"), (4, "eip155:1/erc20:0xab")):
        await realm_db.write(insert_settlement, settlement(number, asset, "mrch_3"))
    assert realm_db.point(assets_taken, "acct_1") == ["eip155:1/erc20:0xab", "eip155:10/slip44:60"]
    assert realm_db.point(assets_taken, "acct_2") == ["eip155:1/slip44:60"]
