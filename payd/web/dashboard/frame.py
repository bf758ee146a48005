"""What stands around every page: the mode, the way to other pages, whose account it is.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from payd.core.roles import Permission
from payd.store.second_factors import factors_of
from payd.store.users import accounts_of
from payd.web.dashboard.as_labels import as_labels
from payd.web.dashboard.banners import Banner, banners_of
from payd.web.dashboard.cookies import new_token
from payd.web.html import root_of

if TYPE_CHECKING:
    from payd.web.dashboard.visit import Form, Visit

NAVIGATION: Final[tuple[tuple[str, str, Permission], ...]] = (
    ("", "Home", "view"),
    ("payments", "Payments", "view"),
    ("transfers", "Transfers", "view"),
    ("merchants", "Merchants", "view"),
    ("webhooks", "Webhooks", "view"),
    ("keys", "Keys", "manage_keys"),
    ("log", "Log", "view_log"),
)
"""The pages of a mode in the order in which they are shown: path, name, who sees it."""

SETTINGS: Final[tuple[tuple[str, str, Permission], ...]] = (
    ("/settings/account", "Settings", "change_settings"),
    ("/status", "Status", "view"),
    ("/settings/live", "Go live", "view"),
    ("/settings/security", "Security", "own_login"),
    ("/settings/sessions", "Sessions", "own_login"),
    ("/settings/users", "Users", "manage_users"),
    ("/settings/audit", "Audit log", "view_audit"),
)
"""The pages of no mode, in the account's menu."""


class Link(msgspec.Struct, frozen=True):
    """A way to a page; `current` when this is it or one below it."""

    href: str
    name: str
    current: bool


class Frame(msgspec.Struct, frozen=True):
    """What the templates know of a visit.

    Attributes:
        root: What every path begins with.
        home: The path of this mode's pages, with a slash at its end.
        mode: Of the page; None on pages of no mode.
        modes: The same home in each mode that runs.
        navigation: The pages of the mode.
        settings: The pages of the account and of the person.
        account: The name of the account; empty while nobody is signed in.
        accounts: Others that the person can change to, as ids and names.
        email: Who is signed in.
        needs_factor: Whether their password alone lets them in.
        role: Their part in the account.
        form_token: What every form carries.
        once: A new mark for each page: a form that is sent twice is known by it.
        banners: What goes wrong in the mode, whichever page one is on.
        flash: What the last form did, to be said once.
        refusal: Why the form that is shown again was refused.
        typed: What was typed into it.
    """

    root: str
    home: str
    mode: str | None
    modes: tuple[Link, ...]
    navigation: tuple[Link, ...]
    settings: tuple[Link, ...]
    account: str
    accounts: tuple[tuple[str, str], ...]
    email: str
    needs_factor: bool
    role: str
    form_token: str
    once: str
    banners: tuple[Banner, ...]
    flash: str
    refusal: str
    typed: dict[str, str]


def frame_of(visit: Visit) -> Frame:
    """The frame of a visit."""
    path, house = visit.request.path, visit.house
    home = f"/d/{visit.mode}/"
    in_mode = path.startswith("/d/")
    known = visit.signed_in is not None
    account = house.accounts.get(visit.account_id) if known else None
    others = house.office.point(accounts_of, visit.user.id) if known else []
    return Frame(
        root=root_of(house.base_url),
        home=visit.to(home),
        mode=visit.mode if in_mode else None,
        modes=tuple(
            Link(visit.to(f"/d/{name}/"), name.capitalize(), in_mode and name == visit.mode)
            for name in house.realms
        ),
        navigation=tuple(
            Link(visit.to(home + below), name, _is_current(path, home + below, home))
            for below, name, permission in NAVIGATION
            if known and visit.may(permission)
        ),
        settings=tuple(
            Link(visit.to(to), name, _is_current(path, to, home))
            for to, name, permission in SETTINGS
            if known and visit.may(permission)
        ),
        account="" if account is None else account.name,
        accounts=tuple(one for one in others if one[0] != visit.account_id),
        email=visit.user.email if known else "",
        needs_factor=known and not house.office.point(factors_of, visit.user.id).any,
        role=visit.role.value if known else "",
        form_token=visit.form_token,
        once=new_token(house.entropy, visit.now_ms),
        banners=banners_of(visit) if known else (),
        flash=visit.flash,
        refusal="" if visit.refusal is None else as_labels(visit.refusal),
        typed={} if visit.refusal is None else _shown_again(visit.form),
    )


def _is_current(path: str, of: str, home: str) -> bool:
    return path == of or (of != home and path.startswith(f"{of}/"))


# What is typed into these is never shown again.
_SECRET: Final = ("password", "code", "proof", "form_token", "once")


def _shown_again(form: Form) -> dict[str, str]:
    return {name: found[0] for name, found in form.items() if not name.startswith(_SECRET)}
