"""The whole life of a request: id, route, limits, caller, version, handler, errors, headers.

Knows no framework.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import structlog

from payd.clock import monotonic_s, system_wall_ms
from payd.core.errors import (
    Forbidden,
    InternalError,
    InvalidApiKey,
    InvalidAppId,
    MethodNotAllowed,
    MissingMerchantId,
    NotFound,
    NotSandboxApiKey,
    PaydError,
    PaymentNotFound,
)
from payd.core.idempotency import check_key
from payd.core.ids import is_id
from payd.core.version import resolve
from payd.entropy import new_id
from payd.logs import redacted
from payd.store.api_log import Logged
from payd.store.merchants import NO_MERCHANT, account_of_merchant
from payd.web.accept import prefers_problem
from payd.web.auth import Caller, authenticate
from payd.web.call import Answer, Call, Request
from payd.web.checkout import routes as checkout
from payd.web.client import rate_key
from payd.web.dashboard.dispatch import answer_page, is_page, upload_max
from payd.web.errors import as_problem, error_answer
from payd.web.house import House
from payd.web.html import NO_STORE
from payd.web.known import Known, note_known, still_known
from payd.web.limits import refuse_for
from payd.web.openapi.table import parameters_of
from payd.web.query import check_names
from payd.web.routes import PAYMENT_PATHS, Route, match_route, methods_of

log = structlog.get_logger("payd.http")

ERROR_STATUS: Final = 400
CORS_MAX_AGE_S: Final = 86_400
CORS_METHODS: Final = "GET, POST, OPTIONS"
EXPOSED_HEADERS: Final = "Request-Id, Service-Version, Retry-After"
UNROUTED: Final = "unknown"
VERSION_HEADERS: Final = ("service-version", "api-version", "wcp-version")


async def answer(house: House, request: Request) -> Answer:
    """Answer a request. Never raises an `Exception`: what breaks is logged and is an `internal_error`."""
    request_id = new_id("req_", system_wall_ms(), house.entropy)
    known = still_known(house, request)
    if known is None and is_page(request):
        return await _page(house, request, request_id)
    began_s = monotonic_s()
    route: Route | None = None
    params: dict[str, str] = {}
    callers: list[Caller] = []
    headers: list[tuple[str, str]] = [("Request-Id", request_id)]
    refusal: PaydError | None = None
    try:
        if known is None:
            route, params = match_route(request.method, request.path)
        else:
            route, params = known.route, known.params.copy()
        if request.refusal is not None:
            raise request.refusal
        if known is not None:
            found = await _once_more(house, request, request_id, known, params, headers, callers)
        elif route is None:
            found = _unrouted(request, headers)
        else:
            found = await _routed(house, request, request_id, route, params, headers, callers)
    except PaydError as refused:
        if isinstance(refused, InternalError):
            log.error("request.failed", request_id=request_id, path=request.path, error=repr(refused))
        refusal, found = refused, error_answer(refused, request_id, house.base_url)
    except Exception as bug:
        log.error("request.crashed", request_id=request_id, path=request.path, exc_info=bug)
        refusal = InternalError("Something broke on our side. Try again.")
        found = error_answer(refusal, request_id, house.base_url)
    took_s = monotonic_s() - began_s
    house.count_answer(UNROUTED if route is None else route.path, found.status, took_s)
    if route is not None and callers:
        _log_request(request, request_id, route, params, callers[0], found, took_s)
    if refusal is not None:
        found = _as_wanted(house, request, refusal, request_id, found)
    elif callers:
        headers.append(NO_STORE)  # a proxy that keeps it would show it to whoever asks next
    if methods_of(request.path)[1] if route is None else route.open_to_browsers:
        headers += [("Access-Control-Allow-Origin", "*"), ("Access-Control-Expose-Headers", EXPOSED_HEADERS)]
    return Answer(found.status, found.body, (*found.headers, *headers))


def _log_request(
    request: Request,
    request_id: str,
    route: Route,
    params: dict[str, str],
    caller: Caller,
    found: Answer,
    took_s: float,
) -> None:
    """Keep it for the account whose credential it had: of a refusal what it said, of a success nothing."""
    if caller.account_id is None:
        return
    caller.realm.api_log.note(
        Logged(
            at_ms=caller.realm.clock.now_ms(),
            account_id=caller.account_id,
            actor=caller.actor,
            request_id=request_id,
            method=request.method,
            route=route.path,
            subject=redacted(_subject(request, params, found)),
            status=found.status,
            took_ms=round(took_s * 1000),
            error=found.body if found.status >= ERROR_STATUS else None,
        )
    )


def _subject(request: Request, params: dict[str, str], found: Answer) -> str:
    """What a request is about: the id in its path, what it made, or the merchant that it names."""
    if params or found.about:
        return next(iter(params.values()), found.about)
    merchant_id = request.headers.get("merchant-id", "")
    return merchant_id if is_id(merchant_id, "mrch_") else ""


async def _page(house: House, request: Request, request_id: str) -> Answer:
    """What the dashboard answers, which lets people in by rules of its own."""
    began_s = monotonic_s()
    found, counted = await answer_page(house, request, request_id)
    house.count_answer(counted, found.status, monotonic_s() - began_s)
    return replace(found, headers=(*found.headers, ("Request-Id", request_id)))


def _as_wanted(house: House, request: Request, refusal: PaydError, request_id: str, plain: Answer) -> Answer:
    """A refusal as a page where a person looks at one; plain, or as problem details, where a program does."""
    if checkout.wants_page(request):
        return checkout.error_page(house, request, refusal, request_id)
    return as_problem(plain) if prefers_problem(request.headers.get("accept", "")) else plain


async def _routed(
    house: House,
    request: Request,
    request_id: str,
    route: Route,
    params: dict[str, str],
    headers: list[tuple[str, str]],
    callers: list[Caller],
) -> Answer:
    if route.family == "open":
        if not route.unlimited:
            refuse_for(house.limits.per_ip.take(rate_key(request.client_ip)))
        return await route.handler(_open_call(house, request, request_id, params))
    caller = known_caller(house, request, gateway=route.family == "gateway")
    callers.append(caller)
    return await _called(house, request, request_id, route, params, headers, caller)


async def _once_more(
    house: House,
    request: Request,
    request_id: str,
    known: Known,
    params: dict[str, str],
    headers: list[tuple[str, str]],
    callers: list[Caller],
) -> Answer:
    """As `_routed`, where all that it would find out is known."""
    caller = known.caller
    refuse_for(house.limits.per_key.take(caller.actor))
    callers.append(caller)
    headers.append(("Service-Version", known.version))
    call = Call(request, params, request_id, house, caller, caller.realm, known.version, known.merchant_id)
    return await known.route.handler(call)


async def answer_operator(house: House, caller: Caller, request: Request) -> Answer:
    """Answer somebody who is known without a credential, by all the other rules of the API.

    Raises nothing that it refuses: that is an answer too.
    """
    request_id = new_id("req_", system_wall_ms(), house.entropy)
    try:
        route, params = match_route(request.method, request.path)
        if route is None or route.family == "open":
            raise NotFound(f"There is nothing at {request.path[:200]} that takes an API key.")
        return await _called(house, request, request_id, route, params, [], caller)
    except PaydError as refusal:
        return error_answer(refusal, request_id, house.base_url)


async def _called(
    house: House,
    request: Request,
    request_id: str,
    route: Route,
    params: dict[str, str],
    headers: list[tuple[str, str]],
    caller: Caller,
) -> Answer:
    """What the route's handler answers to a caller, who may ask it."""
    if route.scope is not None:
        _check_scope(caller, route.scope)
    if route.account_wide and caller.merchants is not None:
        raise Forbidden("This concerns the whole account; the key is limited to some of its merchants.")
    version = _version(house, caller, request)
    headers.append(("Service-Version", version))
    call = Call(request, params, request_id, house, caller, caller.realm, version)
    _check_merchant(call, route)
    if route.family == "key" and request.query:
        check_names(request.query, parameters_of(route))
    if route.idempotency != "none":
        check_key(request.headers.get("idempotency-key"), route.idempotency == "required")
    note_known(call, route)
    return await route.handler(call)


def _open_call(house: House, request: Request, request_id: str, params: dict[str, str]) -> Call:
    realm = next(iter(house.realms.values()))
    return Call(request, params, request_id, house, None, realm, "")


def known_caller(house: House, request: Request, *, gateway: bool) -> Caller:
    """The caller, with the limits of callers and of failed attempts.

    Failed attempts only slow down further failures: behind a proxy that hides addresses, one stranger with a
    wrong key must not lock out the merchant's own backend.

    Raises:
        RateLimited: A limit is reached.
        PaydError: As `web.auth.authenticate`.
    """
    limits, address = house.limits, rate_key(request.client_ip)
    try:
        caller = authenticate(house, request.headers, gateway=gateway)
    except (InvalidApiKey, InvalidAppId):
        refuse_for(limits.failed_auth.take(address))
        refuse_for(limits.per_ip.take(address))
        raise
    except PaydError:
        refuse_for(limits.per_ip.take(address))
        raise
    by_key = bool(request.headers.get("api-key"))
    refuse_for(limits.per_key.take(caller.actor) if by_key else limits.per_ip.take(address))
    return caller


def body_max_of(house: House, request: Request) -> int:
    """How large the body of a request may be that is larger than the others: known callers' pictures are.

    It is asked before the body is read, so that no stranger has the server hold what is large.

    Raises:
        PaydError: As `known_caller`.
    """
    if is_page(request):
        return upload_max(house, request)
    route, _ = match_route(request.method, request.path)
    if route is None or route.body_max is None:
        return house.body_max
    known_caller(house, request, gateway=False)
    return route.body_max


def _check_scope(caller: Caller, scope: str) -> None:
    if scope == "test" and caller.realm.live:
        raise NotSandboxApiKey("This works with a test key only (svc_test_…).")
    caller.check_scope(scope)


def _version(house: House, caller: Caller, request: Request) -> str:
    header = next((request.headers[name] for name in VERSION_HEADERS if name in request.headers), None)
    account = None if caller.account_id is None else house.accounts.get(caller.account_id)
    pinned = house.default_version if account is None else account.api_version
    return resolve(header, pinned, house.versions)


def _check_merchant(call: Call, route: Route) -> None:
    """The `Merchant-Id` header, where it is required or given; an empty one, of an unset variable, is none.

    A deleted merchant may be named: its payments and the answers of its requests stay.

    Raises:
        MissingMerchantId: It is required and not there.
        NotFound: No merchant of the account.
        PaymentNotFound: The same, where it only has to match the payment in the path.
        Forbidden: The key is limited to others.
    """
    merchant_id = call.request.headers.get("merchant-id")
    if not merchant_id:
        if route.merchant == "required":
            raise MissingMerchantId("Send the merchant's id in the Merchant-Id header.")
        return
    if route.merchant == "none":
        return
    caller = call.caller
    assert caller is not None
    if call.realm.db.remember(account_of_merchant, merchant_id) != caller.account_id:
        if route.merchant == "optional" and route.path.startswith(PAYMENT_PATHS):
            raise PaymentNotFound("There is no such payment.")
        raise NotFound(NO_MERCHANT)
    caller.check_merchant(merchant_id)
    call.merchant_id = merchant_id


def _unrouted(request: Request, headers: list[tuple[str, str]]) -> Answer:
    allowed, open_to_browsers = methods_of(request.path)
    if request.method == "OPTIONS" and open_to_browsers:
        asked = request.headers.get("access-control-request-headers", "content-type")
        headers += [
            ("Access-Control-Allow-Methods", CORS_METHODS),
            ("Access-Control-Allow-Headers", asked),
            ("Access-Control-Max-Age", str(CORS_MAX_AGE_S)),
        ]
        return Answer(204)
    if allowed:
        raise MethodNotAllowed(
            f"{request.method} is not possible here; use {' or '.join(allowed)}.",
            details={"allowed": list(allowed)},
        )
    if request.path == "/":
        raise NotFound("At / browsers find the dashboard, and programs nothing: /docs has every path.")
    if methods_of(request.path.rstrip("/"))[0]:
        raise NotFound(f"There is nothing at {request.path[:200]}. Leave out the slash at its end.")
    raise NotFound(f"There is nothing at {request.path[:200]}. /docs has every path; the dashboard is at /.")
