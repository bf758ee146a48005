"""What an account has done so far, read from what is there."""

from __future__ import annotations

from payd.store.first_steps import FirstSteps, first_steps
from tests.shop import Shop


def steps(shop: Shop, account_id: str = "") -> FirstSteps:
    return shop.realm.db.point(first_steps, account_id or shop.account_id)


async def test_each_step_is_done_once_it_is_there(shop: Shop) -> None:
    assert steps(shop) == FirstSteps(True, True, True, False, False, False)
    payment = await shop.pay()
    assert steps(shop).payment
    await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": "succeeded"})
    assert steps(shop).paid
    await shop.call("PUT", "/v1/webhooks/endpoint", {"url": "https://203.0.114.9/hook"})
    assert steps(shop) == FirstSteps(True, True, True, True, True, True)


async def test_another_accounts_steps_are_its_own(shop: Shop) -> None:
    await shop.pay()
    other = next(one for one in shop.house.accounts if one != shop.account_id)
    assert steps(shop, other) == FirstSteps(False, False, True, False, False, False)


async def test_a_merchant_that_was_deleted_is_none(shop: Shop) -> None:
    await shop.call("DELETE", f"/v1/merchants/{shop.merchant_id}")
    assert (steps(shop).merchant, steps(shop).destination) == (False, False)
