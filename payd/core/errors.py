"""Every failure that a caller can cause, each with its machine code.

Anything else that goes wrong is a bug or a broken machine, and crashes up to a supervisor. Statuses live in
`web/errors.py`, in one table, so that the rules know nothing of HTTP.

Source: SPEC.md, "Errors"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec


class Issue(msgspec.Struct, frozen=True):
    """One field that is wrong, and what is wrong with it."""

    field: str
    message: str


class PaydError(Exception):
    """A refusal that the caller is told about, in words that say what to do.

    Attributes:
        code: Machine code of the refusal, one for each class.
        message: For people.
        details: Free-form structured details, shown to the caller; may be empty.
        issues: The fields that are wrong; only for `params_validation`.
    """

    code: ClassVar[str]

    def __init__(
        self, message: str, *, details: Mapping[str, Any] | None = None, issues: Sequence[Issue] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = dict(details or {})
        self.issues = tuple(issues)


class ParamsValidation(PaydError):
    """The body misses its schema: missing, type, length, pattern, enum, duplicate."""

    code = "params_validation"

    @classmethod
    def of(cls, *issues: Issue) -> ParamsValidation:
        """The refusal of these fields; its message says of each what is wrong."""
        words = "; ".join(f"{issue.field}: {issue.message}" for issue in issues)
        return cls(words.replace(".; ", ". "), issues=issues)


class InvalidParams(PaydError):
    """Broken JSON, query or header, or a well-formed value that cannot be."""

    code = "invalid_params"


class InvalidState(PaydError):
    """The payment is not in a state from which this can be done."""

    code = "invalid_state"


class MissingIdempotencyKey(PaydError):
    """The `Idempotency-Key` header is required here."""

    code = "missing_idempotency_key"


class MissingMerchantId(PaydError):
    """The `Merchant-Id` header is required here."""

    code = "missing_merchant_id"


class ConflictingAuthHeaders(PaydError):
    """Both kinds of credential were sent at once."""

    code = "conflicting_auth_headers"


class InvalidApiVersion(PaydError):
    """The version header is not a date."""

    code = "invalid_api_version"


class UnknownApiVersion(PaydError):
    """The version header names no version of this API."""

    code = "unknown_api_version"


class ApiVersionDowngrade(PaydError):
    """A header may only ask for a newer version than the account's own."""

    code = "api_version_downgrade"


class QuoteExpired(PaydError):
    """The quote behind the option is too old; ask for options again."""

    code = "quote_expired"


class PaymentNotSucceeded(PaydError):
    """Only a succeeded payment can be refunded."""

    code = "payment_not_succeeded"


class MissingApiKey(PaydError):
    """No credential was sent."""

    code = "missing_api_key"


class InvalidApiKey(PaydError):
    """The key is unknown or revoked."""

    code = "invalid_api_key"


class MissingClientId(PaydError):
    """`App-Id` without `Client-Id`."""

    code = "missing_client_id"


class MissingAppId(PaydError):
    """`Client-Id` without `App-Id`."""

    code = "missing_app_id"


class InvalidAppId(PaydError):
    """The app id is unknown or revoked."""

    code = "invalid_app_id"


class Forbidden(PaydError):
    """The key is valid but lacks the scope or the merchant."""

    code = "forbidden"


class NotSandboxApiKey(PaydError):
    """A live key on a path that simulates."""

    code = "not_sandbox_api_key"


class NotFound(PaydError):
    """No such merchant, settlement, endpoint, delivery, event, job or path."""

    code = "not_found"


class PaymentNotFound(PaydError):
    """No such payment for this caller; malformed and unknown ids read the same."""

    code = "payment_not_found"


class MethodNotAllowed(PaydError):
    """The path exists, the method does not."""

    code = "method_not_allowed"


class IdempotencyConflict(PaydError):
    """The same key was used with a different body."""

    code = "idempotency_conflict"


class SettlementAssetConflict(PaydError):
    """The merchant has a settlement for this asset."""

    code = "settlement_asset_conflict"


class RouteExpired(PaydError):
    """The option's destination or chain is gone."""

    code = "route_expired"


class EndpointDisabled(PaydError):
    """The endpoint is disabled; enable it first."""

    code = "endpoint_disabled"


class AlreadyRefunded(PaydError):
    """The payment's refund was recorded before."""

    code = "already_refunded"


class PaymentExpired(PaydError):
    """The payment's window has closed."""

    code = "payment_expired"


class BodyTooLarge(PaydError):
    """The body is over the limit."""

    code = "body_too_large"


class UnsupportedMediaType(PaydError):
    """A body that is not `application/json`."""

    code = "unsupported_media_type"


class InvalidSignature(PaydError):
    """The wallet's signature does not verify; the payment stays open."""

    code = "invalid_signature"


class UpgradeRequired(PaydError):
    """Plain HTTP on the path of a websocket."""

    code = "upgrade_required"


class RateLimited(PaydError):
    """Too many requests; `details.retryAfterS` says when to come back."""

    code = "rate_limited"


class InternalError(PaydError):
    """Something broke on this side; nothing inside is told."""

    code = "internal_error"


class SealBroken(InternalError):
    """What was sealed does not open: another key, another subject, or changed bytes. No retry helps."""


class StoreUnavailable(InternalError):
    """The store cannot be written or read, and nothing was stored: the disk is full, read-only or ill."""


class ChainUnavailable(InternalError):
    """No node of a chain gave a usable answer; nothing was changed."""


class OutcomeUnknown(InternalError):
    """The commit ended in an I/O error: it may or may not be stored."""
