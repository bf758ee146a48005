"""One-time links: the first person of all, who was invited, who forgot the password."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from payd.core.errors import InvalidParams
from payd.core.roles import Role
from payd.store.accounts import list_accounts
from payd.store.db import Tx
from payd.store.links import LIFETIME_MS
from payd.store.second_factors import factors_of, set_app
from payd.store.sessions import list_sessions
from payd.store.users import find_user_by_email, list_members, put_membership, role_in
from payd.web.command import real_ms
from payd.web.dashboard.joining import check_email
from payd.web.user_commands import make_link
from tests.shop import Shop, open_shop
from tests.visitor import Page, Visitor, add_user, sign_in

EMAIL, PASSWORD = "ada@example.com", "correct mule battery"
FORM = {"email": EMAIL, "password": PASSWORD, "account": "Ada's shop"}


def path_of(url: str) -> str:
    return url.removeprefix("https://pay.example")


def token_of(url: str) -> str:
    return url.rpartition("=")[2]


async def setup(shop: Shop, browser: Visitor, **more: str) -> Page:
    url = (await make_link(shop.house, "setup"))["url"]
    assert (await browser.get(path_of(url))).status == 200
    return await browser.post("/setup", FORM | {"token": token_of(url)} | more)


@pytest.fixture
async def empty(tmp_path: Path) -> AsyncIterator[Shop]:
    """A house where nothing was ever made."""
    async with open_shop(tmp_path / "data") as shop:
        await shop.house.office.write(forget_accounts)
        shop.house.accounts.clear()
        yield shop


def forget_accounts(tx: Tx) -> None:
    tx.execute("DELETE FROM accounts")


async def test_the_first_person_gets_an_account_and_is_in(empty: Shop) -> None:
    browser = Visitor(empty)
    found = await setup(empty, browser)
    assert found.to == "/settings/security?first=1"
    assert "Protect your login" in (await browser.get(found.to)).text
    [account] = empty.house.accounts.values()
    assert account.name == "Ada's shop"
    home = await browser.get("/d/test/")
    assert "Ada's shop · owner" in home.text
    assert "Set up test mode" in home.text


async def test_an_account_is_known_also_when_who_made_it_left_at_once(empty: Shop) -> None:
    browser, db = Visitor(empty), empty.house.office
    async with trio.open_nursery() as nursery:
        nursery.start_soon(setup, empty, browser)
        while not any(step.function.__qualname__.startswith("setup.") for step in (*db._staged, *db._batch)):
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    await trio.sleep(0.001)

    [account] = db.point(list_accounts)
    assert empty.house.accounts == {account.id: account}


async def test_accounts_that_are_there_are_taken_over(shop: Shop) -> None:
    before = dict(shop.house.accounts)
    url = (await make_link(shop.house, "setup"))["url"]
    shown = await Visitor(shop).get(path_of(url))
    assert shop.house.accounts[shop.account_id].name in shown.text
    assert 'name="account"' not in shown.html
    await setup(shop, Visitor(shop))
    assert shop.house.accounts == before
    user = shop.house.office.point(find_user_by_email, EMAIL)
    assert user is not None
    assert all(shop.house.office.point(role_in, one, user.id) is Role.OWNER for one in before)


async def test_a_link_opens_once_until_a_newer_one_is_made_and_for_a_day(shop: Shop) -> None:
    old, new = [(await make_link(shop.house, "setup"))["url"] for _ in range(2)]
    browser = Visitor(shop)
    assert (await browser.get(path_of(old))).status == 404
    assert (await browser.get(path_of(new))).status == 200
    assert (await browser.post("/setup", FORM | {"token": token_of(new)})).status == 303
    again = await Visitor(shop).post("/setup", FORM | {"token": token_of(new), "email": "eve@example.com"})
    assert again.status == 404
    assert shop.house.office.point(find_user_by_email, "eve@example.com") is None


async def test_a_link_is_over_in_time(shop: Shop) -> None:
    url = (await make_link(shop.house, "setup"))["url"]
    wall = shop.realm.clock._wall
    shop.realm.clock._wall = lambda: wall() + LIFETIME_MS["setup"]
    assert (await Visitor(shop).get(path_of(url))).status == 404


@pytest.mark.parametrize("token", ["", "x", "0" * 36, "é"])
@pytest.mark.parametrize("path", ["/setup", "/join", "/reset"])
async def test_a_token_that_nobody_made_opens_nothing(shop: Shop, path: str, token: str) -> None:
    await make_link(shop.house, "setup")
    assert (await Visitor(shop).get(f"{path}?token={token}")).status == 404
    assert (await Visitor(shop).post(path, FORM | {"token": token})).status == 404


async def test_a_link_for_one_purpose_opens_no_other(shop: Shop) -> None:
    url = (await make_link(shop.house, "setup"))["url"]
    for path in ("/join", "/reset"):
        assert (await Visitor(shop).get(f"{path}?token={token_of(url)}")).status == 404


async def test_what_is_unusable_is_said_and_the_link_still_opens(shop: Shop) -> None:
    url = (await make_link(shop.house, "setup"))["url"]
    browser = Visitor(shop)
    for wrong, words in (
        ({"password": "short"}, "at least 10"),
        ({"password": "password123"}, "one of the first"),
        ({"email": "nobody"}, "no e-mail"),
    ):
        found = await browser.post("/setup", FORM | {"token": token_of(url)} | wrong)
        assert found.status == 400
        assert words in found.text
        assert found.hidden("token") == token_of(url)
        assert wrong.get("password", "x") not in found.html.replace("10", "") or "email" in wrong
    assert (await browser.post("/setup", FORM | {"token": token_of(url)})).status == 303


async def test_who_listens_is_warned_of_on_plain_http(shop: Shop) -> None:
    url = token_of((await make_link(shop.house, "setup"))["url"])
    for base_url, warned in (
        ("http://127.0.0.1:8420", False),
        ("http://localhost:8420", False),
        ("https://pay.example", False),
        ("http://192.168.1.5:8420", True),
    ):
        shop.house.base_url = base_url
        assert ("plain HTTP" in (await Visitor(shop).get(f"/setup?token={url}")).text) is warned, base_url


async def invited(shop: Shop, email: str = "", role: str = "support") -> str:
    """The token of an invitation that an owner made."""
    owner = await sign_in(shop)
    made = await owner.post("/settings/users", {"role": role, "email": email})
    assert "Send this link" in made.text
    url = made.html.partition('data-copy="')[2].partition('"')[0]
    return token_of(url)


async def test_who_is_invited_makes_a_login_with_that_part_and_no_other(shop: Shop) -> None:
    token = await invited(shop)
    browser = Visitor(shop)
    assert "You are invited as support" in (await browser.get(f"/join?token={token}")).text
    form = FORM | {"token": token, "role": "owner"}
    assert (await browser.post("/join", form)).status == 303
    user = shop.house.office.point(find_user_by_email, EMAIL)
    assert user is not None
    assert shop.house.office.point(role_in, shop.account_id, user.id) is Role.SUPPORT
    again = await Visitor(shop).post("/join", form | {"email": "eve@example.com"})
    assert again.status == 404


async def test_an_invitation_for_an_email_is_for_that_one(shop: Shop) -> None:
    token = await invited(shop, EMAIL)
    stranger = await sign_in(
        shop, account_id=next(one for one in shop.house.accounts if one != shop.account_id)
    )
    refused = await stranger.post("/join/accept", {"token": token})
    assert refused.status == 403
    assert f"This invitation is for {EMAIL}" in refused.text
    await Visitor(shop).post("/join", FORM | {"token": token, "email": "eve@example.com"})
    assert shop.house.office.point(find_user_by_email, EMAIL) is not None
    assert shop.house.office.point(find_user_by_email, "eve@example.com") is None


async def test_who_has_a_login_joins_with_it(shop: Shop) -> None:
    token = await invited(shop)
    other = next(one for one in shop.house.accounts if one != shop.account_id)
    visitor = await sign_in(shop, account_id=other)
    assert "Join as" in (await visitor.get(f"/join?token={token}")).text
    assert (await visitor.post("/join/accept", {"token": token})).status == 303
    assert shop.house.office.point(role_in, shop.account_id, visitor.user_id) is Role.SUPPORT
    assert (await visitor.post("/account", {"account": shop.account_id})).status == 303


async def test_an_invitation_takes_nothing_away(shop: Shop) -> None:
    owner = await sign_in(shop)
    token = await invited(shop, role="viewer")
    assert (await owner.post("/join/accept", {"token": token})).status == 303
    assert shop.house.office.point(role_in, shop.account_id, owner.user_id) is Role.OWNER


async def test_nobody_takes_over_a_login_by_an_invitation(shop: Shop) -> None:
    await add_user(shop.house, shop.account_id, Role.OWNER, EMAIL, "hash of before")
    token = await invited(shop)
    found = await Visitor(shop).post("/join", FORM | {"token": token})
    assert found.status == 400
    assert "already" in found.text
    user = shop.house.office.point(find_user_by_email, EMAIL)
    assert user is not None
    assert user.password_hash == "hash of before"
    assert len([one for one in shop.house.office.point(list_members, shop.account_id)]) == 2
    assert (await Visitor(shop).get(f"/join?token={token}")).status == 200


async def test_a_new_password_ends_every_session_and_opens_the_door(shop: Shop) -> None:
    visitor = await sign_in(shop, email=EMAIL)
    await shop.house.office.write(set_app, visitor.user_id, b"sealed", 0)
    url = (await make_link(shop.house, "reset", user_id=visitor.user_id))["url"]
    browser = Visitor(shop)
    assert EMAIL in (await browser.get(path_of(url))).text
    assert (await browser.post("/reset", {"token": token_of(url), "password": "short"})).status == 400
    done = await browser.post("/reset", {"token": token_of(url), "password": PASSWORD})
    assert done.to == "/settings/security?first=1"
    assert (await visitor.get("/d/test/")).to.startswith("/login")
    assert not shop.house.office.point(factors_of, visitor.user_id).any
    assert len(shop.house.office.point(list_sessions, visitor.user_id, real_ms(shop.house))) == 1
    assert (await Visitor(shop).post("/login", {"email": EMAIL, "password": PASSWORD})).status == 303
    assert (await Visitor(shop).get(path_of(url))).status == 404


async def test_once_somebody_came_in_another_way_the_first_link_opens_nothing(shop: Shop) -> None:
    token = token_of((await make_link(shop.house, "setup"))["url"])
    await add_user(shop.house, shop.account_id)
    assert (await Visitor(shop).get(f"/setup?token={token}")).status == 404
    found = await Visitor(shop).post("/setup", FORM | {"token": token})
    assert found.status in (400, 404)
    assert shop.house.office.point(find_user_by_email, EMAIL) is None


async def test_two_first_persons_at_once_are_one(shop: Shop) -> None:
    import trio

    token = token_of((await make_link(shop.house, "setup"))["url"])
    found: list[int] = []

    async def one(number: int) -> None:
        form = FORM | {"token": token, "email": f"u{number}@example.com"}
        found.append((await Visitor(shop).post("/setup", form)).status)

    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(one, number)
    assert found.count(303) == 1

    def count(tx: Tx) -> int:
        return int(tx.execute("SELECT count(*) FROM users").fetchone()[0])

    assert shop.house.office.point(count) == 1


async def test_each_owner_sees_in_the_audit_that_a_login_was_reset(shop: Shop) -> None:
    accounts = [account.id for account in shop.house.office.point(list_accounts)][:2]
    owners = [await sign_in(shop, account_id=one) for one in accounts]
    user_id = await add_user(shop.house, accounts[0], email=EMAIL)
    await shop.house.office.write(
        put_membership, account_id=accounts[1], user_id=user_id, role=Role.VIEWER, actor="test", now_ms=0
    )
    url = (await make_link(shop.house, "reset", user_id=user_id))["url"]
    await Visitor(shop).post("/reset", {"token": token_of(url), "password": PASSWORD})
    for owner in owners:
        assert f"{EMAIL} password.reset {user_id}" in (await owner.get("/settings/audit")).text


async def test_of_two_who_use_a_link_to_reset_at_once_one_has_the_password(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    both, hash_now = trio.Event(), shop.house.passwords.hash

    async def hash_both(password: str) -> str:
        asked.append(password)
        if len(asked) == 2:
            both.set()
        await both.wait()
        return await hash_now(password)

    visitor = await sign_in(shop, email=EMAIL)
    monkeypatch.setattr(shop.house.passwords, "hash", hash_both)
    token = token_of((await make_link(shop.house, "reset", user_id=visitor.user_id))["url"])
    found: dict[str, int] = {}

    async def use(browser: Visitor, own: str, password: str) -> None:
        form = {"token": token, "password": password}
        found[password] = (await browser.post("/reset", form, token=own)).status

    async with trio.open_nursery() as nursery:
        for password in (PASSWORD, PASSWORD[::-1]):
            browser = Visitor(shop)
            nursery.start_soon(use, browser, await browser.token(), password)
    user = shop.house.office.point(find_user_by_email, EMAIL)
    assert user is not None
    counts = {one: await shop.house.passwords.verify(user.password_hash, one) for one in found}
    assert sorted(found.values()) == [303, 404]
    assert {one: status == 303 for one, status in found.items()} == counts


@pytest.mark.parametrize("text", ["a@b.example", " A@B.example ", "a@localhost", "a+b.c@d-e.example"])
def test_an_email_is_taken_in_lower_case(text: str) -> None:
    assert check_email(text) == text.strip().lower()


@pytest.mark.parametrize(
    "text", ["", "a", "a@", "@b.example", "a b@c.example", "a@b", "a@b\n.example", "é" * 300]
)
def test_what_is_no_email_is_refused(text: str) -> None:
    with pytest.raises(InvalidParams):
        check_email(text)


async def test_a_link_to_reset_opens_nothing_once_the_password_is_another_one(shop: Shop) -> None:
    visitor, other = await sign_in(shop), await sign_in(shop)
    url, others = [
        (await make_link(shop.house, "reset", user_id=one.user_id))["url"] for one in (visitor, other)
    ]
    assert (await visitor.post("/settings/security/password", {"password": PASSWORD})).status == 303
    found = await Visitor(shop).post("/reset", {"token": token_of(url), "password": "another mule battery"})
    assert (found.status, "used already, or is too old" in found.text) == (404, True)
    assert (await Visitor(shop).get(path_of(others))).status == 200
