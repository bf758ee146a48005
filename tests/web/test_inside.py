"""The API's handlers, asked from inside: same rules, same answers, another caller."""

from __future__ import annotations

import pytest

from payd.core.errors import IdempotencyConflict, NotFound
from payd.store.db import Tx
from payd.store.keys import SCOPES
from payd.web.auth import Caller
from payd.web.inside import ask_api
from tests.shop import Shop

MERCHANT = {"merchantName": "Inside", "merchantEmail": "in@example.com"}


def caller(shop: Shop, account_id: str = "") -> Caller:
    return Caller(shop.realm, account_id or shop.account_id, "usr_1", frozenset(SCOPES), None)


async def test_it_answers_what_a_key_would_get(shop: Shop) -> None:
    made = await ask_api(shop.house, caller(shop), "POST", "/v1/merchants", MERCHANT)
    shown = await shop.call("GET", f"/v1/merchants/{made['merchant']['id']}")
    assert "Inside" in shown.body.values() or "Inside" in shown.body["merchant"].values()
    with pytest.raises(NotFound):
        await ask_api(shop.house, caller(shop), "GET", "/v1/merchants/mrch_none")


async def test_a_key_of_ones_own_makes_it_happen_once(shop: Shop) -> None:
    made = [
        await ask_api(shop.house, caller(shop), "POST", "/v1/merchants", MERCHANT, idempotency_key="once")
        for _ in range(2)
    ]
    assert made[0] == made[1]
    with pytest.raises(IdempotencyConflict):
        await ask_api(
            shop.house,
            caller(shop),
            "POST",
            "/v1/merchants",
            MERCHANT | {"merchantName": "B"},
            idempotency_key="once",
        )


async def test_a_merchant_is_named_as_its_header_would(shop: Shop) -> None:
    body = {"referenceId": "R", "amount": {"unit": "iso4217/USD", "value": "100"}}
    made = await ask_api(shop.house, caller(shop), "POST", "/v1/payments", body, merchant_id=shop.merchant_id)
    assert made["paymentId"].startswith("pay_t")


async def test_the_audit_has_who_it_was(shop: Shop) -> None:
    await ask_api(
        shop.house, caller(shop), "PUT", "/v1/webhooks/endpoint", {"url": "https://203.0.114.9/hook"}
    )

    def actors(tx: Tx) -> list[str]:
        return [actor for (actor,) in tx.execute("SELECT actor FROM audit WHERE act LIKE 'endpoint%'")]

    assert shop.realm.db.point(actors) == ["usr_1"]
