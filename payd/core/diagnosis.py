"""Why a delivery does not verify: what was changed on its way, or which part is not the one that was signed.

Source: SPEC.md, "Signature".
"""

from __future__ import annotations

import base64
import binascii
import enum
import hmac
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from payd.core.endpoint import Secret
from payd.core.event import Envelope
from payd.core.signature import (
    SECRET_BYTES,
    SECRET_PREFIX,
    TOLERANCE_S,
    MalformedHeader,
    MalformedSecret,
    SignatureMismatch,
    SignatureRefused,
    StaleTimestamp,
    digest,
    key_of,
    verify,
)
from payd.core.span import span

DIGEST_CHARS: Final = 44
# Each entry is compared with every guess; payd sends five at most.
ENTRIES_MAX: Final = 20

_BOM: Final = b"\xef\xbb\xbf"
_EVENT_ID: Final = "evt_"
_RAW: Final = "Verify the raw bytes, as they came, before anything parses them."
# A digest wherever it stands: without its padding, in the alphabet of URLs, between the wrong separators.
_DIGEST: Final = re.compile(r"(?<![\w+/-])[A-Za-z0-9+/_-]{43}(?![\w+/-])")
_ENTRY: Final = re.compile(r"(?P<version>v[0-9]+[a-z]*),(?P<digest>\S*)")
_MILLISECONDS: Final = re.compile("[0-9]{13}")


class Kind(enum.StrEnum):
    """What was found."""

    AUTHENTIC = "authentic"
    MALFORMED_SECRET = "malformed_secret"
    MALFORMED_HEADER = "malformed_header"
    STALE_TIMESTAMP = "stale_timestamp"
    REWRITTEN_HEADER = "rewritten_header"
    WRONG_ID = "wrong_id"
    CHANGED_BODY = "changed_body"
    RAW_SECRET = "raw_secret"
    WRONG_SECRET = "wrong_secret"


class Received(msgspec.Struct, frozen=True):
    """A delivery as its receiver has it: the three headers of the scheme, and the body before any parsing."""

    message_id: str
    timestamp: str
    signature: str
    body: bytes


class Diagnosis(msgspec.Struct, frozen=True):
    """What is wrong, in words that never hold a secret.

    `WRONG_SECRET` is what remains when nothing else was found: who has other secrets may know better.
    """

    kind: Kind
    words: str


class _Guess(NamedTuple):
    """What might have been signed instead, and what it means if that fits."""

    kind: Kind
    words: str
    keys: Sequence[bytes]
    message_id: str
    body: bytes


def diagnose(secrets: Sequence[str], received: Received, now_s: int) -> Diagnosis:
    """Why no signature fits, or that one does.

    The work is bounded: a dozen digests of the body for each secret. All comparisons take constant time.

    Args:
        secrets: The receiver's, one or more.
        received: Headers and body.
        now_s: Unix seconds, which the delivery's time is compared with.

    Raises:
        ValueError: There is no secret.
    """
    if not secrets:
        raise ValueError("a diagnosis takes a secret")
    try:
        keys = [_key_of(secret) for secret in secrets]
    except MalformedSecret as malformed:
        return Diagnosis(Kind.MALFORMED_SECRET, str(malformed))
    try:
        return _judged(secrets, received, now_s)
    except MalformedHeader as malformed:
        return Diagnosis(Kind.MALFORMED_HEADER, _header_words(received, str(malformed)))
    except StaleTimestamp:
        words = f"Secret and body are right, but the time is not: {lateness(received.timestamp, now_s)}."
        return Diagnosis(Kind.STALE_TIMESTAMP, words)
    except SignatureMismatch:
        return _why(secrets, keys, received, now_s)


def lateness(timestamp: str, now_s: int) -> str | None:
    """By how much a delivery is too old or too new, and what that may come from; None when it is fresh.

    Args:
        timestamp: The header, whole Unix seconds.
        now_s: Unix seconds.
    """
    age_s = now_s - int(timestamp)
    if abs(age_s) <= TOLERANCE_S:
        return None
    allowed = f"{TOLERANCE_S // 60} minutes are allowed"
    if age_s > 0:
        causes = "an old or replayed delivery, a queue before the check, or a clock that is ahead here"
        return f"the delivery is {span(age_s * 1000)} old and {allowed}. It is {causes}"
    ahead = span(-age_s * 1000)
    return f"the delivery is from {ahead} in the future and {allowed}. This machine's clock is behind"


def signer_of(secrets: Iterable[Secret], received: Received) -> Secret | None:
    """Which of an endpoint's secrets made one of the signatures, the current one first, then the newest.

    Its time is not looked at.
    """
    newest = sorted(secrets, key=lambda one: (one.expires_at_ms is None, one.created_at_ms), reverse=True)
    found = _digests(received.signature)
    for secret in newest:
        if _fits([key_of(secret.value)], received.message_id, received.timestamp, received.body, found):
            return secret
    return None


def _judged(secrets: Sequence[str], received: Received, now_s: int) -> Diagnosis:
    """As a receiver judges with each of its secrets; raises what the last one does, or that one is stale."""
    refused: SignatureRefused | None = None
    for secret in secrets:
        try:
            verify(secret, now_s=now_s, **msgspec.structs.asdict(received))
        except SignatureMismatch as error:
            refused = error
        else:
            return Diagnosis(Kind.AUTHENTIC, "The signature fits and the time is right.")
    assert refused is not None, "there is a secret"
    raise refused


def _why(secrets: Sequence[str], keys: Sequence[bytes], received: Received, now_s: int) -> Diagnosis:
    """For what has the scheme's shape, or nearly, and does not verify."""
    found = _digests(received.signature)
    if not found:
        return Diagnosis(Kind.MALFORMED_HEADER, _signature_words(received.signature))
    for guess in _guesses(secrets, keys, received):
        if _fits(guess.keys, guess.message_id, received.timestamp, guess.body, found):
            late = lateness(received.timestamp, now_s)
            return Diagnosis(guess.kind, f"{guess.words} Moreover, {late}." if late else guess.words)
    if received.message_id.startswith(_EVENT_ID):
        words = "The id is the event's. What is signed is the header webhook-id, which begins with msg_."
        return Diagnosis(Kind.WRONG_ID, words)
    if (lost := _lost_words(received.body)) is not None:
        return Diagnosis(Kind.CHANGED_BODY, lost)
    return Diagnosis(Kind.WRONG_SECRET, _wrong_words(keys, received.body))


def _guesses(secrets: Sequence[str], keys: Sequence[bytes], received: Received) -> Iterator[_Guess]:
    """What else may have been signed, the likeliest first."""
    message_id, body = received.message_id, received.body
    words = (
        "The digest fits, but the webhook-signature header was rewritten. Pass it on as it came:"
        " `v1,` before each digest, one space between two."
    )
    yield _Guess(Kind.REWRITTEN_HEADER, words, keys, message_id, body)
    own_id = _own_id(body)
    if own_id is not None and own_id != message_id:
        words = (
            "The signature was made over the event's id. What is to be signed is the header webhook-id,"
            " which begins with msg_."
        )
        yield _Guess(Kind.WRONG_ID, words, keys, own_id, body)
    if message_id.strip() != message_id:
        words = "The signature fits without the white space around the webhook-id header."
        yield _Guess(Kind.WRONG_ID, words, keys, message_id.strip(), body)
    for change, variant in _variants(body):
        if variant != body:
            yield _Guess(Kind.CHANGED_BODY, f"The secret is right, but {change}", keys, message_id, variant)
    texts = [text.encode() for one in secrets for text in (one, one.removeprefix(SECRET_PREFIX))]
    words = (
        "The signature was made with the text of the secret as the key. The key is the bytes that the"
        f" base64 after {SECRET_PREFIX} stands for."
    )
    yield _Guess(Kind.RAW_SECRET, words, texts, message_id, body)


def _variants(body: bytes) -> Iterator[tuple[str, bytes]]:
    """What the body may have been before somebody changed it, with words for the change."""
    bare = body.removeprefix(_BOM)
    yield f"a byte order mark was put before the body. {_RAW}", bare
    yield f"a line end was added to the body. {_RAW}", bare.rstrip(b"\r\n")
    yield f"white space was added around the body. {_RAW}", bare.strip()
    yield f"the line ends of the body were changed. {_RAW}", bare.replace(b"\r\n", b"\n")
    with suppress(UnicodeError):
        yield f"the body was decoded as Latin-1 and not as UTF-8. {_RAW}", bare.decode().encode("latin-1")
    with suppress(binascii.Error):
        words = "the body is still in base64, as API gateways hand it to functions. Decode it first."
        yield words, base64.b64decode(bare.strip(), validate=True)
    value = _decoded(bare)
    if isinstance(value, str):
        yield f"the body was put into a JSON string. {_RAW}", value.encode("utf-8", "surrogatepass")
    elif (compact := _compact(value)) is not None:
        yield f"the body was parsed and written again. {_RAW}", compact
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        envelope = msgspec.json.decode(bare, type=Envelope)
        words = (
            f"the body was parsed and written again with its keys in another order, or with others. {_RAW}"
        )
        yield words, msgspec.json.encode(envelope)


def _fits(
    keys: Sequence[bytes], message_id: str, timestamp: str, body: bytes, found: Sequence[bytes]
) -> bool:
    """Whether one of the digests is that of one of the keys; all are compared."""
    expected = [digest(key, message_id, timestamp, body).encode() for key in keys]
    return sum(hmac.compare_digest(one, other) for one in expected for other in found) > 0


def _digests(signature: str) -> list[bytes]:
    """Every digest in the header, also where header or digest were rewritten."""
    found = _DIGEST.findall(signature)[:ENTRIES_MAX]
    return [one.replace("-", "+").replace("_", "/").encode() + b"=" for one in found]


def _key_of(secret: str) -> bytes:
    try:
        return key_of(secret)
    except MalformedSecret as malformed:
        if (bare := secret.strip(" \t\r\n'\"")) == secret:
            raise
        key_of(bare)
        raise MalformedSecret("The secret has quotes or white space around it. Take them off.") from malformed


def _header_words(received: Received, words: str) -> str:
    """What is wrong with the id or the timestamp."""
    if received.message_id and _MILLISECONDS.fullmatch(received.timestamp):
        return f"{words} It is in milliseconds here. Pass the header on as it came."
    return words


def _signature_words(signature: str) -> str:
    """What is wrong with a header that has no digest of the right length."""
    if not signature.strip():
        return "The webhook-signature header is empty."
    entries = [found.groupdict() for found in _ENTRY.finditer(signature)]
    digests = [entry["digest"] for entry in entries if entry["version"] == "v1"]
    if digests:
        longest = max(map(len, digests))
        how = "cut" if longest < DIGEST_CHARS else "too long"
        return (
            f"The webhook-signature header is {how}: after `v1,` there must be {DIGEST_CHARS} characters of"
            f" base64, and there are {longest}."
        )
    if entries:
        versions = " and ".join(sorted({entry["version"] for entry in entries}))
        return f"The webhook-signature header has only {versions}. payd signs with v1."
    return "The webhook-signature header must be `v1,` and a digest. Pass it on as it came."


def _lost_words(body: bytes) -> str | None:
    """For a body that payd cannot have sent, and that cannot be undone."""
    if not body:
        return f"The body is empty. Was it read before, by a framework or a middleware? {_RAW}"
    value = _decoded(body)
    if isinstance(value, dict) and "payment_id" in value and "data" not in value:
        return f"This is only the `data` of an event. What is signed is the whole body. {_RAW}"
    return None


def _wrong_words(keys: Sequence[bytes], body: bytes) -> str:
    words = (
        "No v1 signature fits. The secret is another one, of another endpoint or mode, or the body was"
        " changed, or the headers are those of another delivery."
    )
    if all(len(key) != SECRET_BYTES for key in keys):
        words += f" payd's secrets hold {SECRET_BYTES} bytes, this one {len(keys[0])}: is it whole?"
    if _compact(_decoded(body)) != body:
        words += (
            " payd sends compact JSON and this body is none: it was changed, maybe in a way that cannot be"
            f" undone here. {_RAW}"
        )
    return words


def _own_id(body: bytes) -> str | None:
    """The id in the body, that of the event."""
    value = _decoded(body.removeprefix(_BOM))
    own_id = value.get("id") if isinstance(value, dict) else None
    return own_id if isinstance(own_id, str) else None


def _decoded(body: bytes) -> Any:
    """The JSON in a body; None where there is none, or it is `null`."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _compact(value: Any) -> bytes | None:
    """JSON as payd writes it; None for what it cannot write, which it never sent either."""
    try:
        return msgspec.json.encode(value)
    except (msgspec.MsgspecError, RecursionError, OverflowError, ValueError):
        return None
