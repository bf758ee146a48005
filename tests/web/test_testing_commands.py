"""The commands of test mode, each by its name, against a house that runs."""

from __future__ import annotations

from typing import Any

import pytest

from payd.core.errors import InvalidParams, NotFound
from payd.web.testing_commands import TESTING_COMMANDS
from tests.web.hooked import Hooked


async def test_a_scenario_a_move_and_the_clock(hooked: Hooked) -> None:
    made = await hooked.shop.do("scenario.run", name="created", merchant=hooked.shop.merchant_id)
    moved = await hooked.shop.do("payment.simulate", id=made["paymentId"], to="failed", reason="So.")
    assert (moved["status"], moved["failureReason"]) == ("failed", "So.")
    before = (await hooked.shop.do("clock.show"))["offsetS"]
    await hooked.shop.do("clock.advance", by="15m")
    while (now := await hooked.shop.do("clock.show"))["job"]["state"] == "running":
        await hooked.drained()
    assert now["offsetS"] == before + 900
    assert len(await hooked.shop.do("scenario.list")) > 10
    chosen = await hooked.shop.do("scenario.run", name="created", reference="A", value="7")
    assert chosen["referenceId"] == "A"
    detail = await hooked.shop.call("GET", f"/v1/payments/{chosen['paymentId']}")
    assert {name: detail.body["amount"][name] for name in ("unit", "value")} == {
        "unit": "iso4217/USD",
        "value": "7",
    }
    ended = await hooked.shop.do("scenario.run", name="cancelled", payment=chosen["paymentId"])
    assert (ended["paymentId"], ended["status"]) == (chosen["paymentId"], "cancelled")


async def test_what_is_one_for_all_accounts_asks_for_none(hooked: Hooked) -> None:
    for command in ("clock.show", "scenario.list", "sample.show"):
        assert await hooked.shop.do(command, account=None) == await hooked.shop.do(command)
    assert (await hooked.shop.do("clock.advance", account=None, by="1s"))["job"] is not None
    with pytest.raises(NotFound):
        await hooked.shop.do("clock.show", account="nobody")
    with pytest.raises(InvalidParams, match="--account"):
        await hooked.shop.do("fault.list", account=None)


async def test_faults_and_samples(hooked: Hooked) -> None:
    made = await hooked.shop.do(
        "fault.inject", fault="delay", lasts="1h", delay="5s", events=["payment.created"]
    )
    assert (made["delayS"], made["events"]) == (5, ["payment.created"])
    assert [one["id"] for one in await hooked.shop.do("fault.list")] == [made["id"]]
    assert [one["state"] for one in await hooked.shop.do("fault.end", id=made["id"])] == ["over"]
    assert await hooked.shop.do("fault.end") == []
    assert (await hooked.shop.do("sample.show", type="payment.failed"))["type"] == "payment.failed"
    assert len(await hooked.shop.do("sample.show")) == 7


async def test_in_live_mode_none_of_it_is_done(hooked: Hooked) -> None:
    args = {
        "payment.simulate": {"id": "pay_l1", "to": "failed"},
        "clock.advance": {"by": "1h"},
        "scenario.run": {"name": "created"},
        "fault.inject": {"fault": "drop"},
        "fixture.call": {"method": "GET", "path": "/v1/payments"},
    }
    for name in TESTING_COMMANDS:
        with pytest.raises(InvalidParams, match="test mode only"):
            await hooked.shop.do(name, mode="live", **args.get(name, {}))


async def test_a_merchant_of_another_account_is_not_there(hooked: Hooked) -> None:
    other = await hooked.shop.new_merchant(key=hooked.shop.other_key)
    with pytest.raises(NotFound):
        await hooked.shop.do("scenario.run", name="created", merchant=other)


async def test_a_fixtures_call_goes_by_the_rules_of_the_api(hooked: Hooked) -> None:
    shop = hooked.shop

    async def called(method: str, path: str, **more: Any) -> tuple[int, str]:
        found = await hooked.shop.do("fixture.call", method=method, path=path, **more)
        return found["status"], found["body"].get("code", "")

    named = {"Merchant-Id": shop.merchant_id}
    body = {"referenceId": "F", "amount": {"unit": "iso4217/USD", "value": "5"}}
    assert await called("POST", "/v1/payments", headers=named, body=body) == (201, "")
    assert await called("POST", "/v1/payments", body=body) == (400, "missing_merchant_id")
    assert await called("POST", "/v1/payments", headers=named) == (400, "invalid_params")
    assert await called("POST", "/v1/payments", headers=named, body=None) == (400, "params_validation")
    assert await called("POST", "/v1/merchants", body={}) == (400, "missing_idempotency_key")
    assert await called("GET", "/v1/payments?limt=1") == (400, "invalid_params")
    assert await called("GET", "/v1/payments?limit=1") == (200, "")
    assert await called("GET", "/v1/merchants", headers={"service-version": "x"}) == (
        400,
        "invalid_api_version",
    )
    for path in ("/livez", "/metrics", "/d/test", "/v1/nothing"):
        assert await called("GET", path) == (404, "not_found"), path
    theirs = (await shop.call("GET", "/v1/merchants", key=shop.other_key)).body["data"]
    assert theirs == []
