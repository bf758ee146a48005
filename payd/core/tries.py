"""How long somebody who failed has to wait: longer each time, never for good.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from typing import Final, NamedTuple

WAIT_FIRST_MS: Final = 1000
WAIT_MAX_MS: Final = 15 * 60_000
FORGOTTEN_MS: Final = 24 * 3_600_000
"""Who has not failed for so long begins anew."""


class Patience(NamedTuple):
    """One kind of who: how often it may fail before it waits."""

    kind: str
    free: int


ACCOUNT: Final = Patience("email", 5)
ADDRESS: Final = Patience("ip", 20)
"""Many people may share one address."""
CODE: Final = Patience("code", 5)
"""A million codes; at this pace one is found in tens of years."""
KNOWN_BROWSER: Final = Patience("browser", 5)
"""One that the person signed in with before: strangers who fail elsewhere do not hold it up."""


def wait_ms(patience: Patience, failures: int, last_at_ms: int, now_ms: int) -> int:
    """Milliseconds until the next try is looked at; 0 for now.

    A failure of the future was stored while the clock was wrong: who waited for it would wait for months.
    """
    if failures < patience.free or not 0 <= now_ms - last_at_ms < FORGOTTEN_MS:
        return 0
    pause_ms = min(WAIT_FIRST_MS << min(failures - patience.free, 20), WAIT_MAX_MS)
    return max(0, last_at_ms + pause_ms - now_ms)
