"""Forks of Solana that nodes stay on for a while: blocks that the chain has others for, and what is in them.

Who follows one knows nothing of the chain's blocks from there on. Its root stands still: what is final is so
for all. What is sent reaches both, and lands in other slots here, or here alone.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

import base58
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from tests.live.svm_ledger import HASH_LIFE, Block, Landing

if TYPE_CHECKING:
    from tests.simulation.slots import Slots

# As on the chain: what waits is in the next block, mostly.
LANDS_SOON: Final = 0.6


class Branch:
    """A fork, from what the chain was before it turned.

    Args:
        chain: The truth, just before other blocks take the place of its newest.
        rng: What lands when.
        slots: It is followed for so many.
        confirms: Whether it has the votes, by the word of who follows it; else nothing of it is confirmed.

    Attributes:
        blocks: Oldest first.
        landed: Transactions by their id, in the order of its blocks.
        is_over: Whether nobody follows it any more.
    """

    def __init__(self, chain: Slots, rng: Random, slots: int, *, confirms: bool) -> None:
        self._chain = chain
        self._rng = rng
        self._left = slots
        self._confirms = confirms
        self._stopped = {one: chain.at(one) for one in chain.depth}
        self._waiting: dict[str, bytes] = dict(chain.pool)
        self.blocks = list(chain.blocks)
        self.landed: dict[str, Landing] = dict(chain.landed)

    @property
    def is_over(self) -> bool:
        """See above."""
        return self._left <= 0

    def at(self, commitment: str) -> Block:
        """The newest block with that commitment, by its own word."""
        if commitment == "finalized" or (commitment == "confirmed" and not self._confirms):
            return self._stopped[commitment]
        return self.blocks[-1 - self._chain.depth[commitment]]

    def send(self, tx_id: str, raw: bytes) -> None:
        """Have a transaction wait for a block of its own."""
        self._waiting[tx_id] = raw

    def tick(self) -> None:
        """One more block, in the chain's newest slot."""
        self._left -= 1
        before, tip = self.blocks[-1], self._chain.tip
        text = f"{before.hash} {tip.slot}".encode()
        block_hash = base58.b58encode(hashlib.sha256(text).digest()).decode()
        self.blocks.append(Block(tip.slot, before.height + 1, block_hash, tip.time_s))
        for tx_id, raw in list(self._waiting.items()):
            if self._rng.random() < LANDS_SOON:
                del self._waiting[tx_id]
                self._land(tx_id, raw)

    def problem(self, tx: VersionedTransaction, block: Block, spare: int = 0) -> str | None:
        """Why no block of its own takes it; the arguments are those of `Ledger.problem`."""
        if str(tx.signatures[0]) in self.landed:
            return "AlreadyProcessed"
        blockhash = str(tx.message.recent_blockhash)
        born = next((one.height for one in reversed(self.blocks) if one.hash == blockhash), None)
        is_fresh = born is not None and born <= block.height <= born + HASH_LIFE - spare
        return None if is_fresh else "BlockhashNotFound"

    def _land(self, tx_id: str, raw: bytes) -> None:
        """It does here what it did on the chain, or would do."""
        if self.problem(VersionedTransaction.from_bytes(raw), self.blocks[-1]) is not None:
            return
        found = self._chain.landed.get(tx_id) or self._chain.made_up(raw)
        if found is not None:
            self.landed[tx_id] = replace(found, block=self.blocks[-1])

    def naming(self, key: Pubkey) -> list[Landing]:
        """What names an account, newest first."""
        return [one for one in reversed(self.landed.values()) if key in one.keys]
