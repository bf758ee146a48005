"""One right request for each route, and what those get who may not send it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.shop import APPROVES, ETH_BASE, SIGNATURE, TX_HASH, WALLET

Expected = tuple[int, str]
"""A status, and the code of the refusal; an empty code is no refusal."""

FORBIDDEN: Expected = (403, "forbidden")
NO_OBJECT: Expected = (404, "not_found")
NO_PAYMENT: Expected = (404, "payment_not_found")
FINE: Expected = (200, "")


@dataclass(frozen=True)
class Row:
    """A request that is right in all but its sender.

    Attributes:
        target: Its path, with the names of things in it.
        body: Its body; names of things in braces are filled in.
        own: What the right sender gets.
        missing: What is said of a thing that is nobody's, or somebody else's.
        limited: What a key for another merchant of the account gets.
        live: What the same account's live key gets; there is nothing in the live realm.
    """

    target: str
    body: Any = None
    own: Expected = FINE
    missing: Expected = NO_OBJECT
    limited: Expected = FORBIDDEN
    live: Expected = NO_OBJECT


NEW_PAYMENT = {"referenceId": "R", "amount": {"unit": "iso4217/USD", "value": "100"}}
NEW_MERCHANT = {"merchantName": "New", "merchantEmail": "new@example.com"}
DESTINATION = f"eip155:8453:{WALLET}"
NEW_SETTLEMENTS = {"settlements": [{"asset": ETH_BASE, "destination": DESTINATION}]}
RESULTS = [{"type": "walletRpc", "data": [SIGNATURE]}]
HOOK = "http://a.test/hook"
SINCE = {"since": "{now}"}

GATEWAY = "/v1/gateway/payment/{payment}"
HOOKS = "/v1/webhooks"
FAULTS = "/v1/test/webhooks/inject"
CRYPTO = "/v1/merchants/{merchant}/settlements/crypto"
SANDBOX: Expected = (403, "not_sandbox_api_key")


def payment_row(target: str, body: Any = None, **other: Expected) -> Row:
    return Row(target, body, **{"missing": NO_PAYMENT, "live": NO_PAYMENT, **other})


def gateway_row(target: str, body: Any = None, **other: Expected) -> Row:
    return payment_row(target, body, **{"limited": FINE, **other})


def page_row(target: str, body: Any = None, own: Expected = FINE) -> Row:
    return payment_row(target, body, own=own)


TABLE: dict[str, Row] = {
    "POST /v1/merchants": Row("/v1/merchants", NEW_MERCHANT, own=(201, ""), live=(201, "")),
    "GET /v1/merchants": Row("/v1/merchants", limited=FINE, live=FINE),
    "GET /v1/merchants/{merchantId}": Row("/v1/merchants/{merchant}"),
    # What is sent is no picture: who may send one is told so.
    "PUT /v1/merchants/{merchantId}/logo": Row(
        "/v1/merchants/{merchant}/logo", {"logo": "none"}, own=(415, "unsupported_media_type")
    ),
    "DELETE /v1/merchants/{merchantId}/logo": Row("/v1/merchants/{merchant}/logo"),
    "PATCH /v1/merchants/{merchantId}": Row("/v1/merchants/{merchant}", {"merchantName": "Other"}),
    "DELETE /v1/merchants/{merchantId}": Row("/v1/merchants/{merchant}"),
    "GET /v1/merchants/{merchantId}/settlements": Row("/v1/merchants/{merchant}/settlements"),
    "POST /v1/merchants/{merchantId}/settlements/crypto": Row(CRYPTO, NEW_SETTLEMENTS, own=(201, "")),
    "PUT /v1/merchants/{merchantId}/settlements/crypto/{id}": Row(
        CRYPTO + "/{settlement}", {"destination": DESTINATION}
    ),
    "DELETE /v1/merchants/{merchantId}/settlements/crypto/{id}": Row(CRYPTO + "/{settlement}"),
    "DELETE /v1/merchants/{merchantId}/settlements/crypto/{id}/pending": Row(
        CRYPTO + "/{settlement}/pending", own=(404, "not_found")
    ),
    "POST /v1/payments": Row("/v1/payments", NEW_PAYMENT, own=(201, "")),
    "GET /v1/payments": Row("/v1/payments", limited=FINE, live=FINE),
    "GET /v1/payments/{id}": payment_row("/v1/payments/{payment}"),
    "GET /v1/payments/{id}/status": payment_row("/v1/payments/{payment}/status", live=NO_OBJECT),
    "POST /v1/payments/{id}/cancel": payment_row("/v1/payments/{payment}/cancel", {}),
    "POST /v1/payments/{id}/match": payment_row(
        "/v1/payments/{payment}/match", {"txId": TX_HASH}, own=(400, "invalid_params")
    ),
    "GET /v1/transfers": Row("/v1/transfers", live=FINE),
    "POST /v1/refunds": payment_row("/v1/refunds", {"paymentId": "{paid}"}, live=NO_OBJECT),
    "POST /v1/merchant/payment": Row("/v1/merchant/payment", NEW_PAYMENT, own=(201, "")),
    "GET /v1/merchant/payment/{id}/status": payment_row(
        "/v1/merchant/payment/{payment}/status", live=NO_OBJECT
    ),
    "GET /v1/gateway/payment/{id}": gateway_row(GATEWAY),
    "POST /v1/gateway/payment/{id}/options": gateway_row(GATEWAY + "/options", [APPROVES]),
    "POST /v1/gateway/payment/{id}/fetch": gateway_row(
        GATEWAY + "/fetch",
        {"optionId": "{option}", "data": "x"},
        own=(400, "invalid_params"),
        limited=(400, "invalid_params"),
    ),
    "POST /v1/gateway/payment/{id}/confirm": gateway_row(
        GATEWAY + "/confirm", {"optionId": "{option}", "results": RESULTS}
    ),
    "GET /v1/gateway/payment/{id}/status": gateway_row(GATEWAY + "/status"),
    "POST /v1/gateway/payment/{id}/cancel": gateway_row(GATEWAY + "/cancel", {}),
    "GET /v1/webhooks/endpoint": Row(f"{HOOKS}/endpoint", limited=FINE),
    "PUT /v1/webhooks/endpoint": Row(f"{HOOKS}/endpoint", {"url": HOOK}, live=(400, "invalid_params")),
    "DELETE /v1/webhooks/endpoint": Row(f"{HOOKS}/endpoint"),
    "POST /v1/webhooks/endpoint/rotate": Row(f"{HOOKS}/endpoint/rotate"),
    "POST /v1/webhooks/endpoint/reveal": Row(f"{HOOKS}/endpoint/reveal"),
    "POST /v1/webhooks/endpoint/enable": Row(f"{HOOKS}/endpoint/enable"),
    "POST /v1/webhooks/endpoint/disable": Row(f"{HOOKS}/endpoint/disable"),
    "POST /v1/webhooks/endpoint/pause": Row(f"{HOOKS}/endpoint/pause"),
    "POST /v1/webhooks/endpoint/resume": Row(f"{HOOKS}/endpoint/resume"),
    "POST /v1/webhooks/endpoint/test": Row(f"{HOOKS}/endpoint/test", {"type": "payment.created"}),
    "GET /v1/webhooks/deliveries": Row(f"{HOOKS}/deliveries", limited=FINE, live=FINE),
    "GET /v1/webhooks/deliveries/{id}": Row(f"{HOOKS}/deliveries/{{delivery}}", limited=NO_OBJECT),
    "POST /v1/webhooks/deliveries/{id}/resend": Row(
        f"{HOOKS}/deliveries/{{delivery}}/resend", limited=NO_OBJECT
    ),
    "POST /v1/webhooks/recover": Row(f"{HOOKS}/recover", SINCE, own=(202, "")),
    "POST /v1/webhooks/replay-missing": Row(f"{HOOKS}/replay-missing", SINCE, own=(202, "")),
    "GET /v1/webhooks/jobs": Row(f"{HOOKS}/jobs", limited=FINE, live=FINE),
    "POST /v1/webhooks/jobs/{id}/cancel": Row(f"{HOOKS}/jobs/{{job}}/cancel"),
    "GET /v1/webhooks/jobs/{id}": Row(f"{HOOKS}/jobs/{{job}}", limited=FINE),
    "GET /v1/events": Row("/v1/events", limited=FINE, live=FINE),
    "GET /v1/events/{id}": Row("/v1/events/{event}", limited=NO_OBJECT),
    "POST /v1/test/payments/{id}/simulate": payment_row(
        "/v1/test/payments/{payment}/simulate", {"to": "failed"}, live=SANDBOX
    ),
    "GET /v1/test/clock": Row("/v1/test/clock", live=SANDBOX),
    "POST /v1/test/clock": Row("/v1/test/clock", {"advance": "1s"}, own=(202, ""), live=SANDBOX),
    f"GET {FAULTS}": Row(FAULTS, live=SANDBOX),
    f"POST {FAULTS}": Row(FAULTS, {"fault": "drop"}, own=(201, ""), live=SANDBOX),
    f"DELETE {FAULTS}": Row(FAULTS, live=SANDBOX),
    f"DELETE {FAULTS}/{{id}}": Row(f"{FAULTS}/{{fault}}", live=SANDBOX),
    "GET /v1/test/webhooks/samples": Row("/v1/test/webhooks/samples", limited=FINE, live=SANDBOX),
    "GET /v1/test/webhooks/samples/{type}": Row(
        "/v1/test/webhooks/samples/payment.created", limited=FINE, live=SANDBOX
    ),
    "POST /v1/test/webhooks/send": Row("/v1/test/webhooks/send", {"type": "payment.created"}, live=SANDBOX),
    "GET /v1/test/scenarios": Row("/v1/test/scenarios", limited=FINE, live=SANDBOX),
    "POST /v1/test/scenarios/{name}": Row(
        "/v1/test/scenarios/cancelled", own=(201, ""), limited=(201, ""), live=SANDBOX
    ),
    "GET /v1/payments/{id}/feed": page_row("/v1/payments/{payment}/feed", own=(426, "upgrade_required")),
    "GET /v1/feed": page_row("/v1/feed", own=(426, "upgrade_required")),
    "GET /versions": page_row("/versions"),
    "GET /openapi/{version}.json": page_row("/openapi/2026-02-18.json"),
    "GET /docs": page_row("/docs"),
    "GET /docs/{version}": page_row("/docs/2026-02-19.preview"),
    "GET /livez": page_row("/livez"),
    "GET /readyz": page_row("/readyz"),
    "POST /canary/{realm}": page_row("/canary/test", own=NO_OBJECT),
    "GET /metrics": page_row("/metrics", own=NO_OBJECT),
    "GET /v1/solana-pay/{id}": page_row("/v1/solana-pay/{payment}", own=NO_OBJECT),
    "POST /v1/solana-pay/{id}": page_row(
        "/v1/solana-pay/{payment}", {"account": "x"}, (400, "invalid_params")
    ),
    "GET /v1/solana-pay/{id}/links": page_row("/v1/solana-pay/{payment}/links", own=(400, "invalid_params")),
    "GET /pay/{id}": page_row("/pay/{payment}"),
    "GET /pay/{id}/status": page_row("/pay/{payment}/status"),
    "POST /pay/{id}/funds": page_row("/pay/{payment}/funds", own=(400, "invalid_params")),
    "POST /pay/{id}/cancel": page_row("/pay/{payment}/cancel", own=(303, "")),
    "POST /pay/{id}/simulate": page_row("/pay/{payment}/simulate", own=(415, "unsupported_media_type")),
    "GET /collect/{id}": page_row("/collect/{payment}", own=(400, "invalid_params")),
    "POST /collect/{id}": page_row("/collect/{payment}", own=(400, "invalid_params")),
    "GET /static/{name}": page_row("/static/none", own=NO_OBJECT),
    "GET /logo/{name}": page_row("/logo/none", own=NO_OBJECT),
}
