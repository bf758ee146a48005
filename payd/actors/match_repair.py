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
from payd.store.chain_cursors import find_cursor
from payd.store.db import Database
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
        told = await told_by(self._rpc, self._name, lambda node: self._ask_one(node, tx_hash))
        outcome = self._problem(told)
        if outcome is not None:
            return MatchResult.of(outcome)
        transaction, receipt, block = told[0]
        assert transaction is not None
        assert receipt is not None
        assert block is not None
        watched = await self._watch_list.everything()
        seen = await self._reader.seen(transaction, receipt, block, watched)
        return await self._record(tx_hash, seen)

    async def _record(self, tx_hash: str, seen: Sequence[Seen]) -> MatchResult:
        if seen:
            await self._db.write(record, seen, self._clock.now_ms())
        return MatchResult.recorded(self._db.point(sightings_in, self._name, tx_hash))

    async def _ask_one(self, node: Node, tx_hash: str) -> _Told:
        return _Told(*await self._reader.transaction(node, tx_hash))

    def _problem(self, told: Sequence[_Told]) -> Outcome | None:
        """Why it cannot be recorded now; None where it can be."""
        first = told[0]
        if all(one.transaction is None and one.receipt is None for one in told):
            return "unknown"
        if all(one.receipt is None for one in told):
            return "not_mined"
        if any(_evidence(one) is None or _evidence(one) != _evidence(first) for one in told):
            return "disagreement"
        assert first.receipt is not None
        cursor = self._db.point(find_cursor, self._name, "head")
        if cursor is None or first.receipt.block_number > cursor.number:
            return "not_read_yet"
        return "reverted" if first.receipt.status != 1 else None


def _evidence(told: _Told) -> tuple[object, ...] | None:
    """What two nodes must agree on; None where a node does not agree with itself."""
    transaction, receipt, block = told
    if transaction is None or receipt is None or block is None:
        return None
    if {transaction.block_hash, receipt.block_hash} != {block.hash} or transaction.hash != receipt.tx_hash:
        return None
    return transaction, receipt.status, receipt.logs, block.hash, block.time_s
