"""Merchants in the store: found, listed by key, changed, and marked deleted."""

from __future__ import annotations

import msgspec

from payd.store.db import Database
from payd.store.merchants import (
    Merchant,
    delete_merchant,
    find_merchant,
    insert_merchant,
    list_merchants,
    named_merchants,
    standing,
    update_merchant,
)
from payd.store.settlements import Settlement, insert_settlement


def merchant(number: int, *, account: str = "acct_1", name: str = "Shop", at_ms: int = 1000) -> Merchant:
    return Merchant(f"mrch_{number}", account, name, "a@example.com", None, "active", at_ms)


async def test_a_merchant_is_found_as_it_was_stored(realm_db: Database) -> None:
    stored = msgspec.structs.replace(merchant(1), icon_url="https://a.example/i", name="Café 💣")
    await realm_db.write(insert_merchant, stored)
    assert realm_db.point(find_merchant, "mrch_1") == stored
    assert realm_db.point(find_merchant, "mrch_2") is None


async def test_a_merchant_stands_as_its_status_and_its_destinations_say(realm_db: Database) -> None:
    await realm_db.write(insert_merchant, merchant(1))
    assert realm_db.point(standing, "mrch_1") == ("acct_1", "active", False)
    await realm_db.write(insert_settlement, Settlement("crypto_1", "mrch_1", "A", "a", "eip155:1:0xa", 1000))
    assert realm_db.point(standing, "mrch_1") == ("acct_1", "active", True)
    await realm_db.write(update_merchant, msgspec.structs.replace(merchant(1), status="suspended"))
    assert realm_db.point(standing, "mrch_1") == ("acct_1", "suspended", True)
    await realm_db.write(delete_merchant, "acct_1", "mrch_1", 5000)
    assert realm_db.point(standing, "mrch_1") is None
    assert realm_db.point(standing, "mrch_2") is None


async def test_an_update_changes_the_fields_and_not_the_owner(realm_db: Database) -> None:
    await realm_db.write(insert_merchant, merchant(1))
    changed = Merchant("mrch_1", "acct_other", "New", "b@example.com", "https://i", "suspended", 7)
    await realm_db.write(update_merchant, changed)
    expected = msgspec.structs.replace(changed, account_id="acct_1", created_at_ms=1000)
    assert realm_db.point(find_merchant, "mrch_1") == expected


async def test_a_deleted_merchant_keeps_its_name_for_its_payments(realm_db: Database) -> None:
    await realm_db.write(insert_merchant, merchant(1))
    assert await realm_db.write(delete_merchant, "acct_1", "mrch_1", 5000)
    assert await realm_db.write(delete_merchant, "acct_1", "mrch_1", 6000)
    assert realm_db.point(find_merchant, "mrch_1") is None
    assert realm_db.point(named_merchants, ["mrch_1", "mrch_2"]) == {"mrch_1": ("Shop", None)}
    (at_ms,) = await realm_db.read(lambda tx: tx.execute("SELECT deleted_at_ms FROM merchants").fetchone())
    assert at_ms == 5000


async def test_only_the_owner_deletes(realm_db: Database) -> None:
    await realm_db.write(insert_merchant, merchant(1))
    assert not await realm_db.write(delete_merchant, "acct_2", "mrch_1", 5000)
    assert not await realm_db.write(delete_merchant, "acct_1", "mrch_2", 5000)
    assert realm_db.point(find_merchant, "mrch_1") is not None


async def test_pages_are_in_order_of_age_then_id_and_count_the_whole(realm_db: Database) -> None:
    for number, at_ms in ((3, 1000), (1, 1000), (2, 2000), (4, 500)):
        await realm_db.write(insert_merchant, merchant(number, at_ms=at_ms))
    await realm_db.write(insert_merchant, merchant(9, account="acct_2"))
    await realm_db.write(insert_merchant, merchant(8))
    await realm_db.write(delete_merchant, "acct_1", "mrch_8", 5000)
    seen: list[str] = []
    after: tuple[int, str] | None = None
    while True:
        found, total = await realm_db.read(list_merchants, "acct_1", after=after, limit=2)
        assert (total, len(found)) in ((4, 2), (4, 0))
        if not found:
            break
        seen += [one.id for one in found]
        after = (found[-1].created_at_ms, found[-1].id)
    assert seen == ["mrch_4", "mrch_1", "mrch_3", "mrch_2"]


async def test_filters_narrow_and_searches_know_every_alphabet(realm_db: Database) -> None:
    for number, name in ((1, "Straße"), (2, "ΜΑΓΑΖΊ"), (3, "100%_sure")):
        await realm_db.write(insert_merchant, merchant(number, name=name))
    for search, expected in (
        ("STRASSE", ["mrch_1"]),
        ("μαγαζί", ["mrch_2"]),
        ("%_S", ["mrch_3"]),
        ("%", ["mrch_3"]),
        ("MRCH_2", ["mrch_2"]),
        ("'", []),
    ):
        found, total = await realm_db.read(list_merchants, "acct_1", search=search, limit=9)
        assert ([one.id for one in found], total) == (expected, len(expected)), search
    found, total = await realm_db.read(list_merchants, "acct_1", only=["mrch_2", "mrch_8"], limit=9)
    assert ([one.id for one in found], total) == (["mrch_2"], 1)
    assert await realm_db.read(list_merchants, "acct_1", status="inactive", limit=9) == ([], 0)
