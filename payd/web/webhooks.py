"""The webhook endpoint over REST.

Source: DESIGN.md, "7. Events and webhooks"; SPEC.md, "Webhook endpoint management".
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from payd.actors.attempts import TestResult
from payd.core.advice import advice
from payd.core.endpoint import (
    EVENT_TYPES,
    Endpoint,
    check_events,
    check_url,
    disables_at_ms,
    missed_since_ms,
    old_secrets_until_ms,
)
from payd.core.errors import Issue, ParamsValidation, StoreUnavailable
from payd.core.event import iso_ms
from payd.core.header import check_headers
from payd.core.signature import SECRET_BYTES, make_secret
from payd.entropy import new_id
from payd.store import endpoints as endpoints_store
from payd.store.audit import insert_audit
from payd.store.db import Tx
from payd.store.endpoints import (
    Act,
    Headers,
    get_endpoint,
    reveal_secret,
    rotate_secret,
    secrets_of,
    sweep_endpoint,
    switch_endpoint,
)
from payd.store.idempotency import IdempotentRequest, Outcome, find_replay, keep_answer, once
from payd.store.webhook_jobs import Preview, preview_job
from payd.web.call import Answer, Call
from payd.web.idempotent import idempotent, outcome_answer
from payd.web.schema import Deleted


class PutEndpoint(msgspec.Struct, frozen=True):
    """`events` left out: all types. `headers` left out: as they are."""

    url: str
    events: list[str] | None = None
    headers: dict[str, str] | None = None


class SendTest(msgspec.Struct, frozen=True):
    """`type`: one of the seven."""

    type: str


class _Out(msgspec.Struct, frozen=True, rename="camel"):
    pass


class EndpointOut(_Out, frozen=True):
    """An endpoint; `secret` is only there where it is shown.

    `headers` are names: their values may be secrets. `disablesAt` is when it is given up if it goes on
    failing; null, too, once a day without an attempt has started the count again. `offSince` is since when it
    is paused or disabled, `oldSecretsUntil` when the last secret that was rotated out stops signing,
    `sourceAddresses` what a receiver's allowlist needs; an empty list: the system chooses. `missedEvents`
    comes with `enable`: how many events since `missedSince`, at most 14 days ago, a replay would send; null
    where that takes too long to count.
    """

    id: str
    url: str
    events: tuple[str, ...]
    headers: tuple[str, ...]
    state: str
    failing_since: str | None
    disables_at: str | None
    off_since: str | None
    old_secrets_until: str | None
    source_addresses: tuple[str, ...]
    secret: str | msgspec.UnsetType = msgspec.UNSET
    missed_events: int | msgspec.UnsetType | None = msgspec.UNSET
    missed_since: str | msgspec.UnsetType = msgspec.UNSET


class TestOut(_Out, frozen=True):
    """What the endpoint answered; `status` null and `errorClass` why, when it did not.

    `error` says what happened, `advice` what to do.
    """

    delivery_id: str
    status: int | None
    error_class: str | None
    error: str | None
    advice: str | None
    duration_ms: int
    body: str


async def read_endpoint(call: Call) -> Answer:
    """GET /v1/webhooks/endpoint → `{id, url, events, headers, state, failingSince, …}`; 404 `not_found`."""
    return Answer.json(call.realm.db.point(lambda tx: _shown(tx, call, get_endpoint(tx, call.account_id))))


async def put_endpoint(call: Call) -> Answer:
    """PUT /v1/webhooks/endpoint `{url, events?, headers?}` → 200, with `secret` when it is new."""
    body = call.json(PutEndpoint)
    events = check_events(body.events)
    check_url(body.url, allow_http=True)
    await call.realm.deliveries.check_address(body.url)
    now_ms = call.realm.clock.now_ms()
    fresh_id = new_id("ep_", now_ms, call.house.entropy)
    secret, sealed = _fresh_secret(call, fresh_id)

    headers = _headers(call, body.headers)

    def step(tx: Tx) -> EndpointOut:
        endpoint, is_new = endpoints_store.put_endpoint(
            tx,
            account_id=call.account_id,
            url=body.url,
            events=events,
            fresh_id=fresh_id,
            sealed=sealed,
            now_ms=now_ms,
            actor=call.actor,
            headers=headers,
        )
        return _shown(tx, call, endpoint, secret=secret if is_new else msgspec.UNSET)

    def tell(shown: EndpointOut) -> None:
        call.realm.deliveries.wake(shown.id)
        if shown.secret is not msgspec.UNSET:
            call.realm.account_feed.secret_changed(call.account_id)

    return Answer.json(await call.realm.db.write_and_tell(tell, step))


async def delete_endpoint(call: Call) -> Answer:
    """DELETE /v1/webhooks/endpoint → `{id, deleted}`: at once, for good; 404 `not_found`."""

    def tell(deleted: Endpoint) -> None:
        call.realm.deliveries.drop(deleted.id)
        call.realm.deliveries.wake(deleted.id)
        call.realm.account_feed.secret_changed(call.account_id)

    endpoint = await call.realm.db.write_and_tell(
        tell,
        endpoints_store.delete_endpoint,
        account_id=call.account_id,
        now_ms=call.realm.clock.now_ms(),
        actor=call.actor,
    )
    return Answer.json(Deleted(endpoint.id))


async def rotate(call: Call) -> Answer:
    """POST /v1/webhooks/endpoint/rotate → the endpoint with its new `secret`; the old one signs 24 h more.

    Takes no `Idempotency-Key`: a kept answer would hold the secret in the clear, also when it is long gone.
    Who lost the answer asks `reveal`; who rotates twice loses nothing, as both secrets before sign for a day.
    """
    endpoint_id = call.realm.db.point(get_endpoint, call.account_id).id
    secret, sealed = _fresh_secret(call, endpoint_id)

    def step(tx: Tx) -> EndpointOut:
        endpoint = rotate_secret(
            tx,
            endpoint_id=endpoint_id,
            account_id=call.account_id,
            sealed=sealed,
            now_ms=call.realm.clock.now_ms(),
            actor=call.actor,
        )
        return _shown(tx, call, endpoint, secret=secret)

    shown = await call.realm.db.write_and_tell(
        lambda _: call.realm.account_feed.secret_changed(call.account_id), step
    )
    return Answer.json(shown)


async def reveal(call: Call) -> Answer:
    """POST /v1/webhooks/endpoint/reveal → the endpoint with its current `secret`; audited."""

    def step(tx: Tx) -> EndpointOut:
        endpoint, secret = reveal_secret(
            tx,
            account_id=call.account_id,
            seal=call.realm.seal,
            now_ms=call.realm.clock.now_ms(),
            actor=call.actor,
        )
        return _shown(tx, call, endpoint, secret=secret)

    return Answer.json(await call.realm.db.write(step))


async def enable(call: Call) -> Answer:
    """POST /v1/webhooks/endpoint/enable → the endpoint with `missedEvents`, which `replay-missing` sends.

    To count them may take long, so it is done before the switch, and what came meanwhile is added in its
    step: the answer is kept together with its effect, and leaves out none.
    What it was owed when it was disabled is cancelled first, to the last of it.
    """
    if (replay := call.realm.db.point(find_replay, idempotent(call, None))) is not None:
        return outcome_answer(replay)
    endpoint = call.realm.db.point(get_endpoint, call.account_id)
    while await call.realm.db.write(sweep_endpoint, endpoint.id):
        pass
    now_ms = call.realm.clock.now_ms()
    since_ms = missed_since_ms(endpoint, now_ms)
    look = partial(
        preview_job, account_id=call.account_id, kind="replay-missing", since_ms=since_ms, now_ms=now_ms
    )
    before: Preview | None = None
    with suppress(StoreUnavailable):
        before = await call.realm.db.read(look)

    def missed(tx: Tx) -> dict[str, Any]:
        found = None if before is None else look(tx, after=before, now_ms=call.realm.clock.now_ms()).matched
        return {"missed_events": found, "missed_since": iso_ms(since_ms)}

    return await _switch(call, "enable", missed)


async def disable(call: Call) -> Answer:
    """POST /v1/webhooks/endpoint/disable → the endpoint; what it is owed is cancelled."""
    return await _switch(call, "disable")


async def pause(call: Call) -> Answer:
    """POST /v1/webhooks/endpoint/pause → the endpoint; events wait for it until `resume`. 409 if disabled."""
    return await _switch(call, "pause")


async def resume(call: Call) -> Answer:
    """POST /v1/webhooks/endpoint/resume → the endpoint; what waited is sent now. 409 if disabled."""
    return await _switch(call, "resume")


async def test(call: Call) -> Answer:
    """POST /v1/webhooks/endpoint/test `{type}` → 200 `{deliveryId, status, errorClass, durationMs, body}`.

    Under an `Idempotency-Key` the answer is kept in the step that logs the delivery. A crash between the
    request and that step leaves neither, and a repetition sends another test: nothing but the receiver knows
    of the first, which is marked as no real event, and the audit has both.
    """
    body = call.json(SendTest)
    if body.type not in EVENT_TYPES:
        raise ParamsValidation.of(Issue("type", f"must be one of {', '.join(EVENT_TYPES)}"))
    request = idempotent(call, body)
    return outcome_answer(await call.realm.requests.once(request, partial(_test, call, body.type, request)))


async def _test(call: Call, event_type: str, request: IdempotentRequest | None) -> Outcome:
    endpoint = call.realm.db.point(get_endpoint, call.account_id)
    begins = partial(
        call.realm.db.write,
        insert_audit,
        at_ms=call.realm.clock.now_ms(),
        account_id=call.account_id,
        actor=call.actor,
        act="webhook.test",
        subject=endpoint.id,
        details={"type": event_type},
    )

    def keep(tx: Tx, result: TestResult) -> None:
        keep_answer(tx, request, _tested(result))

    # The send writes it: one that is refused was not done, and is not audited.
    return _tested(await call.realm.deliveries.send_test(endpoint, event_type, begins, keep))


def _tested(result: TestResult) -> Outcome:
    delivery_id, end = result
    out = TestOut(
        delivery_id=delivery_id,
        status=end.status,
        error_class=end.error_class,
        error=end.error or None,
        advice=advice(end.status, end.error_class),
        duration_ms=end.duration_ms,
        body=end.body.decode("utf-8", "replace"),
    )
    return Outcome(200, msgspec.json.encode(out))


async def _switch(call: Call, act: Act, more: Callable[[Tx], dict[str, Any]] = lambda _: {}) -> Answer:
    """Switch the endpoint, once for each idempotency key; `more` is shown of it."""
    now_ms = call.realm.clock.now_ms()
    switched: list[str] = []

    def work(tx: Tx) -> Outcome:
        endpoint = switch_endpoint(tx, account_id=call.account_id, act=act, now_ms=now_ms, actor=call.actor)
        switched.append(endpoint.id)
        out = _shown(tx, call, endpoint, **more(tx))
        return Outcome(200, msgspec.json.encode(out))

    def tell(_: Outcome) -> None:
        for endpoint_id in switched:
            call.realm.deliveries.wake(endpoint_id)

    request = idempotent(call, None)
    return outcome_answer(await call.realm.db.write_and_tell(tell, once, request, work))


def _fresh_secret(call: Call, endpoint_id: str) -> tuple[str, bytes]:
    secret = make_secret(call.house.entropy(SECRET_BYTES))
    return secret, call.realm.seal.seal(secret.encode("ascii"), endpoint_id)


def _headers(call: Call, headers: dict[str, str] | None) -> Headers | None:
    if headers is None:
        return None
    checked = check_headers(headers)
    return lambda endpoint_id: call.realm.seal.seal(msgspec.json.encode(checked), endpoint_id), tuple(checked)


def _shown(tx: Tx, call: Call, endpoint: Endpoint, **more: Any) -> EndpointOut:
    now_ms = call.realm.clock.now_ms()
    return EndpointOut(
        id=endpoint.id,
        url=endpoint.url,
        events=endpoint.events,
        headers=endpoint.header_names,
        state=endpoint.state.value,
        failing_since=_iso(endpoint.failing_since_ms),
        disables_at=_iso(disables_at_ms(endpoint, now_ms)),
        off_since=_iso(endpoint.off_since_ms),
        old_secrets_until=_iso(old_secrets_until_ms(secrets_of(tx, endpoint.id), now_ms)),
        source_addresses=call.realm.deliveries.rules.bind,
        **more,
    )


def _iso(at_ms: int | None) -> str | None:
    return None if at_ms is None else iso_ms(at_ms)
