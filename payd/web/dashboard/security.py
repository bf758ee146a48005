"""A person's own login: the password, the authenticator app, passkeys, recovery codes.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from payd.core.errors import Forbidden, InvalidParams, NotFound
from payd.core.totp import (
    RECOVERY_BYTES,
    RECOVERY_CODES,
    SECRET_BYTES,
    STEP_MS,
    link_for_app,
    make_recovery_codes,
    make_secret,
    matching_step,
    recovery_hash,
)
from payd.store.db import Tx
from payd.store.second_factors import (
    app_subject,
    drop_factors,
    factors_of,
    insert_passkey,
    list_passkeys,
    put_recovery_codes,
    remove_passkey,
    set_app,
)
from payd.store.sessions import end_sessions, has_session
from payd.store.users import set_password
from payd.web.call import Answer
from payd.web.dashboard.joining import new_password
from payd.web.dashboard.passkeys import ask_for_new, check_new
from payd.web.dashboard.visit import Visit
from payd.web.qr import draw_qr

T = TypeVar("T")

HERE: Final = "/settings/security"
APP_MS: Final = 3_600_000
"""So long a code that was scanned can be confirmed."""


class PasskeyLine(msgspec.Struct, frozen=True):
    """A passkey in the list."""

    id: str
    name: str
    created_at_ms: int
    used_at_ms: int | None


async def page(visit: Visit) -> Answer:
    """GET /settings/security: what there is, and what is missing."""
    office = visit.house.office
    lines = [
        PasskeyLine(one.id, one.name, one.created_at_ms, one.used_at_ms)
        for one in office.point(list_passkeys, visit.user.id)
    ]
    return visit.page(
        "security.html",
        factors=office.point(factors_of, visit.user.id),
        passkeys=lines,
        new_passkey=ask_for_new(visit),
        first=visit.query("first") == "1",
        here=HERE,
        password_set_at_ms=visit.user.password_set_at_ms,
    )


async def change_password(visit: Visit) -> Answer:
    """POST /settings/security/password: another one; all other sessions end."""
    hashed = await new_password(visit, visit.user.email)

    def step(tx: Tx) -> int:
        set_password(tx, visit.user.id, hashed, visit.now_ms)
        visit.audit(tx, "password.change", visit.user.id)
        return end_sessions(tx, visit.user.id, but=visit.session.id)

    ended = await _write(visit, step)
    return visit.redirect(HERE, f"Your password is changed. Other sessions that were ended: {ended}.")


async def app_page(visit: Visit) -> Answer:
    """GET /settings/security/app: a code to scan; after a refusal the same one again."""
    sealed = visit.typed("sealed")
    opened = visit.open_from_form("app", sealed, APP_MS)
    if opened is None:
        opened = make_secret(visit.house.entropy(SECRET_BYTES)).encode("ascii")
        sealed = visit.seal_for_form("app", opened)
    secret = opened.decode("ascii")
    issuer = f"payd {visit.house.accounts[visit.account_id].name}"
    spaced = " ".join(secret[at : at + 4] for at in range(0, len(secret), 4))
    qr = draw_qr(link_for_app(secret, visit.user.email, issuer))
    return visit.page("security_app.html", qr=qr, secret=spaced, sealed=sealed, here=HERE)


async def add_app(visit: Visit) -> Answer:
    """POST /settings/security/app: the first code shows that it works.

    Raises:
        InvalidParams: The code is wrong, or the page too old.
    """
    opened = visit.open_from_form("app", visit.typed("sealed"), APP_MS)
    if opened is None:
        raise InvalidParams("This took too long. Scan the new code.")
    step_used = matching_step(opened.decode("ascii"), visit.typed("code"), visit.now_ms, 0)
    if step_used is None:
        raise InvalidParams(
            "This code is wrong. Look whether the clock of your phone is right, and try the next."
        )
    sealed = visit.seal_secret(opened, app_subject(visit.user.id))

    def step(tx: Tx) -> None:
        set_app(tx, visit.user.id, sealed, step_used)
        visit.audit(tx, "totp.add", visit.user.id)

    await _write(visit, step)
    return await _after_first(visit, "Your authenticator app is set up.")


async def remove_app(visit: Visit) -> Answer:
    """POST /settings/security/app/remove: without it, what is left counts."""

    def step(tx: Tx) -> None:
        set_app(tx, visit.user.id, None, visit.now_ms // STEP_MS)
        visit.audit(tx, "totp.remove", visit.user.id)
        _forget_codes(tx, visit)

    await _write(visit, step)
    return visit.redirect(HERE, "The authenticator app is removed.")


async def add_passkey(visit: Visit) -> Answer:
    """POST /settings/security/passkeys: one that the device has just made.

    Raises:
        InvalidParams: It is not what was asked for, or there are too many.
    """
    made = await check_new(visit, visit.secret("passkey"), visit.typed("challenge"), visit.typed("name"))

    def step(tx: Tx) -> None:
        insert_passkey(tx, made)
        visit.audit(tx, "passkey.add", made.id)

    await _write(visit, step)
    return await _after_first(visit, "Your passkey is set up.")


async def drop_passkey(visit: Visit) -> Answer:
    """POST /settings/security/passkeys/remove: it opens nothing any more.

    Raises:
        NotFound: The person has no such passkey.
    """
    passkey_id = visit.typed("id")

    def step(tx: Tx) -> bool:
        if not remove_passkey(tx, visit.user.id, passkey_id):
            return False
        visit.audit(tx, "passkey.remove", passkey_id)
        _forget_codes(tx, visit)
        return True

    if not await _write(visit, step):
        raise NotFound("You have no such passkey.")
    return visit.redirect(HERE, "The passkey is removed.")


async def new_codes(visit: Visit) -> Answer:
    """POST /settings/security/codes: ten new recovery codes; those before open nothing any more.

    Raises:
        Forbidden: There is no second factor whose place they could take.
    """
    if not visit.house.office.point(factors_of, visit.user.id).any:
        raise Forbidden("Set up an authenticator app or a passkey first.")
    return await _show_codes(visit, "These take the place of the ones before.")


async def _after_first(visit: Visit, said: str) -> Answer:
    """Where there are no recovery codes yet, they come with the first second factor."""
    if visit.house.office.point(factors_of, visit.user.id).recovery_codes:
        return visit.redirect(HERE, said)
    return await _show_codes(visit, said)


async def _show_codes(visit: Visit, said: str) -> Answer:
    codes = make_recovery_codes(visit.house.entropy(RECOVERY_CODES * RECOVERY_BYTES))

    def step(tx: Tx) -> None:
        put_recovery_codes(tx, visit.user.id, [recovery_hash(visit.user.id, one) for one in codes])
        visit.audit(tx, "recovery.make", visit.user.id)

    await _write(visit, step)
    return visit.page("security_codes.html", codes=codes, said=said)


async def _write(visit: Visit, step: Callable[[Tx], T]) -> T:
    """Do it if the session is still there: who ends sessions, as by a new password, locks somebody out.

    Raises:
        Forbidden: It was ended meanwhile.
    """

    def checked(tx: Tx) -> T:
        if not has_session(tx, visit.session.id):
            raise Forbidden("This session was ended. Sign in again.")
        return step(tx)

    return await visit.house.office.write(checked)


def _forget_codes(tx: Tx, visit: Visit) -> None:
    """Recovery codes stand for a second factor; without any, they stand for nothing."""
    if not factors_of(tx, visit.user.id).any:
        drop_factors(tx, visit.user.id)
