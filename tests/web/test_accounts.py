"""How a body lists a buyer's accounts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.shop import WALLET, Shop


@pytest.mark.parametrize("wrapped", [False, True])
async def test_accounts_come_as_a_bare_list_or_by_name(shop: Shop, wrapped: bool) -> None:
    accounts = [f"eip155:8453:{WALLET}"]
    body: Any = {"accounts": accounts, "refresh": []} if wrapped else accounts
    answer = await shop.call("POST", f"/v1/gateway/payment/{await shop.pay()}/options", body)
    assert answer.status == 200
    assert {one["account"] for one in answer.body["options"]} == set(accounts)


@pytest.mark.parametrize(
    ("accounts", "code"),
    [
        (["nothing"], "params_validation"),
        ([f"eip155:8453:{WALLET}"] * 101, "params_validation"),
        (["eip155:8453:0x52908400098527886E0F7030069857D2E4169Ee7"], "invalid_params"),
    ],
)
async def test_what_are_no_accounts_is_refused(shop: Shop, accounts: list[str], code: str) -> None:
    answer = await shop.call("POST", f"/v1/gateway/payment/{await shop.pay()}/options", accounts)
    assert (answer.status, answer.body["code"]) == (400, code)
