"""Transfers that paid for nothing are seen, and one is counted for a payment by a person's word."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from payd.actors.claims import Claimed
from payd.core.roles import Role
from payd.core.transfer import Kind
from payd.store.db import Tx
from payd.store.transfers import Transfer
from payd.web import transfers as api
from payd.web.dashboard import transfers
from tests.inserts import insert_transfer
from tests.ledger import BUYER, CHAIN, START_MS, USDC, sell
from tests.shop import Shop, open_shop
from tests.visitor import sign_in

TX = "0x" + "ab" * 32
PAYMENT = "pay_l" + "0" * 36


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "data", live=True) as opened:
        yield opened


async def see(shop: Shop, kind: Kind = "unmatched", index: int = 0, account: str = "") -> None:
    one = Transfer(
        account or shop.account_id, None, CHAIN, TX, index, USDC, "1500000", BUYER, BUYER, kind, START_MS
    )
    await shop.house.realms["live"].db.write(insert_transfer, one)


async def sold(shop: Shop) -> str:
    def one(tx: Tx) -> str:
        return sell(tx, id=PAYMENT, account_id=shop.account_id, reference_id="LATE-1").id

    return await shop.house.realms["live"].db.write(one)


async def test_what_paid_for_nothing_comes_first_and_all_is_a_step_away(shop: Shop) -> None:
    visitor = await sign_in(shop, Role.SUPPORT)
    assert "Nothing to look at" in (await visitor.get("/d/live/transfers")).text
    await see(shop, "late")
    await see(shop, "matched", 1)
    page = await visitor.get("/d/live/transfers")
    assert "Too late 1.5 USDC Base 0x3C44…93BC" in page.text
    assert "Pays its payment" not in page.text
    assert "Who sent it is what one node told." in page.text
    assert f"https://basescan.org/tx/{TX}" in page.html
    assert "/d/live/transfers/match?tx=" in page.html
    assert "Pays its payment" in (await visitor.get("/d/live/transfers?all=yes")).text


async def test_older_ones_are_on_the_next_page(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "ROWS", 1)
    await see(shop, "late")
    await see(shop, "partial", 1)
    visitor = await sign_in(shop)
    first = await visitor.get("/d/live/transfers")
    assert ("Too little" in first.text, "Too late" in first.text) == (True, False)
    older = first.html.split('class="more"><a class="button" href="')[1].split('"')[0]
    assert "Too late" in (await visitor.get(older)).text


async def test_another_accounts_transfers_are_not_shown(shop: Shop) -> None:
    await see(shop, "late", account="acct_other")
    await sold(shop)
    visitor = await sign_in(shop)
    assert "Too late" not in (await visitor.get("/d/live/transfers?all=yes")).text
    preview = await visitor.get(f"/d/live/payments/{PAYMENT}/match?tx={TX}&chain={CHAIN}")
    assert "1.5 USDC" not in preview.text


async def test_a_viewer_sees_and_repairs_nothing(shop: Shop) -> None:
    await see(shop)
    page = await (await sign_in(shop, Role.VIEWER)).get("/d/live/transfers")
    assert ("Names no payment" in page.text, "transfers/match" in page.html) == (True, False)


async def test_the_payment_is_chosen_by_its_reference_and_shown_before_anything_is_done(shop: Shop) -> None:
    await see(shop)
    await sold(shop)
    visitor = await sign_in(shop)
    start = f"/d/live/transfers/match?tx={TX}&chain={CHAIN}"
    assert "no such payment" in (await visitor.get(f"{start}&payment=LATE-2")).text
    found = await visitor.get(f"{start}&payment=LATE-1")
    page = await visitor.get(found.to)
    for words in (
        "Payment LATE-1 Asked 25.00 USD",
        "It moved 1.5 USDC from 0x3C44…93BC",
        "Match it to this payment",
    ):
        assert words in page.text
    assert (page.hidden("tx"), page.hidden("chain")) == (TX, CHAIN)


async def test_a_match_is_asked_of_the_chain_in_the_persons_name(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    async def claim(
        payments: Any, chains: Any, payment: Any, tx_id: str, chain: Any, actor: str, merchants: Any
    ) -> Claimed:
        await trio.lowlevel.checkpoint()
        asked.append((payment.id, tx_id, chain, actor, merchants))
        return Claimed("recorded", "It came too late.", ())

    monkeypatch.setattr(api, "claim", claim)
    await sold(shop)
    visitor = await sign_in(shop, Role.SUPPORT)
    here = f"/d/live/payments/{PAYMENT}/match"
    done = await visitor.post(here, {"tx": TX, "chain": ""})
    assert done.to == f"/d/live/payments/{PAYMENT}"
    assert "It came too late." in (await visitor.get(done.to)).text
    assert asked == [(PAYMENT, TX, None, visitor.user_id, None)]
    for wrong in ({"tx": ""}, {"tx": TX, "chain": "base"}):
        assert (await visitor.post(here, wrong)).status == 400
    assert len(asked) == 1


async def test_a_test_payment_has_nothing_to_match(shop: Shop) -> None:
    payment = await shop.pay()
    visitor = await sign_in(shop)
    page = await visitor.get(f"/d/test/payments/{payment}/match?tx={TX}")
    assert "Simulate it instead" in page.text
    assert (await visitor.post(f"/d/test/payments/{payment}/match", {"tx": TX})).status == 400
