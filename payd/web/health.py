"""Whether the process lives, whether it can do its work, and which API versions it speaks.

Source: DESIGN.md, "12. Operations"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from payd.core.attention import of_clock
from payd.core.skew import side
from payd.core.version import is_preview
from payd.web.call import Answer, Call
from payd.web.sealed import closed_words

if TYPE_CHECKING:
    from payd.actors.live_chain import LiveChain

# Receivers refuse what is five minutes off; a clock that is wrong by this much goes on in that direction.
SKEW_MAX_S: Final = 60
# Buyers wait for their payment to be seen; nodes that restart or lag are back by then.
UNREAD_MAX_S: Final = 300


class Health(msgspec.Struct, omit_defaults=True):
    """`status` is ok, degraded or failing; `problems` says why, `warnings` what to look at besides."""

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
    """GET /readyz: 200 when every store can be written and webhooks go out, else 503 with the reasons.

    A chain that cannot be read makes it degraded, and 200 all the same. Whoever hears that a server is not
    ready sends nobody there or starts it anew. Neither brings back nodes, which are somebody else's; payments
    on other chains, questions for a status and webhooks would be lost for nothing. What buyers pay meanwhile
    is found when the chain can be read again, and nothing expires before.
    """
    realms = call.house.realms
    problems = [f"{name}: {db.failure}" for name, db in call.house.stores.items() if not db.healthy]
    for name, realm in realms.items():
        found = [*realm.deliveries.problems(), *realm.canary.problems()]
        problems += [f"{name}: {words}" for words in found]
    if call.house.stopping:
        problems.append("the server is stopping")
    unread = _unread_chains(call)
    status = "failing" if problems else "degraded" if unread else "ok"
    return Answer.json(Health(status, problems, unread + _warnings(call)), 503 if problems else 200)


def _unread_chains(call: Call) -> list[str]:
    """The live chains of which nothing new was read for long, without the names of their nodes."""
    return [
        f"{live.name}: {words}; `payd doctor` and chain.unread in the log say more"
        for realm in call.house.realms.values()
        for live in realm.live_chains
        if (words := _unread(live, realm.clock.now_ms())) is not None
    ]


def _unread(live: LiveChain, now_ms: int) -> str | None:
    stats = live.reading()
    if stats.read_time_s is None:
        return "it could not be read since the start" if stats.trouble else None
    age_s = now_ms // 1000 - stats.read_time_s
    return f"nothing of the last {age_s // 60} minutes was read" if age_s > UNREAD_MAX_S else None


def _warnings(call: Call) -> list[str]:
    """What is wrong for some, or may be: it keeps the server from nothing."""
    closed = [
        f"{name}: {words}"
        for name, db in call.house.stores.items()
        if (words := closed_words(call.house, db)) is not None
    ]
    broken = [
        f"{name}: {count} webhooks cannot be sent for a reason on this side; see webhook.broken in the log"
        for name, realm in call.house.realms.items()
        if (count := realm.deliveries.broken)
    ]
    return closed + broken + _clock_warnings(call)


def _clock_warnings(call: Call) -> list[str]:
    """What the chains' nodes and receivers say of our clock; the latter could lie."""
    realms = call.house.realms.values()
    skews = [realm.deliveries.stats.skew_s for realm in realms]
    off = [of_clock(off_s).words for realm in realms if (off_s := realm.clock_check.off_s) is not None]
    return off + [
        f"receivers' clocks say that ours is {abs(skew_s):.0f} s {side(skew_s)};"
        " at 300 s they refuse webhooks: is time synchronisation on?"
        for skew_s in skews
        if skew_s is not None and abs(skew_s) > SKEW_MAX_S
    ]


async def versions(call: Call) -> Answer:
    """GET /versions."""
    known = call.house.versions
    return Answer.json(
        Versions(
            stable=[version for version in known if not is_preview(version)],
            preview=[version for version in known if is_preview(version)],
        )
    )
