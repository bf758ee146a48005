"""Events in the dashboard, with or without an endpoint."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from payd.core.roles import Role
from tests.visitor import sign_in
from tests.web.hooked import open_hooked

PAGE = "/d/test/webhooks/events"


async def test_events_are_listed_filtered_and_shown_with_their_body(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        visitor = await sign_in(hooked.shop, Role.VIEWER)
        assert "No events yet" in (await visitor.get(PAGE)).text
        first = await hooked.shop.pay()
        await hooked.register()
        await hooked.shop.pay()
        await hooked.drained()
        page = await visitor.get(PAGE)
        assert page.text.count("payment.created") - page.html.count('value="payment.created"') == 2
        assert "No event fits" in (await visitor.get(f"{PAGE}?type=payment.failed")).text
        alone = await visitor.get(f"{PAGE}?payment={first}")
        [event] = re.findall(rf'href="({PAGE}/evt_\w+)"', alone.html)
        shown = await visitor.get(event)
        assert f'"payment_id": "{first}"' in shown.text
        assert "no endpoint wanted it then" in shown.text
        delivered = [one for one in re.findall(rf'href="({PAGE}/evt_\w+)"', page.html) if one != event]
        assert "Delivered" in (await visitor.get(delivered[0])).text
        assert (await visitor.get(f"{PAGE}?type=x")).status == 400
        assert (await visitor.get(f"{PAGE}/evt_none")).status == 404
        stranger = await sign_in(hooked.shop, account_id=list(hooked.shop.house.accounts)[-1])
        assert (await stranger.get(event)).status == 404


async def test_pages_of_events_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("payd.web.dashboard.webhooks_events.PAGE_ROWS", 1)
    async with open_hooked(tmp_path) as hooked:
        for _ in range(2):
            await hooked.shop.pay()
        visitor = await sign_in(hooked.shop)
        first = await visitor.get(PAGE)
        [older] = re.findall(r'class="button" href="([^"]+)">Older', first.html)
        second = await visitor.get(older.replace("&amp;", "&"))
        ids = [re.findall(r"events/(evt_\w+)", one.html) for one in (first, second)]
        assert [len(one) for one in ids] == [1, 1]
        assert ids[0] != ids[1]
