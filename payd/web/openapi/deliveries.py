"""The webhooks of the description: what payd sends, and what it counts as received.

Source: SPEC.md, "Events"; SPEC.md, "Signature".
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from payd.core.endpoint import EVENT_TYPES, RESPONSE_DEADLINE_S
from payd.core.event import sample_event
from payd.web.openapi.fields import identifier
from payd.web.openapi.schemas import REF
from payd.web.openapi.story import AT_MS, MERCHANT_ID, PAYMENT_ID, made_id

TAG: Final = "Webhooks"

SENT_WHEN: Final = {
    "payment.created": "A payment was created",
    "payment.processing": "A buyer has committed funds",
    "payment.succeeded": "A payment succeeded",
    "payment.failed": "A payment failed",
    "payment.expired": "A payment expired before it was paid",
    "payment.cancelled": "A payment was cancelled",
    "payment.settled": "A succeeded payment is settled",
}
WORDS: Final = (
    "Verify the signature on the raw bytes; keep the highest `payment_state_version` of each payment and"
    " ignore what is not above it; ship when `status` is `succeeded` and `live` is true."
)

PARAMETERS: Final[tuple[dict[str, Any], ...]] = (
    {
        "name": "webhook-id",
        "in": "header",
        "required": True,
        "description": "The same for every attempt of a delivery.",
        "schema": identifier("msg_"),
    },
    {
        "name": "webhook-timestamp",
        "in": "header",
        "required": True,
        "description": "Unix seconds of the attempt; refuse what is five minutes off.",
        "schema": {"type": "string", "pattern": "^[0-9]+$"},
    },
    {
        "name": "webhook-signature",
        "in": "header",
        "required": True,
        "description": (
            "`v1,` and the base64 HMAC-SHA256 of `id.timestamp.body` under the secret; several, with blanks"
            " between them, while a secret is rotated. The scheme of Standard Webhooks."
        ),
        "schema": {"type": "string", "pattern": "^v1,[A-Za-z0-9+/=]+( v1,[A-Za-z0-9+/=]+)*$"},
    },
)

ANSWERS: Final = {
    "200": {
        "description": f"Received, as is any other 2xx within {RESPONSE_DEADLINE_S} s; the body says nothing."
    },
    "400": {"description": "The signature does not verify. This and everything else is tried again."},
}


def webhooks() -> dict[str, Any]:
    """One for each type of event."""
    return {event_type: {"post": _webhook(event_type)} for event_type in EVENT_TYPES}


def _webhook(event_type: str) -> dict[str, Any]:
    sample = sample_event(
        event_type, event_id=made_id("evt_"), payment_id=PAYMENT_ID, merchant_id=MERCHANT_ID, now_ms=AT_MS
    )
    schema = {"$ref": f"{REF}Envelope", "properties": {"type": {"const": event_type}}}
    example = {"summary": SENT_WHEN[event_type], "value": msgspec.json.decode(sample)}
    return {
        "operationId": event_type.replace(".", "_"),
        "tags": [TAG],
        "summary": SENT_WHEN[event_type],
        "description": WORDS,
        "security": [],
        "parameters": list(PARAMETERS),
        "requestBody": {
            "required": True,
            "description": "The whole payment as it was at that moment.",
            "content": {"application/json": {"schema": schema, "examples": {"sample": example}}},
        },
        "responses": ANSWERS,
    }
