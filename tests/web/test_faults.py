"""Faults over REST: what can be asked for, by whom, and what is shown of it."""

from __future__ import annotations

from typing import Any

from payd.core.fault import FAULT_KINDS
from payd.store.db import Tx
from payd.web.faults import DELIVERIES_MAX
from tests.shop import Shop
from tests.web.hooked import ENDPOINT, Hooked

PATH = "/v1/test/webhooks/inject"


def audited(shop: Shop) -> list[str]:
    def rows(tx: Tx) -> list[str]:
        return [act for (act,) in tx.execute("SELECT act FROM audit WHERE act LIKE '%fault' ORDER BY seq")]

    return shop.realm.db.point(rows)


async def test_a_fault_is_injected_named_in_the_log_listed_and_over(hooked: Hooked) -> None:
    shop = hooked.shop
    made = await shop.call("POST", PATH, {"fault": "drop"})
    assert made.status == 201
    assert (made.body["fault"], made.body["deliveries"], made.body["left"]) == ("drop", 1, 1)
    assert (made.body["state"], made.body["until"]) == ("active", None)
    await shop.pay()
    await hooked.drained()
    [row] = await hooked.deliveries()
    assert (row["state"], row["lastStatus"]) == ("pending", None)
    [attempt] = (await shop.call("GET", f"/v1/webhooks/deliveries/{row['id']}")).body["attemptLog"]
    assert (attempt["fault"], attempt["errorClass"]) == ("drop", "injected_fault")
    assert "on purpose" in attempt["advice"]
    [listed] = (await shop.call("GET", PATH)).body["data"]
    assert (listed["id"], listed["state"], listed["injected"]) == (made.body["id"], "over", 1)
    await hooked.advance(5)
    assert [one["state"] for one in await hooked.deliveries()] == ["succeeded"]
    assert audited(shop) == ["webhook.inject-fault"]


async def test_each_kind_can_be_asked_for(hooked: Hooked) -> None:
    for kind in FAULT_KINDS:
        made = await hooked.shop.call("POST", PATH, {"fault": kind, "for": "10m"})
        assert (made.status, made.body["left"], made.body["until"] is None) == (201, None, False)
        assert made.body["delayS"] == (30 if kind == "delay" else None)


REFUSED: dict[str, list[dict[str, Any]]] = {
    "fault": [{}, {"fault": "explode"}],
    "deliveries": [{"fault": "drop", "deliveries": 0}, {"fault": "drop", "deliveries": DELIVERIES_MAX + 1}],
    "for": [
        {"fault": "drop", "deliveries": 1, "for": "1m"},
        {"fault": "drop", "for": "soon"},
        {"fault": "drop", "for": "8d"},
    ],
    "delay": [{"fault": "drop", "delay": "1m"}, {"fault": "delay", "delay": "2d"}],
    "events": [{"fault": "drop", "events": ["payment.paid"]}],
}


async def test_what_cannot_be_is_refused_by_its_field(hooked: Hooked) -> None:
    for field, bodies in REFUSED.items():
        for body in bodies:
            found = await hooked.shop.call("POST", PATH, body)
            assert (found.status, found.code) == (400, "params_validation")
            assert [one["field"] for one in found.body["issues"]] == [field]
    assert (await hooked.shop.call("GET", PATH)).body["data"] == []


async def test_it_may_be_for_one_payment_and_for_some_types(hooked: Hooked) -> None:
    shop = hooked.shop
    first, second = await shop.pay(), await shop.pay()
    await hooked.drained()
    body = {"fault": "drop", "deliveries": 9, "paymentId": second, "events": ["payment.cancelled"]}
    assert (await shop.call("POST", PATH, body)).body["paymentId"] == second
    for payment in (first, second):
        await shop.call("POST", f"/v1/payments/{payment}/cancel")
    await hooked.drained()
    states = {(one["paymentId"], one["eventType"]): one["state"] for one in await hooked.deliveries()}
    assert states[first, "payment.cancelled"] == "succeeded"
    assert states[second, "payment.cancelled"] == "pending"
    missing = await shop.call("POST", PATH, {"fault": "drop", "paymentId": f"pay_t{'0' * 36}"})
    assert (missing.status, missing.code) == (404, "payment_not_found")
    other = await shop.call("POST", PATH, {"fault": "drop", "paymentId": first}, key=shop.other_key)
    assert other.status == 404


async def test_one_or_all_are_ended(hooked: Hooked) -> None:
    shop = hooked.shop
    ids = [(await shop.call("POST", PATH, {"fault": "drop", "deliveries": 5})).body["id"] for _ in range(3)]
    ended = await shop.call("DELETE", f"{PATH}/{ids[0]}")
    assert [(one["id"], one["state"]) for one in ended.body["data"]] == [(ids[0], "over")]
    rest = await shop.call("DELETE", PATH)
    assert {one["id"] for one in rest.body["data"]} == set(ids[1:])
    await shop.pay()
    await hooked.drained()
    assert [one["state"] for one in await hooked.deliveries()] == ["succeeded"]
    assert (await shop.call("DELETE", f"{PATH}/flt_0")).status == 404
    assert len(audited(shop)) == 6


async def test_the_same_key_injects_once_and_is_answered_when_the_endpoint_is_gone(hooked: Hooked) -> None:
    made = [await hooked.shop.call("POST", PATH, {"fault": "drop"}, idempotency_key="once") for _ in range(2)]
    assert len((await hooked.shop.call("GET", PATH)).body["data"]) == 1
    assert (await hooked.shop.call("DELETE", ENDPOINT)).status == 200
    made.append(await hooked.shop.call("POST", PATH, {"fault": "drop"}, idempotency_key="once"))
    assert [(one.status, one.raw) for one in made] == 3 * [(201, made[0].raw)]


async def test_live_keys_and_keys_without_the_scope_are_refused_and_no_row_is_written(hooked: Hooked) -> None:
    shop = hooked.shop
    reader = await shop.new_key(scopes=["payments:read", "webhooks:write"])
    for method, path in (("GET", PATH), ("POST", PATH), ("DELETE", PATH), ("DELETE", f"{PATH}/flt_0")):
        body = {"fault": "drop"} if method == "POST" else None
        live = await shop.call(method, path, body, key=shop.keys["live.one"])
        assert (live.status, live.code) == (403, "not_sandbox_api_key")
        assert (await shop.call(method, path, body, key=reader)).code == "forbidden"
    for realm in shop.house.realms.values():
        assert realm.db.point(lambda tx: tx.execute("SELECT count(*) FROM faults").fetchone()) == (0,)
    assert shop.house.realms["live"].deliveries.faults is None


async def test_without_an_endpoint_there_is_nothing_to_inject_into(hooked: Hooked) -> None:
    found = await hooked.shop.call("POST", PATH, {"fault": "drop"}, key=hooked.shop.other_key)
    assert (found.status, found.code) == (404, "not_found")
