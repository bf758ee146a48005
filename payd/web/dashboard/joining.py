"""Links that let somebody in once: the first person of all, who was invited, who forgot the password.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

import msgspec

from payd.core.errors import Forbidden, InvalidParams, NotFound
from payd.core.password import check_password
from payd.core.roles import Role
from payd.core.version import DEFAULT
from payd.entropy import new_id
from payd.store.accounts import Account, insert_account, list_accounts
from payd.store.audit import insert_audit
from payd.store.db import Tx
from payd.store.links import Link, Purpose, find_link, use_link
from payd.store.second_factors import drop_factors
from payd.store.sessions import end_sessions
from payd.store.users import (
    User,
    accounts_of,
    find_user,
    insert_user,
    is_anyone,
    put_membership,
    role_in,
    set_password,
)
from payd.web.call import Answer
from payd.web.dashboard.cookies import is_token, token_hash
from payd.web.dashboard.entering import enter
from payd.web.dashboard.visit import Visit

GONE: Final = "This link was used already, or is too old. Ask for a new one."
EMAIL_MAX: Final = 254
_EMAIL: Final = re.compile(r"[^\s@]{1,64}@(localhost|[^\s@.]+(\.[^\s@.]+)+)")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


async def setup_page(visit: Visit) -> Answer:
    """GET /setup: the first person of all; the account that `payd init` made is taken over."""
    link = _link_in(visit, "setup")
    if visit.house.office.point(is_anyone):
        raise NotFound(GONE)
    accounts = visit.house.office.point(list_accounts)
    url = urlsplit(visit.house.base_url)
    return visit.page(
        "setup.html",
        token=_token(visit),
        accounts=", ".join(one.name for one in accounts),
        open_to_ears=url.scheme != "https" and url.hostname not in _LOOPBACK,
        email=link.email or "",
    )


async def setup(visit: Visit) -> Answer:
    """POST /setup: the person, who owns every account there is; without one, one is made.

    Raises:
        InvalidParams: The link is used or too old, or a field is unusable.
    """
    _link_in(visit, "setup")
    user = await _new_user(visit, visit.typed("email"))
    now_ms, entropy = visit.now_ms, visit.house.entropy
    fresh = Account(new_id("acct_", now_ms, entropy), visit.typed("account"), DEFAULT, now_ms)

    def step(tx: Tx) -> list[Account]:
        use_link(tx, "setup", _hash(visit), now_ms)
        if is_anyone(tx):
            raise InvalidParams(GONE)
        insert_user(tx, user)
        accounts = list_accounts(tx) or [insert_account(tx, fresh)]
        for one in accounts:
            put_membership(
                tx, account_id=one.id, user_id=user.id, role=Role.OWNER, actor=user.id, now_ms=now_ms
            )
        return accounts

    def tell(accounts: list[Account]) -> None:
        visit.house.accounts.update((one.id, one) for one in accounts)

    await visit.house.office.write_and_tell(tell, step)
    return await enter(visit, user, "link", "/settings/security?first=1")


async def join_page(visit: Visit) -> Answer:
    """GET /join: an invitation, for who is new and for who has a login already."""
    link = _link_in(visit, "invite")
    account = visit.house.accounts.get(link.account_id or "")
    token = _token(visit)
    return visit.page(
        "join.html",
        token=token,
        account="" if account is None else account.name,
        role="" if link.role is None else link.role.value,
        email=link.email or "",
        here=f"/join?token={token}",
    )


async def join(visit: Visit) -> Answer:
    """POST /join: a new person with a part in the account.

    Raises:
        InvalidParams: The link is used or too old, or a field is unusable, or the e-mail has a login already.
    """
    link = _link_in(visit, "invite")
    user = await _new_user(visit, link.email or visit.typed("email"))

    def step(tx: Tx) -> None:
        insert_user(tx, user)
        _take_part(tx, use_link(tx, "invite", _hash(visit), visit.now_ms), user, visit.now_ms)

    await visit.house.office.write(step)
    return await enter(visit, user, "link", "/settings/security?first=1")


async def accept(visit: Visit) -> Answer:
    """POST /join/accept: who is signed in takes the part.

    Raises:
        InvalidParams: The link is used or too old.
        Forbidden: It is for somebody else.
    """
    link = _link_in(visit, "invite")
    if link.email is not None and link.email != visit.user.email:
        raise Forbidden(f"This invitation is for {link.email}; you are signed in as {visit.user.email}.")

    def step(tx: Tx) -> None:
        used = use_link(tx, "invite", _hash(visit), visit.now_ms)
        before = role_in(tx, used.account_id or "", visit.user.id)
        if used.role is not None and (before is None or not before.includes(used.role)):
            _take_part(tx, used, visit.user, visit.now_ms)

    await visit.house.office.write(step)
    account = visit.house.accounts[link.account_id or ""]
    return visit.redirect(f"/d/{visit.mode}/", f"You are in {account.name} now; change to it in the menu.")


async def reset_page(visit: Visit) -> Answer:
    """GET /reset: a new password for who forgot it."""
    link = _link_in(visit, "reset")
    user = visit.house.office.point(find_user, link.user_id or "")
    if user is None:
        raise NotFound(GONE)
    token = _token(visit)
    return visit.page("reset.html", token=token, email=user.email)


async def reset(visit: Visit) -> Answer:
    """POST /reset: the new password; all sessions end, and the second factor is to be set up anew.

    Raises:
        InvalidParams: The link is used or too old, or the password is unusable.
    """
    link = _link_in(visit, "reset")
    user = visit.house.office.point(find_user, link.user_id or "")
    if user is None:
        raise InvalidParams(GONE)
    hashed = await new_password(visit, user.email)

    def step(tx: Tx) -> None:
        use_link(tx, "reset", _hash(visit), visit.now_ms)
        set_password(tx, user.id, hashed, visit.now_ms)
        drop_factors(tx, user.id)
        end_sessions(tx, user.id)
        for account_id, _ in accounts_of(tx, user.id):
            insert_audit(
                tx,
                at_ms=visit.now_ms,
                account_id=account_id,
                actor=user.id,
                act="password.reset",
                subject=user.id,
            )

    await visit.house.office.write(step)
    renewed = msgspec.structs.replace(user, password_hash=hashed, password_set_at_ms=visit.now_ms)
    return await enter(visit, renewed, "link", "/settings/security?first=1")


async def new_password(visit: Visit, email: str) -> str:
    """The hash of the password in a form.

    Raises:
        InvalidParams: It is one that is refused.
    """
    password = visit.secret("password")
    check_password(password, email)
    return await visit.house.passwords.hash(password)


def check_email(text: str) -> str:
    """An e-mail as it is stored.

    Raises:
        InvalidParams: It is none.
    """
    email = text.strip().lower()
    if len(email) > EMAIL_MAX or not email.isprintable() or _EMAIL.fullmatch(email) is None:
        raise InvalidParams("This is no e-mail address.")
    return email


async def _new_user(visit: Visit, email: str) -> User:
    email = check_email(email)
    hashed = await new_password(visit, email)
    user_id = new_id("usr_", visit.now_ms, visit.house.entropy)
    return User(user_id, email, hashed, visit.now_ms, None, visit.now_ms)


def _take_part(tx: Tx, link: Link, user: User, now_ms: int) -> None:
    assert link.account_id is not None, "an invitation"
    assert link.role is not None, "an invitation"
    put_membership(
        tx, account_id=link.account_id, user_id=user.id, role=link.role, actor=link.created_by, now_ms=now_ms
    )


def _token(visit: Visit) -> str:
    return visit.typed("token") or visit.query("token")


def _hash(visit: Visit) -> bytes:
    token = _token(visit)
    return token_hash(token if is_token(token) else "")


def _link_in(visit: Visit, purpose: Purpose) -> Link:
    link = visit.house.office.point(find_link, purpose, _hash(visit), visit.now_ms)
    if link is None:
        raise NotFound(GONE)
    return link
