"""What an account has done so far, read from what is there."""

from __future__ import annotations

from payd.core.ids import KEY_ENTROPY_BYTES, make_api_key
from payd.store.db import Tx
from payd.store.first_steps import FirstSteps, first_steps
from payd.store.keys import LISTENER, LISTENER_SCOPES, insert_key
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


async def test_a_listeners_own_key_is_none_that_anybody_has(shop: Shop) -> None:
    def revoke_all(tx: Tx) -> None:
        tx.execute("UPDATE api_keys SET revoked_at_ms = 1")

    await shop.realm.db.write(revoke_all)
    await shop.realm.db.write(
        insert_key, key_id="key_1", account_id=shop.account_id, name=LISTENER, scopes=LISTENER_SCOPES,
        api_key=make_api_key("test", bytes(KEY_ENTROPY_BYTES)), merchants=None, actor="cli", now_ms=0,
        is_listener=True,
    )  # fmt: skip
    assert not steps(shop).key
