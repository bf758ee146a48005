"""The way to live mode: each line is ticked by what is there."""

from __future__ import annotations

from pathlib import Path

from tests.shop import Shop, open_shop
from tests.visitor import sign_in
from tests.web.dashboard.test_home import done

LIVE = "/settings/live"


async def test_without_a_live_mode_only_the_address_is_ready(shop: Shop) -> None:
    page = await (await sign_in(shop)).get(LIVE)
    assert done(page) == [True] + [False] * 7
    assert "7 of 8 left before real funds move." in page.text
    assert 'href="/d/live/' not in page.html.split("<main")[1]


async def test_plain_http_is_not_ready(shop: Shop) -> None:
    visitor = await sign_in(shop)
    shop.house.base_url = "http://127.0.0.1:8420"
    visitor.cookies = {"payd-session-8420": visitor.cookies["__Host-payd-session"]}
    page = await visitor.get(LIVE)
    assert not done(page)[0]
    assert "http://127.0.0.1:8420" in page.text


async def test_what_live_mode_has_is_ticked_and_the_rest_leads_to_its_page(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", live=True) as shop:
        visitor = await sign_in(shop)
        await visitor.post("/d/live/merchants", {"name": "Live shop", "email": "a@b.c"})
        page = await visitor.get(LIVE)
    assert done(page) == [True, False, False, True, False, True, False, False]
    assert '<a href="/d/live/merchants">Add where its money goes</a>' in page.html
