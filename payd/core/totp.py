"""Codes of authenticator apps, and the recovery codes beside them.

Source: RFC 6238, "4.2 Description"; DESIGN.md, "11. Pages".
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from typing import Final

import pyotp

STEP_MS: Final = 30_000
SECRET_BYTES: Final = 20
"""As long as the hash that apps use."""

# A phone's clock may be a step off, and typing takes a while.
STEPS_AROUND: Final = 1

RECOVERY_CODES: Final = 10
RECOVERY_BYTES: Final = 10
"""80 bits: nobody finds one from its hash."""

_SPACES: Final = re.compile(r"[\s\-]")
_CODE: Final = re.compile("[0-9]{6}")


def make_secret(entropy: bytes) -> str:
    """A secret as apps take it: base 32.

    Raises:
        ValueError: `entropy` is not `SECRET_BYTES` long.
    """
    if len(entropy) != SECRET_BYTES:
        raise ValueError(f"a secret is made of {SECRET_BYTES} random bytes")
    return base64.b32encode(entropy).decode("ascii")


def link_for_app(secret: str, email: str, issuer: str) -> str:
    """What the QR code says."""
    return pyotp.TOTP(secret).provisioning_uri(name=email, issuer_name=issuer)


def clean_code(text: str) -> str:
    """A code without the spaces and dashes that come along when it is pasted."""
    return _SPACES.sub("", text).lower()


def code_at(secret: str, step: int) -> str:
    """The code of a step; steps are counted from 1970, `STEP_MS` each."""
    return pyotp.TOTP(secret).generate_otp(step)


def matching_step(secret: str, code: str, now_ms: int, after_step: int) -> int | None:
    """The step that a code is of; None if it is wrong, or of `after_step` or before: none is taken twice."""
    code = clean_code(code)
    if _CODE.fullmatch(code) is None:
        return None
    now = now_ms // STEP_MS
    for step in range(now - STEPS_AROUND, now + STEPS_AROUND + 1):
        if hmac.compare_digest(code_at(secret, step), code) and step > after_step:
            return step
    return None


def make_recovery_codes(entropy: bytes) -> tuple[str, ...]:
    """Ten codes as they are shown: `abcd-efgh-ijkl-mnop`.

    Raises:
        ValueError: `entropy` is not ten times `RECOVERY_BYTES` long.
    """
    if len(entropy) != RECOVERY_CODES * RECOVERY_BYTES:
        raise ValueError(f"{RECOVERY_CODES} codes are made of {RECOVERY_BYTES} random bytes each")
    texts = [
        base64.b32encode(entropy[at : at + RECOVERY_BYTES]).decode("ascii").lower()
        for at in range(0, len(entropy), RECOVERY_BYTES)
    ]
    return tuple("-".join(text[at : at + 4] for at in range(0, 16, 4)) for text in texts)


def recovery_hash(user_id: str, code: str) -> bytes:
    """What is stored instead of a recovery code."""
    return hashlib.sha256(f"{user_id} {clean_code(code)}".encode()).digest()
