"""The one table: error → status and body.

Source: SPEC.md, "Errors"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from payd.core import errors
from payd.core.errors import Issue, PaydError
from payd.web.call import Answer
from payd.web.html import NO_STORE

STATUS: Final[dict[type[PaydError], int]] = {
    errors.ParamsValidation: 400,
    errors.InvalidParams: 400,
    errors.InvalidState: 400,
    errors.MissingIdempotencyKey: 400,
    errors.MissingMerchantId: 400,
    errors.ConflictingAuthHeaders: 400,
    errors.InvalidApiVersion: 400,
    errors.UnknownApiVersion: 400,
    errors.ApiVersionDowngrade: 400,
    errors.QuoteExpired: 400,
    errors.PaymentNotSucceeded: 400,
    errors.MissingApiKey: 401,
    errors.InvalidApiKey: 401,
    errors.MissingClientId: 401,
    errors.MissingAppId: 401,
    errors.InvalidAppId: 401,
    errors.Forbidden: 403,
    errors.NotSandboxApiKey: 403,
    errors.NotFound: 404,
    errors.PaymentNotFound: 404,
    errors.MethodNotAllowed: 405,
    errors.IdempotencyConflict: 409,
    errors.SettlementAssetConflict: 409,
    errors.RouteExpired: 409,
    errors.EndpointDisabled: 409,
    errors.AlreadyRefunded: 409,
    errors.PaymentExpired: 410,
    errors.BodyTooLarge: 413,
    errors.UnsupportedMediaType: 415,
    errors.InvalidSignature: 422,
    errors.UpgradeRequired: 426,
    errors.RateLimited: 429,
    errors.InternalError: 500,
    errors.ChainUnavailable: 503,
    errors.OutcomeUnknown: 500,
    errors.StoreUnavailable: 503,
}


class ErrorBody(msgspec.Struct, omit_defaults=True):
    """The shape of every refusal. `details` always names the request and the page that explains the code."""

    message: str
    code: str
    details: dict[str, Any]
    issues: tuple[Issue, ...] = ()


def doc_url(base_url: str, code: str) -> str:
    """Where this server explains a code: on its own page of the API, which every version shares."""
    return f"{base_url}/docs#error-{code}"


def error_answer(error: PaydError, request_id: str, base_url: str) -> Answer:
    """The answer to a refused request. `retryAfterS` in the details becomes a `Retry-After` header.

    Args:
        error: Why it is refused.
        request_id: `details.requestId`.
        base_url: What `details.docUrl` begins with; the server's own, which is always absolute.
    """
    # Caches may keep a 404 that says nothing of it; what is not there now may be in a moment.
    headers: list[tuple[str, str]] = [NO_STORE]
    details = dict(error.details)
    if isinstance(error, errors.StoreUnavailable | errors.ChainUnavailable):
        details.setdefault("retryAfterS", 5)
    if "retryAfterS" in details:
        headers.append(("Retry-After", str(details["retryAfterS"])))
    if isinstance(error, errors.MethodNotAllowed):
        headers.append(("Allow", ", ".join(details.get("allowed", ()))))
    details["requestId"] = request_id
    details["docUrl"] = doc_url(base_url, error.code)
    body = ErrorBody(error.message, error.code, details, error.issues)
    return Answer(STATUS[type(error)], msgspec.json.encode(body), tuple(headers))
