"""The door: signing in by password and second factor or by passkey, signing out, changing accounts.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from typing import Final

import msgspec
import structlog

from payd.core.errors import Forbidden, NotFound, SealBroken
from payd.core.totp import clean_code, matching_step, recovery_hash
from payd.store.second_factors import app_step, app_subject, factors_of, use_app, use_recovery_code
from payd.store.sessions import end_session, show_account
from payd.store.sign_ins import Way
from payd.store.users import User, accounts_of, find_user, find_user_by_email, is_anyone
from payd.web.call import Answer
from payd.web.dashboard.entering import begin, enter, next_of, note, passed, who_codes, who_tries
from payd.web.dashboard.passkeys import DOOR_MS, ask_for_one, check_one
from payd.web.dashboard.visit import Visit

log = structlog.get_logger("payd.dashboard")

SECOND_STEP_MS: Final = 10 * 60_000
WRONG: Final = "The e-mail or the password is wrong."
WRONG_CODE: Final = "This code is wrong, or was used already. Wait for the next one."
STARTED_ANEW: Final = "This took too long. Start again with your password."


class _Half(msgspec.Struct):
    """Who has shown a password and not yet the second factor."""

    user_id: str
    password_set_at_ms: int


async def login_page(visit: Visit) -> Answer:
    """GET /login: e-mail and password, or a passkey; who is signed in goes on."""
    if visit.signed_in is not None:
        return visit.redirect_raw(next_of(visit) or f"/d/{visit.mode}/")
    return visit.page(
        "login.html",
        next=next_of(visit),
        passkey=ask_for_one(visit),
        anyone=visit.house.office.point(is_anyone),
    )


async def login(visit: Visit) -> Answer:
    """POST /login: the password; on to the second factor where there is one.

    Raises:
        RateLimited: Too many tries.
        Forbidden: It is wrong; a person that does not exist takes as long and reads the same.
    """
    email = visit.typed("email").lower()
    user = visit.house.office.point(find_user_by_email, email)
    whos = who_tries(visit, email, user)
    await begin(visit, whos)
    known = None if user is None else user.password_hash
    right = await visit.house.passwords.verify(known, visit.secret("password"))
    if user is None or not right:
        await note(visit, user, email, "password", "refused")
        raise Forbidden(WRONG)
    await passed(visit, whos)
    if not visit.house.office.point(factors_of, user.id).any:
        return await enter(visit, user, "password")
    await note(visit, user, email, "password", "next")
    half = _Half(user.id, user.password_set_at_ms)
    return _second_step(visit, user, visit.seal_for_form("half", msgspec.json.encode(half)))


async def code_page(visit: Visit) -> Answer:
    """The second step again, after a code that was refused."""
    user = _half_in(visit)
    if user is None:
        return await login_page(visit)
    return _second_step(visit, user, visit.typed("half"))


async def code(visit: Visit) -> Answer:
    """POST /login/code: a code of the app, or a recovery code.

    Raises:
        RateLimited: Too many tries.
        Forbidden: It is wrong, or was used before.
    """
    user = _half_in(visit)
    if user is None:
        raise Forbidden(STARTED_ANEW)
    whos = who_codes(visit, user)
    await begin(visit, whos)
    way = await _use_code(visit, user, visit.typed("code"))
    if way is None:
        await note(visit, user, user.email, "code", "refused")
        raise Forbidden(WRONG_CODE)
    await passed(visit, whos)
    said = ""
    if way == "recovery":
        left = visit.house.office.point(factors_of, user.id).recovery_codes
        said = f"That recovery code is used up. {left} are left; make new ones under Security."
    return await enter(visit, user, way, said=said)


async def passkey(visit: Visit) -> Answer:
    """POST /login/passkey: both factors at once. Tries are not counted: nobody guesses one.

    Raises:
        Forbidden: It is unknown, or its answer is wrong.
    """
    found = await check_one(visit, visit.secret("passkey"), visit.typed("challenge"), DOOR_MS)
    user = visit.house.office.point(find_user, found.user_id)
    if user is None:
        raise Forbidden(WRONG)
    return await enter(visit, user, "passkey")


async def logout(visit: Visit) -> Answer:
    """POST /logout: the session is over, here and in the store; here also where nothing can be stored."""
    visit.set_cookies.append(visit.cookies.drop("session"))
    await visit.house.office.write(end_session, visit.user.id, visit.session.id)
    return visit.redirect("/login", "You are signed out.")


async def change_account(visit: Visit) -> Answer:
    """POST /account: show another account of this person; forms that are open elsewhere are refused."""
    wanted = visit.typed("account")
    if wanted not in dict(visit.house.office.point(accounts_of, visit.user.id)):
        raise NotFound("There is no such account.")
    await visit.house.office.write(show_account, visit.session.id, wanted)
    return visit.redirect(f"/d/{visit.mode}/")


def _second_step(visit: Visit, user: User, half: str) -> Answer:
    factors = visit.house.office.point(factors_of, user.id)
    ask = ask_for_one(visit, user) if factors.passkeys else None
    return visit.page("login_code.html", half=half, next=next_of(visit), app=factors.app, passkey=ask)


def _half_in(visit: Visit) -> User | None:
    """Who has shown the password a moment ago; None if that is long ago, or it is another one now."""
    opened = visit.open_from_form("half", visit.typed("half"), SECOND_STEP_MS)
    if opened is None:
        return None
    half = msgspec.json.decode(opened, type=_Half)
    user = visit.house.office.point(find_user, half.user_id)
    return user if user is not None and user.password_set_at_ms == half.password_set_at_ms else None


async def _use_code(visit: Visit, user: User, code: str) -> Way | None:
    """Use a code up; how it was one, or None if it is none."""
    office = visit.house.office
    secret = _app_secret(visit, user)
    if secret is not None:
        step = matching_step(secret, code, visit.now_ms, office.point(app_step, user.id))
        if step is not None:
            return "code" if await office.write(use_app, user.id, step) else None
    if not clean_code(code):
        return None
    used = await office.write(use_recovery_code, user.id, recovery_hash(user.id, code), visit.now_ms)
    return "recovery" if used else None


def _app_secret(visit: Visit, user: User) -> str | None:
    """What the person's app has; None without one. Without the seal key that it was sealed with, codes of the
    app are lost, and recovery codes are not.
    """
    if user.totp_sealed is None:
        return None
    try:
        return visit.open_secret(user.totp_sealed, app_subject(user.id))
    except SealBroken:
        log.error("door.seal_broken", user=user.id)
        return None
