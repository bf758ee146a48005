"""The one table: every path of the API, its handler, who may call it and what it needs.

Source: SPEC.md, "Endpoints"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal

from payd.core.picture import BYTES_MAX as PICTURE_MAX
from payd.web import (
    canary,
    deliveries,
    events,
    faults,
    feed,
    gateway,
    health,
    logos,
    merchants,
    metrics,
    payments,
    samples,
    scenarios,
    settlement_changes,
    settlements,
    simulation,
    solana_pay,
    static,
    transfers,
    webhooks,
)
from payd.web.call import Answer, Call
from payd.web.checkout import collect, funds
from payd.web.checkout import routes as checkout
from payd.web.openapi import serve as openapi
from payd.web.route_table import SEGMENT, RouteTable

Handler = Callable[[Call], Awaitable[Answer]]

Family = Literal["key", "gateway", "open"]
"""Who is let in: keys only; keys and apps; anyone."""

Need = Literal["required", "optional", "none"]


@dataclass(slots=True, frozen=True)
class Route:
    """One method of one path.

    Attributes:
        method: Upper case.
        path: With parameters in braces.
        handler: Answers it.
        scope: What a caller must be allowed; None on open paths.
        family: Who is let in.
        merchant: Whether a `Merchant-Id` header is needed.
        idempotency: Whether an `Idempotency-Key` header is needed, honoured or passed over.
        open_to_browsers: Whether any origin may call it from a page.
        unlimited: Whether the limit of an address is passed over; who calls an open path proves itself.
        account_wide: Whether it shows or changes what belongs to all merchants of the account, so that a key
            that is limited to some of them is refused.
        body_max: Bytes of a body, where more are taken than elsewhere.
        prompt: Whether the handler waits for one commit at most, unless it is a long poll: it answers from
            memory, or by an index. It has no task of its own and starts none; whoever waits for more is
            refused.
    """

    method: str
    path: str
    handler: Handler
    scope: str | None
    family: Family = "key"
    merchant: Need = "none"
    idempotency: Need = "none"
    open_to_browsers: bool = False
    unlimited: bool = False
    account_wide: bool = False
    body_max: int | None = None
    prompt: bool = False


def _account(method: str, path: str, handler: Handler, scope: str, idempotency: Need = "none") -> Route:
    return Route(method, path, handler, scope, idempotency=idempotency, account_wide=True)


def _new_payment(path: str, handler: Handler) -> Route:
    return Route(
        "POST", path, handler, "payments:write", merchant="required", idempotency="optional", prompt=True
    )


def _events(path: str, handler: Handler) -> Route:
    return Route("GET", path, handler, "webhooks:read", merchant="optional")


def _gateway(method: str, path: str, handler: Handler, idempotency: Need = "none") -> Route:
    return Route(method, path, handler, "gateway", "gateway", idempotency=idempotency, open_to_browsers=True)


def _solana_pay(method: str, path: str, handler: Handler) -> Route:
    return Route(method, path, handler, None, "open", open_to_browsers=True)


MERCHANT: Final = "/v1/merchants/{merchantId}"
CRYPTO: Final = f"{MERCHANT}/settlements/crypto"
GATEWAY: Final = "/v1/gateway/payment/{id}"
WEBHOOKS: Final = "/v1/webhooks"
FAULTS: Final = "/v1/test/webhooks/inject"
SCENARIOS: Final = "/v1/test/scenarios"
SOLANA_PAY: Final = "/v1/solana-pay/{id}"

ROUTES: Final[tuple[Route, ...]] = (
    _account("POST", "/v1/merchants", merchants.create, "merchants:write", "required"),
    Route("GET", "/v1/merchants", merchants.list_all, "merchants:read"),
    Route("GET", MERCHANT, merchants.read, "merchants:read"),
    Route("PATCH", MERCHANT, merchants.patch, "merchants:write"),
    Route("DELETE", MERCHANT, merchants.delete, "merchants:write"),
    Route("PUT", f"{MERCHANT}/logo", logos.put, "merchants:write", body_max=PICTURE_MAX),
    Route("DELETE", f"{MERCHANT}/logo", logos.delete, "merchants:write"),
    Route("GET", f"{MERCHANT}/settlements", merchants.read_settlements, "merchants:read"),
    Route("POST", CRYPTO, settlements.create, "settlements:write", idempotency="required"),
    Route("PUT", f"{CRYPTO}/{{id}}", settlement_changes.put, "settlements:write"),
    Route("DELETE", f"{CRYPTO}/{{id}}", settlement_changes.delete, "settlements:write"),
    Route("DELETE", f"{CRYPTO}/{{id}}/pending", settlement_changes.cancel, "settlements:write"),
    _new_payment("/v1/payments", payments.create),
    Route("GET", "/v1/payments", payments.list_all, "payments:read", merchant="optional"),
    Route("GET", "/v1/payments/{id}", payments.read, "payments:read", merchant="optional", prompt=True),
    Route(
        "GET",
        "/v1/payments/{id}/status",
        payments.status,
        "payments:read",
        merchant="required",
        prompt=True,
    ),
    Route(
        "POST",
        "/v1/payments/{id}/cancel",
        payments.cancel,
        "payments:write",
        merchant="optional",
        idempotency="optional",
    ),
    Route("POST", "/v1/payments/{id}/match", transfers.match, "payments:write", merchant="optional"),
    _account("GET", "/v1/transfers", transfers.list_all, "payments:read"),
    Route(
        "POST",
        "/v1/refunds",
        payments.refund,
        "payments:write",
        merchant="required",
        idempotency="optional",
    ),
    _new_payment("/v1/merchant/payment", payments.create_for_merchant),
    Route(
        "GET",
        "/v1/merchant/payment/{id}/status",
        payments.status_for_merchant,
        "payments:read",
        merchant="required",
        prompt=True,
    ),
    _gateway("GET", GATEWAY, gateway.read),
    _gateway("POST", f"{GATEWAY}/options", gateway.options),
    _gateway("POST", f"{GATEWAY}/fetch", gateway.fetch),
    _gateway("POST", f"{GATEWAY}/confirm", gateway.confirm),
    _gateway("GET", f"{GATEWAY}/status", gateway.status),
    _gateway("POST", f"{GATEWAY}/cancel", gateway.cancel, "optional"),
    _solana_pay("GET", SOLANA_PAY, solana_pay.read),
    _solana_pay("POST", SOLANA_PAY, solana_pay.pay),
    _solana_pay("GET", f"{SOLANA_PAY}/links", solana_pay.links),
    Route("GET", f"{WEBHOOKS}/endpoint", webhooks.read_endpoint, "webhooks:read"),
    _account("PUT", f"{WEBHOOKS}/endpoint", webhooks.put_endpoint, "webhooks:write"),
    _account("DELETE", f"{WEBHOOKS}/endpoint", webhooks.delete_endpoint, "webhooks:write"),
    _account("POST", f"{WEBHOOKS}/endpoint/rotate", webhooks.rotate, "webhooks:secret"),
    _account("POST", f"{WEBHOOKS}/endpoint/reveal", webhooks.reveal, "webhooks:secret"),
    _account("POST", f"{WEBHOOKS}/endpoint/enable", webhooks.enable, "webhooks:write", "optional"),
    _account("POST", f"{WEBHOOKS}/endpoint/disable", webhooks.disable, "webhooks:write", "optional"),
    _account("POST", f"{WEBHOOKS}/endpoint/pause", webhooks.pause, "webhooks:write", "optional"),
    _account("POST", f"{WEBHOOKS}/endpoint/resume", webhooks.resume, "webhooks:write", "optional"),
    _account("POST", f"{WEBHOOKS}/endpoint/test", webhooks.test, "webhooks:write", "optional"),
    _events(f"{WEBHOOKS}/deliveries", deliveries.list_deliveries),
    _events(f"{WEBHOOKS}/deliveries/{{id}}", deliveries.read_delivery),
    Route(
        "POST",
        f"{WEBHOOKS}/deliveries/{{id}}/resend",
        deliveries.resend,
        "webhooks:write",
        idempotency="optional",
    ),
    _account("POST", f"{WEBHOOKS}/recover", deliveries.recover, "webhooks:write", "optional"),
    _account("POST", f"{WEBHOOKS}/replay-missing", deliveries.replay_missing, "webhooks:write", "optional"),
    Route("GET", f"{WEBHOOKS}/jobs", deliveries.read_jobs, "webhooks:read"),
    Route("GET", f"{WEBHOOKS}/jobs/{{id}}", deliveries.read_job, "webhooks:read"),
    _account("POST", f"{WEBHOOKS}/jobs/{{id}}/cancel", deliveries.end_job, "webhooks:write"),
    _events("/v1/events", events.list_events),
    _events("/v1/events/{id}", events.read_event),
    Route(
        "POST",
        "/v1/test/payments/{id}/simulate",
        simulation.simulate_payment,
        "test",
        merchant="optional",
        idempotency="optional",
    ),
    _account("GET", "/v1/test/clock", simulation.read_clock, "test"),
    _account("POST", "/v1/test/clock", simulation.advance_clock, "test", "optional"),
    _account("GET", FAULTS, faults.list_all, "test"),
    _account("POST", FAULTS, faults.inject, "test", "optional"),
    _account("DELETE", FAULTS, faults.end_all, "test"),
    _account("DELETE", f"{FAULTS}/{{id}}", faults.end_one, "test"),
    Route("GET", "/v1/test/webhooks/samples", samples.list_all, "test"),
    Route("GET", "/v1/test/webhooks/samples/{type}", samples.read, "test"),
    _account("POST", "/v1/test/webhooks/send", webhooks.test, "test", "optional"),
    Route("GET", SCENARIOS, scenarios.list_all, "test"),
    Route(
        "POST",
        f"{SCENARIOS}/{{name}}",
        scenarios.run,
        "test",
        merchant="optional",
        idempotency="optional",
    ),
    Route("GET", "/v1/payments/{id}/feed", feed.not_an_upgrade, None, "open", open_to_browsers=True),
    Route("GET", "/v1/feed", feed.not_an_upgrade, None, "open"),
    Route("GET", "/versions", health.versions, None, "open"),
    Route("GET", "/openapi/{version}.json", openapi.read, None, "open"),
    Route("GET", "/docs", openapi.page, None, "open"),
    Route("GET", "/docs/{version}", openapi.page, None, "open"),
    Route("GET", "/livez", health.alive, None, "open"),
    Route("GET", "/readyz", health.ready, None, "open"),
    Route("POST", "/canary/{realm}", canary.arrive, None, "open", unlimited=True),
    Route("GET", "/metrics", metrics.scrape, None, "open"),
    Route("GET", "/pay/{id}", checkout.page, None, "open"),
    Route("GET", "/pay/{id}/status", checkout.status, None, "open"),
    Route("POST", "/pay/{id}/funds", funds.read, None, "open"),
    Route("POST", "/pay/{id}/cancel", checkout.cancel, None, "open"),
    Route("POST", "/pay/{id}/simulate", checkout.simulate, None, "open"),
    Route("GET", "/collect/{id}", collect.page, None, "open"),
    Route("POST", "/collect/{id}", collect.take, None, "open"),
    Route("GET", "/static/{name}", static.serve, None, "open"),
    Route("GET", f"{logos.LOGO_PATH}/{{name}}", logos.show, None, "open"),
)


PAYMENT_PATHS: Final = ("/v1/payments/{id}", "/v1/test/payments/{id}")
"""Where a `Merchant-Id` only has to match the payment in the path."""

# A payment link that was percent-encoded once: the door has decoded it.
_LINK: Final = "https?:/.+"


def _segment(path: str) -> str:
    return f"{SEGMENT}|{_LINK}" if path.startswith(GATEWAY) else SEGMENT


_PATHS: Final = RouteTable(ROUTES, _segment)


def match_route(method: str, path: str) -> tuple[Route | None, dict[str, str]]:
    """The route of a request and the parameters in its path."""
    methods, params = _PATHS.find(path)
    return methods.get(method), params


def methods_of(path: str) -> tuple[tuple[str, ...], bool]:
    """The methods that a path has, and whether any origin may call it."""
    methods, _ = _PATHS.find(path)
    return tuple(sorted(methods)), any(route.open_to_browsers for route in methods.values())
