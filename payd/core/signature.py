"""Standard Webhooks signatures: secrets, the header of a delivery, and verifying one.

Source: SPEC.md, "Signature".
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

SECRET_PREFIX: Final = "whsec_"
SECRET_BYTES: Final = 32
TOLERANCE_S: Final = 5 * 60
# Keys that stay decoded; an account has one or two.
KEYS_KEPT: Final = 1024

_VERSION: Final = "v1"
_TIMESTAMP: Final = re.compile("[0-9]{1,12}")


class SignatureRefused(Exception):
    """A delivery that is not to be believed; the message says why."""


class MalformedSecret(SignatureRefused):
    """The secret is not `whsec_` and base64."""


class MalformedHeader(SignatureRefused):
    """A header is missing or has another shape than the scheme's."""


class SignatureMismatch(SignatureRefused):
    """No signature fits: another secret, or other bytes than those that were sent."""


class StaleTimestamp(SignatureRefused):
    """The signature fits, but its time is more than `TOLERANCE_S` from now."""


def make_secret(entropy: bytes) -> str:
    """`whsec_` and the base64 of the key.

    Raises:
        ValueError: `entropy` is not `SECRET_BYTES` long.
    """
    if len(entropy) != SECRET_BYTES:
        raise ValueError(f"a signing secret is made of {SECRET_BYTES} random bytes")
    return SECRET_PREFIX + base64.b64encode(entropy).decode("ascii")


@lru_cache(maxsize=KEYS_KEPT)
def key_of(secret: str) -> bytes:
    """The key in a secret.

    Raises:
        MalformedSecret: The prefix is missing, or what follows is not base64.
    """
    if not secret.startswith(SECRET_PREFIX):
        raise MalformedSecret(f"The secret must begin with {SECRET_PREFIX}.")
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError) as error:
        # Not the text itself: it is a secret, even a mistyped one.
        raise MalformedSecret(f"The secret must be base64 after {SECRET_PREFIX}.") from error
    if not key:
        raise MalformedSecret(f"The secret has nothing after {SECRET_PREFIX}.")
    return key


def sign(secrets: Sequence[str], message_id: str, timestamp_s: int, body: bytes) -> str:
    """The value of `webhook-signature`: one entry for each secret, in their order, with one space between.

    Args:
        secrets: All that are valid now, the current one first.
        message_id: The value of `webhook-id`.
        timestamp_s: The value of `webhook-timestamp`: Unix seconds of the attempt.
        body: The exact bytes that are sent.

    Raises:
        MalformedSecret: One of the secrets is none.
        ValueError: There is no secret, or the message id has a dot, which ends it in what is signed.
    """
    if not secrets or "." in message_id:
        raise ValueError("signing takes a secret and a message id without a dot")
    digests = (digest(key_of(secret), message_id, str(timestamp_s), body) for secret in secrets)
    return " ".join(f"{_VERSION},{one}" for one in digests)


def verify(secret: str, *, message_id: str, timestamp: str, signature: str, body: bytes, now_s: int) -> None:
    """Return when a delivery is authentic and fresh, as a receiver would judge it.

    Args:
        secret: The receiver's.
        message_id: The header `webhook-id`.
        timestamp: The header `webhook-timestamp`.
        signature: The header `webhook-signature`; entries of other versions than v1 are passed over.
        body: The bytes received, before any parsing.
        now_s: Unix seconds.

    Raises:
        MalformedSecret: The secret is none.
        MalformedHeader: The id is empty, or the timestamp is not whole seconds.
        SignatureMismatch: No entry has the right digest.
        StaleTimestamp: One has, but its time is too far from now.
    """
    if not message_id:
        raise MalformedHeader("The webhook-id header is empty.")
    if _TIMESTAMP.fullmatch(timestamp) is None:
        raise MalformedHeader("The webhook-timestamp header must be whole Unix seconds.")
    expected = f"{_VERSION},{digest(key_of(secret), message_id, timestamp, body)}".encode()
    entries = [entry.encode("utf-8", "surrogatepass") for entry in signature.split(" ")]
    # All are compared, so that the time taken does not tell which one fits.
    if not sum(hmac.compare_digest(expected, entry) for entry in entries):
        raise SignatureMismatch("No v1 signature fits: the secret is another one, or the body was changed.")
    if abs(now_s - int(timestamp)) > TOLERANCE_S:
        raise StaleTimestamp(f"The signature fits, but it is {abs(now_s - int(timestamp))} s from now.")


def digest(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    """What an entry of `webhook-signature` has after its version and comma: 44 characters of base64."""
    signed = f"{message_id}.{timestamp}.".encode("utf-8", "surrogatepass") + body
    return base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode("ascii")
