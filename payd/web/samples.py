"""Sample events: what a webhook of each type looks like, in each version there is; only for test keys.

Source: SPEC.md, "Webhook event envelope"; DESIGN.md, "9. Test realm".
"""

from __future__ import annotations

from typing import Final

import msgspec

from payd.core.endpoint import EVENT_TYPES
from payd.core.errors import NotFound
from payd.core.event import API_VERSION, sample_event
from payd.web import query
from payd.web.call import Answer, Call
from payd.web.faults import refuse_live

VERSIONS: Final = (API_VERSION,)
"""The versions of the payload, oldest first; additions make no new one."""

# The same for everybody and at all times, so that two looks can be compared.
_AT_MS: Final = 1_779_098_400_000
_TAIL: Final = "0" * 30 + "samp1e"  # an id has no l


class SampleOut(msgspec.Struct, frozen=True, rename="camel"):
    """A sample; `envelope` is the body of such a webhook, byte for byte."""

    type: str
    api_version: str
    envelope: msgspec.Raw


class SampleList(msgspec.Struct, frozen=True):
    """One of each type, in the order of a payment's life."""

    data: list[SampleOut]


async def list_all(call: Call) -> Answer:
    """GET /v1/test/webhooks/samples: query `apiVersion` → `{data}`."""
    refuse_live(call)
    version = _version(call)
    return Answer.json(SampleList([_sample(one, version) for one in EVENT_TYPES]))


async def read(call: Call) -> Answer:
    """GET /v1/test/webhooks/samples/{type}: query `apiVersion` → `{type, apiVersion, envelope}`."""
    refuse_live(call)
    event_type = call.params["type"]
    if event_type not in EVENT_TYPES:
        raise NotFound(f"There is no such event type; there are {', '.join(EVENT_TYPES)}.")
    return Answer.json(_sample(event_type, _version(call)))


def _version(call: Call) -> str:
    return query.choice(call, "apiVersion", VERSIONS) or API_VERSION


def _sample(event_type: str, version: str) -> SampleOut:
    body = sample_event(
        event_type,
        event_id=f"evt_{_TAIL}",
        payment_id=f"pay_t{_TAIL}",
        merchant_id=f"mrch_{_TAIL}",
        now_ms=_AT_MS,
    )
    return SampleOut(event_type, version, msgspec.Raw(body))
