"""Whether the server's seal key opens what is in its databases: after a restore it may be another one.

Source: DESIGN.md, "3. Two realms"; DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from payd.core.errors import StoreUnavailable
from payd.store.db import Database
from payd.store.sealed import closed_kinds

if TYPE_CHECKING:
    from payd.web.house import House


def closed_words(house: House, db: Database) -> str | None:
    """What of one of the house's databases the key does not open; None: it opens all, or nobody can look.

    A few indexed lookups, and one short text opened of each kind.
    """
    seal = house.realms["test"].seal
    try:
        kinds = db.point(closed_kinds, "office" if db is house.office else "realm", seal)
    except StoreUnavailable:
        return None
    if not kinds:
        return None
    return f"the seal key does not open {', '.join(kinds)}; `payd doctor` says what to do"
