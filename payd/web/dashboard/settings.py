"""Settings: the account's own, the way to those of each merchant, and what payd.toml says that people meet.

Pages show payd.toml and do not write it: who may sign in here is not who runs the server.

Source: DESIGN.md, "11. Pages"; DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

import msgspec

from payd.core.ids import Realm as Mode
from payd.core.version import newer_stable
from payd.store.merchants import list_merchants
from payd.web.account_commands import move, rename
from payd.web.call import Answer
from payd.web.checkout.words import LANGUAGES
from payd.web.dashboard.visit import Visit
from payd.web.house import Setting

HERE: Final = "/settings/account"
MERCHANTS_SHOWN: Final = 20
"""Of each mode; the page of merchants has the rest."""


class Group(msgspec.Struct, frozen=True):
    """The keys of one section, by their names in it."""

    section: str
    keys: tuple[Setting, ...]


class MerchantLink(msgspec.Struct, frozen=True):
    """A merchant, whose own page has its settings."""

    name: str
    mode: str
    href: str


async def page(visit: Visit) -> Answer:
    """GET /settings/account: what the account is, and the configuration as it is in effect."""
    account, house = visit.house.accounts[visit.account_id], visit.house
    values = {one.name: one.value for one in house.settings}
    return visit.page(
        "settings.html",
        id=account.id,
        name=account.name,
        api_version=account.api_version,
        newer=tuple((one, one) for one in newer_stable(account.api_version, house.versions)),
        created_at_ms=account.created_at_ms,
        here=visit.to(HERE),
        fee=_fee_words(values),
        merchants=[link for mode in house.realms for link in await _merchants(visit, mode)],
        languages=", ".join(LANGUAGES.values()),
        groups=tuple(_groups(house.settings)),
    )


async def rename_account(visit: Visit) -> Answer:
    """POST /settings/account: the account's name."""
    account = await rename(visit.house, visit.account_id, visit.typed("name"), visit.actor)
    return visit.redirect(HERE, f"The account is named {account.name}.")


async def move_account(visit: Visit) -> Answer:
    """POST /settings/account/version: a newer version of the API; there is no way back."""
    account = await move(visit.house, visit.account_id, visit.typed("version"), visit.actor)
    return visit.redirect(HERE, f"Answers have the shape of {account.api_version} from now on.")


async def _merchants(visit: Visit, mode: Mode) -> list[MerchantLink]:
    """The oldest merchants of a mode."""
    found, _ = await visit.house.realms[mode].db.read(list_merchants, visit.account_id, limit=MERCHANTS_SHOWN)
    return [MerchantLink(one.name, mode, visit.to(f"/d/{mode}/merchants/{one.id}")) for one in found]


def _fee_words(values: Mapping[str, str]) -> str:
    """What whoever runs the server takes of a live payment; empty: nothing."""
    percent, base = (values.get(f"fee.{name}", "0") for name in ("percent", "base_usd"))
    parts = [f"{percent} percent" if Decimal(percent) else "", f"{base} US dollars" if Decimal(base) else ""]
    return " and ".join(part for part in parts if part)


def _groups(settings: tuple[Setting, ...]) -> list[Group]:
    found: dict[str, list[Setting]] = {}
    for one in settings:
        section, _, name = one.name.rpartition(".")
        found.setdefault(section, []).append(one._replace(name=name))
    return [Group(section, tuple(keys)) for section, keys in found.items()]
