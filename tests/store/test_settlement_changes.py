"""Held changes in the store: one a settlement, applied once, dropped where there is nothing to change."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import msgspec
import pytest

from payd.core.endpoint import NOTIFY
from payd.core.errors import InvalidParams
from payd.core.settlement_change import SettlementChange
from payd.entropy import new_id
from payd.store.audit import list_audit
from payd.store.db import Database, Tx
from payd.store.deliveries import list_deliveries
from payd.store.endpoints import put_house_endpoint
from payd.store.merchants import Merchant, delete_merchant, insert_merchant
from payd.store.settlement_changes import (
    apply_change,
    changes_due,
    changes_of,
    changes_waiting,
    drop_change,
    find_change,
    has_vacancy,
    next_change_ms,
    next_change_of,
    occupy,
    put_change,
    vacate,
)
from payd.store.settlements import Settlement, delete_settlement, find_settlement, insert_settlement

OLD = "eip155:8453:0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
NEW = "eip155:8453:0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
ASSET = "eip155:8453/slip44:60"
HELD = Settlement("crypto_1", "mrch_1", ASSET, ASSET, OLD, 0)


def change(number: int = 1, **fields: Any) -> SettlementChange:
    one = SettlementChange(f"crypto_{number}", "mrch_1", "acct_1", NEW, "usr_1", 100, 1000)
    return msgspec.structs.replace(one, **fields)


@pytest.fixture
async def db(realm_db: Database) -> Database:
    def fill(tx: Tx) -> None:
        insert_merchant(tx, Merchant("mrch_1", "acct_1", "Shop", "a@b.c", None, "active", 0))
        insert_settlement(tx, HELD)
        put_change(tx, change())

    await realm_db.write(put_house_endpoint, NOTIFY, "https://ops.example/", b"sealed", 0)
    await realm_db.write(fill)
    return realm_db


async def apply(db: Database, now_ms: int) -> SettlementChange | None:
    return await db.write(apply_change, "crypto_1", new_id, now_ms)


def destination(db: Database) -> str | None:
    found = db.point(find_settlement, "mrch_1", "crypto_1")
    return None if found is None else found.destination


def acts(db: Database) -> list[tuple[str, str]]:
    return [(act.actor, act.act) for act in db.point(list_audit, "acct_1", None, 99)]


def notices(db: Database) -> list[str]:
    return [row.event_type for row in db.point(list_deliveries, NOTIFY, limit=9)]


async def test_all_that_wait_are_listed_the_next_one_first_also_of_a_database_without_such(
    db: Database,
) -> None:
    await db.write(put_change, change(2, due_at_ms=999))
    assert db.point(changes_waiting) == [change(2, due_at_ms=999), change()]
    with closing(sqlite3.connect(":memory:")) as old:
        assert changes_waiting(old) == []


async def test_a_change_is_applied_when_it_is_due_and_once(db: Database) -> None:
    assert await apply(db, 999) is None
    assert destination(db) == OLD
    assert await apply(db, 1000) == change()
    assert destination(db) == NEW
    assert await apply(db, 2000) is None
    assert (acts(db), notices(db)) == ([("server", "settlement.change")], ["destination.changed"])
    [act] = db.point(list_audit, "acct_1", None, 9)
    assert (act.details["from"], act.details["to"], act.details["askedBy"]) == (OLD, NEW, "usr_1")


async def test_what_was_taken_back_or_replaced_is_not_applied(db: Database) -> None:
    await db.write(put_change, change(due_at_ms=3000))
    assert await apply(db, 2999) is None
    await db.write(put_change, change(2))
    assert await db.write(drop_change, "crypto_1") == change(due_at_ms=3000)
    assert db.point(find_change, "crypto_2") == change(2)
    assert await apply(db, 3000) is None
    assert (destination(db), acts(db)) == (OLD, [])


async def test_of_a_merchant_or_settlement_that_is_gone_it_is_dropped_and_said(db: Database) -> None:
    await db.write(delete_merchant, "acct_1", "mrch_1", 500)
    assert await apply(db, 1000) is None
    assert destination(db) == OLD
    await db.write(delete_settlement, "crypto_1")
    await db.write(put_change, change())
    assert await apply(db, 1000) is None
    assert acts(db) == [("server", "settlement.change_drop")] * 2
    assert (db.point(next_change_ms), notices(db)) == (None, [])


async def test_what_waits_is_found_by_merchant_by_account_and_by_its_time(db: Database) -> None:
    await db.write(put_change, change(2, due_at_ms=700))
    await db.write(put_change, change(3, merchant_id="mrch_2", account_id="acct_2", due_at_ms=800))
    assert db.point(find_change, "crypto_1") == change()
    assert db.point(find_change, "crypto_9") is None
    assert sorted(db.point(changes_of, "mrch_1")) == ["crypto_1", "crypto_2"]
    assert db.point(next_change_of, "acct_1") == change(2, due_at_ms=700)
    assert db.point(next_change_of, "acct_9") is None
    assert db.point(next_change_ms) == 700
    assert db.point(changes_due, 699, 9) == []
    assert db.point(changes_due, 1000, 9) == ["crypto_2", "crypto_3", "crypto_1"]
    assert db.point(changes_due, 1000, 1) == ["crypto_2"]


async def test_after_a_deletion_another_address_has_to_wait_and_the_same_has_not(db: Database) -> None:
    await db.write(vacate, HELD, 1000)
    other = msgspec.structs.replace(HELD, asset="eip155:8453/erc20:0xab", asset_key="eip155:8453/erc20:0xab")
    await db.write(vacate, other, 2000)
    elsewhere = msgspec.structs.replace(HELD, destination=NEW)
    with pytest.raises(InvalidParams, match=r"1970-01-01T00:00:01\.000Z"):
        await db.write(occupy, elsewhere, 999)
    await db.write(occupy, msgspec.structs.replace(elsewhere, merchant_id="mrch_2"), 999)
    await db.write(occupy, elsewhere, 1000)
    with pytest.raises(InvalidParams):
        await db.write(occupy, msgspec.structs.replace(other, destination=NEW), 1999)
    assert [db.point(has_vacancy, merchant) for merchant in ("mrch_1", "mrch_2")] == [True, False]
    await db.write(vacate, msgspec.structs.replace(HELD, merchant_id="mrch_2"), 9000)
    await db.write(vacate, HELD, 5000)
    await db.write(occupy, msgspec.structs.replace(HELD, destination=OLD.lower()), 2000)
    await db.write(occupy, elsewhere, 2000)  # registered again, it is a settlement and no vacancy
    assert db.point(has_vacancy, "mrch_2")
