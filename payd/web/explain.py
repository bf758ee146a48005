"""What the server knows of a delivery that does not verify: who signed it, and whether it was sent so.

Source: SPEC.md, "Signature".
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from payd.core.diagnosis import Received, signer_of
from payd.core.endpoint import Secret
from payd.core.event import iso_ms
from payd.store.deliveries import Work, list_deliveries, load_work
from payd.store.endpoints import find_endpoint, listen_secret, secrets_of

if TYPE_CHECKING:
    from payd.web.house import Realm

# A payment has a handful of events, and each a delivery for every endpoint that the account ever had.
DELIVERIES_MAX: Final = 100

Standing = Literal["current", "previous", "expired"]


class StoredSecret(msgspec.Struct, frozen=True, rename="camel"):
    """When a stored secret signs; never the secret itself.

    Attributes:
        standing: The current one, one that still signs along, or one that has stopped.
        created_at: ISO 8601, realm time.
        rotated_at: When another took its place; None for the current one.
        expires_at: When it stops or stopped signing; None for the current one.
    """

    standing: Standing
    created_at: str
    rotated_at: str | None
    expires_at: str | None


class Explained(msgspec.Struct, frozen=True, rename="camel"):
    """What is known of a delivery.

    Attributes:
        match: Which stored secret made one of the signatures; None: none did.
        by_listener: Whether it was the one that `payd listen` has for accounts without an endpoint.
        has_endpoint: Whether there is an endpoint now.
        created_at: Of that secret, as in `StoredSecret`.
        rotated_at: Likewise.
        expires_at: Likewise.
        given: The secret that the receiver has, if it is one of the endpoint's.
        body_changed: Whether the signature fits what was sent, and not the body that was received.
        delivery_id: The delivery of the event that the body names, if the endpoint was owed it.
        delivery_state: Its state.
    """

    match: Standing | None
    by_listener: bool
    has_endpoint: bool
    created_at: str | None
    rotated_at: str | None
    expires_at: str | None
    given: StoredSecret | None
    body_changed: bool
    delivery_id: str | None
    delivery_state: str | None


async def explain(
    realm: Realm, account_id: str, received: Received, secret_sha256: str | None = None
) -> Explained:
    """Compare a delivery with the endpoint's stored secrets, and with the bytes that were sent.

    Args:
        realm: Whose endpoint.
        account_id: Likewise.
        received: As the receiver has it.
        secret_sha256: SHA-256 of the receiver's secret, in hex: it is recognised without being told.

    Raises:
        SealBroken: The current secret was sealed with another key.
    """
    endpoint = realm.db.point(find_endpoint, account_id)
    secrets: list[Secret] = []
    if endpoint is not None:
        secrets = realm.deliveries.open_all(realm.db.point(secrets_of, endpoint.id), endpoint.id)
    sent, state = await _sent(realm, account_id, received.body)
    signer, body_changed = signer_of(secrets, received), False
    if signer is None and sent is not None:
        signer = signer_of(secrets, msgspec.structs.replace(received, body=sent.body))
        body_changed = signer is not None
    now_ms = realm.clock.now_ms()
    match = None if signer is None else _stored(signer, secrets, now_ms)
    given = _given(secrets, secret_sha256)
    listens = Secret(listen_secret(realm.seal, account_id), 0)
    return Explained(
        match=match.standing if match else None,
        by_listener=match is None and signer_of([listens], received) is not None,
        has_endpoint=endpoint is not None,
        created_at=match.created_at if match else None,
        rotated_at=match.rotated_at if match else None,
        expires_at=match.expires_at if match else None,
        given=None if given is None else _stored(given, secrets, now_ms),
        body_changed=body_changed,
        delivery_id=sent.delivery_id if sent else None,
        delivery_state=state,
    )


async def _sent(realm: Realm, account_id: str, body: bytes) -> tuple[Work | None, str | None]:
    """The newest delivery of the event that a body names, and its state."""
    event_id, payment_id = _names(body)
    if event_id is None or payment_id is None:
        return None, None
    search = partial(list_deliveries, account_id=account_id, payment_id=payment_id, limit=DELIVERIES_MAX)
    for row in await realm.db.read(search):
        if row.event_id == event_id:
            return realm.db.point(load_work, row.id), row.state
    return None, None


def _names(body: bytes) -> tuple[str | None, str | None]:
    """The ids of event and payment in a body, whatever was done to it."""
    try:
        envelope: Any = msgspec.json.decode(body.removeprefix(b"\xef\xbb\xbf"))
        event_id, payment_id = envelope["id"], envelope["data"]["payment_id"]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError, LookupError):
        return None, None
    if isinstance(event_id, str) and isinstance(payment_id, str):
        return event_id, payment_id
    return None, None


def _given(secrets: Sequence[Secret], sha256: str | None) -> Secret | None:
    """The stored secret with this digest."""
    for secret in secrets if sha256 is not None else ():
        digest = hashlib.sha256(secret.value.encode()).hexdigest()
        if hmac.compare_digest(digest.encode(), (sha256 or "").encode("utf-8", "surrogatepass")):
            return secret
    return None


def _stored(secret: Secret, secrets: Sequence[Secret], now_ms: int) -> StoredSecret:
    standing: Standing = "current"
    if secret.expires_at_ms is not None:
        standing = "previous" if secret.expires_at_ms > now_ms else "expired"
    newer = [one.created_at_ms for one in secrets if one.created_at_ms > secret.created_at_ms]
    return StoredSecret(
        standing,
        iso_ms(secret.created_at_ms),
        iso_ms(min(newer)) if newer and standing != "current" else None,
        None if secret.expires_at_ms is None else iso_ms(secret.expires_at_ms),
    )
