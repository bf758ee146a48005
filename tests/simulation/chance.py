"""All that is left to chance, from one seed: randomness of the house, of its world, and of the scheduler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import TypeVar

import trio
from trio.abc import Instrument
from trio.testing import MockClock

T = TypeVar("T")


class Chance:
    """Draws by name, so that one part of the world that draws more often leaves the others as they were."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def of(self, what: str) -> Random:
        """The draws of one part."""
        return Random(f"{self.seed} {what}")


def run(main: Callable[[], Awaitable[T]], seed: int, *instruments: Instrument) -> T:
    """Run in virtual time, each batch of tasks in the order that the seed says."""
    with _scheduled(seed):
        return trio.run(main, clock=MockClock(autojump_threshold=0), instruments=instruments)


@contextmanager
def _scheduled(seed: int) -> Iterator[None]:
    """Trio has this for Hypothesis: a batch is sorted by age and shuffled by its generator."""
    core = trio._core._run
    was, state = core._ALLOW_DETERMINISTIC_SCHEDULING, core._r.getstate()
    core._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    core._r.seed(seed)
    try:
        yield
    finally:
        core._ALLOW_DETERMINISTIC_SCHEDULING = was  # type: ignore[misc]
        core._r.setstate(state)
