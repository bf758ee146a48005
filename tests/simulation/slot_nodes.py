"""What Solana's nodes say under a seed: the truth, or what they are behind of, have forgotten, or make up."""

from __future__ import annotations

import copy
from dataclasses import replace
from random import Random
from typing import Any, Final

from solders.transaction import VersionedTransaction

from tests.live.svm_answers import read_key
from tests.live.svm_ledger import Block, Landing
from tests.live.svm_methods import FORWARDING_BLOCKS, MAINNET_GENESIS, SvmNode
from tests.live.svm_node import answered
from tests.receiver import Does, Received
from tests.simulation.moods import in_its_mood
from tests.simulation.slot_forks import Branch
from tests.simulation.slots import Slots

OTHER_GENESIS: Final = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG"
FAILED: Final = {"InstructionError": [1, {"Custom": 1}]}


class SlotNode(SvmNode):
    """One node.

    Args:
        chain: The truth.
        rng: Its moods.

    Attributes:
        moody: Whether it fails at times.
        is_down: It answers nothing.
        hides: Whether it lists no transaction.
        denies: Whether it knows none either.
        reverts: Whether it says of every transaction that it failed.
        more: By so much everybody has more tokens after a transaction than is true.
        ahead_s: By so much its times are ahead.
        ahead: By so many slots it is ahead of all.
        forged: Transactions that never were, by id.
        follows: A fork, which it takes for the chain as long as that lasts.
        lists_late: So many slots after it landed most of what it lists is listed, and the rest at once.
    """

    def __init__(self, chain: Slots, rng: Random) -> None:
        super().__init__(chain)
        self._rng = rng
        self.be_good()

    def be_good(self) -> None:
        """From now on it says what is true, at once."""
        self.moody = self.is_down = self.hides = self.denies = self.reverts = False
        self.lag = self.index_lag = self.first_slot = self.more = self.ahead_s = self.ahead = 0
        self.genesis, self.mode = MAINNET_GENESIS, "normal"
        self.forged: dict[str, Landing] = {}
        self.follows: Branch | None = None
        self.lists_late = 0

    @property
    def fork(self) -> Branch | None:
        """The one that it is on now."""
        return None if self.follows is None or self.follows.is_over else self.follows

    def __call__(self, received: Received) -> Does:
        """The script of a `Receiver`."""
        return in_its_mood(self, self._rng, lambda: Does(body=answered(self, received.body)))

    def tip(self, commitment: str = "processed") -> Block:
        """The newest block with that commitment, by its own word."""
        block = super().tip(commitment) if self.fork is None else self.fork.at(commitment)
        if not self.ahead and not self.ahead_s:
            return block
        return replace(
            block,
            slot=block.slot + self.ahead,
            height=block.height + self.ahead,
            time_s=block.time_s + self.ahead_s,
        )

    def known(self, tx_id: str, commitment: str = "processed") -> Landing | None:
        """A transaction that it has, and has not forgotten."""
        there = super().known(tx_id, commitment) if self.fork is None else self.fork.landed.get(tx_id)
        found = self.forged.get(tx_id) or there
        if found is None or not self.first_slot <= found.block.slot <= self.tip(commitment).slot:
            return None
        return found

    def naming(self, key: str, commitment: str) -> list[Landing]:
        """Transactions that name an account, newest first."""
        forged = [one for one in self.forged.values() if key in map(str, one.keys)]
        known = [one for one in forged if self.known(one.tx_id, commitment) is not None]
        there = super().naming(key, commitment) if self.fork is None else self._on(self.fork, key, commitment)
        newest = self.tip().slot
        listed = [one for one in there if one.block.slot <= newest - self._late(one)]
        return sorted([*known, *listed], key=lambda one: one.block.slot, reverse=True)

    def _on(self, fork: Branch, key: str, commitment: str) -> list[Landing]:
        found = fork.naming(read_key(key))
        return [one for one in found if self.known(one.tx_id, commitment) is not None]

    def _late(self, landing: Landing) -> int:
        """An index is written by many hands, in no order."""
        return self.lists_late if landing.raw[1] % 3 else 0

    def problem(self, tx: VersionedTransaction, block: Block) -> str | None:
        """As the fork has it, where it is on one."""
        if self.fork is None:
            return super().problem(tx, block)
        return self.fork.problem(tx, block, FORWARDING_BLOCKS)

    def ask(self, method: str, *params: Any) -> Any:
        """The result, as it has it."""
        said = super().ask(method, *params)
        match method:
            case "getSignaturesForAddress":
                return [] if self.hides else [self._told(one) for one in said]
            case "getTransaction" if said is not None:
                return None if self.denies else self._shown(said)
            case "getSignatureStatuses":
                return {**said, "value": [self._told(one) for one in said["value"]]}
        return said

    def _told(self, said: dict[str, Any] | None) -> dict[str, Any] | None:
        """A status, or an entry of a list."""
        if said is None or (self.denies and "signature" not in said):
            return None
        told = dict(said)
        if self.reverts:
            told["err"] = FAILED
        if "blockTime" in told:
            told["blockTime"] += self.ahead_s
        return told

    def _shown(self, said: dict[str, Any]) -> dict[str, Any]:
        shown = copy.deepcopy(said)
        shown["blockTime"] += self.ahead_s
        meta = shown["meta"]
        if self.reverts:
            meta["err"] = FAILED
        for one in meta["postTokenBalances"] if self.more else ():
            amount = one["uiTokenAmount"]
            amount["amount"] = str(int(amount["amount"]) + self.more)
        return shown
