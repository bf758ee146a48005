"""Deliveries: a list that is filtered and stays put, one with all its attempts, and sending one again.

Source: DESIGN.md, "11. Pages"; DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

import msgspec

from payd.core.advice import advice
from payd.core.endpoint import EVENT_TYPES
from payd.core.errors import NotFound
from payd.store.attempts import AttemptRow, attempts_of
from payd.store.db import Tx
from payd.store.deliveries import find_delivery
from payd.store.delivery_list import (
    COUNT_MAX,
    DeliveryFilter,
    Listed,
    body_of,
    count_newer,
    deliveries_again,
    endpoints_of,
    one_listed,
    page_of_deliveries,
)
from payd.store.endpoints import endpoint_of_id
from payd.web.call import Answer
from payd.web.cursor import decode_cursor, encode_cursor
from payd.web.dashboard.visit import Visit
from payd.web.dashboard.webhooks_view import (
    REASONS,
    STATES,
    TYPES,
    endpoint_choices,
    excerpt,
    instant_ms,
    last_word,
    pretty,
    row_of,
    shown_url,
    zone_word,
)

PAGE_ROWS: Final = 25
FILTERS: Final = ("state", "type", "payment", "endpoint", "since")

TRIGGERS: Final = {"auto": "by schedule", "manual": "by hand", "replay": "replay", "test": "test"}


class AttemptView(msgspec.Struct, frozen=True):
    """One request and what came back; `headers` and `body` are a stranger's text."""

    n: int
    trigger: str
    at_ms: int
    ok: bool
    word: str
    took_ms: int
    phases: str
    error_class: str
    error: str
    advice: str
    fault: str
    remote_ip: str
    retry_after_s: int | None
    next_at_ms: int | None
    headers: str
    body: str
    is_cut: bool


async def page(visit: Visit) -> Answer:
    """GET …/deliveries: query state, type, payment, endpoint, since, cursor; live, the rows shown."""
    chosen = _filter(visit)
    if visit.is_fragment:
        return await _live(visit, chosen)
    cursor = visit.query("cursor")
    before_seq = decode_cursor(cursor, (int,))[0] if cursor else None
    rows = await visit.realm.db.read(page_of_deliveries, chosen, before_seq, PAGE_ROWS + 1)
    more, rows = len(rows) > PAGE_ROWS, rows[:PAGE_ROWS]
    asked = {name: visit.query(name) for name in FILTERS}
    here = "webhooks/deliveries"
    newest = rows[0].seq if rows and before_seq is None else 0
    ids = [("id", row.id) for row in rows]
    live = visit.to(here, **asked, after=str(newest) if newest else None)
    return visit.page(
        "webhooks_deliveries.html",
        rows=[row_of(visit, row) for row in rows],
        asked=asked,
        is_filtered=any(asked.values()) or bool(cursor),
        states=[("", "Any"), *((name, word) for name, (word, _) in STATES.items())],
        types=[("", "Any"), *TYPES],
        endpoints=endpoint_choices(visit, visit.realm.db.point(endpoints_of, visit.account_id)),
        zone=zone_word(visit.request.headers),
        older=visit.to(here, **asked, cursor=encode_cursor(rows[-1].seq)) if more else "",
        live=f"{live}{'&' if '?' in live else '?'}{urlencode(ids)}",
        here=visit.to(here),
        newest=visit.to(here, **asked) if cursor else "",
    )


async def one(visit: Visit) -> Answer:
    """GET …/deliveries/{delivery}: by its own id, its webhook-id or its event's; every attempt of it."""
    found = visit.realm.db.point(find_delivery, visit.account_id, visit.params["delivery"])
    row = None if found is None else visit.realm.db.point(one_listed, visit.account_id, found.id)
    if row is None:
        raise NotFound("There is no such delivery.")
    if visit.is_fragment:
        seen = visit.query("logged")
        return visit.page(
            "webhooks_delivery_live.html",
            row=row_of(visit, row),
            is_new=seen != str(row.logged),
            here=visit.to(f"webhooks/deliveries/{row.id}"),
        )
    attempts = visit.realm.db.point(attempts_of, row.id)
    endpoint = visit.realm.db.point(endpoint_of_id, row.endpoint_id)
    view = row_of(visit, row)
    return visit.page(
        "webhooks_delivery.html",
        row=view,
        message_id=row.message_id,
        reason=REASONS.get(row.reason or "", ""),
        event_id=row.event_id or "",
        event_href=visit.to(f"webhooks/events/{row.event_id}") if row.event_id else "",
        url=shown_url(row.endpoint_url, whole=visit.may("manage_webhooks")),
        endpoint_state=row.endpoint_state,
        added=() if endpoint is None else endpoint.header_names,
        attempts=[_attempt(attempt) for attempt in reversed(attempts)],
        body=pretty(visit.realm.db.point(body_of, visit.account_id, row.id)),
        live=visit.to(f"webhooks/deliveries/{row.id}", logged=str(row.logged)),
    )


async def resend(visit: Visit) -> Answer:
    """POST …/deliveries/{delivery}/resend: once more, now; how it went is said."""
    delivery = visit.params["delivery"]
    found = await visit.ask("POST", f"/v1/webhooks/deliveries/{delivery}/resend")
    last = found["attemptLog"][-1]
    ended = last_word(last["status"], last["errorClass"])
    went = "it was accepted" if last["errorClass"] is None else "it failed"
    said = f"Sent again, and {went}: {ended} in {last['durationMs']} ms."
    return visit.redirect(f"webhooks/deliveries/{found['id']}", said)


def _filter(visit: Visit) -> DeliveryFilter:
    since = visit.query("since")
    return DeliveryFilter(
        account_id=visit.account_id,
        endpoint_id=visit.query("endpoint") or None,
        state=visit.choice("state", STATES) or None,
        event_type=visit.choice("type", EVENT_TYPES) or None,
        payment_id=visit.query("payment") or None,
        since_ms=instant_ms(visit.request.headers, since, "since") if since else None,
    )


async def _live(visit: Visit, chosen: DeliveryFilter) -> Answer:
    """What changes of the rows that are shown, in their places, and how many came since."""
    ids = visit.request.query.get("id", [])[:PAGE_ROWS]
    since = visit.row("after")

    def look(tx: Tx) -> tuple[int, list[Listed]]:
        new = 0 if since is None else count_newer(tx, chosen, since)
        return new, deliveries_again(tx, visit.account_id, ids) if ids else []

    new, rows = await visit.realm.db.read(look)
    asked = {name: visit.query(name) for name in FILTERS}
    return visit.page(
        "webhooks_deliveries_live.html",
        rows=[row_of(visit, row) for row in rows],
        new=f"more than {COUNT_MAX - 1}" if new >= COUNT_MAX else str(new) if new else "",
        here=visit.to("webhooks/deliveries", **asked),
    )


def _attempt(row: AttemptRow) -> AttemptView:
    body, is_cut = excerpt(row.body)
    phases = [
        f"{name} {ms} ms"
        for name, ms in (("DNS", row.dns_ms), ("connect", row.connect_ms), ("TLS", row.tls_ms))
        if ms is not None
    ]
    return AttemptView(
        n=row.n,
        trigger=TRIGGERS.get(row.trigger, row.trigger),
        at_ms=row.at_ms,
        ok=row.error_class is None,
        word="no answer" if row.status is None else str(row.status),
        took_ms=row.duration_ms,
        phases=", ".join(phases),
        error_class=row.error_class or "",
        error=row.error or "",
        advice=advice(row.status, row.error_class, row.fault) or "",
        fault=(row.fault or "").replace("_", " "),
        remote_ip=row.remote_ip or "",
        retry_after_s=row.retry_after_s,
        next_at_ms=row.next_at_ms,
        headers=(row.headers or b"").decode("utf-8", "replace").replace("\r\n", "\n"),
        body=body,
        is_cut=is_cut or row.truncated,
    )
