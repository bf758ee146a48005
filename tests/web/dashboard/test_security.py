"""A person's own login: password, app, recovery codes; passkeys have a file of their own."""

from __future__ import annotations

import re

import pyotp
import pytest

from payd.core.totp import STEP_MS
from payd.store.audit import list_audit
from payd.store.seal import Seal
from payd.store.sealed import closed_kinds
from payd.store.second_factors import app_step, factors_of
from payd.store.sessions import end_sessions
from payd.store.users import find_user
from payd.web.command import real_ms
from payd.web.dashboard import dispatch
from payd.web.dashboard.routes import Page as Route
from payd.web.dashboard.visit import Visit
from tests.shop import Shop
from tests.visitor import Page, Visitor, add_session, sign_in

HERE = "/settings/security"
PASSWORD = "correct mule battery"


def code(shop: Shop, page: Page, steps: int = 0) -> str:
    """What an app shows that scanned the page."""
    found = re.search(r'<code id="secret">([^<]+)</code>', page.html)
    assert found is not None
    secret = found[1].replace(" ", "")
    return pyotp.TOTP(secret).generate_otp(real_ms(shop.house) // STEP_MS + steps)


async def set_up(shop: Shop, visitor: Visitor) -> list[str]:
    """An app, and the recovery codes that came with it."""
    page = await visitor.get(f"{HERE}/app")
    form = {"sealed": page.hidden("sealed"), "code": code(shop, page)}
    shown = await visitor.post(f"{HERE}/app", form)
    return re.findall("<code>([a-z2-7]{4}(?:-[a-z2-7]{4}){3})</code>", shown.html)


async def test_an_app_is_on_once_its_first_code_is_right_and_brings_recovery_codes(shop: Shop) -> None:
    visitor = await sign_in(shop)
    page = await visitor.get(f"{HERE}/app")
    sealed = page.hidden("sealed")
    wrong = await visitor.post(f"{HERE}/app", {"sealed": sealed, "code": "000000"})
    assert wrong.status == 400
    assert code(shop, wrong) == code(shop, page)
    assert not shop.house.office.point(factors_of, visitor.user_id).any
    codes = await set_up(shop, visitor)
    assert len({*codes}) == 10
    used = shop.house.office.point(app_step, visitor.user_id)
    assert real_ms(shop.house) // STEP_MS - used <= 1, "that code is used up"
    assert shop.house.office.point(factors_of, visitor.user_id) == (True, 0, 10)


async def test_a_look_at_what_the_seal_key_opens_finds_nothing_wrong_with_an_app(shop: Shop) -> None:
    await set_up(shop, await sign_in(shop))
    office = shop.house.office
    assert office.point(closed_kinds, "office", shop.realm.seal) == []
    assert office.point(closed_kinds, "office", Seal(bytes(32))) == ["authenticator apps of people"]


async def test_the_apps_secret_is_sealed_at_rest_and_never_in_the_page_afterwards(shop: Shop) -> None:
    visitor = await sign_in(shop)
    page = await visitor.get(f"{HERE}/app")
    secret = re.search(r'<code id="secret">([^<]+)</code>', page.html)[1].replace(" ", "")  # type: ignore[index]
    await visitor.post(f"{HERE}/app", {"sealed": page.hidden("sealed"), "code": code(shop, page)})
    user = shop.house.office.point(find_user, visitor.user_id)
    assert user is not None
    assert user.totp_sealed is not None
    assert secret.encode() not in user.totp_sealed
    assert secret not in (await visitor.get(HERE)).html
    assert secret not in (await visitor.get(f"{HERE}/app")).html


async def test_a_page_of_another_session_sets_up_nothing(shop: Shop) -> None:
    one, other = await sign_in(shop), await sign_in(shop)
    page = await one.get(f"{HERE}/app")
    found = await other.post(f"{HERE}/app", {"sealed": page.hidden("sealed"), "code": code(shop, page)})
    assert found.status == 400
    assert not shop.house.office.point(factors_of, other.user_id).any


async def test_new_codes_take_the_place_of_those_before_and_are_shown_once(shop: Shop) -> None:
    visitor = await sign_in(shop)
    before = await set_up(shop, visitor)
    shown = await visitor.post(f"{HERE}/codes")
    after = re.findall("<code>([a-z2-7]{4}(?:-[a-z2-7]{4}){3})</code>", shown.html)
    assert len(after) == 10
    assert not {*before} & {*after}
    assert after[0] not in (await visitor.get(HERE)).html


async def test_codes_without_a_second_factor_would_stand_for_nothing(shop: Shop) -> None:
    visitor = await sign_in(shop)
    assert (await visitor.post(f"{HERE}/codes")).status == 403
    await set_up(shop, visitor)
    assert (await visitor.post(f"{HERE}/app/remove")).status == 303
    assert shop.house.office.point(factors_of, visitor.user_id) == (False, 0, 0)


async def test_a_new_password_ends_the_other_sessions_and_keeps_this_one(shop: Shop) -> None:
    visitor = await sign_in(shop)
    elsewhere = await add_session(shop.house, visitor.user_id, shop.account_id)
    done = await visitor.post(f"{HERE}/password", {"password": PASSWORD})
    assert "ended: 1" in (await visitor.get(done.to)).text
    stale = Visitor(shop, cookies={"__Host-payd-session": elsewhere})
    assert (await stale.get("/d/test/")).to.startswith("/login")
    user = shop.house.office.point(find_user, visitor.user_id)
    assert user is not None
    assert await shop.house.passwords.verify(user.password_hash, PASSWORD)
    assert PASSWORD not in user.password_hash


async def test_a_bad_password_is_refused_with_words_and_never_shown(shop: Shop) -> None:
    visitor = await sign_in(shop)
    for bad in ("short", "password12345", "aaaaaaaaaaaa"):
        found = await visitor.post(f"{HERE}/password", {"password": bad})
        assert found.status == 400
        assert bad not in found.html


async def test_a_session_that_is_ended_meanwhile_changes_nothing_any_more(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor = await sign_in(shop)
    await set_up(shop, visitor)
    office, store_use = shop.house.office, dispatch._touch

    async def end_it(visit: Visit, page: Route) -> None:
        await store_use(visit, page)
        if page.method == "POST":
            await office.write(end_sessions, visitor.user_id)

    monkeypatch.setattr(dispatch, "_touch", end_it)
    before = office.point(find_user, visitor.user_id), office.point(factors_of, visitor.user_id)
    for act in ("password", "app/remove", "codes"):
        visitor.cookies = {
            "__Host-payd-session": await add_session(shop.house, visitor.user_id, shop.account_id)
        }
        refused = await visitor.post(f"{HERE}/{act}", {"password": PASSWORD})
        assert (refused.status, "This session was ended" in refused.text) == (403, True), act
    assert (office.point(find_user, visitor.user_id), office.point(factors_of, visitor.user_id)) == before


async def test_each_of_it_is_in_the_audit(shop: Shop) -> None:
    visitor = await sign_in(shop)
    await set_up(shop, visitor)
    await visitor.post(f"{HERE}/password", {"password": PASSWORD})
    await visitor.post(f"{HERE}/app/remove")
    acts = shop.house.office.point(list_audit, shop.account_id, None, 10)
    assert [one.act for one in acts if one.actor == visitor.user_id] == [
        "totp.remove",
        "password.change",
        "recovery.make",
        "totp.add",
    ]


async def test_a_passkey_of_somebody_else_is_not_removed(shop: Shop) -> None:
    visitor = await sign_in(shop)
    assert (await visitor.post(f"{HERE}/passkeys/remove", {"id": "pky_other"})).status == 404
