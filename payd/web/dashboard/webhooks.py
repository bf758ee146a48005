"""The webhook endpoint: register it, change it, see how it does, test it, its secret, and away with it.

Source: DESIGN.md, "11. Pages"; DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import msgspec

from payd.core.endpoint import EVENT_TYPES, Endpoint, EndpointState, missed_since_ms
from payd.core.errors import InvalidParams, NotFound, StoreUnavailable
from payd.store.delivery_list import COUNT_MAX, Owed, owed_to
from payd.store.endpoints import find_endpoint
from payd.store.webhook_jobs import preview_job
from payd.web.call import Answer
from payd.web.dashboard.visit import Visit
from payd.web.dashboard.webhooks_faults import fault_values
from payd.web.dashboard.webhooks_view import (
    EXCERPT_BYTES,
    TYPES,
    EndpointView,
    endpoint_view,
    host_of,
)

PATH: Final = "/v1/webhooks/endpoint"


class Tested(msgspec.Struct, frozen=True):
    """What a test event met; `word` says it in short."""

    type: str
    ok: bool
    word: str
    took_ms: int
    error: str
    advice: str
    body: str
    is_cut: bool
    href: str


async def page(visit: Visit) -> Answer:
    """GET /d/{mode}/webhooks: the endpoint, or a form for the first one; live, its parts that move."""
    endpoint = _find(visit)
    if visit.is_fragment:
        return await _live(visit, endpoint)
    return await _show(visit, endpoint)


async def save(visit: Visit) -> Answer:
    """POST /d/{mode}/webhooks: register or change it; a new one's secret is shown.

    A form that was open for long undoes nothing that somebody else has changed.
    """
    endpoint = _find(visit)
    url, events = visit.typed("url"), visit.form.get("events", [])
    if endpoint is None and "was_url" in visit.form:
        raise NotFound("This endpoint is not there any more.")
    if endpoint is not None and visit.typed("adds") and url != endpoint.url:
        raise InvalidParams(
            "Somebody added an endpoint meanwhile. Look at it: if yours is to take its place, change it here."
        )
    if endpoint is not None and not visit.is_changed("url"):
        url = endpoint.url
    if endpoint is not None and events and {*events} == {*visit.typed("was_events").split()}:
        events = [*endpoint.events]
    made = await visit.ask("PUT", PATH, {"url": url, "events": events})
    if "secret" in made:
        return await _show(visit, _find(visit), secret=made["secret"], is_new=True)
    return visit.redirect("webhooks", "The webhook endpoint is saved.")


async def pause(visit: Visit) -> Answer:
    """POST …/pause: events wait until it is resumed."""
    await visit.ask("POST", f"{PATH}/pause")
    return visit.redirect("webhooks", "The endpoint is paused. Events wait for it until you resume it.")


async def resume(visit: Visit) -> Answer:
    """POST …/resume: what waited is sent now."""
    await visit.ask("POST", f"{PATH}/resume")
    return visit.redirect("webhooks", "The endpoint goes on. What waited is sent now.")


async def disable(visit: Visit) -> Answer:
    """POST …/disable: nothing more is owed to it."""
    await visit.ask("POST", f"{PATH}/disable")
    return visit.redirect("webhooks", "The endpoint is disabled. Nothing is sent until you enable it.")


async def enable(visit: Visit) -> Answer:
    """POST …/enable: on again, with five fresh days, and on to what it missed."""
    endpoint = await visit.ask("POST", f"{PATH}/enable")
    missed = endpoint["missedEvents"]
    if missed == 0:
        return visit.redirect("webhooks", "The endpoint is enabled. It missed no events.")
    count = "some" if missed is None else str(missed)
    said = (
        f"The endpoint is enabled. It missed {count} event{'' if missed == 1 else 's'}: send them from here."
    )
    return visit.redirect("webhooks/replay", said, kind="replay-missing", reach="14d")


async def test(visit: Visit) -> Answer:
    """POST …/test: one signed event with sample data, and what came back, in the page."""
    event_type = visit.typed("type")
    found = await visit.ask("POST", f"{PATH}/test", {"type": event_type})
    return await _show(visit, _find(visit), tested=_tested(visit, event_type, found))


async def reveal(visit: Visit) -> Answer:
    """POST …/reveal: the secret, in the answer alone; audited."""
    found = await visit.ask("POST", f"{PATH}/reveal")
    return await _show(visit, _find(visit), secret=found["secret"])


async def rotate(visit: Visit) -> Answer:
    """POST …/rotate: a new secret, beside which the old one signs for a day."""
    found = await visit.ask("POST", f"{PATH}/rotate")
    return await _show(visit, _find(visit), secret=found["secret"], is_rotated=True)


async def delete(visit: Visit) -> Answer:
    """POST …/delete: at once and for good, if its host was typed."""
    endpoint = _find(visit)
    if endpoint is None or endpoint.id != visit.typed("endpoint"):
        raise NotFound("This endpoint is not there any more.")
    host = host_of(endpoint.url)
    if visit.typed("host").lower() != host:
        raise InvalidParams(f"To delete the endpoint, type its host: {host}.")
    await visit.ask("DELETE", PATH)
    return visit.redirect("webhooks", "The webhook endpoint is deleted.")


def _find(visit: Visit) -> Endpoint | None:
    return visit.realm.db.point(find_endpoint, visit.account_id)


async def _show(
    visit: Visit,
    endpoint: Endpoint | None,
    *,
    secret: str = "",
    is_new: bool = False,
    is_rotated: bool = False,
    tested: Tested | None = None,
) -> Answer:
    chosen = set(endpoint.events if endpoint is not None else EVENT_TYPES)
    if visit.refusal is not None and "url" in visit.form:
        chosen = set(visit.form.get("events", []))
    values: dict[str, Any] = {
        "types": TYPES,
        "chosen": chosen,
        "bind": visit.realm.deliveries.rules.bind,
        "config": f"webhooks.{visit.mode}",
        "allow_http": visit.realm.deliveries.rules.allow_http,
        "proxied": bool(visit.realm.deliveries.rules.proxy),
        "may_manage": visit.may("manage_webhooks"),
        "may_see_secret": visit.may("see_secrets"),
    }
    if endpoint is None:
        return visit.page("webhooks_add.html", **values)
    view = endpoint_view(visit, endpoint)
    return visit.page(
        "webhooks.html",
        endpoint=view,
        secret=secret,
        is_new=is_new,
        is_rotated=is_rotated,
        tested=tested,
        tested_type=tested.type if tested else "payment.succeeded",
        owed=await _owed(visit, view),
        missed=await _missed(visit, endpoint),
        live=visit.to("webhooks", was=view.word),
        **fault_values(visit, endpoint),
        **values,
    )


async def _live(visit: Visit, endpoint: Endpoint | None) -> Answer:
    """The parts that move; who sees another state than the present one is told to load the page again."""
    view = None if endpoint is None else endpoint_view(visit, endpoint)
    word = "Deleted" if view is None else view.word
    return visit.page(
        "webhooks_live.html",
        endpoint=view,
        owed=None if view is None else await _owed(visit, view),
        changed="" if visit.query("was") == word else word,
        here=visit.to("webhooks"),
    )


async def _owed(visit: Visit, endpoint: EndpointView) -> dict[str, str]:
    owed: Owed = await visit.realm.db.read(owed_to, visit.account_id, endpoint.id)
    return {
        name: f"more than {COUNT_MAX - 1}" if count >= COUNT_MAX else str(count)
        for name, count in owed._asdict().items()
    }


async def _missed(visit: Visit, endpoint: Endpoint) -> int | None:
    """How many events a disabled endpoint missed in the last fourteen days; None: too many to count now."""
    if endpoint.state is not EndpointState.DISABLED:
        return 0
    now_ms = visit.realm.clock.now_ms()
    with suppress(StoreUnavailable):
        found = await visit.realm.db.read(
            preview_job,
            account_id=visit.account_id,
            kind="replay-missing",
            since_ms=missed_since_ms(endpoint, now_ms),
            now_ms=now_ms,
        )
        return found.matched
    return None


def _tested(visit: Visit, event_type: str, found: dict[str, Any]) -> Tested:
    body: str = found["body"]
    status = found["status"]
    return Tested(
        type=event_type,
        ok=found["errorClass"] is None,
        word="No answer" if status is None else str(status),
        took_ms=found["durationMs"],
        error=found["error"] or "",
        advice=found["advice"] or "",
        body=body[:EXCERPT_BYTES],
        is_cut=len(body) > EXCERPT_BYTES,
        href=visit.to(f"webhooks/deliveries/{found['deliveryId']}"),
    )
