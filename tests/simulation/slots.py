"""A Solana chain under a seed: slots that come as time goes by, what waits for one, and forks.

It says what is true; `slot_nodes.py` has what nodes say of it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random
from typing import Final

from solders.transaction import VersionedTransaction

from tests.live.solana import tx_id_of
from tests.live.svm_ledger import Landing, Ledger
from tests.simulation.slot_forks import Branch

SLOT_S: Final = 0.4
CONFIRMED: Final = 2
FINAL: Final = 32
"""So many blocks on top of one make it confirmed, and final: no fork reaches it."""
# What waits is in the next block, mostly; some slots have none.
LANDS_SOON: Final = 0.6
SKIPPED: Final = 0.05
# Of what is sent, and of what a fork took, so much is never heard of again.
LOST: Final = 0.08
LOST_BY_FORKS: Final = 0.3
# Wallets before it have names.
FIRST_PLACE: Final = 100


class Slots(Ledger):
    """What is true.

    Args:
        rng: What lands when, and what is lost.
        now_s: Unix seconds.

    Attributes:
        pool: What waits for a block, by its id.
        seen: All that was ever sent, oldest first, which anybody may send again.
        branches: Forks that nodes follow.
        is_calm: Whether nothing is lost any more.
    """

    def __init__(self, rng: Random, now_s: Callable[[], float]) -> None:
        super().__init__(CONFIRMED, FINAL, seed=rng.randbytes(16), now_s=now_s)
        self.pool: dict[str, bytes] = {}
        self.seen: list[bytes] = []
        self.branches: list[Branch] = []
        self.is_calm = False
        self._rng = rng
        self._places = count(FIRST_PLACE)

    def next_place(self) -> int:
        """Of a wallet that nobody has used."""
        return next(self._places)

    def land(self, raw: bytes, *, leaves_after: int | None = None) -> Landing | None:
        """Take what a node is sent; it may land later, as anything that is sent."""
        assert leaves_after is None
        self.send(raw)
        return None

    def send(self, raw: bytes) -> None:
        """Have it wait for a block, unless the network loses it; forks lose nothing."""
        self.seen.append(raw)
        for branch in self.branches:
            branch.send(tx_id_of(raw), raw)
        if self.is_calm or self._rng.random() >= LOST:
            self.pool[tx_id_of(raw)] = raw

    def made_up(self, raw: bytes) -> Landing | None:
        """What it would be, had the newest block taken it, whatever its blockhash; it has not."""
        tx = VersionedTransaction.from_bytes(raw)
        landing = None if tx_id_of(raw) in self.landed else self._execute(raw, tx, self.tip)
        if landing is not None:
            self._undo({landing.tx_id})
        return landing

    def tick(self) -> None:
        """One more block, with what waits and a chance takes."""
        self.advance(skipped=int(self._rng.random() < SKIPPED))
        waiting = list(self.pool.items())
        self._rng.shuffle(waiting)
        for tx_id, raw in waiting:
            if self.problem(VersionedTransaction.from_bytes(raw)) is not None:
                del self.pool[tx_id]  # It has landed, or is too old.
            elif self._rng.random() < LANDS_SOON:
                super().land(raw)
                del self.pool[tx_id]
        for branch in self.branches:
            branch.tick()
        self.branches = [one for one in self.branches if not one.is_over]

    def branch(self, slots: int, *, confirms: bool) -> Branch:
        """What the chain is now, for nodes to follow so long, whatever it turns to; see `Branch`."""
        made = Branch(self, self._rng, slots, confirms=confirms)
        self.branches.append(made)
        return made

    def reorg(self, depth: int) -> None:
        """Other blocks in place of so many of the newest; most of what was in them waits again."""
        first = self.blocks[-depth]
        taken = [one for one in self.landed.values() if one.block.height >= first.height]
        self.fork(depth)
        for one in taken:
            if self._rng.random() >= LOST_BY_FORKS:
                self.pool[one.tx_id] = one.raw
