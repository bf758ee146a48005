"""Sending many again: what failed since a time, what was never received since then; how such jobs go on.

Source: DESIGN.md, "11. Pages"; SPEC.md, "Delivery rules".
"""

from __future__ import annotations

from typing import Final

import msgspec

from payd.core.errors import InvalidParams
from payd.core.event import iso_ms
from payd.store.endpoints import find_endpoint
from payd.store.webhook_jobs import JobRow, list_jobs
from payd.web.call import Answer
from payd.web.dashboard.visit import Visit
from payd.web.dashboard.webhooks_view import instant_ms, zone_word
from payd.web.query import parse_instant_ms

KINDS: Final = {
    "recover": "All that failed for good",
    "replay-missing": "Events that were never received",
}
_HOUR_MS: Final = 3_600_000
REACHES: Final = {
    "1h": ("the last hour", _HOUR_MS),
    "24h": ("the last 24 hours", 24 * _HOUR_MS),
    "3d": ("the last 3 days", 72 * _HOUR_MS),
    "7d": ("the last 7 days", 7 * 24 * _HOUR_MS),
    "14d": ("the last 14 days", 14 * 24 * _HOUR_MS),
}
STATES: Final = {"running": "wait", "done": "good", "cancelled": "soft"}


class Preview(msgspec.Struct, frozen=True):
    """What a job would send, before anybody says yes."""

    kind: str
    words: str
    since_ms: int
    since: str
    count: int


class JobView(msgspec.Struct, frozen=True):
    """A job and how far it is."""

    id: str
    words: str
    since_ms: int
    state: str
    badge: str
    found: int
    delivered: int
    failed: int
    retrying: int
    taken_back: int
    waiting: int
    can_cancel: bool


async def page(visit: Visit) -> Answer:
    """GET …/replay: query kind, reach; the forms and the jobs; live, the jobs' counts."""
    jobs = [_job(visit, row) for row in await visit.realm.db.read(list_jobs, visit.account_id)]
    if visit.is_fragment:
        return visit.page("webhooks_replay_live.html", jobs=jobs)
    return _show(visit, jobs)


async def preview(visit: Visit) -> Answer:
    """POST …/replay/preview: how many it would be; nothing is sent."""
    kind, since_ms = _kind(visit), _since_ms(visit)
    found = await visit.ask("POST", f"/v1/webhooks/{kind}", {"since": iso_ms(since_ms), "preview": True})
    jobs = [_job(visit, row) for row in await visit.realm.db.read(list_jobs, visit.account_id)]
    count: int = found["matched"]
    return _show(visit, jobs, Preview(kind, KINDS[kind], since_ms, iso_ms(since_ms), count))


async def start(visit: Visit) -> Answer:
    """POST …/replay: begin what was shown."""
    kind = _kind(visit)
    since_ms = parse_instant_ms(visit.typed("from"), "from")
    await visit.ask("POST", f"/v1/webhooks/{kind}", {"since": iso_ms(since_ms)})
    return visit.redirect("webhooks/replay", "It has begun. Fresh events go first.")


async def cancel(visit: Visit) -> Answer:
    """POST …/replay/{job}/cancel: what it queued and was not sent is taken back."""
    await visit.ask("POST", f"/v1/webhooks/jobs/{visit.params['job']}/cancel")
    return visit.redirect("webhooks/replay", "It is cancelled. What was not sent yet is taken back.")


def _show(visit: Visit, jobs: list[JobView], shown: Preview | None = None) -> Answer:
    endpoint = visit.realm.db.point(find_endpoint, visit.account_id)
    return visit.page(
        "webhooks_replay.html",
        endpoint_state="" if endpoint is None else endpoint.state.value,
        jobs=jobs,
        preview=shown,
        kinds=list(KINDS.items()),
        kind=visit.typed("kind") or visit.query("kind"),
        reaches=[(name, words) for name, (words, _) in REACHES.items()],
        reach=visit.typed("reach") or visit.query("reach") or "24h",
        since=visit.typed("since"),
        zone=zone_word(visit.request.headers),
        may_resend=visit.may("resend_webhooks"),
        live=visit.to("webhooks/replay"),
    )


def _kind(visit: Visit) -> str:
    kind = visit.typed("kind")
    if kind not in KINDS:
        raise InvalidParams("Choose what is to be sent again.")
    return kind


def _since_ms(visit: Visit) -> int:
    """Since when: the field for a time of one's own wins over the choice."""
    if since := visit.typed("since"):
        return instant_ms(visit.request.headers, since, "since")
    reach = REACHES.get(visit.typed("reach"))
    if reach is None:
        raise InvalidParams("Choose since when.")
    return visit.realm.clock.now_ms() - reach[1]


def _job(visit: Visit, row: JobRow) -> JobView:
    ended = row.done + row.failed + row.taken_back
    return JobView(
        id=row.id,
        words=KINDS.get(row.kind, row.kind),
        since_ms=row.since_ms,
        state=row.state,
        badge=STATES.get(row.state, "soft"),
        found=row.matched,
        delivered=row.done,
        failed=row.failed,
        retrying=row.retrying,
        taken_back=row.taken_back,
        waiting=max(0, row.queued - ended - row.retrying),
        can_cancel=row.state == "running" and visit.may("resend_webhooks"),
    )
