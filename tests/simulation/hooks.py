"""The merchant's webhook receivers, one at each address: mostly well, or hardly ever."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

import trio

from tests.crash.aftermath import moody
from tests.crash.endpoint_diary import Arrival
from tests.receiver import Does, Received, Receiver, Script
from tests.simulation.chance import Chance

# Addresses: nothing is looked up.
WELL: Final = "93.184.216.34"
ALSO_WELL: Final = "93.184.216.35"
ILL: Final = "93.184.216.36"
HOOK: Final = f"http://{WELL}/hook"
HOOKS: Final = (HOOK, f"http://{WELL}/other", f"http://{ALSO_WELL}/hook", f"http://{ILL}/hook")


class Hooks:
    """Receivers that note what comes.

    Args:
        nursery: Where they serve.
        chance: Draws of their moods.
        realm_ms: Tells the realm's time.

    Attributes:
        received: What came, to any of them.
        arrivals: The same, with where it came and what was done.
    """

    def __init__(self, nursery: trio.Nursery, chance: Chance, realm_ms: Callable[[], int]) -> None:
        self.received: list[Received] = []
        self.arrivals: list[Arrival] = []
        self._realm_ms = realm_ms
        self._moods: dict[str, Script] = {
            WELL: moody(chance.of("receiver")),
            ALSO_WELL: moody(chance.of("other receiver")),
            ILL: ill(chance.of("ill receiver")),
        }
        self._is_good = False
        self.at = {
            address: Receiver(nursery, partial(self._take, address), received=self.received)
            for address in self._moods
        }

    def be_good(self) -> None:
        """From now on all answer at once."""
        self._is_good = True

    def _take(self, address: str, received: Received) -> Does:
        does = Does() if self._is_good else self._moods[address](received)
        self.arrivals.append(Arrival(received, address, self._realm_ms(), does))
        return does


def ill(rng: Random) -> Script:
    """A receiver that mostly fails."""

    def script(_: Received) -> Does:
        mood = rng.random()
        if mood < 0.6:
            return Does(status=503)
        if mood < 0.7:
            return Does(resets=True)
        if mood < 0.75:
            return Does(hangs=True)
        return Does()

    return script
