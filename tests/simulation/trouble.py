"""What goes wrong with an EVM chain and its nodes under a seed: reorgs, nodes that lag, stray and lie."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from random import Random
from typing import Final

from payd.chains.defaults import Depth
from payd.chains.evm.binding import payment_tag
from tests.chains.fake_chain import FakeBlock, token_transfer
from tests.simulation.chain import BLOCK_S, FINAL, SAFE, Chain, Sent, digest
from tests.simulation.moods import Mischief
from tests.simulation.nodes import Node
from tests.simulation.wallets import BUYERS

# From one change of what a node does to the next.
PAUSE_MAX_S: Final = 120.0
LAGS: Final = (1, 2, 5, 12, 40)
# How many blocks a node has the logs of that prunes them.
KEPT_BLOCKS: Final = (70, 150, 400)
# How often all have, when a house starts.
ALL_FORGET: Final = 0.4
# So far ahead is a clock that is wrong, and so much later the first block that was made up.
AHEAD_S: Final = (30, 300, 1200, 7200)
MADE_UP_MAX: Final = 30

TROUBLES: Final = frozenset(
    {
        "reorgs",
        "node fails at times",
        "node is down",
        "node lags",
        "node stays behind on a fork",
        "node forgets",
        "all nodes have forgotten",
        "node lies: hides",
        "node lies: reverts",
        "node lies: is of another chain",
        "node lies: runs ahead",
        "node lies: forges",
        "node lies: has a clock of its own",
    }
)
"""All that happens, by name."""


class Trouble(Mischief[Node]):
    """All of it, for one chain.

    Args:
        chain: The truth.
        nodes: What tells of it.
        rng: When, and what.
        true_s: The time by the chain's clock.
        depth: So deep a transfer lies that has been believed; a reorg loses none that deep.
        prices: Of payments by id, the token, the wallet and what they ask for: what a liar says was paid.
    """

    pause_max_s = PAUSE_MAX_S

    def __init__(
        self,
        chain: Chain,
        nodes: Collection[Node],
        rng: Random,
        true_s: Callable[[], int],
        depth: int,
        prices: Callable[[], dict[str, tuple[str, str, int]]],
    ) -> None:
        super().__init__(nodes, rng)
        self.chain = chain
        self._true_s = true_s
        self._depth = depth
        self._prices = prices
        self._made_up = 0
        self.ways = (
            self._moody, self._moody, self._down, self._lag, self._lag, self._stray, self._forget
        )  # fmt: skip
        self.lies = (
            self._hide,
            self._revert,
            self._run_ahead,
            self._forge,
            self._leave,
            self._set_clock,
        )

    def believe(self, depth: int) -> None:
        """A transfer that lies so deep is believed now; so is what was before."""
        self._depth = min(self._depth, depth)

    def turn(self) -> None:
        """A reorg."""
        depth = self._rng.choice((1, 1, 1, 2, 2, 3, 5, FINAL - 1))
        self.chain.reorg(depth, drops=self._depth, now_s=self._true_s())
        self.happened["reorgs"] += 1

    def begin(self) -> None:
        """A house starts; what it missed may be nowhere any more."""
        if self._rng.random() < ALL_FORGET:
            for node in self.nodes:
                node.be_good()
                self._forget(node)
            self.happened["all nodes have forgotten"] += 1

    def _lag(self, node: Node) -> None:
        node.lag = self._rng.choice(LAGS)
        self.happened["node lags"] += 1

    def _stray(self, node: Node) -> None:
        """It stays on blocks that a reorg took."""
        if self.chain.left:
            node.fork = self.chain.left[-1]
            self.happened["node stays behind on a fork"] += 1

    def _forget(self, node: Node) -> None:
        """It prunes what lies so deep; while it is well again, it is another machine that answers."""
        node.first_block = max(0, self.chain.height - self._rng.choice(KEPT_BLOCKS))
        node.refuses = self._rng.random() < 0.5
        self.happened["node forgets"] += 1

    def _leave(self, node: Node) -> None:
        node.other_chain = True
        self.happened["node lies: is of another chain"] += 1

    def _set_clock(self, node: Node) -> None:
        node.ahead_s = self._rng.choice(AHEAD_S)
        self.happened["node lies: has a clock of its own"] += 1

    def _run_ahead(self, node: Node) -> None:
        """It has blocks that never were, and maybe a payment in them."""
        first = self.chain.blocks[-1]
        fork: list[FakeBlock] = []
        first_s = first.time_s + self._rng.choice((BLOCK_S, *AHEAD_S))
        for _ in range(self._rng.randrange(1, MADE_UP_MAX)):
            parent = fork[-1] if fork else first
            self._made_up += 1
            made = digest(f"made up {self._made_up}")
            time_s = parent.time_s + BLOCK_S if fork else first_s
            fork.append(FakeBlock(parent.number + 1, made, parent.hash, time_s, ()))
        if self._rng.random() < 0.5:
            fork[0] = replace(fork[0], transactions=self._payments())
        node.fork = fork
        self.happened["node lies: runs ahead"] += 1

    def _forge(self, node: Node) -> None:
        """It shows payments that never were, in the next block that there is."""
        forged = self._payments()
        if forged:
            node.forged[self.chain.height + 1] = list(forged)
            self.happened["node lies: forges"] += 1

    def _payments(self) -> tuple[Sent, ...]:
        """What the newest payments ask for, as if it was sent."""
        made = []
        for payment_id, (token, wallet, price) in self._prices().items():
            self._made_up += 1
            sender, tag = self._rng.choice(BUYERS), payment_tag(payment_id)
            one = token_transfer(price, tag, to=wallet, sender=sender, token=token)
            name = digest(f"forged {self._made_up}")
            made.append(Sent(sender, one.to, 0, one.input, one.logs, hash=name))
        return tuple(made)


def blocks_of(depth: Depth) -> int:
    """How many blocks deep a transfer lies that has been believed."""
    return depth if isinstance(depth, int) else {"safe": SAFE + 1, "finalized": FINAL + 1}[depth]
