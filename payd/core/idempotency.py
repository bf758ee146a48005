"""Idempotency: which requests are the same request, and what a repeated one gets.

Source: SPEC.md, "Authentication"; SPEC.md, "Errors"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

import msgspec

from payd.core.errors import IdempotencyConflict, InvalidParams, MissingIdempotencyKey

KEY_MAX: Final = 255  # characters, by SPEC.md's limits

_PRINTABLE: Final = re.compile(f"[\\x20-\\x7e]{{1,{KEY_MAX}}}")


class Record(msgspec.Struct, frozen=True):
    """The answer that a key was first given, to be given again.

    Attributes:
        status: The HTTP status.
        body: The answer's bytes.
        fingerprint: `fingerprint_of` the request that was answered.
        request_id: That request's id.
    """

    status: int
    body: bytes
    fingerprint: bytes
    request_id: str


def check_key(header: str | None, required: bool) -> str | None:
    """The key in an `Idempotency-Key` header without the blanks around it; None where there is none.

    Quotes are part of the key: clients send bare tokens.

    Raises:
        MissingIdempotencyKey: There is none, and `required`.
        InvalidParams: It is longer than `KEY_MAX` or has characters that are not printable ASCII.
    """
    key = (header or "").strip(" \t")
    if not key:
        if required:
            raise MissingIdempotencyKey("The Idempotency-Key header is required here.")
        return None
    if _PRINTABLE.fullmatch(key) is None:
        raise InvalidParams(f"Idempotency-Key must be at most {KEY_MAX} printable ASCII characters.")
    return key


def scope_of(method: str, path: str, merchant_id: str | None, key: str) -> bytes:
    """The 32 bytes under which a request's answer is kept, within one account of one realm.

    Args:
        method: The HTTP method.
        path: The concrete path, with the ids in it.
        merchant_id: The merchant the request acts on, where there is one.
        key: What `check_key` returned.
    """
    digest = hashlib.sha256()
    # Each part is led by its length, so that no two lists of parts hash the same bytes.
    for part in (method, path, merchant_id or "", key):
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.digest()


def fingerprint_of(canonical_body: bytes) -> bytes:
    """The 32 bytes that tell one body from another.

    Args:
        canonical_body: The body decoded, validated and encoded again, so that white space, the order of
            keys and unknown fields make no difference.
    """
    return hashlib.sha256(canonical_body).digest()


def decide(record: Record | None, fingerprint: bytes) -> Record | None:
    """The answer to give again, or None: do the work and keep its answer.

    Raises:
        IdempotencyConflict: The key was used with a different body.
    """
    if record is not None and record.fingerprint != fingerprint:
        raise IdempotencyConflict(
            "This Idempotency-Key was used before with another body. Use a new key for a new request."
        )
    return record
