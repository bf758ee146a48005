"""A chain under a seed: blocks that come as time goes by, a pool of transactions, reorgs, and what is final.

It says what is true; `nodes.py` has what nodes say of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import Final, NamedTuple

from payd.chains.evm.codec import keccak256, to_data
from tests.chains.fake_chain import FakeBlock, FakeLog, FakeTransaction

BLOCK_S: Final = 12
SAFE: Final = 6
FINAL: Final = 16
"""So many blocks below the newest one, a block is safe, and final: no reorg reaches it."""
STRANGER: Final = "0x" + "57" * 20
BEGINNING: Final = 40
"""Blocks that there are before anything happens."""
# What waits in the pool is in the next block, mostly.
MINED_SOON: Final = 0.8


class Authorized(NamedTuple):
    """What somebody signed and anybody may bring, once and until it ends: EIP-3009."""

    token: str
    sender: str
    recipient: str
    value: int
    valid_before_s: int
    nonce: bytes

    @property
    def name(self) -> tuple[str, str, bytes]:
        """By which a token knows it."""
        return self.token, self.sender, self.nonce


@dataclass(frozen=True)
class Sent(FakeTransaction):
    """A transaction that somebody signed; of one sender, two with the same nonce are never both mined.

    No block from before `sent_s` has it, whatever a reorg does. It fails where one of what it `uses` was used
    before, or has ended.
    """

    nonce: int = 0
    sent_s: int = 0
    uses: tuple[Authorized, ...] = ()


class Chain:
    """What is true.

    Args:
        rng: Which transactions a block has, and in which order.
        now_s: The time of the newest block at first, Unix seconds.

    Attributes:
        blocks: By number.
        pool: What waits to be mined, by hash.
        left: Blocks that a reorg took, newest reorg last; nodes may still stand there.
        lost: Transactions that a reorg took for good.
        made_s: When blocks were there, by hash: those of a reorg are older by their own time.
    """

    def __init__(self, rng: Random, now_s: int) -> None:
        self.blocks: list[FakeBlock] = []
        self.pool: dict[str, Sent] = {}
        self.left: list[list[FakeBlock]] = []
        self.lost: list[Sent] = []
        self.made_s: dict[str, int] = {}
        self._rng = rng
        self._sent = 0
        self._forks = 0
        self._by_hash: dict[str, FakeBlock] = {}
        self._mined: dict[str, FakeBlock] = {}
        self._others: dict[str, FakeBlock] = {}
        self._signed: dict[str, Sent] = {}
        self._believed: set[str] = set()
        for number in range(BEGINNING + 1):
            self.mine(now_s - (BEGINNING - number) * BLOCK_S)

    @property
    def height(self) -> int:
        """The number of the newest block."""
        return len(self.blocks) - 1

    def depth(self, name: str) -> int:
        """How many blocks below the newest one a tag points."""
        return {"latest": 0, "safe": SAFE, "finalized": FINAL}[name]

    def name(self) -> str:
        """The hash of the next transaction that is made."""
        self._sent += 1
        return digest(f"transaction {self._sent}")

    def send(self, transaction: Sent) -> None:
        """Put a transaction into the pool."""
        self.pool[transaction.hash] = transaction

    def mine(self, time_s: int, now_s: int | None = None) -> FakeBlock:
        """One block more, with what the pool has and a chance takes; `now_s` where that is not its time."""
        number = len(self.blocks)
        parent = self.blocks[-1] if self.blocks else None
        chosen = self._chosen(time_s)
        block = FakeBlock(
            number,
            digest(f"block {self._forks} {number}"),
            "0x" + "00" * 32 if parent is None else parent.hash,
            time_s if parent is None else max(time_s, parent.time_s + 1),
            (*self._carried_out(chosen, time_s), _strangers(f"{self._forks} {number}")),
        )
        self.blocks.append(block)
        self._by_hash[block.hash] = block
        self.made_s[block.hash] = block.time_s if now_s is None else now_s
        for transaction in block.transactions:
            if not isinstance(transaction, Sent):
                self._others[transaction.hash] = block
                continue
            self._mined[transaction.hash] = block
            self._signed[transaction.hash] = signed = self.pool.pop(transaction.hash)
            # No rival waits: a reorg would make a double spend of what may have lain deep enough.
            for rival in self._rivals(signed):
                del self.pool[rival]
        return block

    def reorg(self, depth: int, *, drops: int, now_s: int) -> None:
        """Other blocks in place of the newest ones, as many and one more.

        What was in them waits in the pool again. Only what never lay `drops` blocks deep may be lost: what
        did is believed, and may lie in the newest block since the reorg before.
        """
        assert 0 < depth < FINAL
        self._forks += 1
        taken, self.blocks = self.blocks[-depth:], self.blocks[:-depth]
        self.left.append(taken)
        for place, block in enumerate(taken):
            del self._by_hash[block.hash]
            for transaction in block.transactions:
                if not isinstance(transaction, Sent):
                    del self._others[transaction.hash]
                    continue
                del self._mined[transaction.hash]
                signed = self._signed.pop(transaction.hash)
                if len(taken) - place >= drops:
                    self._believed.add(signed.hash)
                if signed.hash not in self._believed and self._rng.random() < 0.3:
                    self.lost.append(signed)
                else:
                    self.pool[signed.hash] = signed
        for block in [*taken, taken[-1]]:
            self.mine(block.time_s, now_s)

    def block(self, block_hash: str) -> FakeBlock | None:
        """The block of that hash."""
        return self._by_hash.get(block_hash)

    def find(self, tx_hash: str) -> tuple[FakeBlock, FakeTransaction] | None:
        """Where a transaction is mined."""
        block = self._mined.get(tx_hash) or self._others.get(tx_hash)
        if block is None:
            return None
        return block, next(one for one in block.transactions if one.hash == tx_hash)

    def mined(self, up_to: int | None = None) -> Iterator[tuple[FakeBlock, Sent]]:
        """Every transaction in a block, in no order of blocks; `up_to` is the newest block that counts."""
        for tx_hash, block in self._mined.items():
            if up_to is None or block.number <= up_to:
                for one in block.transactions:
                    if one.hash == tx_hash and isinstance(one, Sent):
                        yield block, one

    def count_of(self, sender: str, up_to: int | None = None) -> int:
        """How many transactions of a sender are mined: its next nonce."""
        return sum(one.sender == sender for _, one in self.mined(up_to))

    def next_nonce(self, sender: str) -> int:
        """The first that is neither mined nor waits: after a loss it is that of what was lost."""
        waiting = {one.nonce for one in self.pool.values() if one.sender == sender}
        return next(nonce for nonce in count(self.count_of(sender)) if nonce not in waiting)

    def used(self, up_to: int | None = None) -> set[tuple[str, str, bytes]]:
        """What was authorized and is used."""
        return {each.name for _, one in self.mined(up_to) if one.status for each in one.uses}

    def _rivals(self, sent: Sent) -> list[str]:
        """What waits with the same nonce."""
        place = sent.sender, sent.nonce
        return [one.hash for one in self.pool.values() if (one.sender, one.nonce) == place]

    def _carried_out(self, chosen: list[Sent], time_s: int) -> Iterator[Sent]:
        used = self.used() if any(one.uses for one in chosen) else set()
        for one in chosen:
            if any(each.name in used or time_s >= each.valid_before_s for each in one.uses):
                yield replace(one, status=0, logs=())
            else:
                used.update(each.name for each in one.uses)
                yield one

    def _chosen(self, time_s: int) -> list[Sent]:
        """Of the pool, in the order of each sender's nonces; of two with one nonce, the other is gone."""
        counts: dict[str, int] = {}
        chosen: list[Sent] = []
        for one in sorted(self.pool.values(), key=self._turn):
            count = counts.setdefault(one.sender, self.count_of(one.sender))
            if one.nonce < count:
                del self.pool[one.hash]
            elif one.nonce == count and one.sent_s <= time_s and self._rng.random() < MINED_SOON:
                chosen.append(one)
                counts[one.sender] = count + 1
        self._rng.shuffle(chosen)
        return sorted(chosen, key=lambda one: one.nonce)

    def _turn(self, sent: Sent) -> tuple[int, bool, float]:
        """Of two with one nonce, what was believed comes again."""
        return sent.nonce, sent.hash not in self._believed, self._rng.random()


def _strangers(name: str) -> FakeTransaction:
    """What people do in each block who buy nothing here."""
    log = FakeLog(STRANGER, (keccak256(b"Lived()"),), b"")
    return FakeTransaction(STRANGER, STRANGER, logs=(log,), hash=digest(f"stranger {name}"))


def digest(words: str) -> str:
    """32 bytes that nothing else has."""
    return to_data(keccak256(words.encode()))
