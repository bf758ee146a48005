"""What a path names is found for its owner, and for nobody else."""

from __future__ import annotations

import pytest

from payd.core.errors import Forbidden, NotFound, PaydError, PaymentNotFound
from payd.entropy import new_id
from payd.web.auth import authenticate
from payd.web.call import Call, Request
from payd.web.lookup import own_merchant, own_payment
from tests.shop import Shop


def call_of(shop: Shop, *, key: str = "", merchant: str | None = None, **params: str) -> Call:
    caller = authenticate(shop.house, {"api-key": key or shop.key}, gateway=False)
    request = Request("GET", "/")
    return Call(request, params, "req_1", shop.house, caller, caller.realm, "", merchant)


def refusal(found: pytest.ExceptionInfo[PaydError]) -> tuple[type[PaydError], str]:
    return type(found.value), found.value.message


async def test_the_account_finds_its_merchant_and_its_payment(shop: Shop) -> None:
    payment = await shop.pay()
    assert own_merchant(call_of(shop, merchantId=shop.merchant_id)).id == shop.merchant_id
    assert own_payment(call_of(shop, id=payment)).id == payment
    assert own_payment(call_of(shop, id=payment, merchant=shop.merchant_id)).id == payment


async def test_unknown_foreign_and_malformed_merchants_read_the_same(shop: Shop) -> None:
    seen = set()
    for key, merchant in (
        (shop.other_key, shop.merchant_id),
        (shop.key, new_id("mrch_", 0)),
        (shop.key, "x"),
    ):
        with pytest.raises(PaydError) as found:
            own_merchant(call_of(shop, key=key, merchantId=merchant))
        seen.add(refusal(found))
    assert {kind for kind, _ in seen} == {NotFound}
    assert len(seen) == 1


async def test_unknown_foreign_and_malformed_payments_read_the_same(shop: Shop) -> None:
    payment = await shop.pay()
    seen = set()
    for key, merchant, named in (
        (shop.other_key, None, payment),
        (shop.key, "mrch_other", payment),
        (shop.key, None, new_id("pay_t", 0)),
        (shop.key, None, new_id("pay_l", 0)),
        (shop.key, None, "x"),
        (shop.key, None, payment.upper()),
    ):
        with pytest.raises(PaydError) as found:
            own_payment(call_of(shop, key=key, merchant=merchant, id=named))
        seen.add(refusal(found))
    assert {kind for kind, _ in seen} == {PaymentNotFound}
    assert len(seen) == 1


async def test_a_key_for_other_merchants_is_forbidden_what_it_can_name(shop: Shop) -> None:
    payment = await shop.pay()
    key = await shop.new_key(merchants=[await shop.new_merchant(pays=False)])
    with pytest.raises(Forbidden):
        own_merchant(call_of(shop, key=key, merchantId=shop.merchant_id))
    with pytest.raises(Forbidden):
        own_payment(call_of(shop, key=key, id=payment))
