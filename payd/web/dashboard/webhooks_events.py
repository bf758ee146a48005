"""Events: what the account was told, whether or not an endpoint received it, with the bytes.

Source: DESIGN.md, "11. Pages"; DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from payd.core.endpoint import EVENT_TYPES
from payd.core.errors import NotFound
from payd.store.deliveries import find_delivery
from payd.store.events import EventRow, get_event, list_events
from payd.web.call import Answer
from payd.web.cursor import decode_cursor, encode_cursor
from payd.web.dashboard.visit import Visit
from payd.web.dashboard.webhooks_view import STATES, TYPES, pretty

PAGE_ROWS: Final = 25


class EventView(msgspec.Struct, frozen=True):
    """An event in a list."""

    id: str
    href: str
    type: str
    created_at_ms: int
    payment_id: str
    payment_href: str
    version: int


async def page(visit: Visit) -> Answer:
    """GET …/events: query type, payment, cursor; newest first."""
    event_type, payment, cursor = (
        visit.choice("type", EVENT_TYPES),
        visit.query("payment"),
        visit.query("cursor"),
    )
    rows = await visit.realm.db.read(
        partial(
            list_events,
            account_id=visit.account_id,
            event_type=event_type or None,
            payment_id=payment or None,
            before_seq=decode_cursor(cursor, (int,))[0] if cursor else None,
            limit=PAGE_ROWS + 1,
        )
    )
    more, rows = len(rows) > PAGE_ROWS, rows[:PAGE_ROWS]
    here = "webhooks/events"
    older = (
        visit.to(here, type=event_type, payment=payment, cursor=encode_cursor(rows[-1].seq)) if more else ""
    )
    return visit.page(
        "webhooks_events.html",
        rows=[_view(visit, row) for row in rows],
        types=[("", "Any"), *TYPES],
        event_type=event_type,
        payment=payment,
        is_filtered=bool(event_type or payment or cursor),
        here=visit.to(here),
        older=older,
    )


async def one(visit: Visit) -> Answer:
    """GET …/events/{event}: its body, and what became of its delivery."""
    row = visit.realm.db.point(get_event, visit.account_id, visit.params["event"])
    if row is None:
        raise NotFound("There is no such event.")
    delivery = visit.realm.db.point(find_delivery, visit.account_id, row.id)
    return visit.page(
        "webhooks_event.html",
        event=_view(visit, row),
        body=pretty(row.body),
        delivery_href="" if delivery is None else visit.to(f"webhooks/deliveries/{delivery.id}"),
        delivery=("", "") if delivery is None else STATES[delivery.state],
    )


def _view(visit: Visit, row: EventRow) -> EventView:
    return EventView(
        id=row.id,
        href=visit.to(f"webhooks/events/{row.id}"),
        type=row.type,
        created_at_ms=row.created_at_ms,
        payment_id=row.payment_id,
        payment_href=visit.to(f"payments/{row.payment_id}"),
        version=row.version,
    )
