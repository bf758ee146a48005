"""What the pages on webhooks show: view models, words for states, and how a form names a time.

Source: DESIGN.md, "11. Pages"; DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

import msgspec

from payd.core.advice import words_for
from payd.core.endpoint import (
    EVENT_TYPES,
    Endpoint,
    EndpointState,
    disables_at_ms,
    old_secrets_until_ms,
)
from payd.core.errors import InvalidParams
from payd.core.retry import ATTEMPTS_MAX
from payd.core.span import span
from payd.store.delivery_list import Listed
from payd.store.endpoints import secrets_of
from payd.web.dashboard.cookies import zone_offset_min, zone_place
from payd.web.dashboard.visit import Visit

EXCERPT_BYTES: Final = 2048
"""So much of an answer's body stands in a page."""

STATES: Final = {
    "pending": ("Pending", "wait"),
    "succeeded": ("Delivered", "good"),
    "failed": ("Failed", "bad"),
    "cancelled": ("Cancelled", "soft"),
}
"""A delivery's state in a word, and its badge."""

REASONS: Final = {
    "endpoint_disabled": "The endpoint was disabled.",
    "endpoint_deleted": "The endpoint was deleted.",
    "job_cancelled": "The replay that queued it was cancelled.",
}
"""Why a delivery was cancelled."""

TYPES: Final = tuple((one, one) for one in EVENT_TYPES)


class EndpointView(msgspec.Struct, frozen=True):
    """The endpoint as a page shows it: no secret, and its URL's query only to who may change it."""

    id: str
    url: str
    host: str
    events: tuple[str, ...]
    header_names: tuple[str, ...]
    state: str
    kind: str
    word: str
    failing_for: str
    failing_since_ms: int | None
    disables_at_ms: int | None
    off_since_ms: int | None
    off_for: str
    last_success_at_ms: int | None
    created_at_ms: int
    old_until_ms: int | None
    old_for: str


def endpoint_view(visit: Visit, endpoint: Endpoint) -> EndpointView:
    """What of an endpoint this person may see."""
    now_ms = visit.realm.clock.now_ms()
    old_until_ms = old_secrets_until_ms(visit.realm.db.point(secrets_of, endpoint.id), now_ms)
    word, kind = state_word(endpoint)
    since_ms, off_ms = endpoint.failing_since_ms, endpoint.off_since_ms
    return EndpointView(
        id=endpoint.id,
        url=shown_url(endpoint.url, whole=visit.may("manage_webhooks")),
        host=host_of(endpoint.url),
        events=endpoint.events,
        header_names=endpoint.header_names,
        state=endpoint.state.value,
        kind=kind,
        word=word,
        failing_for="" if since_ms is None else span(now_ms - since_ms),
        failing_since_ms=since_ms,
        disables_at_ms=disables_at_ms(endpoint, now_ms),
        off_since_ms=off_ms,
        off_for="" if off_ms is None else span(now_ms - off_ms),
        last_success_at_ms=endpoint.last_success_at_ms,
        created_at_ms=endpoint.created_at_ms,
        old_until_ms=old_until_ms,
        old_for="" if old_until_ms is None else span(old_until_ms - now_ms),
    )


def state_word(endpoint: Endpoint) -> tuple[str, str]:
    """An endpoint's state in a word, and its badge."""
    if endpoint.state is EndpointState.DISABLED:
        return "Disabled", "bad"
    if endpoint.state is EndpointState.PAUSED:
        return "Paused", "wait"
    return ("Enabled", "good") if endpoint.failing_since_ms is None else ("Failing", "bad")


def host_of(url: str) -> str:
    """What a person types to name an endpoint."""
    return urlsplit(url).hostname or ""


def shown_url(url: str, *, whole: bool) -> str:
    """A URL; receivers have their own keys in its query, which only those see who could change it."""
    bare, mark, _ = url.partition("?")
    return url if whole or not mark else f"{bare}?…"


class Row(msgspec.Struct, frozen=True):
    """A delivery in a list."""

    id: str
    href: str
    event_type: str
    is_test: bool
    payment_id: str
    payment_href: str
    word: str
    kind: str
    tries: str
    last: str
    took: str
    next_at_ms: int | None
    waits: str
    created_at_ms: int
    can_resend: bool


def row_of(visit: Visit, row: Listed) -> Row:
    """A delivery as this person sees it."""
    word, kind = STATES[row.state]
    paused = row.state == "pending" and row.endpoint_state == "paused"
    return Row(
        id=row.id,
        href=visit.to(f"webhooks/deliveries/{row.id}"),
        event_type=row.event_type,
        is_test=row.kind == "test",
        payment_id=row.payment_id or "",
        payment_href=visit.to(f"payments/{row.payment_id}") if row.payment_id else "",
        word=word,
        kind=kind,
        tries="test" if row.kind == "test" else f"{row.tries}/{ATTEMPTS_MAX}",
        last=last_word(row.status, row.error_class),
        took="" if row.took_ms is None else f"{row.took_ms} ms",
        next_at_ms=None if paused else row.next_at_ms,
        waits="when the endpoint is resumed" if paused else _due_in(visit, row),
        created_at_ms=row.created_at_ms,
        can_resend=can_resend(visit, row),
    )


def can_resend(visit: Visit, row: Listed) -> bool:
    """Whether a button for it makes sense: this person may, and the endpoint takes it."""
    return visit.may("resend_webhooks") and row.kind == "event" and row.endpoint_state == "enabled"


def last_word(status: int | None, error_class: str | None) -> str:
    """How an attempt ended: the answer's code, or what went wrong before one."""
    if status is not None:
        return str(status)
    return "" if error_class is None else words_for(error_class)


def _due_in(visit: Visit, row: Listed) -> str:
    if row.next_at_ms is None:
        return ""
    left_ms = row.next_at_ms - visit.realm.clock.now_ms()
    return f"in {span(left_ms)}" if left_ms > 0 else "now"


def excerpt(body: bytes) -> tuple[str, bool]:
    """The beginning of a receiver's bytes as text, and whether there is more. A page has to escape it."""
    return body[:EXCERPT_BYTES].decode("utf-8", "replace"), len(body) > EXCERPT_BYTES


def pretty(body: bytes) -> str:
    """An event's bytes, indented for reading."""
    try:
        return msgspec.json.format(body, indent=2).decode()
    except msgspec.DecodeError:
        return body.decode("utf-8", "replace")


def instant_ms(headers: dict[str, str], text: str, name: str) -> int:
    """What a field for a local date and time says, as Unix milliseconds.

    Args:
        headers: Of the request. Where the user's clock is, what it showed then holds; else what it is ahead
            of UTC today.
        text: Such as `2026-11-18T09:00`.
        name: Of the field, for the refusal.

    Raises:
        InvalidParams: It is no such time.
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is not None or at.year < 1971:
        raise InvalidParams(f"{name} must be a date and a time such as 2026-11-18 09:00.")
    if (place := zone_place(headers)) is not None:
        return round(at.replace(tzinfo=place).timestamp() * 1000)
    return round(at.replace(tzinfo=UTC).timestamp() * 1000) - zone_offset_min(headers) * 60_000


def zone_word(headers: dict[str, str]) -> str:
    """How a page names the zone in which its fields are: `Asia/Kolkata`, or `UTC+05:30`."""
    if (place := zone_place(headers)) is not None:
        return place.key
    offset_min = zone_offset_min(headers)
    if not offset_min:
        return "UTC"
    hours, minutes = divmod(abs(offset_min), 60)
    return f"UTC{'+' if offset_min > 0 else '-'}{hours:02d}:{minutes:02d}"


def endpoint_choices(visit: Visit, endpoints: Sequence[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """The endpoints that deliveries were owed to; nothing to choose while there is but one."""
    if len(endpoints) < 2:
        return []
    whole = visit.may("manage_webhooks")
    names = [
        (endpoint_id, shown_url(url, whole=whole) + (" (deleted)" if state == "deleted" else ""))
        for endpoint_id, url, state in endpoints
    ]
    return [("", "Any"), *names]
