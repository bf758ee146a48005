"""Deliveries, their logs, and replays of many over REST.

Source: DESIGN.md, "7. Events and webhooks"; SPEC.md, "Webhook endpoint management".
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from payd.core.advice import advice
from payd.core.endpoint import REPLAY_REACH_MS
from payd.core.errors import InvalidParams, NotFound
from payd.core.event import iso_ms
from payd.entropy import new_id
from payd.store import deliveries as deliveries_store
from payd.store.attempts import AttemptRow, attempts_of
from payd.store.db import Tx
from payd.store.deliveries import DeliveryRow, find_delivery
from payd.store.idempotency import IdempotentRequest, Outcome, keep_answer, once
from payd.store.webhook_jobs import JobRow, Kind, cancel_job, find_job, list_jobs, preview_job, start_job
from payd.web import query
from payd.web.acts import audit
from payd.web.call import Answer, Call
from payd.web.cursor import encode_cursor
from payd.web.events import DELIVERY_STATES, PAGE_DEFAULT, PAGE_MAX, before_seq, is_shown, merchants_shown
from payd.web.idempotent import idempotent, outcome_answer

# A caller's clock may be a little behind ours when it asks for the last fourteen days.
REACH_GRACE_MS: Final = 5 * 60 * 1000


class StartJob(msgspec.Struct, frozen=True):
    """`since`: RFC 3339 text, or Unix seconds. `preview`: only count what the job would send."""

    since: str | int
    preview: bool = False


class _Out(msgspec.Struct, frozen=True, rename="camel"):
    pass


class DeliveryOut(_Out, frozen=True):
    """One delivery; `attempts` is how many its log has, `reason` why it was cancelled.

    `messageId` is its webhook-id. `endpointState` is that of the endpoint it is owed to: while that is
    paused, nothing is sent at `nextAttemptAt`.
    """

    id: str
    message_id: str
    event_id: str | None
    event_type: str
    payment_id: str | None
    state: str
    reason: str | None
    attempts: int
    last_status: int | None
    next_attempt_at: str | None
    created_at: str
    endpoint_state: str


class DeliveryPage(_Out, frozen=True):
    """Newest first."""

    data: list[DeliveryOut]
    next_cursor: str | None


class TimingOut(_Out, frozen=True):
    """Milliseconds to find the address, to connect, to agree on TLS, and in all, with the body."""

    dns_ms: int | None
    connect_ms: int | None
    tls_ms: int | None
    total_ms: int | None


class AttemptOut(_Out, frozen=True):
    """One request; `headers` and `body` are what the endpoint answered, not to be trusted.

    `error` says what happened and `advice` what to do. `timing` is what the time went to before the answer:
    null for a phase that a kept connection did not need. `nextAttemptAt` is when the next one was due then.
    `fault` is what was done to it on purpose, in test mode; null: nothing.
    """

    n: int
    trigger: str
    at: str
    status: int | None
    error_class: str | None
    error: str | None
    advice: str | None
    duration_ms: int
    timing: TimingOut
    remote_ip: str | None
    retry_after_s: int | None
    next_attempt_at: str | None
    headers: str
    body: str
    truncated: bool
    fault: str | None


class DeliveryDetail(DeliveryOut, frozen=True):
    """A delivery with the newest of its log, at most 50 attempts, oldest first."""

    attempt_log: list[AttemptOut]


class JobList(_Out, frozen=True):
    """Newest first."""

    data: list[JobOut]


class PreviewOut(_Out, frozen=True):
    """What a job would send."""

    kind: str
    since: str
    matched: int


class JobOut(_Out, frozen=True):
    """Counts: found, put in the queue, delivered, ended otherwise.

    `takenBack` were queued and are not sent any more, because the job was cancelled; `retrying` were refused
    so far and are tried again.
    """

    id: str
    kind: str
    since: str
    state: str
    matched: int
    queued: int
    done: int
    failed: int
    taken_back: int
    retrying: int


async def list_deliveries(call: Call) -> Answer:
    """GET /v1/webhooks/deliveries: query `state`, `paymentId`, `cursor`, `limit` → `{data, nextCursor}`."""
    limit = query.limit_in(call, PAGE_MAX, PAGE_DEFAULT)
    rows = await call.realm.db.read(
        partial(
            deliveries_store.list_deliveries,
            account_id=call.account_id,
            state=query.choice(call, "state", DELIVERY_STATES),
            payment_id=query.one(call, "paymentId"),
            merchants=merchants_shown(call),
            before_seq=before_seq(call),
            limit=limit + 1,
        )
    )
    next_cursor = encode_cursor(rows[limit - 1].seq) if len(rows) > limit else None
    return Answer.json(DeliveryPage([_delivery_out(row) for row in rows[:limit]], next_cursor))


async def read_delivery(call: Call) -> Answer:
    """GET /v1/webhooks/deliveries/{id} → the delivery with `attemptLog`; 404 `not_found`.

    The id may be the delivery's own, its webhook-id (`msg_…`), or its event's (`evt_…`).
    """
    found = await call.realm.db.read(_with_log, call.account_id, call.params["id"])
    if found is None or not is_shown(call, found[0].payment_id):
        raise _unknown()
    return Answer.json(_detail(*found))


async def resend(call: Call) -> Answer:
    """POST /v1/webhooks/deliveries/{id}/resend → 200 with the delivery after that one attempt.

    Under an `Idempotency-Key` the answer is kept in the step that logs the attempt. A crash between the
    request and that step leaves no answer, and a repetition makes the request again, as payd does with any
    attempt that a crash cut off: with the same webhook-id, and a second time in the audit.
    """
    delivery = _own_delivery(call)
    if delivery.event_seq is None:
        raise NotFound("Tests are not sent again; POST /v1/webhooks/endpoint/test sends another.")
    request = idempotent(call, None)
    resending = partial(_resend, call, delivery.id, delivery.event_seq, request)
    return outcome_answer(await call.realm.requests.once(request, resending))


async def _resend(call: Call, delivery_id: str, seq: int, request: IdempotentRequest | None) -> Outcome:
    outcomes: list[Outcome] = []

    def asked(tx: Tx) -> None:
        deliveries_store.check_resend(tx, call.account_id, delivery_id, call.realm.clock.now_ms())
        audit(tx, call, "webhook.resend", delivery_id)

    async def begins() -> None:
        tell = call.realm.account_feed.resend
        await call.realm.db.write_and_tell(lambda _: tell(call.account_id, seq), asked)

    def keep(tx: Tx) -> None:
        row = find_delivery(tx, call.account_id, delivery_id)
        assert row is not None, "a delivery is never removed within the reach of a resend"
        outcome = Outcome(200, msgspec.json.encode(_detail(row, attempts_of(tx, row.id))))
        keep_answer(tx, request, outcome)
        outcomes.append(outcome)

    await call.realm.deliveries.resend(call.account_id, delivery_id, begins, keep)
    return outcomes[0]


async def recover(call: Call) -> Answer:
    """POST /v1/webhooks/recover `{since, preview?}` → 202: a job over what failed for good since then.

    With `preview` 200 and only the count, `{kind, since, matched}`.
    """
    return await _start(call, "recover")


async def replay_missing(call: Call) -> Answer:
    """POST /v1/webhooks/replay-missing `{since, preview?}` → 202: a job over events that were never received.

    With `preview` 200 and only the count, `{kind, since, matched}`.
    """
    return await _start(call, "replay-missing")


async def read_job(call: Call) -> Answer:
    """GET /v1/webhooks/jobs/{id} → `{id, kind, since, state, matched, queued, done, failed, …}`."""
    row = await call.realm.db.read(find_job, call.account_id, call.params["id"])
    if row is None:
        raise NotFound("There is no such job.")
    return Answer.json(_job_out(row))


async def read_jobs(call: Call) -> Answer:
    """GET /v1/webhooks/jobs → `{data}`: the newest, newest first."""
    return Answer.json(
        JobList([_job_out(row) for row in await call.realm.db.read(list_jobs, call.account_id)])
    )


async def end_job(call: Call) -> Answer:
    """POST /v1/webhooks/jobs/{id}/cancel → the job; what it queued and was not sent is taken back."""
    job_id = call.params["id"]

    def work(tx: Tx) -> None:
        cancel_job(tx, call.account_id, job_id)
        audit(tx, call, "webhook.cancel-job", job_id)

    await call.realm.db.write_and_tell(lambda _: call.realm.deliveries.wake_jobs(), work)
    return await read_job(call)


def since_ms(since: str | int, now_ms: int, clock: str = "the server's clock") -> int:
    """How far back a replay reaches, in Unix milliseconds.

    Args:
        since: RFC 3339 text with a time zone, or Unix seconds.
        now_ms: The realm's time.
        clock: What that is called.

    Raises:
        InvalidParams: It is no time, in the future, or more than fourteen days ago.

    Source: SPEC.md, "Delivery rules".
    """
    at_ms = since * 1000 if isinstance(since, int) else query.parse_instant_ms(since, "since")
    if at_ms > now_ms:
        raise InvalidParams(f"since must not be in the future; by {clock} it is {iso_ms(now_ms)}.")
    if at_ms < now_ms - REPLAY_REACH_MS - REACH_GRACE_MS:
        earliest = iso_ms(now_ms - REPLAY_REACH_MS)
        raise InvalidParams(f"since must be at most 14 days ago, by {clock} not before {earliest}.")
    return at_ms


async def _start(call: Call, kind: Kind) -> Answer:
    body = call.json(StartJob)
    now_ms = call.realm.clock.now_ms()
    clock = "the test clock, which was moved," if call.realm.clock.offset_ms else "the server's clock"
    if body.preview:
        from_ms = since_ms(body.since, now_ms, clock)
        found = await call.realm.db.read(
            preview_job, account_id=call.account_id, kind=kind, since_ms=from_ms, now_ms=now_ms
        )
        return Answer.json(PreviewOut(kind, iso_ms(from_ms), found.matched))
    job_id = new_id("job_", now_ms, call.house.entropy)

    def work(tx: Tx) -> Outcome:
        # Not before: a repeated request gets its answer also when the time has aged out of reach.
        from_ms = since_ms(body.since, now_ms, clock)
        row = start_job(
            tx, job_id=job_id, account_id=call.account_id, kind=kind, since_ms=from_ms, now_ms=now_ms
        )
        audit(tx, call, f"webhook.{kind}", job_id, {"since": iso_ms(from_ms)})
        return Outcome(202, msgspec.json.encode(_job_out(row)))

    request = idempotent(call, body)
    outcome = await call.realm.db.write_and_tell(
        lambda _: call.realm.deliveries.wake_jobs(), once, request, work
    )
    return outcome_answer(outcome)


def _own_delivery(call: Call) -> DeliveryRow:
    row = call.realm.db.point(find_delivery, call.account_id, call.params["id"])
    if row is None or not is_shown(call, row.payment_id):
        raise _unknown()
    return row


def _unknown() -> NotFound:
    return NotFound("There is no such delivery.")


def _with_log(tx: Tx, account_id: str, any_id: str) -> tuple[DeliveryRow, list[AttemptRow]] | None:
    """A delivery and its log as they are at one moment: to be run in one transaction."""
    row = find_delivery(tx, account_id, any_id)
    return None if row is None else (row, attempts_of(tx, row.id))


def _detail(row: DeliveryRow, attempts: list[AttemptRow]) -> DeliveryDetail:
    return DeliveryDetail(
        **msgspec.structs.asdict(_delivery_out(row)), attempt_log=[_attempt_out(one) for one in attempts]
    )


def _delivery_out(row: DeliveryRow) -> DeliveryOut:
    return DeliveryOut(
        id=row.id,
        message_id=row.message_id,
        event_id=row.event_id,
        event_type=row.event_type,
        payment_id=row.payment_id,
        state=row.state,
        reason=row.reason,
        attempts=row.attempts,
        last_status=row.last_status,
        next_attempt_at=None if row.next_at_ms is None else iso_ms(row.next_at_ms),
        created_at=iso_ms(row.created_at_ms),
        endpoint_state=row.endpoint_state,
    )


def _attempt_out(row: AttemptRow) -> AttemptOut:
    return AttemptOut(
        n=row.n,
        trigger=row.trigger,
        at=iso_ms(row.at_ms),
        status=row.status,
        error_class=row.error_class,
        error=row.error,
        advice=advice(row.status, row.error_class, row.fault),
        duration_ms=row.duration_ms,
        timing=TimingOut(row.dns_ms, row.connect_ms, row.tls_ms, row.total_ms),
        remote_ip=row.remote_ip,
        retry_after_s=row.retry_after_s,
        next_attempt_at=None if row.next_at_ms is None else iso_ms(row.next_at_ms),
        headers=_text(row.headers or b""),
        body=_text(row.body),
        truncated=row.truncated,
        fault=row.fault,
    )


def _job_out(row: JobRow) -> JobOut:
    return JobOut(
        id=row.id,
        kind=row.kind,
        since=iso_ms(row.since_ms),
        state=row.state,
        matched=row.matched,
        queued=row.queued,
        done=row.done,
        failed=row.failed,
        taken_back=row.taken_back,
        retrying=row.retrying,
    )


def _text(body: bytes) -> str:
    return body.decode("utf-8", "replace")
