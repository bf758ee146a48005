"""Whether the process lives, whether it can do its work, and which API versions it speaks.

Source: DESIGN.md, "12. Operations"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import msgspec

from payd.core.version import VERSIONS, is_preview
from payd.web.call import Answer, Call


class Health(msgspec.Struct, omit_defaults=True):
    """`status` is ok or failing; `problems` says what to look at."""

    status: str
    problems: list[str] = []


class Versions(msgspec.Struct):
    """Previews are asked for by header only."""

    stable: list[str]
    preview: list[str]


async def alive(call: Call) -> Answer:
    """GET /livez: the event loop answers."""
    return Answer.json(Health("ok"))


async def ready(call: Call) -> Answer:
    """GET /readyz: 200 when every store can be written, else 503 with the reasons."""
    stores = {"office": call.house.office} | {name: realm.db for name, realm in call.house.realms.items()}
    problems = [f"{name}: {db.failure}" for name, db in stores.items() if not db.healthy]
    if call.house.stopping:
        problems.append("the server is stopping")
    if problems:
        return Answer.json(Health("failing", problems), 503)
    return Answer.json(Health("ok"))


async def versions(call: Call) -> Answer:
    """GET /versions."""
    return Answer.json(
        Versions(
            stable=[version for version in VERSIONS if not is_preview(version)],
            preview=[version for version in VERSIONS if is_preview(version)],
        )
    )
