"""Deliveries in the dashboard: the list, one of them, and sending it again."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from payd.core.roles import Role
from tests.receiver import Does, always, in_turn
from tests.shop import Shop
from tests.visitor import sign_in
from tests.web.dashboard.test_webhooks import HOSTILE, audited
from tests.web.hooked import ENDPOINT, HOOK, Hooked, open_hooked

PAGE = "/d/test/webhooks/deliveries"


async def delivery_of(hooked: Hooked, payment_id: str) -> str:
    [found] = await hooked.deliveries(f"?paymentId={payment_id}")
    return str(found["id"])


def rows_in(page: str) -> list[str]:
    """The deliveries in the order in which they stand."""
    return re.findall(r'<span id="state-(dlv_\w+)"', page)


async def pay(shop: Shop) -> str:
    return await shop.pay()


async def test_the_list_shows_each_delivery_as_it_stands(tmp_path: Path) -> None:
    async with open_hooked(tmp_path, in_turn(Does(202), Does(503))) as hooked:
        visitor = await sign_in(hooked.shop)
        assert "No deliveries yet" in (await visitor.get(PAGE)).text
        await hooked.register()
        await pay(hooked.shop)
        await hooked.drained()
        await pay(hooked.shop)
        await hooked.drained()
        text = (await visitor.get(PAGE)).text
    assert re.search(r"payment.created … ?\w{6} Pending 1/8 503 0 ms in 5 s Resend", text)
    assert re.search(r"payment.created … ?\w{6} Delivered 1/8 202 0 ms – Resend", text)


async def test_filters_combine_and_what_is_none_is_refused(tmp_path: Path) -> None:
    async with open_hooked(tmp_path, in_turn(Does(202), Does(503))) as hooked:
        await hooked.register()
        first = await pay(hooked.shop)
        await hooked.drained()
        second = await pay(hooked.shop)
        await hooked.drained()
        visitor = await sign_in(hooked.shop, Role.VIEWER)
        a, b = await delivery_of(hooked, first), await delivery_of(hooked, second)

        async def shown(query: str) -> list[str]:
            return rows_in((await visitor.get(f"{PAGE}?{query}")).html)

        assert await shown("") == [b, a]
        assert await shown("state=pending&type=payment.created") == [b]
        assert await shown(f"payment={first}") == [a]
        assert await shown(f"payment={first}&state=pending") == []
        assert await shown("since=2020-01-01T00:00") == [b, a]
        assert await shown("since=2200-01-01T00:00") == []
        assert "No delivery fits" in (await visitor.get(f"{PAGE}?type=payment.settled")).text
        for wrong in ("state=gone", "type=x", "since=x", "cursor=x"):
            assert (await visitor.get(f"{PAGE}?{wrong}")).status == 400


async def test_since_is_what_ones_clock_showed_then(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        delivery = await delivery_of(hooked, await pay(hooked.shop))
        visitor = await sign_in(hooked.shop)
        visitor.cookies |= {"payd-zone": "0", "payd-place": "Asia/Kolkata"}
        at = datetime.fromtimestamp(hooked.shop.realm.clock.now_ms() // 1000, ZoneInfo("Asia/Kolkata"))
        page = await visitor.get(f"{PAGE}?since={at - timedelta(minutes=1):%Y-%m-%dT%H:%M}")
        assert rows_in(page.html) == [delivery]
        assert "Since, Asia/Kolkata" in page.text


async def test_the_endpoints_that_there_were_can_be_told_apart(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        old = await hooked.register()
        await pay(hooked.shop)
        await hooked.drained()
        visitor = await sign_in(hooked.shop)
        assert 'name="endpoint"' not in (await visitor.get(PAGE)).html
        await hooked.shop.call("DELETE", ENDPOINT)
        await hooked.register(url="http://b.test/")
        page = await visitor.get(f"{PAGE}?endpoint={old['id']}")
        assert f"{HOOK} (deleted)" in page.text
        assert len(rows_in(page.html)) == 1
        assert "Resend" not in page.text


async def test_pages_go_on_where_they_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("payd.web.dashboard.webhooks_deliveries.PAGE_ROWS", 2)
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        for _ in range(3):
            await pay(hooked.shop)
        await hooked.drained()
        visitor = await sign_in(hooked.shop)
        first = await visitor.get(f"{PAGE}?state=succeeded")
        await pay(hooked.shop)
        await hooked.drained()
        [older] = re.findall(r'class="button" href="([^"]+)">Older', first.html)
        second = await visitor.get(older.replace("&amp;", "&"))
        assert len(rows_in(first.html)) == 2
        assert len(rows_in(second.html)) == 1
        assert not set(rows_in(first.html)) & set(rows_in(second.html))


async def test_live_updates_change_cells_in_their_place_and_count_what_is_new(tmp_path: Path) -> None:
    async with open_hooked(tmp_path, in_turn(Does(500), Does(202))) as hooked:
        await hooked.register()
        shown = await delivery_of(hooked, await pay(hooked.shop))
        await hooked.drained()
        visitor = await sign_in(hooked.shop)
        page = await visitor.get(PAGE)
        [live] = re.findall(r'hx-get="([^"]+)"', page.html)
        assert shown in live
        await pay(hooked.shop)
        await hooked.advance(6)
        part = await visitor.get(live.replace("&amp;", "&"), hx_request="true")
        assert rows_in(part.html) == [shown]
        assert "Delivered" in part.text
        assert "1 new — Show" in part.text
        other = await sign_in(hooked.shop, account_id=list(hooked.shop.house.accounts)[-1])
        assert rows_in((await other.get(live.replace("&amp;", "&"), hx_request="true")).html) == []


async def test_one_delivery_has_every_attempt_with_advice_and_what_was_sent(tmp_path: Path) -> None:
    answers = in_turn(Does(404, body=HOSTILE, headers=(("x-evil", "<script>3</script>"),)), Does(resets=True))
    async with open_hooked(tmp_path, answers) as hooked:
        await hooked.register(headers={"X-Tenant": "hush"})
        delivery = await delivery_of(hooked, await pay(hooked.shop))
        await hooked.advance(6)
        visitor = await sign_in(hooked.shop, Role.VIEWER)
        page = await visitor.get(f"{PAGE}/{delivery}")
        message = hooked.receiver.received[0].headers["webhook-id"]
        assert (await visitor.get(f"{PAGE}/{message}")).text == page.text
    for says in (
        "Is the URL right",
        "the connection was closed",
        "2/8",
        "by schedule",
        "in 4 min 59 s",
        message,
    ):
        assert says in page.text, says
    assert '"type": "payment.created"' in page.text
    assert "x-tenant: ••••" in page.text.lower()
    assert "hush" not in page.html
    assert "<script>" not in re.sub(r"<script (type|defer)[^>]*></script>", "", page.html)
    assert "x-evil: &lt;script&gt;3" in page.html
    assert page.text.index("connection_reset") < page.text.index("http_status")


async def test_one_is_sent_again_and_it_is_said_how_it_went(tmp_path: Path) -> None:
    async with open_hooked(tmp_path, in_turn(Does(500), Does(503), Does(202))) as hooked:
        await hooked.register()
        delivery = await delivery_of(hooked, await pay(hooked.shop))
        await hooked.drained()
        visitor = await sign_in(hooked.shop, Role.SUPPORT)
        assert (await visitor.post(f"{PAGE}/{delivery}/resend")).to == f"{PAGE}/{delivery}"
        page = await visitor.get(f"{PAGE}/{delivery}")
        assert "Sent again, and it failed: 503 in 0 ms." in page.text
        assert "1/8" in page.text
        await visitor.post(f"{PAGE}/{delivery}/resend")
        page = await visitor.get(f"{PAGE}/{delivery}")
        assert "it was accepted: 202" in page.text
        assert "Delivered" in page.text
        assert audited(hooked.shop)[-1] == (visitor.user_id, "webhook.resend")
        bodies = {one.body for one in hooked.receiver.received}
        assert len(bodies) == 1


async def test_what_cannot_be_sent_again_has_no_button_and_is_refused(tmp_path: Path) -> None:
    async with open_hooked(tmp_path, always(Does(500))) as hooked:
        await hooked.register()
        delivery = await delivery_of(hooked, await pay(hooked.shop))
        await hooked.drained()
        visitor = await sign_in(hooked.shop)
        await hooked.shop.call("POST", f"{ENDPOINT}/disable")
        page = await visitor.get(f"{PAGE}/{delivery}")
        assert "Its endpoint is disabled." in page.text
        assert "Resend" not in page.text
        before = len(audited(hooked.shop))
        refused = await visitor.post(f"{PAGE}/{delivery}/resend")
        assert (refused.status, "disabled" in refused.text) == (409, True)
        assert len(audited(hooked.shop)) == before
        viewer = await sign_in(hooked.shop, Role.VIEWER)
        await hooked.shop.call("POST", f"{ENDPOINT}/enable")
        assert "Resend" not in (await viewer.get(f"{PAGE}/{delivery}")).text


async def test_another_attempt_is_told_without_moving_anything(tmp_path: Path) -> None:
    async with open_hooked(tmp_path, in_turn(Does(500), Does(202))) as hooked:
        await hooked.register()
        delivery = await delivery_of(hooked, await pay(hooked.shop))
        await hooked.drained()
        visitor = await sign_in(hooked.shop)
        [live] = re.findall(r'hx-get="([^"]+)"', (await visitor.get(f"{PAGE}/{delivery}")).html)
        assert "another attempt" not in (await visitor.get(live, hx_request="true")).text
        await hooked.advance(6)
        part = await visitor.get(live, hx_request="true")
        assert "There was another attempt — Show" in part.text
        assert "Delivered" in part.text
