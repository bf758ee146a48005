"""Idempotency at the door: a request's key, and the answer to a replay.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from typing import Any

import msgspec

from payd.core.idempotency import check_key, fingerprint_of, scope_of
from payd.store.idempotency import IdempotentRequest, Outcome
from payd.web.call import Answer, Call

NO_BODY = b"{}"


def idempotent(call: Call, body: Any) -> IdempotentRequest | None:
    """The request under its `Idempotency-Key`; None without one. Whether it must have one is the route's.

    Args:
        call: The call.
        body: The decoded, validated body: white space, order and unknown fields make no difference.

    Raises:
        InvalidParams: The key is too long or not printable.
    """
    key = check_key(call.request.headers.get("idempotency-key"), required=False)
    if key is None:
        return None
    canonical = NO_BODY if body is None else msgspec.json.encode(body, order="sorted")
    return IdempotentRequest(
        account_id=call.account_id,
        scope=scope_of(call.request.method, call.request.path, call.merchant_id, key),
        fingerprint=fingerprint_of(canonical),
        request_id=call.request_id,
        now_ms=call.realm.clock.now_ms(),
    )


def check_nothing(call: Call) -> None:
    """Refuse a body that is no JSON object, where none is needed.

    Raises:
        UnsupportedMediaType, InvalidParams, ParamsValidation: As for any other body.
    """
    if call.request.body:
        call.json(dict[str, Any])


def outcome_answer(outcome: Outcome) -> Answer:
    """The answer of an outcome; a replay says so and names the request it repeats."""
    if outcome.original_request is None:
        return Answer(outcome.status, outcome.body)
    return Answer(
        outcome.status,
        outcome.body,
        (("Idempotent-Replayed", "true"), ("Original-Request", outcome.original_request)),
    )
