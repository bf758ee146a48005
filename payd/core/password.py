"""Which passwords are refused: short ones, and those that everybody tries first.

Source: DESIGN.md, "11. Pages"; NIST SP 800-63B, "5.1.1.2 Memorized Secret Verifiers".
"""

from __future__ import annotations

import re
from typing import Final

from payd.core.errors import InvalidParams

LENGTH_MIN: Final = 10
# Longer ones only make the hash take longer.
LENGTH_MAX: Final = 200

# What the longer ones of every list of stolen passwords are made of, without what people put around it.
_COMMON: Final = frozenset({
    "password", "passwort", "motdepasse", "contraseña", "senha", "parola", "wachtwoord", "passw0rd",
    "p@ssw0rd", "p@ssword", "letmein", "welcome", "willkommen", "bienvenue", "iloveyou", "ichliebedich",
    "princess", "football", "baseball", "basketball", "superman", "batman", "sunshine", "monkey",
    "dragon", "master", "shadow", "michael", "jennifer", "charlie", "computer", "internet", "whatever",
    "trustno", "administrator", "admin", "changeme", "secret", "default", "starwars", "pokemon",
    "liverpool", "chelsea", "arsenal", "barcelona", "qwerty", "qwertz", "azerty", "qwertyuiop",
    "qwertzuiop", "azertyuiop", "asdfghjkl", "zxcvbnm", "yxcvbnm", "qazwsx", "qazwsxedc", "bitcoin",
    "ethereum", "crypto", "cryptocurrency", "solana", "merchant", "payment", "payments", "payd",
    "dashboard", "correcthorsebatterystaple",
})  # fmt: skip
_ROWS: Final = (
    "0123456789012345678901234567890",
    "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz",
    "qwertyuiopasdfghjklzxcvbnm",
    "qwertzuiopasdfghjklyxcvbnm",
    "1q2w3e4r5t6y7u8i9o0p",
    "1qaz2wsx3edc4rfv5tgb6yhn7ujm",
    "qazwsxedcrfvtgbyhnujm",
)
_AROUND: Final = re.compile(r"^[\W\d_]+|[\W\d_]+$")
_REPEATED: Final = re.compile(r"(.{1,5}?)\1+.{0,4}")


def check_password(password: str, email: str) -> None:
    """Refuse a password that is guessed within the first tries.

    Raises:
        InvalidParams: It is too short, too long, or everybody's; the message says what to do.
    """
    if len(password) < LENGTH_MIN:
        raise InvalidParams(
            f"Use at least {LENGTH_MIN} characters. A few words in a row are easy to remember."
        )
    if len(password) > LENGTH_MAX:
        raise InvalidParams(f"Use at most {LENGTH_MAX} characters.")
    if is_common(password) or is_about(password, email):
        raise InvalidParams("This password is one of the first that are tried. Choose another one.")


def is_common(password: str) -> bool:
    """Whether it is a usual one, with figures around it or without, a row of keys, or a repetition."""
    plain = password.lower()
    bare = _AROUND.sub("", plain)
    if bare in _COMMON or plain in _COMMON or _REPEATED.fullmatch(plain) is not None:
        return True
    return any(plain in row or plain[::-1] in row for row in _ROWS)


def is_about(password: str, email: str) -> bool:
    """Whether it is little more than a part of the e-mail."""
    plain = password.lower()
    parts = [part for part in re.split(r"[@.+_-]", email.lower()) if len(part) > 3]
    return plain == email.lower() or _AROUND.sub("", plain) in parts
