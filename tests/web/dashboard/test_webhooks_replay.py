"""Sending many again from the dashboard."""

from __future__ import annotations

import re
from pathlib import Path

from payd.core.roles import Role
from tests.receiver import Does, always, in_turn
from tests.visitor import sign_in
from tests.web.dashboard.test_webhooks import audited
from tests.web.hooked import ENDPOINT, open_hooked

PAGE = "/d/test/webhooks/replay"


async def test_what_failed_is_counted_first_and_sent_when_confirmed(tmp_path: Path) -> None:
    fails = [Does(500)] * 16
    async with open_hooked(tmp_path, in_turn(*fails, Does(202))) as hooked:
        await hooked.register(events=["payment.created"])
        for _ in range(2):
            await hooked.shop.pay()
        await hooked.advance(30 * 3600)
        visitor = await sign_in(hooked.shop, Role.SUPPORT)
        preview = await visitor.post(f"{PAGE}/preview", {"kind": "recover", "reach": "24h"})
        assert "2 deliveries since" in preview.text
        assert "Send 2 again" in preview.text
        assert len(hooked.receiver.received) == 16
        chosen = {"kind": preview.hidden("kind"), "from": preview.hidden("from")}
        assert (await visitor.post(PAGE, chosen)).to == PAGE
        await hooked.drained()
        page = await visitor.get(PAGE)
        assert "2 found · 2 delivered · 0 failed" in page.text
        assert "Done" in page.text
        assert audited(hooked.shop)[-1] == (visitor.user_id, "webhook.recover")


async def test_a_form_that_is_sent_twice_begins_once(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        visitor = await sign_in(hooked.shop)
        preview = await visitor.post(f"{PAGE}/preview", {"kind": "replay-missing", "reach": "1h"})
        assert "There is nothing to send." in preview.text
        await hooked.shop.call("POST", f"{ENDPOINT}/disable")
        await hooked.shop.pay()
        await hooked.shop.call("POST", f"{ENDPOINT}/enable")
        preview = await visitor.post(f"{PAGE}/preview", {"kind": "replay-missing", "reach": "1h"})
        assert "1 delivery since" in preview.text
        chosen = {"kind": "replay-missing", "from": preview.hidden("from"), "once": preview.hidden("once")}
        for _ in range(2):
            await visitor.post(PAGE, chosen)
        await hooked.drained()
        assert len(hooked.receiver.received) == 1
        assert [act for _, act in audited(hooked.shop)].count("webhook.replay-missing") == 1


async def test_more_than_fourteen_days_and_nonsense_are_refused_with_words(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        visitor = await sign_in(hooked.shop)
        for form, says in (
            ({"kind": "recover", "since": "2026-01-01T00:00"}, "at most 14 days ago"),
            ({"kind": "recover", "since": "2200-01-01T00:00"}, "must not be in the future"),
            ({"kind": "recover", "since": "<b>"}, "since must be a date"),
            ({"kind": "recover", "reach": "1y"}, "Choose since when"),
            ({"kind": "<b>", "reach": "1h"}, "Choose what is to be sent again"),
        ):
            page = await visitor.post(f"{PAGE}/preview", form)
            assert (form, page.status, says in page.text) == (form, 400, True)
        late = await visitor.post(PAGE, {"kind": "recover", "from": "2026-01-01T00:00:00Z"})
        assert (late.status, "at most 14 days ago" in late.text) == (400, True)


async def test_a_time_of_ones_own_is_by_ones_own_clock(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        visitor = await sign_in(hooked.shop)
        visitor.cookies["payd-zone"] = "330"
        assert "UTC+05:30" in (await visitor.get(PAGE)).text
        page = await visitor.post(f"{PAGE}/preview", {"kind": "recover", "since": "2026-05-28T12:30"})
        assert 'datetime="2026-05-28T07:00:00.000Z"' in page.html


async def test_a_time_of_ones_own_is_what_ones_clock_showed_then(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        visitor = await sign_in(hooked.shop)
        visitor.cookies |= {"payd-zone": "60", "payd-place": "Europe/Berlin"}
        assert "Or since a time of your own, Europe/Berlin" in (await visitor.get(PAGE)).text
        page = await visitor.post(f"{PAGE}/preview", {"kind": "recover", "since": "2026-05-28T12:30"})
        assert 'datetime="2026-05-28T10:30:00.000Z"' in page.html


async def test_a_job_is_cancelled_by_those_who_may_and_only_their_own(tmp_path: Path) -> None:
    async with open_hooked(tmp_path, always(Does(500))) as hooked:
        await hooked.register()
        await hooked.shop.call("POST", f"{ENDPOINT}/disable")
        await hooked.shop.pay()
        await hooked.shop.call("POST", f"{ENDPOINT}/enable")
        started = await hooked.shop.call(
            "POST", "/v1/webhooks/replay-missing", {"since": hooked.shop.realm.clock.now_ms() // 1000 - 60}
        )
        await hooked.drained()
        visitor = await sign_in(hooked.shop)
        page = await visitor.get(PAGE)
        assert "1 found · 0 delivered · 0 failed · 1 tried again" in page.text
        [action] = re.findall(rf'action="({PAGE}/job_\w+/cancel)"', page.html)
        assert started.body["id"] in action
        stranger = await sign_in(hooked.shop, account_id=list(hooked.shop.house.accounts)[-1])
        assert (await stranger.post(action)).status == 404
        viewer = await sign_in(hooked.shop, Role.VIEWER)
        assert (await viewer.post(action)).status == 403
        await visitor.post(action)
        await hooked.drained()
        part = await visitor.get(PAGE, hx_request="true")
        assert "Cancelled 1 found · 0 delivered" in part.text
        assert audited(hooked.shop)[-1] == (visitor.user_id, "webhook.cancel-job")


async def test_without_an_endpoint_that_is_on_it_says_what_comes_first(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        visitor = await sign_in(hooked.shop)
        assert "There is no webhook endpoint" in (await visitor.get(PAGE)).text
        await hooked.register()
        await hooked.shop.call("POST", f"{ENDPOINT}/pause")
        page = await visitor.get(PAGE)
        assert "The endpoint is paused: resume it first." in page.text
        assert "Count them" not in page.text
