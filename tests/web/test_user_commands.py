"""What an operator does with people, through the same commands as the command line."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from payd.core.errors import InvalidParams, InvalidState, NotFound, PaydError
from payd.core.roles import Role
from payd.store.audit import list_audit
from payd.store.users import find_user_by_email, put_membership
from payd.web.commands import run_command
from tests.shop import Shop
from tests.visitor import Visitor, add_user, sign_in

EMAIL = "ada@example.com"


async def do(shop: Shop, command: str, **args: str) -> Any:
    return msgspec.to_builtins(await run_command(shop.house, command, msgspec.json.encode(args)))


async def test_the_first_link_is_for_a_house_without_users(shop: Shop) -> None:
    made = await do(shop, "user.setup_link")
    assert made["url"].startswith("https://pay.example/setup?token=")
    assert (await Visitor(shop).get(made["url"].removeprefix("https://pay.example"))).status == 200
    await sign_in(shop)
    with pytest.raises(InvalidState, match="payd user reset"):
        await do(shop, "user.setup_link")


async def test_people_are_listed_with_their_parts(shop: Shop) -> None:
    assert await do(shop, "user.list") == []
    await add_user(shop.house, shop.account_id, Role.SUPPORT, EMAIL)
    [shown] = await do(shop, "user.list")
    name = shop.house.accounts[shop.account_id].name
    assert (shown["email"], shown["accounts"], shown["secondFactor"]) == (EMAIL, {name: "support"}, False)
    assert "password" not in str(shown)


async def test_an_invitation_is_for_one_account_and_one_part(shop: Shop) -> None:
    made = await do(shop, "user.invite", account=shop.account_id, role="support", email=" ADA@example.com")
    page = await Visitor(shop).get(made["url"].removeprefix("https://pay.example"))
    assert "You are invited as support" in page.text
    assert EMAIL in page.text
    wrong: tuple[tuple[dict[str, str], type[PaydError]], ...] = (
        ({"role": "support"}, InvalidParams),
        ({"role": "king", "account": shop.account_id}, InvalidParams),
        ({"role": "viewer", "account": "nobody"}, NotFound),
        ({"role": "viewer", "account": shop.account_id, "email": "x"}, InvalidParams),
    )
    for args, refusal in wrong:
        with pytest.raises(refusal):
            await do(shop, "user.invite", **args)


async def test_who_forgot_the_password_gets_a_link(shop: Shop) -> None:
    await add_user(shop.house, shop.account_id, Role.OWNER, EMAIL)
    made = await do(shop, "user.reset", email="Ada@Example.com")
    page = await Visitor(shop).get(made["url"].removeprefix("https://pay.example"))
    assert EMAIL in page.text
    with pytest.raises(NotFound, match="payd user list"):
        await do(shop, "user.reset", email="eve@example.com")


async def test_every_account_of_a_person_can_see_that_a_reset_was_given_out(shop: Shop) -> None:
    user_id = await add_user(shop.house, shop.account_id, Role.OWNER, EMAIL)
    other = next(one for one in shop.house.accounts if one != shop.account_id)
    await shop.house.office.write(
        put_membership, account_id=other, user_id=user_id, role=Role.VIEWER, actor="cli", now_ms=1
    )
    await do(shop, "user.reset", email=EMAIL)

    for account_id in (shop.account_id, other):
        [newest, *_] = shop.house.office.point(list_audit, account_id, None, 9)
        assert (newest.act, newest.subject) == ("link.reset", user_id)


async def test_a_person_is_removed_but_never_the_last_owner(shop: Shop) -> None:
    await add_user(shop.house, shop.account_id, Role.OWNER, "owner@example.com")
    await add_user(shop.house, shop.account_id, Role.VIEWER, EMAIL)
    await do(shop, "user.remove", email=EMAIL, account=shop.account_id)
    assert shop.house.office.point(find_user_by_email, EMAIL) is None
    with pytest.raises(InvalidParams, match="only owner"):
        await do(shop, "user.remove", email="owner@example.com", account=shop.account_id)
    other = next(one for one in shop.house.accounts if one != shop.account_id)
    with pytest.raises(NotFound):
        await do(shop, "user.remove", email="owner@example.com", account=other)
    acts = shop.house.office.point(list_audit, shop.account_id, None, 9)
    assert ("user.remove", "cli") in [(one.act, one.actor) for one in acts]
