"""Faults on the webhook page: by a plain form, in test mode, for who may change the endpoint."""

from __future__ import annotations

import re
from typing import Any

from payd.core.fault import FAULT_KINDS
from payd.core.roles import Role
from payd.store.db import Tx
from payd.web.dashboard.webhooks_faults import CHOICES, REACHES
from tests.visitor import sign_in
from tests.web.hooked import Hooked

PAGE = "/d/test/webhooks"
PATH = "/v1/test/webhooks/inject"


async def faults(hooked: Hooked) -> list[dict[str, Any]]:
    return list((await hooked.shop.call("GET", PATH)).body["data"])


def test_every_kind_can_be_chosen() -> None:
    assert tuple(CHOICES) == FAULT_KINDS


async def test_a_fault_is_injected_shown_named_in_the_log_and_ended(hooked: Hooked) -> None:
    visitor = await sign_in(hooked.shop, Role.DEVELOPER)
    form = {"fault": "bad_signature", "reach": "3", "event": "payment.created"}
    done = await visitor.post(f"{PAGE}/faults", form)
    assert (done.status, done.to) == (303, PAGE)
    [made] = await faults(hooked)
    assert (made["fault"], made["left"], made["events"]) == ("bad_signature", 3, ["payment.created"])
    await hooked.shop.pay()
    await hooked.drained()
    page = await visitor.get(PAGE)
    assert "2 deliveries" in page.text
    [row] = await hooked.deliveries()
    delivery = await visitor.get(f"{PAGE}/deliveries/{row['id']}")
    assert "Injected fault: bad signature" in delivery.text
    found = re.search(r'name="fault" value="(flt_\w+)"', page.html)
    assert found is not None
    await visitor.post(f"{PAGE}/faults/end", {"fault": found[1]})
    assert [one["state"] for one in await faults(hooked)] == ["over"]

    def actors(tx: Tx) -> list[str]:
        return [actor for (actor,) in tx.execute("SELECT actor FROM audit WHERE act LIKE 'webhook.%fault'")]

    assert hooked.shop.realm.db.point(actors) == [visitor.user_id] * 2


async def test_each_reach_is_what_it_says_and_all_are_ended_at_once(hooked: Hooked) -> None:
    visitor = await sign_in(hooked.shop)
    for reach, _ in REACHES:
        await visitor.post(f"{PAGE}/faults", {"fault": "drop", "reach": reach})
    made = [(one["left"], one["until"] is None) for one in await faults(hooked)]
    assert made == [(None, False), (None, False), (10, True), (3, True), (1, True)]
    assert "until" in (await visitor.get(PAGE)).text
    await visitor.post(f"{PAGE}/faults/end")
    assert {one["state"] for one in await faults(hooked)} == {"over"}


async def test_what_was_not_chosen_is_asked_for_again(hooked: Hooked) -> None:
    visitor = await sign_in(hooked.shop)
    for form in ({}, {"fault": "drop"}, {"fault": "explode", "reach": "1"}, {"fault": "drop", "reach": "9"}):
        page = await visitor.post(f"{PAGE}/faults", form)
        assert (page.status, "Choose a fault" in page.text) == (400, True)
    assert await faults(hooked) == []


async def test_live_mode_has_no_form_and_takes_none(hooked: Hooked) -> None:
    visitor = await sign_in(hooked.shop)
    live = hooked.shop.keys["live.one"]
    await hooked.shop.call("PUT", "/v1/webhooks/endpoint", {"url": "https://b.test/x"}, key=live)
    assert "faults" not in (await visitor.get("/d/live/webhooks")).html
    for path in ("faults", "faults/end"):
        page = await visitor.post(f"/d/live/webhooks/{path}", {"fault": "drop", "reach": "1"})
        assert (page.status, "test mode only" in page.text) == (403, True)


async def test_live_mode_has_no_scenarios_and_runs_none(hooked: Hooked) -> None:
    visitor = await sign_in(hooked.shop)
    assert "scenario" not in (await visitor.get("/d/live/payments/create")).html
    page = await visitor.post("/d/live/payments/scenario", {"scenario": "created"})
    assert (page.status, "test mode only" in page.text) == (403, True)


async def test_who_only_looks_sees_no_form(hooked: Hooked) -> None:
    page = await (await sign_in(hooked.shop, Role.SUPPORT)).get(PAGE)
    assert "Inject fault" not in page.html
