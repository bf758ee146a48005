"""The first page teaches what comes next, by what is there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.shop import Shop, open_shop
from tests.visitor import Page, sign_in


def done(page: Page) -> list[bool]:
    return [line == ' class="done"' for line in re.findall(r"<li( class=\"done\")?>", page.html)]


async def test_a_step_is_ticked_once_it_is_done(shop: Shop) -> None:
    visitor = await sign_in(shop)
    assert done(await visitor.get("/d/test/")) == [True, True, True, False, False, False, False]
    payment = await shop.pay()
    await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": "succeeded"})
    await shop.call("PUT", "/v1/webhooks/endpoint", {"url": "https://203.0.114.9/hook"})
    assert done(await visitor.get("/d/test/")) == [True] * 6 + [False]


async def test_live_mode_has_a_list_of_its_own(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", live=True) as shop:
        await shop.pay()
        visitor = await sign_in(shop)
        live = await visitor.get("/d/live/")
        assert done(live) == [False, False, True, False, False]
        assert "Set up live mode" in live.text
        assert done(await visitor.get("/d/test/"))[-1]


async def test_the_mode_is_told_in_words_and_not_by_colour_alone(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", live=True) as shop:
        visitor = await sign_in(shop)
        test, live = await visitor.get("/d/test/"), await visitor.get("/d/live/")
    assert test.title.startswith("[Test] ")
    assert "Test mode. No real funds move." in test.text
    assert not live.title.startswith("[Test]")
    assert "No real funds" not in live.text
    icons = [re.findall(r'<link rel="icon" href="([^"]+)"', page.html) for page in (test, live)]
    assert icons[0] != icons[1]
