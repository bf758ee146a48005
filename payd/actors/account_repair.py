"""Single transactions of a Solana chain: what somebody tells of is read, proven, recorded, and matched.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import structlog

from payd.actors.account_list import AccountList
from payd.actors.account_reading import AccountReader, name_of, slot_max
from payd.actors.walk import MatchResult, Outcome, told_by
from payd.chains.rpc import Node, NodesDown, Rpc
from payd.chains.rpc_errors import BadAnswer
from payd.chains.solana.answers import Landed, Status, decode_landed, decode_statuses, from_signature
from payd.chains.solana.asking import statuses_call, transaction_call
from payd.chains.unread import Unread, good
from payd.clock import Clock
from payd.core.caip import ChainId
from payd.core.errors import InvalidParams
from payd.store.chain_cursors import Cursor, find_cursor
from payd.store.db import Database
from payd.store.sightings import Noted, record, sightings_in

log = structlog.get_logger("payd.watcher")


class _Told(NamedTuple):
    """What one node says of a transaction."""

    landed: Landed | None
    status: Status | None


class AccountRepair:
    """Of one chain."""

    def __init__(
        self,
        db: Database,
        clock: Clock,
        rpc: Rpc,
        chain: ChainId,
        reader: AccountReader,
        accounts: AccountList,
    ) -> None:
        self._db = db
        self._clock = clock
        self._rpc = rpc
        self._name = str(chain)
        self._reader = reader
        self._accounts = accounts

    async def found(self, tx_id: str) -> Sequence[Noted]:
        """Read a transaction from whichever node has it; nothing where none does. See `Watcher.found`."""
        for node in self._rpc.nodes:
            if not node.is_healthy:
                continue
            try:
                landed = (await self._ask_one(node, tx_id)).landed
            except (NodesDown, Unread, BadAnswer) as trouble:
                log.debug("chain.hint_not_read", node=node.name, tx_id=tx_id, why=str(trouble))
                continue
            if landed is not None and landed.slot <= slot_max(self._at(), self._clock.now_ms()):
                if self._pays_there(landed):
                    return ()
                seen = await self._reader.seen([landed], await self._accounts.now(), self._at())
                return await self._db.write(record, seen, self._clock.now_ms()) if seen else ()
        return ()

    def _pays_there(self, landed: Landed) -> bool:
        """Whether it is stored, where it is, as what pays: one node's word for something else is none."""
        stored = self._db.point(sightings_in, self._name, landed.tx_id)
        return any(one.kind == "matched" and one.block_hash == name_of(landed.slot) for one in stored)

    async def match(self, tx_id: str) -> MatchResult:
        """Read a transaction and record what it paid; see `Watcher.match`."""
        try:
            signature = from_signature(tx_id.strip())
        except BadAnswer:
            words = "A transaction id of this chain is a signature: 64 bytes in base58, up to 88 letters."
            raise InvalidParams(words) from None
        told = await told_by(self._rpc, lambda node: self._ask_one(node, signature), _shown)
        outcome = self._problem(told)
        if outcome is not None:
            return MatchResult.of(outcome)
        landed = told[0].landed
        assert landed is not None
        seen = await self._reader.seen([landed], await self._accounts.everything(), self._at())
        if seen:
            await self._db.write(record, seen, self._clock.now_ms())
        return MatchResult.recorded(self._db.point(sightings_in, self._name, signature))

    async def _ask_one(self, node: Node, tx_id: str) -> _Told:
        calls = [transaction_call(tx_id), statuses_call([tx_id])]
        landed, statuses = await self._rpc.batch(calls, node=node)
        return _Told(decode_landed(good(landed), tx_id), decode_statuses(good(statuses), 1)[1][0])

    def _problem(self, told: Sequence[_Told]) -> Outcome | None:
        """Why it cannot be recorded now; None where it can be."""
        first = told[0].landed
        if all(one.landed is None for one in told):
            return "unknown" if all(one.status is None for one in told) else "not_mined"
        if first is None or any(_evidence(one.landed) != _evidence(first) for one in told):
            return "disagreement"
        if first.slot > self._at().number:
            return "not_read_yet"
        return None if first.err is None else "reverted"

    def _at(self) -> Cursor:
        """Up to where the chain was read."""
        return self._db.point(find_cursor, self._name, "head") or Cursor(0, "", 0)


def _shown(told: _Told) -> tuple[object, ...] | None:
    return _evidence(told.landed)


def _evidence(landed: Landed | None) -> tuple[object, ...] | None:
    """What two nodes must agree on; not every node knows when a slot was."""
    if landed is None:
        return None
    tokens = [sorted(some, key=lambda one: one.index) for some in (landed.pre_tokens, landed.post_tokens)]
    return landed.raw, landed.slot, landed.err, landed.keys, landed.pre, landed.post, tokens
