"""Randomness: the one source of it, so that a seeded run can put its own in its place."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from typing import Final

from payd.core.ids import ENTROPY_BYTES, make_id

Entropy = Callable[[int], bytes]

# Ids ask for little and often: one call to the kernel fills many.
IDS_AT_ONCE: Final = 256
_PLACES: Final = range(0, ENTROPY_BYTES * IDS_AT_ONCE, ENTROPY_BYTES)


class SystemEntropy:
    """The kernel's randomness, fetched ahead for ids. Safe from any thread: what was given out is gone."""

    def __init__(self) -> None:
        self._ready: deque[bytes] = deque()

    def __call__(self, count: int) -> bytes:
        """`count` random bytes."""
        if count != ENTROPY_BYTES:
            return secrets.token_bytes(count)
        try:
            return self._ready.popleft()
        except IndexError:
            fresh = secrets.token_bytes(ENTROPY_BYTES * IDS_AT_ONCE)
            first, *others = [fresh[at : at + ENTROPY_BYTES] for at in _PLACES]
            self._ready.extend(others)
            return first


system_entropy: Final[Entropy] = SystemEntropy()


def new_id(prefix: str, at_ms: int, entropy: Entropy = system_entropy) -> str:
    """A fresh id such as `pay_t…`: time-ordered, unguessable."""
    return make_id(prefix, at_ms, entropy(ENTROPY_BYTES))
