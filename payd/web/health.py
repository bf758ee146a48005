"""Whether the process lives, whether it can do its work, and which API versions it speaks.

Source: DESIGN.md, "12. Operations"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from typing import Final

import msgspec

from payd.core.version import VERSIONS, is_preview
from payd.web.call import Answer, Call

# Receivers refuse what is five minutes off; a clock that is wrong by this much goes on in that direction.
SKEW_MAX_S: Final = 60


class Health(msgspec.Struct, omit_defaults=True):
    """`status` is ok or failing; `problems` says why, `warnings` what to look at before it is one."""

    status: str
    problems: list[str] = []
    warnings: list[str] = []


class Versions(msgspec.Struct):
    """Previews are asked for by header only."""

    stable: list[str]
    preview: list[str]


async def alive(call: Call) -> Answer:
    """GET /livez: the event loop answers."""
    return Answer.json(Health("ok"))


async def ready(call: Call) -> Answer:
    """GET /readyz: 200 when every store can be written and webhooks go out, else 503 with the reasons."""
    realms = call.house.realms
    stores = {"office": call.house.office} | {name: realm.db for name, realm in realms.items()}
    problems = [f"{name}: {db.failure}" for name, db in stores.items() if not db.healthy]
    for name, realm in realms.items():
        found = [*realm.deliveries.problems(), *realm.canary.problems()]
        problems += [f"{name}: {words}" for words in found]
    if call.house.stopping:
        problems.append("the server is stopping")
    status = "failing" if problems else "ok"
    return Answer.json(Health(status, problems, _warnings(call)), 503 if problems else 200)


def _warnings(call: Call) -> list[str]:
    """What is wrong for some, or may be: it keeps the server from nothing."""
    broken = [
        f"{name}: {count} webhooks cannot be sent for a reason on this side; see webhook.broken in the log"
        for name, realm in call.house.realms.items()
        if (count := realm.deliveries.broken)
    ]
    return broken + _clock_warnings(call)


def _clock_warnings(call: Call) -> list[str]:
    """What receivers say of our clock; they could lie."""
    skews = [realm.deliveries.stats.skew_s for realm in call.house.realms.values()]
    return [
        f"receivers' clocks say that ours is {abs(skew_s):.0f} s {'ahead' if skew_s > 0 else 'behind'};"
        " at 300 s they refuse webhooks: is time synchronisation on?"
        for skew_s in skews
        if skew_s is not None and abs(skew_s) > SKEW_MAX_S
    ]


async def versions(call: Call) -> Answer:
    """GET /versions."""
    return Answer.json(
        Versions(
            stable=[version for version in VERSIONS if not is_preview(version)],
            preview=[version for version in VERSIONS if is_preview(version)],
        )
    )
