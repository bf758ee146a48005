"""Passwords as Argon2id hashes, made off the loop and a few at a time.

Source: DESIGN.md, "2. The stack"; DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import trio

from payd.core.errors import RateLimited
from payd.entropy import Entropy

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cost:
    """What a hash costs: memory in KiB, and how often it is gone through."""

    memory_kib: int
    passes: int


COST: Final = Cost(19_456, 2)
"""What OWASP asks for at least. More memory at once would be felt by payments.

A hash took 18 to 20 ms of one core (AMD EPYC, three runs, both cores busy with other work), measured by

    python -m timeit -p -n 10 -s "from payd.web.passwords import COST, _hash" "_hash('x', bytes(16), COST)"
"""
LEAST_COST: Final = Cost(8, 1)
"""For tests in virtual time, which run on the loop."""

AT_ONCE: Final = 2
WAITING_MAX: Final = 40
SALT_BYTES: Final = 16
HASH_BYTES: Final = 32
LENGTH_MAX: Final = 1024
"""Longer ones are nobody's: they are cut before they cost anything."""


class Passwords:
    """Makes and checks hashes.

    Args:
        entropy: For salts.
        inline: On the loop's thread and cheaply, for virtual time.
    """

    def __init__(self, entropy: Entropy, *, inline: bool = False) -> None:
        self._entropy = entropy
        self._inline = inline
        self._cost = LEAST_COST if inline else COST
        self._limiter: trio.CapacityLimiter | None = None
        self._waiting = 0
        self._nobodys = ""

    async def hash(self, password: str) -> str:
        """A password as it is stored, with its salt and its cost.

        Raises:
            RateLimited: Too many wait.
        """
        return await self._run(partial(_hash, password, self._entropy(SALT_BYTES), self._cost))

    async def verify(self, password_hash: str | None, password: str) -> bool:
        """Whether it is this password; None is nobody's, which takes as long and is always wrong.

        Raises:
            RateLimited: Too many wait.
        """
        if password_hash is None and not self._nobodys:
            self._nobodys = await self.hash(self._entropy(SALT_BYTES).hex())
        right = await self._run(partial(_verify, password_hash or self._nobodys, password))
        return right and password_hash is not None

    async def _run(self, work: Callable[[], T]) -> T:
        if self._inline:
            await trio.lowlevel.checkpoint()
            return work()
        if self._waiting >= WAITING_MAX:
            raise RateLimited(
                "Too many people sign in at once. Try again in a moment.", details={"retryAfterS": 2}
            )
        if self._limiter is None:
            self._limiter = trio.CapacityLimiter(AT_ONCE)
        self._waiting += 1
        try:
            return await trio.to_thread.run_sync(work, limiter=self._limiter)
        finally:
            self._waiting -= 1


def _hash(password: str, salt: bytes, cost: Cost) -> str:
    from argon2.low_level import Type, hash_secret

    secret = _secret(password)
    made = hash_secret(secret, salt, cost.passes, cost.memory_kib, 1, HASH_BYTES, Type.ID)
    return made.decode("ascii")


def _verify(password_hash: str, password: str) -> bool:
    from argon2.exceptions import InvalidHashError, VerificationError
    from argon2.low_level import Type, verify_secret

    try:
        return verify_secret(password_hash.encode("ascii"), _secret(password), Type.ID)
    except (VerificationError, InvalidHashError):
        return False


def _secret(password: str) -> bytes:
    return password[:LENGTH_MAX].encode("utf-8", "surrogatepass")
