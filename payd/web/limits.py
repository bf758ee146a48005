"""How much one caller may ask for: token buckets for rates, slots for what is held open.

Rates run on real, monotonic time; a realm's clock has no part in them.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import math
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from payd.clock import monotonic_s
from payd.core.errors import RateLimited

# A bucket holds this many seconds of its rate, unless it is given a size of its own.
BURST_S: Final = 2
# Callers remembered at once; the one who has been silent longest makes room. About 200 bytes each.
KEYS_MAX: Final = 50_000
MINUTE_S: Final = 60

# Files besides the clients' connections: databases and logs, and of each realm some hundred deliveries under
# way and as many connections to endpoints that are kept.
FILES_BESIDES: Final = 1024
# One in so many connections is none of a feed: who follows leaves room for who asks.
ASKERS_SHARE: Final = 5

# Long polls held at once, for one payment and in all; beyond that they are answered at once.
POLLS_PER_PAYMENT_MAX: Final = 4
POLLS_MAX: Final = 1_000

# Transactions that an account has read by hand: each costs the operator's nodes several calls. So many a
# second for long, and so many at once, as after an outage.
MATCHES_PER_S: Final = 1
MATCHES_AT_ONCE: Final = 60

# Options, transactions and funds that one address is told without a key: each costs the operator's nodes
# several calls. A shop's own network, where many buyers share an address, gets along with it.
SIGN_REQUESTS_PER_S: Final = 5
SIGN_REQUESTS_AT_ONCE: Final = 50


class RateLimit:
    """A token bucket for each key: `per_s` tokens a second, `burst` (twice that) at once; 0 is off."""

    def __init__(
        self,
        per_s: float,
        *,
        burst: float | None = None,
        now_s: Callable[[], float] = monotonic_s,
        keys_max: int = KEYS_MAX,
    ) -> None:
        self._per_s = per_s
        self._burst = per_s * BURST_S if burst is None else burst
        self._now_s = now_s
        self._keys_max = keys_max
        # By key, longest silent first: tokens left, and when they were counted. Who is not here is full.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: str) -> float:
        """Take a token of `key`: 0 if there was one, else the seconds to wait, and nothing is taken."""
        if not self._per_s:
            return 0.0
        now_s = self._now_s()
        left, counted_s = self._buckets.get(key, (self._burst, now_s))
        tokens = min(self._burst, left + (now_s - counted_s) * self._per_s)
        if tokens < 1:
            return (1 - tokens) / self._per_s
        self._buckets[key] = (tokens - 1, now_s)
        self._buckets.move_to_end(key)
        if len(self._buckets) > self._keys_max:
            self._buckets.popitem(last=False)
        return 0.0


class Slots:
    """Things held open at once: so many for one key (0: no limit), so many in all.

    The key "" has no limit of its own: it stands for callers who cannot be told apart, such as a proxy's.
    """

    def __init__(self, total_max: int, per_key_max: int) -> None:
        self.total_max = total_max
        self.per_key_max = per_key_max
        self.held = 0
        self._held_of: dict[str, int] = {}

    def try_take(self, key: str) -> bool:
        """Take one for `key`, unless it or the whole has its fill."""
        if self.is_full or self.has_its_fill(key):
            return False
        self.held += 1
        self._held_of[key] = self._held_of.get(key, 0) + 1
        return True

    @property
    def is_full(self) -> bool:
        """Whether the whole has its fill."""
        return self.held >= self.total_max

    def has_its_fill(self, key: str) -> bool:
        """Whether `key` has its own."""
        return bool(key) and 0 < self.per_key_max <= self._held_of.get(key, 0)

    def release(self, key: str) -> None:
        """Give back what `try_take` took."""
        left = self._held_of[key] - 1
        self.held -= 1
        if left:
            self._held_of[key] = left
        else:
            del self._held_of[key]

    def __len__(self) -> int:
        return len(self._held_of)


def connections_for(files_max: int) -> int:
    """How many connections a process may have that may have so many open files; -1 is any number.

    Where files are few, half of them: a server out of files cannot even read its databases.
    """
    return sys.maxsize if files_max < 0 else max(files_max // 2, files_max - FILES_BESIDES)


def refuse_for(wait_s: float) -> None:
    """Refuse whoever has to wait that long; nobody, for 0.

    Raises:
        RateLimited: With the whole seconds in its details.
    """
    if wait_s:
        seconds = max(1, math.ceil(wait_s))
        raise RateLimited(f"Too many requests. Try again in {seconds} s.", details={"retryAfterS": seconds})


def failed_auth_limit(per_minute: int, now_s: Callable[[], float] = monotonic_s) -> RateLimit:
    """Failed authentications, by address; see `web.dispatch.known_caller`."""
    return RateLimit(per_minute / MINUTE_S, burst=per_minute, now_s=now_s)


def poll_slots() -> Slots:
    """Slots for held long polls, by payment id."""
    return Slots(POLLS_MAX, POLLS_PER_PAYMENT_MAX)


def match_limit(now_s: Callable[[], float] = monotonic_s) -> RateLimit:
    """Transactions that are read because somebody says so, by account."""
    return RateLimit(MATCHES_PER_S, burst=MATCHES_AT_ONCE, now_s=now_s)


def sign_request_limit(now_s: Callable[[], float] = monotonic_s) -> RateLimit:
    """Options and transactions handed out, and funds looked up, for who shows no key, by address."""
    return RateLimit(SIGN_REQUESTS_PER_S, burst=SIGN_REQUESTS_AT_ONCE, now_s=now_s)
