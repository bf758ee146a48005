"""The webhook endpoint over REST.

Source: DESIGN.md, "7. Events and webhooks"; SPEC.md, "Webhook endpoint management".
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from payd.core.advice import advice
from payd.core.endpoint import (
    EVENT_TYPES,
    REPLAY_REACH_MS,
    Endpoint,
    check_events,
    check_url,
    disables_at_ms,
    old_secrets_until_ms,
)
from payd.core.errors import Issue, ParamsValidation, StoreUnavailable
from payd.core.event import iso_ms
from payd.core.header import check_headers
from payd.core.signature import SECRET_BYTES, make_secret
from payd.entropy import new_id
from payd.store import endpoints as endpoints_store
from payd.store.audit import insert_audit
from payd.store.endpoints import (
    Act,
    Headers,
    get_endpoint,
    reveal_secret,
    rotate_secret,
    secrets_of,
    switch_endpoint,
)
from payd.store.webhook_jobs import preview_job
from payd.web.call import Answer, Call
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
    failing, `offSince` since when it is paused or disabled, `oldSecretsUntil` when the last secret that was
    rotated out stops signing, `sourceAddresses` what a receiver's allowlist needs; an empty list: the system
    chooses. `missedEvents` comes with `enable`: how many events since
    `missedSince`, at most 14 days ago, a replay would send; null where that takes too long to count.
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
    return Answer.json(_endpoint_out(call, call.realm.db.point(get_endpoint, call.account_id)))


async def put_endpoint(call: Call) -> Answer:
    """PUT /v1/webhooks/endpoint `{url, events?, headers?}` → 200, with `secret` when it is new."""
    body = call.json(PutEndpoint)
    events = check_events(body.events)
    check_url(body.url, allow_http=True)
    await call.realm.deliveries.check_address(body.url)
    now_ms = call.realm.clock.now_ms()
    fresh_id = new_id("ep_", now_ms, call.house.entropy)
    secret, sealed = _fresh_secret(call, fresh_id)

    def tell(written: tuple[Endpoint, bool]) -> None:
        endpoint, is_new = written
        call.realm.deliveries.wake(endpoint.id)
        if is_new:
            call.realm.account_feed.secret_changed(call.account_id)

    endpoint, is_new = await call.realm.db.write_and_tell(
        tell,
        endpoints_store.put_endpoint,
        account_id=call.account_id,
        url=body.url,
        events=events,
        fresh_id=fresh_id,
        sealed=sealed,
        now_ms=now_ms,
        actor=call.actor,
        headers=_headers(call, body.headers),
    )
    return Answer.json(_endpoint_out(call, endpoint, secret if is_new else None))


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
    """POST /v1/webhooks/endpoint/rotate → the endpoint with its new `secret`; the old one signs 24 h more."""
    endpoint = call.realm.db.point(get_endpoint, call.account_id)
    secret, sealed = _fresh_secret(call, endpoint.id)
    endpoint = await call.realm.db.write_and_tell(
        lambda _: call.realm.account_feed.secret_changed(call.account_id),
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
    """POST /v1/webhooks/endpoint/enable → the endpoint with `missedEvents`, which `replay-missing` sends."""
    endpoint = await _switch(call, "enable")
    now_ms = call.realm.clock.now_ms()
    since_ms = max(endpoint.created_at_ms, now_ms - REPLAY_REACH_MS)
    missed: int | None = None
    with suppress(StoreUnavailable):
        missed = await call.realm.db.read(
            preview_job,
            account_id=call.account_id,
            kind="replay-missing",
            since_ms=since_ms,
            now_ms=now_ms,
        )
    return Answer.json(_endpoint_out(call, endpoint, missed_events=missed, missed_since=iso_ms(since_ms)))


async def disable(call: Call) -> Answer:
    """POST /v1/webhooks/endpoint/disable → the endpoint; what it is owed is cancelled."""
    return Answer.json(_endpoint_out(call, await _switch(call, "disable")))


async def pause(call: Call) -> Answer:
    """POST /v1/webhooks/endpoint/pause → the endpoint; events wait for it until `resume`. 409 if disabled."""
    return Answer.json(_endpoint_out(call, await _switch(call, "pause")))


async def resume(call: Call) -> Answer:
    """POST /v1/webhooks/endpoint/resume → the endpoint; what waited is sent now. 409 if disabled."""
    return Answer.json(_endpoint_out(call, await _switch(call, "resume")))


async def test(call: Call) -> Answer:
    """POST /v1/webhooks/endpoint/test `{type}` → 200 `{deliveryId, status, errorClass, durationMs, body}`."""
    body = call.json(SendTest)
    if body.type not in EVENT_TYPES:
        issue = Issue("type", f"must be one of {', '.join(EVENT_TYPES)}")
        raise ParamsValidation.of(issue)
    endpoint = call.realm.db.point(get_endpoint, call.account_id)
    begins = partial(
        call.realm.db.write,
        insert_audit,
        at_ms=call.realm.clock.now_ms(),
        account_id=call.account_id,
        actor=call.actor,
        act="webhook.test",
        subject=endpoint.id,
        details={"type": body.type},
    )
    # The send writes it: one that is refused was not done, and is not audited.
    delivery_id, end = await call.realm.deliveries.send_test(endpoint, body.type, begins)
    return Answer.json(
        TestOut(
            delivery_id=delivery_id,
            status=end.status,
            error_class=end.error_class,
            error=end.error or None,
            advice=advice(end.status, end.error_class),
            duration_ms=end.duration_ms,
            body=end.body.decode("utf-8", "replace"),
        )
    )


async def _switch(call: Call, act: Act) -> Endpoint:
    return await call.realm.db.write_and_tell(
        lambda switched: call.realm.deliveries.wake(switched.id),
        switch_endpoint,
        account_id=call.account_id,
        act=act,
        now_ms=call.realm.clock.now_ms(),
        actor=call.actor,
    )


def _fresh_secret(call: Call, endpoint_id: str) -> tuple[str, bytes]:
    secret = make_secret(call.house.entropy(SECRET_BYTES))
    return secret, call.realm.seal.seal(secret.encode("ascii"), endpoint_id)


def _headers(call: Call, headers: dict[str, str] | None) -> Headers | None:
    if headers is None:
        return None
    checked = check_headers(headers)
    return lambda endpoint_id: call.realm.seal.seal(msgspec.json.encode(checked), endpoint_id), tuple(checked)


def _endpoint_out(call: Call, endpoint: Endpoint, secret: str | None = None, **more: Any) -> EndpointOut:
    secrets = call.realm.db.point(secrets_of, endpoint.id)
    return EndpointOut(
        id=endpoint.id,
        url=endpoint.url,
        events=endpoint.events,
        headers=endpoint.header_names,
        state=endpoint.state.value,
        failing_since=_iso(endpoint.failing_since_ms),
        disables_at=_iso(disables_at_ms(endpoint)),
        off_since=_iso(endpoint.off_since_ms),
        old_secrets_until=_iso(old_secrets_until_ms(secrets, call.realm.clock.now_ms())),
        source_addresses=call.realm.deliveries.rules.bind,
        secret=msgspec.UNSET if secret is None else secret,
        **more,
    )


def _iso(at_ms: int | None) -> str | None:
    return None if at_ms is None else iso_ms(at_ms)
