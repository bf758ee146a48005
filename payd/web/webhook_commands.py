"""What an operator can do with webhooks, most of it by one call of the API's own handler.

Source: DESIGN.md, "12. Operations"; DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from payd.core.diagnosis import Received
from payd.core.endpoint import check_url
from payd.core.errors import EndpointDisabled, InvalidParams, NotFound, ParamsValidation, StoreUnavailable
from payd.core.event import iso_ms
from payd.store.audit import insert_audit
from payd.store.endpoints import enabled_urls
from payd.store.events import get_event
from payd.web.command import ACTOR, Args, Command, Mode, OfId, OfMode, account_of, ask, realm_of
from payd.web.explain import Explained, explain
from payd.web.query import parse_instant_ms
from payd.web.simulation import parse_duration_s

if TYPE_CHECKING:
    from payd.web.house import House

ENDPOINTS_MAX: Final = 1000  # a small merchant has one a mode; a house for many shops some hundreds
DELIVERIES_SHOWN: Final = 20  # the newest: a screen; more are asked for

Run = Callable[["House", Any], Awaitable[Any]]

NO_ENDPOINT: Final = "It was owed to no endpoint."

_ENDPOINT: Final = "/v1/webhooks/endpoint"
_DELIVERY: Final = "/v1/webhooks/deliveries/{id}"
_JOB: Final = "/v1/webhooks/jobs/{id}"


class _Set(OfMode, frozen=True, kw_only=True):
    url: str
    events: list[str] | None = None
    headers: dict[str, str] | None = None


class _Origins(Args, frozen=True, kw_only=True):
    mode: Mode


class _Test(OfMode, frozen=True, kw_only=True):
    type: str = "payment.succeeded"


class _Deliveries(OfMode, frozen=True, kw_only=True):
    state: str | None = None
    payment: str | None = None
    cursor: str | None = None
    limit: int = DELIVERIES_SHOWN


class _Replay(OfMode, frozen=True, kw_only=True):
    """`since` is RFC 3339 text, Unix seconds, or a span back from the realm's time such as `3d`."""

    since: str
    preview: bool = False


class _Explain(OfMode, frozen=True, kw_only=True, rename="camel"):
    """The three headers, the body in base64, and a digest of the receiver's secret, never the secret."""

    id: str
    timestamp: str
    signature: str
    body_b64: str
    secret_sha256: str | None = None


async def _set(house: House, args: _Set) -> Any:
    """The endpoint with its secret; `replaced` is another URL that had the events until now."""
    try:
        url = (await ask(house, args, "GET", _ENDPOINT))["url"]
    except NotFound:
        url = args.url
    body = {"url": args.url, "events": args.events, "headers": args.headers}
    made = await ask(house, args, "PUT", _ENDPOINT, body)
    if url != args.url:
        made["replaced"] = url
    if "secret" in made:
        return made
    # The API shows the secret of a new endpoint only; here it may always be seen, and the audit says so.
    revealed = await ask(house, args, "POST", f"{_ENDPOINT}/reveal")
    return {**made, "secret": revealed["secret"]}


async def _test(house: House, args: _Test) -> Any:
    return await ask(house, args, "POST", f"{_ENDPOINT}/test", {"type": args.type})


async def _show(house: House, args: OfMode) -> Any:
    """The endpoint, and the realm's time, by which its own times are told."""
    endpoint = await ask(house, args, "GET", _ENDPOINT)
    return {**endpoint, "now": iso_ms(realm_of(house, args.mode).clock.now_ms())}


async def _origins(house: House, args: _Origins) -> list[str]:
    """Scheme, host and port of every enabled endpoint, once each; its path may be a secret of its own."""
    urls = await realm_of(house, args.mode).db.read(partial(enabled_urls, limit=ENDPOINTS_MAX))
    found = [check_url(url, allow_http=True) for url in urls]
    return list(dict.fromkeys(f"{scheme}://{_in_url(host)}:{port}" for scheme, host, port in found))


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


async def _enable(house: House, args: OfMode) -> Any:
    """The endpoint with `missedEvents`, and with `failedDeliveries`, which `recover` sends."""
    endpoint = await ask(house, args, "POST", f"{_ENDPOINT}/enable")
    failed: int | None = None
    with suppress(StoreUnavailable):
        wanted = {"since": endpoint["missedSince"], "preview": True}
        failed = (await ask(house, args, "POST", "/v1/webhooks/recover", wanted))["matched"]
    return {**endpoint, "failedDeliveries": failed}


async def _deliveries(house: House, args: _Deliveries) -> Any:
    query = {"state": args.state, "paymentId": args.payment, "cursor": args.cursor, "limit": args.limit}
    return await ask(house, args, "GET", "/v1/webhooks/deliveries", query=query)


async def _resend(house: House, args: OfId) -> Any:
    """The delivery after that one attempt; listeners are told of it.

    They need no endpoint: an event that none can be sent is told to them alone, `{eventId, listeners, why}`.
    """
    try:
        return await _one("POST", f"{_DELIVERY}/resend")(house, args)
    except (NotFound, EndpointDisabled) as refused:
        realm, account = realm_of(house, args.mode), account_of(house, args)
        event = realm.db.point(get_event, account.id, args.id)
        listeners = realm.account_feed.count(account.id)
        if event is None or not listeners:
            raise
        seq, why = event.seq, refused.message if isinstance(refused, EndpointDisabled) else NO_ENDPOINT
    await realm.db.write_and_tell(
        lambda _: realm.account_feed.resend(account.id, seq),
        insert_audit,
        at_ms=realm.clock.now_ms(),
        account_id=account.id,
        actor=ACTOR,
        act="webhook.resend",
        subject=args.id,
    )
    return {"eventId": args.id, "listeners": listeners, "why": why}


async def _jobs(house: House, args: OfMode) -> Any:
    return (await ask(house, args, "GET", "/v1/webhooks/jobs"))["data"]


async def _explain(house: House, args: _Explain) -> Explained:
    try:
        body = base64.b64decode(args.body_b64, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidParams("bodyB64 must be base64.") from None
    received = Received(args.id, args.timestamp, args.signature, body)
    realm = realm_of(house, args.mode)
    return await explain(realm, account_of(house, args).id, received, args.secret_sha256)


def _endpoint(method: str, act: str = "") -> Run:
    """A command that is one call on the webhook endpoint."""

    async def run(house: House, args: OfMode) -> Any:
        return await ask(house, args, method, f"{_ENDPOINT}{act}")

    return run


def _one(method: str, path: str) -> Run:
    """A command that is one call on what an id names."""

    async def run(house: House, args: OfId) -> Any:
        return await ask(house, args, method, path.replace("{id}", quote(args.id, safe="")))

    return run


def _replay(kind: str) -> Run:
    """A command that starts a job over many deliveries, or counts what it would send."""

    async def run(house: House, args: _Replay) -> Any:
        now_ms = realm_of(house, args.mode).clock.now_ms()
        body = {"since": _since(args.since, now_ms), "preview": args.preview}
        return await ask(house, args, "POST", f"/v1/webhooks/{kind}", body)

    return run


def _since(text: str, now_ms: int) -> str | int:
    """What was typed, as the API takes it: a span reaches back from the realm's own time.

    Raises:
        InvalidParams: It is none of the three.
    """
    if text.isascii() and text.isdecimal():
        return int(text)
    with suppress(ParamsValidation):
        return iso_ms(max(0, now_ms - parse_duration_s(text) * 1000))
    try:
        parse_instant_ms(text, "since")
    except InvalidParams as refused:
        raise InvalidParams(f"{refused.message} Or Unix seconds, or a span back such as 2h or 3d.") from None
    return text


WEBHOOK_COMMANDS: Final[dict[str, Command]] = {
    "webhook.set": Command(_Set, _set),
    "webhook.show": Command(OfMode, _show, changes=False),
    "webhook.origins": Command(_Origins, _origins, changes=False),
    "webhook.rotate": Command(OfMode, _endpoint("POST", "/rotate")),
    "webhook.reveal": Command(OfMode, _endpoint("POST", "/reveal")),
    "webhook.enable": Command(OfMode, _enable),
    "webhook.disable": Command(OfMode, _endpoint("POST", "/disable")),
    "webhook.pause": Command(OfMode, _endpoint("POST", "/pause")),
    "webhook.resume": Command(OfMode, _endpoint("POST", "/resume")),
    "webhook.delete": Command(OfMode, _endpoint("DELETE")),
    "webhook.test": Command(_Test, _test, needs_server=True),
    "webhook.deliveries": Command(_Deliveries, _deliveries, changes=False),
    "webhook.delivery": Command(OfId, _one("GET", _DELIVERY), changes=False),
    "webhook.resend": Command(OfId, _resend, needs_server=True),
    "webhook.recover": Command(_Replay, _replay("recover"), needs_server=True),
    "webhook.replay-missing": Command(_Replay, _replay("replay-missing"), needs_server=True),
    "webhook.jobs": Command(OfMode, _jobs, changes=False),
    "webhook.job": Command(OfId, _one("GET", _JOB), changes=False),
    # For who waits: without a server, nothing would ever happen to it.
    "webhook.watch": Command(OfId, _one("GET", _JOB), needs_server=True, changes=False),
    "webhook.cancel-job": Command(OfId, _one("POST", f"{_JOB}/cancel")),
    "webhook.explain": Command(_Explain, _explain, changes=False),
}
"""The commands on webhooks."""
