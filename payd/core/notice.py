"""What the operator is told: an endpoint that fails, is disabled, recovers; live money that goes elsewhere.

Source: DESIGN.md, "7. Events and webhooks"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from payd.core.endpoint import DISABLE_AFTER_MS, Endpoint, EndpointState, disables_at_ms
from payd.core.event import API_VERSION, iso_ms

NoticeType: TypeAlias = Literal["endpoint.warning", "endpoint.disabled", "endpoint.recovered", "notify.test"]

DESTINATION_CHANGED: Final = "destination.changed"

_HOUR_MS: Final = 3_600_000


class NoticeData(msgspec.Struct, frozen=True):
    """`text` says it all in one line: what a chat shows that takes the whole body as a message."""

    endpoint_id: str
    account_id: str
    live: bool
    url: str
    state: str
    failing_since: str | None
    disables_at: str | None
    last_status: int | None
    last_error_class: str | None


class Notice(msgspec.Struct, frozen=True):
    """The body of a notice; signed as every delivery is."""

    id: str
    type: NoticeType
    api_version: str
    created_at: str
    text: str
    data: NoticeData


class Moved(msgspec.Struct, frozen=True):
    """A destination that was changed, as a notice says it; `actor` is a key, a person or the command line."""

    settlement_id: str
    merchant_id: str
    account_id: str
    asset: str
    old: str
    new: str
    actor: str


class MovedNotice(msgspec.Struct, frozen=True):
    """The body of a notice about a destination; signed as every delivery is."""

    id: str
    type: str
    api_version: str
    created_at: str
    text: str
    data: Moved


def render_moved(moved: Moved, *, event_id: str, now_ms: int) -> bytes:
    """The bytes of a notice that live money goes elsewhere from now on."""
    text = (
        f"{moved.asset} of merchant {moved.merchant_id} goes to {moved.new} from now on; before it went to"
        f" {moved.old}. {moved.actor} changed it. If that was nobody of yours, change it back at once."
    )
    notice = MovedNotice(event_id, DESTINATION_CHANGED, API_VERSION, iso_ms(now_ms), text, moved)
    return msgspec.json.encode(notice)


def notice_type(before: Endpoint, after: Endpoint) -> NoticeType | None:
    """What an attempt made of an endpoint, if its operator should hear of it."""
    if after.is_house:
        return None
    if before.state is EndpointState.ENABLED and after.state is EndpointState.DISABLED:
        return "endpoint.disabled"
    if after.warnings > before.warnings:
        return "endpoint.warning"
    return "endpoint.recovered" if before.warnings and after.failing_since_ms is None else None


def render_notice(
    kind: NoticeType,
    endpoint: Endpoint,
    *,
    event_id: str,
    live: bool,
    now_ms: int,
    status: int | None = None,
    error_class: str | None = None,
) -> bytes:
    """The bytes of a notice about an endpoint as it is after the attempt."""
    since_ms, ends_ms = endpoint.failing_since_ms, disables_at_ms(endpoint)
    notice = Notice(
        id=event_id,
        type=kind,
        api_version=API_VERSION,
        created_at=iso_ms(now_ms),
        text=_words(kind, endpoint, now_ms),
        data=NoticeData(
            endpoint_id=endpoint.id,
            account_id=endpoint.account_id,
            live=live,
            url=endpoint.url,
            state=endpoint.state.value,
            failing_since=None if since_ms is None else iso_ms(since_ms),
            disables_at=None if ends_ms is None else iso_ms(ends_ms),
            last_status=status,
            last_error_class=error_class,
        ),
    )
    return msgspec.json.encode(notice)


def _words(kind: NoticeType, endpoint: Endpoint, now_ms: int) -> str:
    hours = (now_ms - (endpoint.failing_since_ms or now_ms)) // _HOUR_MS
    match kind:
        case "endpoint.warning":
            left = DISABLE_AFTER_MS // _HOUR_MS - hours
            return f"Webhooks to {endpoint.url} have failed for {hours} hours; in {left} hours they stop."
        case "endpoint.disabled":
            return (
                f"Webhooks to {endpoint.url} have failed for {hours} hours and are off now."
                " Enable the endpoint and replay what it missed, within 14 days."
            )
        case "endpoint.recovered":
            return f"Webhooks to {endpoint.url} are answered again."
        case "notify.test":
            return "This is a test of payd's notices."
