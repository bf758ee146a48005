"""Passkeys: what the browser is asked for, and whether what it answers is right.

A passkey belongs to the host of `base_url`. It counts as both factors, since the device asks for a finger, a
face or a PIN first.

Source: DESIGN.md, "11. Pages"; Web Authentication Level 2, "5. Web Authentication API".
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec
import trio

from payd.core.errors import Forbidden, InvalidParams
from payd.entropy import new_id
from payd.store.second_factors import Passkey, find_passkey, list_passkeys, use_passkey
from payd.web.form import origin_of

if TYPE_CHECKING:
    from payd.store.users import User
    from payd.web.dashboard.visit import Visit

CHALLENGE_BYTES: Final = 32
CHALLENGE_MS: Final = 10 * 60_000
DOOR_MS: Final = 86_400_000
"""So long a page at the door can be answered, as its cookie lasts: when a session ends in the night, one is
left that is answered in the morning."""
# EdDSA, ECDSA on P-256, RSA: what authenticators have.
ALGORITHMS: Final = (-8, -7, -257)
WRONG: Final = "This passkey does not open anything here."


class Ask(msgspec.Struct, frozen=True):
    """What goes into a page: options for the browser's own function, and what comes back with its answer."""

    options: dict[str, Any]
    sealed: str


def host_for_passkeys(base_url: str) -> str | None:
    """Whose the passkeys are; None where there can be none: an address is no name, and http is not safe."""
    url = urlsplit(base_url)
    host = url.hostname or ""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host if host and (url.scheme == "https" or host == "localhost") else None
    return None


def ask_for_one(visit: Visit, user: User | None = None) -> Ask | None:
    """Ask for any passkey, or for one of a user; None where there can be none."""
    host = host_for_passkeys(visit.house.base_url)
    if host is None:
        return None
    known = [] if user is None else visit.house.office.point(list_passkeys, user.id)
    challenge = visit.house.entropy(CHALLENGE_BYTES)
    options = {
        "challenge": to_base64(challenge),
        "rpId": host,
        "userVerification": "required",
        "timeout": CHALLENGE_MS,
        "allowCredentials": [{"type": "public-key", "id": to_base64(one.credential_id)} for one in known],
    }
    return Ask(options, _seal(visit, challenge))


def ask_for_new(visit: Visit) -> Ask | None:
    """Ask the device of who is signed in to make one; None where there can be none."""
    host = host_for_passkeys(visit.house.base_url)
    if host is None:
        return None
    challenge, user = visit.house.entropy(CHALLENGE_BYTES), visit.user
    known = visit.house.office.point(list_passkeys, user.id)
    options = {
        "challenge": to_base64(challenge),
        "rp": {"id": host, "name": "payd"},
        "user": {"id": to_base64(user.id.encode()), "name": user.email, "displayName": user.email},
        "pubKeyCredParams": [{"type": "public-key", "alg": one} for one in ALGORITHMS],
        "authenticatorSelection": {
            "residentKey": "required",
            "requireResidentKey": True,
            "userVerification": "required",
        },
        "timeout": CHALLENGE_MS,
        "attestation": "none",
        "excludeCredentials": [{"type": "public-key", "id": to_base64(one.credential_id)} for one in known],
    }
    return Ask(options, _seal(visit, challenge))


async def check_one(visit: Visit, answer: str, sealed: str, max_age_ms: int = CHALLENGE_MS) -> Passkey:
    """The passkey that answered, which is used up with its challenge.

    Args:
        visit: Who visits.
        answer: What the browser's function gave.
        sealed: The challenge, as its page had it.
        max_age_ms: How old that page may be.

    Raises:
        Forbidden: It is unknown, or its answer is wrong, too late, or was given before.
    """
    await _bring()
    from webauthn import verify_authentication_response
    from webauthn.helpers.exceptions import WebAuthnException

    challenge = _open(visit, sealed, max_age_ms)
    passkey = visit.house.office.point(find_passkey, _credential_id(answer))
    if passkey is None:
        raise Forbidden(WRONG)
    try:
        verified = verify_authentication_response(
            credential=answer,
            expected_challenge=challenge,
            expected_rp_id=host_for_passkeys(visit.house.base_url) or "",
            expected_origin=origin_of(visit.house.base_url),
            credential_public_key=passkey.public_key,
            credential_current_sign_count=passkey.sign_count,
            require_user_verification=True,
        )
    except (WebAuthnException, ValueError, RecursionError):
        raise Forbidden(WRONG) from None
    used = await visit.house.office.write(
        use_passkey,
        passkey.id,
        verified.new_sign_count,
        hashlib.sha256(challenge).digest(),
        visit.now_ms + 2 * max_age_ms,
        visit.now_ms,
    )
    if not used:
        raise Forbidden(WRONG)
    return passkey


async def check_new(visit: Visit, answer: str, sealed: str, name: str) -> Passkey:
    """The passkey that a device has just made, to be stored.

    Raises:
        InvalidParams: What the browser sent is not what it was asked for.
    """
    await _bring()
    from webauthn import verify_registration_response
    from webauthn.helpers.exceptions import WebAuthnException

    try:
        verified = verify_registration_response(
            credential=answer,
            expected_challenge=_open(visit, sealed),
            expected_rp_id=host_for_passkeys(visit.house.base_url) or "",
            expected_origin=origin_of(visit.house.base_url),
            require_user_verification=True,
        )
    except (WebAuthnException, ValueError, RecursionError, Forbidden):
        raise InvalidParams("The passkey could not be made. Try again.") from None
    return Passkey(
        new_id("pky_", visit.now_ms, visit.house.entropy),
        visit.user.id,
        verified.credential_id,
        verified.credential_public_key,
        verified.sign_count,
        name or "Passkey",
        visit.now_ms,
    )


async def _bring() -> None:
    """Import what checks passkeys, off the loop: it brings cryptography, 50 ms that payments would wait."""
    if "webauthn" not in sys.modules:
        await trio.to_thread.run_sync(import_module, "webauthn")


def _seal(visit: Visit, challenge: bytes) -> str:
    return visit.seal_for_form("passkey", challenge)


def _open(visit: Visit, sealed: str, max_age_ms: int = CHALLENGE_MS) -> bytes:
    found = visit.open_from_form("passkey", sealed, max_age_ms)
    if found is None:
        raise Forbidden("This took too long. Try again.")
    return found


class _Answer(msgspec.Struct):
    id: str


def _credential_id(answer: str) -> bytes:
    try:
        return from_base64(msgspec.json.decode(answer, type=_Answer).id)
    except (ValueError, RecursionError):
        raise Forbidden(WRONG) from None


def to_base64(data: bytes) -> str:
    """Bytes as browsers write them: base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def from_base64(text: str) -> bytes:
    """What `to_base64` was given. Raises ValueError for anything else."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
