"""Held changes are applied at their time by the realm's clock, by whichever process runs then."""

from __future__ import annotations

from pathlib import Path

import trio
import trio.testing

from payd.core.settlement_change import SettlementChange
from payd.store.db import Tx
from payd.store.settlement_changes import next_change_ms, put_change
from payd.store.settlements import list_settlements
from tests.shop import START_MS, Shop, open_shop
from tests.store.test_settlement_changes import NEW


async def hold(shop: Shop, after_ms: int, destination: str = NEW) -> None:
    [one] = shop.realm.db.point(list_settlements, shop.merchant_id)
    now_ms = shop.realm.clock.now_ms()
    change = SettlementChange(
        one.id, one.merchant_id, shop.account_id, destination, "usr_1", now_ms, now_ms + after_ms
    )
    await shop.realm.db.write(put_change, change)


def goes_to(shop: Shop) -> str:
    [one] = shop.realm.db.point(list_settlements, shop.merchant_id)
    return one.destination


async def test_it_is_applied_at_its_time_and_not_before(shop: Shop) -> None:
    before, changes = goes_to(shop), shop.realm.settlement_changes
    async with trio.open_nursery() as nursery:
        nursery.start_soon(changes.run)
        await hold(shop, 90_000)
        changes.wake()
        await trio.sleep(89.9)
        assert goes_to(shop) == before
        await trio.sleep(0.2)
        assert goes_to(shop) == NEW
        nursery.cancel_scope.cancel()


async def test_one_that_nobody_woke_it_for_is_found_all_the_same(shop: Shop) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shop.realm.settlement_changes.run)
        await trio.testing.wait_all_tasks_blocked()
        await hold(shop, 1000)
        await trio.sleep(31)
        assert goes_to(shop) == NEW
        nursery.cancel_scope.cancel()


async def test_what_fell_due_while_nothing_ran_is_applied_at_the_start_and_once(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data") as shop:
        await hold(shop, 1000)
        merchant_id, account_id = shop.merchant_id, shop.account_id
    for expected in (1, 0):
        async with open_shop(tmp_path / "data", start_ms=START_MS + 60_000) as again:
            again.merchant_id = merchant_id
            applied = await again.realm.settlement_changes.run_once()
            assert goes_to(again) == NEW
            assert again.realm.db.point(next_change_ms) is None
            assert again.realm.db.point(count_changes, account_id) == 1
            assert applied == expected


def count_changes(tx: Tx, account_id: str) -> int:
    (count,) = tx.execute(
        "SELECT count(*) FROM audit WHERE act = 'settlement.change' AND account_id = ?", (account_id,)
    ).fetchone()
    return int(count)


async def test_many_that_are_due_at_once_are_all_applied_and_a_dropped_one_stops_none(shop: Shop) -> None:
    gone = SettlementChange("crypto_gone", "mrch_gone", shop.account_id, NEW, "usr_1", 0, 1)
    await shop.realm.db.write(put_change, gone)
    await hold(shop, 0)
    assert await shop.realm.settlement_changes.run_once() == 1
    assert goes_to(shop) == NEW
    assert shop.realm.db.point(next_change_ms) is None
