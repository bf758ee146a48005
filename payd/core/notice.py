"""What the operator is told: an endpoint that fails, is disabled, recovers; live money that goes elsewhere.

Source: DESIGN.md, "7. Events and webhooks"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from payd.core.endpoint import DISABLE_AFTER_MS, Endpoint, EndpointState, disables_at_ms
from payd.core.event import API_VERSION, iso_ms

NoticeType: TypeAlias = Literal["endpoint.warning", "endpoint.disabled", "endpoint.recovered", "notify.test"]

MovedType: TypeAlias = Literal[
    "destination.changed",
    "destination.change_requested",
    "destination.change_cancelled",
    "destination.deleted",
    "destination.added",
]

DESTINATION_CHANGED: Final = "destination.changed"
CHANGE_REQUESTED: Final = "destination.change_requested"
CHANGE_CANCELLED: Final = "destination.change_cancelled"
DESTINATION_DELETED: Final = "destination.deleted"
DESTINATION_ADDED: Final = "destination.added"

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
    """A destination that is changed, as a notice says it.

    Attributes:
        old: Where the money goes, or went before; None: nowhere, as the asset was not taken.
        new: Where it goes then; None: nowhere, as the destination is deleted.
        actor: Who asked for it: a key, a person or the command line.
        applies_at: ISO 8601, of a change that is held back.
    """

    settlement_id: str
    merchant_id: str
    account_id: str
    asset: str
    old: str | None
    new: str | None
    actor: str
    applies_at: str | None = None


class MovedNotice(msgspec.Struct, frozen=True):
    """The body of a notice about a destination; signed as every delivery is."""

    id: str
    type: MovedType
    api_version: str
    created_at: str
    text: str
    data: Moved


def render_moved(kind: MovedType, moved: Moved, *, event_id: str, now_ms: int) -> bytes:
    """The bytes of a notice that live money goes elsewhere, or is to."""
    text = _moved_words(kind, moved)
    return msgspec.json.encode(MovedNotice(event_id, kind, API_VERSION, iso_ms(now_ms), text, moved))


def _moved_words(kind: MovedType, moved: Moved) -> str:
    what = f"{moved.asset} of merchant {moved.merchant_id}"
    match kind:
        case "destination.changed":
            return (
                f"{what} goes to {moved.new} from now on; before it went to {moved.old}. {moved.actor}"
                " changed it. If that was nobody of yours, change it back at once."
            )
        case "destination.change_requested":
            return (
                f"{what} is to go to {moved.new} from {moved.applies_at} on; until then to {moved.old}."
                f" {moved.actor} asked for it. If that was nobody of yours, cancel it before then."
            )
        case "destination.change_cancelled":
            return f"{what} goes to {moved.old} as before; {moved.actor} took the change to {moved.new} back."
        case "destination.added":
            return (
                f"{what} is taken from now on, and goes to {moved.new}. {moved.actor} added it. If that was"
                " nobody of yours, delete it at once."
            )
        case "destination.deleted":
            return (
                f"{what} went to {moved.old}. {moved.actor} deleted that destination: nobody is offered"
                " the asset any more."
            )


def notice_type(before: Endpoint, after: Endpoint) -> NoticeType | None:
    """What an attempt made of an endpoint, if its operator should hear of it."""
    if after.is_house:
        return None
    if before.state is EndpointState.ENABLED and after.state is EndpointState.DISABLED:
        return "endpoint.disabled"
    if after.warnings > before.warnings:
        return "endpoint.warning"
    # One that is off and answers again gets nothing all the same: its last word stays that it is off.
    is_on = after.state is EndpointState.ENABLED
    return "endpoint.recovered" if is_on and before.warnings and after.failing_since_ms is None else None


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
    since_ms, ends_ms = endpoint.failing_since_ms, disables_at_ms(endpoint, now_ms)
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
