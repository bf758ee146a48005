"""Where the money goes is added and changed by an owner alone, with both addresses seen and the end typed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from payd.core.event import iso_ms
from payd.core.roles import Role
from payd.store.db import Tx
from payd.store.settlements import list_settlements
from payd.web.dashboard.proof import FRESH_MS
from tests.shop import SOLANA_WALLET, USDC_BASE, USDC_SOLANA, WALLET, Shop
from tests.visitor import Page, Visitor, sign_in
from tests.web.dashboard.test_dispatch import age
from tests.web.test_settlement_changes import DELAY_S, NEW, Till, open_till

OTHER = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
THIRD = "0x90F79bf6EB2c4f870365E785982E1f101E93b906"
OTHER_SOLANA = "9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM"


def place(shop: Shop) -> tuple[str, str]:
    """The page of the one destination, and where the money goes."""
    [row] = shop.realm.db.point(list_settlements, shop.merchant_id)
    return f"/d/test/merchants/{shop.merchant_id}/destinations/{row.id}", row.destination


def add(shop: Shop) -> str:
    return f"/d/test/merchants/{shop.merchant_id}/add"


def audited(shop: Shop, act: str) -> list[str]:
    def read(tx: Tx) -> list[str]:
        return [row[0] for row in tx.execute("SELECT actor FROM audit WHERE act = ?", (act,))]

    return shop.realm.db.point(read)


async def change(visitor: Visitor, shop: Shop, to: str, end: str = "", was: str = "") -> Page:
    path, now = place(shop)
    return await visitor.post(path, {"address": to, "code_end": end or to[-6:], "was": was or now})


async def test_an_asset_is_found_in_the_table_and_added_with_a_bare_address(shop: Shop) -> None:
    visitor = await sign_in(shop)
    page = await visitor.get(f"{add(shop)}?q=solana")
    assert USDC_SOLANA in page.html
    assert "eip155" not in page.html.split("</select>")[0]
    made = await visitor.post(add(shop), {"asset": USDC_SOLANA, "address": SOLANA_WALLET})
    assert made.to == f"/d/test/merchants/{shop.merchant_id}"
    rows = shop.realm.db.point(list_settlements, shop.merchant_id)
    assert rows[-1].destination == f"{USDC_SOLANA.partition('/')[0]}:{SOLANA_WALLET}"
    assert audited(shop, "settlement.create")[-1] == visitor.user_id


async def test_any_other_asset_works_in_test_mode(shop: Shop) -> None:
    visitor = await sign_in(shop)
    asset = "eip155:8453/erc20:0x1111111111111111111111111111111111111111"
    await visitor.post(add(shop), {"asset": USDC_BASE, "other_asset": asset, "address": WALLET})
    assert shop.realm.db.point(list_settlements, shop.merchant_id)[-1].asset == asset


async def test_a_wrong_address_is_refused_in_words_and_stands_there_again(shop: Shop) -> None:
    visitor = await sign_in(shop)
    wrong = WALLET[:-1] + "9"
    for address, words in ((wrong, "EIP-55 checksum"), ("", "Type the address"), ("0x12", "40 hex digits")):
        page = await visitor.post(add(shop), {"asset": USDC_SOLANA.replace("solana", "x"), "address": ""})
        page = await visitor.post(add(shop), {"asset": USDC_BASE, "address": address})
        assert page.status == 400
        assert words in page.text
        assert f'value="{address}"' in page.html
    assert len(shop.realm.db.point(list_settlements, shop.merchant_id)) == 1


async def test_the_old_address_stands_beside_the_new_one_with_the_ends_marked(shop: Shop) -> None:
    visitor = await sign_in(shop)
    path, now = place(shop)
    page = await visitor.post(f"{path}/compare", {"address": OTHER})
    assert page.status == 200
    for address in (WALLET, OTHER):
        assert f"<mark>{address[:8]}</mark>{address[8:-6]}<mark>{address[-6:]}</mark>" in page.html
    assert "Its checksum is right." in page.text
    bare = await visitor.post(f"{path}/compare", {"address": OTHER.lower()})
    assert f"a typo would not be noticed. With them: {OTHER}" in bare.text
    assert place(shop)[1] == now


async def test_a_change_wants_the_end_of_the_new_address(shop: Shop) -> None:
    visitor = await sign_in(shop)
    before = place(shop)[1]
    refused = await change(visitor, shop, OTHER, end=WALLET[-6:])
    assert refused.status == 400
    assert "Nothing was changed." in refused.text
    assert place(shop)[1] == before
    done = await change(visitor, shop, OTHER, end=OTHER[-6:].lower())
    assert done.status == 303
    assert place(shop)[1] == f"eip155:8453:{OTHER}"
    assert audited(shop, "settlement.change") == [visitor.user_id]


async def test_the_end_of_a_solana_address_is_typed_with_its_capitals(shop: Shop) -> None:
    visitor = await sign_in(shop)
    await visitor.post(add(shop), {"asset": USDC_SOLANA, "address": SOLANA_WALLET})
    row = shop.realm.db.point(list_settlements, shop.merchant_id)[-1]
    path = f"/d/test/merchants/{shop.merchant_id}/destinations/{row.id}"
    form = {"address": OTHER_SOLANA, "was": row.destination}
    for end, status in ((OTHER_SOLANA[-6:].swapcase(), 400), (OTHER_SOLANA[-6:], 303)):
        assert (await visitor.post(path, form | {"code_end": end})).status == status


async def test_a_change_that_somebody_else_was_faster_than_is_refused(shop: Shop) -> None:
    visitor, colleague = await sign_in(shop), await sign_in(shop)
    old = place(shop)[1]
    found: dict[str, Page] = {}

    async def send(who: Visitor, to: str) -> None:
        found[to] = await change(who, shop, to, was=old)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send, visitor, OTHER)
        nursery.start_soon(send, colleague, THIRD)
    assert sorted(page.status for page in found.values()) == [303, 400]
    [won] = [to for to, page in found.items() if page.status == 303]
    [lost] = [page for page in found.values() if page.status == 400]
    assert place(shop)[1] == f"eip155:8453:{won}"
    assert "was changed meanwhile" in lost.text
    assert len(audited(shop, "settlement.change")) == 1


async def test_the_same_address_is_no_change(shop: Shop) -> None:
    visitor = await sign_in(shop)
    page = await visitor.post(f"{place(shop)[0]}/compare", {"address": WALLET})
    assert page.status == 400
    assert "already" in page.text


async def test_nobody_but_an_owner_moves_the_money(shop: Shop) -> None:
    before = place(shop)[1]
    for role in (Role.VIEWER, Role.SUPPORT, Role.DEVELOPER):
        visitor = await sign_in(shop, role)
        assert (await change(visitor, shop, OTHER)).status == 403
        assert (await visitor.post(add(shop), {"asset": USDC_SOLANA, "address": SOLANA_WALLET})).status == 403
    assert place(shop)[1] == before


async def test_an_asset_is_removed(shop: Shop) -> None:
    visitor = await sign_in(shop)
    await visitor.post(f"{place(shop)[0]}/delete")
    assert shop.realm.db.point(list_settlements, shop.merchant_id) == []
    assert audited(shop, "settlement.delete") == [visitor.user_id]


async def test_a_destination_of_another_merchant_is_not_there(shop: Shop) -> None:
    visitor = await sign_in(shop)
    other = await shop.new_merchant()
    found = place(shop)[0].replace(shop.merchant_id, other)
    assert (await visitor.get(found)).status == 404


@pytest.fixture
async def till(tmp_path: Path) -> AsyncIterator[Till]:
    async with open_till(tmp_path / "data") as opened:
        yield opened


def at(till: Till, below: str = "") -> str:
    return f"/d/live/merchants/{till.merchant}{below and f'/destinations/{till.id}{below}'}"


async def ask(visitor: Visitor, till: Till, to: str, was: str = WALLET) -> Page:
    form = {"address": to, "code_end": to[-6:], "was": f"eip155:8453:{was}"}
    return await visitor.post(f"/d/live/merchants/{till.merchant}/destinations/{till.id}", form)


async def test_a_live_change_waits_stands_on_every_page_and_is_taken_back(till: Till) -> None:
    visitor = await sign_in(till.shop)
    compared = await visitor.post(at(till, "/compare"), {"address": OTHER})
    assert "takes effect 10 min from now" in compared.text
    assert (await ask(visitor, till, OTHER)).to == at(till)
    page = await visitor.get(at(till))
    assert f"The change to …{OTHER[-6:]} waits" in page.text
    due = iso_ms(till.realm.clock.now_ms() + DELAY_S * 1000)
    for where in (at(till), f"{at(till)}/destinations/{till.id}"):
        page = await visitor.get(where)
        for address in (WALLET, OTHER):
            assert f"<mark>{address[:8]}</mark>{address[8:-6]}<mark>{address[-6:]}</mark>" in page.html
        assert f"Then {OTHER[:8]} {OTHER[8:-6]} {OTHER[-6:]} From" in page.text
        assert due[:-5] in page.html
        assert f"{visitor.user_id}@example.com asked" in page.text
        assert "Cancel the change" in page.text
    home = await visitor.get("/d/live/")
    assert "The address to which money goes is to change, first on" in home.text
    assert f'href="{at(till)}">Look, or cancel it' in home.html
    test = await visitor.get("/d/test/")
    assert "In live mode: The address to which money goes is to change, first on" in test.text
    assert f'href="{at(till)}">Look, or cancel it' in test.html
    await visitor.shop.house.office.write(age, 2 * FRESH_MS)
    done = await visitor.post(at(till, "/cancel"))
    assert done.to == at(till), "it must not wait for a password"
    page = await visitor.get(at(till))
    assert f"Cancelled: the money goes to …{WALLET[-6:]} as before." in page.text
    assert "Cancel the change" not in page.text
    assert till.acts() == ["create", "change_request", "change_cancel"]
    again = await visitor.post(at(till, "/cancel"))
    assert (again.status, "No change of this destination waits" in again.text) == (404, True)


async def test_nobody_but_an_owner_takes_a_change_back_and_others_see_it(till: Till) -> None:
    await till.put(NEW)
    for role in (Role.VIEWER, Role.SUPPORT, Role.DEVELOPER):
        visitor = await sign_in(till.shop, role)
        assert (await visitor.post(at(till, "/cancel"))).status == 403
        page = await visitor.get(at(till))
        assert NEW[-6:] in page.text
        assert "Cancel the change" not in page.text
    other = await sign_in(till.shop, account_id=list(till.shop.house.accounts)[-1])
    assert (await other.post(at(till, "/cancel"))).status == 404
    for mode in ("live", "test"):
        assert "is to change" not in (await other.get(f"/d/{mode}/")).text
    assert (await till.listed())[0]["pending"]["destination"] == NEW


async def test_of_two_owners_the_second_sees_that_the_first_was_faster(till: Till) -> None:
    visitor = await sign_in(till.shop)
    assert (await ask(visitor, till, OTHER)).status == 303
    late = await ask(await sign_in(till.shop), till, THIRD)
    assert (late.status, "was changed meanwhile" in late.text) == (400, True)
    compared = await visitor.post(at(till, "/compare"), {"address": THIRD})
    assert "this one takes its place" in compared.text
    assert compared.hidden("was") == f"eip155:8453:{OTHER}"
    assert (await ask(visitor, till, THIRD, was=OTHER)).status == 303
    kept = await visitor.post(at(till, "/compare"), {"address": WALLET})
    assert "cancel the change that waits" in kept.text


async def test_of_a_deleted_merchant_no_page_says_that_it_changes(till: Till) -> None:
    await till.put(NEW)
    visitor = await sign_in(till.shop)
    assert "is to change" in (await visitor.get("/d/live/")).text
    await till.shop.call("DELETE", f"/v1/merchants/{till.merchant}", key=till.key)
    assert "is to change" not in (await visitor.get("/d/live/")).text
