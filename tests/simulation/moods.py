"""What nodes of any chain do under a seed that fail at times, and who has them fail, lag and lie."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from random import Random
from typing import Final, Generic, Protocol, TypeVar

import trio

from tests.receiver import Does, Received

# What a node does at times instead of answering, and how often.
MOODS: Final = (
    (0.010, Does(status=503)),
    (0.006, Does(status=429, headers=(("retry-after", "2"),))),
    (0.006, Does(body=b"<html>bad gateway</html>")),
    (0.006, Does(body=b'{"jsonrpc":"2.0","id":1,"result":nul')),
    (0.008, Does(resets=True)),
    (0.004, Does(hangs=True)),
)
DELAY_S: Final = 0.2


class Moody(Protocol):
    """A node that may fail, hide and lie.

    Attributes:
        moody: Whether it fails at times.
        is_down: It answers nothing.
        hides: Whether it leaves something out.
        denies: Whether it knows nothing of that either.
        reverts: Whether it says of every transaction that it failed.
    """

    moody: bool
    is_down: bool
    hides: bool
    denies: bool
    reverts: bool

    def __call__(self, received: Received) -> Does:
        """The script of a `Receiver`."""

    def be_good(self) -> None:
        """From now on it says what is true, at once."""


N = TypeVar("N", bound=Moody)


def in_its_mood(node: Moody, rng: Random, answer: Callable[[], Does]) -> Does:
    """What a node does with a request, which is not always to answer."""
    if node.is_down:
        return Does(resets=True)
    delay_s = rng.random() * DELAY_S
    if node.moody:
        mood = rng.random()
        for chance, does in MOODS:
            mood -= chance
            if mood < 0:
                return replace(does, delay_s=delay_s)
    return replace(answer(), delay_s=delay_s)


class Mischief(Generic[N]):
    """What goes wrong with a chain and its nodes.

    Of several nodes one may lie at a time, and always the same one: two that agree are believed. One that is
    asked alone never does.

    Args:
        nodes: What tells of the chain.
        rng: When, and what.

    Attributes:
        nodes: Those that are asked.
        happened: How often, by name.
        pause_max_s: From one change of what a node does to the next.
        ways: What nodes do that fail.
        lies: What a node does that lies.
    """

    pause_max_s: float
    ways: tuple[Callable[[N], None], ...]
    lies: tuple[Callable[[N], None], ...]

    def __init__(self, nodes: Collection[N], rng: Random) -> None:
        self._liar = next(iter(nodes))
        self.nodes = list(nodes)
        self.happened: Counter[str] = Counter()
        self._rng = rng

    async def make(self) -> None:
        """For ever."""
        while True:
            await trio.sleep(self._rng.random() * self.pause_max_s)
            if self._rng.random() < 0.4:
                self.turn()
                continue
            node = self._rng.choice(self.nodes)
            if self.is_left_alone(node):
                continue
            node.be_good()
            if self._rng.random() < 0.25:
                continue
            may_lie = len(self.nodes) > 1 and node is self._liar
            ways = self.lies if may_lie and self._rng.random() < 0.6 else self.ways
            self._rng.choice(ways)(node)

    def serve(self, nodes: Collection[N]) -> None:
        """From now on these are asked; all that are new among each other are well."""
        if set(nodes) != set(self.nodes):
            for node in {*nodes, *self.nodes}:
                node.be_good()
        self.nodes = list(nodes)

    def turn(self) -> None:
        """Other blocks in place of the newest."""
        raise NotImplementedError

    def begin(self) -> None:
        """A house starts; what it missed may be nowhere any more."""
        raise NotImplementedError

    def is_left_alone(self, node: N) -> bool:
        """Whether a node goes on with what it does."""
        return False

    def _moody(self, node: N) -> None:
        node.moody = True
        self.happened["node fails at times"] += 1

    def _down(self, node: N) -> None:
        node.is_down = True
        self.happened["node is down"] += 1

    def _hide(self, node: N) -> None:
        node.hides = True
        node.denies = self._rng.random() < 0.5
        self.happened["node lies: hides"] += 1

    def _revert(self, node: N) -> None:
        node.reverts = True
        self.happened["node lies: reverts"] += 1
