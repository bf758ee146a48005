"""What operators do with accounts: the doors know of it at once, whoever is last or leaves."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec
import pytest
import trio
import trio.testing

from payd.core.errors import OutcomeUnknown, UnknownApiVersion
from payd.store.accounts import find_account
from payd.store.batch import Failure, Step, run_batch
from payd.web.account_commands import ACCOUNT_COMMANDS, move, rename
from payd.web.commands import run_command
from tests.shop import Shop


async def test_the_commands_do_what_the_pages_do(shop: Shop) -> None:
    async def do(command: str, **args: str) -> dict[str, str]:
        made = await run_command(
            shop.house, command, msgspec.json.encode({"account": shop.account_id} | args)
        )
        found: dict[str, str] = msgspec.to_builtins(made)
        return found

    assert {"account.rename", "account.version"} < ACCOUNT_COMMANDS.keys()
    assert (await do("account.rename", name="Shop"))["name"] == "Shop"
    shop.house.versions = (*shop.house.versions, "2027-01-01")
    assert (await do("account.version", version="2027-01-01"))["apiVersion"] == "2027-01-01"
    with pytest.raises(UnknownApiVersion):
        await do("account.version", version="2028-01-01")


async def test_of_two_acts_at_once_the_doors_know_both(shop: Shop) -> None:
    house, account_id = shop.house, shop.account_id
    house.versions = (*house.versions, "2027-01-01")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rename, house, account_id, "Shop", "usr_1")
        nursery.start_soon(move, house, account_id, "2027-01-01", "usr_1")
    known = house.accounts[account_id]
    assert (known.name, known.api_version) == ("Shop", "2027-01-01")
    assert known == house.office.point(find_account, account_id)


async def test_who_leaves_leaves_the_doors_knowing_it(shop: Shop) -> None:
    house = shop.house
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rename, house, shop.account_id, "Shop", "usr_1")
        while not (house.office._staged or house.office._batch):
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    await trio.testing.wait_all_tasks_blocked()
    assert house.accounts[shop.account_id].name == "Shop"


async def test_after_a_commit_that_nobody_knows_of_the_doors_know_what_is_stored(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stores_and_breaks(tx: sqlite3.Connection, batch: Sequence[Step]) -> Failure | None:
        return run_batch(tx, batch) or Failure("unknown", "the disk answers with errors")

    house, before = shop.house, shop.house.accounts[shop.account_id]
    monkeypatch.setattr("payd.store.writer.run_batch", stores_and_breaks)
    with pytest.raises(OutcomeUnknown):
        await rename(house, shop.account_id, "Shop", "usr_1")
    monkeypatch.undo()

    assert before.name != "Shop"
    assert house.accounts[shop.account_id] == house.office.point(find_account, shop.account_id)
    assert house.accounts[shop.account_id].name == "Shop"
