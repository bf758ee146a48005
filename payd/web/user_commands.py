"""What an operator can do with the people of the dashboard, above all for those who are locked out.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from payd.core.errors import InvalidParams, InvalidState, NotFound
from payd.core.event import iso_ms
from payd.core.roles import Role
from payd.entropy import new_id
from payd.store.accounts import choose_account
from payd.store.links import LIFETIME_MS, Link, Purpose, insert_link
from payd.store.second_factors import factors_of
from payd.store.users import (
    User,
    accounts_of,
    find_user_by_email,
    is_anyone,
    list_users,
    remove_membership,
    role_in,
)
from payd.web.command import ACTOR, Args, Command, real_ms
from payd.web.dashboard.cookies import new_token, token_hash
from payd.web.dashboard.joining import check_email

if TYPE_CHECKING:
    from payd.web.house import House

PATHS: Final[dict[Purpose, str]] = {"setup": "/setup", "invite": "/join", "reset": "/reset"}


class _OfAccount(Args, frozen=True, kw_only=True):
    account: str | None = None


class _Invite(_OfAccount, frozen=True, kw_only=True):
    role: str
    email: str | None = None


class _Person(_OfAccount, frozen=True, kw_only=True):
    email: str


async def _list(house: House, _args: Args) -> Any:
    return [_user_wire(house, user) for user in await house.office.read(list_users)]


async def _setup_link(house: House, _args: Args) -> Any:
    if house.office.point(is_anyone):
        raise InvalidState(
            "There are users already: `payd user invite` lets another one in, `payd user reset` one who"
            " forgot the password."
        )
    return await make_link(house, "setup")


async def _invite(house: House, args: _Invite) -> Any:
    account = house.office.point(choose_account, args.account)
    try:
        role = Role(args.role)
    except ValueError:
        raise InvalidParams(f"A role is one of {', '.join(one.value for one in Role)}.") from None
    email = None if args.email is None else check_email(args.email)
    return await make_link(house, "invite", account_id=account.id, role=role, email=email)


async def _reset(house: House, args: _Person) -> Any:
    user = _person(house, args)
    return await make_link(house, "reset", user_id=user.id, email=user.email)


async def _remove(house: House, args: _Person) -> Any:
    user = _person(house, args)
    now_ms = real_ms(house)
    wanted = house.office.point(choose_account, args.account)
    if house.office.point(role_in, wanted.id, user.id) is None:
        raise NotFound(f"{user.email} is no user of {wanted.name}.")
    await house.office.write(
        remove_membership, account_id=wanted.id, user_id=user.id, actor=ACTOR, now_ms=now_ms
    )
    return {"email": user.email, "account": wanted.name}


async def make_link(
    house: House,
    purpose: Purpose,
    *,
    account_id: str | None = None,
    user_id: str | None = None,
    role: Role | None = None,
    email: str | None = None,
) -> dict[str, str]:
    """A link that opens once, and until when."""
    now_ms = real_ms(house)
    token = new_token(house.entropy, now_ms)
    link = Link(
        new_id("inv_", now_ms, house.entropy), purpose, account_id, user_id, role, email, ACTOR, now_ms,
        now_ms + LIFETIME_MS[purpose],
    )  # fmt: skip
    await house.office.write(insert_link, link, token_hash(token))
    url = f"{house.base_url}{PATHS[purpose]}?token={token}"
    return {"url": url, "expiresAt": iso_ms(link.expires_at_ms)}


def _person(house: House, args: _Person) -> User:
    user = house.office.point(find_user_by_email, args.email.strip().lower())
    if user is None:
        raise NotFound(f"There is no user {args.email}. `payd user list` shows those there are.")
    return user


def _user_wire(house: House, user: User) -> dict[str, Any]:
    factors = house.office.point(factors_of, user.id)
    roles = {
        name: role.value
        for account_id, name in house.office.point(accounts_of, user.id)
        if (role := house.office.point(role_in, account_id, user.id)) is not None
    }
    return {
        "id": user.id,
        "email": user.email,
        "accounts": roles,
        "secondFactor": factors.any,
        "createdAt": iso_ms(user.created_at_ms),
    }


USER_COMMANDS: Final[dict[str, Command]] = {
    "user.list": Command(Args, _list, changes=False),
    "user.setup_link": Command(Args, _setup_link),
    "user.invite": Command(_Invite, _invite),
    "user.reset": Command(_Person, _reset),
    "user.remove": Command(_Person, _remove),
}
"""The commands on people."""
