"""The door: what lets a person in, what does not, and how long who fails has to wait."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pyotp
import pytest
import trio

from payd.core.roles import Role
from payd.core.totp import STEP_MS, make_recovery_codes, recovery_hash
from payd.entropy import new_id
from payd.store.db import Tx
from payd.store.second_factors import app_subject, factors_of, put_recovery_codes, set_app
from payd.store.sessions import list_sessions
from payd.store.sign_ins import list_sign_ins
from payd.store.tries import Who, forgive
from payd.store.users import put_membership, set_password
from payd.web.command import real_ms
from tests.shop import Shop, open_shop
from tests.visitor import Page, Visitor, add_user, sign_in

EMAIL, PASSWORD = "ada@example.com", "correct mule battery"
SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
CODES = make_recovery_codes(bytes(range(100)))


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "data") as opened:
        opened.ada = await add_user(  # type: ignore[attr-defined]
            opened.house,
            opened.account_id,
            email=EMAIL,
            password_hash=await opened.house.passwords.hash(PASSWORD),
        )
        yield opened


def ada(shop: Shop) -> str:
    return str(shop.ada)  # type: ignore[attr-defined]


async def with_app(shop: Shop) -> None:
    """Ada has an authenticator app and recovery codes."""
    sealed = shop.realm.seal.seal(SECRET.encode(), app_subject(ada(shop)))
    await shop.house.office.write(set_app, ada(shop), sealed, 0)
    hashes = [recovery_hash(ada(shop), one) for one in CODES]
    await shop.house.office.write(put_recovery_codes, ada(shop), hashes)


async def knock(
    shop: Shop, password: str = PASSWORD, email: str = EMAIL, browser: Visitor | None = None
) -> Page:
    return await (browser or Visitor(shop)).post("/login", {"email": email, "password": password})


def code(shop: Shop, steps: int = 0) -> str:
    return pyotp.TOTP(SECRET).generate_otp(real_ms(shop.house) // STEP_MS + steps)


async def test_the_door_is_open_to_strangers_and_tells_them_nothing(shop: Shop) -> None:
    found = await Visitor(shop).get("/login")
    assert found.status == 200
    assert "Sign in" in found.text
    assert found.html.count(shop.account_id) == 0


async def test_before_there_is_anybody_it_says_how_the_first_one_comes_in(shop: Shop) -> None:
    await shop.house.office.write(forget_everybody)
    found = await Visitor(shop).get("/login")
    assert "payd user setup-link" in found.text
    assert 'name="password"' not in found.html


def forget_everybody(tx: Tx) -> None:
    tx.execute("DELETE FROM users")


async def test_the_right_password_lets_in_and_nags_for_a_second_factor(shop: Shop) -> None:
    browser = Visitor(shop)
    assert (await knock(shop, browser=browser)).to == "/d/test/"
    home = await browser.get("/d/test/")
    assert EMAIL in home.text
    assert "Set up a second factor" in home.text


async def test_a_browser_that_keeps_no_cookie_of_the_door_is_told_where_it_does(shop: Shop) -> None:
    found = await Visitor(shop).post("/login", {"email": "a@example.com", "password": "x"}, token="0" * 64)
    assert found.status == 403
    assert "where its address begins with https://pay.example" in found.text
    here = Visitor(shop)
    await here.get("/login")
    stale = await here.post("/login", {"email": "a@example.com", "password": "x"}, token="0" * 64)
    assert (stale.status, "https://pay.example" in stale.text) == (403, False)


async def test_spaces_and_case_of_the_email_are_forgiven_and_those_of_the_password_not(shop: Shop) -> None:
    assert (await knock(shop, email=" ADA@Example.com ")).status == 303
    assert (await knock(shop, password=f"{PASSWORD} ")).status == 403


async def test_who_is_unknown_reads_as_who_is_wrong(shop: Shop) -> None:
    wrong, unknown = await knock(shop, "wrong"), await knock(shop, email="eve@example.com")
    assert (wrong.status, unknown.status) == (403, 403)
    alike = [page.text.replace(EMAIL, "").replace("eve@example.com", "") for page in (wrong, unknown)]
    assert alike[0] == alike[1]
    assert f'value="{EMAIL}"' in wrong.html
    assert "wrong" not in wrong.html.replace("the password is wrong", "")


async def test_who_is_unknown_costs_as_much(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []
    verify = shop.house.passwords.verify

    async def counting(password_hash: str | None, password: str) -> bool:
        asked.append(password_hash)
        return await verify(password_hash, password)

    monkeypatch.setattr(shop.house.passwords, "verify", counting)
    await knock(shop, email="eve@example.com")
    assert asked == [None]


@pytest.mark.parametrize("change", ["password", "gone"])
async def test_what_changes_while_a_password_is_checked_counts(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    verify = shop.house.passwords.verify

    async def changing(password_hash: str | None, password: str) -> bool:
        right = await verify(password_hash, password)
        if change == "gone":
            await shop.house.office.write(forget_everybody)
        else:
            await shop.house.office.write(set_password, ada(shop), "another hash", 0)
        return right

    monkeypatch.setattr(shop.house.passwords, "verify", changing)
    found = await knock(shop)
    assert (found.status, found.to) == (403, "")
    assert not shop.house.office.point(list_sessions, ada(shop), real_ms(shop.house))


async def test_a_code_lets_nobody_in_whose_password_was_changed_meanwhile(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_app(shop)
    browser = Visitor(shop)
    half = (await knock(shop, browser=browser)).hidden("half")
    note = forgive

    def changing(tx: Tx, whos: Sequence[Who]) -> None:
        set_password(tx, ada(shop), "another hash", 0)
        note(tx, whos)

    monkeypatch.setattr("payd.web.dashboard.entering.forgive", changing)
    found = await browser.post("/login/code", {"half": half, "code": code(shop)})
    assert (found.status, found.to) == (403, "")
    assert not shop.house.office.point(list_sessions, ada(shop), real_ms(shop.house))


async def test_it_leads_to_where_one_wanted_and_never_off_the_site(shop: Shop) -> None:
    for wanted, to in {
        "/d/test/?status=failed": "/d/test/?status=failed",
        "/settings/users": "/settings/users",
        "https://evil.example/d/": "/d/test/",
        "//evil.example/d/": "/d/test/",
        "/d//evil.example": "/d/test/",
        "/\\evil.example": "/d/test/",
        "/d/test/\r\nSet-Cookie: a=b": "/d/test/",
        "/login": "/d/test/",
    }.items():
        form = {"email": EMAIL, "password": PASSWORD, "next": wanted}
        assert (await Visitor(shop).post("/login", form)).to == to, wanted


async def test_who_fails_waits_longer_each_time_and_never_for_good(shop: Shop) -> None:
    waits = []
    for _ in range(8):
        found = await knock(shop, "wrong")
        if found.status == 429:
            waits.append(int(found.got.headers["retry-after"]))
            assert "Try again in" in found.text
            later(shop, waits[-1] * 1000)
            found = await knock(shop, "wrong")
        assert found.status == 403
    assert waits == [1, 2, 4]
    assert (await knock(shop)).status == 429
    later(shop, 8000)
    assert (await knock(shop)).status == 303
    assert (await knock(shop, "wrong")).status == 403


def later(shop: Shop, ms: int) -> None:
    """The wall clock moves, and nothing else."""
    wall = shop.realm.clock._wall
    shop.realm.clock._wall = lambda: wall() + ms


async def test_many_at_once_are_no_way_around_it(shop: Shop) -> None:
    found: list[int] = []

    async def one() -> None:
        found.append((await knock(shop, "wrong")).status)

    async with trio.open_nursery() as nursery:
        for _ in range(12):
            nursery.start_soon(one)
    assert sorted(found) == [403] * 5 + [429] * 7


async def test_strangers_do_not_keep_a_person_out_of_a_browser_they_used_before(shop: Shop) -> None:
    browser = Visitor(shop)
    await knock(shop, browser=browser)
    await browser.post("/logout")
    for _ in range(7):
        await knock(shop, "wrong")
    assert (await knock(shop)).status == 429
    assert (await knock(shop, browser=browser)).status == 303
    forged = Visitor(shop, cookies={"__Host-payd-known": "x." + "0" * 64})
    assert (await knock(shop, browser=forged)).status == 429
    hashed = await shop.house.passwords.hash(PASSWORD)
    await add_user(shop.house, shop.account_id, email="eve@example.com", password_hash=hashed)
    eves = Visitor(shop)
    await knock(shop, email="eve@example.com", browser=eves)
    assert (await knock(shop, browser=eves)).status == 429


async def test_strangers_at_ones_own_address_do_not_keep_a_person_out_either(shop: Shop) -> None:
    await with_app(shop)
    browser = Visitor(shop)
    half = (await knock(shop, browser=browser)).hidden("half")
    assert (await browser.post("/login/code", {"half": half, "code": code(shop)})).status == 303
    await browser.post("/logout")
    wait_s = 0
    while wait_s < 900:
        wait_s = int((await knock(shop, "wrong", new_id("", 0))).got.headers.get("retry-after", 0))
        later(shop, wait_s * 1000 if wait_s < 900 else STEP_MS)
    assert (await knock(shop)).status == 429

    half = (await knock(shop, browser=browser)).hidden("half")
    assert (await browser.post("/login/code", {"half": half, "code": code(shop)})).status == 303
    later(shop, 10 * 60_000)
    proved = await browser.post("/settings/security/codes", {"proof_password": PASSWORD})
    assert proved.status == 200


async def test_a_second_factor_is_asked_for_and_its_code_lets_in_once(shop: Shop) -> None:
    await with_app(shop)
    browser, now = Visitor(shop), code(shop)
    asked = await knock(shop, browser=browser)
    assert asked.status == 200
    assert "One more step" in asked.text
    assert (await browser.get("/d/test/")).to.startswith("/login")
    half = asked.hidden("half")
    wrong = await browser.post("/login/code", {"half": half, "code": "000000"})
    assert wrong.status == 403
    assert wrong.hidden("half") == half
    spaced = f"{now[:3]} {now[3:]}"
    assert (await browser.post("/login/code", {"half": half, "code": spaced})).to == "/d/test/"
    assert "Set up a second factor" not in (await browser.get("/d/test/")).text
    other = Visitor(shop)
    again = (await knock(shop, browser=other)).hidden("half")
    assert (await other.post("/login/code", {"half": again, "code": now})).status == 403
    assert (await other.post("/login/code", {"half": again, "code": code(shop, 1)})).status == 303


async def test_of_two_who_give_the_same_code_at_once_one_comes_in(shop: Shop) -> None:
    await with_app(shop)
    browsers = Visitor(shop), Visitor(shop)
    halves = [(await knock(shop, browser=one)).hidden("half") for one in browsers]
    tokens = [await one.token() for one in browsers]
    found: list[int] = []

    async def give(place: int) -> None:
        form = {"half": halves[place], "code": code(shop)}
        found.append((await browsers[place].post("/login/code", form, token=tokens[place])).status)

    async with trio.open_nursery() as nursery:
        for place in (0, 1):
            nursery.start_soon(give, place)
    assert sorted(found) == [303, 403]


async def test_a_recovery_code_lets_in_once_and_says_how_many_are_left(shop: Shop) -> None:
    await with_app(shop)
    browser = Visitor(shop)
    half = (await knock(shop, browser=browser)).hidden("half")
    on = await browser.post("/login/code", {"half": half, "code": CODES[3].upper().replace("-", " ")})
    assert "9 are left" in (await browser.get(on.to)).text
    assert shop.house.office.point(factors_of, ada(shop)).recovery_codes == 9
    other = Visitor(shop)
    half = (await knock(shop, browser=other)).hidden("half")
    assert (await other.post("/login/code", {"half": half, "code": CODES[3]})).status == 403


async def test_without_the_seal_key_of_before_recovery_codes_still_let_in(shop: Shop) -> None:
    await with_app(shop)
    await shop.house.office.write(set_app, ada(shop), b"sealed with another key", 0)
    browser = Visitor(shop)
    half = (await knock(shop, browser=browser)).hidden("half")
    assert (await browser.post("/login/code", {"half": half, "code": code(shop)})).status == 403
    assert (await browser.post("/login/code", {"half": half, "code": CODES[0]})).status == 303


async def test_guessing_codes_is_slowed_down_too(shop: Shop) -> None:
    await with_app(shop)
    browser = Visitor(shop)
    half = (await knock(shop, browser=browser)).hidden("half")
    found = [await browser.post("/login/code", {"half": half, "code": f"00000{n}"}) for n in range(6)]
    assert [one.status for one in found] == [403] * 5 + [429]
    fresh = Visitor(shop)
    half = (await knock(shop, browser=fresh)).hidden("half")
    assert (await fresh.post("/login/code", {"half": half, "code": code(shop)})).status == 429


async def test_half_a_way_in_is_one_browsers_one_passwords_and_short(shop: Shop) -> None:
    await with_app(shop)
    browser = Visitor(shop)
    half = (await knock(shop, browser=browser)).hidden("half")
    forged = half[:-1] + ("0" if half[-1] != "0" else "1")
    for other, value in ((Visitor(shop), half), (browser, forged), (browser, ""), (browser, "zz")):
        found = await other.post("/login/code", {"half": value, "code": code(shop)})
        assert found.status == 403
        assert "Start again with your password" in found.text
    await shop.house.office.write(set_password, ada(shop), "-", 1)
    assert (await browser.post("/login/code", {"half": half, "code": code(shop)})).status == 403
    await shop.house.office.write(set_password, ada(shop), await shop.house.passwords.hash(PASSWORD), 2)
    half = (await knock(shop, browser=browser)).hidden("half")
    later(shop, 600_000)
    assert (await browser.post("/login/code", {"half": half, "code": code(shop)})).status == 403


async def test_every_try_is_noted_with_how_and_from_where(shop: Shop) -> None:
    await knock(shop, "wrong")
    await knock(shop)
    found = shop.house.office.point(list_sign_ins, ada(shop), 10)
    assert [(one.way, one.outcome, one.ip) for one in found] == [
        ("password", "in", "203.0.113.7"),
        ("password", "refused", "203.0.113.7"),
    ]


async def test_signing_in_again_takes_the_place_of_the_session_before(shop: Shop) -> None:
    visitor = await sign_in(shop)
    before = dict(visitor.cookies)
    token = await visitor.token()
    form = {"email": EMAIL, "password": PASSWORD}
    assert (await visitor.post("/login", form, token=token)).status == 303
    assert (await Visitor(shop, cookies=before).get("/d/test/")).to.startswith("/login")


async def test_who_is_signed_in_goes_on(shop: Shop) -> None:
    assert (await (await sign_in(shop)).get("/login")).to == "/d/test/"


async def test_who_signs_out_is_out_with_the_same_token_too(shop: Shop) -> None:
    visitor = await sign_in(shop)
    before = dict(visitor.cookies)
    left = await visitor.post("/logout")
    assert (left.status, left.to) == (303, "/login")
    assert "__Host-payd-session" not in visitor.cookies
    assert "You are signed out." in (await visitor.get("/login")).text
    assert "You are signed out." not in (await visitor.get("/login")).text
    visitor.cookies = before
    assert (await visitor.get("/d/test/")).to.startswith("/login")


async def test_who_signs_out_is_out_in_this_browser_also_where_nothing_can_be_stored(shop: Shop) -> None:
    visitor = await sign_in(shop)
    token = await visitor.token()
    shop.house.office._failure = "disk full"
    left = await visitor.post("/logout", token=token)
    shop.house.office._failure = None
    assert (left.status, "disk full" in left.text) == (503, True)
    assert "__Host-payd-session" not in visitor.cookies


async def test_a_person_changes_to_another_account_of_theirs_and_to_no_other(shop: Shop) -> None:
    visitor = await sign_in(shop)
    other = next(one for one in shop.house.accounts if one != shop.account_id)
    assert (await visitor.post("/account", {"account": other})).status == 404
    await shop.house.office.write(
        put_membership,
        account_id=other,
        user_id=visitor.user_id,
        role=Role.VIEWER,
        actor="cli",
        now_ms=0,
    )
    token = await visitor.token()
    assert (await visitor.post("/account", {"account": other})).to == "/d/test/"
    shown = await visitor.get("/d/test/")
    assert f"{shop.house.accounts[other].name} · viewer" in shown.text
    stale = await visitor.post("/account", {"account": shop.account_id}, token=token)
    assert stale.status == 403
    assert "open for another account" in stale.text


async def test_a_page_that_is_loaded_meanwhile_does_not_change_the_account_back(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "live", live=True) as shop, trio.open_nursery() as nursery:
        visitor, office = await sign_in(shop), shop.house.office
        other = next(one for one in shop.house.accounts if one != shop.account_id)
        await office.write(
            put_membership, account_id=other, user_id=visitor.user_id, role=Role.OWNER, actor="cli", now_ms=1
        )
        form = {"account": other, "form_token": await visitor.token()}
        nursery.start_soon(visitor.post, "/account", form)
        while not (office._staged or office._batch):
            await trio.lowlevel.checkpoint()
        assert (await Visitor(shop, cookies={**visitor.cookies}).get("/d/live/payments")).status == 200
        [session] = office.point(list_sessions, visitor.user_id, real_ms(shop.house))
        assert session.account_id == other
