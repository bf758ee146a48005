"""Who may work in an account: let in, given another part, taken out."""

from __future__ import annotations

import msgspec
import trio

from payd.core.roles import Role
from payd.store.audit import list_audit
from payd.store.links import list_invitations
from payd.store.users import find_user, put_membership, role_in
from payd.web.command import real_ms
from payd.web.commands import run_command
from tests.shop import Shop
from tests.visitor import Page, Visitor, add_user, sign_in

HERE = "/settings/users"


def role(shop: Shop, user_id: str) -> Role | None:
    return shop.house.office.point(role_in, shop.account_id, user_id)


async def test_a_link_is_shown_once_and_can_be_taken_back(shop: Shop) -> None:
    owner = await sign_in(shop)
    made = await owner.post(HERE, {"role": "viewer", "email": "new@example.com"})
    assert "/join?token=" in made.html
    page = await owner.get(HERE)
    assert "new@example.com" in page.text
    assert "/join?token=" not in page.html
    [waiting] = shop.house.office.point(list_invitations, shop.account_id, real_ms(shop.house))
    assert (await owner.post(f"{HERE}/uninvite", {"id": waiting.id})).status == 303
    assert (await owner.post(f"{HERE}/uninvite", {"id": waiting.id})).status == 404
    assert not shop.house.office.point(list_invitations, shop.account_id, real_ms(shop.house))


async def test_an_invitation_of_the_command_line_says_so(shop: Shop) -> None:
    wanted = msgspec.json.encode({"account": shop.account_id, "role": "viewer"})
    await run_command(shop.house, "user.invite", wanted)
    assert "whoever has the link viewer the command line" in (await (await sign_in(shop)).get(HERE)).text


async def test_a_role_counts_from_the_next_page_on(shop: Shop) -> None:
    owner, other = await sign_in(shop), await sign_in(shop, Role.OWNER)
    assert (await other.get(HERE)).status == 200
    assert (await owner.post(f"{HERE}/role", {"id": other.user_id, "role": "viewer"})).status == 303
    assert role(shop, other.user_id) is Role.VIEWER
    assert (await other.get(HERE)).status == 403


async def test_who_is_removed_is_out_at_once_and_forgotten(shop: Shop) -> None:
    owner, other = await sign_in(shop), await sign_in(shop, Role.DEVELOPER)
    assert (await owner.post(f"{HERE}/remove", {"id": other.user_id})).status == 303
    assert (await other.get("/d/test/")).to.startswith("/login")
    assert shop.house.office.point(find_user, other.user_id) is None


async def test_who_was_an_owner_comes_back_by_no_invitation_of_their_own(shop: Shop) -> None:
    owner = await sign_in(shop)
    kept = link_in(await owner.post(HERE, {"role": "viewer"}))
    for path, form in ((f"{HERE}/remove", {}), (f"{HERE}/role", {"role": "support"})):
        other = await sign_in(shop)
        link = link_in(await other.post(HERE, {"role": "owner"}))
        assert (await Visitor(shop).get(link)).status == 200
        assert (await owner.post(path, {"id": other.user_id} | form)).status == 303
        assert (await Visitor(shop).get(link)).status == 404
        [said, *_] = shop.house.office.point(list_audit, shop.account_id, None, 1)
        assert said.details["invitationsTakenBack"] == "1"
    assert (await Visitor(shop).get(kept)).status == 200


async def test_who_is_removed_while_their_role_changes_stays_out(shop: Shop) -> None:
    owner, second = await sign_in(shop), await sign_in(shop)
    other = await sign_in(shop, Role.VIEWER)
    elsewhere = next(one for one in shop.house.accounts if one != shop.account_id)
    await shop.house.office.write(
        put_membership,
        account_id=elsewhere,
        user_id=other.user_id,
        role=Role.VIEWER,
        actor="test",
        now_ms=real_ms(shop.house),
    )
    found: list[int] = []

    async def post(visitor: Visitor, path: str) -> None:
        found.append((await visitor.post(f"{HERE}/{path}", form, token=tokens[visitor.user_id])).status)

    form = {"id": other.user_id, "role": "owner"}
    tokens = {one.user_id: await one.token() for one in (owner, second)}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(post, owner, "remove")
        nursery.start_soon(post, second, "role")
    assert 303 in found
    assert {*found} <= {303, 404}
    assert role(shop, other.user_id) is None


async def test_of_two_owners_who_remove_each_other_one_stays_and_the_other_does_nothing_more(
    shop: Shop,
) -> None:
    await sign_in(shop)  # a third owner, or the last one could not go anyway
    owners = [await sign_in(shop) for _ in range(2)]
    tokens = [await one.token() for one in owners]

    async def post(place: int, path: str, form: dict[str, str]) -> None:
        await owners[place].post(f"{HERE}{path}", form, token=tokens[place])

    async with trio.open_nursery() as nursery:
        for place in (0, 1):
            nursery.start_soon(post, place, "/remove", {"id": owners[1 - place].user_id})
            nursery.start_soon(post, place, "", {"role": "owner"})
    stayed = [one.user_id for one in owners if role(shop, one.user_id) is Role.OWNER]
    assert len(stayed) == 1
    links = shop.house.office.point(list_invitations, shop.account_id, real_ms(shop.house))
    assert {one.created_by for one in links} <= {*stayed}


async def test_of_two_owners_who_make_each_other_less_one_stays(shop: Shop) -> None:
    await sign_in(shop)
    owners = [await sign_in(shop) for _ in range(2)]
    tokens = [await one.token() for one in owners]

    async def post(place: int) -> None:
        form = {"id": owners[1 - place].user_id, "role": "viewer"}
        await owners[place].post(f"{HERE}/role", form, token=tokens[place])

    async with trio.open_nursery() as nursery:
        for place in (0, 1):
            nursery.start_soon(post, place)
    assert sorted(role(shop, one.user_id) is Role.OWNER for one in owners) == [False, True]


def link_in(page: Page) -> str:
    """The path of the invitation that a page shows."""
    return page.html.partition('data-copy="')[2].partition('"')[0].removeprefix("https://pay.example")


async def test_the_last_owner_can_neither_go_nor_be_less(shop: Shop) -> None:
    owner = await sign_in(shop)
    await sign_in(shop, Role.DEVELOPER)
    for path, form in ((f"{HERE}/remove", {}), (f"{HERE}/role", {"role": "developer"})):
        found = await owner.post(path, {"id": owner.user_id} | form)
        assert found.status == 400
        assert "only owner" in found.text
    assert role(shop, owner.user_id) is Role.OWNER


async def test_people_of_another_account_are_not_seen_and_not_touched(shop: Shop) -> None:
    owner = await sign_in(shop)
    other = next(one for one in shop.house.accounts if one != shop.account_id)
    stranger = await add_user(shop.house, other, Role.DEVELOPER, "stranger@example.com")
    assert "stranger" not in (await owner.get(HERE)).text
    for path in ("role", "remove"):
        assert (await owner.post(f"{HERE}/{path}", {"id": stranger, "role": "viewer"})).status == 404
    assert shop.house.office.point(role_in, other, stranger) is Role.DEVELOPER


async def test_a_role_that_there_is_not_is_refused(shop: Shop) -> None:
    owner, other = await sign_in(shop), await sign_in(shop, Role.VIEWER)
    assert (await owner.post(HERE, {"role": "king"})).status == 400
    assert (await owner.post(f"{HERE}/role", {"id": other.user_id, "role": ""})).status == 400


async def test_all_of_it_is_in_the_audit_with_who_did_it(shop: Shop) -> None:
    owner, other = await sign_in(shop), await sign_in(shop, Role.VIEWER)
    await owner.post(HERE, {"role": "viewer"})
    await owner.post(f"{HERE}/role", {"id": other.user_id, "role": "support"})
    await owner.post(f"{HERE}/remove", {"id": other.user_id})
    acts = shop.house.office.point(list_audit, shop.account_id, None, 20)
    assert [one.act for one in acts if one.actor == owner.user_id] == [
        "user.remove",
        "user.role",
        "link.invite",
    ]


async def test_only_owners_come_here(shop: Shop) -> None:
    developer: Visitor = await sign_in(shop, Role.DEVELOPER)
    assert (await developer.get(HERE)).status == 403
    assert "Users" not in (await developer.get("/d/test/")).text
