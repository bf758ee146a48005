"""Where a person is signed in: seen, and ended one by one."""

from __future__ import annotations

import pytest

from payd.store.sessions import list_sessions
from payd.web.command import real_ms
from payd.web.dashboard.sessions import browser_of
from tests.shop import Shop
from tests.visitor import Visitor, add_session, sign_in

HERE = "/settings/sessions"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


async def test_one_is_ended_from_another_at_once(shop: Shop) -> None:
    visitor = await sign_in(shop)
    token = await add_session(shop.house, visitor.user_id, shop.account_id)
    stolen = Visitor(shop, cookies={"__Host-payd-session": token})
    assert (await stolen.get("/d/test/")).status == 200
    page = await visitor.get(HERE)
    assert page.text.count("this one") == 1
    assert (await visitor.post(f"{HERE}/end", {"id": page.hidden("id")})).status == 303
    assert (await stolen.get("/d/test/")).to.startswith("/login")
    assert (await visitor.get("/d/test/")).status == 200


async def test_nobody_ends_another_persons(shop: Shop) -> None:
    one, other = await sign_in(shop), await sign_in(shop)
    [session] = shop.house.office.point(list_sessions, other.user_id, real_ms(shop.house))
    assert (await one.post(f"{HERE}/end", {"id": session.id})).status == 404
    assert (await other.get("/d/test/")).status == 200
    assert session.id not in (await one.get(HERE)).html


async def test_all_others_end_with_one_press(shop: Shop) -> None:
    visitor = await sign_in(shop)
    for _ in range(3):
        await add_session(shop.house, visitor.user_id, shop.account_id)
    done = await visitor.post(f"{HERE}/end-others")
    assert "ended: 3" in (await visitor.get(done.to)).text


async def test_a_token_is_not_shown_anywhere(shop: Shop) -> None:
    visitor = await sign_in(shop)
    page = await visitor.get(HERE)
    assert visitor.cookies["__Host-payd-session"] not in page.html


async def test_tries_are_shown_to_their_person(shop: Shop) -> None:
    visitor = await sign_in(shop, email="ada@example.com")
    await Visitor(shop).post(
        "/login", {"email": "ada@example.com", "password": "wrong"}, headers={"user-agent": FIREFOX}
    )
    assert "password refused 203.0.113.7 Firefox on Linux" in (await visitor.get(HERE)).text.replace(
        "  ", " "
    )


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (FIREFOX, "Firefox on Linux"),
        (
            "Mozilla/5.0 (Windows NT 10.0) Chrome/140.0 Safari/537.36 Edg/140.0",
            "Edge on Windows",
        ),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0) Safari/604.1",
            "Safari on iPhone",
        ),
        ("curl/8.0", "Another program"),
        ("", "Another program"),
        ("<script>Linux", "Linux"),
    ],
)
def test_a_browser_has_a_name_that_people_know(agent: str, name: str) -> None:
    assert browser_of(agent) == name
