"""What goes wrong with Solana and its nodes under a seed: forks, and nodes that fail, lag, forget and lie."""

from __future__ import annotations

from collections.abc import Callable, Collection
from random import Random
from typing import Final

from tests.simulation.moods import Mischief
from tests.simulation.slot_nodes import OTHER_GENESIS, SlotNode
from tests.simulation.slots import Slots

# From one change of what a node does to the next.
PAUSE_MAX_S: Final = 60.0
LAGS: Final = (1, 3, 10, 40, 160)
INDEX_LAGS: Final = (1, 5, 20)
# How many slots a node has that keeps no history.
KEPT_SLOTS: Final = (60, 300, 1500)
AHEAD_S: Final = (5, 120, 1200)
AHEAD_SLOTS: Final = (1, 40, 200, 100_000)

SLOT_TROUBLES: Final = frozenset(
    {
        "forks",
        "node fails at times",
        "node is down",
        "node lags",
        "node lists late",
        "node forgets",
        "node swallows what it is sent",
        "node lies: hides",
        "node lies: reverts",
        "node lies: of amounts",
        "node lies: is of another chain",
        "node lies: runs ahead",
        "node lies: has a clock of its own",
        "node lies: forges",
    }
)
"""All that happens, by name."""


class SlotTrouble(Mischief[SlotNode]):
    """All of it, for one chain.

    Args:
        chain: The truth.
        nodes: What tells of it.
        rng: When, and what.
        depths: Of forks: a transfer that lies deeper has been believed, and is lost to none.
        payments: What would pay the newest payments, signed: what a liar says was sent.
    """

    pause_max_s = PAUSE_MAX_S

    def __init__(
        self,
        chain: Slots,
        nodes: Collection[SlotNode],
        rng: Random,
        depths: tuple[int, ...],
        payments: Callable[[], list[bytes]],
    ) -> None:
        super().__init__(nodes, rng)
        self.chain = chain
        self._depths = depths
        self._payments = payments
        self.ways = (
            self._moody, self._down, self._lag, self._lag, self._list_late, self._forget, self._swallow
        )  # fmt: skip
        self.lies = (
            self._hide,
            self._revert,
            self._misstate,
            self._run_ahead,
            self._leave,
            self._set_clock,
            self._forge,
            self._forge,
        )

    def turn(self) -> None:
        """A fork."""
        self.chain.reorg(self._rng.choice(self._depths))
        self.happened["forks"] += 1

    def _lag(self, node: SlotNode) -> None:
        node.lag = self._rng.choice(LAGS)
        self.happened["node lags"] += 1

    def _list_late(self, node: SlotNode) -> None:
        node.index_lag = self._rng.choice(INDEX_LAGS)
        self.happened["node lists late"] += 1

    def _forget(self, node: SlotNode) -> None:
        node.first_slot = max(0, self.chain.tip.slot - self._rng.choice(KEPT_SLOTS))
        self.happened["node forgets"] += 1

    def _swallow(self, node: SlotNode) -> None:
        node.mode = "blackhole"
        self.happened["node swallows what it is sent"] += 1

    def _misstate(self, node: SlotNode) -> None:
        node.more = self._rng.choice((-1, 1, 1_000_000))
        self.happened["node lies: of amounts"] += 1

    def _leave(self, node: SlotNode) -> None:
        node.genesis = OTHER_GENESIS
        self.happened["node lies: is of another chain"] += 1

    def _set_clock(self, node: SlotNode) -> None:
        node.ahead_s = self._rng.choice(AHEAD_S)
        self.happened["node lies: has a clock of its own"] += 1

    def _run_ahead(self, node: SlotNode) -> None:
        node.ahead = self._rng.choice(AHEAD_SLOTS)
        self.happened["node lies: runs ahead"] += 1

    def _forge(self, node: SlotNode) -> None:
        """It shows payments that never were."""
        made = [landing for raw in self._payments() if (landing := self.chain.made_up(raw)) is not None]
        if made:
            node.forged = {one.tx_id: one for one in made}
            self.happened["node lies: forges"] += 1
