"""What stands around a page: where one is, and where one can go."""

from __future__ import annotations

import re
from pathlib import Path

from tests.shop import Shop, open_shop
from tests.visitor import Visitor, sign_in


def current(html: str) -> list[str]:
    return re.findall(r"<a href=\"[^\"]*\" aria-current=\"(?:page|true)\">([^<]+)</a>", html)


async def test_the_page_and_the_mode_are_marked(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", live=True) as shop:
        visitor = await sign_in(shop)
        assert current((await visitor.get("/d/test/")).html) == ["Test", "Home"]
        assert current((await visitor.get("/d/live/")).html) == ["Live", "Home"]


async def test_a_mode_that_does_not_run_is_not_offered(shop: Shop) -> None:
    page = await (await sign_in(shop)).get("/d/test/")
    assert "/d/live/" not in page.html


async def test_who_is_not_signed_in_is_shown_no_way_in(shop: Shop) -> None:
    page = await Visitor(shop).get("/login")
    assert not re.findall(r'href="(/d/[^"]*)"', page.html)


async def test_links_are_below_the_path_that_a_proxy_serves(shop: Shop) -> None:
    shop.house.base_url = "https://pay.example/below"
    page = await (await sign_in(shop)).get("/d/test/")
    links = re.findall(r'(?:href|action|src)="(/[^"]*)"', page.html)
    assert links
    assert all(link.startswith("/below/") for link in links)
    assert (await Visitor(shop).get("/d/test/")).to == "/below/login?next=%2Fd%2Ftest%2F"
