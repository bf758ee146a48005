"""A live change waits, whoever asks for it, and every way around the waiting is shut."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from payd.actors.maintenance import Maintenance
from payd.core.caip import AccountId, AssetId
from payd.core.endpoint import NOTIFY
from payd.entropy import new_id
from payd.store.audit import list_audit
from payd.store.deliveries import list_deliveries
from payd.store.endpoints import put_house_endpoint
from payd.store.settlement_changes import next_change_ms
from payd.web.commands import run_command
from tests.shop import BUYER, ETH_BASE, START_MS, USDC_BASE, WALLET, Got, Shop, open_shop
from tests.web.test_settlements import LIVE, Base

DELAY_S = 600
DAY_S = 86_400
OLD = f"eip155:8453:{WALLET}"
NEW = "eip155:8453:0x90F79bf6EB2c4f870365E785982E1f101E93b906"
THIRD = "eip155:8453:0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65"


@dataclass
class Till:
    """A live merchant with one destination, in a house that holds changes back."""

    shop: Shop
    key: str
    merchant: str
    id: str
    woken: list[str] = field(default_factory=list)

    @property
    def realm(self) -> Any:
        return self.shop.house.realms["live"]

    @property
    def path(self) -> str:
        return f"/v1/merchants/{self.merchant}/settlements/crypto/{self.id}"

    async def put(self, destination: str, **more: Any) -> Got:
        return await self.shop.call("PUT", self.path, {"destination": destination, **more}, key=self.key)

    async def cancel(self) -> Got:
        return await self.shop.call("DELETE", f"{self.path}/pending", key=self.key)

    async def delete(self) -> Got:
        return await self.shop.call("DELETE", self.path, key=self.key)

    async def register(self, asset: str, destination: str) -> Got:
        body = {"settlements": [{"asset": asset, "destination": destination}]}
        path = f"/v1/merchants/{self.merchant}/settlements/crypto"
        return await self.shop.call("POST", path, body, key=self.key, idempotency_key=new_id("k", 0))

    async def listed(self) -> list[dict[str, Any]]:
        found = await self.shop.call("GET", f"/v1/merchants/{self.merchant}/settlements", key=self.key)
        return list(found.body["crypto"])

    async def goes_to(self) -> str:
        return str((await self.listed())[0]["destination"])

    async def apply(self) -> int:
        return int(await self.realm.settlement_changes.run_once())

    def acts(self) -> list[str]:
        found = self.realm.db.point(list_audit, self.shop.account_id, None, 99)
        return [act.act.removeprefix("settlement.") for act in reversed(found) if act.subject == self.id]

    def told(self) -> list[str]:
        rows = self.realm.db.point(list_deliveries, NOTIFY, limit=99)
        return [row.event_type.removeprefix("destination.") for row in reversed(rows)]


@asynccontextmanager
async def open_till(folder: Path, delay_s: int = DELAY_S) -> AsyncIterator[Till]:
    await trio.Path(folder).mkdir(exist_ok=True)
    await trio.Path(folder / "payd.toml").write_text(LIVE)
    async with open_shop(folder, PAYD_SETTLEMENTS_CHANGE_DELAY_S=str(delay_s)) as shop:
        realm = shop.house.realms["live"]
        realm.payments.chains = (Base(realm.assets),)
        await realm.db.write(put_house_endpoint, NOTIFY, "https://ops.example/", b"sealed", 0)
        key = shop.keys["live.one"]
        merchant = await shop.new_merchant(key=key, pays=False)
        settlement = await shop.register(merchant, USDC_BASE, OLD, key=key)
        till = Till(shop, key, merchant, settlement)
        # What is owed to the operator is looked at, and not sent.
        realm.deliveries.wake = till.woken.append  # type: ignore[method-assign, assignment]
        yield till


@pytest.fixture
async def till(tmp_path: Path) -> AsyncIterator[Till]:
    async with open_till(tmp_path / "data") as opened:
        yield opened


async def test_a_change_is_held_back_shown_applied_and_told_each_time(till: Till) -> None:
    till.woken.clear()
    asked = await till.put(NEW)
    assert (asked.status, asked.body["destination"], till.woken) == (200, OLD, [NOTIFY])
    pending = asked.body["pending"]
    assert pending.keys() == {"destination", "requestedAt", "appliesAt"}
    assert pending["destination"] == NEW
    assert await till.listed() == [asked.body]
    merchant = await till.shop.call("GET", f"/v1/merchants/{till.merchant}", key=till.key)
    assert merchant.body["settlements"]["crypto"] == [asked.body]
    await trio.sleep(DELAY_S - 1)
    assert (await till.apply(), await till.goes_to()) == (0, OLD)
    await trio.sleep(1.5)  # past the moment at which everybody looks again
    till.woken.clear()
    assert (await till.apply(), await till.goes_to(), till.woken) == (1, NEW, [NOTIFY])
    assert "pending" not in (await till.listed())[0]
    assert till.acts() == ["create", "change_request", "change"]
    assert till.told() == ["change_requested", "changed"]


async def test_what_is_offered_meanwhile_goes_where_it_went(till: Till) -> None:
    body = {"referenceId": "ORDER-1", "amount": {"unit": "iso4217/USD", "value": "2500"}}

    async def recipients() -> str:
        made = await till.shop.call("POST", "/v1/payments", body, key=till.key, merchant_id=till.merchant)
        path = f"/v1/gateway/payment/{made.body['paymentId']}/options"
        return (await till.shop.call("POST", path, [BUYER], key=till.key)).raw.decode().lower()

    await till.put(NEW)

    before = await recipients()
    assert OLD.rpartition("x")[2].lower() in before
    assert NEW.rpartition("x")[2].lower() not in before
    await trio.sleep(DELAY_S)
    await till.apply()
    assert NEW.rpartition("x")[2].lower() in await recipients()


async def test_a_change_is_taken_back_once_by_two_words_for_it(till: Till) -> None:
    for take_back in (till.cancel, lambda: till.put(OLD), lambda: till.put(OLD.lower())):
        await till.put(NEW)
        found = await take_back()
        assert (found.status, "pending" in found.body) == (200, False)
        assert found.body["destination"].lower() == OLD.lower()
    await trio.sleep(2 * DELAY_S)
    assert await till.apply() == 0
    assert (await till.goes_to()).lower() == OLD.lower()
    late = await till.cancel()
    assert (late.status, late.code) == (404, "not_found")
    assert "the money goes to eip155:8453:" in late.body["message"]
    assert till.told()[:4] == ["change_requested", "change_cancelled"] * 2


async def test_a_second_change_takes_the_place_of_the_first_and_waits_anew(till: Till) -> None:
    first = (await till.put(NEW)).body["pending"]
    await trio.sleep(DELAY_S - 1)
    again = (await till.put(NEW)).body["pending"]
    assert again == first, "who repeats a request does not put it off"
    second = (await till.put(THIRD)).body["pending"]
    assert second["appliesAt"] > first["appliesAt"]
    await trio.sleep(1)
    assert await till.apply() == 0
    await trio.sleep(DELAY_S)
    assert (await till.apply(), await till.goes_to()) == (1, THIRD)
    assert till.acts() == ["create", "change_request", "change_cancel", "change_request", "change"]


async def test_of_two_at_once_that_saw_the_same_one_is_refused(till: Till) -> None:
    found: list[int] = []

    async def ask(destination: str) -> None:
        found.append((await till.put(destination, expected=OLD)).status)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, NEW)
        nursery.start_soon(ask, THIRD)
    assert sorted(found) == [200, 400]
    assert till.acts() == ["create", "change_request"]
    pending = (await till.listed())[0]["pending"]["destination"]
    assert (await till.put(OLD, expected=pending)).status == 200


async def test_taken_back_and_applied_at_once_only_one_of_both_happens(till: Till) -> None:
    await till.put(NEW)
    await trio.sleep(DELAY_S)
    cancelled: list[Got] = []

    async def cancel() -> None:
        cancelled.append(await till.cancel())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(till.apply)
        nursery.start_soon(cancel)
    won = "change_cancel" if cancelled[0].status == 200 else "change"
    assert till.acts() == ["create", "change_request", won]
    assert await till.goes_to() == (OLD if cancelled[0].status == 200 else NEW)


async def test_to_delete_and_register_is_no_way_around(till: Till) -> None:
    await till.put(THIRD)
    assert (await till.delete()).body == {"id": till.id, "deleted": True}
    assert await till.listed() == []
    for spelled in (USDC_BASE, USDC_BASE.lower()):
        refused = await till.register(spelled, NEW)
        assert (refused.status, refused.code) == (400, "invalid_params")
        assert "change_delay_s" in refused.body["message"]
    assert (await till.register(USDC_BASE, OLD.lower())).status == 201
    assert "pending" not in (await till.listed())[0]
    assert till.told() == ["change_requested", "change_cancelled", "deleted", "added"]
    till.id = (await till.listed())[0]["id"]
    assert (await till.put(NEW)).body["pending"]["destination"] == NEW
    await till.delete()
    await trio.sleep(DELAY_S)
    assert (await till.apply(), (await till.register(USDC_BASE, NEW)).status) == (0, 201)


async def test_a_first_destination_works_at_once_and_another_asset_is_told(till: Till) -> None:
    assert till.told() == []
    made = await till.register(ETH_BASE, NEW)
    assert (made.status, "pending" in made.body["settlements"][0]) == (201, False)
    assert [one["destination"] for one in await till.listed()] == [OLD, NEW]
    assert till.told() == ["added"]


async def test_who_registers_another_asset_and_leaves_is_told_of_at_once(till: Till) -> None:
    db = till.realm.db
    await trio.sleep(0.001)
    till.woken.clear()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(till.register, ETH_BASE, NEW)
        while not (db._staged or db._batch):
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    await trio.testing.wait_all_tasks_blocked()
    assert (till.told(), till.woken) == (["added"], [NOTIFY])


@pytest.mark.parametrize("delay_s", [0, DELAY_S])
async def test_who_deletes_everything_first_is_told_of_all_the_same(tmp_path: Path, delay_s: int) -> None:
    async with open_till(tmp_path / "data", delay_s=delay_s) as till:
        await till.delete()
        till.woken.clear()
        assert (await till.register(ETH_BASE, NEW)).status == 201
        assert (till.told(), till.woken) == (["deleted", "added"], [NOTIFY])


@pytest.mark.parametrize("delay_s", [0, DELAY_S])
async def test_who_deletes_everything_and_waits_until_its_past_is_forgotten_is_told_of_too(
    tmp_path: Path, delay_s: int
) -> None:
    async with open_till(tmp_path / "data", delay_s=delay_s) as till:
        await till.delete()
        await trio.sleep(DAY_S)
        await Maintenance(till.realm.db, till.realm.clock, keep_days=1, collected_days=90).run_once()
        assert (await till.register(USDC_BASE, NEW)).status == 201
        assert till.told() == ["deleted", "added"]


async def test_of_a_merchant_that_is_deleted_meanwhile_nothing_changes(till: Till) -> None:
    await till.put(NEW)
    assert (await till.shop.call("DELETE", f"/v1/merchants/{till.merchant}", key=till.key)).status == 200
    await trio.sleep(DELAY_S)
    assert await till.apply() == 0
    assert till.acts() == ["create", "change_request", "change_drop"]
    for found in (await till.cancel(), await till.put(NEW), await till.delete()):
        assert (found.status, found.code) == (404, "not_found")


async def test_a_merchant_that_is_deleted_while_the_chain_is_asked_moves_no_money(
    till: Till, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def problem(_chain: Base, _asset: AssetId, _destination: AccountId) -> None:
        await till.shop.call("DELETE", f"/v1/merchants/{till.merchant}", key=till.key)

    monkeypatch.setattr(Base, "destination_problem", problem)
    found = await till.put(NEW)
    assert (found.status, found.code) == (404, "not_found")
    assert (till.realm.db.point(next_change_ms), till.acts()) == (None, ["create"])


async def test_another_account_merchant_or_scope_takes_nothing_back(till: Till) -> None:
    await till.put(NEW)
    account = till.shop.account_id
    other = await till.shop.new_merchant(key=till.key, pays=False)
    strangers = {
        till.shop.keys["live.two"]: 404,
        await till.shop.new_key(realm="live", account_id=account, merchants=[other]): 403,
        await till.shop.new_key(realm="live", account_id=account, scopes=["merchants:write"]): 403,
        till.shop.key: 404,
    }
    for key, status in strangers.items():
        assert (await till.shop.call("DELETE", f"{till.path}/pending", key=key)).status == status
    path = f"/v1/merchants/{other}/settlements/crypto/{till.id}/pending"
    assert (await till.shop.call("DELETE", path, key=till.key)).status == 404
    assert (await till.listed())[0]["pending"]["destination"] == NEW


async def test_what_waits_keeps_its_time_when_the_configuration_changes(tmp_path: Path) -> None:
    async with open_till(tmp_path / "data") as till:
        await till.put(NEW)
        before = await till.listed()
    for delay_s in (0, 10 * DELAY_S):
        async with open_shop(tmp_path / "data", PAYD_SETTLEMENTS_CHANGE_DELAY_S=str(delay_s)) as shop:
            again = Till(shop, await key_of(shop, till), till.merchant, till.id)
            assert (await again.apply(), await again.listed()) == (0, before)
    start_ms = START_MS + DELAY_S * 1000
    async with open_shop(tmp_path / "data", start_ms=start_ms, PAYD_SETTLEMENTS_CHANGE_DELAY_S="0") as shop:
        again = Till(shop, await key_of(shop, till), till.merchant, till.id)
        assert (await again.apply(), await again.goes_to()) == (1, NEW)
        assert (await again.put(OLD)).body["destination"] == OLD


async def key_of(shop: Shop, till: Till) -> str:
    """Another key of the account that had the till before a restart."""
    return await shop.new_key(realm="live", account_id=till.shop.account_id)


async def test_asked_for_again_under_a_shorter_delay_it_waits_that_long(tmp_path: Path) -> None:
    async with open_till(tmp_path / "data") as till:
        await till.put(NEW)
        till.realm.settlement_changes.delay_ms = DELAY_S * 500
        await till.put(NEW)
        assert till.realm.db.point(next_change_ms) == START_MS + DELAY_S * 500
        till.realm.settlement_changes.delay_ms = 0
        assert (await till.put(NEW)).body["destination"] == NEW
        assert till.realm.db.point(next_change_ms) is None
        assert till.told() == ["change_requested", "change_requested", "changed"]


async def test_the_same_address_in_other_letters_takes_nothing_back(till: Till) -> None:
    await till.put(NEW)
    await till.put(NEW.lower())
    assert (await till.listed())[0]["pending"]["destination"] == NEW.lower()
    assert till.told() == ["change_requested", "change_requested"]


async def test_without_a_delay_and_in_test_mode_nothing_waits(tmp_path: Path) -> None:
    async with open_till(tmp_path / "free", delay_s=0) as till:
        assert (await till.put(NEW)).body["destination"] == NEW
        await till.delete()
        assert (await till.register(USDC_BASE, THIRD)).status == 201
        assert till.told() == ["changed", "deleted", "added"]
    async with open_till(tmp_path / "data") as till:
        shop = till.shop
        await shop.realm.db.write(put_house_endpoint, NOTIFY, "https://ops.example/", b"sealed", 0)
        merchant = await shop.new_merchant()
        path = f"/v1/merchants/{merchant}/settlements"
        [own] = (await shop.call("GET", path)).body["crypto"]
        moved = await shop.call("PUT", f"{path}/crypto/{own['id']}", {"destination": NEW})
        assert moved.body == own | {"destination": NEW}
        assert shop.realm.db.point(list_deliveries, NOTIFY, limit=9) == []


async def test_who_asks_for_what_is_there_changes_and_tells_nothing(till: Till) -> None:
    assert (await till.put(OLD)).status == 200
    assert (till.acts(), till.told()) == (["create"], [])


async def test_a_client_that_leaves_takes_no_waking_along(till: Till) -> None:
    till.realm.settlement_changes.delay_ms = 5000  # less than until the chore's own next look
    async with trio.open_nursery() as chores:
        chores.start_soon(till.realm.settlement_changes.run)
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(till.put, NEW)
            while not (till.realm.db._staged or till.realm.db._batch):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        await trio.sleep(6)
        assert await till.goes_to() == NEW
        chores.cancel_scope.cancel()


async def test_an_operator_waits_as_well(till: Till) -> None:
    args = {"mode": "live", "account": till.shop.account_id, "merchant": till.merchant, "id": till.id}

    async def do(command: str, **more: str) -> Any:
        return await run_command(till.shop.house, command, msgspec.json.encode(args | more))

    asked = await do("destination.change", destination=NEW)
    assert (asked["destination"], asked["pending"]["destination"]) == (OLD, NEW)
    [listed] = await do_list(till)
    assert listed == asked
    assert "pending" not in await do("destination.cancel")
    assert await do("destination.delete") == {"id": till.id, "deleted": True}


async def do_list(till: Till) -> Any:
    args = {"mode": "live", "account": till.shop.account_id, "merchant": till.merchant}
    return await run_command(till.shop.house, "destination.list", msgspec.json.encode(args))
