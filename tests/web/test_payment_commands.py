"""The operator's commands on payments: the API's own answers, for who may do everything."""

from __future__ import annotations

from typing import Any

import pytest

from payd.core.errors import InvalidParams, PaymentNotFound
from payd.web.payment_commands import PAYMENT_COMMANDS
from tests.shop import TX_HASH, Shop


async def test_every_command_is_named_after_its_subject() -> None:
    assert all(name.startswith("payment.") for name in PAYMENT_COMMANDS)


async def test_payments_are_found_by_how_their_reference_begins(shop: Shop) -> None:
    first, second = await shop.pay(reference="ORDER-1"), await shop.pay(reference="ORDER-2")

    def ids(found: Any) -> list[str]:
        return [one["paymentId"] for one in found["data"]]

    assert ids(await shop.do("payment.list", reference="ORDER-1")) == [first]
    newest = await shop.do("payment.list", reference="ORDER", merchant=shop.merchant_id, limit=1)
    assert ids(newest) == [second]
    assert ids(await shop.do("payment.list", cursor=newest["nextCursor"])) == [first]
    assert ids(await shop.do("payment.list", status="succeeded")) == []


async def test_a_payment_is_shown_as_the_api_shows_it_with_the_buyers_link(shop: Shop) -> None:
    body = {"referenceId": "ORDER-1", "amount": {"unit": "iso4217/USD", "value": "2500"}}
    made = (await shop.call("POST", "/v1/payments", body, merchant_id=shop.merchant_id)).body
    payment = made["paymentId"]
    shown = (await shop.call("GET", f"/v1/payments/{payment}")).body
    assert await shop.do("payment.show", id=payment) == {**shown, "gatewayUrl": made["gatewayUrl"]}


async def test_an_id_is_no_path(shop: Shop) -> None:
    for id in ("pay_t0", "../merchants", "x/status?y=1"):
        with pytest.raises(PaymentNotFound):
            await shop.do("payment.show", id=id)


async def test_a_match_is_refused_as_the_api_refuses_it(shop: Shop) -> None:
    payment = await shop.pay()
    with pytest.raises(InvalidParams, match="test payment"):
        await shop.do("payment.match", id=payment, tx=TX_HASH, chain="eip155:1")
