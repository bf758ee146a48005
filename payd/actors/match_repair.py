"""Repair by hand: a transaction whose id somebody pastes is read, proven, recorded, and matched.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from payd.actors.walk import MatchResult, Outcome, told_by
from payd.actors.watch_list import WatchList
from payd.chains.evm.answers import Block, Receipt, Transaction
from payd.chains.evm.codec import from_hash
from payd.chains.evm.reading import Reader
from payd.chains.rpc import Node, Rpc
from payd.chains.rpc_errors import BadAnswer
from payd.clock import Clock
from payd.core.caip import ChainId
from payd.core.errors import InvalidParams
from payd.store.chain_cursors import Cursor, find_cursor, kept_hash
from payd.store.db import Database, Tx
from payd.store.sightings import Seen, record, sightings_in


class _Told(NamedTuple):
    """What one node says of a transaction."""

    transaction: Transaction | None
    receipt: Receipt | None
    block: Block | None


class MatchRepair:
    """Of one chain."""

    def __init__(
        self, db: Database, clock: Clock, rpc: Rpc, chain: ChainId, reader: Reader, watch_list: WatchList
    ) -> None:
        self._db = db
        self._clock = clock
        self._rpc = rpc
        self._name = str(chain)
        self._reader = reader
        self._watch_list = watch_list

    async def match(self, tx_id: str) -> MatchResult:
        """Read a transaction and record what it paid; see `Watcher.match`."""
        try:
            tx_hash = from_hash(tx_id.strip(), "the transaction id")
        except BadAnswer:
            raise InvalidParams("A transaction id of this chain is 0x and 64 hex digits.") from None
        read = self._db.point(find_cursor, self._name, "head")
        told = await told_by(self._rpc, lambda node: self._ask_one(node, tx_hash), _evidence)
        outcome = self._problem(told, read)
        if outcome is not None:
            return MatchResult.of(outcome)
        transaction, receipt, block = told[0]
        assert read is not None
        assert transaction is not None
        assert receipt is not None
        assert block is not None
        watched = await self._watch_list.everything()
        seen = await self._reader.seen(transaction, receipt, block, watched)
        if seen and not await self._db.write(_record, seen, read, self._clock.now_ms()):
            return MatchResult.of("disagreement")
        return MatchResult.recorded(self._db.point(sightings_in, self._name, tx_hash))

    async def _ask_one(self, node: Node, tx_hash: str) -> _Told:
        return _Told(*await self._reader.transaction(node, tx_hash))

    def _problem(self, told: Sequence[_Told], read: Cursor | None) -> Outcome | None:
        """Why it cannot be recorded now; None where it can be. `read`: up to where the chain was."""
        first = told[0]
        if all(one.transaction is None and one.receipt is None for one in told):
            return "unknown"
        if all(one.receipt is None for one in told):
            return "not_mined"
        if any(_evidence(one) is None or _evidence(one) != _evidence(first) for one in told):
            return "disagreement"
        assert first.receipt is not None
        if read is None or first.receipt.block_number > read.number:
            return "not_read_yet"
        return "reverted" if first.receipt.status != 1 else None


def _record(tx: Tx, seen: Sequence[Seen], read: Cursor, now_ms: int) -> bool:
    """Store what a transaction paid, in a block of the chain as it was read; False where that is another one.

    Nobody would take back what is stored of another fork: not the reorg, which was followed before, and not
    the nodes, which do not have that block. It would stand in the way of what the buyer pays on this one.
    """
    chain = seen[0].chain
    if kept_hash(tx, chain, read.number) != read.hash:
        return False
    if any(kept_hash(tx, chain, one.block_number) not in (None, one.block_hash) for one in seen):
        return False
    record(tx, seen, now_ms)
    return True


def _evidence(told: _Told) -> tuple[object, ...] | None:
    """What two nodes must agree on; None where a node does not agree with itself."""
    transaction, receipt, block = told
    if transaction is None or receipt is None or block is None:
        return None
    if {transaction.block_hash, receipt.block_hash} != {block.hash} or transaction.hash != receipt.tx_hash:
        return None
    if receipt.block_number != block.number:
        return None
    return transaction, receipt.status, receipt.logs, block.hash, block.number, block.time_s
