"""Which errors an operation can answer: what follows from its route, and what its handler refuses by itself.

Source: SPEC.md, "Errors"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from payd.core import errors
from payd.core.errors import PaydError
from payd.web.errors import STATUS
from payd.web.openapi.operation import Media, Operation
from payd.web.routes import PAYMENT_PATHS, Route

Refusals = dict[int, tuple[type[PaydError], ...]]
"""By status, one error for each code."""

EXAMPLES: Final[dict[str, str]] = {
    "params_validation": "amount.value: must be a whole number of minor units, as 12.50 USD is 1250.",
    "invalid_params": "limit must be a whole number from 1 to 100.",
    "invalid_state": "The payment is succeeded and cannot be cancelled.",
    "missing_idempotency_key": "The Idempotency-Key header is required here.",
    "missing_merchant_id": "Send the merchant's id in the Merchant-Id header.",
    "conflicting_auth_headers": "Send either Api-Key, or App-Id with Client-Id, not both.",
    "invalid_api_version": "The version header must be a date such as 2026-02-18.",
    "unknown_api_version": "There is no version 2020-01-01. There are 2026-02-18 and 2026-02-19.preview.",
    "api_version_downgrade": "A header can only ask for a newer version than the account's own.",
    "quote_expired": "The quote is too old. Ask for options again.",
    "payment_not_succeeded": "The payment is expired; only a succeeded one can be refunded.",
    "missing_api_key": "Send your API key in the Api-Key header.",
    "invalid_api_key": "This API key is unknown or was revoked.",
    "missing_client_id": "App-Id needs a Client-Id beside it.",
    "missing_app_id": "Client-Id needs an App-Id beside it.",
    "invalid_app_id": "This app id is unknown or was revoked.",
    "forbidden": "This key lacks the scope payments:write.",
    "not_sandbox_api_key": "This works with a test key only (svc_test_…).",
    "not_found": "There is no such merchant.",
    "payment_not_found": "There is no such payment.",
    "method_not_allowed": "DELETE is not possible here; use GET or POST.",
    "idempotency_conflict": "This Idempotency-Key was used with another body.",
    "settlement_asset_conflict": "The merchant has a settlement for this asset.",
    "route_expired": "The merchant no longer takes this asset. Ask for options again.",
    "endpoint_disabled": "The webhook endpoint is disabled; POST /v1/webhooks/endpoint/enable first.",
    "already_refunded": "A refund of this payment is recorded already.",
    "payment_expired": "The payment has expired.",
    "body_too_large": "The body is larger than this server takes.",
    "unsupported_media_type": "Send the body as JSON, with the header Content-Type: application/json.",
    "invalid_signature": "The signature does not verify.",
    "upgrade_required": "This is a websocket: connect with ws:// or wss://.",
    "rate_limited": "Too many requests. Try again in 1 s.",
    "internal_error": "Something broke on our side. Try again.",
}
"""What each code may say; the words are for people and may change."""


def refusals_of(route: Route, operation: Operation) -> Refusals:
    """Every error that an operation can answer, by status, in the order of the table of statuses."""
    found = {*_of_route(route), *_of_request(route, operation), *operation.refusals}
    grouped: dict[int, dict[str, type[PaydError]]] = {}
    for error, status in sorted(STATUS.items(), key=lambda item: item[1]):
        if error in found:
            grouped.setdefault(status, {}).setdefault(error.code, error)
    return {status: tuple(by_code.values()) for status, by_code in grouped.items()}


def _of_route(route: Route) -> Iterator[type[PaydError]]:
    yield errors.InternalError
    yield errors.RateLimited
    if route.family == "open":
        return
    yield from (errors.MissingApiKey, errors.InvalidApiKey, errors.ConflictingAuthHeaders, errors.Forbidden)
    yield from (errors.InvalidApiVersion, errors.UnknownApiVersion, errors.ApiVersionDowngrade)
    yield errors.StoreUnavailable
    if route.family == "gateway":
        yield from (errors.MissingClientId, errors.MissingAppId, errors.InvalidAppId)
    if route.scope == "test":
        yield errors.NotSandboxApiKey
    if route.merchant == "required":
        yield from (errors.MissingMerchantId, errors.NotFound)
    if route.merchant == "optional":
        yield errors.PaymentNotFound if route.path.startswith(PAYMENT_PATHS) else errors.NotFound
    if route.idempotency == "required":
        yield errors.MissingIdempotencyKey
    if route.idempotency != "none":
        yield from (errors.InvalidParams, errors.IdempotencyConflict)


def _of_request(route: Route, operation: Operation) -> Iterator[type[PaydError]]:
    if operation.query or route.family == "key":
        yield errors.InvalidParams
    if operation.body is not None:
        yield from (errors.InvalidParams, errors.BodyTooLarge, errors.UnsupportedMediaType)
        if not isinstance(operation.body, Media):
            yield errors.ParamsValidation
