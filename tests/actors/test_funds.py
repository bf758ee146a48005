"""What the page is told of a buyer's accounts: of chains that can say, while there is something to pay."""

from __future__ import annotations

from typing import Any

import pytest

from payd.actors.funds import show_funds
from payd.chains.base import Funds
from payd.chains.simulated import SimulatedChain
from payd.core.caip import parse_account
from payd.core.errors import ChainUnavailable, PaymentNotFound
from tests.shop import WALLET, Shop

ACCOUNT = parse_account(f"eip155:8453:{WALLET}")
FUNDS = Funds(amount=2_500, has=1, fee=20, coins=3, coin="eip155:8453/slip44:60")


class Told(SimulatedChain):
    """A simulated chain that can say."""

    async def funds(self, *_: Any) -> Funds:
        return FUNDS


class Down(SimulatedChain):
    """One that nobody answers for."""

    async def funds(self, *_: Any) -> Funds:
        raise ChainUnavailable("No node answers.")


def becomes(shop: Shop, monkeypatch: pytest.MonkeyPatch, kind: type[SimulatedChain]) -> None:
    for chain in shop.realm.payments.chains:
        monkeypatch.setattr(chain, "__class__", kind)


async def test_a_chain_that_cannot_say_says_nothing(shop: Shop) -> None:
    assert await show_funds(shop.realm.payments, await shop.pay(), [ACCOUNT]) == []


async def test_each_asset_of_the_merchant_is_shown_for_each_account_on_its_chain(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    becomes(shop, monkeypatch, Told)
    elsewhere = parse_account(f"eip155:10:{WALLET}")
    shown = await show_funds(shop.realm.payments, await shop.pay(), [ACCOUNT, elsewhere])
    assert shown
    assert {one.account for one in shown} == {ACCOUNT}
    assert all(one.funds == FUNDS and one.asset.startswith("eip155:8453/") for one in shown)


async def test_a_chain_is_asked_for_all_of_them_at_once_before_any(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Notes(Told):
        async def read_ahead(self, *_: Any) -> None:
            asked.append("ahead")

        async def funds(self, *_: Any) -> Funds:
            asked.append("one")
            return FUNDS

    becomes(shop, monkeypatch, Notes)
    shown = await show_funds(shop.realm.payments, await shop.pay(), [ACCOUNT])
    assert asked == ["ahead", *["one"] * len(shown)]


async def test_a_chain_that_is_down_leaves_the_page_without_reasons(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    becomes(shop, monkeypatch, Down)
    assert await show_funds(shop.realm.payments, await shop.pay(), [ACCOUNT]) == []


async def test_there_is_nothing_to_say_of_a_payment_that_is_over(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    becomes(shop, monkeypatch, Told)
    payment = await shop.pay()
    await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": "cancelled"})
    assert await show_funds(shop.realm.payments, payment, [ACCOUNT]) == []
    with pytest.raises(PaymentNotFound):
        await show_funds(shop.realm.payments, "pay_t" + "0" * 36, [ACCOUNT])
