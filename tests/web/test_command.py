"""What a command asks for: a realm that runs, an account that is meant, and the API's own handlers."""

from __future__ import annotations

import pytest

from payd.core.errors import InvalidParams, NotFound
from payd.store.keys import SCOPES
from payd.web.command import OfId, OfMode, account_of, ask, realm_of
from tests.shop import Shop


async def test_a_realm_that_does_not_run_is_refused_with_what_to_do(shop: Shop) -> None:
    assert realm_of(shop.house, "test") is shop.realm
    with pytest.raises(InvalidParams, match="--mode test"):
        realm_of(shop.house, "live")


async def test_one_of_several_accounts_must_be_named(shop: Shop) -> None:
    assert account_of(shop.house, OfMode(account=shop.account_id)).id == shop.account_id
    with pytest.raises(InvalidParams, match="--account"):
        account_of(shop.house, OfMode())
    with pytest.raises(NotFound):
        account_of(shop.house, OfMode(account="nobody"))


async def test_a_payment_says_by_itself_whose_it_is(shop: Shop) -> None:
    payment = await shop.pay()

    assert account_of(shop.house, OfId(id=payment)).id == shop.account_id
    with pytest.raises(InvalidParams, match="--account"):
        account_of(shop.house, OfId(id="pay_t0"))


async def test_a_merchant_of_another_account_is_none_of_the_operators(shop: Shop) -> None:
    strangers = await shop.new_merchant(key=shop.other_key)
    order = {"referenceId": "1", "amount": {"unit": "iso4217/EUR", "value": "100"}}
    args = OfMode(account=shop.account_id)
    for merchant_id in (strangers, "mrch_none"):
        with pytest.raises(NotFound, match=merchant_id):
            await ask(shop.house, args, "POST", "/v1/payments", order, merchant_id=merchant_id)


async def test_a_handler_answers_the_operator_as_it_answers_a_key_that_may_do_everything(shop: Shop) -> None:
    args = OfMode(account=shop.account_id)
    made = await ask(shop.house, args, "PUT", "/v1/webhooks/endpoint", {"url": "https://203.0.114.9/hook"})
    shown = await shop.call("GET", "/v1/webhooks/endpoint", key=await shop.new_key(scopes=SCOPES))
    assert {**shown.body, "secret": made["secret"]} == made
    found = await ask(shop.house, args, "GET", "/v1/webhooks/deliveries", query={"limit": 1})
    assert found == {"data": [], "nextCursor": None}
    with pytest.raises(InvalidParams, match="limit"):
        await ask(shop.house, args, "GET", "/v1/webhooks/deliveries", query={"limit": 0})
