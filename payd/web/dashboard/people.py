"""Who may work in an account, and the one-time links by which more come: payd sends no e-mail.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from typing import Final

import msgspec

from payd.core.errors import Forbidden, InvalidParams, NotFound
from payd.core.roles import Role, may
from payd.entropy import new_id
from payd.store.db import Tx
from payd.store.links import LIFETIME_MS, Link, insert_link, list_invitations, take_back
from payd.store.second_factors import users_with_factor
from payd.store.users import list_members, names_of, put_membership, remove_membership, role_in
from payd.web.call import Answer
from payd.web.dashboard.audit import called
from payd.web.dashboard.cookies import new_token, token_hash
from payd.web.dashboard.joining import check_email
from payd.web.dashboard.visit import Visit

HERE: Final = "/settings/users"

ROLES: Final = (
    ("viewer", "Viewer – sees payments, merchants and webhooks"),
    ("support", "Support – also creates, cancels and refunds payments, and resends webhooks"),
    ("developer", "Developer – also test keys, webhooks, merchants"),
    ("owner", "Owner – everything: destinations, live keys, users"),
)
"""Each role by what it is for."""


class PersonLine(msgspec.Struct, frozen=True):
    """One person of the account."""

    id: str
    email: str
    role: str
    since_ms: int
    factor: bool
    this: bool


class InvitationLine(msgspec.Struct, frozen=True):
    """One invitation that is open."""

    id: str
    email: str
    role: str
    by: str
    expires_at_ms: int


async def page(visit: Visit) -> Answer:
    """GET /settings/users: people and invitations."""
    return _page(visit, "")


async def invite(visit: Visit) -> Answer:
    """POST /settings/users: a link for one more person, shown this once.

    Raises:
        InvalidParams: The role or the e-mail is none, or there are too many invitations.
    """
    role = _role(visit)
    email = check_email(visit.typed("email")) if visit.typed("email") else None
    token = new_token(visit.house.entropy, visit.now_ms)
    link = Link(
        new_id("inv_", visit.now_ms, visit.house.entropy), "invite", visit.account_id, None, role, email,
        visit.actor, visit.now_ms, visit.now_ms + LIFETIME_MS["invite"],
    )  # fmt: skip

    def step(tx: Tx) -> None:
        _check_may(tx, visit)
        insert_link(tx, link, token_hash(token))

    await visit.house.office.write(step)
    return _page(visit, f"{visit.house.base_url}/join?token={token}")


async def uninvite(visit: Visit) -> Answer:
    """POST /settings/users/uninvite: the link opens nothing any more.

    Raises:
        NotFound: The account has no such invitation.
    """
    gone = await visit.house.office.write(
        take_back,
        account_id=visit.account_id,
        link_id=visit.typed("id"),
        actor=visit.actor,
        now_ms=visit.now_ms,
    )
    if not gone:
        raise NotFound("There is no such invitation any more.")
    return visit.redirect(HERE, "The invitation is taken back.")


async def change_role(visit: Visit) -> Answer:
    """POST /settings/users/role: another part for somebody, at once.

    Raises:
        NotFound: The account has no such user.
        InvalidParams: The account would be left without an owner.
    """
    user_id, role = visit.typed("id"), _role(visit)

    def step(tx: Tx) -> None:
        _check_may(tx, visit)
        if role_in(tx, visit.account_id, user_id) is None:
            raise NotFound("There is no such user in this account.")
        put_membership(
            tx,
            account_id=visit.account_id,
            user_id=user_id,
            role=role,
            actor=visit.actor,
            now_ms=visit.now_ms,
        )

    await visit.house.office.write(step)
    return visit.redirect(HERE, "The role is changed.")


async def remove(visit: Visit) -> Answer:
    """POST /settings/users/remove: somebody is out of the account, and their sessions in it end.

    Raises:
        NotFound: The account has no such user.
        InvalidParams: The account would be left without an owner.
    """

    def step(tx: Tx) -> None:
        _check_may(tx, visit)
        remove_membership(
            tx,
            account_id=visit.account_id,
            user_id=visit.typed("id"),
            actor=visit.actor,
            now_ms=visit.now_ms,
        )

    await visit.house.office.write(step)
    return visit.redirect(HERE, "The user is removed.")


def _check_may(tx: Tx, visit: Visit) -> None:
    """Refuse who was let in to the page, and is no owner any more now that it counts.

    Raises:
        Forbidden: Another owner was faster.
    """
    role = role_in(tx, visit.account_id, visit.actor)
    if role is None or not may(role, "manage_users"):
        raise Forbidden("You are no owner of this account any more.")


def _page(visit: Visit, made: str) -> Answer:
    office = visit.house.office
    members = office.point(list_members, visit.account_id)
    invitations = office.point(list_invitations, visit.account_id, visit.now_ms)
    names = office.point(names_of, sorted({one.created_by for one in invitations}))
    with_factor = office.point(users_with_factor, visit.account_id)
    people = [
        PersonLine(
            one.user.id, one.user.email, one.role.value, one.since_ms, one.user.id in with_factor,
            one.user.id == visit.user.id,
        )
        for one in members
    ]  # fmt: skip
    waiting = [
        InvitationLine(
            one.id, one.email or "whoever has the link", one.role.value if one.role else "",
            called(one.created_by, names), one.expires_at_ms,
        )
        for one in invitations
    ]  # fmt: skip
    return visit.page("people.html", people=people, invitations=waiting, made=made, roles=ROLES, here=HERE)


def _role(visit: Visit) -> Role:
    try:
        return Role(visit.typed("role"))
    except ValueError:
        raise InvalidParams("Choose a role.") from None
