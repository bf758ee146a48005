"""Ids and API keys: how they are made, recognised, and which realm they belong to.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"; DESIGN.md, "3. Two realms".
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Final, Literal

Realm = Literal["test", "live"]

# Five bits of each make 130: a payment id is a capability, so nobody may find one by trying.
ENTROPY_BYTES: Final = 26
KEY_ENTROPY_BYTES: Final = 32
AT_MS_MAX: Final = (1 << 48) - 1

TEST_KEY_PREFIX: Final = "svc_test_"
LIVE_KEY_PREFIX: Final = "svc_"

# Crockford's base 32: digits before letters, so that text sorts as numbers do; no i, l, o, u.
_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
# A character for the low five bits of a byte.
_CHARACTERS: Final = (_ALPHABET * 8).encode()
# Two characters for each ten bits: half as many steps as one character at a time.
_PAIRS: Final = tuple(high + low for high in _ALPHABET for low in _ALPHABET)
_TIME_SHIFTS: Final = tuple(range(40, -1, -10))
_KEY_SHIFTS: Final = tuple(range(250, -1, -10))

# 48 bits fill 10 characters with two bits to spare, so an id starts with 0 to 7.
_ID_TAIL: Final = re.compile(f"[0-7][{_ALPHABET}]{{35}}")
# 256 bits fill 52 characters with four bits to spare.
_KEY: Final = re.compile(f"svc_(test_)?[01][{_ALPHABET}]{{51}}")


def make_id(prefix: str, at_ms: int, entropy: bytes) -> str:
    """`prefix` and 36 characters of `[0-9a-z]`: ids of one prefix sort by time, to the millisecond.

    Args:
        prefix: Such as `mrch_`; for payments and apps with the realm's letter, such as `pay_t`.
        at_ms: Unix milliseconds, at most 48 bits.
        entropy: `ENTROPY_BYTES` random bytes.

    Raises:
        ValueError: The time or the entropy has another size.
    """
    if not 0 <= at_ms <= AT_MS_MAX or len(entropy) != ENTROPY_BYTES:
        raise ValueError(f"an id is made of a 48-bit time and {ENTROPY_BYTES} random bytes")
    return prefix + _time_text(at_ms) + entropy.translate(_CHARACTERS).decode("ascii")


# A request makes several ids in its millisecond.
@lru_cache(maxsize=16)
def _time_text(at_ms: int) -> str:
    return "".join([_PAIRS[at_ms >> shift & 1023] for shift in _TIME_SHIFTS])


def is_id(text: str, prefix: str) -> bool:
    """Whether `make_id` could have made `text` with this prefix."""
    return text.startswith(prefix) and _ID_TAIL.fullmatch(text, len(prefix)) is not None


def realm_of(text: str) -> Realm | None:
    """The realm that a payment id or an app id names, by its first letter alone; None for anything else."""
    match text[:5]:
        case "pay_t" | "app_t":
            return "test"
        case "pay_l" | "app_l":
            return "live"
        case _:
            return None


def make_api_key(realm: Realm, entropy: bytes) -> str:
    """`svc_test_` or `svc_`, and 52 characters of `[0-9a-z]`.

    Raises:
        ValueError: `entropy` is not `KEY_ENTROPY_BYTES` long.

    Source: SPEC.md, "Authentication".
    """
    if len(entropy) != KEY_ENTROPY_BYTES:
        raise ValueError("an API key is made of 32 random bytes")
    number = int.from_bytes(entropy, "big")
    prefix = TEST_KEY_PREFIX if realm == "test" else LIVE_KEY_PREFIX
    return prefix + "".join([_PAIRS[number >> shift & 1023] for shift in _KEY_SHIFTS])


def api_key_realm(key: str) -> Realm | None:
    """The realm whose keys look like this one, or None if no key does."""
    shape = _KEY.fullmatch(key)
    if shape is None:
        return None
    return "test" if shape[1] else "live"


def hash_api_key(key: str) -> bytes:
    """SHA-256 of the whole key, 32 bytes: what is stored instead of it.

    A key has 256 random bits, so a slow hash would add nothing.
    """
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
