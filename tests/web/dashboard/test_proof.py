"""A proof holds ten minutes; what it interrupts is kept, and goes on by itself once it is given."""

from __future__ import annotations

import re

import pytest

from payd.store.db import Tx
from payd.store.sessions import end_sessions, list_sessions
from payd.web.command import real_ms
from payd.web.dashboard.proof import FRESH_MS
from tests.shop import Shop
from tests.visitor import Page, Visitor, sign_in

PASSWORD = "correct mule battery"
INVITE = {"email": "new@example.com", "role": "support"}


async def person(shop: Shop, aged_ms: int = FRESH_MS) -> Visitor:
    """Somebody whose proof is so old."""
    visitor = await sign_in(shop, password_hash=await shop.house.passwords.hash(PASSWORD))

    def age(tx: Tx) -> None:
        mine = (aged_ms, visitor.user_id)
        tx.execute("UPDATE sessions SET proved_at_ms = proved_at_ms - ? WHERE user_id = ?", mine)

    await shop.house.office.write(age)
    return visitor


def kept(page: Page) -> dict[str, str]:
    """What the page that asks holds of the form before it."""
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page.html))


def invitations(shop: Shop) -> int:
    def count(tx: Tx) -> int:
        return int(tx.execute("SELECT count(*) FROM links").fetchone()[0])

    return shop.house.office.point(count)


async def test_a_proof_holds_ten_minutes(shop: Shop) -> None:
    fresh, stale = await person(shop, FRESH_MS - 60_000), await person(shop)
    assert "Send this link" in (await fresh.post("/settings/users", INVITE)).text
    assert "Confirm that it is you" in (await stale.post("/settings/users", INVITE)).text
    assert invitations(shop) == 1


async def test_a_proof_from_before_the_clock_was_set_right_holds_no_longer(shop: Shop) -> None:
    visitor = await person(shop, -FRESH_MS)
    assert "Confirm that it is you" in (await visitor.post("/settings/users", INVITE)).text
    assert invitations(shop) == 0


async def test_the_form_goes_on_once_the_password_is_right(shop: Shop) -> None:
    visitor = await person(shop)
    asked = await visitor.post("/settings/users", INVITE)
    form = kept(asked)
    assert {name: form[name] for name in INVITE} == INVITE
    wrong = await visitor.post("/settings/users", form | {"proof_password": "wrong"})
    assert wrong.status == 403
    assert "The password is wrong." in wrong.text
    assert kept(wrong)["email"] == INVITE["email"]
    assert invitations(shop) == 0
    before = dict(visitor.cookies)
    right = await visitor.post("/settings/users", form | {"proof_password": PASSWORD})
    assert right.status == 200
    assert "Send this link" in right.text
    assert invitations(shop) == 1
    assert visitor.cookies != before
    assert (await Visitor(shop, cookies=before).get("/d/test/")).to.startswith("/login")
    assert (await visitor.get("/d/test/")).status == 200
    assert len(shop.house.office.point(list_sessions, visitor.user_id, real_ms(shop.house))) == 1


async def test_what_was_typed_into_other_pages_still_holds_after_it(shop: Shop) -> None:
    visitor = await person(shop)
    elsewhere = await visitor.token()
    await visitor.post("/prove", {"proof_password": PASSWORD})
    assert (await visitor.post("/settings/users", INVITE, token=elsewhere)).status == 200


async def test_a_page_that_asks_is_come_back_to(shop: Shop) -> None:
    visitor = await person(shop)
    asked = await visitor.get("/settings/security/app")
    assert asked.status == 403
    assert 'action="/prove"' in asked.html
    on = await visitor.post("/prove", kept(asked) | {"proof_password": PASSWORD})
    assert on.to == "/settings/security/app"
    assert (await visitor.get(on.to)).status == 200


async def test_guessing_here_is_slowed_down_as_at_the_door(shop: Shop) -> None:
    visitor = await person(shop)
    found = [await visitor.post("/settings/users", INVITE | {"proof_password": "wrong"}) for _ in range(6)]
    assert [one.status for one in found] == [403] * 5 + [429]
    assert "Try again in" in found[-1].text
    assert kept(found[-1])["email"] == INVITE["email"]


async def test_a_session_that_is_ended_meanwhile_proves_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor = await person(shop)
    verify = shop.house.passwords.verify

    async def ending(password_hash: str | None, password: str) -> bool:
        await shop.house.office.write(end_sessions, visitor.user_id)
        return await verify(password_hash, password)

    monkeypatch.setattr(shop.house.passwords, "verify", ending)
    found = await visitor.post("/settings/users", INVITE | {"proof_password": PASSWORD})
    assert (found.status, "This session was ended" in found.text) == (403, True)
    assert invitations(shop) == 0


async def test_a_proof_is_never_shown_again(shop: Shop) -> None:
    visitor = await person(shop)
    found = await visitor.post("/settings/users", INVITE | {"proof_password": "my wrong secret"})
    assert "my wrong secret" not in found.html


async def test_a_passkey_of_nobody_is_no_proof(shop: Shop) -> None:
    visitor = await person(shop)
    for answer in ("{}", "nothing", '{"id":"AAAA"}'):
        found = await visitor.post("/settings/users", INVITE | {"proof_passkey": answer})
        assert found.status == 403
    assert invitations(shop) == 0
