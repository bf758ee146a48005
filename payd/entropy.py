"""Randomness: the one source of it, so that a seeded run can put its own in its place."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from payd.core.ids import ENTROPY_BYTES, make_id

Entropy = Callable[[int], bytes]

system_entropy: Entropy = secrets.token_bytes


def new_id(prefix: str, at_ms: int, entropy: Entropy = system_entropy) -> str:
    """A fresh id such as `pay_t…`: time-ordered, unguessable."""
    return make_id(prefix, at_ms, entropy(ENTROPY_BYTES))
