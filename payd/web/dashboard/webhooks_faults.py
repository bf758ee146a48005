"""Faults of the webhook endpoint, on its page in test mode: the form, those that are active, and ending them.

Source: DESIGN.md, "9. Test realm"; DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

import msgspec

from payd.core.endpoint import Endpoint
from payd.core.errors import InvalidParams
from payd.core.fault import FAULT_KINDS, FaultKind, is_over
from payd.store.faults import list_faults
from payd.web.call import Answer
from payd.web.dashboard.visit import Visit
from payd.web.dashboard.webhooks_view import TYPES

PATH: Final = "/v1/test/webhooks/inject"

CHOICES: Final[dict[FaultKind, str]] = {
    "duplicate": "Duplicate: a copy of it follows",
    "reorder": "Reorder: a later one goes first",
    "delay": "Delay: it is held back for 30 s",
    "drop": "Drop: the attempt is lost",
    "stale_timestamp": "Stale timestamp: signed for ten minutes ago",
    "bad_signature": "Bad signature: made over other bytes",
    "wrong_secret": "Wrong secret: made with another one",
}
"""What a person chooses from, in the order of the kinds."""

REACHES: Final = (
    ("1", "the next delivery"),
    ("3", "the next 3 deliveries"),
    ("10", "the next 10 deliveries"),
    ("10m", "10 minutes"),
    ("1h", "an hour"),
)
"""For how many deliveries, or how long."""

# A screen of them; the command line shows all that are kept.
SHOWN: Final = 10


class FaultView(msgspec.Struct, frozen=True):
    """A fault as its row in the page."""

    id: str
    words: str
    left: int | None
    until_ms: int | None
    injected: int
    about: str
    is_over: bool


def fault_values(visit: Visit, endpoint: Endpoint) -> dict[str, Any]:
    """What the endpoint's page needs for its section on faults; nothing in live mode."""
    if visit.realm.live:
        return {"has_faults": False}
    now_ms = visit.realm.clock.now_ms()
    stored = visit.realm.db.point(list_faults, endpoint.id)
    return {
        "has_faults": True,
        "faults": [
            FaultView(
                id=one.id,
                words=CHOICES[one.kind].partition(":")[0],
                left=one.left,
                until_ms=one.until_ms,
                injected=one.injected,
                about=" ".join((*one.events, *filter(None, [one.payment_id]))),
                is_over=is_over(one, now_ms),
            )
            for one in stored[:SHOWN]
        ],
        "fault_kinds": [(kind, CHOICES[kind]) for kind in FAULT_KINDS],
        "fault_reaches": REACHES,
        "fault_types": [("", "All events"), *TYPES],
    }


async def inject(visit: Visit) -> Answer:
    """POST …/webhooks/faults: deliveries go wrong from now on, as was asked.

    Raises:
        InvalidParams: Something was not chosen.
        NotSandboxApiKey: The mode is live; the API refuses.
    """
    kind, reach, event_type = visit.typed("fault"), visit.typed("reach"), visit.typed("event")
    if kind not in CHOICES or reach not in dict(REACHES):
        raise InvalidParams("Choose a fault, and for how long.")
    body: dict[str, Any] = {"fault": kind}
    body |= {"deliveries": int(reach)} if reach.isdecimal() else {"for": reach}
    if event_type:
        body["events"] = [event_type]
    await visit.ask("POST", PATH, body)
    return visit.redirect("webhooks", "The fault is injected. The attempts that it touches name it.")


async def end(visit: Visit) -> Answer:
    """POST …/webhooks/faults/end: one fault, or all; what is held back goes now."""
    fault_id = visit.typed("fault")
    await visit.ask("DELETE", f"{PATH}/{quote(fault_id, safe='')}" if fault_id else PATH)
    return visit.redirect("webhooks", "It is over. Deliveries are as they should be.")
