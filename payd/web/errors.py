"""The one table: error → status and body.

Source: SPEC.md, "Errors"; DESIGN.md, "6. The API: what SPEC.md leaves open"; RFC 9457, "3. The Problem
Details JSON Object".
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from payd.core import errors
from payd.core.errors import Issue, PaydError
from payd.web.call import PROBLEM_TYPE, Answer
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
    errors.SealBroken: 500,
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


class Problem(msgspec.Struct, omit_defaults=True):
    """A refusal as RFC 9457 has it, for who asks for `application/problem+json`."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    details: dict[str, Any] = {}
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


def as_problem(plain: Answer) -> Answer:
    """The same refusal in the other form: what `details` names of every error has members of its own there.

    There is no `Vary`, because no cache keeps a refusal.
    """
    refused = msgspec.json.decode(plain.body, type=ErrorBody)
    details = dict(refused.details)
    problem = Problem(
        type=details.pop("docUrl"),
        title=title_of(refused.code),
        status=plain.status,
        detail=refused.message,
        instance=details.pop("requestId"),
        code=refused.code,
        details=details,
        issues=refused.issues,
    )
    headers = (*plain.headers, ("Content-Type", PROBLEM_TYPE))
    return Answer(plain.status, msgspec.json.encode(problem), headers)


def title_of(code: str) -> str:
    """What a code means in two or three words, the same each time."""
    words = code.replace("_", " ").replace("api", "API")
    return words[0].upper() + words[1:]
