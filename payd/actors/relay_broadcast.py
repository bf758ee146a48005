"""Sends signed transactions to every node, lowest nonce first, and makes one answer of what the nodes say.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec
import structlog
import trio

from payd.chains.rpc import Rpc, Sent, Verdict
from payd.clock import Clock
from payd.store.db import Database
from payd.store.relay_transactions import OpenTransaction, note_sent

log = structlog.get_logger("payd.relayer")

# A node that hangs must not hold up the next nonce; a healthy one has answered by then.
STAGGER_S: Final = 0.25
# What no node took is sent again this soon.
REFUSED_WAIT_MS: Final = 5_000
# Of what several nodes say, this is heard first.
LOUDEST: Final[tuple[Verdict, ...]] = (
    "ok",
    "known",
    "underpriced",
    "fee_low",
    "nonce_high",
    "no_funds",
    "nonce_low",
    "expired",
    "other",
    "down",
)
TAKEN: Final[frozenset[Verdict]] = frozenset({"ok", "known"})


class Heard(msgspec.Struct, frozen=True):
    """What the nodes made of a transaction; `words` of the one that was loudest."""

    verdict: Verdict
    words: str

    @property
    def is_out(self) -> bool:
        """Whether a node has it."""
        return self.verdict in TAKEN


class Broadcaster:
    """Sends the newest form of transactions.

    Args:
        db: Where it notes that a node took one.
        clock: The realm's.
        rpc: The nodes.
    """

    def __init__(self, db: Database, clock: Clock, rpc: Rpc) -> None:
        self._db = db
        self._clock = clock
        self._rpc = rpc
        self._tried: dict[str, tuple[int, Verdict]] = {}

    def is_due(self, transaction: OpenTransaction, every_ms: int) -> bool:
        """Whether its newest form was not sent for so long, or never by this process."""
        tried = self._tried.get(transaction.newest.hash)
        if tried is None:
            return True
        at_ms, verdict = tried
        if verdict in TAKEN and transaction.newest.sent_at_ms is None:
            return True  # A reorg took it back.
        wait_ms = every_ms if verdict in TAKEN else min(every_ms, REFUSED_WAIT_MS)
        # The wall clock may have been set back since.
        return not 0 <= self._clock.now_ms() - at_ms < wait_ms

    def keep_only(self, transactions: Collection[OpenTransaction]) -> None:
        """Forget when others were sent."""
        kept = {transaction.newest.hash for transaction in transactions}
        self._tried = {one: tried for one, tried in self._tried.items() if one in kept}

    async def send(self, transactions: Sequence[OpenTransaction]) -> dict[int, Heard]:
        """Send each to all nodes, in the order of nonces. Returns what was heard of each, by its number."""
        heard: dict[int, Heard] = {}
        async with trio.open_nursery() as nursery:
            for transaction in sorted(transactions, key=lambda one: one.nonce):
                done = trio.Event()
                nursery.start_soon(self._send_one, transaction, heard, done)
                with trio.move_on_after(STAGGER_S):
                    await done.wait()
        out = [one.newest.hash for one in transactions if heard[one.seq].is_out]
        if out:
            await self._db.write(note_sent, out, self._clock.now_ms())
        return heard

    async def _send_one(
        self, transaction: OpenTransaction, heard: dict[int, Heard], done: trio.Event
    ) -> None:
        attempt = transaction.newest
        before = self._tried.get(attempt.hash)
        one = heard[transaction.seq] = loudest(await self._rpc.broadcast(attempt.raw))
        self._tried[attempt.hash] = (self._clock.now_ms(), one.verdict)
        done.set()
        facts = {"hash": attempt.hash, "nonce": transaction.nonce, "verdict": one.verdict, "words": one.words}
        if before is not None and before[1] == one.verdict:
            log.debug("relayer.sent_again", **facts)
        elif one.is_out:
            log.info("relayer.sent", **facts)
        else:
            log.warning("relayer.not_taken", **facts)


def loudest(answers: Sequence[Sent]) -> Heard:
    """One answer out of what each node said."""
    first = min(answers, key=lambda sent: LOUDEST.index(sent.verdict))
    return Heard(first.verdict, first.message)
