"""The webhook endpoint, its deliveries and replay jobs over REST.

Source: DESIGN.md, "7. Events and webhooks"; SPEC.md, "Webhook endpoint management".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

import msgspec

from payd.core.endpoint import (
    EVENT_TYPES,
    REPLAY_REACH_MS,
    Endpoint,
    check_events,
    check_url,
)
from payd.core.errors import InvalidParams, Issue, NotFound, ParamsValidation
from payd.core.event import iso_ms
from payd.core.signature import SECRET_BYTES, make_secret
from payd.entropy import new_id
from payd.store import deliveries as deliveries_store
from payd.store import endpoints as endpoints_store
from payd.store.attempts import AttemptRow, attempts_of
from payd.store.db import Tx
from payd.store.deliveries import DeliveryRow, find_delivery
from payd.store.endpoints import get_endpoint, reveal_secret, rotate_secret, switch_endpoint
from payd.store.idempotency import Outcome, once
from payd.store.webhook_jobs import JobRow, Kind, find_job, start_job
from payd.web import query
from payd.web.call import Answer, Call
from payd.web.cursor import encode_cursor
from payd.web.events import PAGE_DEFAULT, PAGE_MAX, before_seq, is_shown, merchants_shown
from payd.web.idempotent import idempotent, outcome_answer
from payd.web.schema import Deleted

T = TypeVar("T")

STATES: Final = ("pending", "succeeded", "failed", "cancelled")
# A caller's clock may be a little behind ours when it asks for the last fourteen days.
REACH_GRACE_MS: Final = 5 * 60 * 1000


class PutEndpoint(msgspec.Struct, frozen=True):
    """`events` left out: all types."""

    url: str
    events: list[str] | None = None


class SendTest(msgspec.Struct, frozen=True):
    """`type`: one of the seven."""

    type: str


class StartJob(msgspec.Struct, frozen=True):
    """`since`: RFC 3339 text, or Unix seconds."""

    since: str | int


class _Out(msgspec.Struct, frozen=True, rename="camel"):
    pass


class EndpointOut(_Out, frozen=True):
    """`secret` is only there where it is shown; `sourceAddresses` is what a receiver's allowlist needs."""

    id: str
    url: str
    events: tuple[str, ...]
    state: str
    failing_since: str | None
    source_addresses: tuple[str, ...]
    secret: str | msgspec.UnsetType = msgspec.UNSET


class TestOut(_Out, frozen=True):
    """What the endpoint answered; `status` null and `errorClass` why, when it did not."""

    delivery_id: str
    status: int | None
    error_class: str | None
    duration_ms: int
    body: str


class DeliveryOut(_Out, frozen=True):
    """One delivery; `attempts` is how many its log has."""

    id: str
    event_id: str | None
    event_type: str
    payment_id: str | None
    state: str
    attempts: int
    last_status: int | None
    next_attempt_at: str | None
    created_at: str


class DeliveryPage(_Out, frozen=True):
    """Newest first."""

    data: list[DeliveryOut]
    next_cursor: str | None


class AttemptOut(_Out, frozen=True):
    """One request; `body` is what the endpoint answered, not to be trusted."""

    n: int
    trigger: str
    at: str
    status: int | None
    error_class: str | None
    duration_ms: int
    remote_ip: str | None
    body: str


class DeliveryDetail(DeliveryOut, frozen=True):
    """A delivery with its log, oldest attempt first."""

    attempt_log: list[AttemptOut]


class JobOut(_Out, frozen=True):
    """Counts: found, put in the queue, delivered, ended otherwise."""

    id: str
    kind: str
    since: str
    state: str
    matched: int
    queued: int
    done: int
    failed: int


async def read_endpoint(call: Call) -> Answer:
    """GET /v1/webhooks/endpoint → `{id, url, events, state, failingSince}`; 404 `not_found`."""
    return Answer.json(_endpoint_out(call, call.realm.db.point(get_endpoint, call.account_id)))


async def put_endpoint(call: Call) -> Answer:
    """PUT /v1/webhooks/endpoint `{url, events?}` → 200 with the endpoint, with `secret` when it is new."""
    body = call.json(PutEndpoint)
    events = check_events(body.events)
    check_url(body.url, allow_http=True)
    await call.realm.deliveries.check_address(body.url)
    now_ms = call.realm.clock.now_ms()
    fresh_id = new_id("ep_", now_ms, call.house.entropy)
    secret, sealed = _fresh_secret(call, fresh_id)
    endpoint, is_new = await _write_and_tell(
        call,
        lambda: call.realm.db.write(
            endpoints_store.put_endpoint,
            account_id=call.account_id,
            url=body.url,
            events=events,
            fresh_id=fresh_id,
            sealed=sealed,
            now_ms=now_ms,
            actor=call.actor,
        ),
        lambda written: call.realm.deliveries.wake(written[0].id),
    )
    return Answer.json(_endpoint_out(call, endpoint, secret if is_new else msgspec.UNSET))


async def delete_endpoint(call: Call) -> Answer:
    """DELETE /v1/webhooks/endpoint → `{id, deleted}`: at once, for good; 404 `not_found`."""

    def tell(deleted: Endpoint) -> None:
        call.realm.deliveries.drop(deleted.id)
        call.realm.deliveries.wake(deleted.id)

    endpoint = await _write_and_tell(
        call,
        lambda: call.realm.db.write(
            endpoints_store.delete_endpoint,
            account_id=call.account_id,
            now_ms=call.realm.clock.now_ms(),
            actor=call.actor,
        ),
        tell,
    )
    return Answer.json(Deleted(endpoint.id))


async def rotate(call: Call) -> Answer:
    """POST /v1/webhooks/endpoint/rotate → the endpoint with its new `secret`; the old one signs 24 h more."""
    endpoint = call.realm.db.point(get_endpoint, call.account_id)
    secret, sealed = _fresh_secret(call, endpoint.id)
    endpoint = await call.realm.db.write(
        rotate_secret,
        endpoint_id=endpoint.id,
        account_id=call.account_id,
        sealed=sealed,
        now_ms=call.realm.clock.now_ms(),
        actor=call.actor,
    )
    return Answer.json(_endpoint_out(call, endpoint, secret))


async def reveal(call: Call) -> Answer:
    """POST /v1/webhooks/endpoint/reveal → the endpoint with its current `secret`; audited."""
    endpoint, sealed = await call.realm.db.write(
        reveal_secret, account_id=call.account_id, now_ms=call.realm.clock.now_ms(), actor=call.actor
    )
    secret = call.realm.deliveries.open_secret(sealed, endpoint.id)
    return Answer.json(_endpoint_out(call, endpoint, secret))


async def enable(call: Call) -> Answer:
    """POST /v1/webhooks/endpoint/enable → the endpoint; what it missed is `replay-missing`'s."""
    return await _switch(call, enabled=True)


async def disable(call: Call) -> Answer:
    """POST /v1/webhooks/endpoint/disable → the endpoint; what it is owed is cancelled."""
    return await _switch(call, enabled=False)


async def test(call: Call) -> Answer:
    """POST /v1/webhooks/endpoint/test `{type}` → 200 `{deliveryId, status, errorClass, durationMs, body}`."""
    body = call.json(SendTest)
    if body.type not in EVENT_TYPES:
        issue = Issue("type", f"must be one of {', '.join(EVENT_TYPES)}")
        raise ParamsValidation(f"{issue.field}: {issue.message}", issues=[issue])
    endpoint = call.realm.db.point(get_endpoint, call.account_id)
    result = await call.realm.deliveries.send_test(endpoint, body.type)
    return Answer.json(
        TestOut(result.delivery_id, result.status, result.error_class, result.duration_ms, _text(result.body))
    )


async def list_deliveries(call: Call) -> Answer:
    """GET /v1/webhooks/deliveries: query `state`, `paymentId`, `cursor`, `limit` → `{data, nextCursor}`."""
    limit = query.whole_number(call, "limit", lowest=1, highest=PAGE_MAX, default=PAGE_DEFAULT)
    rows = await call.realm.db.read(
        partial(
            deliveries_store.list_deliveries,
            account_id=call.account_id,
            state=query.choice(call, "state", STATES),
            payment_id=query.one(call, "paymentId"),
            merchants=merchants_shown(call),
            before_seq=before_seq(call),
            limit=limit + 1,
        )
    )
    next_cursor = encode_cursor(rows[limit - 1].seq) if len(rows) > limit else None
    return Answer.json(DeliveryPage([_delivery_out(row) for row in rows[:limit]], next_cursor))


async def read_delivery(call: Call) -> Answer:
    """GET /v1/webhooks/deliveries/{id} → the delivery with `attemptLog`; 404 `not_found`."""
    return Answer.json(_detail(call))


async def resend(call: Call) -> Answer:
    """POST /v1/webhooks/deliveries/{id}/resend → 200 with the delivery after that one attempt."""
    delivery = _own_delivery(call)
    await call.realm.deliveries.resend(call.account_id, delivery.id)
    return Answer.json(_detail(call))


async def recover(call: Call) -> Answer:
    """POST /v1/webhooks/recover `{since}` → 202 with a job over deliveries that failed for good since."""
    return await _start(call, "recover")


async def replay_missing(call: Call) -> Answer:
    """POST /v1/webhooks/replay-missing `{since}` → 202 with a job over events that never were received."""
    return await _start(call, "replay-missing")


async def read_job(call: Call) -> Answer:
    """GET /v1/webhooks/jobs/{id} → `{id, kind, since, state, matched, queued, done, failed}`."""
    row = await call.realm.db.read(find_job, call.account_id, call.params["id"])
    if row is None:
        raise NotFound("There is no such job.")
    return Answer.json(_job_out(row))


def since_ms(since: str | int, now_ms: int) -> int:
    """How far back a replay reaches, in Unix milliseconds.

    Args:
        since: RFC 3339 text with a time zone, or Unix seconds.
        now_ms: The realm's time.

    Raises:
        InvalidParams: It is no time, in the future, or more than fourteen days ago.

    Source: SPEC.md, "Delivery rules".
    """
    at_ms = since * 1000 if isinstance(since, int) else query.parse_instant_ms(since, "since")
    if at_ms > now_ms:
        raise InvalidParams(f"since must not be in the future; it is {iso_ms(now_ms)} here.")
    if at_ms < now_ms - REPLAY_REACH_MS - REACH_GRACE_MS:
        raise InvalidParams("since must be at most 14 days ago.")
    return at_ms


async def _switch(call: Call, *, enabled: bool) -> Answer:
    endpoint = await _write_and_tell(
        call,
        lambda: call.realm.db.write(
            switch_endpoint,
            account_id=call.account_id,
            enabled=enabled,
            now_ms=call.realm.clock.now_ms(),
            actor=call.actor,
        ),
        lambda switched: call.realm.deliveries.wake(switched.id),
    )
    return Answer.json(_endpoint_out(call, endpoint))


async def _start(call: Call, kind: Kind) -> Answer:
    body = call.json(StartJob)
    now_ms = call.realm.clock.now_ms()
    from_ms = since_ms(body.since, now_ms)
    job_id = new_id("job_", now_ms, call.house.entropy)

    def work(tx: Tx) -> Outcome:
        row = start_job(
            tx, job_id=job_id, account_id=call.account_id, kind=kind, since_ms=from_ms, now_ms=now_ms
        )
        return Outcome(202, msgspec.json.encode(_job_out(row)))

    request = idempotent(call, body)
    outcome = await _write_and_tell(
        call,
        lambda: call.realm.db.write(once, request, work),
        lambda _: call.realm.deliveries.wake_jobs(),
    )
    return outcome_answer(outcome)


async def _write_and_tell(call: Call, write: Callable[[], Awaitable[T]], tell: Callable[[T], None]) -> T:
    """Write, and tell the deliveries of it: also when the client leaves in between."""

    async def work() -> T:
        written = await write()
        tell(written)
        return written

    return await call.realm.payments.in_background(work)


def _fresh_secret(call: Call, endpoint_id: str) -> tuple[str, bytes]:
    secret = make_secret(call.house.entropy(SECRET_BYTES))
    return secret, call.realm.seal.seal(secret.encode("ascii"), endpoint_id)


def _own_delivery(call: Call) -> DeliveryRow:
    row = call.realm.db.point(find_delivery, call.account_id, call.params["id"])
    if row is None or not is_shown(call, row.payment_id):
        raise NotFound("There is no such delivery.")
    return row


def _detail(call: Call) -> DeliveryDetail:
    row = _own_delivery(call)
    attempts = call.realm.db.point(attempts_of, row.id)
    return DeliveryDetail(
        **msgspec.structs.asdict(_delivery_out(row)), attempt_log=[_attempt_out(one) for one in attempts]
    )


def _endpoint_out(
    call: Call, endpoint: Endpoint, secret: str | msgspec.UnsetType = msgspec.UNSET
) -> EndpointOut:
    since = endpoint.failing_since_ms
    return EndpointOut(
        id=endpoint.id,
        url=endpoint.url,
        events=endpoint.events,
        state=endpoint.state.value,
        failing_since=None if since is None else iso_ms(since),
        source_addresses=call.realm.deliveries.rules.bind,
        secret=secret,
    )


def _delivery_out(row: DeliveryRow) -> DeliveryOut:
    return DeliveryOut(
        id=row.id,
        event_id=row.event_id,
        event_type=row.event_type,
        payment_id=row.payment_id,
        state=row.state,
        attempts=row.attempts,
        last_status=row.last_status,
        next_attempt_at=None if row.next_at_ms is None else iso_ms(row.next_at_ms),
        created_at=iso_ms(row.created_at_ms),
    )


def _attempt_out(row: AttemptRow) -> AttemptOut:
    return AttemptOut(
        n=row.n,
        trigger=row.trigger,
        at=iso_ms(row.at_ms),
        status=row.status,
        error_class=row.error_class,
        duration_ms=row.duration_ms,
        remote_ip=row.remote_ip,
        body=_text(row.body),
    )


def _job_out(row: JobRow) -> JobOut:
    return JobOut(
        row.id, row.kind, iso_ms(row.since_ms), row.state, row.matched, row.queued, row.done, row.failed
    )


def _text(body: bytes) -> str:
    return body.decode("utf-8", "replace")
