"""What goes wrong with Solana and its nodes under a seed: forks, and nodes that fail, lag, forget and lie."""

from __future__ import annotations

from collections.abc import Callable, Collection
from random import Random
from typing import Final

import trio

from tests.simulation.moods import Mischief
from tests.simulation.slot_nodes import OTHER_GENESIS, SlotNode
from tests.simulation.slots import CONFIRMED, Slots

# From one change of what a node does to the next.
PAUSE_MAX_S: Final = 60.0
LAGS: Final = (1, 3, 10, 40, 160)
INDEX_LAGS: Final = (1, 5, 20)
# By half a minute at most after it was final, as indices are.
LATE_SLOTS: Final = (20, 45, 62)
# How often all do so at once.
ALL_LATE: Final = 0.15
# How often a lie goes on, past the end of what is open, and for how long it or an index that is behind does.
GOES_ON: Final = 0.5
GOES_ON_S: Final = (60.0, 300.0)
# How often nodes stay behind as the chain turns, and for how many slots.
STAYS: Final = 0.35
STAY_SLOTS: Final = (4, 15, 50, 150)
# How many slots a node has that keeps no history.
KEPT_SLOTS: Final = (60, 300, 1500)
# How often, and since when, all have forgotten what was before a house starts. Of two minutes all have all.
ALL_FORGET: Final = 0.7
LEAST_SLOTS: Final = (340, 340, 600)
AHEAD_S: Final = (5, 120, 1200)
AHEAD_SLOTS: Final = (1, 40, 200, 100_000)

SLOT_TROUBLES: Final = frozenset(
    {
        "forks",
        "a node stays on a fork",
        "two nodes stay on a fork",
        "node fails at times",
        "node is down",
        "node lags",
        "node lists late",
        "node lists in no order",
        "node forgets",
        "all nodes have forgotten",
        "all nodes list in no order",
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
        self._left_alone: dict[SlotNode, float] = {}
        self.ways = (
            self._moody, self._down, self._lag, self._lag, self._list_late, self._forget, self._swallow,
            self._list_in_no_order, self._list_in_no_order,
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

    def believe(self, depths: tuple[int, ...]) -> None:
        """Forks are no deeper from now on; nodes that confirm one that is leave it."""
        if max(depths) < max(self._depths):
            self._depths = depths
            self._left_alone.clear()
            for node in self.nodes:
                node.be_good()

    def serve(self, nodes: Collection[SlotNode]) -> None:
        """As for any chain."""
        if set(nodes) != set(self.nodes):
            self._left_alone.clear()
        super().serve(nodes)

    def turn(self) -> None:
        """A fork, on which some stay for a while; or all indices are behind."""
        if self._rng.random() < ALL_LATE:
            self._all_list_late()
            return
        if self._rng.random() < STAYS and all(node.fork is None for node in self.nodes):
            self._stay()
        self.chain.reorg(self._rng.choice(self._depths))
        self.happened["forks"] += 1

    def is_left_alone(self, node: SlotNode) -> bool:
        """As for any chain."""
        return trio.current_time() < self._left_alone.get(node, 0.0)

    def _free(self) -> list[SlotNode]:
        return [node for node in self.nodes if not self.is_left_alone(node)]

    def _go_on(self, node: SlotNode) -> None:
        self._left_alone[node] = trio.current_time() + self._rng.uniform(*GOES_ON_S)

    def _all_list_late(self) -> None:
        for node in self._free():
            node.be_good()
            node.lists_late = LATE_SLOTS[-1]
            self._go_on(node)
        self.happened["all nodes list in no order"] += 1

    def _stay(self) -> None:
        """Two that agree on what is confirmed are believed, where no more than that is asked for."""
        free = self._free()
        staying = self._rng.sample(free, min(len(free), self._rng.choice((1, 1, 2))))
        if not staying:
            return
        is_alone = len(staying) == 1 < len(self.nodes)
        confirms = is_alone or max(self._depths) > CONFIRMED
        branch = self.chain.branch(self._rng.choice(STAY_SLOTS), confirms=confirms)
        for node in staying:
            node.be_good()
            node.follows = branch
        self.happened["a node stays on a fork" if len(staying) == 1 else "two nodes stay on a fork"] += 1

    def begin(self) -> None:
        """A house starts; what it missed may be nowhere any more."""
        if self._rng.random() < ALL_FORGET:
            self._left_alone.clear()
            for node in self.nodes:
                node.be_good()
                node.first_slot = max(0, self.chain.tip.slot - self._rng.choice(LEAST_SLOTS))
            self.happened["all nodes have forgotten"] += 1

    def _lag(self, node: SlotNode) -> None:
        node.lag = self._rng.choice(LAGS)
        self.happened["node lags"] += 1

    def _list_late(self, node: SlotNode) -> None:
        node.index_lag = self._rng.choice(INDEX_LAGS)
        self.happened["node lists late"] += 1

    def _list_in_no_order(self, node: SlotNode) -> None:
        node.lists_late = self._rng.choice(LATE_SLOTS)
        self.happened["node lists in no order"] += 1

    def _forget(self, node: SlotNode) -> None:
        node.first_slot = max(0, self.chain.tip.slot - self._rng.choice(KEPT_SLOTS))
        self.happened["node forgets"] += 1

    def _swallow(self, node: SlotNode) -> None:
        node.mode = "blackhole"
        self.happened["node swallows what it is sent"] += 1

    def _hide(self, node: SlotNode) -> None:
        super()._hide(node)
        if self._rng.random() < GOES_ON:
            self._go_on(node)

    def _revert(self, node: SlotNode) -> None:
        super()._revert(node)
        if self._rng.random() < GOES_ON:
            self._go_on(node)

    def _misstate(self, node: SlotNode) -> None:
        node.more = self._rng.choice((-1, 1, 1_000_000))
        self.happened["node lies: of amounts"] += 1
        if self._rng.random() < GOES_ON:
            self._go_on(node)

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
