"""Settings: what the account is, and what payd.toml says that its people meet.

Pages show payd.toml and do not write it: who may sign in here is not who runs the server.

Source: DESIGN.md, "11. Pages"; DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from dataclasses import dataclass

from payd.web.call import Answer
from payd.web.dashboard.visit import Visit
from payd.web.house import Setting


@dataclass(frozen=True, slots=True)
class Group:
    """The keys of one section, by their names in it."""

    section: str
    keys: tuple[Setting, ...]


async def page(visit: Visit) -> Answer:
    """GET /settings/account: facts of the account, and the configuration as it is in effect."""
    account = visit.house.accounts[visit.account_id]
    return visit.page(
        "settings.html",
        id=account.id,
        name=account.name,
        api_version=account.api_version,
        newest_version=visit.house.default_version,
        created_at_ms=account.created_at_ms,
        groups=tuple(_groups(visit.house.settings)),
        merchants=visit.to("merchants"),
    )


def _groups(settings: tuple[Setting, ...]) -> list[Group]:
    found: dict[str, list[Setting]] = {}
    for one in settings:
        section, _, name = one.name.rpartition(".")
        found.setdefault(section, []).append(one._replace(name=name))
    return [Group(section, tuple(keys)) for section, keys in found.items()]
