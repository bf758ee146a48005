"""Every scenario against a receiver: what it said would be told is what is told, and nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from payd.actors.simulation import show_transfer
from payd.core.scenario import BY_EVENT, SCENARIOS, Scenario
from payd.web.scenarios import UNPAID
from tests.receiver import Received
from tests.shop import BUYER, SOLANA_WALLET, USDC_BASE, USDC_SOLANA, WALLET, Got, Shop, open_shop
from tests.web.hooked import Hooked

PATH = "/v1/test/scenarios"


async def settle(hooked: Hooked) -> None:
    """Two minutes of the realm's own clock: everything that a scenario leaves to time has happened."""
    started = await hooked.shop.call("POST", "/v1/test/clock", {"advance": "2m"})
    assert started.status == 202
    advance = hooked.shop.realm.advance
    assert advance is not None
    while advance.state().state == "running":
        await hooked.drained()


def told(received: list[Received], payment_id: str) -> list[tuple[str, int]]:
    """What a receiver was told of a payment, in the order in which it came."""
    bodies = [msgspec.json.decode(one.body) for one in received]
    return [
        (one["type"], one["data"]["payment_state_version"])
        for one in bodies
        if one["data"]["payment_id"] == payment_id
    ]


async def test_every_scenario_tells_what_it_says(hooked: Hooked) -> None:
    for scenario in SCENARIOS:
        await check_scenario(hooked, scenario)
    assert len(hooked.receiver.received) >= 2 * len(SCENARIOS)


async def check_scenario(hooked: Hooked, scenario: Scenario) -> None:
    made = await hooked.shop.call("POST", f"{PATH}/{scenario.name}")
    assert made.status == 201, made.body
    payment_id = made.body["paymentId"]
    assert made.body["gatewayUrl"].endswith(payment_id)
    assert made.body["merchantId"] == hooked.shop.merchant_id
    refused = [step["refused"] for step in made.body["steps"] if "refused" in step]
    assert refused == [step.refused for step in scenario.steps if step.refused]
    await settle(hooked)
    expected = {(one["type"], one["version"]): one["requests"] for one in made.body["expectedEvents"]}
    assert Counter(told(hooked.receiver.received, payment_id)) == expected, scenario.name
    events = await hooked.shop.call("GET", f"/v1/events?paymentId={payment_id}")
    assert [one["type"] for one in events.body["data"]][::-1] == [one.type for one in scenario.tells]


async def test_out_of_order_is_out_of_order(hooked: Hooked) -> None:
    made = await hooked.shop.call("POST", f"{PATH}/out-of-order-webhooks")
    await settle(hooked)
    versions = [version for _, version in told(hooked.receiver.received, made.body["paymentId"])]
    assert versions == [0, 2, 1, 3]


async def test_a_refund_is_recorded(hooked: Hooked) -> None:
    made = await hooked.shop.call("POST", f"{PATH}/refund")
    detail = await hooked.shop.call("GET", f"/v1/payments/{made.body['paymentId']}")
    assert "refund" in str(detail.body).lower()


@pytest.mark.parametrize("kind", ["partial", "late", "surplus", "unmatched"])
async def test_money_that_pays_for_nothing_is_shown_as_a_chain_would_show_it(shop: Shop, kind: str) -> None:
    made = await shop.call("POST", f"{PATH}/{kind}-transfer")
    assert made.status == 201, made.body
    payment = made.body["paymentId"]
    await show_transfer(shop.realm.payments, payment, UNPAID[kind])
    assert (await shop.call("POST", f"{PATH}/{kind}-transfer")).status == 201

    listed = (await shop.call("GET", "/v1/transfers?matched=false")).body["data"]
    assert [one["kind"] for one in listed] == [kind, kind]
    of_it = next(one for one in listed if one["txId"] == f"test:{kind}-{payment}")
    asked = "6250000" if kind == "partial" else "12500000"
    assert (of_it["amount"]["value"], of_it["paymentId"]) == (asked, None if kind == "unmatched" else payment)
    assert of_it["to"].endswith(WALLET)

    detail = (await shop.call("GET", f"/v1/payments/{payment}")).body
    shown = ["matched"] if kind == "surplus" else []
    assert [one["kind"] for one in detail["transfers"]] == shown + [kind] * (kind != "unmatched")
    status = {"late": "expired", "surplus": "succeeded"}.get(kind, "requires_action")
    assert detail["status"] == made.body["status"] == status


async def test_a_scenario_is_found_by_the_event_that_is_wanted(shop: Shop) -> None:
    for event_type, name in BY_EVENT.items():
        made = await shop.call("POST", f"{PATH}/{event_type}")
        assert (made.status, made.body["scenario"]) == (201, name)


async def test_a_merchant_on_solana_that_asks_its_buyers_is_paid_too(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data") as shop:
        merchant = await shop.new_merchant(pays=False)
        await shop.register(merchant, USDC_SOLANA, f"{USDC_SOLANA.partition('/')[0]}:{SOLANA_WALLET}")
        fields = [
            {"id": "name", "type": "text", "name": "Name"},
            {"id": "ok", "type": "checkbox", "name": "Ok"},
        ]
        await shop.call("PATCH", f"/v1/merchants/{merchant}", {"collect": fields})
        made = await shop.call("POST", f"{PATH}/happy-path", merchant_id=merchant)
        assert (made.status, made.body["merchantId"], made.body["status"]) == (201, merchant, "processing")


async def test_what_no_option_can_pay_is_said_and_is_no_fault_of_the_server(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data") as shop:
        merchant = await shop.new_merchant(pays=False)
        await shop.register(merchant, USDC_SOLANA, f"{USDC_SOLANA.partition('/')[0]}:{SOLANA_WALLET}")
        much = {"amount": {"unit": "iso4217/USD", "value": "9" * 18}}  # of USDC, more than Solana can count
        made = await shop.call("POST", f"{PATH}/happy-path", much, merchant_id=merchant)
        assert (made.status, made.code) == (400, "invalid_state")
        assert "cannot be paid" in made.body["message"]


async def test_a_payment_whose_destination_was_taken_away_is_paid_by_no_scenario(shop: Shop) -> None:
    payment = await shop.pay()
    await shop.options(payment, [BUYER])
    listed = await shop.call("GET", f"/v1/merchants/{shop.merchant_id}/settlements")
    for one in listed.body["crypto"]:
        await shop.call("DELETE", f"/v1/merchants/{shop.merchant_id}/settlements/crypto/{one['id']}")
    await shop.register(shop.merchant_id, USDC_BASE, BUYER)
    found = await shop.call("POST", f"{PATH}/happy-path", {"paymentId": payment})
    assert (found.status, found.code) == (400, "invalid_state")
    assert await shop.status(payment) == "requires_action"


async def test_the_list_says_what_there_is(shop: Shop) -> None:
    found = (await shop.call("GET", PATH)).body["data"]
    assert [one["name"] for one in found] == [one.name for one in SCENARIOS]
    assert all(one["description"] and one["expectedEvents"] for one in found)


async def test_what_is_missing_is_said(shop: Shop) -> None:
    unknown = await shop.call("POST", f"{PATH}/moon")
    assert (unknown.status, unknown.code, "happy-path" in unknown.body["message"]) == (404, "not_found", True)
    unpaid = await shop.new_merchant(pays=False)
    found = await shop.call("POST", f"{PATH}/happy-path", merchant_id=unpaid)
    assert (found.status, found.code) == (400, "invalid_state")
    assert "/settlements/crypto" in found.body["message"]
    assert (await shop.call("POST", f"{PATH}/duplicate-webhook")).code == "not_found"


async def test_another_accounts_merchant_live_keys_and_limited_keys_get_nothing(hooked: Hooked) -> None:
    shop = hooked.shop
    live = await shop.call("POST", f"{PATH}/happy-path", key=shop.keys["live.one"])
    assert (live.status, live.code) == (403, "not_sandbox_api_key")
    other = await shop.call("POST", f"{PATH}/happy-path", key=shop.other_key, merchant_id=shop.merchant_id)
    assert (other.status, other.code) == (404, "not_found")
    second = await shop.new_merchant()
    limited = await shop.new_key(merchants=[second])
    made = await shop.call("POST", f"{PATH}/happy-path", key=limited)
    assert (made.status, made.body["merchantId"]) == (201, second)


async def test_a_key_that_may_make_no_payment_makes_none_by_a_scenario(shop: Shop) -> None:
    only_tests = await shop.new_key(scopes=["test"])
    waiting = await shop.pay()
    for body in ({}, {"paymentId": waiting}):
        refused = await shop.call("POST", f"{PATH}/cancelled", body, key=only_tests)
        assert (refused.status, refused.code) == (403, "forbidden")
        assert refused.body["details"]["scope"] == "payments:write"
    assert [one["paymentId"] for one in await payments_of(shop)] == [waiting]
    both = await shop.new_key(scopes=["test", "payments:write"])
    assert (await shop.call("POST", f"{PATH}/cancelled", key=both)).status == 201


async def test_nothing_is_made_for_who_would_not_see_it(hooked: Hooked) -> None:
    await hooked.shop.call("POST", "/v1/webhooks/endpoint/pause")
    found = await hooked.shop.call("POST", f"{PATH}/lost-webhook")
    assert (found.status, found.code) == (409, "endpoint_disabled")
    assert (await hooked.shop.call("GET", "/v1/payments")).body["data"] == []


async def test_a_payment_that_is_there_goes_on_from_where_it_is(hooked: Hooked) -> None:
    shop = hooked.shop
    await shop.new_merchant()  # the newest, which is looked at first
    payment_id = await shop.pay("ORDER-7", "990", "iso4217/EUR")
    made = await shop.call("POST", f"{PATH}/payment.failed", {"paymentId": payment_id})
    assert made.status == 201, made.body
    assert (made.body["paymentId"], made.body["merchantId"]) == (payment_id, shop.merchant_id)
    assert (made.body["referenceId"], made.body["status"]) == ("ORDER-7", "failed")
    assert "create" not in [step["did"] for step in made.body["steps"]]
    expected = [(one["type"], one["version"]) for one in made.body["expectedEvents"]]
    assert expected == [("payment.processing", 1), ("payment.failed", 2)]
    await settle(hooked)
    assert sorted(told(hooked.receiver.received, payment_id)) == [
        ("payment.created", 0),
        ("payment.failed", 2),
        ("payment.processing", 1),
    ]
    assert len((await shop.call("GET", "/v1/payments")).body["data"]) == 1


async def test_a_scenario_begins_with_a_payment_of_ones_own_that_waits(hooked: Hooked) -> None:
    shop = hooked.shop
    waits, over = await shop.pay(), await shop.pay()
    await shop.call("POST", f"/v1/payments/{over}/cancel")

    async def tried(body: object, key: str = "", **more: Any) -> tuple[int, str]:
        found = await shop.call("POST", f"{PATH}/cancelled", body, key=key, **more)
        return found.status, found.code

    other = await shop.new_merchant()
    assert await tried({"paymentId": over}) == (400, "invalid_state")
    assert await tried({"paymentId": "pay_t1"}) == (404, "payment_not_found")
    assert await tried({"paymentId": waits}, shop.other_key) == (404, "payment_not_found")
    assert await tried({"paymentId": waits}, merchant_id=other) == (404, "payment_not_found")
    assert await tried({"paymentId": waits}, await shop.new_key(merchants=[other])) == (403, "forbidden")
    assert await tried({"paymentId": waits, "referenceId": "x"}) == (400, "invalid_params")
    assert await tried({"amount": {"unit": "iso4217/USD", "value": "x"}}) == (400, "params_validation")
    assert await tried({"paymentId": 5}) == (400, "params_validation")
    assert await shop.status(waits) == "requires_action"


async def test_a_new_payment_is_for_what_was_asked(hooked: Hooked) -> None:
    wanted = {"referenceId": "ORDER-8", "amount": {"unit": "iso4217/JPY", "value": "1999"}}
    made = await hooked.shop.call("POST", f"{PATH}/created", wanted)
    assert made.body["referenceId"] == "ORDER-8"
    await settle(hooked)
    [event] = [msgspec.json.decode(one.body) for one in hooked.receiver.received]
    assert event["data"]["amount"] == wanted["amount"]
    assert event["data"]["reference_id"] == "ORDER-8"


REPLAYED = "idempotent-replayed"


async def payments_of(shop: Shop) -> list[dict[str, Any]]:
    return list((await shop.call("GET", "/v1/payments")).body["data"])


async def test_a_scenario_runs_once_for_one_idempotency_key(shop: Shop) -> None:
    answers: list[Got] = []

    async def one() -> None:
        answers.append(await shop.call("POST", f"{PATH}/happy-path", idempotency_key="k"))

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(one)
    await trio.sleep(3600)
    await one()
    again = await shop.call("POST", f"{PATH}/happy-path", {}, idempotency_key="k")

    assert {(one.status, one.raw) for one in [*answers, again]} == {(201, answers[0].raw)}
    assert sum(one.headers.get(REPLAYED) == "true" for one in answers) == 10
    assert [one["paymentId"] for one in await payments_of(shop)] == [answers[0].body["paymentId"]]


async def test_a_key_of_a_scenario_is_for_its_body_its_path_and_its_merchant(shop: Shop) -> None:
    made = await shop.call("POST", f"{PATH}/created", idempotency_key="k")
    wanted = {"referenceId": "ORDER-9"}
    conflict = await shop.call("POST", f"{PATH}/created", wanted, idempotency_key="k")
    long = await shop.call("POST", f"{PATH}/created", idempotency_key="k" * 256)
    others = [
        await shop.call("POST", f"{PATH}/cancelled", idempotency_key="k"),
        await shop.call("POST", f"{PATH}/created", idempotency_key="k", merchant_id=shop.merchant_id),
        await shop.call("POST", f"{PATH}/created", wanted, idempotency_key="other"),
    ]

    assert (conflict.status, conflict.code) == (409, "idempotency_conflict")
    assert (long.status, long.code) == (400, "invalid_params")
    assert [(one.status, REPLAYED in one.headers) for one in others] == [(201, False)] * 3
    assert len({one.body["paymentId"] for one in [made, *others]}) == len(await payments_of(shop)) == 4


async def test_a_scenario_that_is_refused_leaves_its_key_to_another_body(shop: Shop) -> None:
    nothing = {"amount": {"unit": "iso4217/USD", "value": "0"}}
    refused = await shop.call("POST", f"{PATH}/created", nothing, idempotency_key="k")
    made = await shop.call("POST", f"{PATH}/created", idempotency_key="k")
    assert (refused.status, made.status, REPLAYED in made.headers) == (400, 201, False)


async def test_a_key_for_other_merchants_is_not_told_what_a_scenario_made_nor_goes_on_with_it(
    shop: Shop,
) -> None:
    limited = await shop.new_key(merchants=[await shop.new_merchant(pays=False)])
    made = await shop.call("POST", f"{PATH}/created", idempotency_key="k")
    found = await shop.call("POST", f"{PATH}/created", key=limited, idempotency_key="k")
    assert (made.status, found.status, found.code) == (201, 403, "forbidden")
    assert made.body["paymentId"] not in found.raw.decode()

    async with shop.after_writes(2):  # its choice, and the payment
        await shop.call("POST", f"{PATH}/happy-path", idempotency_key="k")
    found = await shop.call("POST", f"{PATH}/happy-path", key=limited, idempotency_key="k")
    assert (found.status, found.code) == (403, "forbidden")
    assert {one["status"] for one in await payments_of(shop)} == {"requires_action"}


UNSEEN = [one for one in SCENARIOS if not one.needs_endpoint]


@pytest.mark.parametrize("there", [False, True], ids=["new", "there"])
@pytest.mark.parametrize("scenario", UNSEEN, ids=[one.name for one in UNSEEN])
async def test_a_scenario_that_was_cut_off_goes_on_under_its_key_with_the_same_payment(
    shop: Shop, scenario: Scenario, there: bool
) -> None:
    path, lost, number = f"{PATH}/{scenario.name}", 503, 0
    while lost == 503:
        key = f"cut off after {number}"
        body = {"paymentId": await shop.pay(key)} if there else {"referenceId": key}
        async with shop.after_writes(number):
            lost = (await shop.call("POST", path, body, idempotency_key=key)).status
        # Somebody else is the first that can be paid by now.
        await shop.new_merchant()
        made = await shop.call("POST", path, body, idempotency_key=key)
        again = await shop.call("POST", path, body, idempotency_key=key)

        assert (made.status, REPLAYED in made.headers) == (201, lost == 201), (number, made.body)
        assert (again.raw, again.headers[REPLAYED]) == (made.raw, "true")
        [payment] = [one for one in await payments_of(shop) if one["referenceId"] == key]
        assert payment["paymentId"] == made.body["paymentId"]
        refused = [step["refused"] for step in made.body["steps"] if "refused" in step]
        assert refused == [step.refused for step in scenario.steps if step.refused]
        await trio.sleep(120)
        found = await shop.call("GET", f"/v1/events?paymentId={payment['paymentId']}")
        assert [one["type"] for one in found.body["data"]][::-1] == [one.type for one in scenario.tells]
        number += 1
    assert lost == 201
    assert number > len(scenario.steps) - there


async def test_a_scenario_that_was_cut_off_does_not_go_on_with_a_payment_that_ended(shop: Shop) -> None:
    path, ended = f"{PATH}/happy-path", []
    for key in ("cancelled", "expired"):
        async with shop.after_writes(2):  # its choice, and the payment
            assert (await shop.call("POST", path, {"referenceId": key}, idempotency_key=key)).status == 503
        [payment] = [one for one in await payments_of(shop) if one["referenceId"] == key]
        moved = f"/v1/test/payments/{payment['paymentId']}/simulate"
        await shop.call("POST", moved, {"to": key})
        ended.append(await shop.call("POST", path, {"referenceId": key}, idempotency_key=key))

    assert [(one.status, one.code) for one in ended] == [(400, "invalid_state"), (410, "payment_expired")]
    assert len(await payments_of(shop)) == 2
