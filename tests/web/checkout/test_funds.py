"""What the page asks about a connected wallet's accounts, and who else may not."""

from __future__ import annotations

from typing import Any

import pytest

from payd.chains.base import Funds
from payd.chains.simulated import SimulatedChain
from payd.web.checkout.funds import about
from payd.web.limits import SIGN_REQUESTS_AT_ONCE, sign_request_limit
from tests.shop import WALLET, Got, Shop

ACCOUNT = f"eip155:8453:{WALLET}"


class Told(SimulatedChain):
    """A simulated chain that can say."""

    async def funds(self, *_: Any) -> Funds:
        return Funds(amount=25_000_000, has=3, fee=20, coins=4, coin="eip155:8453/slip44:60")


async def funds(shop: Shop, body: Any, **headers: str) -> Got:
    sent: dict[str, Any] = {"sec_fetch_site": "same-origin", **headers}
    return await shop.call("POST", f"/pay/{await shop.pay()}/funds", body, key=None, **sent)


async def test_what_is_asked_what_is_there_and_what_sending_takes_are_amounts_to_show(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for chain in shop.realm.payments.chains:
        monkeypatch.setattr(chain, "__class__", Told)
    answer = await funds(shop, {"accounts": [ACCOUNT]})
    assert answer.status == 200
    assert answer.headers["cache-control"] == "no-store"
    row = answer.body["funds"][0]
    assert row["account"] == ACCOUNT
    assert [row[name]["value"] for name in ("amount", "has", "fee", "coins")] == ["25000000", "3", "20", "4"]
    assert row["has"]["unit"] == row["amount"]["unit"]
    assert (row["fee"]["unit"], row["fee"]["display"]["assetSymbol"]) == (
        "caip19/eip155:8453/slip44:60",
        "ETH",
    )


@pytest.mark.parametrize(("fee", "shown"), [(0, 0), (99, 99), (100, 100), (125_000_000_875, 130_000_000_000)])
def test_a_fee_that_nobody_knows_exactly_has_two_digits(fee: int, shown: int) -> None:
    assert about(fee) == shown


async def test_no_other_site_may_ask(shop: Shop) -> None:
    assert (await funds(shop, [ACCOUNT])).body == {"funds": []}
    assert (await funds(shop, [ACCOUNT], sec_fetch_site="cross-site")).status == 403
    assert (await funds(shop, ["nothing"])).status == 400


async def test_a_stranger_does_not_keep_the_nodes_busy(shop: Shop) -> None:
    stopped_s = 1000.0
    shop.house.limits.sign_requests = sign_request_limit(lambda: stopped_s)
    answers = [(await funds(shop, [ACCOUNT])).status for _ in range(SIGN_REQUESTS_AT_ONCE)]
    assert answers == [200] * SIGN_REQUESTS_AT_ONCE
    refused = await funds(shop, [ACCOUNT])
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
