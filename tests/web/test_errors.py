"""The table of refusals: a status for each, and one shape of body."""

from __future__ import annotations

import msgspec
import pytest

from payd.core import errors
from payd.core.errors import (
    Issue,
    MethodNotAllowed,
    ParamsValidation,
    PaydError,
    RateLimited,
    StoreUnavailable,
)
from payd.web.errors import STATUS, as_problem, doc_url, error_answer, title_of
from payd.web.html import NO_STORE

URL = "https://pay.example"

# SPEC.md, "Errors", and what DESIGN.md adds to it: code → statuses.
CODES = {
    "params_validation": {400},
    "invalid_params": {400},
    "invalid_state": {400},
    "missing_idempotency_key": {400},
    "missing_merchant_id": {400},
    "conflicting_auth_headers": {400},
    "invalid_api_version": {400},
    "unknown_api_version": {400},
    "api_version_downgrade": {400},
    "quote_expired": {400},
    "payment_not_succeeded": {400},
    "missing_api_key": {401},
    "invalid_api_key": {401},
    "missing_client_id": {401},
    "missing_app_id": {401},
    "invalid_app_id": {401},
    "forbidden": {403},
    "not_sandbox_api_key": {403},
    "not_found": {404},
    "payment_not_found": {404},
    "method_not_allowed": {405},
    "idempotency_conflict": {409},
    "settlement_asset_conflict": {409},
    "route_expired": {409},
    "endpoint_disabled": {409},
    "already_refunded": {409},
    "payment_expired": {410},
    "body_too_large": {413},
    "unsupported_media_type": {415},
    "invalid_signature": {422},
    "upgrade_required": {426},
    "rate_limited": {429},
    "internal_error": {500, 503},
}


def test_the_codes_and_statuses_are_those_of_the_specification() -> None:
    found: dict[str, set[int]] = {}
    for kind, status in STATUS.items():
        found.setdefault(kind.code, set()).add(status)
    assert found == CODES


@pytest.mark.parametrize("kind", STATUS, ids=lambda kind: kind.__name__)
def test_every_refusal_has_the_one_shape(kind: type[PaydError]) -> None:
    answer = error_answer(kind("Words for people."), "req_1", URL)
    body = msgspec.json.decode(answer.body)
    assert answer.status == STATUS[kind]
    assert body["message"] == "Words for people."
    assert body["code"] == kind.code
    assert body["details"]["requestId"] == "req_1"
    assert body["details"]["docUrl"] == f"{URL}/docs#error-{kind.code}"
    assert "issues" not in body
    assert NO_STORE in answer.headers, "no cache keeps it"


def test_issues_are_shown_with_their_fields() -> None:
    issues = [Issue("amount.value", "Required."), Issue("referenceId", "Required.")]
    body = msgspec.json.decode(
        error_answer(ParamsValidation("Two things.", issues=issues), "req_1", URL).body
    )
    assert body["issues"] == [
        {"field": "amount.value", "message": "Required."},
        {"field": "referenceId", "message": "Required."},
    ]


def test_details_are_kept_beside_the_request_and_not_changed() -> None:
    refusal = errors.InvalidState("No.", details={"status": "failed"})
    body = msgspec.json.decode(error_answer(refusal, "req_1", URL).body)
    assert body["details"] == {"status": "failed", "requestId": "req_1", "docUrl": doc_url(URL, refusal.code)}
    assert refusal.details == {"status": "failed"}


def test_when_to_come_back_is_a_header_too() -> None:
    assert ("Retry-After", "7") in error_answer(
        RateLimited("Slow.", details={"retryAfterS": 7}), "r", URL
    ).headers
    assert ("Retry-After", "5") in error_answer(StoreUnavailable("Full."), "r", URL).headers
    assert error_answer(errors.OutcomeUnknown("?"), "r", URL).headers == (NO_STORE,)


def test_the_allowed_methods_are_a_header_too() -> None:
    refusal = MethodNotAllowed("No.", details={"allowed": ["GET", "POST"]})
    assert ("Allow", "GET, POST") in error_answer(refusal, "r", URL).headers


@pytest.mark.parametrize("kind", STATUS, ids=lambda kind: kind.__name__)
def test_every_refusal_can_be_told_as_problem_details(kind: type[PaydError]) -> None:
    plain = error_answer(kind("Words for people."), "req_1", URL)
    found = as_problem(plain)
    problem = msgspec.json.decode(found.body)
    more = {name: value for name, value in problem.pop("details", {}).items() if name == "retryAfterS"}
    assert problem == {
        "type": doc_url(URL, kind.code),
        "title": title_of(kind.code),
        "status": STATUS[kind],
        "detail": "Words for people.",
        "instance": "req_1",
        "code": kind.code,
    }
    assert ("retryAfterS" in more) == any(name == "Retry-After" for name, _ in plain.headers)
    assert found.status == plain.status
    assert found.headers == (*plain.headers, ("Content-Type", "application/problem+json"))


def test_problem_details_keep_what_a_refusal_says() -> None:
    issues = [Issue("amount.value", "Required.")]
    wrong = msgspec.json.decode(as_problem(error_answer(ParamsValidation.of(*issues), "r", URL)).body)
    assert wrong["issues"] == [{"field": "amount.value", "message": "Required."}]
    assert "details" not in wrong
    refusal = errors.InvalidState("No.", details={"status": "failed"})
    assert msgspec.json.decode(as_problem(error_answer(refusal, "r", URL)).body)["details"] == {
        "status": "failed"
    }


def test_a_title_is_the_code_in_words() -> None:
    assert title_of("payment_not_found") == "Payment not found"
    assert title_of("missing_api_key") == "Missing API key"
    assert title_of("api_version_downgrade") == "API version downgrade"
