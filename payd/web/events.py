"""Events over REST: what the account was told, whether or not an endpoint received it.

Source: DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from payd.core.endpoint import EVENT_TYPES
from payd.core.errors import NotFound
from payd.core.event import iso_ms
from payd.store import events
from payd.store.event_deliveries import events_by_delivery
from payd.store.events import EventRow
from payd.web import query
from payd.web.call import Answer, Call
from payd.web.cursor import decode_cursor, encode_cursor

PAGE_MAX = 100
PAGE_DEFAULT = 20
DELIVERY_STATES: Final = ("pending", "succeeded", "failed", "cancelled")


class EventOut(msgspec.Struct, frozen=True, rename="camel"):
    """One event; `envelope` is the webhook's body, byte for byte."""

    id: str
    type: str
    created_at: str
    payment_id: str
    envelope: msgspec.Raw


class EventPage(msgspec.Struct, frozen=True, rename="camel"):
    """Newest first."""

    data: list[EventOut]
    next_cursor: str | None


async def list_events(call: Call) -> Answer:
    """GET /v1/events: query `type`, `paymentId`, `delivery`, `cursor`, `limit` → `{data, nextCursor}`.

    With `delivery` only events whose newest delivery is in that state, newest delivery first; the cursor of
    such a list is a delivery's.
    """
    limit = query.limit_in(call, PAGE_MAX, PAGE_DEFAULT)
    state = query.choice(call, "delivery", DELIVERY_STATES)
    wanted: dict[str, Any] = {
        "event_type": query.choice(call, "type", EVENT_TYPES),
        "payment_id": query.one(call, "paymentId"),
        "merchants": merchants_shown(call),
        "before_seq": before_seq(call),
        "limit": limit + 1,
    }
    if state is None:
        rows = await call.realm.db.read(events.list_events, call.account_id, **wanted)
        found = [(row.seq, row) for row in rows]
    else:
        told = await call.realm.db.read(events_by_delivery, call.account_id, state, **wanted)
        found = [(one.seq, one.event) for one in told]
    next_cursor = encode_cursor(found[limit - 1][0]) if len(found) > limit else None
    return Answer.json(EventPage([_event_out(row) for _, row in found[:limit]], next_cursor))


async def read_event(call: Call) -> Answer:
    """GET /v1/events/{id} → `{id, type, createdAt, paymentId, envelope}`; 404 `not_found`."""
    row = call.realm.db.point(events.get_event, call.account_id, call.params["id"])
    if row is None or not is_shown(call, row.payment_id):
        raise NotFound("There is no such event.")
    return Answer.json(_event_out(row))


def before_seq(call: Call) -> int | None:
    """The sequence number in `cursor`. Raises InvalidParams when it is none of ours."""
    text = query.one(call, "cursor")
    return None if text is None else decode_cursor(text, (int,))[0]


def merchants_shown(call: Call) -> frozenset[str] | None:
    """The merchants whose payments this call may see: the key's, or the one that `Merchant-Id` names."""
    return call.merchants if call.merchant_id is None else frozenset({call.merchant_id})


def is_shown(call: Call, payment_id: str | None) -> bool:
    """Whether a payment is of a merchant that this call may see; no payment is of no merchant."""
    merchants = merchants_shown(call)
    if merchants is None:
        return True
    return payment_id is not None and call.realm.db.point(events.merchant_of, payment_id) in merchants


def _event_out(row: EventRow) -> EventOut:
    return EventOut(row.id, row.type, iso_ms(row.created_at_ms), row.payment_id, msgspec.Raw(row.body))
