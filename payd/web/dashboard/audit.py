"""Who did what in the account: acts on people from the office, acts on a realm from that realm's own file.

Source: DESIGN.md, "3. Two realms"; DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from payd.core.errors import InvalidParams
from payd.store.audit import Act, list_audit
from payd.store.users import names_of
from payd.web.call import Answer
from payd.web.dashboard.visit import Visit

HERE: Final = "/settings/audit"
SHOWN: Final = 50
PLACES: Final = (("", "Everything"), ("office", "People"), ("test", "Test mode"), ("live", "Live mode"))

_OTHERS: Final = {"cli": "the command line", "server": "payd"}


class ActLine(msgspec.Struct, frozen=True):
    """One act in the list."""

    at_ms: int
    where: str
    who: str
    act: str
    subject: str
    details: str


async def page(visit: Visit) -> Answer:
    """GET /settings/audit: the newest acts of all places, or older ones of one.

    Raises:
        InvalidParams: There is no such place, or no such row.
    """
    place, before = visit.query("where"), _before(visit.query("before"))
    stores = visit.house.stores
    if place and place not in stores:
        raise InvalidParams("There is no such place.")
    found = {
        name: await db.read(list_audit, visit.account_id, before if place else None, SHOWN)
        for name, db in stores.items()
        if place in ("", name)
    }
    shown = _newest(found)
    names = visit.house.office.point(names_of, sorted({act.actor for _, act in shown}))
    older = ""
    if place and len(shown) == SHOWN:
        older = visit.to(HERE, where=place, before=str(shown[-1][1].seq))
    places = [one for one in PLACES if one[0] in ("", *stores)]
    lines = [_line(name, act, names) for name, act in shown]
    return visit.page("audit.html", acts=lines, places=places, place=place, older=older, here=HERE)


def _newest(found: Mapping[str, list[Act]]) -> list[tuple[str, Act]]:
    """The newest acts of all places together, with a share for each: by a test clock that was moved, what is
    done in test mode would stand before everything else, and hide it.
    """
    share = SHOWN // len(found)
    sure = [(name, one) for name, acts in found.items() for one in acts[:share]]
    rest = [(name, one) for name, acts in found.items() for one in acts[share:]]
    rest.sort(key=lambda one: -one[1].at_ms)
    return sorted((*sure, *rest[: SHOWN - len(sure)]), key=lambda one: -one[1].at_ms)


def called(actor: str, names: Mapping[str, str]) -> str:
    """How people call an actor of the audit: a person by the e-mail that is in `names`, a key by its id."""
    return names.get(actor) or _OTHERS.get(actor, actor)


def _line(where: str, act: Act, names: dict[str, str]) -> ActLine:
    details = ", ".join(f"{name}: {value}" for name, value in act.details.items() if value not in (None, ""))
    who = called(act.actor, names)
    return ActLine(act.at_ms, dict(PLACES)[where], who, act.act, act.subject, details)


def _before(text: str) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise InvalidParams("before is no row.")
    return int(text)
